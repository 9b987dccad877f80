//! What an actor costs: memory of an idle entity, CPU of its start, of a message, of a call, of a
//! crash, and the time to read all rows and to end them all.
//!
//! `cargo run --release -p xce-runtime --example cost -- 100000`

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use xce_runtime::{
    Address, Context, Crash, Entity, Filter, Key, Limits, Node, NotDelivered, Phase, Policy,
    RealClock, Reply, Root, Shards,
};

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

const SOON: Duration = Duration::from_secs(60);

struct Idle;

enum Tell {
    Count,
    Get(Reply<u64>),
    Fail,
}

impl Entity for Idle {
    type Message = Tell;
    type State = u64;
    const KIND: &'static str = "idle";

    async fn recover(&self, _context: &Context<Tell>) -> Result<u64, Crash> {
        Ok(0)
    }

    async fn handle(
        &self,
        _context: &Context<Tell>,
        message: Tell,
        count: &mut u64,
    ) -> Result<(), Crash> {
        match message {
            Tell::Count => *count += 1,
            Tell::Get(reply) => reply.send(*count),
            Tell::Fail => return Err("told to fail".into()),
        }
        Ok(())
    }
}

/// CPU time of this process, in nanoseconds.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn resident_bytes() -> Result<u64, Box<dyn Error + Send + Sync>> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let field = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = field.and_then(|field| field.split_whitespace().next());
    Ok(kilobytes.ok_or("no VmRSS")?.parse::<u64>()? * 1_024)
}

/// Prints the CPU time of each of `count` things done since the measure was made.
struct Measure(Instant, u64);

impl Measure {
    fn begin() -> Self {
        Self(Instant::now(), cpu_ns())
    }

    fn end(self, what: &str, count: u64) {
        let spent_ns = (cpu_ns() - self.1) as f64 / count as f64;
        let wall_ms = self.0.elapsed().as_secs_f64() * 1e3;
        println!("{what}: {count} in {wall_ms:.1} ms, CPU {spent_ns:.0} ns each");
    }
}

async fn running(addresses: &[Address<Tell>], restarts: u32) {
    for address in addresses {
        let probe = address.probe();
        while probe.phase() != Phase::Running || probe.restarts() < restarts {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

async fn run(count: u64) -> Outcome {
    let node = Node::new(Arc::new(RealClock), 1);
    let root = Root::start(&node, Limits::ROOT).await?;
    let shards = Shards::new(root.supervisor(), "idle", Policy::ENTITY)?;
    let (before, measure) = (resident_bytes()?, Measure::begin());
    let mut addresses = Vec::new();
    for number in 0..count {
        addresses.push(shards.spawn(Key::numbered(Idle::KIND, number), None, Idle)?);
        if number % 512 == 511 {
            tokio::task::yield_now().await;
        }
    }
    running(&addresses, 0).await;
    measure.end("start", count);
    let each = (resident_bytes()? - before) / count;
    println!("memory of an idle entity: {each} bytes");

    let address = addresses.first().ok_or("no entities")?;
    let measure = Measure::begin();
    for _ in 0..500_000 {
        while address.cast(Tell::Count) == Err(NotDelivered::Overloaded) {
            tokio::task::yield_now().await;
        }
    }
    while address.probe().depth() > 0 {
        tokio::task::yield_now().await;
    }
    measure.end("message", 500_000);
    let measure = Measure::begin();
    for _ in 0..50_000 {
        address.call(Tell::Get, SOON).await?;
    }
    measure.end("call", 50_000);

    let measure = Measure::begin();
    let (mut next, mut longest) = (None, Duration::ZERO);
    loop {
        let begin = Instant::now();
        let page = node.page(&Filter::default(), next.as_ref(), 1_000);
        longest = longest.max(begin.elapsed());
        next = page.next;
        if next.is_none() {
            break;
        }
    }
    measure.end("row", count);
    println!("longest page: {} us", longest.as_micros());
    let measure = Measure::begin();
    let tree = node.tree(1_000).await;
    measure.end("entry of the folded tree", count);
    println!("families: {}", tree.families.len());

    let measure = Measure::begin();
    let crashing = &addresses[..addresses.len() / 10];
    for address in crashing {
        address.cast(Tell::Fail)?;
    }
    running(crashing, 1).await;
    measure.end("crash and restart", count / 10);
    let measure = Measure::begin();
    let killed = root.shutdown().await;
    measure.end("end", count);
    println!("killed at the end: {killed}");
    Ok(())
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Outcome {
    let count = match std::env::args().nth(1) {
        Some(text) => text.parse()?,
        None => 100_000,
    };
    tokio::spawn(run(count)).await?
}
