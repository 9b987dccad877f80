//! Replicas leave hosts that are drained: another one first, then the old one.

use xce_host::HostLife;
use xce_model::*;

use super::world::*;
use crate::rules::{Census, Standing};
use crate::*;

/// Live replicas on a host.
fn on(world: &World, host: &str) -> usize {
    let live = world.live();
    let there = live
        .iter()
        .filter(|(job, _)| job.state.holds_host() && job.host.as_deref() == Some(host));
    there.count()
}

fn indices(world: &World) -> Vec<u32> {
    let live = world.live();
    let mut indices: Vec<u32> = live
        .iter()
        .map(|(job, _)| job.service.expect("a replica").index)
        .collect();
    indices.sort_unstable();
    indices
}

/// Runs on, and the fewest available and most live replicas meanwhile.
fn run_and_watch(world: &mut World, millis: u64) -> (u32, usize) {
    let (mut least, mut most) = (world.available(), world.live().len());
    for _ in 0..millis / 10 {
        world.run_for(10);
        least = least.min(world.available());
        most = most.max(world.live().len());
    }
    (least, most)
}

fn drain(world: &mut World, host: &str, deadline: Option<u64>) {
    world.drain(host, Some(deadline));
}

#[test]
fn surge_comes_first_whatever_the_settings() {
    // replicas, surge, unavailable, most live
    for (replicas, surge, unavailable, most) in [
        (1, 1, 0, 2),
        (1, 0, 1, 2),
        (4, 1, 0, 5),
        (4, 0, 1, 5),
        (4, 3, 2, 5),
        (12, 3, 0, 15),
        (12, 0, 3, 13),
    ] {
        let mut world = World::new(&spec(replicas, surge, unavailable));
        world.behave("v1", Behaviour::Ready(300));
        world.run_for(10_000);
        let before = on(&world, "h1");
        assert!(before > 0, "{replicas}");
        drain(&mut world, "h1", None);
        let (least, live) = run_and_watch(&mut world, 20_000);
        let what = format!("{replicas} {surge} {unavailable}\n{}", world.story());
        assert_eq!((least, on(&world, "h1")), (replicas, 0), "{what}");
        assert!(live <= most, "live {live}: {what}");
        assert_eq!(world.live().len(), replicas as usize, "{what}");
        assert_eq!(indices(&world), (0..replicas).collect::<Vec<_>>(), "{what}");
        assert_eq!(world.condition(), Condition::Steady, "{what}");
    }
}

#[test]
fn what_never_worked_goes_at_once_and_a_stuck_rollout_keeps_its_counts() {
    let mut spec = spec(6, 3, 1);
    spec.settings.rollout.progress_deadline = Millis::seconds(20);
    let mut world = World::complete(&spec);
    world.behave("bad", Behaviour::NeverReady);
    world.update("bad");
    world.run_for(30_000);
    assert_eq!(world.condition(), Condition::Stuck);
    let (available, mix) = (world.available(), world.mix());
    let bad = world.of_version(2);
    let host = world.job(bad[0]).host.clone().expect("placed");
    let bad_there = |world: &World| {
        let ids = world.of_version(2);
        ids.iter()
            .filter(|id| world.job(**id).host.as_deref() == Some(&*host))
            .count()
    };
    assert!(bad_there(&world) > 0);
    drain(&mut world, &host, None);
    world.run_for(100);
    assert_eq!(bad_there(&world), 0, "{}", world.story());
    world.run_for(5_000);
    assert_eq!(world.condition(), Condition::Stuck);
    assert_eq!(
        (world.available(), world.mix()),
        (available, mix),
        "{}",
        world.story()
    );
}

#[test]
fn a_rollout_replaces_what_is_drained_first() {
    let mut world = World::complete(&spec(4, 1, 0));
    world.behave("v2", Behaviour::Ready(500));
    drain(&mut world, "h2", None);
    world.update("v2");
    let (least, live) = run_and_watch(&mut world, 20_000);
    assert_eq!(world.condition(), Condition::Steady, "{}", world.explain());
    assert_eq!((least, on(&world, "h2"), world.mix()[&2]), (4, 0, 4));
    assert!(live <= 5);
}

#[test]
fn where_there_is_no_place_it_says_so_and_the_deadline_stops_within_what_may_be_missing() {
    // unavailable, whether the host is empty after the deadline
    for (unavailable, empty) in [(0, false), (1, true)] {
        let mut world = World::complete(&spec(4, 1, unavailable));
        world.slots = 1;
        drain(&mut world, "h3", Some(10_000));
        let (least, live) = run_and_watch(&mut world, 9_000);
        assert_eq!((least, on(&world, "h3")), (4, 1), "{}", world.story());
        assert_eq!(live, 5, "a replacement waits for a host");
        let line = world.explain();
        let expected = "job 3 leaves h3, which is drained, when its replacement is available; \
                        waiting for job 5, pending";
        assert!(line.contains(expected), "{line}");
        world.run_for(5_000);
        assert_eq!(on(&world, "h3") == 0, empty, "{}", world.story());
        let line = world.explain();
        if empty {
            assert_eq!(world.available(), 3);
            assert!(line.contains("available 3 < desired 4"), "{line}");
        } else {
            assert_eq!(world.available(), 4);
            let expected = "cannot stop job 3 on h3, which is drained and past its deadline: \
                            available 4 - 1 < minimum 4; waiting for job 5, pending";
            assert!(line.contains(expected), "{line}");
        }
        // Room elsewhere ends it either way.
        world.slots = 10;
        world.run_for(5_000);
        assert_eq!(
            (on(&world, "h3"), world.available()),
            (0, 4),
            "{}",
            world.story()
        );
        assert_eq!(world.condition(), Condition::Steady);
    }
}

#[test]
fn the_deadline_of_all_hosts_at_once_leaves_the_fewest_that_must_be_available() {
    let mut world = World::complete(&spec(8, 2, 3));
    for host in ["h1", "h2", "h3", "h4"] {
        drain(&mut world, host, Some(5_000));
    }
    assert_eq!(run_and_watch(&mut world, 4_900).0, 8);
    let (least, _) = run_and_watch(&mut world, 20_000);
    assert_eq!((least, world.available()), (5, 5), "{}", world.story());
    for host in ["h1", "h2"] {
        world.drain(host, None);
    }
    world.run_for(20_000);
    assert_eq!(
        (world.available(), world.live().len()),
        (8, 8),
        "{}",
        world.story()
    );
    assert_eq!(on(&world, "h3") + on(&world, "h4"), 0);
}

#[test]
fn a_drain_that_is_called_off_leaves_all_as_it_was() {
    // Behaviour of the replacement when it is called off, and whether it had a host.
    for ready in [u64::MAX, 400] {
        let mut world = World::complete(&spec(4, 1, 0));
        world.behave("v1", Behaviour::Ready(ready.min(60_000)));
        if ready == u64::MAX {
            world.slots = 1;
        }
        drain(&mut world, "h1", None);
        world.run_for(100);
        assert_eq!(world.live().len(), 5, "{}", world.story());
        assert!(world.job(1).moving);
        world.drain("h1", None);
        let (least, _) = run_and_watch(&mut world, 2_000);
        assert_eq!((least, world.live().len()), (4, 4), "{}", world.story());
        assert!(!world.job(1).moving && on(&world, "h1") == 1);
        assert_eq!(indices(&world), [0, 1, 2, 3]);
        let idle = world.records_of_submission();
        world.run_for(60_000);
        assert_eq!(world.records_of_submission(), idle, "it rests");
    }
}

#[test]
fn scaling_down_takes_what_is_drained_and_its_replacement() {
    let mut world = World::complete(&spec(4, 1, 0));
    world.slots = 1;
    drain(&mut world, "h4", None);
    world.run_for(1_000);
    assert_eq!(world.live().len(), 5);
    world.scale(3);
    let (least, _) = run_and_watch(&mut world, 2_000);
    assert_eq!(
        (least, world.live().len(), on(&world, "h4")),
        (3, 3, 0),
        "{}",
        world.story()
    );
    // And up again, with a move under way.
    world.slots = 10;
    world.behave("v1", Behaviour::Ready(1_000));
    drain(&mut world, "h1", None);
    world.run_for(500);
    world.scale(5);
    world.run_for(10_000);
    assert_eq!(
        (world.available(), world.live().len(), on(&world, "h1")),
        (5, 5, 0)
    );
}

#[test]
fn a_pause_moves_old_versions_too_and_a_lost_host_ends_its_move() {
    let mut world = World::complete(&spec(4, 1, 1));
    world.behave("v2", Behaviour::NeverReady);
    world.update("v2");
    world.command(Command::Pause).expect("accepted");
    world.run_for(1_000);
    let mix = world.mix();
    let old = world.of_version(1)[0];
    let host = world.job(old).host.clone().expect("placed").to_string();
    drain(&mut world, &host, None);
    world.run_for(5_000);
    assert_eq!(on(&world, &host), 0, "{}", world.story());
    assert_eq!(world.mix(), mix, "the mix is as it was");

    for ends in [true, false] {
        let mut world = World::complete(&spec(4, 1, 0));
        world.ends_lost = ends;
        world.behave("v1", Behaviour::Ready(500));
        drain(&mut world, "h2", None);
        world.run_for(100);
        world.checks = false;
        world.host("h2", HostLife::Suspect);
        world.run_for(100);
        world.host("h2", HostLife::Lost);
        world.run_for(5_000);
        assert_eq!(
            (world.available(), world.live().len()),
            (4, 4),
            "{}",
            world.story()
        );
        world.host("h2", HostLife::Up);
        world.run_for(5_000);
        assert_eq!(
            (world.live().len(), on(&world, "h2")),
            (4, 0),
            "{}",
            world.story()
        );
    }
}

#[test]
fn while_replicas_start_everywhere_those_on_a_drained_host_are_not_missed() {
    let mut world = World::new(&spec(4, 1, 0));
    world.behave("v1", Behaviour::Ready(5_000));
    world.run_for(4_000);
    assert_eq!(world.available(), 0);
    let there = on(&world, "h1");
    drain(&mut world, "h1", None);
    world.run_for(30_000);
    assert!(there > 0);
    assert_eq!(
        (world.available(), on(&world, "h1")),
        (4, 0),
        "{}",
        world.story()
    );
    assert_eq!(world.condition(), Condition::Steady);
}

#[test]
fn a_replica_that_is_broken_elsewhere_does_not_hold_a_drain() {
    let mut world = World::complete(&spec(8, 1, 0));
    let elsewhere = world.of_version(1);
    let broken = elsewhere
        .into_iter()
        .find(|id| world.job(*id).host.as_deref() != Some("h1"));
    world.flap(broken.expect("it is there"));
    world.run_for(100);
    drain(&mut world, "h1", None);
    let (least, live) = run_and_watch(&mut world, 5_000);
    assert_eq!((least, on(&world, "h1")), (7, 0), "{}", world.story());
    assert_eq!((live, world.available()), (9, 7));
}

#[test]
fn decisions_about_many_drained_replicas_cost_little() {
    let mut world = World::complete(&spec(400, 100, 0));
    for host in ["h1", "h2", "h3", "h4"] {
        drain(&mut world, host, None);
    }
    world.run_for(1_000);
    let pending = world
        .live()
        .iter()
        .filter(|(_, standing)| *standing == Standing::Pending)
        .count();
    assert_eq!((pending, world.available()), (100, 400));
    let total = world.with_situation(|situation| Census::take(&world.record, situation).total());
    assert_eq!((total.leaving(), total.staying()), (100, 400));
}
