//! A hundred thousand idle replicas of services as actors on a real controller, without processes:
//! a log with their facts is written beside it, and the controller starts on that log. One JSON line.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::runtime::Runtime;
use xce_host::HostFact;
use xce_host::facts::Inventory;
use xce_ledger::{Created, Fact, Group, Here, Ledger, Outcome, Reader};
use xce_link::Identity;
use xce_model::{
    Bytes, ClusterTime, Incarnation, JobId, MilliCpu, OperationId, ServiceId, WallTime,
};
use xce_replica::JobFact;
use xce_service::ServiceFact;
use xce_service::facts::TargetReason;
use xce_session::wire::AskActor;
use xce_tests::Setup;
use xce_tests::harness::binaries;
use xce_wal::{Position, Wal, WalConfig};

use crate::client::{Client, Fault, service};
use crate::cpu;

/// Services. Source: the requirement, 100 000 replicas.
const SERVICES: u64 = 100;
/// Replicas of each.
const REPLICAS: u32 = 1_000;
/// All replicas.
const ALL: u64 = SERVICES * REPLICAS as u64;
/// How much is written into a log.
#[derive(Clone, Copy)]
pub struct Size {
    /// Services.
    pub services: u64,
    /// Replicas of each.
    pub replicas: u32,
}

const SIZE: Size = Size {
    services: SERVICES,
    replicas: REPLICAS,
};

/// Hosts that hold them. Source: chosen; a shard of a large site.
const HOSTS: u64 = 100;
/// How often the tree is asked for. Source: derived; a median of few needs an odd number.
const TREES: usize = 5;
/// Time between two looks at actors that start. Source: chosen.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Measures and prints.
pub fn run() -> Result<(), Fault> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    // It makes the home: authority, identities, an empty log.
    let mut cluster = Setup::new("bench-actors").workers(1).start();
    let home = cluster.home().to_path_buf();
    let idle = cpu::resident(cluster.controller_pid())?;
    cluster.stop();
    let log = home.join("controller");
    fill(&runtime, &home, &log, SIZE)?;
    let ledger_bytes = ledger_bytes()?;
    eprintln!("actors: {ALL} replicas written, {ledger_bytes} bytes each in the ledger");
    let from_log = runtime.block_on(started(&home))?;
    eprintln!("actors: from the log {} ms", from_log.answers_ms);
    runtime.block_on(snapshot(&home, &log))?;
    let from_snapshot = runtime.block_on(started(&home))?;
    let each = from_snapshot.resident.saturating_sub(idle) / ALL;
    println!(
        "{}",
        json!({
            "bench": "actors",
            "replicas": ALL,
            "services": SERVICES,
            "bytes_each": each,
            "ledger_bytes_each": ledger_bytes,
            "actor_bytes_each": each.saturating_sub(ledger_bytes),
            "resident_mib": from_snapshot.resident >> 20,
            "from_log_ms": from_log.answers_ms,
            "from_log_all_actors_ms": from_log.actors_ms,
            "from_snapshot_ms": from_snapshot.answers_ms,
            "from_snapshot_all_actors_ms": from_snapshot.actors_ms,
            "start_cpu_ms": from_snapshot.cpu_ms,
            "tree_folded_ms": from_snapshot.folded_ms,
            "tree_20000_rows_ms": from_snapshot.rows_ms,
        })
    );
    Ok(())
}

/// What one start of the controller showed.
struct Start {
    answers_ms: u64,
    actors_ms: u64,
    cpu_ms: u64,
    resident: u64,
    folded_ms: f64,
    rows_ms: f64,
}

/// A controller that ends with this value.
struct Controller(Child);

impl Drop for Controller {
    fn drop(&mut self) {
        // One that has ended already needs neither.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Starts the controller on what lies in the home, and asks it for its actors.
async fn started(home: &Path) -> Result<Start, Fault> {
    let begin = Instant::now();
    let (controller, address) = controller(home)?;
    let pid = controller.0.id();
    let client = Client::connect(home, address).await?;
    client.show(JobId::single(1)).await?;
    let answers_ms = millis(begin)? as u64;
    loop {
        let families = client.actors(tree("job", 100)).await?;
        let alive: u64 = families.iter().map(|family| u64::from(family.count)).sum();
        if alive >= ALL {
            break;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let actors_ms = millis(begin)? as u64;
    let (cpu_ms, _) = cpu::of_process(pid)?;
    let (mut folded, mut rows) = (Vec::new(), Vec::new());
    for _ in 0..TREES {
        let begin = Instant::now();
        client.actors(tree("job", 100)).await?;
        folded.push(millis(begin)?);
        let begin = Instant::now();
        client.actors(tree("job", 0)).await?;
        rows.push(millis(begin)?);
    }
    Ok(Start {
        answers_ms,
        actors_ms,
        cpu_ms,
        resident: cpu::resident(pid)?,
        folded_ms: median(&mut folded),
        rows_ms: median(&mut rows),
    })
}

/// Rows of the tree of one kind.
pub fn tree(kind: &str, fold_above: u32) -> AskActor {
    AskActor::Tree {
        kind: Some(kind.to_owned()),
        phase: None,
        fold_above,
    }
}

fn millis(begin: Instant) -> Result<f64, Fault> {
    Ok((begin.elapsed().as_secs_f64() * 10_000.0).round() / 10.0)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A controller without workers, whose hosts are given an hour to come back.
fn controller(home: &Path) -> Result<(Controller, SocketAddr), Fault> {
    let mut child = Command::new(binaries::path("xced"))
        .args(["controller", "--lifeline", "--home"])
        .arg(home)
        .args([
            "--set",
            "listen=127.0.0.1:0",
            "--set",
            "host_grace=1h",
            "--set",
            "away_max=2h",
        ])
        .args(["--set", "log.level=error"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let stdout = child.stdout.take().ok_or("no standard output")?;
    let controller = Controller(child);
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    let ready: serde_json::Value = serde_json::from_str(&line)?;
    let address = ready["address"].as_str().ok_or("it names no address")?;
    Ok((controller, address.parse()?))
}

async fn open(home: &Path, log: &Path) -> Result<(Wal<Ledger>, Reader), Fault> {
    let identity = Identity::load(&home.join("client"))?;
    let ledger = Ledger::new(Box::new(|_, _| {}));
    let reader = ledger.reader();
    let config = WalConfig {
        create: false,
        snapshot_every_entries: u64::MAX,
        snapshot_every_bytes: u64::MAX,
        ..WalConfig::new(log, identity.principal().cluster.0, 1)
    };
    let wal = xce_wal::open(config, ledger, |reason| eprintln!("actors: {reason}")).await?;
    Ok((wal, reader))
}

async fn snapshot(home: &Path, log: &Path) -> Result<(), Fault> {
    let (wal, _) = open(home, log).await?;
    wal.snapshot_now().await?;
    wal.close().await;
    Ok(())
}

/// Takes facts that belong together; gives what they created.
pub type Commit<'a> = dyn FnMut(Vec<Fact>) -> Result<Vec<Created>, Fault> + 'a;

/// Bytes of one replica in a ledger that holds all of them.
fn ledger_bytes() -> Result<u64, Fault> {
    let before = cpu::resident(std::process::id())?;
    let mut ledger = Ledger::new(Box::new(|_, _| {}));
    let mut lsn = 0;
    write_all(SIZE, &mut |facts| {
        lsn += 1;
        let at = Position {
            term: 1,
            lsn,
            sub: 0,
        };
        let outcome = ledger.commit(at, &group(ClusterTime(0), facts));
        ledger.publish(lsn, 1);
        created(&outcome)
    })?;
    let after = cpu::resident(std::process::id())?;
    let held = ledger.view().jobs().values();
    let held = held.filter(|job| job.state.holds_host()).count() as u64;
    if held != ALL {
        return Err(format!("{held} replicas run").into());
    }
    Ok(after.saturating_sub(before) / ALL)
}

/// Writes the facts of all replicas into the log of a home.
pub fn fill(runtime: &Runtime, home: &Path, log: &Path, size: Size) -> Result<(), Fault> {
    let (wal, reader) = runtime.block_on(open(home, log))?;
    let here = Here {
        boot_id: String::new(),
        boot_ms: 0,
        wall: WallTime(0),
    };
    let now = reader.view().clock().resume(&here);
    let outcome = write_all(size, &mut |facts| {
        let receipt = runtime.block_on(wal.persist(group(now, facts).encode()))?;
        created(receipt.outcome())
    });
    runtime.block_on(wal.close());
    outcome
}

/// A group of facts at a time.
pub fn group(now: ClusterTime, facts: Vec<Fact>) -> Group {
    let mut group = Group::new(now, WallTime(0), "bench");
    group.facts = facts;
    group
}

/// What a committed group created.
///
/// # Errors
/// It was not applied.
pub fn created(outcome: &Outcome) -> Result<Vec<Created>, Fault> {
    match outcome {
        Outcome::Applied(answer) => Ok(answer.created.clone()),
        other => Err(format!("not applied: {other:?}").into()),
    }
}

/// Commits hosts, services and replicas that are ready.
pub fn write_all(size: Size, commit: &mut Commit) -> Result<(), Fault> {
    for number in 0..HOSTS {
        commit(vec![joined(number).into()])?;
    }
    // A commit is a sync, and so several small services share one.
    let together = u64::from((REPLICAS / size.replicas).max(1));
    let mut number = 0;
    while number < size.services {
        let end = (number + together).min(size.services);
        let created = (number..end).map(|number| {
            ServiceFact::Created {
                spec: Box::new(service(&format!("s{number}"), size.replicas)),
                author: "bench".to_owned(),
                operation: OperationId([0; 16]),
            }
            .into()
        });
        let made = commit(created.collect())?;
        let services = made.iter().filter_map(|created| {
            if let Created::Service(id) = created {
                Some(*id)
            } else {
                None
            }
        });
        let submissions = services.flat_map(|id| submitted(id, size.replicas));
        let made = commit(submissions.collect())?;
        let firsts = made.iter().filter_map(|created| {
            if let Created::Replicas { first, .. } = created {
                Some(*first)
            } else {
                None
            }
        });
        let jobs: Vec<u64> = firsts
            .flat_map(|first| first..first + u64::from(size.replicas))
            .collect();
        if jobs.len() as u64 != (end - number) * u64::from(size.replicas) {
            return Err("no replicas were created".into());
        }
        for step in [placed, running, ready] {
            commit(jobs.iter().map(|number| step(*number).into()).collect())?;
        }
        number = end;
    }
    Ok(())
}

fn joined(number: u64) -> HostFact {
    HostFact::Joined {
        stale: Vec::new(),
        gone: Vec::new(),
        inventory: Inventory {
            name: format!("h{number}"),
            incarnation: Incarnation([1; 16]),
            boot_id: "bench".to_owned(),
            address: "127.0.0.1".to_owned(),
            cpus: MilliCpu(64_000),
            memory: Bytes(64 << 30),
            port_first: 20_000,
            port_last: 29_999,
            labels: Vec::new(),
            not_enforced: Vec::new(),
        },
    }
}

fn submitted(service: ServiceId, count: u32) -> Vec<Fact> {
    let targeted = ServiceFact::Targeted {
        service,
        version: 1,
        want: count,
        why: TargetReason::Grow,
    };
    let replicas = JobFact::ReplicasSubmitted {
        service,
        version: 1,
        indices: (0..count).collect(),
    };
    vec![targeted.into(), replicas.into()]
}

fn placed(number: u64) -> JobFact {
    JobFact::Placed {
        job: JobId::single(number),
        run: 1,
        host: format!("h{}", number % HOSTS),
        ports: Vec::new(),
    }
}

fn running(number: u64) -> JobFact {
    JobFact::Started {
        job: JobId::single(number),
        run: 1,
        start: 1,
        pid: 1,
        at: WallTime(0),
    }
}

/// A replica is ready.
pub fn ready(number: u64) -> JobFact {
    JobFact::Ready {
        job: JobId::single(number),
        run: 1,
        start: 1,
    }
}
