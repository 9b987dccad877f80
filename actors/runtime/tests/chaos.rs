//! Random kills of anything, from a seed: what was acknowledged is neither lost nor doubled.
//!
//! A store stands for the WAL, counters for entities. Three rules hold it together: counters read
//! their state through the store's mailbox (read barrier), they end when the outcome of a write is
//! unknown (fail-stop), and incarnations do not overlap (lease).

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use super::*;

const COUNTERS: u64 = 6;
const CLIENTS: u64 = 8;
const WITHIN: Duration = Duration::from_millis(200);

/// Restarts however often a test kills.
const HARDY: Policy = Policy {
    backoff: backoff::Backoff {
        first: Duration::from_millis(2),
        longest: Duration::from_millis(20),
        crashes_max: u32::MAX,
        window: Duration::from_millis(500),
    },
    ..Policy::ENTITY
};

#[derive(Debug, Clone, Copy)]
struct Record {
    counter: u64,
    operation: u64,
}

/// What is durable; outlives every incarnation of the store.
type Disk = Arc<Mutex<Vec<Record>>>;

struct Store(Disk);

#[derive(Debug)]
enum Ask {
    Append(Record, Reply<()>),
    Read(u64, Reply<Vec<Record>>),
    Panic,
}

impl Entity for Store {
    type Message = Ask;
    type State = ();
    const KIND: &'static str = "store";

    async fn recover(&self, _context: &Context<Ask>) -> Result<(), Crash> {
        tokio::time::sleep(Duration::from_millis(2)).await;
        Ok(())
    }

    async fn handle(&self, _: &Context<Ask>, ask: Ask, (): &mut ()) -> Result<(), Crash> {
        match ask {
            Ask::Append(record, reply) => {
                // A kill here loses the record before it is durable.
                tokio::time::sleep(Duration::from_millis(1)).await;
                self.0.lock().unwrap().push(record);
                // A kill here makes it durable without an answer.
                tokio::task::yield_now().await;
                reply.send(());
            }
            Ask::Read(counter, reply) => {
                let disk = self.0.lock().unwrap();
                let own = disk.iter().filter(|record| record.counter == counter);
                reply.send(own.copied().collect());
            }
            Ask::Panic => panic!("on purpose"),
        }
        Ok(())
    }
}

struct Counter {
    number: u64,
    store: Address<Ask>,
}

#[derive(Debug)]
enum Do {
    Count(u64, Reply<u64>),
    Get(Reply<u64>),
    Panic,
}

impl Entity for Counter {
    type Message = Do;
    /// The operations that have been counted.
    type State = BTreeMap<u64, u64>;
    const KIND: &'static str = "counter";

    async fn recover(&self, _context: &Context<Do>) -> Result<Self::State, Crash> {
        let read = |reply| Ask::Read(self.number, reply);
        let records = self.store.call(read, WITHIN).await;
        let records = records.map_err(|error| NotYet(format!("the store: {error}")))?;
        Ok(records
            .into_iter()
            .map(|record| (record.operation, 1))
            .collect())
    }

    async fn handle(
        &self,
        _context: &Context<Do>,
        what: Do,
        counted: &mut Self::State,
    ) -> Result<(), Crash> {
        match what {
            Do::Count(_, reply) if reply.is_closed() => {}
            Do::Count(operation, reply) if counted.contains_key(&operation) => {
                reply.send(counted.len() as u64);
            }
            Do::Count(operation, reply) => {
                let record = Record {
                    counter: self.number,
                    operation,
                };
                let append = |done| Ask::Append(record, done);
                match self.store.call(append, WITHIN).await {
                    Ok(()) => {
                        counted.insert(operation, 1);
                        reply.send(counted.len() as u64);
                    }
                    // Certainly without effect: go on.
                    Err(CallError::NotDelivered(_)) => {}
                    Err(CallError::Unknown(unknown)) => return Err(unknown.into()),
                }
            }
            Do::Get(reply) => reply.send(counted.len() as u64),
            Do::Panic => panic!("on purpose"),
        }
        Ok(())
    }
}

struct Arena {
    node: Arc<Node>,
    root: Root,
    disk: Disk,
    store: Address<Ask>,
    counters: Vec<Address<Do>>,
}

impl Arena {
    async fn new(seed: u64) -> Self {
        let node = Node::new(Arc::new(RealClock), seed);
        let root = Root::start(&node, UNTIRING).await.unwrap();
        let disk = Disk::default();
        let under = |name: &'static str| {
            let key = Key::new("shard", name);
            root.supervisor().spawn_supervisor(key, UNTIRING).unwrap()
        };
        let (low, high) = (under("low"), under("high"));
        let key = Key::single(Store::KIND);
        let store = low.spawn(key, None, Store(disk.clone()), HARDY).unwrap();
        let counters = (0..COUNTERS)
            .map(|number| {
                let store = store.clone();
                let key = Key::numbered(Counter::KIND, number);
                high.spawn(key, None, Counter { number, store }, HARDY)
                    .unwrap()
            })
            .collect();
        Self {
            node,
            root,
            disk,
            store,
            counters,
        }
    }

    /// Kills something, or makes it panic; a supervisor sometimes.
    fn harm(&self, random: &mut fastrand::Rng) {
        let counter = random.u64(..COUNTERS);
        let panics = random.bool();
        match random.u8(..100) {
            0..6 => drop(
                self.node
                    .kill(random.choice(["shard/low", "shard/high"]).unwrap()),
            ),
            6..20 if panics => drop(self.store.cast(Ask::Panic).is_ok()),
            6..20 => drop(self.node.kill("store")),
            _ if panics => drop(self.counters[counter as usize].cast(Do::Panic).is_ok()),
            _ => drop(self.node.kill(&format!("counter/{counter}"))),
        }
    }

    /// What must hold once all is calm.
    async fn check(&self, acknowledged: &BTreeMap<u64, u64>, seed: u64) {
        let mut totals = Vec::new();
        for counter in &self.counters {
            totals.push(answered(|| counter.call(Do::Get, WITHIN)).await);
            assert_eq!(counter.probe().depth(), 0, "seed {seed}");
        }
        let disk = self.disk.lock().unwrap().clone();
        let mut durable = BTreeMap::new();
        for record in &disk {
            let doubled = durable.insert(record.operation, record.counter);
            assert_eq!(doubled, None, "seed {seed}, operation {}", record.operation);
        }
        for (operation, counter) in acknowledged {
            assert_eq!(
                durable.get(operation),
                Some(counter),
                "seed {seed}, lost {operation}"
            );
        }
        for (counter, total) in (0..).zip(totals) {
            let own = disk
                .iter()
                .filter(|record| record.counter == counter)
                .count();
            assert_eq!(total, own as u64, "seed {seed}, counter {counter} diverged");
        }
    }
}

/// Asks again until there is an answer.
async fn answered<R, F>(mut ask: impl FnMut() -> F) -> R
where
    F: Future<Output = Result<R, CallError>>,
{
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(_unanswered) => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
}

/// Counts operations until `calm`; each until it is acknowledged, under one id.
async fn client(
    counters: Vec<Address<Do>>,
    calm: Arc<AtomicBool>,
    operations: Arc<AtomicU64>,
    mut random: fastrand::Rng,
) -> BTreeMap<u64, u64> {
    let mut acknowledged = BTreeMap::new();
    while !calm.load(SeqCst) {
        let operation = operations.fetch_add(1, SeqCst);
        let counter = random.u64(..COUNTERS);
        let address = &counters[counter as usize];
        answered(|| address.call(|reply| Do::Count(operation, reply), WITHIN / 4)).await;
        acknowledged.insert(operation, counter);
    }
    acknowledged
}

async fn chaos(seed: u64, harms: u32) {
    let arena = Arc::new(Arena::new(seed).await);
    let mut random = fastrand::Rng::with_seed(seed);
    let (calm, operations) = (Arc::new(AtomicBool::new(false)), Arc::default());
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (calm, operations) = (calm.clone(), Arc::clone(&operations));
            tokio::spawn(client(
                arena.counters.clone(),
                calm,
                operations,
                random.fork(),
            ))
        })
        .collect();
    for _ in 0..harms {
        tokio::time::sleep(Duration::from_micros(random.u64(..8_000))).await;
        arena.harm(&mut random);
    }
    calm.store(true, SeqCst);
    let mut acknowledged = BTreeMap::new();
    for client in clients {
        let done = tokio::time::timeout(SOON, client).await;
        acknowledged.extend(done.expect("every client gets its answers").unwrap());
    }
    assert!(
        acknowledged.len() as u64 >= CLIENTS,
        "seed {seed}: nothing was counted"
    );
    arena.check(&acknowledged, seed).await;
    arena.root.shutdown().await;
}

/// Keeps the panics that tests cause out of the output.
fn quiet() {
    std::panic::set_hook(Box::new(|panic| {
        let text = panic.payload_as_str().unwrap_or_default();
        if text != "on purpose" {
            eprintln!("{panic}");
        }
    }));
}

#[test]
fn nothing_is_lost_or_doubled_in_virtual_time() {
    quiet();
    for seed in 1..=20 {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(chaos(seed, 200));
    }
}

#[test]
fn nothing_is_lost_or_doubled_on_two_threads() {
    quiet();
    for seed in 1..=3 {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(async { tokio::spawn(chaos(seed, 200)).await.unwrap() });
    }
}
