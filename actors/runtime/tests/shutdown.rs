//! Ordered, bounded ends.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_stuck_child_is_killed_in_time_and_the_others_end_in_order() {
    let world = World::new(Limits {
        stop_order: StopOrder::Together,
        ..UNTIRING
    })
    .await;
    let mut controls = Vec::new();
    for id in 0..5 {
        let (address, control) = world.worker(&id.to_string(), POLICY).await;
        if id == 2 {
            address
                .cast(Tell::Hold(Duration::from_secs(3_600)))
                .unwrap();
        }
        controls.push(control);
    }
    pass(1).await;
    let begin = tokio::time::Instant::now();
    assert_eq!(world.root.shutdown().await, 1);
    assert!(begin.elapsed() < POLICY.stop_within + Duration::from_millis(10));
    let stops: Vec<u32> = controls
        .iter()
        .map(|control| control.stops.load(SeqCst))
        .collect();
    assert_eq!(stops, [1, 1, 0, 1, 1]);
    assert_eq!((world.root.ended().await, world.node.actors()), (None, 0));
}

/// Notes its name when it ends.
struct Noted(&'static str, Arc<std::sync::Mutex<Vec<&'static str>>>);

impl Entity for Noted {
    type Message = ();
    type State = ();
    const KIND: &'static str = "noted";

    async fn recover(&self, _context: &Context<()>) -> Result<(), Crash> {
        Ok(())
    }

    async fn handle(&self, _context: &Context<()>, (): (), (): &mut ()) -> Result<(), Crash> {
        Ok(())
    }

    async fn stopping(&self, _context: &Context<()>, (): &mut ()) {
        tokio::time::sleep(Duration::from_millis(10)).await;
        self.1.lock().unwrap().push(self.0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_root_stops_its_children_one_by_one_in_reverse_through_all_levels() {
    let world = World::new(Limits::ROOT).await;
    let root = world.root.supervisor();
    let ends = Arc::new(std::sync::Mutex::new(Vec::new()));
    let noted = |name| Noted(name, ends.clone());
    let key = |name: &'static str| Key::new("noted", name);
    root.spawn(key("wal"), None, noted("wal"), Policy::WAL)
        .unwrap();
    let shards = Shards::new(root, "noted", Policy::ENTITY).unwrap();
    shards
        .spawn_started(key("inner"), None, noted("inner"), SOON)
        .await
        .unwrap();
    root.spawn_started(key("door"), None, noted("door"), Policy::ENTITY, SOON)
        .await
        .unwrap();
    pass(1).await;
    assert_eq!(world.root.shutdown().await, 0);
    assert_eq!(*ends.lock().unwrap(), ["door", "inner", "wal"]);
    let refused = shards.spawn(key("late"), None, noted("late")).unwrap_err();
    assert_eq!((refused.code(), world.node.actors()), ("stopping", 0));
}

#[tokio::test(start_paused = true)]
async fn a_child_that_does_not_stop_is_killed_and_its_waiter_told() {
    let world = World::new(UNTIRING).await;
    let (address, control) = world.worker("1", POLICY).await;
    address
        .cast(Tell::Hold(Duration::from_secs(3_600)))
        .unwrap();
    pass(1).await;
    let key = Key::new(Worker::KIND, "1");
    let hurried = world
        .root
        .supervisor()
        .stop_and_wait(&key, Duration::from_millis(1))
        .await;
    assert_eq!(hurried, Err(Refusal::Late(key.clone())));
    world
        .root
        .supervisor()
        .stop_and_wait(&key, SOON)
        .await
        .unwrap();
    assert_eq!((control.stops.load(SeqCst), world.node.actors()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn shards_are_made_as_needed_and_never_overfilled() {
    let world = World::new(UNTIRING).await;
    let shards = Shards::new(world.root.supervisor(), "worker", POLICY).unwrap();
    for id in 0..4_001 {
        shards
            .spawn(Key::numbered(Worker::KIND, id), None, Worker::default())
            .unwrap();
    }
    pass(1).await;
    assert_eq!((shards.shards(), shards.children()), (3, 4_001));
    let filter = Filter {
        phase: Some(Phase::Running),
        ..Filter::default()
    };
    let mut rows = world.node.page(&filter, None, 1_000);
    let mut running = rows.rows.len();
    while let Some(next) = rows.next {
        rows = world.node.page(&filter, Some(&next), 1_000);
        running += rows.rows.len();
    }
    assert_eq!(
        running,
        4_001 + 3 + 1 + 1,
        "entities, shards, their supervisor, root"
    );
    let key = Key::numbered(Worker::KIND, 7);
    shards.stop_and_wait(&key, SOON).await.unwrap();
    shards
        .spawn_started(key, None, Worker::default(), SOON)
        .await
        .unwrap();
    assert_eq!(shards.shards(), 3, "room is used again");
    assert_eq!(world.root.shutdown().await, 0);
    assert_eq!(world.node.actors(), 0);
}
