//! V7: which replica of several goes first, when one has to.

use std::sync::Arc;

use xce_host::HostLife;
use xce_model::*;
use xce_replica::{JobFact, JobRecord};

use crate::facts::{ServiceFact, TargetReason};
use crate::tests::steps::jobs;
use crate::tests::world::*;
use crate::*;

const NOW: u64 = 10_000_000_000;
const MONTH: u64 = 30 * 86_400_000;

/// A replica that is ready: its host, for how many milliseconds, and its restarts in place.
struct Ready(&'static str, u64, u32);

/// A service that wants one replica less than there are, each of which needs a second of being
/// ready.
fn record(count: u32) -> ServiceRecord {
    let mut spec = spec(count - 1, 1, 0);
    spec.settings.rollout.min_ready = Millis::seconds(1);
    let at = (10, ClusterTime(0), WallTime(5));
    let mut record = ServiceRecord::created(ServiceId(3), &spec, at.0, at.1, at.2, "ada");
    let facts = [
        ServiceFact::Targeted {
            service: record.id,
            version: 1,
            want: count - 1,
            why: TargetReason::Grow,
        },
        ServiceFact::RolloutCompleted {
            service: record.id,
            version: 1,
            untested: false,
        },
    ];
    for fact in &facts {
        record.apply(fact, at.1, 11, at.2);
    }
    record
}

fn replica(job: &mut Arc<JobRecord>, like: &Ready) {
    let job = Arc::make_mut(job);
    job.host = Some(Arc::from(like.0));
    job.ready_since = Some(ClusterTime(NOW - like.1));
    job.restarts = like.2;
}

/// Index of the replica that is stopped. Indices and job numbers rise in the order given, so that
/// the last one is the newest.
fn victim(replicas: &[Ready]) -> usize {
    let count = u32::try_from(replicas.len()).expect("few");
    let record = record(count);
    let mut all = jobs(&record, 1, (count, count));
    for (job, like) in all.iter_mut().zip(replicas) {
        replica(job, like);
    }
    let life = |_: &str| Some(HostLife::Up);
    let situation = Situation {
        service: &record,
        replicas: (&all).into(),
        life: &life,
        draining: &|_| None,
        now: ClusterTime(NOW),
        wall: WallTime(5),
    };
    let decision = decide(&situation, Event::Changed).expect("not refused");
    let stopped: Vec<JobId> = decision
        .facts()
        .iter()
        .filter_map(|change| match change {
            Change::Job(JobFact::StopRequested { job, .. }) => Some(*job),
            Change::Job(_) | Change::Service(_) => None,
        })
        .collect();
    assert_eq!(stopped.len(), 1, "{:?}", decision.facts());
    all.iter()
        .position(|job| job.id == stopped[0])
        .expect("one of them")
}

/// Replicas, and which of them goes first.
const READY: [(&str, &[Ready], usize); 10] = [
    (
        "V7.6: not yet available before available",
        &[Ready("a", 999, 0), Ready("b", MONTH, 0)],
        0,
    ),
    (
        "V7.7: two on a host before one, whatever is newest",
        &[
            Ready("a", 5_000, 0),
            Ready("a", 5_000, 0),
            Ready("b", 5_000, 0),
        ],
        1,
    ),
    (
        "V7.8: ready now before ready long ago",
        &[Ready("a", 5_000, 0), Ready("b", MONTH, 0)],
        0,
    ),
    (
        "V7.9: of two on a host, the one that is ready now",
        &[
            Ready("a", 5_000, 0),
            Ready("a", MONTH, 0),
            Ready("b", MONTH, 0),
        ],
        0,
    ),
    (
        "V7.9: two on a host before one that is ready now",
        &[
            Ready("a", MONTH, 0),
            Ready("a", MONTH, 0),
            Ready("b", 5_000, 0),
        ],
        1,
    ),
    (
        // By restarts the first would go; the design has no such order: of equals the newest.
        "V7.10: restarts do not count, the newest goes",
        &[Ready("a", MONTH, 9_001), Ready("b", MONTH, 0)],
        1,
    ),
    (
        "not yet available before two on a host",
        &[
            Ready("a", MONTH, 0),
            Ready("a", MONTH, 0),
            Ready("b", 999, 0),
        ],
        2,
    ),
    (
        "three on a host before two",
        &[
            Ready("a", MONTH, 0),
            Ready("a", MONTH, 0),
            Ready("b", MONTH, 0),
            Ready("b", MONTH, 0),
            Ready("b", MONTH, 0),
            Ready("a", MONTH, 0),
            Ready("a", MONTH, 0),
        ],
        6,
    ),
    (
        "V7.11: two on a host before one that was restarted often",
        &[
            Ready("a", 5_000, 0),
            Ready("a", 5_000, 0),
            Ready("b", 5_000, 9_001),
        ],
        1,
    ),
    (
        "V7.12: of equals the newest",
        &[Ready("a", 5_000, 0), Ready("b", 5_000, 0)],
        1,
    ),
];

#[test]
fn v7_of_those_that_are_ready() {
    for (id, replicas, expected) in READY {
        assert_eq!(victim(replicas), expected, "{id}");
    }
}
