//! Kinds of cases whole, beside the rows of the other tables: bounds, traces and shares against a
//! second way to say what they must be, and events by who caused them.

use proptest::prelude::*;
use xce_model::spec::Amount::{self, Count, Percent};
use xce_model::{Cause, JobId};

use crate::rules::{Fence, Size, resolve, shares};
use crate::tests::rollouts::trace;
use crate::tests::world::*;
use crate::*;

/// What it shows, surge, unavailable, desired, and the two as numbers.
type Bounds = (&'static str, Amount, Amount, u32, (u32, u32));

#[test]
fn v1_bounds_of_every_kind() {
    let rows: [Bounds; 16] = [
        ("none desired, shares", Percent(25), Percent(25), 0, (0, 1)),
        ("none desired, numbers", Count(2), Count(1), 0, (2, 1)),
        ("surge above desired", Count(7), Count(0), 3, (7, 0)),
        ("all above", Percent(100), Percent(100), 1, (1, 1)),
        ("a whole share of surge", Percent(100), Count(0), 8, (8, 0)),
        ("33% of 3 rounds apart", Percent(33), Percent(33), 3, (1, 0)),
        ("34% of 3", Percent(34), Percent(34), 3, (2, 1)),
        ("50% of 1", Percent(50), Percent(50), 1, (1, 0)),
        ("50% of 3", Percent(50), Percent(50), 3, (2, 1)),
        ("1% of 99", Percent(1), Percent(1), 99, (1, 0)),
        ("1% of 100", Percent(1), Percent(1), 100, (1, 1)),
        ("1% of 101", Percent(1), Percent(1), 101, (2, 1)),
        ("10% of 25", Percent(10), Percent(10), 25, (3, 2)),
        ("99% of 10", Percent(99), Percent(99), 10, (10, 9)),
        ("only rounds to nothing", Count(0), Percent(1), 10, (0, 1)),
        ("a share and a number", Percent(20), Count(2), 7, (2, 2)),
    ];
    for (id, surge, unavailable, desired, expected) in rows {
        assert_eq!(resolve(surge, unavailable, desired), expected, "{id}");
    }
}

/// What a rollout without failures must go through, in numbers alone; never one that is not ready.
fn expected_trace(desired: u32, surge: u32, unavailable: u32, ready: bool) -> Vec<(usize, usize)> {
    let minimum = desired - unavailable.min(desired);
    let (mut old, mut new) = (desired, 0);
    let mut seen = Vec::new();
    loop {
        let before = (old, new);
        let room = (desired + surge).saturating_sub(old + new);
        if room > 0 && new < desired {
            new += room.min(desired - new);
        } else {
            let available = if ready { old + new } else { old };
            old -= available.saturating_sub(minimum).min(old);
        }
        if before == (old, new) {
            break;
        }
        seen.push((old as usize, new as usize));
    }
    if seen.is_empty() {
        seen.push((old as usize, new as usize));
    }
    seen
}

#[test]
fn v5_traces_of_every_small_bound() {
    for desired in 0..=5 {
        for surge in 0..=desired + 1 {
            for unavailable in 0..=desired {
                if surge + unavailable == 0 {
                    continue;
                }
                for (ready, behaviour) in
                    [(true, Behaviour::Ready(0)), (false, Behaviour::NeverReady)]
                {
                    let told = format!("V5 {desired}/{surge}/{unavailable}, ready: {ready}");
                    let seen = trace(&spec(desired, surge, unavailable), behaviour);
                    let expected = expected_trace(desired, surge, unavailable, ready);
                    assert_eq!(seen, expected, "{told}");
                }
            }
        }
    }
}

fn all_available(sizes: &[u32]) -> Vec<Size> {
    let size = |&live: &u32| Size {
        live,
        available: live,
    };
    sizes.iter().map(size).collect()
}

#[test]
fn v6_shares_of_other_sizes() {
    let rows: [(&str, u32, &[u32], &[u32]); 12] = [
        ("with surge, three versions", 22, &[6, 3, 3], &[11, 6, 5]),
        ("with surge, two versions", 25, &[5, 8], &[10, 15]),
        ("to one of two", 1, &[3, 3], &[1, 0]),
        ("to one of three", 1, &[1, 1, 1], &[1, 0, 0]),
        ("to none", 0, &[4, 4], &[0, 0]),
        ("from one", 5, &[1, 0], &[5, 0]),
        ("the old one alone", 7, &[0, 3], &[0, 7]),
        ("no change", 6, &[2, 4], &[2, 4]),
        ("one more, the larger takes it", 7, &[2, 4], &[2, 5]),
        ("one less, the larger loses it", 5, &[2, 4], &[2, 3]),
        ("four versions, twice", 20, &[1, 2, 3, 4], &[2, 4, 6, 8]),
        ("a hundred times", 1_000, &[3, 7], &[300, 700]),
    ];
    for (id, total, before, after) in rows {
        assert_eq!(shares(&all_available(before), total, 0), after, "{id}");
    }
}

proptest! {
    #[test]
    fn v6_shares_are_exact_and_move_one_way(
        live in proptest::collection::vec(0_u32..200, 1..6),
        total in 0_u32..2_000,
    ) {
        let before: u32 = live.iter().sum();
        let after = shares(&all_available(&live), total, 0);
        if before > 0 {
            prop_assert_eq!(after.iter().sum::<u32>(), total);
        }
        for (was, is) in live.iter().zip(&after) {
            if total >= before {
                prop_assert!(is >= was, "{:?} -> {:?}", live, after);
            } else {
                prop_assert!(is <= was, "{:?} -> {:?}", live, after);
            }
        }
        // Each keeps its share up to rounding; what that leaves over is less than one a version.
        for (was, is) in live.iter().zip(&after) {
            if before > 0 {
                let exact = f64::from(*was) * f64::from(total) / f64::from(before);
                let off = (exact - f64::from(*is)).abs();
                prop_assert!(off <= live.len() as f64, "{:?} -> {:?}", live, after);
            }
        }
    }

    #[test]
    fn v6_shares_keep_enough_that_are_available(
        sizes in proptest::collection::vec((0_u32..30, 0_u32..30), 1..5),
        total in 0_u32..100,
        minimum in 0_u32..60,
    ) {
        let sizes: Vec<Size> = sizes
            .iter()
            .map(|(live, idle)| Size { live: live + idle, available: *live })
            .collect();
        let after = shares(&sizes, total, minimum);
        let there: u32 = sizes.iter().map(|size| size.available).sum();
        let kept: u32 = sizes.iter().zip(&after).map(|(size, count)| size.available.min(*count)).sum();
        prop_assert!(kept >= minimum.min(there), "{:?} -> {:?}", sizes, after);
    }

    #[test]
    fn v2_bounds_hold_for_any_settings(
        surge in 0_u32..120,
        unavailable in 0_u32..120,
        desired in 0_u32..300,
        shares in any::<bool>(),
    ) {
        let mut rollout = settings().rollout;
        let amount = |number: u32| if shares { Percent(number.min(100)) } else { Count(number) };
        (rollout.max_surge, rollout.max_unavailable) = (amount(surge), amount(unavailable));
        let fence = Fence::of(&rollout, desired);
        prop_assert!(fence.available_min() <= desired && desired <= fence.live_max());
        // It can always move.
        let moves = fence.live_max() > desired || fence.available_min() < desired;
        prop_assert!(moves || desired == 0);
    }
}

#[test]
fn a_users_kill_is_told_with_its_author_and_its_end() {
    let mut world = World::complete(&spec(3, 1, 0));
    let kill = |cause| Command::Kill {
        which: Which::Index(1),
        cause,
    };
    assert!(world.command(kill(Cause::TermOwner)).is_ok());
    world.run_for(2_000);
    let view = world.view();
    let told = |kind: &str| {
        let found = view.events.iter().find(|event| event.kind == kind);
        found.map(|event| (event.text.clone(), event.lsn))
    };
    let (asked, at) = told("kill").expect("it was asked for");
    assert_eq!(asked, "ada wants replica 1 (job 2) killed");
    let (ended, later) = told("killed").expect("it ended");
    assert!(ended.starts_with("job 2 of version 1 ended: "), "{ended}");
    assert!(0 < at && at < later);
    // It is no failure, and costs no delay.
    assert_eq!(world.record.current().backoff.failures, 0);
    assert_eq!(view.available, 3);
    // A kill of its job, past the service, is told as well.
    world.end(1, Cause::TermAdmin);
    world.settle();
    let last = world
        .record
        .events
        .iter()
        .rev()
        .find(|event| event.kind == "killed");
    assert!(last.is_some_and(|event| event.text.contains("job 1 ")));
}

#[test]
fn every_event_says_who_or_why() {
    let mut world = World::complete(&spec(3, 1, 1));
    world.scale(4);
    world.update("v2");
    assert!(world.command(Command::Pause).is_ok());
    assert!(world.command(Command::Resume).is_ok());
    assert!(world.command(Command::Rollback { to: Some(1) }).is_ok());
    world.run_for(5_000);
    assert!(world.command(Command::Restart).is_ok());
    world.run_for(5_000);
    assert!(world.command(Command::Delete).is_ok());
    for kind in [
        "created", "scaled", "version", "paused", "resumed", "deleting",
    ] {
        let by_name = world
            .record
            .events
            .iter()
            .filter(|event| event.kind == kind)
            .all(|event| event.text.contains("ada"));
        assert!(by_name, "{kind}: {:?}", world.record.events);
    }
    let lsns: Vec<u64> = world.record.events.iter().map(|event| event.lsn).collect();
    assert!(lsns.is_sorted() && lsns[0] > 0, "{lsns:?}");
}

/// P31 and a revert loop: a rollback whose target fails as well stops, and says so.
#[test]
fn p31_the_history_stays_and_any_version_can_be_gone_back_to() {
    let mut world = World::complete(&spec(2, 1, 0));
    for version in 2..=4 {
        world.update(&format!("v{version}"));
        world.run_for(5_000);
    }
    for to in [3, 2, 1, 4] {
        assert!(world.command(Command::Rollback { to: Some(to) }).is_ok());
        world.run_for(5_000);
        let view = world.view();
        assert_eq!(
            (view.condition, view.available),
            (Condition::Steady, 2),
            "to {to}"
        );
    }
    let numbers: Vec<u32> = world.record.versions.iter().map(|one| one.number).collect();
    assert_eq!(numbers, (1..=8).collect::<Vec<u32>>());
}

/// The named victims of a scale-down go during a rollout too, whatever their version.
#[test]
fn p68_named_victims_go_in_a_rollout() {
    let mut world = World::complete(&spec(4, 1, 0));
    world.behave("v2", Behaviour::NeverReady);
    world.update("v2");
    world.run_for(2_000);
    let remove = vec![JobId::single(2)];
    let command = Command::Scale { desired: 3, remove };
    assert!(world.command(command).is_ok());
    world.run_for(2_000);
    assert!(!world.of_version(1).contains(&2), "{}", world.story());
    assert!(world.available() >= 3);
}
