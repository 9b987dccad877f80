//! Updates, scaling during updates, pauses, rollbacks.

use xce_ledger::Fact;
use xce_model::{Lsn, ServiceId};
use xce_service::rules::{Command, Standing};
use xce_service::{Condition, ServiceFact, VersionReason};

use super::{least, steady, stuck_at};
use crate::behaviour::Behaviour;
use crate::controller::ActorKey;
use crate::specs::{Change, web};
use crate::users::{scale, spec_of, update};
use crate::world::World;

/// The moment of P1: one old replica is stopped, and nothing new has begun.
fn between_two_steps() -> (World, ServiceId) {
    let mut world = World::new(3);
    world.behave("v1", Behaviour::slow_stop(1_000));
    let id = world.complete(web(5, 0, 1));
    let record = world.record(id);
    world.give(id, crate::users::update_to(&record, "v2"));
    world.until(1_000, "one of the old is stopping", |world| {
        world.mix(id) == [(1, 4)].into()
    });
    (world, id)
}

#[test]
fn p1_a_scale_between_two_steps_does_not_hang() {
    for fault in 0..4 {
        let (mut world, id) = between_two_steps();
        world.give(id, scale(4));
        match fault {
            0 => {}
            1 => world.kill_actor(&ActorKey::Service(id), 0),
            2 => world.kill_actor(&ActorKey::Publisher, 10),
            _ => world.kill_controller(500),
        }
        world.run_for(5_000);
        // A scale that died with its actor is asked for again by its user.
        world.ask_again();
        steady(&mut world, id, 30_000, 2, 4);
        assert!(stuck_at(&world).is_empty(), "fault {fault}");
    }
}

#[test]
fn p4_scaling_while_paused_keeps_the_mix_and_resume_goes_on() {
    for (count, shared) in [(10, true), (20, true), (3, true)] {
        let mut world = World::new(4);
        world.behave("v2", Behaviour::ready_after(2_000));
        let id = world.complete(web(8, 1, 1));
        world.update(id, "v2");
        world.until(20_000, "the mix is half and half", |world| {
            world.mix(id).get(&2) >= Some(&4)
        });
        world.must(id, Command::Pause);
        world.run_for(5_000);
        let before = world.mix(id);
        let minimum = count.min(8) - 1;
        world.must(id, scale(count));
        let lowest = least(&mut world, id, 20_000, |counts| counts.available());
        assert!(lowest >= minimum, "{lowest} of {minimum}");
        let after = world.mix(id);
        assert_eq!(
            after.len() > 1,
            shared,
            "paused at {before:?}, then {after:?}\n{}",
            world.describe()
        );
        assert_eq!(
            after.values().sum::<usize>(),
            count as usize + 1,
            "{after:?}"
        );
        world.must(id, Command::Resume);
        let lowest = least(&mut world, id, 60_000, |counts| counts.available());
        assert!(lowest >= count - 1, "{lowest} of {count}");
        steady(&mut world, id, 1_000, 2, count as usize);
    }
}

/// The row's third and fourth templates never work here, so that the vectors stand still. Superseded
/// replicas that were never ready go at once by the stricter rule, so that the second and the third
/// version are gone when the next one comes.
#[test]
fn p5_scaling_a_stuck_rollout_is_exact_and_explained() {
    let mut world = World::new(4);
    for bad in ["v2", "v3", "v4"] {
        world.behave(bad, Behaviour::never_ready());
    }
    let id = world.complete(web(10, 3, 2));
    world.update(id, "v2");
    world.run_for(30_000);
    assert_eq!(world.mix(id), [(1, 8), (2, 5)].into());
    let line = world.line(id);
    assert!(line.contains("available 8 - 1 < minimum 8"), "{line}");
    world.must(id, scale(30));
    world.run_for(60_000);
    assert_eq!(world.mix(id), [(1, 20), (2, 13)].into());
    world.update(id, "v3");
    world.run_for(60_000);
    assert_eq!(world.mix(id), [(1, 20), (3, 13)].into());
    world.must(id, scale(50));
    world.run_for(60_000);
    assert_eq!(world.mix(id), [(1, 32), (3, 21)].into());
    world.update(id, "v4");
    world.run_for(60_000);
    assert_eq!(world.mix(id), [(1, 32), (4, 21)].into());
    let line = world.line(id);
    assert!(line.contains("available 32 - 1 < minimum 48"), "{line}");
}

#[test]
fn p7_pending_replicas_of_a_failed_rollout_vanish_at_once() {
    let mut world = World::new(2);
    let id = world.complete(web(3, 1, 0));
    let before = world.jobs_of(id, 1);
    let spec = spec_of(&world.record(id)).command("v2").cpus(1_000_000);
    world.must(id, update(spec));
    world.until(10_000, "one pends", |world| {
        world.counts(id).of(Standing::Pending) == 1
    });
    world.run_for(5_000);
    world.must(id, Command::Rollback { to: None });
    let took = world.until(2_000, "it is rolled back", |world| {
        world.condition(id) == Some(Condition::Steady)
    });
    assert!(took < 2_000);
    assert_eq!(world.jobs_of(id, 1), before, "the same jobs all through");
    assert_eq!(world.counts(id).live(), 3);
}

#[test]
fn p8_a_rollback_while_paused_is_accepted_and_waits() {
    let mut world = World::new(2);
    world.behave("v2", Behaviour::ready_after(1_000));
    let id = world.complete(web(6, 1, 0));
    world.update(id, "v2");
    world.until(20_000, "half way", |world| {
        world.mix(id).get(&2) >= Some(&3)
    });
    world.must(id, Command::Pause);
    world.run_for(5_000);
    let before: Vec<_> = world.replicas(id).iter().map(|one| one.0.id).collect();
    let text = world.must(id, Command::Rollback { to: None });
    assert!(text.contains("will start on resume"), "{text}");
    world.run_for(20_000);
    let after: Vec<_> = world.replicas(id).iter().map(|one| one.0.id).collect();
    assert_eq!(before, after, "no replica is touched");
    world.must(id, Command::Resume);
    steady(&mut world, id, 60_000, 3, 6);
    assert_eq!(world.alive("v1"), 6);
}

#[test]
fn p10_versions_above_255_are_compared_as_numbers() {
    for restarts in [false, true] {
        let mut world = World::new(1);
        let id = world.complete(web(1, 1, 0));
        for number in 2..=300 {
            world.update(id, &format!("v{number}"));
            world.until(20_000, "it is complete", |world| {
                world.condition(id) == Some(Condition::Steady)
            });
        }
        if restarts {
            world.kill_controller(1_000);
            world.run_for(5_000);
        }
        world.must(id, Command::Rollback { to: None });
        steady(&mut world, id, 20_000, 301, 1);
        let reason = world.record(id).current().reason;
        assert_eq!(reason, VersionReason::RollbackOf(299));
        assert_eq!(world.alive("v299"), 1);
    }
}

#[test]
fn p11_a_rollback_is_a_new_version_and_history_stays() {
    let mut world = World::new(2);
    let id = world.complete(web(2, 1, 0));
    for number in 2..=3 {
        world.update(id, &format!("v{number}"));
        steady(&mut world, id, 20_000, number, 2);
    }
    world.must(id, Command::Rollback { to: None });
    steady(&mut world, id, 20_000, 4, 2);
    assert_eq!(
        world.record(id).current().reason,
        VersionReason::RollbackOf(2)
    );
    // The last completed one other than the current: version 3.
    world.must(id, Command::Rollback { to: None });
    steady(&mut world, id, 20_000, 5, 2);
    assert_eq!(
        world.record(id).current().reason,
        VersionReason::RollbackOf(3)
    );
    let history = world.shown(id).expect("it is shown").history;
    let numbers: Vec<u32> = history.iter().map(|version| version.number).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
}

#[test]
fn p17_stopping_replicas_count_until_their_host_confirms() {
    let mut world = World::custom(1, 0, crate::world::Settings::default(), 3_000);
    for text in ["v1", "v2"] {
        world.behave(text, Behaviour::slow_stop(20_000));
    }
    let id = world.complete(web(3, 0, 1).cpus(1_000));
    world.update(id, "v2");
    let mut most = 0;
    let mut waited = None;
    world.run_while(120_000, |world| {
        most = most.max(world.counts(id).live());
        for (job, standing) in world.replicas(id) {
            if standing == Standing::Pending {
                let why = world.why(job.id).unwrap_or_default();
                if why.contains("cpus") {
                    waited = Some(why);
                }
            }
        }
        true
    });
    assert_eq!(most, 3);
    assert_eq!(waited, None, "no job waits for what still stops");
    steady(&mut world, id, 1_000, 2, 3);
}

#[test]
fn p19_the_count_is_owned_apart_from_the_file() {
    let mut world = World::new(2);
    let id = world.complete(web(3, 1, 0));
    world.must(id, scale(7));
    steady(&mut world, id, 30_000, 1, 7);
    let file = web(3, 1, 0).command("v2");
    world.must(id, update(file.clone().count(None)));
    steady(&mut world, id, 30_000, 2, 7);
    let refusal = world
        .ask(id, update(file.clone().command("v3")))
        .expect_err("the counts differ");
    assert_eq!(refusal.code, "count_differs");
    assert!(refusal.text.contains("--take-count"), "{}", refusal.text);
    world.must(
        id,
        Command::Update {
            spec: Box::new(file.command("v3")),
            take_count: true,
        },
    );
    steady(&mut world, id, 30_000, 3, 3);
}

#[test]
fn p20_scaling_during_an_update_goes_on_with_the_same_version() {
    let mut world = World::new(2);
    world.behave("v2", Behaviour::ready_after(3_000));
    let id = world.complete(web(4, 1, 1));
    world.update(id, "v2");
    world.until(2_000, "mid-update", |world| {
        world.mix(id).get(&2) >= Some(&1)
    });
    let clock = world.record(id).rollout.clock_from;
    world.must(id, scale(8));
    assert_eq!(
        world.record(id).rollout.clock_from,
        clock,
        "scaling alone does not reset the deadline"
    );
    steady(&mut world, id, 60_000, 2, 8);
    assert_eq!(super::versions(&world), 1);
}

/// No canaries here: the hold is a long `min_ready`.
#[test]
fn p22_every_wait_has_a_deadline() {
    for ready in [Behaviour::good(), Behaviour::never_ready()] {
        let mut world = World::new(2);
        let id = world.complete(web(5, 1, 0).deadline(31));
        let spec = spec_of(&world.record(id))
            .command("v2")
            .min_ready(20)
            .deadline(31);
        let good = ready == Behaviour::good();
        world.behave("v2", ready);
        world.must(id, update(spec));
        world.run_for(10_000);
        world.must(id, scale(2));
        world.until(22_000 * 3, "done or stuck", |world| {
            matches!(
                world.condition(id),
                Some(Condition::Steady | Condition::Stuck)
            )
        });
        assert_eq!(world.condition(id) == Some(Condition::Steady), good);
    }
}

#[test]
fn p34_each_step_waits_until_replicas_are_ready_for_long_enough() {
    let mut world = World::new(2);
    let probe = |template: &mut xce_model::spec::Template| {
        template.probes.readiness = Some(crate::specs::probe(xce_model::Millis::seconds(1), 1));
    };
    let spec = web(3, 1, 0).min_ready(5).with(probe);
    let id = world.complete(spec);
    let begin = world.now;
    world.update(id, "v2");
    world.until(10_000, "the first is ready", |world| {
        world.counts(id).of(Standing::Ready) == 1
    });
    let first = world.jobs_of(id, 2)[0];
    world.run_for(4_000);
    world.unready.insert(first.number);
    world.until(2_000, "it is not ready", |world| {
        world.counts(id).of(Standing::Ready) == 0
    });
    world.unready.remove(&first.number);
    world.until(2_000, "it is ready again", |world| {
        world.counts(id).of(Standing::Ready) == 1
    });
    let again = world.now;
    world.until(10_000, "it counts", |world| {
        world.counts(id).available() == 4
    });
    assert!(world.now - again >= 5_000, "its own five seconds again");
    steady(&mut world, id, 60_000, 2, 3);
    assert!(world.now - begin >= 15_000 + 4_000);
}

#[test]
fn p68_named_replicas_go_first_and_are_not_replaced() {
    let mut world = World::new(2);
    let id = world.complete(web(5, 1, 0));
    let jobs = world.jobs_of(id, 1);
    let named = jobs[2];
    world.must(
        id,
        Command::Scale {
            desired: 4,
            remove: vec![named],
        },
    );
    world.run_for(30_000);
    let left = world.jobs_of(id, 1);
    let expected: Vec<_> = jobs.into_iter().filter(|job| *job != named).collect();
    assert_eq!(left, expected);
    assert_eq!(world.condition(id), Some(Condition::Steady));
    let submitted = world.facts(|fact| {
        matches!(
            fact,
            Fact::Job(xce_replica::JobFact::ReplicasSubmitted { .. })
        )
    });
    assert_eq!(submitted, 1);
}

#[test]
fn restart_makes_all_replicas_anew_and_settings_restart_nothing() {
    let mut world = World::new(2);
    let id = world.complete(web(3, 1, 0));
    let before = world.jobs_of(id, 1);
    let mut spec = spec_of(&world.record(id));
    spec.settings.spread.max_per_host = Some(2);
    world.must(id, update(spec));
    world.run_for(10_000);
    assert_eq!(world.jobs_of(id, 1), before);
    world.must(id, Command::Restart);
    steady(&mut world, id, 60_000, 2, 3);
    assert!(world.jobs_of(id, 1).is_empty());
    let _: Lsn = world.record(id).changed;
    let made = world.facts(|fact| {
        matches!(
            fact,
            Fact::Service(ServiceFact::Versioned {
                reason: VersionReason::Restart,
                ..
            })
        )
    });
    assert_eq!(made, 1);
}

/// Replicas keep the number of the version that they were submitted as. Where a copy stands for that
/// version the history must not forget it, however short it is, or its replicas would be nobody's.
#[test]
fn a_short_history_forgets_no_version_that_has_replicas() {
    for limit in 1..=3 {
        let mut world = World::new(3);
        let mut spec = web(6, 1, 1);
        spec.settings.rollout.history_limit = limit;
        let id = world.complete(spec);
        world.behave("v2", Behaviour::never_ready());
        world.update(id, "v2");
        world.run_for(10_000);
        world.must(id, Command::Rollback { to: Some(1) });
        steady(&mut world, id, 60_000, 3, 6);
        world.behave("v1", Behaviour::ready_after(2_000));
        world.give(id, Command::Restart);
        let lowest = least(&mut world, id, 60_000, |counts| counts.available());
        assert!(lowest >= 5, "available fell to {lowest}");
        steady(&mut world, id, 1_000, 4, 6);
    }
}
