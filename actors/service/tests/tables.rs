//! Tables of the pure parts: bounds, shares, steps, victims.

use xce_model::spec::{Amount, Amount::Count, Amount::Percent};

use crate::rules::{Fence, Size, resolve, shares};
use crate::tests::world::settings;

#[test]
fn v1_bounds() {
    // Texts that are no amount (V1.3, V1.4) are refused by the file's reader, and what is unset is 25%
    // there; here V1.5 to V1.7 with the unset one at 0, for the rounding alone.
    let rows = [
        ("V1.1", Percent(0), Percent(0), 0, (0, 1)),
        ("V1.2", Percent(39), Percent(39), 10, (4, 3)),
        ("V1.5", Count(0), Percent(39), 10, (0, 3)),
        ("V1.6", Percent(39), Count(0), 10, (4, 0)),
        ("V1.7", Count(0), Count(0), 10, (0, 1)),
        ("V1.8", Percent(25), Percent(25), 1, (1, 0)),
        ("V1.9", Percent(25), Percent(25), 3, (1, 0)),
        ("V1.10", Percent(25), Percent(25), 4, (1, 1)),
        ("V1.11", Percent(25), Percent(25), 5, (2, 1)),
        ("V1.12", Percent(25), Percent(25), 10, (3, 2)),
        ("V1.13", Count(0), Percent(25), 3, (0, 1)),
        ("V1.14", Percent(1), Count(0), 10, (1, 0)),
    ];
    for (id, surge, unavailable, desired, expected) in rows {
        assert_eq!(resolve(surge, unavailable, desired), expected, "{id}");
    }
}

#[test]
fn v2_effective_unavailability() {
    // Each row is two of the cases: the most unavailable and the least available. Replacing all at
    // once, which others call recreation, is the last: everything may be unavailable.
    let rows: [(u32, Amount, u32, u32); 12] = [
        (10, Count(5), 5, 5),
        (10, Count(10), 10, 0),
        (5, Count(10), 5, 0),
        (0, Count(10), 0, 0),
        (10, Percent(50), 5, 5),
        (10, Percent(60), 6, 4),
        (10, Percent(100), 10, 0),
        (5, Percent(100), 5, 0),
        (1, Percent(99), 0, 1),
        (3, Percent(67), 2, 1),
        (7, Percent(0), 0, 7),
        (1, Count(1), 1, 0),
    ];
    for (desired, unavailable, expected, minimum) in rows {
        let mut rollout = settings().rollout;
        rollout.max_surge = Count(1);
        rollout.max_unavailable = unavailable;
        let fence = Fence::of(&rollout, desired);
        assert_eq!(
            (fence.unavailable, fence.available_min()),
            (expected, minimum),
            "desired {desired}, unavailable {unavailable:?}"
        );
    }
}

fn all_ready(sizes: &[u32]) -> Vec<Size> {
    let size = |&live: &u32| Size {
        live,
        available: live,
    };
    sizes.iter().map(size).collect()
}

#[test]
fn v6_proportional_shares() {
    let rows: [(&str, u32, &[u32], &[u32]); 14] = [
        ("V6.1", 12, &[10], &[12]),
        ("V6.2", 5, &[10], &[5]),
        ("V6.3", 10, &[2, 3], &[4, 6]),
        ("V6.4", 3, &[2, 3], &[1, 2]),
        ("V6.5", 4, &[8, 1], &[4, 0]),
        ("V6.6", 10, &[2, 3, 2], &[3, 4, 3]),
        ("V6.7", 8, &[2, 8, 3], &[1, 5, 2]),
        ("V6.8", 4, &[1, 1, 1], &[2, 1, 1]),
        ("V6.9", 2, &[1, 1, 1], &[1, 1, 0]),
        ("V6.10", 5, &[2, 2], &[3, 2]),
        ("V6.11", 0, &[3, 2, 1], &[0, 0, 0]),
        ("V6.12", 6, &[0, 0, 0], &[6, 0, 0]),
        ("P5 first", 33, &[5, 8], &[13, 20]),
        ("none", 7, &[], &[]),
    ];
    for (id, total, before, after) in rows {
        assert_eq!(shares(&all_ready(before), total, 0), after, "{id}");
    }
}

#[test]
fn shares_keep_the_available_ones() {
    // Nine of the new version never became ready, three old ones are: none of the three goes.
    let sizes = [
        Size {
            live: 8,
            available: 0,
        },
        Size {
            live: 3,
            available: 3,
        },
    ];
    assert_eq!(shares(&sizes, 9, 7), [6, 3]);
    assert_eq!(shares(&sizes, 6, 2), [4, 2]);
    // V6.17: the new version is full and none of it is available, so the old one stays.
    let sizes = [(2, 0), (1, 1)].map(|(live, available)| Size { live, available });
    assert_eq!(shares(&sizes, 3, 1), [2, 1]);
    assert_eq!(shares(&sizes, 2, 1), [1, 1]);
}
