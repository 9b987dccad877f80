//! Creation, scaling, kills, deletion.

use xce_host::HostLife;
use xce_model::*;

use crate::rules::Standing;
use crate::tests::world::*;
use crate::*;

#[test]
fn creation_submits_all_in_one_record_and_starts_slowly() {
    let mut world = World::new(&spec(10, 3, 2));
    world.behave("v1", Behaviour::NeverReady);
    world.settle();
    assert_eq!(world.jobs.len(), 10);
    assert_eq!(world.records_of_submission(), 1);
    let started = |world: &World| world.jobs.iter().filter(|job| job.run > 0).count();
    assert_eq!(started(&world), 1);
    world.run_for(999);
    assert_eq!(started(&world), 1);
    world.run_for(1);
    assert_eq!(started(&world), 2);
    world.run_for(1_000);
    assert_eq!(started(&world), 4);
    world.run_for(2_000);
    assert_eq!(started(&world), 10);
}

#[test]
fn the_first_ready_replica_lifts_the_limit() {
    let mut world = World::new(&spec(10, 3, 2));
    world.run_for(0);
    assert_eq!(world.available(), 10);
    assert_eq!(world.condition(), Condition::Steady);
    let indices: Vec<u32> = world.view().replicas.iter().map(|one| one.index).collect();
    assert_eq!(indices, (0..10).collect::<Vec<u32>>());
}

#[test]
fn unplaceable_replicas_do_not_hold_slow_start() {
    let mut world = World::new(&spec(10, 3, 2));
    world.behave("v1", Behaviour::NeverReady);
    world.slots = 1;
    world.hosts.remove("h4");
    world.run_for(20_000);
    assert_eq!(world.jobs.iter().filter(|job| job.run > 0).count(), 3);
    world.slots = 10;
    world.run_for(1_000);
    assert_eq!(world.jobs.iter().filter(|job| job.run > 0).count(), 10);
}

#[test]
fn scaling_up_takes_the_lowest_free_indices() {
    let mut world = World::complete(&spec(3, 1, 0));
    world.scale(5);
    world.run_for(100);
    let indices: Vec<u32> = world.view().replicas.iter().map(|one| one.index).collect();
    assert_eq!(indices, [0, 1, 2, 3, 4]);
    let remove = vec![JobId::single(2)];
    let command = Command::Scale { desired: 4, remove };
    assert!(world.command(command).is_ok());
    world.run_for(100);
    world.scale(5);
    world.run_for(100);
    let view = world.view();
    assert_eq!(
        (view.live, view.available, view.condition),
        (5, 5, Condition::Steady)
    );
    assert_eq!(view.replicas[1].job, JobId::single(6));
}

#[test]
fn scaling_down_removes_the_newest_and_evens_hosts_out() {
    let mut world = World::complete(&spec(8, 1, 0));
    world.scale(4);
    world.run_for(100);
    let view = world.view();
    let indices: Vec<u32> = view.replicas.iter().map(|one| one.index).collect();
    assert_eq!(indices, [0, 1, 2, 3]);
    let mut hosts: Vec<_> = view.replicas.iter().map(|one| one.host.clone()).collect();
    hosts.sort();
    hosts.dedup();
    assert_eq!(hosts.len(), 4);
}

/// V7: which of two goes first. Each row makes replica 1 worse than replica 2.
#[test]
fn v7_victims() {
    type Setup = fn(&mut World);
    let rows: [(&str, Setup); 3] = [
        ("V7.3 and V7.4: unreachable before not ready", |world| {
            let host = world.job(1).host.clone().expect("placed").to_string();
            world.flap(2);
            world.host(&host, HostLife::Suspect);
        }),
        ("V7.5: not ready before ready", |world| world.flap(1)),
        ("V7.8: ready now before ready long ago", |world| {
            world.flap(1);
            world.flap(1);
        }),
    ];
    for (id, setup) in rows {
        let mut world = World::complete(&spec(2, 1, 0));
        world.run_for(120_000);
        setup(&mut world);
        world.checks = false;
        world.scale(1);
        assert_eq!(world.of_version(1), [2], "{id}");
    }
}

#[test]
fn v7_pending_goes_before_starting_and_starting_before_running() {
    let mut world = World::complete(&spec(2, 1, 0));
    world.slots = 0;
    world.scale(4);
    world.scale(3);
    let left: Vec<_> = world.live().iter().map(|(job, _)| job.id.number).collect();
    assert_eq!(left, [1, 2, 3], "V7.1: the newest of two pending ones");
    world.slots = 10;
    world.place();
    world.scale(2);
    let going = world
        .live()
        .into_iter()
        .find(|(_, standing)| *standing == Standing::Stopping);
    assert_eq!(going.map(|(job, _)| job.id.number), Some(3), "V7.2");
}

#[test]
fn v7_two_on_a_host_go_before_one() {
    let mut world = World::complete(&spec(4, 1, 0));
    world.host("h4", HostLife::Lost);
    world.run_for(200_000);
    assert_eq!(world.available(), 4);
    let twice = world.view().replicas;
    let doubled = twice
        .iter()
        .find(|one| twice.iter().filter(|other| other.host == one.host).count() == 2)
        .and_then(|one| one.host.clone())
        .expect("four replicas on three hosts");
    world.scale(3);
    world.run_for(100);
    let hosts: Vec<_> = world
        .view()
        .replicas
        .iter()
        .map(|one| one.host.clone())
        .collect();
    assert_eq!(
        hosts
            .iter()
            .filter(|host| **host == Some(doubled.clone()))
            .count(),
        1
    );
}

#[test]
fn p68_named_victims_go_and_are_not_replaced() {
    let mut world = World::complete(&spec(5, 1, 0));
    let remove = vec![JobId::single(3)];
    let command = Command::Scale { desired: 4, remove };
    assert!(world.command(command).is_ok());
    world.run_for(5_000);
    assert_eq!(world.of_version(1), [1, 2, 4, 5]);
    assert_eq!(world.jobs.len(), 5);
    let remove = vec![JobId::single(1), JobId::single(2)];
    let refused = world.command(Command::Scale { desired: 3, remove });
    assert_eq!(
        refused.map_err(|refusal| refusal.code),
        Err("too_many_named".to_owned())
    );
    let remove = vec![JobId::single(3)];
    let refused = world.command(Command::Scale { desired: 3, remove });
    assert_eq!(
        refused.map_err(|refusal| refusal.code),
        Err("not_found".to_owned())
    );
}

#[test]
fn a_killed_replica_is_replaced_at_once_and_counts_toward_a_scale_down() {
    let mut world = World::complete(&spec(3, 1, 0));
    let kill = |index| Command::Kill {
        which: Which::Index(index),
        cause: Cause::TermOwner,
    };
    assert!(world.command(kill(1)).is_ok());
    assert_eq!(world.jobs.len(), 3, "not before its end is confirmed");
    world.run_for(10);
    assert_eq!(world.of_version(1), [1, 3, 4]);
    assert_eq!(world.record.current().backoff.failures, 0);
    world.command_once(kill(0));
    world.scale(2);
    world.run_for(100);
    assert_eq!(world.of_version(1), [3, 4]);
    assert!(world.command(kill(7)).is_err());
}

#[test]
fn scaling_to_zero_and_back() {
    let mut world = World::complete(&spec(3, 1, 0));
    world.scale(0);
    world.run_for(100);
    assert!(world.live().is_empty());
    assert_eq!(world.condition(), Condition::Steady);
    world.scale(2);
    world.run_for(100);
    assert_eq!(world.available(), 2);
    let remove = Vec::new();
    let many = Command::Scale {
        desired: 1_000_000,
        remove,
    };
    assert!(world.command(many).is_err());
}

#[test]
fn p59_deletion_waits_for_every_host_that_is_not_lost() {
    let mut world = World::complete(&spec(4, 1, 0));
    world.host("h2", HostLife::Suspect);
    world.settle();
    assert!(world.command(Command::Delete).is_ok());
    world.run_for(5_000);
    assert!(!world.deleted);
    assert_eq!(world.view().reason, "deleting (1 on h2)");
    assert!(world.command(Command::Restart).is_err());
    let again = world.command(Command::Delete);
    assert!(again.expect("not refused").contains("NoChange"));
    world.host("h2", HostLife::Up);
    world.run_for(1_000);
    assert!(world.deleted);
    assert!(world.jobs.iter().all(|job| job.state.is_terminal()));
}

#[test]
fn a_lost_host_does_not_hold_the_name() {
    let mut world = World::complete(&spec(4, 1, 0));
    world.ends_lost = false;
    assert!(world.command(Command::Delete).is_ok());
    world.host("h2", HostLife::Lost);
    world.run_for(1_000);
    assert!(world.deleted);
    let tombstone = world
        .jobs
        .iter()
        .find(|job| job.host.as_deref() == Some("h2"));
    assert!(tombstone.is_some_and(|job| job.state == JobState::Exit));
}

#[test]
fn p58_a_lost_replica_is_replaced_and_ends_with_its_replacement() {
    let mut world = World::complete(&spec(4, 1, 0));
    world.ends_lost = false;
    world.slots = 0;
    world.host("h2", HostLife::Lost);
    world.run_for(1_000);
    assert_eq!(world.jobs.len(), 5, "submitted, and no host has room");
    assert!(!world.job(2).state.is_terminal());
    world.slots = 10;
    world.run_for(1_000);
    assert!(world.job(2).state.is_terminal());
    assert_eq!(world.available(), 4);
}

#[test]
fn v13_a_host_that_returns_before_the_replacement_keeps_its_replica() {
    let mut world = World::complete(&spec(4, 1, 0));
    world.ends_lost = false;
    world.slots = 0;
    world.host("h2", HostLife::Lost);
    world.run_for(1_000);
    world.host("h2", HostLife::Up);
    world.run_for(1_000);
    assert_eq!(world.of_version(1), [1, 2, 3, 4]);
    assert!(world.job(5).state.is_terminal());
    assert_eq!(world.condition(), Condition::Steady);
}
