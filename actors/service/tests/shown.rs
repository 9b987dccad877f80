//! The view, its JSON and its words.

use xce_host::HostLife;

use crate::tests::world::*;
use crate::view::EndpointState;
use crate::*;

#[test]
fn endpoints_are_ready_then_suspect_then_gone() {
    let mut world = World::complete(&spec(4, 1, 0));
    let endpoints = world.view().endpoints;
    assert_eq!(endpoints.len(), 4);
    assert_eq!(endpoints[1].address, "addr-h2");
    assert_eq!(
        (endpoints[1].port, endpoints[1].state),
        (8000, EndpointState::Ready)
    );
    world.host("h2", HostLife::Suspect);
    world.settle();
    let view = world.view();
    assert_eq!(view.endpoints[1].state, EndpointState::Suspect);
    assert_eq!(
        (view.live, view.available, view.condition),
        (4, 3, Condition::Short)
    );
    assert!(!view.replicas[1].reachable);
    world.flap(1);
    assert_eq!(world.view().endpoints.len(), 3);
}

#[test]
fn a_pending_replica_says_why() {
    let mut world = World::complete(&spec(4, 1, 0));
    world.slots = 0;
    world.scale(5);
    world.run_for(10_000);
    let view = world.view();
    assert_eq!(view.condition, Condition::Short);
    assert_eq!(
        view.reason,
        "available 4 < desired 5; waiting for job 5, pending: no host has room"
    );
    assert!(view.conditions[0].since.is_some());
}

#[test]
fn what_holds_the_next_step_back_is_said_once() {
    let mut world = World::new(&spec(3, 1, 0));
    world.behave("v1", Behaviour::Crash(10));
    world.run_for(60_000);
    let view = world.view();
    let reasons: Vec<(&str, &str)> = view
        .conditions
        .iter()
        .map(|one| (one.condition.word(), one.reason.as_str()))
        .collect();
    assert_eq!(reasons[0], ("crash-loop", view.rollout.explain.as_str()));
    assert_eq!(
        reasons[1..],
        [
            ("rolling", "version 1: 2 of 3 replicas, 0 available"),
            ("short", "available 0 < desired 3")
        ]
    );
}

#[test]
fn events_are_bounded_and_carry_time_and_position() {
    let mut world = World::complete(&spec(1, 1, 0));
    for number in 2..40 {
        world.update(&format!("t{number}"));
        world.run_for(1_000);
    }
    let events = world.view().events;
    assert_eq!(events.len(), crate::state::EVENTS_MAX);
    assert!(events.is_sorted_by_key(|event| (event.lsn, event.at)));
    assert!(events.iter().any(|event| event.kind == "completed"));
    assert!(events.iter().all(|event| event.time == "T5"));
    let view = world.view();
    assert_eq!((&*view.created, &*view.history[0].time), ("T5", "T5"));
}

#[test]
fn bad_specifications_are_refused_by_name() {
    type Spoil = fn(&mut xce_model::spec::ServiceSpec);
    let rows: [(&str, Spoil); 7] = [
        ("bad_name", |spec| spec.name = "a\nb".to_owned()),
        ("bad_name", |spec| spec.name = "a".repeat(10_000)),
        ("too_many_replicas", |spec| spec.replicas = Some(1_000_000)),
        ("no_command", |spec| spec.template.command.clear()),
        ("cannot_roll", |spec| {
            spec.settings.rollout.max_surge = xce_model::spec::Amount::Count(0);
            spec.settings.rollout.max_unavailable = xce_model::spec::Amount::Percent(0);
        }),
        ("bad_deadline", |spec| {
            spec.settings.rollout.min_ready = spec.settings.rollout.progress_deadline;
        }),
        ("bad_crash_limit", |spec| {
            spec.settings.replacement.crash_limit = 0;
        }),
    ];
    for (code, spoil) in rows {
        let mut wrong = spec(3, 1, 0);
        spoil(&mut wrong);
        let refusal = check_spec(&wrong).expect_err(code);
        assert_eq!(refusal.code, code);
        assert!(refusal.text.len() < 300);
    }
}
