//! Failures, backoff, crash loops.

use xce_host::HostLife;
use xce_model::{Cause, Millis};

use crate::state::Outcome;
use crate::tests::world::*;
use crate::*;

/// Times in seconds since the creation at which replicas were submitted.
fn submissions(world: &World) -> Vec<u64> {
    let since =
        |job: &std::sync::Arc<xce_replica::JobRecord>| (job.submitted_at.0 - 1_000_000) / 1_000;
    world.jobs.iter().map(since).collect()
}

#[test]
fn p37_one_series_for_every_cause() {
    let mut world = World::new(&spec(1, 1, 0));
    world.record.settings.replacement.crash_limit = 100;
    world.behave("v1", Behaviour::NeverReady);
    let causes = [
        Cause::Exited,
        Cause::TermLiveness,
        Cause::GaveUp,
        Cause::LaunchFailed,
    ];
    for round in 0..10 {
        world.settle();
        let number = world.jobs.len() as u64;
        world.end(number, causes[round % causes.len()]);
        let before = world.now;
        while world.jobs.len() as u64 == number {
            world.run_for(1_000);
        }
        let expected = (1_u64 << round).min(300);
        assert_eq!((world.now - before) / 1_000, expected, "failure {round}");
    }
}

#[test]
fn the_first_failure_of_a_stable_replica_costs_no_delay() {
    let mut world = World::complete(&spec(3, 1, 0));
    world.run_for(100_000);
    world.end(1, Cause::Exited);
    world.settle();
    assert_eq!(world.jobs.len(), 4);
    world.end(2, Cause::Exited);
    world.settle();
    assert_eq!(
        world.jobs.len(),
        5,
        "failed at the same time: the same step"
    );
    world.run_for(10);
    world.end(3, Cause::Exited);
    world.settle();
    assert_eq!(world.jobs.len(), 5);
    world.run_for(999);
    assert_eq!(world.jobs.len(), 5);
    world.run_for(1);
    assert_eq!(world.jobs.len(), 6);
    // A minute without a failure, and it starts anew.
    world.run_for(60_000);
    assert_eq!(world.record.current().backoff.failures, 0);
    world.end(4, Cause::Exited);
    world.settle();
    assert_eq!(world.jobs.len(), 7);
}

#[test]
fn p35_a_bad_version_makes_few_jobs_and_crash_loops_with_its_cause() {
    let mut world = World::new(&spec(3, 1, 0));
    world.behave("v1", Behaviour::Crash(10));
    world.run_for(60_000);
    assert!(world.jobs.len() <= 3 + 6, "{:?}", submissions(&world));
    let view = world.view();
    assert_eq!(view.condition, Condition::CrashLoop);
    for part in [
        "crash loop",
        "next try in",
        "exit code 1",
        "cannot open secret",
        "h1",
    ] {
        assert!(view.reason.contains(part), "{part}: {}", view.reason);
    }
    // It goes on at the capped delay, one process at a time.
    let before = world.jobs.iter().filter(|job| job.run > 0).count();
    world.run_for(900_000);
    let after = world.jobs.iter().filter(|job| job.run > 0).count();
    assert_eq!(after - before, 3);
    // What is well again proves it, and the rest follows at once.
    world.behave("v1", Behaviour::Ready(0));
    world.run_for(300_000);
    assert_eq!(world.available(), 3);
    assert!(!world.record.current().backoff.crash_loop);
}

#[test]
fn resume_restart_and_update_end_a_crash_loop_at_once() {
    let commands = [Command::Resume, Command::Restart];
    for command in commands {
        let mut world = World::new(&spec(3, 1, 0));
        world.behave("v1", Behaviour::Crash(10));
        world.run_for(60_000);
        world.behave("v1", Behaviour::Ready(0));
        assert!(world.command(command).is_ok());
        world.run_for(1_000);
        assert_eq!(world.condition(), Condition::Steady, "{}", world.explain());
    }
    let mut world = World::new(&spec(3, 1, 0));
    world.behave("v1", Behaviour::Crash(10));
    world.run_for(60_000);
    world.update("v2");
    world.run_for(1_000);
    assert_eq!(world.condition(), Condition::Steady, "{}", world.explain());
    assert_eq!(world.mix(), [(2, 3)].into());
}

#[test]
fn a_version_that_becomes_ready_is_no_crash_loop() {
    let mut world = World::new(&spec(1, 1, 0));
    world.behave("v1", Behaviour::ReadyThenCrash(500));
    world.run_for(200_000);
    let backoff = &world.record.current().backoff;
    assert!(!backoff.crash_loop);
    assert!(backoff.step >= 6, "{backoff:?}");
}

/// Without a probe every process is ready as soon as it runs: only time tells what works.
#[test]
fn what_fails_at_once_crash_loops_also_without_a_probe() {
    // Whether a probe tells, how long each replica lives, and whether that is a crash loop.
    let rows = [
        (true, 10, false),
        (false, 0, true),
        (false, 10, true),
        (false, 999, true),
        (false, 1_000, false),
        (false, 1_500, false),
    ];
    for (probed, lives, expected) in rows {
        let mut spec = spec(3, 1, 0);
        if !probed {
            spec.template = bare_template("v1");
        }
        let mut world = World::new(&spec);
        world.behave("v1", Behaviour::ReadyThenCrash(lives));
        world.run_for(120_000);
        let version = world.record.current();
        let told = format!("{probed} {lives}: {}", world.explain());
        assert_eq!(version.backoff.crash_loop, expected, "{told}");
        assert_eq!(
            world.condition() == Condition::CrashLoop,
            expected,
            "{told}"
        );
    }
}

#[test]
fn a_crash_loop_without_a_probe_makes_few_jobs_and_ends_when_all_is_well() {
    let mut spec = spec(5, 1, 0);
    spec.template = bare_template("v1");
    let mut world = World::new(&spec);
    world.behave("v1", Behaviour::ReadyThenCrash(10));
    world.run_for(60_000);
    assert_eq!(world.condition(), Condition::CrashLoop);
    assert_eq!(world.record.current().outcome, Outcome::Rolling);
    assert!(!world.record.current().proved);
    let ran = world.jobs.iter().filter(|job| job.run > 0).count();
    assert!(ran <= 5, "one process a step: {ran}");
    // A limit of one process holds until one has run for a second; then all start.
    world.behave("v1", Behaviour::Ready(0));
    world.run_for(400_000);
    assert_eq!(world.condition(), Condition::Steady, "{}", world.explain());
    assert_eq!(world.record.current().outcome, Outcome::Completed);
    // What worked and fails at once from now on is a crash loop again.
    world.behave("v1", Behaviour::ReadyThenCrash(10));
    for number in 1..=world.jobs.len() as u64 {
        if world.job(number).state == xce_model::JobState::Run {
            world.end(number, Cause::Exited);
        }
    }
    world.run_for(120_000);
    assert_eq!(
        world.condition(),
        Condition::CrashLoop,
        "{}",
        world.explain()
    );
}

#[test]
fn host_losses_and_kills_are_no_failures_and_are_not_held_back() {
    let mut world = World::complete(&spec(4, 1, 0));
    world.end(1, Cause::GaveUp);
    world.settle();
    assert_eq!(world.jobs.len(), 4);
    world.host("h2", HostLife::Lost);
    world.settle();
    assert_eq!(
        world.jobs.len(),
        5,
        "the lost one at once, the failed one later"
    );
    assert_eq!(world.record.current().backoff.failures, 1);
    world.run_for(1_000);
    assert_eq!(world.jobs.len(), 6);
    assert_eq!(world.available(), 4);
}

#[test]
fn p40_the_series_goes_on_over_a_host_loss() {
    let mut world = World::new(&spec(1, 1, 0));
    world.record.settings.replacement.crash_limit = 100;
    world.behave("v1", Behaviour::Crash(0));
    world.run_for(5_000);
    assert_eq!(submissions(&world), [0, 1, 3]);
    world.behave("v1", Behaviour::NeverReady);
    world.run_for(3_000);
    let host = world.jobs[3].host.clone().expect("placed").to_string();
    let others: Vec<String> = world
        .hosts
        .keys()
        .filter(|name| **name != host)
        .cloned()
        .collect();
    for other in &others {
        world.host(other, HostLife::Away);
    }
    world.host(&host, HostLife::Lost);
    world.run_for(10_000);
    assert_eq!(world.jobs.len(), 5);
    // Its replacement gets another host, so that it ends with its own.
    world.host(&others[0], HostLife::Up);
    world.settle();
    world.run_for(100);
    world.end(5, Cause::Exited);
    let before = world.now;
    while world.jobs.len() == 5 {
        world.run_for(1_000);
    }
    assert_eq!(world.now - before, 8_000);
}

#[test]
fn a_group_of_failures_within_a_delay_is_one_step() {
    let mut world = World::complete(&spec(4, 1, 0));
    (1..=4).for_each(|number| world.end(number, Cause::Exited));
    world.run_for(500);
    assert_eq!(world.record.current().backoff.step, 1);
    assert_eq!(world.record.current().backoff.failures, 4);
    world.run_for(500);
    assert_eq!(world.available(), 4);
    assert_eq!(world.records_of_submission(), 2);
}

#[test]
fn state_survives_a_restart_of_the_actor() {
    let mut world = World::new(&spec(3, 1, 0));
    world.behave("v1", Behaviour::Crash(10));
    world.run_for(9_000);
    // All that is remembered is the record: a decision from it alone asks for the same wake.
    let bytes = rkyv::to_bytes::<rkyv::rancor::Error>(&world.record).expect("it can be written");
    let back = rkyv::from_bytes::<ServiceRecord, rkyv::rancor::Error>(&bytes).expect("and read");
    assert_eq!(back, world.record);
    let wake = |world: &World| {
        world.with_situation(|situation| {
            let decision = decide(situation, Event::Changed).expect("not refused");
            assert!(decision.is_empty());
            format!("{decision:?}")
        })
    };
    let before = wake(&world);
    world.record = back;
    assert_eq!(before, wake(&world));
    assert!(before.contains("WakeAt"));
    assert_eq!(
        world
            .record
            .current()
            .backoff
            .last
            .as_ref()
            .map(|last| last.exit.code),
        Some(Some(1))
    );
    assert_eq!(world.record.settings.replacement.delay, Millis(1_000));
}
