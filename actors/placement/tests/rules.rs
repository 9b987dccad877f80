use xce_model::spec::Spread;
use xce_model::{Cause, ClusterTime, JobId};

use super::world::*;
use crate::{Queue, next_wake, plan};

#[test]
fn first_come_first_served_on_the_least_loaded_host() {
    let mut world = World::new();
    world.host("w1", 2);
    world.host("w2", 4);
    for _ in 0..4 {
        world.submit(job(1));
    }
    assert_eq!(world.planned(), ["1@w1", "2@w2", "3@w2", "4@w1"]);
    assert_eq!(plan(world.view(), &[], world.now, 2).len(), 2);
    assert!(plan(world.view(), &[], world.now, 0).is_empty());
    world.run();
    assert!(world.planned().is_empty());
}

#[test]
fn queues_go_by_priority_then_name() {
    let mut world = World::new();
    world.host("w1", 3);
    world.submit(in_queue("low", 1));
    world.submit(in_queue("b", 1));
    world.submit(in_queue("a", 1));
    world.submit(in_queue("high", 1));
    let queue = |name: &str, priority| Queue {
        name: name.into(),
        priority,
    };
    world.queues = vec![queue("low", -5), queue("high", 10)];
    assert_eq!(world.planned(), ["4@w1", "3@w1", "2@w1"]);
}

#[test]
fn a_job_that_waits_for_batch_jobs_to_end_holds_back_its_queue_alone() {
    let mut world = World::new();
    world.host("w1", 2);
    let first = world.submit(job(1));
    world.run();
    world.submit(job(2));
    world.submit(job(1));
    world.submit(in_queue("other", 1));
    assert_eq!(world.planned(), ["4@w1"], "job 3 may not overtake job 2");
    world.end(first, 1);
    assert_eq!(world.planned(), ["2@w1"]);
}

#[test]
fn a_job_that_no_end_of_a_batch_job_helps_holds_back_nobody() {
    let mut world = World::new();
    world.host("w1", 4);
    let service_id = world.service(service(Spread::default()));
    world.prove(service_id);
    world.replicas(service_id, 2);
    world.run();
    let ahead = [
        job(64),       // larger than every host
        job(3),        // the service's replicas hold two of four cpus and will not end
        on_port(8080), // fits, and holds the port from here on
        on_port(8080), // the port is held
    ];
    for spec in ahead {
        world.submit(spec);
    }
    let mut labelled = job(1);
    labelled.template.constraints = vec![("zone".into(), "nowhere".into())];
    world.submit(labelled);
    let last = world.submit(job(1));
    assert_eq!(world.planned(), ["5@w1".to_owned(), format!("{last}@w1")]);
}

#[test]
fn held_and_delayed_jobs_are_passed_over() {
    let mut world = World::new();
    world.host("w1", 1);
    let first = world.submit(job(1));
    world.run();
    world.requeue(first, Cause::HostLaunchFailed, 5000, None);
    let mut held = job(1);
    held.held = true;
    world.submit(held);
    assert!(world.planned().is_empty());
    assert_eq!(next_wake(world.view(), world.now), Some(ClusterTime(5000)));
    world.now = ClusterTime(5000);
    assert_eq!(next_wake(world.view(), world.now), None);
    assert_eq!(world.planned(), ["1@w1"]);
    assert_eq!(world.plan()[0].run, 2);
}

#[test]
fn arrays_keep_their_slot_limit() {
    let mut world = World::new();
    world.host("w1", 8);
    let id = world.submit(array(10, Some(2)));
    let after = world.submit(job(1));
    assert_eq!(
        world.run(),
        [
            "1[1]@w1".to_owned(),
            "1[2]@w1".to_owned(),
            format!("{after}@w1")
        ]
    );
    assert!(world.planned().is_empty());
    world.end(JobId::element(id.number, 1), 1);
    assert_eq!(world.run(), ["1[3]@w1"]);
    // A requeued element takes its place again, within the limit.
    world.requeue(JobId::element(id.number, 2), Cause::TermRequeue, 0, None);
    assert_eq!(world.run(), ["1[2]@w1"]);
}

#[test]
fn an_array_without_limit_fills_the_hosts() {
    let mut world = World::new();
    world.host("w1", 3);
    world.submit(array(100_000, None));
    assert_eq!(world.run(), ["1[1]@w1", "1[2]@w1", "1[3]@w1"]);
    assert!(world.planned().is_empty());
}

#[test]
fn ports_are_fixed_or_the_lowest_free_of_the_range() {
    let mut world = World::new();
    world.host("w1", 8);
    let mut spec = job(1);
    spec.template.ports = [port(None), port(Some(20_000)), port(None)].concat();
    world.submit(spec);
    let ports = |world: &World| -> Vec<u16> {
        world
            .plan()
            .iter()
            .flat_map(|one| one.ports.iter().map(|(_, port)| *port))
            .collect()
    };
    assert_eq!(ports(&world), [20_001, 20_000, 20_002]);
    world.run();
    let mut one = job(1);
    one.template.ports = port(None);
    let waiting = world.submit(one);
    assert!(world.planned().is_empty(), "the range is used up");
    world.end(JobId::single(1), 1);
    assert_eq!(ports(&world), [20_000]);
    world.run();
    assert_eq!(world.view().job(waiting).unwrap().ports[0].1, 20_000);
}

#[test]
fn labels_closed_hosts_and_avoided_hosts_are_kept_to() {
    let mut world = World::new();
    world.host_in("w1", 4, "a");
    world.host_in("w2", 4, "b");
    let mut spec = job(1);
    spec.template.constraints = vec![("zone".into(), "b".into())];
    world.submit(spec);
    assert_eq!(world.run(), ["1@w2"]);
    // It could not be started on w2; no other host has the label, so w2 is tried again.
    world.requeue(JobId::single(1), Cause::HostLaunchFailed, 0, Some("w2"));
    assert_eq!(world.run(), ["1@w2"]);
    world.submit(job(1));
    assert_eq!(world.run(), ["2@w1"]);
    world.requeue(JobId::single(2), Cause::HostLaunchFailed, 0, Some("w1"));
    assert_eq!(world.run(), ["2@w2"]);
    world.close("w2", "launches fail");
    world.submit(job(1));
    world.submit(job(1));
    assert_eq!(world.run(), ["3@w1", "4@w1"]);
}

#[test]
fn replicas_spread_over_hosts_and_zones() {
    let mut world = World::new();
    world.host_in("w1", 8, "a");
    world.host_in("w2", 8, "a");
    world.host_in("w3", 8, "b");
    let zones = Spread {
        max_per_host: None,
        best_effort: true,
        label: Some("zone".into()),
    };
    let id = world.service(service(zones));
    world.prove(id);
    world.replicas(id, 4);
    assert_eq!(world.run(), ["1@w1", "2@w3", "3@w2", "4@w3"]);
}

#[test]
fn strict_spread_leaves_replicas_waiting_and_best_effort_does_not() {
    let mut world = World::new();
    world.host("w1", 8);
    world.host("w2", 8);
    let id = world.service(service(strict(1)));
    world.prove(id);
    world.replicas(id, 3);
    let batch = world.submit(job(1));
    assert_eq!(
        world.run(),
        ["1@w1".to_owned(), "2@w2".to_owned(), format!("{batch}@w1")]
    );

    let mut world = World::new();
    world.host("w1", 8);
    world.host("w2", 1);
    let best = Spread {
        best_effort: true,
        ..strict(1)
    };
    let id = world.service(service(best));
    world.prove(id);
    world.replicas(id, 3);
    assert_eq!(world.run(), ["1@w1", "2@w2", "3@w1"]);
}

#[test]
fn slow_start_lets_one_replica_go_first() {
    let mut world = World::new();
    world.host("w1", 8);
    let id = world.service(service(Spread::default()));
    world.replicas(id, 3);
    let batch = world.submit(job(1));
    assert_eq!(world.run(), ["1@w1".to_owned(), format!("{batch}@w1")]);
    assert!(world.planned().is_empty());
    world.prove(id);
    assert_eq!(world.run(), ["2@w1", "3@w1"]);
}
