//! Tests of supervision and addresses, and the entity they are made with.

mod address;
mod chaos;
mod guard;
mod inspect;
mod lease;
mod pure;
mod restart;
mod shutdown;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use crate::*;

/// What a test knows of a [`Worker`] and decides for it, over all incarnations.
#[derive(Debug, Default)]
struct Control {
    starts: AtomicU32,
    stops: AtomicU32,
    fails: AtomicBool,
    waits: AtomicBool,
}

impl Control {
    fn starts(&self) -> u32 {
        self.starts.load(SeqCst)
    }
}

/// An entity that does what it is told.
#[derive(Debug, Default)]
struct Worker(Arc<Control>);

#[derive(Debug)]
enum Tell {
    Panic,
    Fail,
    Leave,
    Hold(Duration),
    Add(u64),
    Sum(Reply<u64>),
    Forget(Reply<u64>),
}

impl Entity for Worker {
    type Message = Tell;
    type State = u64;
    const KIND: &'static str = "worker";

    async fn recover(&self, _context: &Context<Tell>) -> Result<u64, Crash> {
        self.0.starts.fetch_add(1, SeqCst);
        if self.0.waits.load(SeqCst) {
            return Err(NotYet("its dependency".to_owned()).into());
        }
        if self.0.fails.load(SeqCst) {
            return Err("cannot recover".into());
        }
        Ok(0)
    }

    async fn handle(
        &self,
        context: &Context<Tell>,
        message: Tell,
        sum: &mut u64,
    ) -> Result<(), Crash> {
        match message {
            Tell::Panic => panic!("on purpose"),
            Tell::Fail => return Err("told to fail".into()),
            Tell::Leave => context.stop(),
            Tell::Hold(time) => virtual_time(time).await,
            Tell::Add(number) => *sum += number,
            Tell::Sum(reply) => reply.send(*sum),
            Tell::Forget(reply) => drop(reply),
        }
        Ok(())
    }

    async fn stopping(&self, _context: &Context<Tell>, _sum: &mut u64) {
        self.0.stops.fetch_add(1, SeqCst);
    }

    fn view(&self, sum: &u64) -> View {
        assert!(*sum != 666, "a view that cannot be made");
        View::of(sum)
    }
}

/// Crashes four times within a minute before it is set aside.
const POLICY: Policy = Policy {
    backoff: backoff::Backoff {
        first: Duration::from_millis(100),
        longest: Duration::from_secs(2),
        crashes_max: 5,
        window: Duration::from_secs(60),
    },
    mailbox_max: 10,
    stop_within: Duration::from_secs(1),
    ..Policy::ENTITY
};

/// Limits of a supervisor that may be killed as often as a test likes.
const UNTIRING: Limits = Limits {
    restart: backoff::Backoff {
        first: Duration::from_millis(1),
        longest: Duration::from_millis(1),
        crashes_max: u32::MAX,
        window: Duration::ZERO,
    },
    storm_max: usize::MAX,
    ..Limits::ROOT
};

const SOON: Duration = Duration::from_secs(60);

struct World {
    node: Arc<Node>,
    root: Root,
}

impl World {
    async fn new(limits: Limits) -> Self {
        let node = Node::new(Arc::new(RealClock), 7);
        let root = Root::start(&node, limits).await.unwrap();
        Self { node, root }
    }

    async fn worker(&self, id: &str, policy: Policy) -> (Address<Tell>, Arc<Control>) {
        let control = Arc::new(Control::default());
        let worker = Worker(control.clone());
        let key = Key::new(Worker::KIND, id);
        let supervisor = self.root.supervisor();
        let address = supervisor
            .spawn_started(key, None, worker, policy, SOON)
            .await
            .unwrap();
        (address, control)
    }
}

/// Lets everything run that is due, and `milliseconds` of virtual time pass.
async fn pass(milliseconds: u64) {
    virtual_time(Duration::from_millis(milliseconds)).await;
}

/// Waits for what never comes: the clock of those who use it is paused, so it is over as soon as
/// nothing else is to be done before.
async fn virtual_time(time: Duration) {
    let never = std::future::pending::<()>();
    assert!(tokio::time::timeout(time, never).await.is_err());
}

/// Gives way until something has become true; fails after a minute.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let waits = async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    };
    assert!(tokio::time::timeout(SOON, waits).await.is_ok(), "{what}");
}
