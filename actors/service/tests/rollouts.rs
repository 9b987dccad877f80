//! Rolling updates, deadlines, pauses, rollbacks.

use std::collections::BTreeMap;

use xce_model::spec::{OnStuck, ServiceSpec};
use xce_model::{Cause, Millis, Version};

use crate::state::{Outcome, Phase};
use crate::tests::world::*;
use crate::*;

fn mix(pairs: &[(Version, usize)]) -> BTreeMap<Version, usize> {
    pairs.iter().copied().filter(|pair| pair.1 > 0).collect()
}

fn with_deadline(mut spec: ServiceSpec, seconds: u64, on_stuck: OnStuck) -> ServiceSpec {
    spec.settings.rollout.progress_deadline = Millis::seconds(seconds);
    spec.settings.rollout.on_stuck = on_stuck;
    spec
}

/// The mixes (old, new) that a rollout goes through, each when all stops are confirmed.
pub fn trace(spec: &ServiceSpec, behaviour: Behaviour) -> Vec<(usize, usize)> {
    let mut world = World::complete(spec);
    world.behave("v2", behaviour);
    world.stop_time = 0;
    world.ignores_limits = true;
    world.command_once(update(&world.record, "v2"));
    let mut seen: Vec<(usize, usize)> = Vec::new();
    let note = |world: &World, seen: &mut Vec<(usize, usize)>| {
        let mix = world.mix();
        let pair = |version| mix.get(&version).copied().unwrap_or(0);
        let now = (pair(1), pair(2));
        if seen.last() != Some(&now) {
            seen.push(now);
        }
    };
    // The first step is taken with the update: its stops are confirmed before the next.
    note(&world, &mut seen);
    // Between two steps lie a few decisions that only take note.
    let mut idle = 0;
    while idle < 8 {
        world.confirm_stops();
        world.place_and_run();
        world.one_decision();
        let before = seen.len();
        note(&world, &mut seen);
        idle = if seen.len() > before { 0 } else { idle + 1 };
    }
    seen
}

#[test]
fn v5_traces() {
    let never = Behaviour::NeverReady;
    let ready = Behaviour::Ready(0);
    assert_eq!(
        trace(&spec(10, 3, 2), never),
        [(10, 3), (8, 3), (8, 5)],
        "V5 10/3/2 never ready"
    );
    assert_eq!(
        trace(&spec(10, 3, 2), ready),
        [(10, 3), (5, 3), (5, 8), (0, 8), (0, 10)],
        "V5 10/3/2 ready at once"
    );
    let mut quarter = spec(4, 1, 1);
    quarter.settings.rollout = settings().rollout;
    assert_eq!(
        trace(&quarter, ready),
        [(4, 1), (2, 1), (2, 3), (0, 3), (0, 4)],
        "V5 4/25%/25%"
    );
    assert_eq!(
        trace(&spec(3, 1, 0), ready),
        [(3, 1), (2, 1), (2, 2), (1, 2), (1, 3), (0, 3)],
        "V5 3/1/0"
    );
    assert_eq!(
        trace(&spec(2, 1, 1), never),
        [(2, 1), (1, 1), (1, 2)],
        "V5 2/1/1 never ready"
    );
    let steps = trace(&spec(10, 0, 1), ready);
    assert_eq!(steps.len(), 20, "V5 10/0/1: {steps:?}");
}

#[test]
fn update_ends_with_the_new_version_and_the_lowest_indices() {
    let mut world = World::complete(&spec(5, 2, 1));
    world.update("v2");
    world.run_for(10_000);
    let view = world.view();
    assert_eq!(view.condition, Condition::Steady);
    assert_eq!((view.version, view.updated, view.live), (2, 5, 5));
    let indices: Vec<u32> = view.replicas.iter().map(|one| one.index).collect();
    assert_eq!(indices, [0, 1, 2, 3, 4]);
    assert_eq!(view.history[1].outcome, Outcome::Completed);
}

#[test]
fn p1_scaling_between_two_steps_of_a_rollout() {
    let mut world = World::complete(&spec(5, 0, 1));
    world.command_once(update(&world.record, "v2"));
    assert_eq!(world.mix(), mix(&[(1, 4)]));
    world.scale(4);
    world.run_for(5_000);
    assert_eq!(world.mix(), mix(&[(2, 4)]));
    assert_eq!(world.condition(), Condition::Steady);
}

#[test]
fn p2_a_scale_down_of_a_stuck_rollout_keeps_the_good_ones() {
    let mut world = World::complete(&spec(10, 1, 1));
    world.behave("v2", Behaviour::NeverReady);
    world.update("v2");
    world.run_for(5_000);
    assert_eq!(world.mix(), mix(&[(1, 9), (2, 2)]));
    world.scale(5);
    world.run_for(5_000);
    assert!(world.available() >= 4);
    assert_eq!(
        world.mix(),
        mix(&[(1, 4), (2, 2)]),
        "shares 5 and 1, then a step"
    );
}

#[test]
fn p4_scaling_while_paused_keeps_the_proportions() {
    let mut world = World::complete(&spec(10, 3, 2));
    world.behave("v2", Behaviour::NeverReady);
    world.update("v2");
    world.run_for(1_000);
    assert_eq!(world.mix(), mix(&[(1, 8), (2, 5)]));
    assert!(world.command(Command::Pause).is_ok());
    world.scale(30);
    world.run_for(1_000);
    assert_eq!(world.mix(), mix(&[(1, 20), (2, 13)]));
    world.behave("v2", Behaviour::Ready(0));
    let sick = world.of_version(2);
    sick.into_iter().for_each(|number| world.flap(number));
    world.run_for(1_000);
    assert_eq!(world.mix(), mix(&[(1, 20), (2, 13)]), "frozen");
    assert_eq!(world.condition(), Condition::Paused);
    assert!(world.command(Command::Resume).is_ok());
    world.run_for(10_000);
    assert_eq!(world.mix(), mix(&[(2, 30)]));
}

#[test]
fn p5_updates_and_scales_of_a_stuck_rollout_are_exact_and_explained() {
    let mut world = World::complete(&spec(10, 3, 2));
    world.behave("v2", Behaviour::NeverReady);
    world.behave("v3", Behaviour::NeverReady);
    world.update("v2");
    world.run_for(1_000);
    world.scale(30);
    world.run_for(1_000);
    assert_eq!(world.mix(), mix(&[(1, 20), (2, 13)]));
    assert_eq!(world.available(), 20);
    world.update("v3");
    world.run_for(5_000);
    // The never-ready ones of version 2 all give way: 33 - 20 of version 3.
    assert_eq!(world.mix(), mix(&[(1, 20), (3, 13)]));
    let line = world.view().rollout.explain;
    assert!(line.contains("available 20 - 1 < minimum 28"), "{line}");
    world.scale(50);
    world.run_for(5_000);
    assert_eq!(
        world.mix(),
        mix(&[(1, 32), (3, 21)]),
        "20 and 13 of 33 are 32 and 21 of 53"
    );
}

#[test]
fn p7_rollback_of_pending_replicas_takes_no_grace() {
    let mut world = World::complete(&spec(3, 1, 0));
    let before = world.of_version(1);
    world.behave("v2", Behaviour::Unplaceable);
    world.update("v2");
    world.run_for(10_000);
    assert_eq!(world.mix(), mix(&[(1, 3), (2, 1)]));
    assert!(world.command(Command::Rollback { to: None }).is_ok());
    world.run_for(0);
    assert_eq!(world.condition(), Condition::Steady, "{}", world.explain());
    assert_eq!(world.of_version(1), before);
    assert_eq!(world.view().version, 3);
}

#[test]
fn p8_rollback_while_paused_starts_on_resume() {
    let mut world = World::complete(&spec(4, 1, 0));
    world.behave("v2", Behaviour::Ready(5_000));
    world.update("v2");
    world.run_for(12_000);
    assert!(world.command(Command::Pause).is_ok());
    let before = world.mix();
    assert_eq!(before.len(), 2);
    let answer = world.command(Command::Rollback { to: None });
    let text = answer.expect("not refused");
    assert!(text.contains("Accepted") && text.contains("paused, will start on resume"));
    world.run_for(10_000);
    assert_eq!(world.mix(), before);
    assert!(world.command(Command::Resume).is_ok());
    world.run_for(10_000);
    assert_eq!(world.mix(), mix(&[(1, 4)]));
    assert_eq!(world.condition(), Condition::Steady);
}

#[test]
fn p10_versions_are_numbers_above_255() {
    let mut world = World::complete(&spec(1, 1, 0));
    for number in 2..=300 {
        world.update(&format!("t{number}"));
        world.run_for(100);
    }
    assert_eq!(world.view().version, 300);
    assert_eq!(world.record.versions.len(), 10);
    assert!(world.command(Command::Rollback { to: None }).is_ok());
    assert_eq!(
        world.record.current().reason,
        VersionReason::RollbackOf(299)
    );
}

#[test]
fn p11_rollback_appends_to_the_history() {
    let mut world = World::complete(&spec(2, 1, 0));
    for text in ["v2", "v3"] {
        world.update(text);
        world.run_for(1_000);
    }
    for expected in [2, 3] {
        assert!(world.command(Command::Rollback { to: None }).is_ok());
        world.run_for(1_000);
        let reason = world.record.current().reason;
        assert_eq!(reason, VersionReason::RollbackOf(expected));
    }
    let numbers: Vec<Version> = world.view().history.iter().map(|one| one.number).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
    let same = world.command(Command::Rollback { to: Some(3) });
    assert!(same.expect("not refused").contains("NoChange"));
    assert!(world.command(Command::Rollback { to: Some(77) }).is_err());
}

#[test]
fn p13_and_p14_the_deadline_counts_from_the_update_and_needs_no_event() {
    let spec = with_deadline(spec(1, 1, 0), 5, OnStuck::Stop);
    let mut world = World::complete(&spec);
    world.run_for(100_000);
    world.behave("v2", Behaviour::NeverReady);
    world.update("v2");
    world.run_for(4_999);
    assert_eq!(world.condition(), Condition::Rolling);
    world.run_for(1);
    let view = world.view();
    assert_eq!(view.condition, Condition::Stuck);
    assert!(
        view.reason.contains("available 1 - 1 < minimum 1"),
        "{}",
        view.reason
    );
    assert_eq!(world.mix(), mix(&[(1, 1), (2, 1)]));
}

#[test]
fn p16_flapping_is_no_progress() {
    let mut world = World::complete(&with_deadline(spec(2, 1, 0), 10, OnStuck::Stop));
    world.behave("v2", Behaviour::NeverReady);
    world.update("v2");
    world.record.settings.rollout.min_ready = Millis(2_000);
    world.run_for(0);
    let new = world.of_version(2)[0];
    for _ in 0..3 {
        world.flap(new);
        world.run_for(1_500);
        world.flap(new);
        world.run_for(1_500);
    }
    world.run_for(1_000);
    assert_eq!(world.condition(), Condition::Stuck, "{}", world.explain());
}

#[test]
fn p17_stopping_replicas_count_against_surge() {
    let mut world = World::complete(&spec(3, 0, 1));
    world.stop_time = 20_000;
    world.slots = 1;
    world.hosts.remove("h4");
    world.update("v2");
    for _ in 0..100 {
        world.run_for(1_000);
        assert!(world.live().len() <= 3);
    }
    assert_eq!(world.mix(), mix(&[(2, 3)]));
}

#[test]
fn p19_the_count_is_owned_apart_from_the_template() {
    let mut world = World::complete(&spec(3, 1, 0));
    world.scale(7);
    world.update("v2");
    world.run_for(5_000);
    assert_eq!(world.mix(), mix(&[(2, 7)]));
    let with_count = |world: &World, take: bool| match update(&world.record, "v2") {
        Command::Update { mut spec, .. } => {
            spec.replicas = Some(3);
            Command::Update {
                spec,
                take_count: take,
            }
        }
        other => other,
    };
    let refused = world.command(with_count(&world, false));
    assert_eq!(
        refused.map_err(|refusal| refusal.code),
        Err("count_differs".to_owned())
    );
    assert!(world.command(with_count(&world, true)).is_ok());
    world.run_for(5_000);
    assert_eq!(world.mix(), mix(&[(2, 3)]));
    assert_eq!(world.view().version, 2);
    let again = world.command(with_count(&world, false));
    assert!(again.expect("not refused").contains("NoChange"));
}

#[test]
fn p20_scaling_during_a_rollout_goes_on_and_keeps_the_clock() {
    let mut world = World::complete(&with_deadline(spec(4, 1, 0), 60, OnStuck::Stop));
    world.behave("v2", Behaviour::Ready(20_000));
    world.update("v2");
    world.run_for(10_000);
    let clock = world.record.rollout.clock_from;
    world.scale(8);
    assert_eq!(world.record.rollout.clock_from, clock);
    world.run_for(300_000);
    assert_eq!(world.mix(), mix(&[(2, 8)]));
    assert_eq!(world.view().version, 2);
}

#[test]
fn p23_an_unrecoverable_start_error_is_stuck_with_its_text() {
    let mut world = World::complete(&with_deadline(spec(3, 1, 0), 10, OnStuck::Stop));
    world.behave("v2", Behaviour::Crash(0));
    world.update("v2");
    world.run_for(10_000);
    let view = world.view();
    assert!(
        view.conditions
            .iter()
            .any(|one| one.condition == Condition::Stuck)
    );
    let Phase::Stuck { reason } = &world.record.rollout.phase else {
        panic!("{:?}", world.record.rollout);
    };
    assert!(reason.contains("cannot open secret"), "{reason}");
    assert_eq!(world.available(), 3);
}

#[test]
fn p28_a_bad_version_stops_at_most_one() {
    for behaviour in [
        Behaviour::NeverReady,
        Behaviour::Crash(100),
        Behaviour::Unplaceable,
    ] {
        let mut world = World::complete(&spec(4, 0, 1));
        world.behave("v2", behaviour);
        world.update("v2");
        world.run_for(2_000_000);
        assert_eq!(world.mix().get(&1), Some(&3), "{behaviour:?}");
    }
}

#[test]
fn p29_automatic_rollback_keeps_the_replicas_of_its_target() {
    let mut world = World::complete(&with_deadline(spec(4, 1, 0), 5, OnStuck::Rollback));
    let before = world.of_version(1);
    world.behave("v2", Behaviour::NeverReady);
    world.update("v2");
    world.run_for(6_000);
    assert_eq!(world.of_version(1), before);
    assert_eq!(world.mix(), mix(&[(1, 4)]));
    assert_eq!(
        world.record.current().reason,
        VersionReason::AutomaticRollbackOf(1)
    );
    assert_eq!(world.view().history[1].outcome, Outcome::RolledBack);
    assert_eq!(world.condition(), Condition::Steady);
}

#[test]
fn p31_a_rollback_is_never_rolled_back() {
    let mut world = World::complete(&with_deadline(spec(2, 1, 1), 5, OnStuck::Rollback));
    world.behave("v2", Behaviour::NeverReady);
    world.update("v2");
    world.run_for(1_000);
    world.behave("v1", Behaviour::NeverReady);
    for number in world.of_version(1) {
        world.flap(number);
    }
    world.run_for(60_000);
    assert_eq!(world.view().version, 3);
    assert_eq!(world.condition(), Condition::Stuck, "{}", world.explain());
    assert!(world.command(Command::Rollback { to: Some(2) }).is_ok());
    assert_eq!(world.record.current().reason, VersionReason::RollbackOf(2));
}

#[test]
fn p34_min_ready_holds_each_step() {
    let mut spec = spec(3, 1, 0);
    spec.settings.rollout.min_ready = Millis::seconds(5);
    let mut world = World::new(&spec);
    world.run_for(30_000);
    world.update("v2");
    world.run_for(14_999);
    assert_eq!(world.condition(), Condition::Rolling);
    world.run_for(1_000);
    assert_eq!(world.condition(), Condition::Steady);
    // One that is not ready for a moment starts its own time anew.
    world.update("v3");
    world.run_for(4_000);
    let new = world.of_version(3)[0];
    world.flap(new);
    world.flap(new);
    world.run_for(4_999);
    assert_eq!(world.mix(), mix(&[(2, 3), (3, 1)]));
    world.run_for(100);
    assert_eq!(world.mix(), mix(&[(2, 2), (3, 2)]));
}

#[test]
fn pausing_stops_the_clock() {
    let mut world = World::complete(&with_deadline(spec(2, 1, 0), 10, OnStuck::Stop));
    world.behave("v2", Behaviour::NeverReady);
    world.update("v2");
    world.run_for(6_000);
    assert!(world.command(Command::Pause).is_ok());
    world.run_for(100_000);
    assert!(world.command(Command::Resume).is_ok());
    world.run_for(3_999);
    assert_eq!(world.condition(), Condition::Rolling);
    world.run_for(1);
    assert_eq!(world.condition(), Condition::Stuck);
    assert!(world.command(Command::Resume).is_ok());
    assert_eq!(world.condition(), Condition::Rolling);
}

#[test]
fn a_paused_service_replaces_old_replicas_by_the_same_version() {
    let mut world = World::complete(&spec(4, 1, 0));
    world.behave("v2", Behaviour::Ready(1_000));
    world.update("v2");
    world.run_for(1_500);
    assert!(world.command(Command::Pause).is_ok());
    let before = world.mix();
    let old = world.of_version(1)[0];
    world.end(old, Cause::HostLost);
    world.run_for(5_000);
    assert_eq!(world.mix(), before);
}

#[test]
fn a_version_at_zero_is_untested_and_no_target() {
    for (tried, target) in [(false, 1), (true, 2)] {
        let mut world = World::complete(&with_deadline(spec(2, 1, 0), 5, OnStuck::Rollback));
        world.scale(0);
        world.run_for(1_000);
        world.update("v2");
        world.run_for(1_000);
        assert_eq!(world.record.current().outcome, Outcome::Untested);
        world.scale(2);
        if tried {
            // With as many available as are wanted it is no longer untested.
            world.run_for(5_000);
            assert_eq!(world.record.current().outcome, Outcome::Completed);
        }
        world.behave("v3", Behaviour::NeverReady);
        world.update("v3");
        world.run_for(10_000);
        assert_eq!(
            world.record.current().reason,
            VersionReason::AutomaticRollbackOf(target)
        );
    }
}

#[test]
fn a_deadline_that_passed_unwatched_is_extended() {
    let mut world = World::complete(&with_deadline(spec(2, 1, 0), 5, OnStuck::Rollback));
    world.behave("v2", Behaviour::NeverReady);
    world.update("v2");
    world.now += 9_000;
    world.run_for(3_000);
    assert_eq!(world.record.current().reason, VersionReason::Update);
    let extended = |event: &crate::state::ServiceEvent| event.kind == "extended";
    assert!(world.record.events.iter().any(extended));
    // It is no way round the deadline: on time it holds.
    world.run_for(10_000);
    let reason = world.record.current().reason;
    assert_eq!(reason, VersionReason::AutomaticRollbackOf(1));
}

#[test]
fn a_settings_change_restarts_nothing() {
    let mut world = World::complete(&spec(3, 1, 0));
    let Command::Update { mut spec, .. } = update(&world.record, "v1") else {
        panic!("an update");
    };
    spec.settings.spread.max_per_host = Some(1);
    let jobs = world.jobs.clone();
    let take_count = false;
    assert!(world.command(Command::Update { spec, take_count }).is_ok());
    world.run_for(10_000);
    assert_eq!(world.jobs, jobs);
    assert_eq!(
        (world.view().version, world.record.settings_generation),
        (1, 2)
    );
}

#[test]
fn an_update_of_an_update_removes_the_middle_one_first() {
    let mut world = World::complete(&spec(10, 3, 2));
    world.behave("v2", Behaviour::NeverReady);
    world.update("v2");
    world.run_for(5_000);
    world.update("v3");
    world.run_for(10_000);
    assert_eq!(world.mix(), mix(&[(3, 10)]));
    assert_eq!(world.view().history[1].outcome, Outcome::Superseded);
}

#[test]
fn a_rollout_is_complete_when_its_replicas_have_shown_that_they_work() {
    // Whether a probe tells, `min_ready`, and after how many milliseconds it is complete.
    let rows = [
        (true, 0, 0),
        (true, 3_000, 3_000),
        (false, 0, 1_000),
        (false, 500, 1_000),
        (false, 3_000, 3_000),
    ];
    for (probed, min_ready, expected) in rows {
        let mut spec = spec(1, 1, 0);
        spec.settings.rollout.min_ready = Millis(min_ready);
        if !probed {
            spec.template = bare_template("v1");
        }
        let mut world = World::new(&spec);
        let outcome = |world: &World| world.record.current().outcome;
        if expected > 0 {
            world.run_for(expected - 1);
            let told = format!("{probed} {min_ready}: {}", world.explain());
            assert_eq!(outcome(&world), Outcome::Rolling, "{told}");
            assert_eq!(world.view().ready, 1, "ready as soon as it runs: {told}");
            assert_eq!(world.view().available, 0, "{told}");
        }
        world.run_for(1);
        assert_eq!(outcome(&world), Outcome::Completed, "{probed} {min_ready}");
    }
}

#[test]
fn a_broken_version_without_a_probe_takes_no_place_and_is_never_gone_back_to() {
    let mut world = World::complete(&with_deadline(spec(4, 1, 1), 60, OnStuck::Rollback));
    for (text, behaviour) in [("v2", 10), ("v3", 300)] {
        world.behave(text, Behaviour::ReadyThenCrash(behaviour));
        let command = update_to(&world.record, bare_template(text));
        assert!(world.command(command).is_ok());
        // One old replica may go for a new one; the others stay.
        world.run_for(50_000);
        assert!(world.available() >= 3, "{}", world.explain());
        world.run_for(50_000);
        assert_eq!(world.condition(), Condition::Steady, "{}", world.explain());
        assert_eq!(world.mix(), mix(&[(1, 4)]));
    }
    let outcomes: Vec<Outcome> = world.view().history.iter().map(|one| one.outcome).collect();
    assert_eq!(
        outcomes,
        [
            Outcome::Completed,
            Outcome::RolledBack,
            Outcome::Completed,
            Outcome::RolledBack,
            Outcome::Completed
        ]
    );
}
