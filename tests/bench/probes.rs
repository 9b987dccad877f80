//! Ten thousand probes of ports on one worker: processor time, latency of the verdicts, memory. The
//! probes are the worker's own actors, on its own runtime, without the processes they would belong to;
//! beside them, in the same run, a bare loop of tasks that does the same connects.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::net::TcpStream;
use xce_model::Millis;
use xce_model::spec::{Probe, ProbeAction};
use xce_runtime::{
    Address, Clock, Context, Crash, Entity, Key, Limits, Node, Policy, RealClock, Root, Shards,
};
use xce_worker::environment::Environment;
use xce_worker::probe::Role;
use xce_worker::probe::actor::{LiveProbe, ProbeActor};
use xce_worker::probe::attempt::Surroundings;
use xce_worker::run::RunMessage;

use crate::client::Fault;
use crate::cpu;

/// Probes. Source: the requirement.
const PROBES: u32 = 10_000;
/// Time from one try of a probe to the next. Source: the default of probes.
const PERIOD_MS: u64 = 10_000;
/// Ports that are tried. Source: derived; a closed connection is remembered for a minute, and six
/// hundred of them for each port stay far below the number of local ports.
const PORTS: u32 = 100;
/// How long processor time is counted. Source: derived; every probe is tried twice.
const COUNTED: Duration = Duration::from_millis(2 * PERIOD_MS);
/// Tells the child that listens what it is.
const LISTENS: &str = "XCE_BENCH_LISTENS";

/// Measures and prints; as the child, listens until it is killed.
pub fn run() -> Result<(), Fault> {
    if std::env::var_os(LISTENS).is_some() {
        return listen();
    }
    let (mut child, ports) = start_listeners()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let ports = Arc::new(ports);
    let bare = runtime.block_on(bare(&ports));
    let actors = runtime.block_on(actors(&ports));
    child.kill()?;
    child.wait()?;
    let (bare, actors) = (bare?, actors?);
    println!(
        "{}",
        json!({
            "bench": "probes",
            "probes": PROBES,
            "period_ms": PERIOD_MS,
            "cpu_percent": actors.cpu_percent,
            "bare_cpu_percent": bare.cpu_percent,
            "cpu_of_bare": actors.cpu_percent / bare.cpu_percent.max(0.01),
            "cpu_us_each_try": actors.cpu_us_each_try,
            "bare_cpu_us_each_try": bare.cpu_us_each_try,
            "verdict_p50_us": actors.p50_us,
            "verdict_p99_us": actors.p99_us,
            "bare_p50_us": bare.p50_us,
            "bare_p99_us": bare.p99_us,
            "bytes_each": actors.bytes_each,
            "bare_bytes_each": bare.bytes_each,
        })
    );
    Ok(())
}

struct Measured {
    cpu_percent: f64,
    cpu_us_each_try: f64,
    p50_us: u64,
    p99_us: u64,
    bytes_each: u64,
}

fn listen() -> Result<(), Fault> {
    let mut threads = Vec::new();
    for _ in 0..PORTS {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        println!("{}", listener.local_addr()?.port());
        threads.push(std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                drop(stream);
            }
        }));
    }
    for thread in threads {
        let _ended = thread.join();
    }
    Ok(())
}

fn start_listeners() -> Result<(Child, Vec<u16>), Fault> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg("probes")
        .env(LISTENS, "1")
        .stdout(Stdio::piped())
        .spawn()?;
    let out = child.stdout.take().ok_or("no output of the child")?;
    let lines = BufReader::new(out).lines().take(PORTS as usize);
    let ports: Result<Vec<u16>, Fault> = lines.map(|line| Ok(line?.parse()?)).collect();
    Ok((child, ports?))
}

/// Latencies of first verdicts, in microseconds.
type Latencies = Arc<Mutex<Vec<u64>>>;

/// Waits until every first verdict is there, then counts processor time, and sums up.
async fn measured(before: u64, latencies: &Latencies) -> Result<Measured, Fault> {
    let own = std::process::id();
    let count = || latencies.lock().map_or(0, |all| all.len());
    while count() < PROBES as usize {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let resident = cpu::resident(own)?;
    let (from, _) = cpu::of_process(own)?;
    tokio::time::sleep(COUNTED).await;
    let (to, _) = cpu::of_process(own)?;
    let spent_ms = to.saturating_sub(from);
    let mut sorted = latencies.lock().map_err(|_| "a task panicked")?.clone();
    sorted.sort_unstable();
    let at = |share: usize| sorted[(sorted.len() - 1) * share / 100];
    let counted_ms = COUNTED.as_millis() as f64;
    let tries = f64::from(PROBES) * counted_ms / PERIOD_MS as f64;
    Ok(Measured {
        cpu_percent: 100.0 * spent_ms as f64 / counted_ms,
        cpu_us_each_try: 1_000.0 * spent_ms as f64 / tries,
        p50_us: at(50),
        p99_us: at(99),
        bytes_each: resident.saturating_sub(before) / u64::from(PROBES),
    })
}

/// When the first try of a probe is due, milliseconds after the start: spread over the first period,
/// as runs start one after the other.
fn first_due_ms(index: u32) -> u64 {
    u64::from(index) * PERIOD_MS / u64::from(PROBES) + 500
}

async fn bare(ports: &Arc<Vec<u16>>) -> Result<Measured, Fault> {
    let before = cpu::resident(std::process::id())?;
    let latencies = Latencies::default();
    let start = tokio::time::Instant::now();
    let mut tasks = Vec::new();
    for index in 0..PROBES {
        let (ports, latencies) = (ports.clone(), latencies.clone());
        tasks.push(tokio::spawn(async move {
            let port = ports[(index % PORTS) as usize];
            let mut due = start + Duration::from_millis(first_due_ms(index));
            let mut first = true;
            loop {
                tokio::time::sleep_until(due).await;
                let connecting = TcpStream::connect(("127.0.0.1", port));
                let within = Duration::from_secs(1);
                let good = tokio::time::timeout(within, connecting).await;
                if matches!(good, Ok(Ok(_))) && std::mem::take(&mut first) {
                    note(&latencies, due.elapsed());
                }
                due += Duration::from_millis(PERIOD_MS);
            }
        }));
    }
    let measured = measured(before, &latencies).await;
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    measured
}

fn note(latencies: &Latencies, taken: Duration) {
    if let Ok(mut all) = latencies.lock() {
        all.push(u64::try_from(taken.as_micros()).unwrap_or(u64::MAX));
    }
}

/// Takes the verdicts in place of the runs; the number of the start is that of the probe.
struct Collector {
    since_ms: u64,
    latencies: Latencies,
}

impl Entity for Collector {
    type Message = RunMessage;
    type State = ();
    const KIND: &'static str = "collector";

    async fn recover(&self, _context: &Context<RunMessage>) -> Result<(), Crash> {
        Ok(())
    }

    async fn handle(
        &self,
        context: &Context<RunMessage>,
        message: RunMessage,
        _state: &mut (),
    ) -> Result<(), Crash> {
        if let RunMessage::Probe(index, Role::Readiness, _) = message {
            let due_ns = (self.since_ms + first_due_ms(index)) * 1_000_000;
            let taken = context.clock().monotonic_ns().saturating_sub(due_ns);
            note(&self.latencies, Duration::from_nanos(taken));
        }
        Ok(())
    }
}

async fn actors(ports: &[u16]) -> Result<Measured, Fault> {
    let before = cpu::resident(std::process::id())?;
    let latencies = Latencies::default();
    let clock: Arc<dyn Clock> = Arc::new(RealClock);
    let node = Node::new(clock.clone(), 1);
    let root = Root::start(&node, Limits::ROOT).await?;
    let since_ms = clock.monotonic_ms();
    let collector = Collector {
        since_ms,
        latencies: latencies.clone(),
    };
    let supervisor = root.supervisor();
    let run = supervisor.spawn(Key::single("collector"), None, collector, Policy::ENTITY)?;
    let probes = Shards::new(supervisor, ProbeActor::KIND, Policy::ENTITY)?;
    let mut living = Vec::new();
    for index in 0..PROBES {
        let port = ports[(index % PORTS) as usize];
        let actor = probe_actor(index, port, since_ms, run.clone());
        let key = Key::numbered(ProbeActor::KIND, u64::from(index));
        living.push(LiveProbe::start(
            &probes,
            key,
            Key::single("collector"),
            actor,
        )?);
    }
    let measured = measured(before, &latencies).await;
    drop(living);
    root.shutdown().await;
    measured
}

fn probe_actor(index: u32, port: u16, since_ms: u64, run: Address<RunMessage>) -> ProbeActor {
    let action = ProbeAction::Tcp {
        port: port.to_string(),
        host: "127.0.0.1".to_owned(),
    };
    let around = Surroundings {
        environment: Environment::default(),
        work_dir: String::new(),
        ports: Vec::new(),
        user: None,
    };
    ProbeActor {
        probe: Probe {
            action,
            initial_delay: Millis(first_due_ms(index)),
            period: Millis(PERIOD_MS),
            timeout: Millis(1_000),
            success_threshold: 1,
            failure_threshold: 3,
        },
        role: Role::Readiness,
        start: index,
        since_ms,
        kept: Mutex::new(None),
        around: Arc::new(around),
        run,
    }
}
