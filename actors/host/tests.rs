mod blame;
mod joining;
mod lease;
mod mass;

use xce_model::{Bytes, ClusterTime, Incarnation, MilliCpu, Millis};

use crate::facts::{HostFact, Inventory};
use crate::rules::*;
use crate::state::{HostLife, HostRecord};

fn inventory(incarnation: u8) -> Inventory {
    Inventory {
        name: "w1".into(),
        incarnation: Incarnation([incarnation; 16]),
        boot_id: "boot".into(),
        address: "127.0.0.1".into(),
        cpus: MilliCpu(2000),
        memory: Bytes(1 << 30),
        port_first: 20_000,
        port_last: 20_999,
        labels: Vec::new(),
        not_enforced: Vec::new(),
    }
}

fn host() -> HostRecord {
    HostRecord::joined(inventory(1), ClusterTime(0), 1)
}

fn joined(inventory: Inventory) -> HostFact {
    HostFact::Joined {
        inventory,
        stale: Vec::new(),
        gone: Vec::new(),
    }
}

const PATIENCE: Patience = Patience {
    beat: Millis(2000),
    grace: Millis(20_000),
    away_max: Millis(600_000),
};

#[test]
fn silence_makes_suspect_then_lost() {
    let mut host = host();
    let name = || "w1".to_owned();
    for (silent, fact) in [
        (0, None),
        (5999, None),
        (6000, Some(HostFact::Suspected { host: name() })),
        (20_000, Some(HostFact::Lost { host: name() })),
    ] {
        assert_eq!(
            decide_silence(&host, Millis(silent), PATIENCE, ClusterTime(0)),
            fact,
            "{silent}"
        );
    }
    host.apply(&HostFact::Suspected { host: name() }, ClusterTime(6000), 2);
    assert_eq!(
        decide_silence(&host, Millis(6000), PATIENCE, ClusterTime(0)),
        None
    );
    assert_eq!(
        next_judgement(&host, Millis(6000), PATIENCE, ClusterTime(0)),
        Some(Millis(14_000))
    );
    assert_eq!(
        decide_beat(&host, false),
        Some(HostFact::Recovered { host: name() })
    );
    host.apply(&HostFact::Lost { host: name() }, ClusterTime(20_000), 3);
    assert_eq!(
        decide_silence(&host, Millis(90_000), PATIENCE, ClusterTime(0)),
        None
    );
    assert_eq!(
        next_judgement(&host, Millis(0), PATIENCE, ClusterTime(0)),
        None
    );
    assert_eq!(
        decide_beat(&host, false),
        None,
        "a lost host joins again, a beat is not enough"
    );
}

#[test]
fn a_full_disk_closes_a_host_until_there_is_space() {
    let now = ClusterTime(1);
    let mut host = host();
    assert_eq!(decide_beat(&host, false), None);
    let fact = decide_beat(&host, true).unwrap();
    assert!(
        matches!(&fact, HostFact::Closed { reason, .. } if reason == DISK_FULL),
        "{fact:?}"
    );
    host.apply(&fact, now, 2);
    assert!(!host.takes_jobs());
    assert_eq!(decide_beat(&host, true), None, "said once");
    let fact = decide_beat(&host, false).unwrap();
    assert!(matches!(fact, HostFact::Opened { .. }), "{fact:?}");
    host.apply(&fact, now, 3);
    assert!(host.takes_jobs());
    // What an operator closed stays closed, whatever the disk does.
    let closed = HostFact::Closed {
        host: "w1".into(),
        reason: "a new disk comes".into(),
        by: "ada".into(),
    };
    host.apply(&closed, now, 4);
    assert_eq!(decide_beat(&host, true), None);
    assert_eq!(decide_beat(&host, false), None);
}

#[test]
fn a_host_that_is_away_too_long_is_lost() {
    let mut host = host();
    let left = HostFact::Left { host: "w1".into() };
    host.apply(&left, ClusterTime(1000), 2);
    let lost = Some(HostFact::Lost { host: "w1".into() });
    // Counted from its goodbye; a new primary, which heard nothing yet, gives it the grace.
    for (now, silent, fact, next) in [
        (600_999, 600_000, None, 1),
        (601_000, 600_000, lost.clone(), 1),
        (601_000, 19_999, None, 1),
        (601_000, 20_000, lost, 1),
        (1_000, 0, None, 600_000),
        (590_000, 1_000, None, 19_000),
    ] {
        let now = ClusterTime(now);
        let silent = Millis(silent);
        assert_eq!(
            decide_silence(&host, silent, PATIENCE, now),
            fact,
            "{now:?}"
        );
        let wait = next_judgement(&host, silent, PATIENCE, now);
        assert_eq!(wait, Some(Millis(next)), "{now:?} {silent}");
    }
}

#[test]
fn a_new_incarnation_begins_a_new_mark() {
    let mut host = host();
    let marked = HostFact::Marked {
        host: "w1".into(),
        epoch: 3,
        sequence: 9,
    };
    host.apply(&marked, ClusterTime(1), 2);
    assert_eq!((host.epoch, host.sequence, host.changed), (3, 9, 1));
    host.apply(&joined(inventory(1)), ClusterTime(2), 3);
    assert_eq!((host.epoch, host.sequence), (3, 9));
    host.apply(&joined(inventory(2)), ClusterTime(3), 4);
    assert_eq!((host.epoch, host.sequence), (0, 0));
}

#[test]
fn a_host_that_fails_launches_is_closed_with_the_reason() {
    let mut host = host();
    for _ in 0..2 {
        let facts = decide_launch_failed(&host, None, "spool not writable", ClusterTime(1));
        assert_eq!(facts.len(), 1);
        for fact in facts {
            host.apply(&fact, ClusterTime(1), 2);
        }
    }
    for fact in decide_launch_failed(&host, None, "spool not writable", ClusterTime(1)) {
        host.apply(&fact, ClusterTime(1), 3);
    }
    assert!(!host.takes_jobs() && host.life == HostLife::Up);
    assert!(
        host.closed
            .as_ref()
            .unwrap()
            .reason
            .contains("spool not writable")
    );
    host.apply(
        &HostFact::Opened {
            host: "w1".into(),
            by: "ann".into(),
        },
        ClusterTime(2),
        4,
    );
    assert!(host.takes_jobs() && host.launch_failures == 0);
}
