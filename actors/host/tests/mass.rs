//! The doubt of a controller in its own network.

use xce_model::ClusterTime;

use super::PATIENCE;
use crate::rules::*;

const PERCENT: u32 = MASS_LOSS_PERCENT;

fn around(silent: u32, lost_lately: u32, answering: u32) -> Around {
    Around {
        silent,
        lost_lately,
        answering,
    }
}

#[test]
fn a_mass_loss_needs_three_and_more_than_half() {
    for (silent, lost_lately, answering, is_one) in [
        (2, 0, 1, false),
        (3, 0, 3, false),
        (4, 0, 3, true),
        (3, 0, 1, true),
        (3, 0, 100, false),
        // What was lost within the grace went silent with them.
        (4, 2, 4, true),
        (4, 0, 4, false),
    ] {
        let seen = around(silent, lost_lately, answering);
        assert_eq!(seen.is_mass_loss(PERCENT), is_one, "{seen:?}");
    }
    assert!(around(3, 0, 7).is_mass_loss(20));
}

/// One loss that is due in a row of them: after so many milliseconds, with so many hosts silent and
/// answering; and what comes of it: none for a declared one, else the doubt.
type Step = (u64, u32, u32, Option<&'static str>);

fn told(doubt: Option<Doubt>) -> Option<&'static str> {
    doubt.map(|doubt| match doubt {
        Doubt::All => "all",
        Doubt::Most(_) => "most",
        Doubt::Slowly => "slowly",
    })
}

#[test]
fn losses_are_put_off_and_then_come_slowly() {
    let rows: [(&str, &[Step]); 5] = [
        ("few", &[(20_000, 1, 5, None), (20_000, 2, 4, None)]),
        (
            "most, and they stay away",
            &[
                (20_000, 4, 2, Some("most")),
                (25_000, 4, 2, Some("most")),
                (30_000, 4, 2, Some("most")),
                (35_000, 4, 2, Some("most")),
                (39_999, 4, 2, Some("most")),
                (40_000, 4, 2, None),
                // One in the time of a beat, however few are left.
                (40_001, 3, 2, Some("slowly")),
                (42_000, 3, 2, None),
                (43_999, 2, 2, Some("slowly")),
                (44_000, 2, 2, None),
            ],
        ),
        (
            "all, for ever",
            &[
                (20_000, 6, 0, Some("all")),
                (25_000, 6, 0, Some("all")),
                (30_000, 6, 0, Some("all")),
                (35_000, 6, 0, Some("all")),
                (40_000, 6, 0, Some("all")),
                (45_000, 6, 0, Some("all")),
            ],
        ),
        (
            "all; then one comes back, and the others get the time to",
            &[
                (20_000, 2, 0, Some("all")),
                (25_000, 1, 1, Some("most")),
                (30_000, 1, 1, Some("most")),
                (35_000, 1, 1, Some("most")),
                (40_000, 1, 1, Some("most")),
                (44_999, 1, 1, Some("most")),
                (45_000, 1, 1, None),
            ],
        ),
        (
            "a doubt that is over is forgotten",
            &[
                (20_000, 4, 2, Some("most")),
                (25_000, 4, 2, Some("most")),
                // All came back; later most go silent again, and get another grace.
                (60_000, 4, 2, Some("most")),
                (65_000, 4, 2, Some("most")),
                (90_000, 1, 5, None),
            ],
        ),
    ];
    for (name, steps) in rows {
        let mut guard = MassLoss::default();
        for (at, silent, answering, doubt) in steps {
            let now = ClusterTime(*at);
            let verdict = guard.judge(around(*silent, 0, *answering), now, PATIENCE, PERCENT);
            match verdict {
                Verdict::Declare => assert_eq!(*doubt, None, "{name} at {at}"),
                Verdict::Wait(until) => {
                    assert!(until > now, "{name} at {at}: {until:?}");
                    assert_eq!(told(guard.doubt(now, PATIENCE)), *doubt, "{name} at {at}");
                }
            }
        }
    }
}

#[test]
fn a_large_cluster_loses_a_hundredth_in_a_beat() {
    let mut guard = MassLoss::default();
    let seen = around(3_000, 0, 2_000);
    for at in [0, 5_000, 10_000, 15_000] {
        guard.judge(seen, ClusterTime(at), PATIENCE, PERCENT);
    }
    let declared = |now: u64, guard: &mut MassLoss| {
        let judged = (0..3_000).map(|_| guard.judge(seen, ClusterTime(now), PATIENCE, PERCENT));
        judged
            .filter(|verdict| *verdict == Verdict::Declare)
            .count()
    };
    assert_eq!(declared(20_000, &mut guard), 50);
    assert_eq!(declared(21_999, &mut guard), 0);
    assert_eq!(declared(22_000, &mut guard), 50);
}

#[test]
fn operators_are_told_why_and_how_long() {
    let now = ClusterTime(5_000);
    let seen = around(3, 0, 1);
    for (doubt, words) in [
        (Doubt::All, "not one of 3 hosts answers"),
        (Doubt::Most(ClusterTime(12_500)), "another 8 s"),
        (Doubt::Slowly, "a few at a time"),
    ] {
        let text = doubt.sentence(seen, now);
        assert!(text.contains(words), "{text}");
    }
}
