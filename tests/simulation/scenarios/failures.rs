//! Crashes, delays, limits.

use xce_ledger::Fact;
use xce_model::spec::{RestartMode, Template};
use xce_model::{JobId, JobState, Millis};
use xce_replica::JobFact;
use xce_service::rules::Command;
use xce_service::{Condition, ServiceFact};

use crate::behaviour::{Behaviour, Dead};
use crate::specs::{Change, probe, web};
use crate::world::World;

fn submitted(world: &World) -> usize {
    let entries = world.log.entries.iter().filter(|entry| entry.applied);
    let facts = entries.flat_map(|entry| entry.group.facts.iter());
    facts
        .map(|fact| {
            if let Fact::Job(JobFact::ReplicasSubmitted { indices, .. }) = fact {
                indices.len()
            } else {
                0
            }
        })
        .sum()
}

/// A launch that fails by the host's fault sends the same job back, so it makes no new record at
/// all; one that fails by the job's own fault makes one a delay.
#[test]
fn p35_what_cannot_start_is_not_made_again_in_a_loop() {
    for bad in [Behaviour::host_fails(), Behaviour::not_found()] {
        let mut world = World::new(3);
        world.behave("v1", bad.clone());
        let id = world.create(web(3, 1, 0)).expect("created");
        world.run_for(60_000);
        let records = submitted(&world);
        assert!(
            records <= 6 * 3,
            "{bad:?}: {records} job records in a minute"
        );
        let placed = world.facts(|fact| matches!(fact, Fact::Job(JobFact::Placed { .. })));
        assert!(
            placed <= 6 * 3 + 3,
            "{bad:?}: {placed} placements in a minute"
        );
        if bad == Behaviour::not_found() {
            let line = world.line(id);
            assert!(line.contains("next try in"), "{line}");
            assert!(line.contains("no such program"), "{line}");
        }
    }
}

/// Gaps between the end of each start and the beginning of the next, of one job.
fn gaps(world: &World, job: JobId) -> Vec<u64> {
    let mut ends: Vec<u64> = Vec::new();
    let mut gaps = Vec::new();
    for entry in world.log.entries.iter().filter(|entry| entry.applied) {
        for fact in &entry.group.facts {
            if let Fact::Job(JobFact::Restarting { job: of, .. }) = fact
                && *of == job
            {
                ends.push(entry.group.at.0);
            } else if let Fact::Job(JobFact::Started { job: of, start, .. }) = fact
                && *of == job
                && *start > 1
            {
                gaps.extend(ends.last().map(|end| entry.group.at.0 - end));
            }
        }
    }
    gaps
}

fn always(template: &mut Template) {
    template.restart.mode = RestartMode::Always;
    template.probes.liveness = Some(probe(Millis::seconds(1), 3));
}

#[test]
fn p37_one_series_of_delays_whatever_the_cause() {
    let mut world = World::new(1);
    let id = world.complete(web(1, 1, 0).with(always));
    let job = world.jobs_of(id, 1)[0];
    let run = world.machines[0].alive().next().expect("it runs").0;
    let dead = Behaviour {
        dead: Dead::From(0),
        ..Behaviour::good()
    };
    // Two ends of its own, two by its liveness probe, one of its own.
    world.behave("v1", Behaviour::crashes_after(1_000));
    world.crash_process(0, run);
    world.until(30_000, "two ends", |world| gaps(world, job).len() == 2);
    world.behave("v1", dead);
    world.until(60_000, "three ends", |world| gaps(world, job).len() == 3);
    world.until(60_000, "four ends", |world| gaps(world, job).len() == 4);
    world.behave("v1", Behaviour::good());
    world.until(60_000, "five ends", |world| gaps(world, job).len() == 5);
    for (gap, delay) in gaps(&world, job)
        .into_iter()
        .zip([100, 200, 400, 800, 1_600])
    {
        let about = delay..delay + 50;
        assert!(about.contains(&gap), "{gap} is not about {delay}");
    }
}

/// The series of a service's delays goes on over the loss of its host, a failover, and a restart of
/// the worker.
#[test]
fn p40_history_of_failures_outlives_hosts_and_daemons() {
    for fault in 0..4 {
        let mut world = World::new(1);
        world.behave("v1", Behaviour::broken(100));
        let mut spec = web(1, 1, 0);
        spec.settings.replacement.crash_limit = 100;
        let id = world.create(spec).expect("created");
        let step = |world: &World| world.record(id).versions[0].backoff.step;
        world.until(60_000, "three failures", |world| step(world) == 3);
        match fault {
            0 => {}
            1 => {
                world.power_off(0);
                world.run_for(10_000);
                world.power_on(0);
            }
            2 => world.kill_controller(2_000),
            _ => {
                world.kill_daemon(0);
                world.restart_daemon_in(0, 2_000);
            }
        }
        world.until(120_000, "the fourth failure", |world| step(world) == 4);
        let backoff = world.record(id).versions[0].backoff.clone();
        let last = backoff.last.expect("it failed").at;
        assert_eq!(
            backoff.not_before.since(last),
            Millis::seconds(8),
            "fault {fault}"
        );
    }
}

#[test]
fn p41_restart_works_in_any_state() {
    let mut world = World::new(1);
    world.behave("v1", Behaviour::broken(100));
    let mut spec = web(1, 1, 0);
    spec.settings.replacement.crash_limit = 2;
    let id = world.create(spec).expect("created");
    world.until(60_000, "a crash loop", |world| {
        world.condition(id) == Some(Condition::CrashLoop)
    });
    world.run_for(20_000);
    assert_eq!(world.counts(id).live(), 0);
    world.behave("v1", Behaviour::good());
    world.must(id, Command::Restart);
    world.until(5_000, "it runs", |world| {
        world.condition(id) == Some(Condition::Steady)
    });
}

#[test]
fn p43_restarts_are_counted_in_a_sliding_window() {
    for (crashes, goes_on) in [(vec![0, 20, 40, 59], false), (vec![0, 20, 61], true)] {
        let mut world = World::new(1);
        let policy = |template: &mut Template| {
            template.restart.mode = RestartMode::OnFailure;
            template.restart.max_restarts = 3;
            template.restart.window = Millis::seconds(60);
        };
        let id = world.complete(web(1, 1, 0).with(policy));
        let job = world.jobs_of(id, 1)[0];
        let run = world.machines[0].alive().next().expect("it runs").0;
        let begin = world.now + 1_000;
        for second in crashes {
            world.run_for(begin + second * 1_000 - world.now);
            world.crash_process(0, run);
        }
        world.run_for(1_500);
        let state = world.view().job(job).map(|job| job.state);
        assert_eq!(state == Some(JobState::Run), goes_on, "{state:?}");
        if goes_on {
            world.crash_process(0, run);
            world.run_for(1_500);
            let state = world.view().job(job).map(|job| job.state);
            assert_eq!(state, Some(JobState::Run));
        }
    }
}

#[test]
fn a_crash_loop_is_left_by_a_new_version_and_other_versions_are_not_held_back() {
    let mut world = World::new(2);
    world.behave("v2", Behaviour::broken(200));
    let id = world.complete(web(3, 1, 0).deadline(60));
    world.update(id, "v2");
    world.until(120_000, "a crash loop", |world| {
        world.condition(id) == Some(Condition::CrashLoop)
    });
    assert_eq!(world.counts(id).available(), 3);
    let failed =
        world.facts(|fact| matches!(fact, Fact::Service(ServiceFact::VersionFailed { .. })));
    assert!(failed >= 5, "{failed}");
    world.update(id, "v3");
    super::steady(&mut world, id, 20_000, 3, 3);
}
