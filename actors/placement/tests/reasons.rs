use xce_host::HostFact;
use xce_model::spec::Spread;
use xce_model::{Bytes, Cause, ClusterTime, Exit, JobId};
use xce_service::ServiceFact;
use xce_service::facts::Failure;

use super::world::*;
use crate::why;

fn text(world: &World, job: JobId) -> String {
    let (code, text) = world.why(job);
    format!("{code}: {text}")
}

#[test]
fn without_hosts() {
    let mut world = World::new();
    let id = world.submit(job(1));
    assert_eq!(text(&world, id), "no_host: no host has joined");
    world.host("w1", 1);
    world.host("w2", 1);
    assert_eq!(text(&world, id), "next: about to be placed");
    world.close("w1", "disk full");
    world.apply(HostFact::Left { host: "w2".into() });
    assert_eq!(
        text(&world, id),
        "hosts_closed: no host takes jobs: w1 is closed (disk full), w2 is away"
    );
    world.apply(HostFact::Opened {
        host: "w1".into(),
        by: "ann".into(),
    });
    world.apply(HostFact::Lost { host: "w1".into() });
    assert_eq!(
        text(&world, id),
        "no_host_up: no host is up: w1 is lost, w2 is away"
    );
}

#[test]
fn room() {
    let mut world = World::new();
    for name in ["w1", "w2", "w3"] {
        world.host(name, 4);
    }
    let huge = world.submit(job(64));
    assert_eq!(
        text(&world, huge),
        "larger_than_hosts: no host has 64 cpus: the largest is w1 with 4"
    );
    let mut fat = job(1);
    fat.template.resources.memory = Bytes(1 << 40);
    let fat = world.submit(fat);
    assert_eq!(
        text(&world, fat),
        "larger_than_hosts: no host has 1TiB of memory: the largest is w1 with 4GiB"
    );
    for cpus in [4, 4, 2] {
        world.submit(job(cpus));
        world.run();
    }
    let waiting = world.submit(job(4));
    assert_eq!(
        text(&world, waiting),
        "needs_cpus: needs 4 cpus: at most 2 free on w3, 0 elsewhere"
    );
    let behind = world.submit(job(1));
    assert_eq!(
        text(&world, behind),
        "behind: waits behind job 6 in queue normal, which waits for more room"
    );
    let mut memory = in_queue("other", 1);
    memory.template.resources.memory = Bytes(4 << 30);
    let memory = world.submit(memory);
    assert_eq!(
        text(&world, memory),
        "needs_cpus: needs 1 cpus: 0 free on every host; needs 4GiB of memory: 4095MiB free on w3"
    );
}

#[test]
fn ports_labels_and_spread() {
    let mut world = World::new();
    world.host("w1", 4);
    world.host("w2", 4);
    world.submit(on_port(8080));
    world.submit(on_port(8080));
    world.run();
    let third = world.submit(on_port(8080));
    assert_eq!(
        text(&world, third),
        "port: port 8080 in use on w1 (job 1), w2 (job 2)"
    );
    let mut many = job(1);
    many.template.ports = [port(None), port(None), port(None), port(None)].concat();
    let many = world.submit(many);
    assert_eq!(
        text(&world, many),
        "port_range: no free port in the range of w1 (20000-20002), w2 (20000-20002)"
    );
    let mut labelled = job(1);
    labelled.template.constraints = vec![("zone".into(), "b".into())];
    let labelled = world.submit(labelled);
    assert_eq!(
        text(&world, labelled),
        "no_such_label: no host that takes jobs has zone=b"
    );
    let id = world.service(service(strict(1)));
    world.prove(id);
    let first = world.replicas(id, 3);
    world.run();
    assert_eq!(
        text(&world, JobId::single(first + 2)),
        "spread: at most 1 replicas of its version may be on one host: w1 has 1, w2 has 1"
    );
}

#[test]
fn holds_and_delays() {
    let mut world = World::new();
    world.host("w1", 1);
    let mut held = job(1);
    held.held = true;
    let held = world.submit(held);
    assert_eq!(
        text(&world, held),
        "held: held by its owner until it is released"
    );
    let id = world.submit(job(1));
    world.run();
    assert_eq!(
        why(world.view(), &[], id, world.now),
        None,
        "it does not wait"
    );
    assert_eq!(why(world.view(), &[], JobId::single(99), world.now), None);
    world.requeue(id, Cause::HostLaunchFailed, 5000, Some("w1"));
    assert_eq!(
        text(&world, id),
        "launch_backoff: starts again in 4s: its host could not start it: w1: no such user"
    );
    world.now = ClusterTime(5000);
    assert_eq!(text(&world, id), "next: about to be placed");
}

#[test]
fn arrays() {
    let mut world = World::new();
    world.host("w1", 4);
    let id = world.submit(array(10, Some(2)));
    world.run();
    assert_eq!(text(&world, id), "array_slots: array slot limit 2 reached");
    assert_eq!(
        text(&world, JobId::element(id.number, 7)),
        "array_slots: array slot limit 2 reached"
    );
    assert_eq!(
        why(world.view(), &[], JobId::element(id.number, 11), world.now),
        None
    );
}

#[test]
fn services() {
    let mut world = World::new();
    world.host("w1", 4);
    let id = world.service(service(Spread::default()));
    let first = world.replicas(id, 3);
    world.run();
    let waiting = JobId::single(first + 1);
    assert_eq!(
        text(&world, waiting),
        "slow_start: slow start: 1 of at most 1 replicas of version 1 are started, none has become ready yet"
    );
    let failure = |crash_loop| Failure {
        job: JobId::single(first),
        count: 5,
        hosts: vec!["w1".into()],
        exit: Exit {
            code: Some(3),
            ..Exit::of(Cause::Exited)
        },
        stderr: String::new(),
        was_ready: false,
        at: world.now,
        new_step: true,
        step: 3,
        not_before: ClusterTime(5000),
        crash_loop,
        seen: 0,
    };
    let (backoff, crash_loop) = (failure(false), failure(true));
    let failed = |failure| ServiceFact::VersionFailed {
        service: id,
        version: 1,
        failure: Box::new(failure),
    };
    world.apply(failed(backoff));
    assert_eq!(
        text(&world, waiting),
        "crash_backoff: starts again in 4s: crash backoff of version 1 after 5 failures, the last with exit code 3"
    );
    world.apply(failed(crash_loop));
    assert_eq!(
        text(&world, waiting),
        "crash_loop: starts again in 4s: crash loop of version 1 after 10 failures, the last with exit code 3"
    );
    world.apply(ServiceFact::DeletionRequested {
        service: id,
        author: "ann".into(),
        operation: Default::default(),
    });
    assert_eq!(
        text(&world, waiting),
        "service_ends: its service is being deleted"
    );
}
