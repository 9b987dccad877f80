//! Probes: when they are tried, what they lead to, and what outlives what.

use xce_ledger::Fact;
use xce_model::Millis;
use xce_model::spec::{RestartMode, Template};
use xce_replica::JobFact;
use xce_service::rules::Command;

use super::least;
use crate::behaviour::{Behaviour, Dead};
use crate::specs::{Change, probe, web};
use crate::world::World;

fn restarts(world: &World) -> usize {
    world.facts(|fact| matches!(fact, Fact::Job(JobFact::Restarting { .. })))
}

fn tries(world: &World) -> u64 {
    world.met.get("a try of a probe").copied().unwrap_or(0)
}

fn liveness(template: &mut Template) {
    template.restart.mode = RestartMode::Always;
    template.probes.liveness = Some(probe(Millis::seconds(1), 3));
}

#[test]
fn p38_counts_of_a_probe_begin_anew_with_each_start() {
    let mut world = World::new(1);
    world.behave(
        "v1",
        Behaviour {
            dead: Dead::Within(2_500, 6_500),
            ..Behaviour::good()
        },
    );
    let id = world.complete(web(1, 1, 0).with(liveness));
    world.until(20_000, "it is restarted", |world| restarts(world) == 1);
    // Two failures are not three.
    world.behave(
        "v1",
        Behaviour {
            dead: Dead::Within(2_500, 4_400),
            ..Behaviour::good()
        },
    );
    world.until(20_000, "the second start", |world| world.alive("v1") == 1);
    let first = restarts(&world);
    world.run_for(60_000);
    assert!(restarts(&world) <= first + 1);
    assert_eq!(world.counts(id).available(), 1);
}

/// Processes of probes are real ones, and proved with real ones: here, that no try is in flight
/// twice and that none begins when the service is gone.
#[test]
fn p44_tries_end_with_their_service() {
    let mut world = World::new(1);
    world.behave(
        "v1",
        Behaviour {
            probe_ms: 1_000,
            ..Behaviour::good()
        },
    );
    let quick = |template: &mut Template| {
        template.probes.readiness = Some(probe(Millis::seconds(1), 3));
    };
    let id = world.complete(web(1, 1, 0).with(quick));
    world.run_for(60_000);
    assert!(tries(&world) <= 65);
    world.must(id, Command::Delete);
    world.until(60_000, "it is gone", |world| !world.exists(id));
    let before = tries(&world);
    world.run_for(60_000);
    assert_eq!(tries(&world), before);
}

#[test]
fn p46_the_first_readiness_is_not_late() {
    for (period, ready, within) in [(1_800, 0, 2_000), (60, 5_000, 7_000)] {
        let mut world = World::new(1);
        world.behave("v1", Behaviour::ready_after(ready));
        let slow = |template: &mut Template| {
            template.probes.readiness = Some(probe(Millis::seconds(period), 1));
        };
        let begin = world.now;
        let id = world
            .create(web(1, 1, 0).with(slow).deadline(4_000))
            .expect("created");
        world.until(within, "it is ready", |world| world.counts(id).ready() == 1);
        assert!(world.now - begin < within);
    }
}

#[test]
fn p47_a_restart_of_all_workers_takes_no_endpoint_away() {
    let mut world = World::new(3);
    let quick = |template: &mut Template| {
        template.probes.readiness = Some(probe(Millis::seconds(1), 1));
    };
    let id = world.complete(web(10, 2, 0).with(quick));
    let restart = |world: &mut World| {
        for place in 0..3 {
            world.kill_daemon(place);
            world.restart_daemon_in(place, 1_000);
        }
    };
    restart(&mut world);
    assert_eq!(least(&mut world, id, 30_000, |counts| counts.ready()), 10);
    world.behave("v2", Behaviour::ready_after(1_500));
    world.update(id, "v2");
    world.run_for(5_000);
    let before = world.mix(id).get(&2).copied().unwrap_or(0);
    restart(&mut world);
    let mut backwards = false;
    let mut newest = before;
    world.run_while(60_000, |world| {
        let now = world.mix(id).get(&2).copied().unwrap_or(0);
        backwards |= now < newest;
        newest = now;
        true
    });
    assert!(!backwards);
    super::steady(&mut world, id, 10_000, 2, 10);
}

#[test]
fn p49_no_kill_before_startup_has_passed() {
    let mut world = World::new(1);
    world.behave(
        "v1",
        Behaviour {
            dead: Dead::Until(25_000),
            ready: crate::behaviour::Ready::After(25_000),
            ..Behaviour::good()
        },
    );
    let grace = |template: &mut Template| {
        liveness(template);
        template.probes.startup = Some(probe(Millis::seconds(1), 30));
    };
    let id = world.complete(web(1, 1, 0).with(grace));
    world.run_for(30_000);
    assert_eq!(restarts(&world), 0);
    assert_eq!(world.counts(id).available(), 1);
}

#[test]
fn p50_tries_neither_overlap_nor_drift() {
    let mut world = World::new(1);
    world.behave(
        "v1",
        Behaviour {
            probe_ms: 3_000,
            ..Behaviour::good()
        },
    );
    let slow = |template: &mut Template| {
        let mut slow = probe(Millis::seconds(1), 3);
        slow.timeout = Millis::seconds(5);
        template.probes.readiness = Some(slow);
    };
    world.complete(web(1, 1, 0).with(slow));
    let before = tries(&world);
    world.run_for(60_000);
    let count = tries(&world) - before;
    assert!((19..=21).contains(&count), "{count} tries in a minute");
}
