//! Random histories: audited after every step, replayed, cut by snapshots, followed by deltas.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use xce_host::HostFact;
use xce_model::{Cause, ClusterTime, JobId, OperationId, ServiceId, SessionId, WallTime};
use xce_replica::{AfterStop, JobFact, JobRecord};
use xce_service::ServiceFact;
use xce_service::facts::TargetReason;
use xce_wal::Machine;

use super::builders::*;
use super::snapshots::{records, restored};
use crate::{ClockFact, Fact, Ledger, Operation, Outcome, SessionFact, SessionKind, View};

const HOSTS: [&str; 3] = ["w1", "w2", "w3"];

fn any_job(view: &View, dice: &mut Dice) -> (JobId, u32, u32) {
    let known = view.jobs().len() as u64;
    if known > 0 && dice.roll(4) > 0 {
        let job: &Arc<JobRecord> = view.jobs().values().nth(dice.roll(known) as usize).unwrap();
        return (job.id, job.run, job.start);
    }
    let number = 1 + dice.roll(12);
    if dice.roll(2) == 0 {
        (JobId::element(number, dice.roll(6) as u32), 0, 0)
    } else {
        (JobId::single(number), 0, 0)
    }
}

fn job_fact(view: &View, dice: &mut Dice) -> Fact {
    let (job, run, start) = any_job(view, dice);
    // Sometimes of another run.
    let run = if dice.roll(8) == 0 { run + 1 } else { run };
    let ports = [20_000 + dice.roll(3) as u16];
    let host = HOSTS[dice.roll(3) as usize];
    match dice.roll(16) {
        0..=3 => placed(
            job,
            run + 1,
            host,
            if dice.roll(2) == 0 { &[] } else { &ports },
        ),
        4 | 5 => started(job, run, start + 1),
        6 => Fact::Job(JobFact::Ready { job, run, start }),
        7 => Fact::Job(JobFact::NotReady {
            job,
            run,
            start,
            text: "503".into(),
        }),
        8 => ended(job, run, dice.roll(2) as i32),
        9 => Fact::Job(JobFact::StopRequested {
            job,
            run,
            cause: Cause::TermOwner,
            then: AfterStop::End,
        }),
        10 => Fact::Job(JobFact::Requeued {
            job,
            run,
            exit: exit(1),
            not_before: ClusterTime(dice.roll(3) * 1000),
            avoid: (dice.roll(2) == 0).then(|| host.to_owned()),
            held: dice.roll(4) == 0,
            at: WallTime(7),
        }),
        11 => Fact::Job(JobFact::Restarting {
            job,
            run,
            start,
            exit: exit(2),
            stderr: "x".into(),
        }),
        12 => held(job),
        13 => released(job),
        14 => cleaned_up(job),
        _ => match dice.roll(2) {
            0 => Fact::Job(JobFact::Suspended { job, run }),
            _ => Fact::Job(JobFact::Resumed { job, run }),
        },
    }
}

fn host_fact(dice: &mut Dice) -> Fact {
    let host = HOSTS[dice.roll(3) as usize].to_owned();
    Fact::Host(match dice.roll(9) {
        0 | 1 => return joined(&host, 1 + dice.roll(4), dice.roll(2) as u8),
        2 => HostFact::Suspected { host },
        3 => HostFact::Recovered { host },
        4 => HostFact::Lost { host },
        5 => HostFact::Closed {
            host,
            reason: "r".into(),
            by: "ann".into(),
        },
        6 => HostFact::Opened {
            host,
            by: "ann".into(),
        },
        7 => HostFact::Marked {
            host,
            epoch: dice.roll(2),
            sequence: dice.roll(9),
        },
        _ => HostFact::Removed { host },
    })
}

fn service_fact(dice: &mut Dice) -> Fact {
    let service = ServiceId(1 + dice.roll(5));
    match dice.roll(6) {
        0 => created(["web", "api"][dice.roll(2) as usize], 2),
        1 | 2 => replicas(service, 1, &[dice.roll(3) as u32, dice.roll(3) as u32]),
        3 => Fact::Service(ServiceFact::Targeted {
            service,
            version: 1,
            want: dice.roll(4) as u32,
            why: TargetReason::Scale,
        }),
        4 => Fact::Service(ServiceFact::DeletionRequested {
            service,
            author: "ann".into(),
            operation: OperationId([3; 16]),
        }),
        _ => Fact::Service(ServiceFact::Deleted { service }),
    }
}

fn other_fact(dice: &mut Dice) -> Fact {
    let session = SessionId(1 + dice.roll(4));
    match dice.roll(4) {
        0 => Fact::Session(SessionFact::Opened {
            principal: "worker:w1".into(),
            kind: SessionKind::Worker,
            incarnation: Default::default(),
            fingerprint: [1; 16],
        }),
        1 => Fact::Session(SessionFact::Resumed {
            session,
            epoch: dice.roll(4),
        }),
        2 => Fact::Session(SessionFact::Ended { session }),
        _ => Fact::Clock(ClockFact::Anchored {
            boot_id: "b".into(),
            boot_ms: dice.roll(99),
            wall: WallTime(3),
        }),
    }
}

pub(super) fn random_step(bench: &mut Bench, dice: &mut Dice) -> Outcome {
    bench.now += dice.roll(1000);
    let mut group = bench.group();
    for _ in 0..=dice.roll(3) {
        group.facts.push(match dice.roll(12) {
            0 => submitted(job(&format!("j{}", dice.roll(3)))),
            1 => submitted(array(&[(0, 2), (4, 5)], Some(2))),
            2 | 3 => host_fact(dice),
            4 => service_fact(dice),
            5 => other_fact(dice),
            _ => job_fact(bench.view(), dice),
        });
    }
    if dice.roll(3) == 0 {
        let operation = Operation {
            id: OperationId([dice.roll(20) as u8; 16]),
            made_at: bench.lsn,
        };
        group = group.on_behalf("ann", Some(operation));
    }
    bench.commit(group)
}

fn replayed(mut ledger: Ledger, log: &[(xce_wal::Position, Vec<u8>)]) -> Ledger {
    for (at, bytes) in log {
        Machine::apply(&mut ledger, *at, bytes);
        Machine::publish(&mut ledger, at.lsn, at.term);
    }
    ledger
}

/// What a reader of jobs knows.
type Known = BTreeMap<JobId, Arc<JobRecord>>;

fn follow(known: &mut Known, since: u64, view: &View) {
    let delta = view.changes().jobs.since(since).unwrap();
    for id in delta.gone {
        known.remove(&id);
    }
    for id in delta.changed {
        known.insert(id, view.job(id).unwrap().clone());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn replay_and_snapshots_and_deltas_give_the_same_state(seed: u64, steps in 1_usize..120) {
        let mut dice = Dice(seed);
        let mut bench = Bench::new();
        let cut = dice.roll(steps as u64) as usize;
        let mut middle = None;
        let mut known = Known::new();
        let mut read_at = 0;
        for step in 0..steps {
            if step == cut {
                middle = Some((records(&bench.ledger), bench.log.len()));
            }
            random_step(&mut bench, &mut dice);
            if dice.roll(10) == 0 {
                follow(&mut known, read_at, bench.view());
                read_at = bench.lsn;
                prop_assert!(known.iter().eq(bench.view().jobs().iter()));
            }
        }
        let from_log = replayed(Ledger::new(Box::new(|_, _| {})), &bench.log);
        prop_assert_eq!(from_log.view(), bench.view());

        let last = records(&bench.ledger);
        let from_snapshot = restored(&last).unwrap();
        prop_assert_eq!(from_snapshot.view(), bench.view());
        prop_assert_eq!(&records(&from_snapshot), &last);

        let (early, place) = middle.unwrap();
        let from_both = replayed(restored(&early).unwrap(), &bench.log[place..]);
        prop_assert_eq!(from_both.view(), bench.view());
        prop_assert_eq!(&records(&from_both), &last);
    }
}
