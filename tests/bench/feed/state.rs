//! A ledger in memory with many waiting jobs, of which some change.

use xce_host::HostFact;
use xce_host::facts::Inventory;
use xce_ledger::{Cursor, Fact, Group, Ledger, Outcome, Reader, RowWriter, Scope};
use xce_model::{Bytes, ClusterTime, Incarnation, JobId, Lsn, MilliCpu, OperationId, WallTime};
use xce_replica::JobFact;
use xce_wal::Position;

use crate::client::{Fault, job};

/// Jobs that share a specification. Source: chosen; an array or a campaign of a user.
pub const JOBS_A_SPEC: u32 = 1_000;
/// Most specifications. Source: derived; those of a million jobs.
pub const SPECS: u32 = 1_000;
/// Facts of one group. Source: derived; as many as one log entry takes.
const CHUNK: u32 = 500;
/// Hosts on which jobs are placed. Source: chosen; as many jobs each as a large host takes.
const HOSTS: u32 = 1_000;

/// The ledger.
pub struct State {
    ledger: Ledger,
    lsn: Lsn,
    jobs: u32,
    /// Changes so far: each job goes from waiting to its host, starts, becomes ready and not, in turn.
    changes: u64,
}

impl State {
    /// So many waiting jobs.
    pub fn new(jobs: u32) -> Result<Self, Fault> {
        let mut state = Self {
            ledger: Ledger::new(Box::new(|_, _| {})),
            lsn: 0,
            jobs,
            changes: 0,
        };
        for host in 0..HOSTS {
            state.apply(vec![joined(host).into()])?;
        }
        let mut first = 0;
        while first < jobs {
            let last = (first + CHUNK).min(jobs);
            let facts = (first..last).map(|number| {
                let mut spec = job(&["/bin/true"], 100, None);
                spec.name = format!("campaign-{}", number / JOBS_A_SPEC);
                let operation = OperationId::default();
                Fact::from(JobFact::Submitted {
                    spec: Box::new(spec),
                    operation,
                })
            });
            state.apply(facts.collect())?;
            first = last;
        }
        Ok(state)
    }

    /// Reads what is committed.
    pub fn reader(&self) -> Reader {
        self.ledger.reader()
    }

    /// Last position.
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    fn apply(&mut self, facts: Vec<Fact>) -> Result<(), Fault> {
        let mut group = Group::new(ClusterTime(self.lsn), WallTime(0), "bench");
        group.facts = facts;
        self.lsn += 1;
        let at = Position {
            term: 1,
            lsn: self.lsn,
            sub: 0,
        };
        let outcome = self.ledger.commit(at, &group);
        self.ledger.publish(self.lsn, 1);
        match outcome {
            Outcome::Applied(_) => Ok(()),
            other => Err(format!("not applied: {other:?}").into()),
        }
    }

    /// Lets so many jobs change, spread over all of them.
    pub fn change(&mut self, count: u32) -> Result<(), Fault> {
        let ignored = self.ledger.view().ignored();
        let mut left = count;
        while left > 0 {
            let some = left.min(CHUNK);
            let facts = (0..some).map(|_| self.next()).collect();
            self.apply(facts)?;
            left -= some;
        }
        if self.ledger.view().ignored() != ignored {
            return Err("a change did not fit".into());
        }
        Ok(())
    }

    /// The next change; steps of a prime length visit every job before one comes again.
    fn next(&mut self) -> Fact {
        const STEP: u64 = 7_919;
        let jobs = u64::from(self.jobs);
        let (round, place) = (self.changes / jobs, self.changes % jobs);
        self.changes += 1;
        let number = 1 + place * STEP % jobs;
        let (job, run, start) = (JobId::single(number), 1, 1);
        let fact = match round {
            0 => JobFact::Placed {
                job,
                run,
                host: format!("h{}", number % u64::from(HOSTS)),
                ports: Vec::new(),
            },
            1 => JobFact::Started {
                job,
                run,
                start,
                pid: 1,
                at: WallTime(1),
            },
            more if more % 2 == 0 => JobFact::Ready { job, run, start },
            _ => JobFact::NotReady {
                job,
                run,
                start,
                text: "status 503".to_owned(),
            },
        };
        fact.into()
    }

    /// Bytes of the rows of what changed since a position, without anything around them.
    pub fn encoded(&self, since: Lsn) -> u64 {
        let view = self.reader().view();
        let mut writer = RowWriter::new();
        // Once for the specifications, which the reader has to be told of at most once.
        let mut bytes = 0;
        for _ in 0..2 {
            bytes = 0;
            let mut row = Vec::new();
            let mut cursor = Cursor::new(Scope::All, since);
            while cursor
                .next(&view, |change| {
                    row.clear();
                    writer.put(&mut row, &change);
                    bytes += row.len() as u64;
                    true
                })
                .is_some()
            {}
        }
        bytes
    }
}

fn joined(number: u32) -> HostFact {
    HostFact::Joined {
        stale: Vec::new(),
        gone: Vec::new(),
        inventory: Inventory {
            name: format!("h{number}"),
            incarnation: Incarnation([1; 16]),
            boot_id: String::new(),
            cpus: MilliCpu(1_000_000),
            memory: Bytes(1 << 40),
            labels: Vec::new(),
            port_first: 20_000,
            port_last: 30_000,
            address: "127.0.0.1".to_owned(),
            not_enforced: Vec::new(),
        },
    }
}
