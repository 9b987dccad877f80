//! What a plan says of each kind of change.

use xce_model::{MilliCpu, Millis};
use xce_service::rules::Command;
use xce_service::{ServiceFact, Times};
use xce_session::plan::PlanOutcome;

use super::world::{World, author, spec};
use crate::{Wanted, plan};

#[test]
fn a_creation_is_planned_without_a_trace() {
    let world = World::new(2, 8);
    let before = world.view.clone();
    let wanted = Wanted::Create(Box::new(spec(4, 1, 1)));
    let plan = plan(&world.question(), wanted, &author()).unwrap();
    assert!(world.view == before);
    assert_eq!(plan.outcome, PlanOutcome::Completes);
    assert_eq!((plan.service.as_str(), plan.version), ("web", 1));
    assert_eq!((plan.ready_min, plan.live_max), (0, 4));
    // Slow start: one at once, one when that has run for a second, two a second later.
    assert_eq!(plan.takes_ms, 2 * (100 + 1_000) + 100 + 3_000);
    assert_eq!(plan.times[0].ready.measured_on, None);
}

#[test]
fn a_name_in_use_is_refused_as_the_change_would_be() {
    let world = World::complete(&spec(1, 1, 0));
    let wanted = Wanted::Create(Box::new(spec(1, 1, 0)));
    let refusal = plan(&world.question(), wanted, &author()).unwrap_err();
    assert_eq!(refusal.code, "name_in_use");
    let refusal = world
        .try_plan(Command::Rollback { to: Some(9) })
        .unwrap_err();
    assert_eq!(refusal.code, "not_found");
}

#[test]
fn what_cannot_be_placed_is_the_blocker_with_its_arithmetic() {
    let world = World::complete(&spec(4, 1, 0));
    let plan = world.plan(world.update(|spec| {
        spec.template.resources.cpus = MilliCpu(20_000_000);
    }));
    assert_eq!(plan.outcome, PlanOutcome::Blocked);
    assert!(
        plan.blocker.starts_with(
            "cannot stop version 1: available 4 - 1 < minimum 4; waiting for job 5, pending: "
        ),
        "{}",
        plan.blocker
    );
    assert!(plan.blocker.contains("cpus"), "{}", plan.blocker);
    assert_eq!(plan.then, "stuck after 10m");
    assert_eq!(plan.steps_total, 1);
    assert_eq!(plan.available_min, 4);
}

#[test]
fn min_ready_holds_each_step() {
    let world = World::complete(&spec(3, 1, 0));
    let plan = world.plan(world.update(|spec| {
        spec.template.command = vec!["v2".into()];
        spec.settings.rollout.min_ready = Millis::seconds(5);
    }));
    assert_eq!(plan.outcome, PlanOutcome::Completes);
    assert!(plan.takes_ms >= 15_000, "{}", plan.takes_ms);
}

#[test]
fn measured_times_are_taken_and_said() {
    let mut world = World::complete(&spec(2, 1, 0));
    world.apply(vec![
        ServiceFact::VersionTimed {
            service: world.service,
            version: 1,
            times: Times {
                start: Some(Millis(50)),
                ready: Some(Millis(7_000)),
                stop: Some(Millis(950)),
            },
        }
        .into(),
    ]);
    // Replicas that work now tell more than what was noted.
    let plan = world.plan(Command::Restart);
    let times = &plan.times[0];
    assert_eq!(times.ready.measured_on, Some(1));
    assert_eq!(times.stop.takes, Millis(950));
    assert_eq!(plan.takes_ms, 2 * (40 + 700 + 950));
    let gone = Command::Scale {
        desired: 0,
        remove: Vec::new(),
    };
    super::traces::Reality::of(&mut world).command(gone);
    let back = Command::Scale {
        desired: 1,
        remove: Vec::new(),
    };
    assert_eq!(world.plan(back).takes_ms, 7_050);
}

#[test]
fn a_pause_is_a_blocker_of_a_rollout_and_of_nothing_else() {
    let mut world = World::complete(&spec(4, 1, 1));
    super::traces::Reality::of(&mut world).command(Command::Pause);
    let plan = world.plan(world.new_template());
    assert_eq!(plan.outcome, PlanOutcome::Blocked);
    assert!(plan.blocker.starts_with("paused"), "{}", plan.blocker);
    assert_eq!(plan.steps_total, 0);
    let up = Command::Scale {
        desired: 6,
        remove: Vec::new(),
    };
    assert_eq!(world.plan(up).outcome, PlanOutcome::Completes);
}

#[test]
fn an_equal_template_is_no_change() {
    let world = World::complete(&spec(2, 1, 0));
    let plan = world.plan(world.update(|_| {}));
    assert_eq!(plan.outcome, PlanOutcome::NoChange);
    assert!(plan.text.starts_with("no change"), "{}", plan.text);
    assert!(plan.steps.is_empty());
}

#[test]
fn a_rollback_is_planned_as_the_version_that_it_would_make() {
    let mut world = World::complete(&spec(3, 1, 0));
    let update = world.new_template();
    super::traces::Reality::of(&mut world).command(update);
    let plan = world.plan(Command::Rollback { to: None });
    assert_eq!((plan.version, plan.outcome), (3, PlanOutcome::Completes));
    assert_eq!(plan.steps_total, 6);
}
