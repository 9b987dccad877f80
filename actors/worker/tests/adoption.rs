//! A worker or a controller is killed; jobs go on, and every end is told once.

use xce_model::{Cause, Millis};
use xce_replica::wire::{Happened, Want};

use crate::world::{World, batch, replica, run};

fn is_end(what: &Happened) -> bool {
    matches!(what, Happened::Ended { .. })
}

fn is_start(what: &Happened) -> bool {
    matches!(what, Happened::Started { .. })
}

/// A job that ends with 5 when the file is there.
fn until_file(file: &std::path::Path) -> String {
    format!(
        "while [ ! -e {} ]; do sleep 0.02; done; exit 5",
        file.display()
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_worker_adopts_its_jobs_and_tells_the_ends_in_between() {
    let mut world = World::joined().await;
    let flag = world.dir.path().join("flag");
    let other = world.dir.path().join("other");
    for (number, file) in [(1, &flag), (2, &flag), (3, &other)] {
        world.controller().want(
            run(number),
            Want::Start(Box::new(batch(number, &until_file(file)))),
        );
        world
            .controller()
            .happened(run(number), "start", is_start)
            .await;
    }
    world.kill_worker().await;
    std::fs::write(&flag, "").unwrap();
    for number in [1, 2] {
        let exit = world.state().join(format!("runs/{number}-1/exit"));
        let waiting = async {
            while !exit.exists() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(crate::controller::PATIENCE, waiting)
            .await
            .unwrap();
    }
    world.start_worker().await;
    for number in [1, 2] {
        let exit = world.controller().ended(run(number)).await;
        assert_eq!((exit.code, exit.cause), (Some(5), Cause::Exited));
    }
    assert_eq!(world.worker().live_runs(), 1);
    std::fs::write(&other, "").unwrap();
    world.controller().ended(run(3)).await;
    // Killed again, with everything told: nothing is told twice.
    world.kill_worker().await;
    world.start_worker().await;
    world.controller().joined(3).await;
    world
        .controller()
        .want(run(4), Want::Start(Box::new(batch(4, "true"))));
    world.controller().ended(run(4)).await;
    for number in 1..=4 {
        assert_eq!(world.controller().count(run(number), is_end), 1, "{number}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ends_during_a_controllers_absence_are_told_once() {
    let mut world = World::joined().await;
    let flag = world.dir.path().join("flag");
    for number in 1..=3 {
        let spec = batch(number, &until_file(&flag));
        world
            .controller()
            .want(run(number), Want::Start(Box::new(spec)));
        world
            .controller()
            .happened(run(number), "start", is_start)
            .await;
    }
    let told = world.take_controller().await;
    std::fs::write(&flag, "").unwrap();
    let waiting = async {
        while world.worker().live_runs() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(crate::controller::PATIENCE, waiting)
        .await
        .unwrap();
    // The worker dies too, with all ends in its spool.
    world.kill_worker().await;
    world.start_worker().await;
    world.bring_controller(told).await;
    for number in 1..=3 {
        world.controller().ended(run(number)).await;
    }
    world.restart_controller().await;
    world.controller().joined(3).await;
    for number in 1..=3 {
        assert_eq!(world.controller().count(run(number), is_end), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_is_adopted_as_it_was_and_keeps_its_count() {
    let mut world = World::joined().await;
    let flag = world.dir.path().join("flag");
    let mut spec = replica(1, &until_file(&flag));
    spec.template.restart.delay = Millis(1);
    spec.template.restart.max_restarts = 2;
    world
        .controller()
        .want(run(1), Want::Start(Box::new(spec.clone())));
    world
        .controller()
        .happened(run(1), "ready", |what| *what == Happened::Ready)
        .await;
    world.kill_worker().await;
    world.start_worker().await;
    world.controller().want(run(1), Want::Keep(Box::new(spec)));
    world.controller().joined(2).await;
    assert_eq!(world.controller().count(run(1), is_start), 1);
    assert_eq!(
        world
            .controller()
            .count(run(1), |what| *what == Happened::Ready),
        1
    );
    std::fs::write(&flag, "").unwrap();
    let exit = world.controller().ended(run(1)).await;
    assert_eq!((exit.code, exit.cause), (Some(5), Cause::GaveUp));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_starts_in_place_before_the_controller_has_spoken() {
    let mut world = World::joined().await;
    let flag = world.dir.path().join("flag");
    let spec = replica(1, &until_file(&flag));
    world
        .controller()
        .want(run(1), Want::Start(Box::new(spec.clone())));
    world.controller().happened(run(1), "start", is_start).await;
    let told = world.take_controller().await;
    world.kill_worker().await;
    std::fs::write(&flag, "").unwrap();
    world.start_worker().await;
    // It finds the first start ended; the second one must wait.
    let memory = world.state().join("runs/1-1/memory");
    let waiting = async {
        while !std::fs::read_to_string(&memory).is_ok_and(|text| text.contains("\"start\":2")) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(crate::controller::PATIENCE, waiting)
        .await
        .unwrap();
    assert!(!world.state().join("runs/1-1/start-2").exists());
    // The controller has replaced it meanwhile: it must never start.
    told.lock().unwrap().forget(run(1));
    world.bring_controller(told).await;
    let exit = world.controller().ended(run(1)).await;
    assert_eq!(exit.cause, Cause::TermStale);
    assert!(!world.state().join("ended/1-1/start-2").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_shim_is_noticed_and_its_tree_is_gone() {
    let mut world = World::joined().await;
    world.controller().want(
        run(1),
        Want::Start(Box::new(batch(1, "sleep 1000 & sleep 1000"))),
    );
    world.controller().happened(run(1), "start", is_start).await;
    let record = xce_shim::RunRecord::load(&world.state().join("runs/1-1")).unwrap();
    let shim = rustix::process::Pid::from_raw(record.shim.pid).unwrap();
    rustix::process::kill_process(shim, rustix::process::Signal::KILL).unwrap();
    assert_eq!(
        world.controller().ended(run(1)).await.cause,
        Cause::ShimLost
    );
    let left = xce_shim::machine::processes()
        .into_iter()
        .filter(|stat| stat.session == record.job.pid && stat.is_alive())
        .count();
    assert_eq!(left, 0);
    // The same while nobody watches.
    world
        .controller()
        .want(run(2), Want::Start(Box::new(batch(2, "sleep 1000"))));
    world.controller().happened(run(2), "start", is_start).await;
    let record = xce_shim::RunRecord::load(&world.state().join("runs/2-1")).unwrap();
    world.kill_worker().await;
    let shim = rustix::process::Pid::from_raw(record.shim.pid).unwrap();
    rustix::process::kill_process(shim, rustix::process::Signal::KILL).unwrap();
    world.start_worker().await;
    assert_eq!(
        world.controller().ended(run(2)).await.cause,
        Cause::ShimLost
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_actor_finds_its_run_again() {
    let world = World::joined().await;
    let flag = world.dir.path().join("flag");
    let controller = world.controller();
    controller.want(run(1), Want::Start(Box::new(batch(1, &until_file(&flag)))));
    controller.happened(run(1), "start", is_start).await;
    for actor in ["run/1-1", "agent", "keeper", "run/1-1"] {
        world.worker().node().kill(actor).unwrap();
        let waiting = async {
            use xce_runtime::Answer;
            loop {
                let seen = world
                    .worker()
                    .node()
                    .inspect(actor, crate::controller::PATIENCE)
                    .await
                    .unwrap();
                if seen.row.restarts > 0 && matches!(seen.answer, Answer::Alive(_)) {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(crate::controller::PATIENCE, waiting)
            .await
            .unwrap();
    }
    std::fs::write(&flag, "").unwrap();
    let exit = controller.ended(run(1)).await;
    assert_eq!((exit.code, exit.cause), (Some(5), Cause::Exited));
    assert_eq!(controller.count(run(1), is_end), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_boot_every_run_is_told_and_nothing_starts() {
    let mut world = World::joined().await;
    let controller = world.controller();
    controller.want(run(1), Want::Start(Box::new(batch(1, "sleep 1000"))));
    controller.want(run(2), Want::Start(Box::new(replica(2, "sleep 1000"))));
    for number in [1, 2] {
        controller.happened(run(number), "start", is_start).await;
    }
    world.kill_worker().await;
    // As a boot leaves it: no process, and another boot id.
    for number in [1, 2] {
        let dir = world.state().join(format!("runs/{number}-1"));
        let mut record = xce_shim::RunRecord::load(&dir).unwrap();
        world.end_run(&dir);
        record.boot_id = "before".to_owned();
        record.store(&dir).unwrap();
    }
    std::fs::write(world.state().join("boot"), "before").unwrap();
    world.start_worker().await;
    for number in [1, 2] {
        let exit = world.controller().ended(run(number)).await;
        assert_eq!(exit.cause, Cause::HostRebooted);
    }
    assert_eq!(world.controller().count(run(2), is_start), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_state_directory_never_keeps_a_worker_from_starting() {
    let mut world = World::joined().await;
    for number in 1..=3 {
        let spec = replica(number, "sleep 1000");
        world
            .controller()
            .want(run(number), Want::Start(Box::new(spec)));
        world
            .controller()
            .happened(run(number), "ready", |what| *what == Happened::Ready)
            .await;
    }
    world.kill_worker().await;
    let state = world.state();
    std::fs::write(state.join("spool"), "").unwrap();
    std::fs::write(state.join("runs/1-1/memory"), "").unwrap();
    std::fs::write(state.join("runs/2-1/order"), "").unwrap();
    std::fs::create_dir(state.join("runs/9-1")).unwrap();
    std::fs::create_dir(state.join("runs/not a run")).unwrap();
    let shim = xce_shim::RunRecord::load(&state.join("runs/2-1"))
        .unwrap()
        .shim
        .pid;
    world.start_worker().await;
    // What cannot be taken over is ended and told; the others live on.
    let lost = world.controller().ended(run(2)).await;
    assert_eq!(lost.cause, Cause::RunLost);
    // One that never began is forgotten: it is ordered again.
    assert!(!std::fs::exists(state.join("runs/9-1")).unwrap());
    assert!(xce_shim::machine::process_stat(shim).is_none_or(|stat| !stat.is_alive()));
    for number in [1, 3] {
        world.controller().want(
            run(number),
            Want::Stop {
                cause: Cause::TermOwner,
                drained: false,
            },
        );
        assert_eq!(
            world.controller().ended(run(number)).await.cause,
            Cause::TermOwner
        );
    }
}
