//! Turns to restart in place after a failed liveness probe.

use xce_host::HostLife;
use xce_model::{Exit, Millis};
use xce_replica::JobFact;

use crate::rules::{Census, Turns, most_restarts};
use crate::tests::world::*;

/// The liveness probe of a replica fails.
fn sicken(world: &mut World, number: u64) {
    let job = world.job(number);
    let (id, run, start) = (job.id, job.run, job.start);
    let fact = JobFact::RestartWanted {
        job: id,
        run,
        start,
        wish: 1,
        text: "refused".to_owned(),
    };
    world.outside(id, &fact);
}

/// The worker of a replica acts upon its permission.
fn restart(world: &mut World, number: u64) {
    let job = world.job(number);
    let (id, run, start) = (job.id, job.run, job.start);
    let exit = Exit::of(xce_model::Cause::TermLiveness);
    let stderr = String::new();
    let fell = JobFact::Restarting {
        job: id,
        run,
        start,
        exit,
        stderr,
    };
    world.outside(id, &fell);
    let began = JobFact::Started {
        job: id,
        run,
        start: start + 1,
        pid: 9,
        at: xce_model::WallTime(5),
    };
    world.outside(id, &began);
}

fn ready(world: &mut World, number: u64) {
    let job = world.job(number);
    let (id, run, start) = (job.id, job.run, job.start);
    let fact = JobFact::Ready {
        job: id,
        run,
        start,
    };
    world.outside(id, &fact);
}

/// Jobs that have a permission.
fn granted(world: &World) -> Vec<u64> {
    let has = |job: &&std::sync::Arc<xce_replica::JobRecord>| job.restart_permit.is_some();
    let jobs = world.jobs.iter().filter(has);
    jobs.map(|job| job.id.number).collect()
}

#[test]
fn a_quarter_and_at_least_one_restarts_at_once() {
    for (desired, most) in [(0, 1), (1, 1), (4, 1), (7, 1), (8, 2), (10, 2), (100, 25)] {
        assert_eq!(most_restarts(desired), most, "{desired}");
    }
}

#[test]
fn an_overload_restarts_no_more_than_the_budget_at_once() {
    let mut world = World::complete(&spec(8, 1, 0));
    // The jobs of the fourth and the first fail first.
    for number in [4, 1, 2, 3, 5, 6, 7, 8] {
        sicken(&mut world, number);
        world.now += 1;
    }
    world.settle();
    assert_eq!(granted(&world), [1, 4]);
    let view = world.view();
    let waits = "liveness failed: refused; waits for its turn: 2 of 2 restarting";
    assert_eq!(view.replicas[1].reason, waits);
    assert!(!view.replicas[0].reason.contains("turn"), "{view:?}");
    restart(&mut world, 4);
    world.settle();
    assert_eq!(granted(&world), [1, 4], "not ready again yet");
    ready(&mut world, 4);
    world.settle();
    assert_eq!(granted(&world), [1, 2], "the next in order of waiting");
    world.end(1, xce_model::Cause::TermLiveness);
    world.settle();
    assert_eq!(granted(&world), [2, 3], "one that ended needs no turn");
}

#[test]
fn a_turn_that_is_not_needed_any_more_is_given_back() {
    let mut world = World::complete(&spec(4, 1, 0));
    sicken(&mut world, 1);
    sicken(&mut world, 2);
    world.settle();
    assert_eq!(granted(&world), [1]);
    let job = world.job(1);
    let (id, run, start) = (job.id, job.run, job.start);
    let fact = JobFact::RestartUnwanted {
        job: id,
        run,
        start,
    };
    world.outside(id, &fact);
    world.settle();
    assert_eq!(granted(&world), [2]);
}

#[test]
fn a_turn_ends_when_the_time_to_start_is_over() {
    let mut with_startup = spec(4, 1, 0);
    let mut probe = with_startup.template.probes.readiness.clone();
    if let Some(probe) = &mut probe {
        probe.initial_delay = Millis::seconds(5);
    }
    with_startup.template.probes.startup = probe;
    // Three tries of ten seconds, after five; or the progress deadline.
    for (spec, seconds) in [(with_startup, 35), (spec(4, 1, 0), 600)] {
        let mut world = World::complete(&spec);
        sicken(&mut world, 1);
        sicken(&mut world, 2);
        world.settle();
        restart(&mut world, 1);
        world.settle();
        world.run_for(seconds * 1_000 - 1);
        assert_eq!(granted(&world), [1]);
        world.run_for(1);
        assert_eq!(granted(&world), [1, 2], "the first has had its time");
        let turns = world.with_situation(|situation| {
            let census = Census::take(situation.service, situation);
            Turns::of(situation.service, &census, situation.now)
        });
        assert_eq!((turns.taken, turns.most), (1, 1));
    }
}

#[test]
fn a_host_that_does_not_answer_gets_no_turn_and_a_lost_one_gives_it_back() {
    let mut world = World::complete(&spec(4, 1, 0));
    world.ends_lost = false;
    sicken(&mut world, 1);
    world.settle();
    assert_eq!(granted(&world), [1]);
    let host = world.job(1).host.clone().unwrap();
    world.host(&host, HostLife::Suspect);
    let other = (2..=4)
        .find(|number| world.job(*number).host.as_deref() != Some(&*host))
        .unwrap();
    sicken(&mut world, other);
    world.settle();
    assert_eq!(granted(&world), [1], "it may be restarting");
    world.host(&host, HostLife::Lost);
    world.settle();
    assert!(granted(&world).contains(&other), "{:?}", granted(&world));
}
