//! Leases of strict single copies, as tables.

use super::*;
use crate::rules::lease::{KILL_BUDGET, MARGIN, check, fenced_at, lease};

fn patience(beat_ms: u64, grace_ms: u64) -> Patience {
    Patience {
        beat: Millis(beat_ms),
        grace: Millis(grace_ms),
        ..PATIENCE
    }
}

#[test]
fn a_lease_ends_before_the_grace_and_outlasts_missed_beats() {
    // beat, grace, kill budget, lease
    let table = [
        (2_000, 20_000, KILL_BUDGET.0, Some(15_000)),
        (500, 5_000, 1_000, Some(4_000)),
        (500, 5_000, 3_400, Some(1_600)),
        // As long as three missed beats, or shorter: a hiccup would kill the job.
        (500, 5_000, 3_500, None),
        (2_000, 8_000, 2_000, None),
        (2_000, 8_000, 5_000, None),
        (2_000, 4_000, 5_000, None),
    ];
    for (beat, grace, budget, expected) in table {
        let found = lease(patience(beat, grace), Millis(budget));
        assert_eq!(found, expected.map(Millis), "{beat} {grace} {budget}");
        let checked = check(patience(beat, grace), Millis(budget));
        assert_eq!(checked.is_ok(), expected.is_some());
    }
}

#[test]
fn what_cannot_be_kept_is_refused_with_the_settings_to_change() {
    let refusal = check(patience(2_000, 8_000), KILL_BUDGET).unwrap_err();
    assert_eq!(refusal.code, "single_copy_impossible");
    for part in ["5s", "(8s)", "beats of 2s", "`host_grace` above 11s"] {
        assert!(refusal.text.contains(part), "{part}: {}", refusal.text);
    }
}

#[test]
fn copies_are_over_a_margin_after_the_loss_and_never_before() {
    let mut record = host();
    for life in [HostLife::Up, HostLife::Suspect, HostLife::Away] {
        record.life = life;
        assert_eq!(fenced_at(&record), None, "{life:?}");
    }
    record.life = HostLife::Lost;
    record.since = ClusterTime(1_000);
    assert_eq!(fenced_at(&record), Some(ClusterTime(1_000).after(MARGIN)));
    record.dead = Some("ann".into());
    assert_eq!(fenced_at(&record), Some(ClusterTime(0)));
}
