//! Restarts of replicas whose liveness probe failed.

use std::path::PathBuf;

use xce_model::spec::{Probe, ProbeAction};
use xce_model::{Cause, Millis, Start};
use xce_replica::wire::{Happened, RunSpec, Want};

use crate::controller::Told;
use crate::world::{World, replica, run};

/// A replica that is alive as long as nobody says otherwise.
fn with_liveness(number: u64) -> RunSpec {
    let mut spec = replica(number, "trap 'exit 0' TERM; while :; do sleep 0.05; done");
    spec.template.probes.liveness = Some(Box::new(Probe {
        action: ProbeAction::Exec {
            command: ["/bin/sh", "-c", "! test -e sick"]
                .map(str::to_owned)
                .into(),
        },
        initial_delay: Millis(0),
        period: Millis(20),
        timeout: Millis(30_000),
        success_threshold: 1,
        failure_threshold: 2,
    }));
    spec
}

fn flag(world: &World, number: u64) -> PathBuf {
    world.state().join(format!("runs/{number}-1/work/sick"))
}

fn is_ready(what: &Happened) -> bool {
    *what == Happened::Ready
}

fn is_wish(number: u32) -> impl Fn(&Happened) -> bool {
    move |what| matches!(what, Happened::RestartWanted { wish, .. } if *wish == number)
}

fn is_restart(what: &Happened) -> bool {
    matches!(what, Happened::Restarting { exit, .. } if exit.cause == Cause::TermLiveness)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sick_replica_waits_for_its_turn_also_over_a_restart_of_the_worker() {
    let mut world = World::joined().await;
    world
        .controller()
        .want(run(1), Want::Start(Box::new(with_liveness(1))));
    world.controller().happened(run(1), "ready", is_ready).await;
    std::fs::write(flag(&world, 1), "").unwrap();
    world
        .controller()
        .happened(run(1), "a wish", is_wish(1))
        .await;
    world.kill_worker().await;
    world.start_worker().await;
    let controller = world.controller();
    controller.joined(2).await;
    let wishes = |told: &Told| {
        let wishes = told.reports.iter().filter(|one| is_wish(1)(&one.what));
        (wishes.count() >= 2).then_some(())
    };
    controller.until("the same wish again", wishes).await;
    assert_eq!(controller.count(run(1), is_restart), 0);
    // It lives again, so the turn that comes too late is none.
    std::fs::remove_file(flag(&world, 1)).unwrap();
    let is_alive = |what: &Happened| *what == Happened::RestartUnwanted;
    controller.happened(run(1), "alive again", is_alive).await;
    controller.order(run(1), Want::RestartGranted { start: 1, wish: 1 });
    std::fs::write(flag(&world, 1), "").unwrap();
    controller
        .happened(run(1), "another wish", is_wish(2))
        .await;
    assert_eq!(controller.count(run(1), is_restart), 0);
    std::fs::remove_file(flag(&world, 1)).unwrap();
    std::fs::write(flag(&world, 1), "").unwrap();
    controller.order(run(1), Want::RestartGranted { start: 1, wish: 2 });
    controller.happened(run(1), "a restart", is_restart).await;
    let second = |what: &Happened| matches!(what, Happened::Started { .. });
    controller
        .until("the second start", |told| {
            let mut reports = told.reports.iter();
            reports
                .any(|one| one.start == 2 && second(&one.what))
                .then_some(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_cut_off_restarts_one_after_the_other() {
    let mut world = World::joined().await;
    let mut told = Vec::new();
    for number in [1, 2, 3] {
        let spec = with_liveness(number);
        let controller = world.controller();
        controller.want(run(number), Want::Start(Box::new(spec)));
        controller.happened(run(number), "ready", is_ready).await;
    }
    let kept = world.take_controller().await;
    for number in [1, 2, 3] {
        std::fs::write(flag(&world, number), "").unwrap();
    }
    // Each gets well by its restart: a new start finds no flag.
    let restarted = async {
        for _ in 0..3 {
            told.push(next_restart(&world, &told).await);
        }
    };
    tokio::time::timeout(crate::controller::PATIENCE, restarted)
        .await
        .unwrap();
    assert_eq!(told.len(), 3);
    world.bring_controller(kept).await;
    let controller = world.controller();
    for number in [1, 2, 3] {
        controller.happened(run(number), "told", is_restart).await;
    }
}

/// Waits until another run has made its second start, and makes it well.
async fn next_restart(world: &World, before: &[u64]) -> u64 {
    let second: Start = 2;
    loop {
        let begun = |number: &u64| {
            let run = world.state().join(format!("runs/{number}-1"));
            run.join(format!("start-{second}/run")).exists()
        };
        let fresh: Vec<u64> = (1..=3)
            .filter(|number| !before.contains(number) && begun(number))
            .collect();
        assert!(fresh.len() <= 1, "one at a time: {fresh:?}");
        if let [number] = fresh[..] {
            std::fs::remove_file(flag(world, number)).unwrap();
            return number;
        }
        tokio::task::yield_now().await;
    }
}
