//! Who may have a name, and what is left of runs that are not counted any more.

use xce_model::{Bytes, ClusterTime, Incarnation, JobId, MilliCpu};

use super::{host, inventory, joined};
use crate::facts::{HostFact, Inventory, Remnant};
use crate::rules::*;
use crate::state::{HostLife, HostRecord};

fn remnant(number: u64) -> Remnant {
    Remnant {
        job: JobId::single(number),
        run: 1,
        ports: vec![20_000],
        cpus: MilliCpu(500),
        memory: Bytes(1 << 20),
        name: "a job".into(),
        quarantined: false,
    }
}

fn with_life(life: HostLife) -> HostRecord {
    HostRecord { life, ..host() }
}

fn name_of(known: &HostRecord, connected: Option<u8>, by: u8) -> Result<HostFact, String> {
    let connected = connected.map(|one| Incarnation([one; 16]));
    decide_join(Some(known), connected, &inventory(by), Leftovers::default())
        .map_err(|refusal| format!("{}: {}", refusal.code, refusal.text))
}

#[test]
fn a_name_belongs_to_the_worker_that_answers() {
    use HostLife::{Away, Lost, Suspect, Up};
    // Life of the known host; who is connected; who wants the name; whether it is given.
    for (life, connected, by, given) in [
        (Up, Some(1), 1, true),
        (Up, None, 1, true),
        (Up, Some(1), 2, false),
        // A new primary holds it for up until it had the time to come: an impostor is not faster.
        (Up, None, 2, false),
        (Suspect, None, 2, true),
        (Suspect, Some(1), 2, false),
        (Suspect, Some(1), 1, true),
        (Lost, None, 2, true),
        (Away, None, 2, true),
    ] {
        let found = name_of(&with_life(life), connected, by);
        assert_eq!(
            found.is_ok(),
            given,
            "{life:?} {connected:?} {by}: {found:?}"
        );
        if let Err(text) = found {
            assert!(
                text.starts_with("name_in_use") && text.contains("0101"),
                "{text}"
            );
        }
    }
}

#[test]
fn runs_that_are_not_counted_are_kept_until_their_end_is_confirmed() {
    let mut host = with_life(HostLife::Lost);
    host.leave_behind(remnant(2));
    host.leave_behind(remnant(1));
    host.leave_behind(remnant(1));
    let numbers = |host: &HostRecord| -> Vec<u64> {
        host.remnants.iter().map(|one| one.job.number).collect()
    };
    assert_eq!(numbers(&host), [1, 2]);
    // The worker has the second one still, and one that nobody knew of.
    let found = leftovers(Some(&host), &inventory(1), &[remnant(2), remnant(9)]);
    assert_eq!(found.gone, [(JobId::single(1), 1)]);
    assert_eq!(found.stale, [remnant(9)]);
    let Leftovers { stale, gone } = found;
    let inventory = inventory(1);
    let fact = HostFact::Joined {
        inventory,
        stale,
        gone,
    };
    host.apply(&fact, ClusterTime(1), 2);
    assert_eq!(numbers(&host), [2, 9]);
    let end = HostFact::RunGone {
        host: "w1".into(),
        job: JobId::single(2),
        run: 1,
    };
    host.apply(&end, ClusterTime(2), 3);
    assert_eq!(numbers(&host), [9]);
}

#[test]
fn nothing_outlives_a_machine_and_a_new_worker_knows_nothing_of_what_an_earlier_one_left() {
    let rebooted = Inventory {
        boot_id: "another".into(),
        ..inventory(1)
    };
    for (by, left) in [
        (inventory(1), vec![remnant(1)]),
        (
            inventory(2),
            vec![Remnant {
                cpus: MilliCpu(0),
                memory: Bytes(0),
                ..remnant(1)
            }],
        ),
        (rebooted, vec![]),
    ] {
        let mut host = with_life(HostLife::Lost);
        host.leave_behind(remnant(1));
        // A worker of the same incarnation says itself which it has.
        host.apply(&joined(by), ClusterTime(1), 2);
        assert_eq!(host.remnants, left);
    }
    let mut host = host();
    host.leave_behind(remnant(1));
    let found = leftovers(Some(&host), &inventory(2), &[]);
    assert_eq!(found, Leftovers::default());
    let fact = HostFact::ConfirmedDead {
        host: "w1".into(),
        by: "ann".into(),
    };
    host.apply(&fact, ClusterTime(1), 2);
    assert!(host.remnants.is_empty() && host.life == HostLife::Lost);
    assert_eq!(host.dead.as_deref(), Some("ann"));
    host.apply(&joined(inventory(1)), ClusterTime(2), 3);
    assert!(host.dead.is_none() && host.life == HostLife::Up);
}
