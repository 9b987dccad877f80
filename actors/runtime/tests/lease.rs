//! Two incarnations never act at once, not even when their supervisor dies.
//!
//! Only two threads in real time can show an overlap: a killed child runs on until its next await.

use std::sync::atomic::AtomicI32;

use tokio::sync::watch;

use super::*;

#[derive(Default)]
struct Census {
    alive: AtomicI32,
    overlaps: AtomicU32,
    starts: watch::Sender<u32>,
}

/// The state of an incarnation, counted as long as it lives.
struct Counted(Arc<Census>);

impl Drop for Counted {
    fn drop(&mut self) {
        compute();
        self.0.alive.fetch_sub(1, SeqCst);
    }
}

fn compute() {
    for number in 0..20_000_u64 {
        std::hint::black_box(number);
    }
}

struct Busy(Arc<Census>);

impl Entity for Busy {
    type Message = ();
    type State = Counted;
    const KIND: &'static str = "busy";

    async fn recover(&self, context: &Context<()>) -> Result<Counted, Crash> {
        if self.0.alive.fetch_add(1, SeqCst) != 0 {
            self.0.overlaps.fetch_add(1, SeqCst);
        }
        self.0.starts.send_modify(|starts| *starts += 1);
        let _ = context.address().cast(());
        Ok(Counted(self.0.clone()))
    }

    async fn handle(&self, context: &Context<()>, (): (), _: &mut Counted) -> Result<(), Crash> {
        // Computes without an await, so that a kill does not find it at once.
        compute();
        let _ = context.address().cast(());
        Ok(())
    }
}

async fn started(census: &Census, times: u32) {
    let mut starts = census.starts.subscribe();
    let started = starts.wait_for(|starts| *starts >= times);
    assert!(
        tokio::time::timeout(SOON, started).await.is_ok(),
        "start {times}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn incarnations_do_not_overlap_when_their_supervisor_is_killed() {
    let world = World::new(UNTIRING).await;
    let above = world.root.supervisor().clone();
    let middle = above
        .spawn_supervisor(Key::new("shard", "a"), UNTIRING)
        .unwrap();
    let census: Vec<Arc<Census>> = (0..2).map(|_| Arc::default()).collect();
    for (id, census) in census.iter().enumerate() {
        let key = Key::numbered(Busy::KIND, id as u64);
        middle
            .spawn(key, None, Busy(census.clone()), POLICY)
            .unwrap();
    }
    for round in 1..=100 {
        for one in &census {
            started(one, round).await;
        }
        until("the supervisor lives", || {
            world.node.kill("shard/a").is_ok()
        })
        .await;
    }
    for census in &census {
        assert_eq!(census.overlaps.load(SeqCst), 0);
    }
    world.root.shutdown().await;
    until("all states dropped", || {
        census.iter().all(|one| one.alive.load(SeqCst) == 0)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namesake_never_overlaps_a_killed_actor() {
    let world = World::new(UNTIRING).await;
    let census: Arc<Census> = Arc::default();
    let key = Key::single(Busy::KIND);
    let supervisor = world.root.supervisor();
    let policy = Policy {
        restart: Restart::Never,
        ..POLICY
    };
    for round in 1..=200 {
        until("the key is free", || {
            let busy = Busy(census.clone());
            supervisor.spawn(key.clone(), None, busy, policy).is_ok()
        })
        .await;
        started(&census, round).await;
        until("killed", || world.node.kill("busy").is_ok()).await;
    }
    assert_eq!(census.overlaps.load(SeqCst), 0);
}
