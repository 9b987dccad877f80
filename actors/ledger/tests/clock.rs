use xce_model::{ClusterTime, WallTime};

use super::builders::*;
use crate::{ClockFact, ClusterClock, Here};

fn here(boot: &str, boot_ms: u64, wall: i64) -> Here {
    Here {
        boot_id: boot.into(),
        boot_ms,
        wall: WallTime(wall),
    }
}

#[test]
fn time_goes_on_by_boot_time_else_by_the_wall_clock_and_never_back() {
    let mut bench = Bench::new();
    assert_eq!(
        ClusterClock::default().resume(&here("a", 99, 1_700_000_000_000)),
        ClusterTime(0)
    );
    bench.now = 10_000;
    bench.apply([ClockFact::Anchored {
        boot_id: "a".into(),
        boot_ms: 500_000,
        wall: WallTime(1_010_000),
    }
    .into()]);
    bench.now = 12_000;
    bench.host("w1", 1);
    let clock = bench.view().clock().clone();
    // Table: same boot; same boot and a wall clock that jumped; another boot; wall clock set back;
    // a boot time below the anchor's; nothing passed.
    let cases = [
        (here("a", 507_000, 1_017_000), 17_000),
        (here("a", 507_000, 99_999_000), 17_000),
        (here("b", 3, 1_017_000), 17_000),
        (here("b", 3, 5), 12_000),
        (here("a", 400, 1_013_000), 13_000),
        (here("a", 500_001, 0), 12_000),
    ];
    for (here, expected) in cases {
        assert_eq!(clock.resume(&here), ClusterTime(expected), "{here:?}");
    }
}

#[test]
fn a_group_that_is_behind_does_not_turn_time_back() {
    let mut bench = Bench::new();
    bench.now = 50;
    bench.host("w1", 1);
    bench.now = 40;
    bench.host("w2", 1);
    assert_eq!(bench.view().clock().last, ClusterTime(50));
    assert_eq!(bench.view().host("w2").unwrap().since, ClusterTime(50));
}
