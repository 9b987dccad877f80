//! Spread over hosts and labels, by version; hosts that are tried; room for one more.

use std::sync::Arc;

use xce_host::HostFact;
use xce_model::spec::Spread;
use xce_model::{Cause, ClusterTime, Exit, JobId, OperationId, ServiceId};
use xce_replica::{JobFact, ServiceRef};
use xce_service::facts::Failure;
use xce_service::{ServiceFact, VersionReason};

use super::world::*;
use crate::{next_wake, no_room};

fn zones(max_per_host: Option<u32>) -> Spread {
    Spread {
        max_per_host,
        best_effort: true,
        label: Some("zone".into()),
    }
}

impl World {
    fn versioned(&mut self, service: ServiceId, number: u32, reason: VersionReason) {
        let template = self
            .view()
            .service(service)
            .unwrap()
            .current()
            .spec
            .template
            .clone();
        self.apply(ServiceFact::Versioned {
            service,
            number,
            queue: "normal".into(),
            template: Box::new(template),
            origins: Vec::new(),
            reason,
            author: "ann".into(),
            operation: OperationId([0; 16]),
        });
        self.apply(ServiceFact::VersionProved {
            service,
            version: number,
        });
    }

    fn submitted(&mut self, service: ServiceId, version: u32, indices: std::ops::Range<u32>) {
        self.apply(JobFact::ReplicasSubmitted {
            service,
            version,
            indices: indices.collect(),
        });
    }
}

#[test]
fn hosts_without_the_label_are_one_more_place() {
    let mut world = World::new();
    world.host_in("w1", 8, "a");
    world.host_in("w2", 8, "b");
    world.unlabelled("w3", 8);
    world.unlabelled("w4", 8);
    let id = world.service(service(zones(None)));
    world.prove(id);
    world.replicas(id, 6);
    let expected = ["1@w1", "2@w2", "3@w3", "4@w4", "5@w1", "6@w2"];
    assert_eq!(world.run(), expected);
}

#[test]
fn zones_come_before_hosts_and_the_limit_before_zones() {
    let mut world = World::new();
    for name in ["w1", "w2", "w3"] {
        world.host_in(name, 8, "a");
    }
    world.host_in("w4", 8, "b");
    let id = world.service(service(zones(Some(1))));
    world.prove(id);
    world.replicas(id, 5);
    // The second in zone b would be above the limit of its one host.
    assert_eq!(world.run(), ["1@w1", "2@w4", "3@w2", "4@w3", "5@w4"]);
}

#[test]
fn the_old_version_does_not_count_in_a_rollout() {
    let mut world = World::new();
    world.host("w1", 8);
    world.host("w2", 8);
    let id = world.service(service(strict(1)));
    world.prove(id);
    world.replicas(id, 2);
    assert_eq!(world.run(), ["1@w1", "2@w2"]);
    world.versioned(id, 2, VersionReason::Update);
    world.submitted(id, 2, 0..3);
    assert_eq!(world.run(), ["3@w1", "4@w2"]);
    let (code, text) = world.why(JobId::single(5));
    assert_eq!(code, "spread", "{text}");
    assert!(text.contains("at most 1 replicas of its version"), "{text}");
}

#[test]
fn a_copy_counts_with_the_version_that_it_copies() {
    let mut world = World::new();
    world.host("w1", 8);
    world.host("w2", 8);
    let id = world.service(service(strict(1)));
    world.prove(id);
    world.replicas(id, 1);
    assert_eq!(world.run(), ["1@w1"]);
    world.versioned(id, 2, VersionReason::Update);
    world.versioned(id, 3, VersionReason::RollbackOf(1));
    world.submitted(id, 3, 1..3);
    assert_eq!(world.run(), ["2@w2"], "w1 has one of the same making");
}

#[test]
fn a_replica_goes_rather_where_its_version_did_not_fail() {
    let mut world = World::new();
    world.host("w1", 8);
    world.host("w2", 4);
    let id = world.service(service(Spread::default()));
    world.prove(id);
    let failure = Failure {
        job: JobId::single(1),
        count: 1,
        hosts: vec!["w1".into()],
        exit: Exit::of(Cause::Exited),
        stderr: String::new(),
        was_ready: true,
        at: ClusterTime(1),
        new_step: true,
        step: 0,
        not_before: ClusterTime(1),
        crash_loop: false,
        seen: 1,
    };
    world.apply(ServiceFact::VersionFailed {
        service: id,
        version: 1,
        failure: Box::new(failure),
    });
    world.replicas(id, 5);
    assert_eq!(
        world.run(),
        ["1@w2", "2@w2", "3@w2", "4@w2", "5@w1"],
        "and there when nothing else has room"
    );
}

#[test]
fn a_host_that_is_closed_by_its_own_fault_is_tried_with_one_job() {
    let mut world = World::new();
    world.host("w1", 8);
    world.host("w2", 1);
    let due = ClusterTime(world.now.0 + 60_000);
    world.apply(HostFact::Blamed {
        host: "w1".into(),
        reason: "replicas fail on it".into(),
        step: 1,
        not_before: due,
    });
    let id = world.service(service(Spread::default()));
    world.prove(id);
    world.replicas(id, 4);
    assert_eq!(world.run(), ["1@w2"]);
    assert_eq!(next_wake(world.view(), world.now), Some(due));
    world.now = due;
    assert_eq!(world.run(), ["2@w1"]);
    assert!(world.planned().is_empty());
    let (code, text) = world.why(JobId::single(3));
    assert!(
        code == "needs_cpus" || text.contains("w1"),
        "{code}: {text}"
    );
    world.end(JobId::single(2), 1);
    assert_eq!(world.run(), ["3@w1"], "the next one tries it");
    world.apply(HostFact::Opened {
        host: "w1".into(),
        by: String::new(),
    });
    assert_eq!(world.run(), ["4@w1"]);
}

#[test]
fn room_for_one_more_is_missed_only_where_services_hold_it() {
    let replica = ServiceRef {
        service: ServiceId(1),
        version: 2,
        index: 0,
    };
    let asks = |world: &World, spec| {
        let reason = no_room(world.view(), world.now, &Arc::new(spec), replica);
        reason.map(|reason| reason.code)
    };
    let mut world = World::new();
    assert_eq!(asks(&world, job(1)), None, "no host at all");
    world.host("w1", 2);
    assert_eq!(asks(&world, job(1)), None);
    assert_eq!(
        asks(&world, job(3)),
        None,
        "larger than the host: nothing helps"
    );
    let id = world.service(service(Spread::default()));
    world.prove(id);
    world.replicas(id, 1);
    world.run();
    assert_eq!(asks(&world, job(2)), Some("needs_cpus"));
    let batch = world.submit(job(1));
    world.run();
    assert_eq!(asks(&world, job(1)), None, "the batch job {batch} will end");
    world.end(batch, 1);
    assert_eq!(asks(&world, job(1)), None);
    let mut holder = service(Spread::default());
    holder.name = "other".into();
    holder.template.ports = port(Some(8080));
    let other = world.service(holder);
    world.prove(other);
    world.replicas(other, 1);
    world.run();
    world.host("w2", 2);
    assert_eq!(asks(&world, on_port(8080)), None, "free on w2");
    world.close("w2", "repair");
    assert_eq!(asks(&world, on_port(8080)), Some("port"));
}
