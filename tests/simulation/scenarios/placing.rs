//! Ports, names, endpoints, stops.

use xce_model::Millis;
use xce_model::spec::Template;
use xce_service::rules::{Command, Standing};

use super::steady;
use crate::behaviour::Behaviour;
use crate::machine::Shim;
use crate::specs::{Change, web};
use crate::world::World;

#[test]
fn p32_a_port_that_is_held_is_named_with_its_holders() {
    let mut world = World::new(2);
    let mut other = web(2, 1, 0).named("other").port(Some(8_080));
    other.settings.spread.max_per_host = Some(1);
    let other = world.complete(other);
    let holders = world.jobs_of(other, 1);
    let id = world
        .create(web(1, 0, 1).port(Some(8_080)))
        .expect("created");
    world.run_for(5_000);
    let (job, standing) = world.replicas(id).remove(0);
    assert_eq!(standing, Standing::Pending);
    let why = world.why(job.id).expect("it waits");
    for part in ["8080", "h1", "h2"] {
        assert!(why.contains(part), "{why}");
    }
    for holder in holders {
        assert!(why.contains(&holder.to_string()), "{why}");
    }
    assert!(world.line(id).contains("8080"), "{}", world.line(id));
}

#[test]
fn p61_services_do_not_share_replicas() {
    let mut world = World::new(2);
    let one = world.complete(web(2, 1, 0));
    let refusal = world.create(web(2, 1, 0)).expect_err("the name is in use");
    assert_eq!(refusal.code, "name_in_use");
    assert!(refusal.text.contains("ada"), "{}", refusal.text);
    let mut elsewhere = web(2, 1, 0);
    elsewhere.project = "other".to_owned();
    let other = world.complete(elsewhere);
    let before = world.jobs_of(other, 1);
    world.must(one, Command::Delete);
    world.until(30_000, "it is gone", |world| !world.exists(one));
    world.run_for(30_000);
    assert_eq!(world.jobs_of(other, 1), before);
    assert_eq!(world.alive("v1"), 2);
    let again = world.complete(web(1, 1, 0));
    assert_ne!(again, one, "its id is another for ever");
}

/// An endpoint goes with the stop that is committed, and the signal comes after the drain: whoever
/// follows the endpoints never meets a process that has been told to end.
#[test]
fn p64_endpoints_go_before_the_signal() {
    let mut world = World::new(2);
    let drain = |template: &mut Template| template.stop.drain = Millis::seconds(2);
    let id = world.complete(web(4, 1, 0).port(None).with(drain));
    world.update(id, "v2");
    let mut bad = None;
    world.run_while(120_000, |world| {
        for (job, standing) in world.replicas(id) {
            let place = job.host.as_deref().and_then(|host| world.place_of(host));
            let serves = matches!(standing, Standing::Ready | Standing::Available);
            if let (true, Some(place)) = (serves, place) {
                let dir = world.machines[place]
                    .disk
                    .runs
                    .iter()
                    .find(|(run, _)| run.job == job.id);
                let well = dir.is_some_and(|(_, dir)| {
                    let mut starts = dir.starts.values();
                    starts.any(|p| matches!(p.shim, Shim::Running { .. }) && p.cause.is_none())
                });
                if !well {
                    bad = Some((world.now, job.id));
                }
            }
        }
        bad.is_none()
    });
    assert_eq!(bad, None, "{}", world.told());
    steady(&mut world, id, 1_000, 2, 4);
}

#[test]
fn p67_a_port_is_held_until_the_end_is_confirmed() {
    let mut world = World::new(1);
    world.checks.strict_ports = true;
    world.behave("v1", Behaviour::ignores_term());
    let stubborn = |template: &mut Template| template.stop.grace = Millis::seconds(20);
    let id = world.complete(web(3, 2, 2).port(None).with(stubborn));
    world.update(id, "v2");
    steady(&mut world, id, 200_000, 2, 3);
    assert_eq!(world.checks.port_clashes, 0);
    assert_eq!(world.alive("v1"), 0);
}

#[test]
fn processes_that_do_not_die_keep_what_they_hold() {
    let mut world = World::new(1);
    world.checks.strict_ports = true;
    world.behave(
        "v1",
        Behaviour {
            undying: true,
            ..Behaviour::good()
        },
    );
    let id = world.complete(web(1, 1, 0).port(None));
    let held = world.replicas(id)[0].0.ports.clone();
    world.update(id, "v2");
    world.run_for(600_000);
    let stopping = world.replicas(id).into_iter();
    let stopping: Vec<_> = stopping
        .filter(|(_, standing)| *standing == Standing::Stopping)
        .collect();
    assert_eq!(stopping.len(), 1, "{}", world.describe());
    assert_eq!(stopping[0].0.ports, held);
    assert_eq!(world.alive("v1"), 1);
}
