//! Clean stops, terms, stale runs, and runs that nobody knows.

use xce_model::Cause;
use xce_replica::wire::{Happened, Want};
use xce_worker::StartError;

use crate::world::{World, batch, run};

fn is_start(what: &Happened) -> bool {
    matches!(what, Happened::Started { .. })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_that_keeps_jobs_keeps_them() {
    let mut world = World::joined().await;
    world
        .controller()
        .want(run(1), Want::Start(Box::new(batch(1, "sleep 1000"))));
    let report = world.controller().happened(run(1), "start", is_start).await;
    let Happened::Started { pid } = report.what else {
        unreachable!()
    };
    world.stop_worker(true).await;
    world
        .controller()
        .until("goodbye", |told| told.leaving)
        .await;
    assert_eq!(world.controller().told().leaving, Some(true));
    let job = xce_shim::machine::process_stat(i32::try_from(pid).unwrap());
    assert!(job.is_some_and(|stat| stat.is_alive()));
    world.start_worker().await;
    world.controller().joined(2).await;
    world.controller().want(
        run(1),
        Want::Stop {
            cause: Cause::TermOwner,
            drained: false,
        },
    );
    assert_eq!(
        world.controller().ended(run(1)).await.cause,
        Cause::TermOwner
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_with_its_jobs_ends_them_and_says_so() {
    let mut world = World::joined().await;
    for number in 1..=3 {
        world.controller().want(
            run(number),
            Want::Start(Box::new(batch(number, "sleep 1000"))),
        );
        world
            .controller()
            .happened(run(number), "start", is_start)
            .await;
    }
    world.stop_worker(false).await;
    for number in 1..=3 {
        let exit = world.controller().ended(run(number)).await;
        assert_eq!((exit.signal, exit.cause), (Some(15), Cause::TermShutdown));
    }
    assert_eq!(world.controller().told().leaving, Some(false));
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_of_a_former_primary_are_refused() {
    let world = World::joined().await;
    let controller = world.controller();
    controller.order_with_term(9, run(1), Want::Start(Box::new(batch(1, "sleep 1000"))));
    controller.happened(run(1), "start", is_start).await;
    controller.order_with_term(
        8,
        run(1),
        Want::Stop {
            cause: Cause::TermOwner,
            drained: false,
        },
    );
    controller.order_with_term(9, run(2), Want::Start(Box::new(batch(2, "true"))));
    controller.ended(run(2)).await;
    assert_eq!(
        controller.count(run(1), |w| matches!(w, Happened::Ended { .. })),
        0
    );
    controller.order_with_term(
        9,
        run(1),
        Want::Stop {
            cause: Cause::TermOwner,
            drained: false,
        },
    );
    controller.ended(run(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_that_nobody_knows_are_told_as_lost_and_unnamed_ones_stopped() {
    let world = World::joined().await;
    let controller = world.controller();
    controller.order(run(1), Want::Keep(Box::new(batch(1, "true"))));
    assert_eq!(controller.ended(run(1)).await.cause, Cause::RunLost);
    controller.order(
        run(2),
        Want::Stop {
            cause: Cause::TermOwner,
            drained: false,
        },
    );
    assert_eq!(controller.ended(run(2)).await.cause, Cause::RunLost);
    controller.order(run(3), Want::Start(Box::new(batch(3, "sleep 1000"))));
    controller.happened(run(3), "start", is_start).await;
    // The same order again changes nothing.
    controller.order(run(3), Want::Start(Box::new(batch(3, "sleep 1000"))));
    controller.resync();
    assert_eq!(controller.ended(run(3)).await.cause, Cause::TermStale);
    assert_eq!(controller.count(run(3), is_start), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn beats_come_and_the_session_is_resumed_after_a_controllers_restart() {
    let mut world = World::joined().await;
    world
        .controller()
        .until("beats", |told| (told.beats >= 3).then_some(()))
        .await;
    world.restart_controller().await;
    world.controller().joined(2).await;
    let told = world.controller().told();
    assert!(matches!(told.hellos[0].opening, xce_link::Opening::New));
    assert!(matches!(
        told.hellos[1].opening,
        xce_link::Opening::Resume { .. }
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_cannot_start_says_why() {
    let mut world = World::joined().await;
    let again = xce_worker::start(world.settings()).await.unwrap_err();
    assert!(again.to_string().contains("another worker"), "{again}");
    world.stop_worker(true).await;
    let mut settings = world.settings();
    settings.ports = (1, 65_535);
    let error = xce_worker::start(settings).await.unwrap_err();
    assert!(matches!(error, StartError::Settings(_)), "{error}");
    let mut settings = world.settings();
    settings.identity_dir = world.dir.path().join("nowhere");
    assert!(matches!(
        xce_worker::start(settings).await,
        Err(StartError::Identity(_))
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_shim_holds_nothing_up() {
    let mut world = World::new().await;
    let mut settings = world.settings();
    settings.kill_budget = xce_model::Millis(20);
    world.start_worker_with(settings).await;
    let controller = world.controller();
    controller.joined(1).await;
    let mut spec = batch(1, "sleep 1000 & sleep 1000");
    spec.template.stop.grace = xce_model::Millis(20);
    controller.want(run(1), Want::Start(Box::new(spec)));
    controller.happened(run(1), "start", is_start).await;
    let record = xce_shim::RunRecord::load(&world.state().join("runs/1-1")).unwrap();
    let shim = rustix::process::Pid::from_raw(record.shim.pid).unwrap();
    rustix::process::kill_process(shim, rustix::process::Signal::STOP).unwrap();
    controller.want(
        run(1),
        Want::Stop {
            cause: Cause::TermOwner,
            drained: false,
        },
    );
    let exit = controller.ended(run(1)).await;
    assert_eq!(exit.cause, Cause::TermOwner, "{exit:?}");
    let left = xce_shim::machine::processes()
        .into_iter()
        .filter(|stat| stat.session == record.job.pid && stat.is_alive())
        .count();
    assert_eq!(left, 0);
}

/// A frozen group of the first version: its processes wait in the kernel and take no signal, not
/// even the last one.
struct Freezer(std::path::PathBuf);

impl Freezer {
    fn new() -> Option<Self> {
        let name = format!("xce-test-{}", std::process::id());
        let path = std::path::Path::new("/sys/fs/cgroup/freezer").join(name);
        std::fs::create_dir(&path).ok().map(|()| Self(path))
    }

    fn set(&self, state: &str) {
        std::fs::write(self.0.join("freezer.state"), state).unwrap();
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        self.set("THAWED");
        // One that a failed test leaves is empty when its process is gone.
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_does_not_die_is_told_and_holds_its_run() {
    let mut world = World::new().await;
    let Some(freezer) = Freezer::new() else {
        // Without such groups nothing here can be made to hang; the words have a test of their own.
        return;
    };
    let mut settings = world.settings();
    settings.kill_budget = xce_model::Millis(50);
    world.start_worker_with(settings).await;
    let controller = world.controller();
    controller.joined(1).await;
    let mut spec = batch(1, "exec sleep 1000");
    spec.template.stop.grace = xce_model::Millis(20);
    controller.want(run(1), Want::Start(Box::new(spec)));
    controller.happened(run(1), "start", is_start).await;
    let record = xce_shim::RunRecord::load(&world.state().join("runs/1-1")).unwrap();
    let pid = record.job.pid;
    std::fs::write(freezer.0.join("cgroup.procs"), pid.to_string()).unwrap();
    freezer.set("FROZEN");
    controller.want(
        run(1),
        Want::Stop {
            cause: Cause::TermOwner,
            drained: false,
        },
    );
    let wanted = format!("{pid} (sleep) in state D, since ");
    let is_told = |what: &Happened| match what {
        Happened::StopHangs { text } => text.starts_with(&wanted),
        _ => false,
    };
    controller.happened(run(1), "what hangs", is_told).await;
    // Nobody knows whether it will ever end, so the run does not either, also not for the next worker.
    world.kill_worker().await;
    world.start_worker().await;
    let controller = world.controller();
    controller.joined(2).await;
    let is_end = |what: &Happened| matches!(what, Happened::Ended { .. });
    assert_eq!(controller.count(run(1), is_end), 0);
    freezer.set("THAWED");
    let exit = controller.ended(run(1)).await;
    assert_eq!(exit.cause, Cause::TermOwner, "its shim has kept its exit");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_oldest_ended_runs_are_removed() {
    let mut world = World::new().await;
    let mut settings = world.settings();
    settings.ended_max = 2;
    world.start_worker_with(settings).await;
    world.controller().joined(1).await;
    for number in 1..=5 {
        world
            .controller()
            .want(run(number), Want::Start(Box::new(batch(number, "true"))));
        world.controller().ended(run(number)).await;
    }
    let waiting = async {
        while std::fs::read_dir(world.state().join("ended"))
            .unwrap()
            .count()
            > 2
        {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(crate::controller::PATIENCE, waiting)
        .await
        .unwrap();
    assert!(world.state().join("ended/5-1").exists());
    assert!(!world.state().join("ended/1-1").exists());
}
