//! One decision of a service of ten thousand replicas, on a ledger in memory: the decision alone, and
//! the decision with its commit and what that changes. One JSON line.

use std::time::{Duration, Instant};

use serde_json::json;
use xce_host::HostFact;
use xce_host::facts::Inventory;
use xce_ledger::{Fact, Group, Ledger, Outcome, Precondition, Reader, View};
use xce_model::{
    Bytes, Cause, ClusterTime, Exit, Incarnation, JobId, JobState, MilliCpu, OperationId,
    ServiceId, WallTime,
};
use xce_replica::{JobFact, JobRecord};
use xce_service::rules::{Author, Change, Command, Draining, Event, Situation, decide};
use xce_service::{ServiceFact, ServiceRecord};
use xce_wal::MemoryWal;

use crate::client::{Fault, service};

/// Replicas. Source: the requirement.
const REPLICAS: u32 = 10_000;
/// Hosts that hold them. Source: chosen; as the other measurements.
const HOSTS: u32 = 100;
/// Decisions of each kind. Source: derived; a p99 needs some hundreds.
const SAMPLES: usize = 500;
/// Replicas that one group changes while the service is made. Source: derived; an entry's bytes.
const CHUNK: usize = 1_000;

/// Measures and prints.
pub fn run() -> Result<(), Fault> {
    let mut bench = Bench::new()?;
    bench.grow()?;
    eprintln!("decide: {REPLICAS} replicas are available");
    let nothing = bench.measure(|_, _| Ok(None))?;
    let ready = bench.measure(Bench::one_becomes_ready)?;
    let ends = bench.measure(Bench::one_ends)?;
    bench.command(Command::Restart)?;
    bench.settle()?;
    let scale = bench.measure(Bench::one_more)?;
    println!(
        "{}",
        json!({
            "bench": "decide",
            "replicas": REPLICAS,
            "samples": SAMPLES,
            "nothing": nothing,
            "becomes_ready": ready,
            "ends": ends,
            "scale_in_rollout": scale,
        })
    );
    Ok(())
}

/// A service on a ledger in memory.
struct Bench {
    wal: MemoryWal<Ledger>,
    reader: Reader,
    id: ServiceId,
    now: ClusterTime,
}

/// What is measured: a command, or what was committed just before.
type Before = fn(&mut Bench, usize) -> Result<Option<Command>, Fault>;

impl Bench {
    fn new() -> Result<Self, Fault> {
        let ledger = Ledger::new(Box::new(|_, _| {}));
        let reader = ledger.reader();
        let mut bench = Self {
            wal: MemoryWal::new(ledger),
            reader,
            id: ServiceId(1),
            now: ClusterTime(1_000),
        };
        for host in 0..HOSTS {
            bench.commit(vec![joined(host).into()])?;
        }
        let created = ServiceFact::Created {
            spec: Box::new(service("web", REPLICAS)),
            author: "ann".to_owned(),
            operation: OperationId::default(),
        };
        bench.commit(vec![created.into()])?;
        Ok(bench)
    }

    fn commit(&mut self, facts: Vec<Fact>) -> Result<(), Fault> {
        let mut group = Group::new(self.now, WallTime(0), "bench");
        group.facts = facts;
        self.persist(&group)
    }

    fn persist(&self, group: &Group) -> Result<(), Fault> {
        let receipt = self.wal.persist_now(&group.encode())?;
        match receipt.outcome() {
            Outcome::Applied(_) => Ok(()),
            other => Err(format!("not applied: {other:?}").into()),
        }
    }

    /// Decides, as the service's actor does; what is to be committed, if anything.
    fn decide(&self, event: Event) -> Result<Option<Group>, Fault> {
        let view = self.reader.view();
        let service = view.service(self.id).ok_or("no service")?;
        let facts = decided(&view, service, event, self.now)?;
        if facts.is_empty() {
            return Ok(None);
        }
        let mut group = Group::new(self.now, WallTime(0), "changed");
        group = group.given(Precondition::ServiceUnchanged {
            service: self.id,
            lsn: service.changed,
        });
        group.facts = facts;
        Ok(Some(group))
    }

    fn command(&mut self, command: Command) -> Result<(), Fault> {
        match self.decide(event(command))? {
            Some(group) => self.persist(&group),
            None => Err("the command changed nothing".into()),
        }
    }

    /// Decides until nothing comes out.
    fn settle(&mut self) -> Result<(), Fault> {
        while let Some(group) = self.decide(Event::Changed)? {
            self.persist(&group)?;
        }
        Ok(())
    }

    /// Lets every replica that waits become ready, until all are.
    fn grow(&mut self) -> Result<(), Fault> {
        loop {
            self.settle()?;
            let waiting: Vec<JobId> = self.in_state(JobState::Pend);
            if waiting.is_empty() {
                break;
            }
            for chunk in waiting.chunks(CHUNK) {
                let facts = chunk.iter().flat_map(|id| start(*id)).collect();
                self.commit(facts)?;
            }
            self.now.0 += 2_000;
        }
        self.now.0 += 2_000;
        self.settle()
    }

    fn in_state(&self, state: JobState) -> Vec<JobId> {
        let view = self.reader.view();
        let jobs = view.live_replicas(self.id);
        jobs.filter(|job| job.state == state)
            .map(|job| job.id)
            .collect()
    }

    /// Medians and the slowest hundredth, in microseconds.
    fn measure(&mut self, before: Before) -> Result<serde_json::Value, Fault> {
        let (mut alone, mut whole) = (Vec::new(), Vec::new());
        for round in 0..SAMPLES {
            self.now.0 += 1;
            let event = before(self, round)?.map_or(Event::Changed, event);
            let begun = Instant::now();
            let group = self.decide(event)?;
            alone.push(begun.elapsed());
            if let Some(group) = group {
                self.persist(&group)?;
            }
            whole.push(begun.elapsed());
            self.settle()?;
        }
        Ok(json!({
            "decision_p50_us": quantile(&mut alone, 50),
            "decision_p99_us": quantile(&mut alone, 99),
            "with_commit_p50_us": quantile(&mut whole, 50),
            "with_commit_p99_us": quantile(&mut whole, 99),
        }))
    }

    fn one(&self, round: usize) -> Result<JobRecord, Fault> {
        let view = self.reader.view();
        let jobs = view.live_replicas(self.id);
        let mut running = jobs.filter(|job| job.state == JobState::Run);
        let job = running.nth(round * 13 % 5_000).ok_or("no replica runs")?;
        Ok((**job).clone())
    }

    fn one_becomes_ready(&mut self, round: usize) -> Result<Option<Command>, Fault> {
        let JobRecord { id, run, start, .. } = self.one(round)?;
        let text = "status 503".to_owned();
        let down = JobFact::NotReady {
            job: id,
            run,
            start,
            text,
        };
        self.commit(vec![down.into()])?;
        self.settle()?;
        let up = JobFact::Ready {
            job: id,
            run,
            start,
        };
        self.commit(vec![up.into()])?;
        self.now.0 += 1_000;
        Ok(None)
    }

    fn one_ends(&mut self, round: usize) -> Result<Option<Command>, Fault> {
        self.now.0 += 10_000;
        self.grow()?;
        let JobRecord { id, run, .. } = self.one(round)?;
        let ended = JobFact::Ended {
            job: id,
            run,
            exit: Exit::of(Cause::Exited),
            at: WallTime(0),
            stderr: "cannot open secret".to_owned(),
        };
        self.commit(vec![ended.into()])?;
        Ok(None)
    }

    fn one_more(&mut self, round: usize) -> Result<Option<Command>, Fault> {
        let desired = REPLICAS + 1 + u32::try_from(round)?;
        let remove = Vec::new();
        Ok(Some(Command::Scale { desired, remove }))
    }
}

fn event(command: Command) -> Event {
    let author = Author {
        user: "ann".to_owned(),
        operation: OperationId::default(),
    };
    Event::Command(Box::new(command), author)
}

fn decided(
    view: &View,
    service: &ServiceRecord,
    event: Event,
    now: ClusterTime,
) -> Result<Vec<Fact>, Fault> {
    let life = |host: &str| view.host(host).map(|host| host.life);
    let draining = |host: &str| view.host(host).and_then(|host| Draining::of(host));
    let situation = Situation {
        service,
        replicas: view.replicas_of(service.id),
        life: &life,
        draining: &draining,
        now,
        wall: WallTime(0),
    };
    let decision = decide(&situation, event)?;
    let facts = decision.facts().iter().cloned();
    Ok(facts
        .map(|change| match change {
            Change::Service(fact) => Fact::from(fact),
            Change::Job(fact) => Fact::from(fact),
        })
        .collect())
}

fn joined(host: u32) -> HostFact {
    HostFact::Joined {
        stale: Vec::new(),
        gone: Vec::new(),
        inventory: Inventory {
            name: format!("h{host}"),
            incarnation: Incarnation([1; 16]),
            boot_id: "boot".to_owned(),
            address: "127.0.0.1".to_owned(),
            cpus: MilliCpu(1_000_000),
            memory: Bytes(1 << 50),
            port_first: 20_000,
            port_last: 30_000,
            labels: Vec::new(),
            not_enforced: Vec::new(),
        },
    }
}

/// What is committed when a replica starts and becomes ready.
fn start(id: JobId) -> [Fact; 3] {
    let host = format!("h{}", id.number % u64::from(HOSTS));
    [
        JobFact::Placed {
            job: id,
            run: 1,
            host,
            ports: Vec::new(),
        }
        .into(),
        JobFact::Started {
            job: id,
            run: 1,
            start: 1,
            pid: 7,
            at: WallTime(0),
        }
        .into(),
        JobFact::Ready {
            job: id,
            run: 1,
            start: 1,
        }
        .into(),
    ]
}

/// A quantile in hundredths, in microseconds.
fn quantile(waits: &mut [Duration], hundredths: usize) -> u64 {
    waits.sort_unstable();
    let place = (waits.len() * hundredths / 100).min(waits.len().saturating_sub(1));
    let wait = waits.get(place).copied().unwrap_or_default();
    u64::try_from(wait.as_micros()).unwrap_or(u64::MAX)
}
