//! What a sender learns, and what waits.

use super::*;

#[tokio::test(start_paused = true)]
async fn overload_is_refused_and_a_kill_empties_the_mailbox() {
    let world = World::new(UNTIRING).await;
    let (address, _control) = world.worker("1", POLICY).await;
    address.cast(Tell::Hold(SOON)).unwrap();
    pass(1).await;
    let sent: Vec<_> = (0..12).map(|_| address.cast(Tell::Add(1))).collect();
    assert_eq!(sent.iter().filter(|sent| sent.is_ok()).count(), 10);
    assert_eq!(sent[10], Err(NotDelivered::Overloaded));
    assert_eq!(address.probe().depth(), 10);
    assert!(address.probe().in_handler_since_ns().is_some());
    world.node.kill("worker/1").unwrap();
    pass(5).await;
    assert_eq!(
        (address.probe().depth(), address.probe().phase()),
        (0, Phase::Running)
    );
    assert_eq!(address.probe().in_handler_since_ns(), None);
}

#[tokio::test(start_paused = true)]
async fn the_caller_of_a_killed_actor_learns_that_nobody_knows() {
    let world = World::new(UNTIRING).await;
    let (address, _control) = world.worker("1", POLICY).await;
    address.cast(Tell::Hold(SOON)).unwrap();
    let caller = address.clone();
    let call = tokio::spawn(async move { caller.call(Tell::Sum, SOON).await });
    pass(1).await;
    world.node.kill("worker/1").unwrap();
    let begin = tokio::time::Instant::now();
    assert_eq!(call.await.unwrap(), Err(CallError::Unknown(Unknown::Ended)));
    assert!(
        begin.elapsed() < Duration::from_secs(1),
        "not after the timeout"
    );
}

#[tokio::test(start_paused = true)]
async fn calls_end_in_time_and_tell_their_cases_apart() {
    let world = World::new(UNTIRING).await;
    let (address, _control) = world.worker("1", POLICY).await;
    let within = Duration::from_secs(1);
    let forgotten = address.call(Tell::Forget, within).await;
    assert_eq!(forgotten, Err(CallError::Unknown(Unknown::Ended)));
    address.cast(Tell::Hold(SOON)).unwrap();
    let late = address.call(Tell::Sum, within).await;
    assert_eq!(late, Err(CallError::Unknown(Unknown::Late)));
    let key = Key::new(Worker::KIND, "1");
    world
        .root
        .supervisor()
        .stop_and_wait(&key, SOON)
        .await
        .unwrap();
    let gone = address.call(Tell::Sum, within).await;
    assert_eq!(gone, Err(CallError::NotDelivered(NotDelivered::Down)));
}

#[tokio::test(start_paused = true)]
async fn an_address_is_found_by_key_and_by_type() {
    let world = World::new(UNTIRING).await;
    let (_address, _control) = world.worker("1", POLICY).await;
    let key = Key::new(Worker::KIND, "1");
    let found: Address<Tell> = world.node.address(&key).unwrap();
    found.cast(Tell::Add(2)).unwrap();
    assert_eq!(found.call(Tell::Sum, SOON).await, Ok(2));
    assert!(world.node.address::<u64>(&key).is_none(), "of another type");
    assert!(
        world
            .node
            .address::<Tell>(&Key::new(Worker::KIND, "2"))
            .is_none()
    );
}

#[test]
fn admission_is_exact() {
    let door = Admission::new("door", 3);
    let mut inside: Vec<Permit> = (0..3).map(|_| door.enter().unwrap()).collect();
    let refusal = door.enter().unwrap_err();
    assert_eq!(
        refusal,
        Refusal::Overloaded {
            door: "door",
            bound: 3
        }
    );
    assert_eq!(
        (refusal.code(), door.in_flight(), door.refused()),
        ("overloaded", 3, 1)
    );
    inside.pop();
    inside.push(door.enter().unwrap());
    assert!(door.enter().is_err());
    inside.clear();
    assert_eq!(door.in_flight(), 0);
    assert!(Admission::new("shut", 0).enter().is_err());
    assert!(Admission::new("wide", usize::MAX).enter().is_ok());
}

#[test]
fn admission_never_lets_more_in_from_many_threads() {
    let door = Admission::new("door", 5);
    let inside = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..2_000 {
                    let Ok(permit) = door.enter() else { continue };
                    assert!(inside.fetch_add(1, SeqCst) < 5);
                    inside.fetch_sub(1, SeqCst);
                    drop(permit);
                }
            });
        }
    });
    assert_eq!(door.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_change_tells_when_a_place_is_worth_another_try() {
    let world = World::new(UNTIRING).await;
    let key = Key::new(Worker::KIND, "1");
    let supervisor = world.root.supervisor();
    let address = supervisor
        .spawn(key.clone(), None, Worker::default(), POLICY)
        .unwrap();
    let change = address.change();
    assert_eq!(
        address.cast(Tell::Add(1)),
        Err(NotDelivered::Down),
        "it has not started yet"
    );
    change.await;
    assert_eq!(address.call(Tell::Sum, SOON).await, Ok(0));
    let change = address.change();
    supervisor.stop(&key).unwrap();
    tokio::time::timeout(SOON, change)
        .await
        .expect("whoever waits hears that it is gone");
    assert!(world.node.address::<Tell>(&key).is_none());
}
