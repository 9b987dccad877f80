//! Rollouts that do not get on: deadlines, and what happens then.

use xce_ledger::Fact;
use xce_model::Cause;
use xce_replica::JobFact;
use xce_service::rules::Command;
use xce_service::{Condition, VersionReason};

use super::{least, steady, stuck_at, versions};
use crate::behaviour::Behaviour;
use crate::specs::{Change, probe, web};
use crate::users::scale;
use crate::world::World;

#[test]
fn p2_scaling_a_stuck_rollout_down_keeps_the_good_ones() {
    let mut world = World::new(3);
    world.behave("v2", Behaviour::never_ready());
    let id = world.complete(web(10, 1, 1));
    world.update(id, "v2");
    world.run_for(20_000);
    let before = world.mix(id);
    assert_eq!(before, [(1, 9), (2, 2)].into());
    world.give(id, scale(5));
    let lowest = least(&mut world, id, 60_000, |counts| counts.ready());
    assert!(lowest >= 4, "ready fell to {lowest}");
    assert!(world.mix(id)[&1] >= 4, "{:?}", world.mix(id));
    assert_eq!(world.counts(id).live(), 6);
}

#[test]
fn p13_the_clock_of_a_deadline_starts_with_the_update() {
    let mut world = World::new(1);
    world.behave("v2", Behaviour::never_ready());
    let id = world.complete(web(2, 1, 0).deadline(2));
    world.run_for(500_000);
    let begin = world.now;
    world.update(id, "v2");
    world.run_for(10_000);
    let stuck = stuck_at(&world);
    assert_eq!(stuck.len(), 1);
    assert!((2_000..2_200).contains(&(stuck[0] - begin)), "{stuck:?}");
}

#[test]
fn p14_a_deadline_needs_no_other_event() {
    let mut world = World::new(1);
    world.behave("v1", Behaviour::never_ready());
    let begin = world.now;
    let id = world.create(web(1, 1, 0).deadline(5)).expect("created");
    world.run_for(20_000);
    let stuck = stuck_at(&world);
    assert_eq!(stuck.len(), 1);
    assert!((4_000..6_000).contains(&(stuck[0] - begin)), "{stuck:?}");
    assert_eq!(world.condition(id), Some(Condition::Stuck));
}

/// One replica flaps and the other never works, so that the mark is reached once.
#[test]
fn p16_flapping_is_no_progress() {
    let mut world = World::new(2);
    let quick = |template: &mut xce_model::spec::Template| {
        template.probes.readiness = Some(probe(xce_model::Millis(500), 1));
    };
    let mut spec = web(2, 0, 1).deadline(10).with(quick);
    spec.settings.spread.max_per_host = Some(1);
    let id = world.complete(spec);
    let flaps = Behaviour::flaps(0, 3_000, 3_000);
    world.behaviours_on.insert((0, "v2".to_owned()), flaps);
    let never = Behaviour::never_ready();
    world.behaviours_on.insert((1, "v2".to_owned()), never);
    world.update(id, "v2");
    world.run_for(60_000);
    let progress = world.when_committed(|fact| {
        matches!(
            fact,
            Fact::Service(xce_service::ServiceFact::RolloutProgressed { .. })
        )
    });
    let last = progress.last().copied().expect("there was some");
    let stuck = stuck_at(&world);
    assert_eq!(stuck.len(), 1, "{}", world.describe());
    assert!(stuck[0] > last && stuck[0] - last <= 10_100, "{stuck:?}");
}

#[test]
fn p23_an_unrecoverable_start_counts_as_a_failure_and_is_named() {
    let mut world = World::new(2);
    world.behave("v2", Behaviour::not_found());
    let id = world.complete(web(3, 1, 0).deadline(10));
    world.update(id, "v2");
    world.until(11_000, "stuck", |world| {
        world.shown(id).is_some_and(|shown| {
            shown
                .conditions
                .iter()
                .any(|c| c.condition == Condition::Stuck)
        })
    });
    let record = world.record(id);
    let xce_service::state::Phase::Stuck { reason } = &record.rollout.phase else {
        panic!("{:?}", record.rollout);
    };
    assert!(reason.contains("no such program"), "{reason}");
    assert!(reason.contains("127"), "{reason}");
    assert_eq!(world.counts(id).available(), 3);
}

/// Stops of version 1 by an update.
fn stopped(world: &World) -> usize {
    world.facts(|fact| {
        matches!(
            fact,
            Fact::Job(JobFact::StopRequested {
                cause: Cause::TermUpdate,
                ..
            })
        )
    })
}

#[test]
fn p28_a_bad_version_never_takes_more_than_allowed() {
    for bad in [
        Behaviour::never_ready(),
        Behaviour::broken(500),
        Behaviour::not_found(),
        Behaviour::host_fails(),
    ] {
        let mut world = World::new(3);
        world.behave("v2", bad.clone());
        let id = world.complete(web(4, 0, 1).deadline(30));
        world.update(id, "v2");
        let lowest = least(&mut world, id, 300_000, |counts| counts.available());
        assert_eq!(lowest, 3, "{bad:?}");
        assert_eq!(stopped(&world), 1, "{bad:?}");
    }
}

#[test]
fn p29_an_automatic_rollback_keeps_what_is_at_its_target() {
    let mut world = World::new(2);
    world.behave("v2", Behaviour::never_ready());
    let id = world.complete(web(4, 1, 0).deadline(5).rolls_back());
    let before = world.jobs_of(id, 1);
    world.update(id, "v2");
    let lowest = least(&mut world, id, 60_000, |counts| counts.available());
    assert_eq!(lowest, 4);
    steady(&mut world, id, 1_000, 3, 4);
    assert_eq!(world.jobs_of(id, 1), before);
    assert_eq!(world.alive("v2"), 0);
    assert_eq!(
        world.record(id).current().reason,
        VersionReason::AutomaticRollbackOf(1)
    );
}

#[test]
fn p31_a_rollback_is_never_rolled_back_by_itself() {
    let mut world = World::new(2);
    world.behave("v2", Behaviour::never_ready());
    let id = world.complete(web(4, 0, 1).deadline(5).rolls_back());
    world.behave("v1", Behaviour::never_ready());
    world.update(id, "v2");
    world.run_for(600_000);
    assert_eq!(versions(&world), 2, "the update and one rollback");
    assert_eq!(stuck_at(&world).len(), 2);
    let stuck = world.shown(id).expect("it is shown").conditions;
    assert!(stuck.iter().any(|one| one.condition == Condition::Stuck));
    let history = world.shown(id).expect("it is shown").history;
    assert_eq!(history.len(), 3);
    world.must(id, Command::Rollback { to: Some(2) });
    assert_eq!(
        world.record(id).current().reason,
        VersionReason::RollbackOf(2)
    );
}
