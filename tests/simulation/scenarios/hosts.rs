//! Hosts that fall silent, come back, or lose power; controllers that change.

use xce_host::HostLife;
use xce_model::JobId;
use xce_service::Condition;
use xce_service::rules::Command;

use super::{least, steady};
use crate::behaviour::Behaviour;
use crate::dice::Dice;
use crate::specs::{Change, web};
use crate::users::scale;
use crate::world::{Settings, World};

fn life(world: &World, place: usize) -> Option<HostLife> {
    world
        .view()
        .host(&world.machines[place].name)
        .map(|host| host.life)
}

fn on(world: &World, place: usize) -> usize {
    world.machines[place].alive().count()
}

#[test]
fn p25_a_host_that_is_lost_during_an_update_is_made_up_for() {
    let mut world = World::new(3);
    world.behave("v2", Behaviour::ready_after(2_000));
    let id = world.complete(web(6, 1, 1));
    world.update(id, "v2");
    world.until(10_000, "mid-update", |world| {
        world.mix(id).get(&2) >= Some(&2)
    });
    world.power_off(1);
    steady(&mut world, id, 200_000, 2, 6);
    assert_eq!(world.alive("v2"), 6);
    assert_eq!(life(&world, 1), Some(HostLife::Lost));
}

/// There is no drain yet: a closed host stands for it. What never worked does not hold anything up,
/// and the counts of the stuck rollout stay right.
#[test]
fn p26_a_closed_host_with_replicas_that_are_not_ready() {
    let mut world = World::new(2);
    world.behave("v2", Behaviour::never_ready());
    let id = world.complete(web(6, 3, 0).deadline(10));
    world.update(id, "v2");
    world.run_for(20_000);
    world.close_host(0);
    world.run_for(60_000);
    assert_eq!(world.mix(id), [(1, 6), (2, 3)].into());
    let shown = world.shown(id).expect("it is shown");
    assert_eq!(shown.condition, Condition::Stuck);
    assert_eq!((shown.live, shown.available, shown.updated), (9, 6, 3));
}

#[test]
fn p52_a_change_of_the_controller_moves_nothing() {
    let mut world = World::new(50);
    let id = world.complete(web(50, 1, 0));
    let before: Vec<JobId> = world.jobs_of(id, 1);
    world.kill_controller(10_000);
    world.run_for(120_000);
    assert_eq!(world.jobs_of(id, 1), before);
    assert_eq!(world.alive("v1"), 50);
    assert!((0..50).all(|place| life(&world, place) == Some(HostLife::Up)));
}

#[test]
fn p53_a_controller_that_goes_with_a_host_gives_one_ordinary_grace() {
    let mut world = World::new(3);
    let id = world.complete(web(6, 1, 1));
    world.power_off(0);
    world.kill_controller(10_000);
    let took = world.until(10_000 + 20_000 + 2_000, "replaced", |world| {
        world.controller.up
            && world.counts(id).available() == 6
            && on(world, 0) == 0
            && world.alive("v1") == 6
    });
    assert!(
        took >= 10_000 + 20_000,
        "a fresh grace, and no less: {took}"
    );
}

/// Rows of the table are tested with the rules; this is the random part.
#[test]
fn p55_partitions_end_with_the_right_count_of_the_newest_version() {
    for seed in 0..40 {
        let mut dice = Dice::new(seed);
        let mut world = World::custom(4, seed, Settings::default(), 10_000);
        let id = world.complete(web(5, 1, 1));
        for step in 0..8 {
            let place = dice.place(4);
            match dice.below(4) {
                0 => world.cut(place),
                1 => world.mend(place),
                2 => {
                    let record = world.record(id);
                    world.give(id, crate::users::update_to(&record, &format!("s{step}")));
                }
                _ => {
                    world.give(id, scale(3 + dice.number(4)));
                }
            }
            let wait = dice.below(40_000);
            world.run_for(wait);
        }
        for place in 0..4 {
            world.mend(place);
        }
        world.run_for(200_000);
        let record = world.record(id);
        let desired = record.desired as usize;
        steady(&mut world, id, 600_000, record.current().number, desired);
        let newest = world.record(id).current().spec.template.command[0].clone();
        let all: usize = (0..4).map(|place| on(&world, place)).sum();
        assert_eq!(
            (world.alive(&newest), all),
            (desired, desired),
            "seed {seed}"
        );
    }
}

/// Facts that die with the mailbox of a host's actor are sent again, also where later ones were on
/// their way already.
#[test]
fn facts_that_die_with_an_actor_are_not_passed_over() {
    let mut world = World::new(1);
    let always = |template: &mut xce_model::spec::Template| {
        template.restart.mode = xce_model::spec::RestartMode::Always;
    };
    let id = world.complete(web(2, 1, 0).with(always));
    let jobs = world.jobs_of(id, 1);
    let runs: Vec<_> = world.machines[0].alive().map(|(run, _, _)| run).collect();
    world.machines[0].slow_ms = 2_000;
    world.run_for(3_000);
    world.crash_process(0, runs[0]);
    world.run_for(500);
    world.crash_process(0, runs[1]);
    world.run_for(1_490);
    // The first batch finds nobody, the second one the next incarnation.
    world.kill_actor(&crate::controller::ActorKey::Host(0), 100);
    world.machines[0].slow_ms = 0;
    world.run_for(60_000);
    for job in jobs {
        let restarts = world.view().job(job).map(|job| job.restarts);
        assert_eq!(restarts, Some(1), "job {job}");
    }
    assert_eq!(world.condition(id), Some(Condition::Steady));
}

/// A power cut begins a new epoch of the spool, in which a fact is sent again whose commit was not
/// heard of any more: it counts once all the same.
#[test]
fn a_fact_that_is_sent_again_after_a_power_cut_counts_once() {
    let mut world = World::new(1);
    let always = |template: &mut xce_model::spec::Template| {
        template.restart.mode = xce_model::spec::RestartMode::Always;
    };
    let id = world.complete(web(1, 1, 0).with(always));
    let job = world.jobs_of(id, 1)[0];
    let run = world.machines[0].alive().next().expect("it runs").0;
    let restarts = |world: &World| world.view().job(job).map_or(0, |job| job.restarts);
    world.crash_process(0, run);
    world.until(1_000, "it is committed", |world| restarts(world) == 1);
    world.cut(0);
    world.power_off(0);
    world.run_for(1_000);
    world.mend(0);
    world.power_on(0);
    world.until(60_000, "it is replaced", |world| {
        world.condition(id) == Some(Condition::Steady) && world.jobs_of(id, 1) != [job]
    });
    assert_eq!(restarts(&world), 1);
}

/// Identity of processes is the shim's affair and proved with real ones. Here: a replica that ends
/// while no worker looks is reported once with its exit, and is not taken up again.
#[test]
fn p56_an_end_that_nobody_saw_is_final() {
    let mut world = World::new(1);
    let id = world.complete(web(1, 1, 0));
    let job = world.jobs_of(id, 1)[0];
    let run = world.machines[0].alive().next().expect("it runs").0;
    world.kill_daemon(0);
    world.run_for(1_000);
    world.crash_process(0, run);
    world.restart_daemon_in(0, 1_000);
    world.until(30_000, "it is replaced", |world| {
        world.counts(id).available() == 1 && world.jobs_of(id, 1) != [job]
    });
    let exit = world.view().job(job).and_then(|job| job.exit.clone());
    assert_eq!(exit.and_then(|exit| exit.code), Some(1));
    assert_eq!(world.alive("v1"), 1);
}

/// Without a strict single copy; strict copies, and `confirm-dead`, are not there yet.
#[test]
fn p58_a_lost_copy_does_not_hold_its_place() {
    let mut world = World::new(3);
    let id = world.complete(web(3, 1, 0));
    world.cut(2);
    world.until(22_000, "replaced", |world| {
        world.counts(id).available() == 3 && life(world, 2) == Some(HostLife::Lost)
    });
    world.mend(2);
    world.until(10_000, "the old copy is fenced", |world| on(world, 2) == 0);
    assert_eq!(world.counts(id).available(), 3);
    assert_eq!(world.alive("v1"), 3);
}

#[test]
fn p59_a_deletion_reaches_hosts_that_were_away() {
    let mut world = World::new(2);
    let id = world.complete(web(2, 1, 0));
    world.kill_daemon(1);
    world.must(id, Command::Delete);
    world.run_for(5_000);
    let shown = world.shown(id).expect("it waits for the host");
    assert_eq!(shown.condition, Condition::Deleting);
    assert!(shown.reason.contains("h2"), "{}", shown.reason);
    assert_eq!((on(&world, 0), on(&world, 1)), (0, 1));
    world.restart_daemon_in(1, 0);
    world.until(2_500, "it is gone", |world| {
        !world.exists(id) && on(world, 1) == 0
    });
    // A lost host does not hold the name: its copies are fenced when it comes back.
    let id = world.complete(web(2, 1, 0));
    world.kill_daemon(1);
    world.must(id, Command::Delete);
    world.until(60_000, "it is gone", |world| !world.exists(id));
    assert_eq!(on(&world, 1), 1);
    world.restart_daemon_in(1, 0);
    world.until(5_000, "the copy is stopped", |world| on(world, 1) == 0);
}

/// Nothing is moved back by itself: to do so on request is not there yet.
#[test]
fn p62_a_host_that_returns_takes_nothing_away() {
    let mut world = World::new(3);
    let id = world.complete(web(6, 1, 1));
    assert_eq!((on(&world, 0), on(&world, 1), on(&world, 2)), (2, 2, 2));
    world.power_off(2);
    world.until(60_000, "replaced", |world| {
        world.counts(id).available() == 6 && life(world, 2) == Some(HostLife::Lost)
    });
    assert_eq!((on(&world, 0), on(&world, 1)), (3, 3));
    world.power_on(2);
    let lowest = least(&mut world, id, 60_000, |counts| counts.available());
    assert_eq!(lowest, 6);
    assert_eq!(on(&world, 2), 0);
    assert_eq!(life(&world, 2), Some(HostLife::Up));
}

/// There is no drain yet: a restart of the one replica shows the order, new before old.
#[test]
fn p65_one_replica_is_moved_without_a_gap() {
    let mut world = World::new(2);
    world.behave("v1", Behaviour::ready_after(2_000));
    let id = world.complete(web(1, 1, 0));
    let place = (0..2)
        .find(|place| on(&world, *place) == 1)
        .expect("it runs");
    world.close_host(place);
    world.must(id, Command::Restart);
    let lowest = least(&mut world, id, 30_000, |counts| counts.ready());
    assert_eq!(lowest, 1, "never without a ready replica");
    steady(&mut world, id, 1_000, 2, 1);
    assert_eq!(on(&world, place), 0);
}
