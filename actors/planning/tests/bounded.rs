//! Plans of large services: bounded work, folded rows.

use super::world::{World, spec};
use crate::Bounds;
use xce_session::plan::PlanOutcome;

#[test]
fn ten_thousand_replicas_in_few_rows() {
    let world = World::filled(&spec(10_000, 2_500, 2_500));
    let plan = world.plan(world.new_template());
    assert_eq!(plan.outcome, PlanOutcome::Completes, "{plan:?}");
    assert!(plan.steps.len() <= 10, "{}", plan.steps.len());
    assert_eq!(plan.live_max, 12_500);
    assert_eq!(plan.available_min, 7_500);
}

#[test]
fn a_rollout_one_by_one_ends_at_the_bound_and_is_extrapolated() {
    let world = World::filled(&spec(10_000, 1, 0));
    let plan = world.plan(world.new_template());
    assert_eq!(plan.outcome, PlanOutcome::Bounded);
    assert!(plan.bound.starts_with("its work, after "), "{}", plan.bound);
    assert!(plan.steps.len() <= 200);
    // One start, one time to be ready and one stop for each of them.
    let each =
        plan.times[0].start.takes.0 + plan.times[0].ready.takes.0 + plan.times[1].stop.takes.0;
    let whole = plan.extrapolated_ms.expect("it gets on");
    let exact = 10_000 * each;
    assert!(whole.abs_diff(exact) <= exact / 10, "{whole} of {exact}");
}

#[test]
fn neighbours_are_folded_into_rows() {
    let mut world = World::complete(&spec(30, 0, 1));
    world.bounds = Bounds {
        rows: 7,
        ..Bounds::default()
    };
    let plan = world.plan(world.new_template());
    assert_eq!((plan.steps.len(), plan.steps_total), (7, 60));
    assert_eq!(plan.steps.iter().map(|row| row.steps).sum::<u32>(), 60);
    let started: u32 = plan
        .steps
        .iter()
        .flat_map(|row| &row.changes)
        .map(|change| change.started)
        .sum();
    assert_eq!(started, 30);
}
