//! Restart, backoff, quarantine, storm, and what becomes of the supervisor itself.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_crash_starts_a_fresh_incarnation_behind_the_same_address() {
    let world = World::new(UNTIRING).await;
    let (address, control) = world.worker("1", POLICY).await;
    address.cast(Tell::Add(5)).unwrap();
    assert_eq!(address.call(Tell::Sum, SOON).await, Ok(5));
    for (tell, text) in [(Tell::Fail, "told to fail"), (Tell::Panic, "on purpose")] {
        let before = control.starts();
        address.cast(tell).unwrap();
        pass(200).await;
        assert_eq!(control.starts(), before + 1);
        assert_eq!(address.probe().last_error().unwrap().text, text);
        assert_eq!(address.call(Tell::Sum, SOON).await, Ok(0));
    }
    assert_eq!(address.probe().restarts(), 2);
    assert_eq!(
        control.stops.load(SeqCst),
        0,
        "a crash is not an orderly end"
    );
}

#[tokio::test(start_paused = true)]
async fn delays_grow_and_the_first_is_none() {
    let world = World::new(UNTIRING).await;
    let (address, control) = world.worker("1", POLICY).await;
    address.cast(Tell::Fail).unwrap();
    pass(1).await;
    assert_eq!(
        (control.starts(), address.probe().phase()),
        (2, Phase::Running)
    );
    for (starts, shortest, longest) in [(3, 50, 100), (4, 100, 200), (5, 200, 400)] {
        address.cast(Tell::Fail).unwrap();
        pass(shortest - 1).await;
        assert_eq!(address.probe().phase(), Phase::Backoff);
        assert_eq!(address.cast(Tell::Add(1)), Err(NotDelivered::Down));
        pass(longest - shortest + 5).await;
        assert_eq!(
            (control.starts(), address.probe().phase()),
            (starts, Phase::Running)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_bad_child_is_quarantined_and_its_siblings_never_notice() {
    let world = World::new(UNTIRING).await;
    let (bad, control) = world.worker("bad", POLICY).await;
    let (good, other) = world.worker("good", POLICY).await;
    good.cast(Tell::Add(3)).unwrap();
    control.fails.store(true, SeqCst);
    bad.cast(Tell::Fail).unwrap();
    pass(20_000).await;
    assert_eq!(bad.probe().phase(), Phase::Quarantined);
    assert_eq!(bad.probe().last_error().unwrap().text, "cannot recover");
    assert_eq!(control.starts(), 5);
    assert_eq!(
        (other.starts(), good.call(Tell::Sum, SOON).await),
        (1, Ok(3))
    );

    assert_eq!(
        world.node.kill("worker/bad").unwrap_err().code(),
        "actor-not-running"
    );
    assert_eq!(
        world.node.retry("worker/good").unwrap_err().code(),
        "actor-not-quarantined"
    );
    assert_eq!(
        world.node.kill("root").unwrap_err().code(),
        "actor-not-running"
    );
    control.fails.store(false, SeqCst);
    world.node.retry("worker/bad").unwrap();
    pass(10).await;
    assert_eq!(bad.probe().phase(), Phase::Running);
    bad.cast(Tell::Fail).unwrap();
    pass(10).await;
    assert_eq!(
        bad.probe().phase(),
        Phase::Running,
        "a retry begins with a clean slate"
    );
}

#[tokio::test(start_paused = true)]
async fn a_quarantine_ends_by_itself_after_its_time() {
    let world = World::new(UNTIRING).await;
    let (address, control) = world.worker("1", POLICY).await;
    control.fails.store(true, SeqCst);
    address.cast(Tell::Fail).unwrap();
    pass(20_000).await;
    control.fails.store(false, SeqCst);
    pass(300_000).await;
    assert_eq!(address.probe().phase(), Phase::Running);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_dependency_never_leads_to_quarantine() {
    let world = World::new(UNTIRING).await;
    let (address, control) = world.worker("1", POLICY).await;
    control.waits.store(true, SeqCst);
    address.cast(Tell::Fail).unwrap();
    pass(50_000).await;
    assert!(control.starts() > 20, "only {} starts", control.starts());
    assert_eq!(address.probe().phase(), Phase::Waiting);
    assert_eq!(
        address.probe().last_error().unwrap().text,
        "waits for its dependency"
    );
    control.waits.store(false, SeqCst);
    pass(2_100).await;
    assert_eq!(address.probe().phase(), Phase::Running);
}

#[tokio::test(start_paused = true)]
async fn restart_rules_tell_an_orderly_end_from_a_kill() {
    for (restart, after_end, after_kill) in [
        (Restart::Always, true, true),
        (Restart::OnFailure, false, true),
        (Restart::Never, false, false),
    ] {
        for (kills, lives_on) in [(false, after_end), (true, after_kill)] {
            let world = World::new(UNTIRING).await;
            let (address, control) = world.worker("1", Policy { restart, ..POLICY }).await;
            pass(1).await;
            if kills {
                world.node.kill("worker/1").unwrap();
            } else {
                address.cast(Tell::Leave).unwrap();
            }
            pass(200).await;
            let wanted = if lives_on { (2, 2) } else { (1, 1) };
            assert_eq!(
                (control.starts(), world.node.actors()),
                wanted,
                "{restart:?} {kills}"
            );
            assert_eq!(address.cast(Tell::Add(1)).is_ok(), lives_on);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_storm_of_crashes_brings_down_a_supervisor_that_escalates() {
    let world = World::new(Limits {
        storm_max: 5,
        ..UNTIRING
    })
    .await;
    let mut workers = Vec::new();
    for id in 0..10 {
        workers.push(world.worker(&id.to_string(), POLICY).await);
    }
    for (address, _control) in &workers {
        address.cast(Tell::Fail).unwrap();
    }
    let why = world.root.ended().await.unwrap();
    assert!(
        why.starts_with("restart storm, last worker/5: told to fail"),
        "{why}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_storm_in_a_shard_is_spread_over_time() {
    let limits = Limits {
        storm_max: 5,
        on_storm: OnStorm::Spread(Duration::from_secs(1)),
        ..UNTIRING
    };
    let world = World::new(limits).await;
    let mut workers = Vec::new();
    for id in 0..50 {
        workers.push(world.worker(&id.to_string(), POLICY).await);
    }
    workers
        .iter()
        .for_each(|(address, _)| address.cast(Tell::Fail).unwrap());
    pass(1).await;
    let running = || {
        let phases = workers.iter().map(|(address, _)| address.probe().phase());
        phases.filter(|phase| *phase == Phase::Running).count()
    };
    assert!((5..15).contains(&running()), "{} at once", running());
    pass(1_000).await;
    assert_eq!(running(), 50);
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_escalates_ends_the_tree_and_says_why() {
    let world = World::new(UNTIRING).await;
    let (wal, _control) = world
        .worker(
            "wal",
            Policy {
                mailbox_max: 10,
                ..Policy::WAL
            },
        )
        .await;
    for _ in 0..3 {
        wal.cast(Tell::Fail).unwrap();
        pass(50).await;
    }
    let why = world.root.ended().await.unwrap();
    assert_eq!(why, "worker/wal crashed too often: told to fail");
}

#[tokio::test(start_paused = true)]
async fn a_supervisor_that_dies_starts_exactly_the_wanted_children_again() {
    let world = World::new(UNTIRING).await;
    let middle = world
        .root
        .supervisor()
        .spawn_supervisor(Key::new("shard", "a"), UNTIRING)
        .unwrap();
    let mut controls = Vec::new();
    for id in 0..3 {
        let control = Arc::new(Control::default());
        let key = Key::numbered(Worker::KIND, id);
        let worker = Worker(control.clone());
        middle.spawn(key, None, worker, POLICY).unwrap();
        controls.push(control);
    }
    pass(1).await;
    middle
        .stop_and_wait(&Key::numbered(Worker::KIND, 1), SOON)
        .await
        .unwrap();
    world.node.kill("shard/a").unwrap();
    let late = Arc::new(Control::default());
    let key = Key::numbered(Worker::KIND, 3);
    middle
        .spawn(key, None, Worker(late.clone()), POLICY)
        .unwrap();
    pass(100).await;
    let starts: Vec<u32> = controls.iter().map(|control| control.starts()).collect();
    assert_eq!((starts, late.starts()), (vec![2, 1, 2], 1));
    let page = world.node.page(&Filter::default(), None, 100);
    let keys: Vec<String> = page.rows.iter().map(|row| row.key.to_string()).collect();
    assert_eq!(
        keys,
        ["root", "shard/a", "worker/0", "worker/2", "worker/3"]
    );
    assert!(
        page.rows.iter().all(|row| row.phase == Phase::Running),
        "{page:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_key_is_taken_until_its_actor_has_ended() {
    let world = World::new(UNTIRING).await;
    let (_address, control) = world.worker("1", POLICY).await;
    let key = Key::new(Worker::KIND, "1");
    let supervisor = world.root.supervisor();
    let again = supervisor.spawn(key.clone(), None, Worker::default(), POLICY);
    assert_eq!(again.unwrap_err(), Refusal::Exists(key.clone()));
    supervisor.stop_and_wait(&key, SOON).await.unwrap();
    assert_eq!(control.stops.load(SeqCst), 1);
    assert_eq!(supervisor.stop(&key).unwrap_err().code(), "actor-unknown");
    world.worker("1", POLICY).await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_during_a_delay_stays_stopped() {
    let world = World::new(UNTIRING).await;
    let (address, control) = world.worker("1", POLICY).await;
    for _ in 0..2 {
        address.cast(Tell::Fail).unwrap();
        pass(1).await;
    }
    assert_eq!(address.probe().phase(), Phase::Backoff);
    let key = Key::new(Worker::KIND, "1");
    world
        .root
        .supervisor()
        .stop_and_wait(&key, SOON)
        .await
        .unwrap();
    pass(10_000).await;
    assert_eq!((control.starts(), world.node.actors()), (2, 1));
    assert_eq!(address.probe().phase(), Phase::Stopped);
}
