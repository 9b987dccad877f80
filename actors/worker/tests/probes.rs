//! Probes of real jobs.

use xce_model::spec::{Probe, ProbeAction, RestartMode};
use xce_model::{Cause, Millis};
use xce_replica::ProbeRole;
use xce_replica::wire::{Happened, Want};

use crate::world::{World, batch, replica, run};

fn exec(script: &str) -> Probe {
    Probe {
        action: ProbeAction::Exec {
            command: ["/bin/sh", "-c", script].map(str::to_owned).into(),
        },
        initial_delay: Millis(0),
        period: Millis(20),
        timeout: Millis(30_000),
        success_threshold: 1,
        failure_threshold: 1,
    }
}

/// Where the first run of the first job works.
fn work_dir(world: &World) -> std::path::PathBuf {
    world.state().join("runs/1-1/work")
}

fn is_not_ready(what: &Happened) -> bool {
    matches!(what, Happened::NotReady { .. })
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_follows_an_exec_probe_in_the_jobs_directory() {
    let world = World::joined().await;
    let controller = world.controller();
    let mut spec = replica(1, "sleep 1000");
    spec.template.probes.readiness =
        Some(Box::new(exec("test -e ready && test $XCE_SERVICE = web")));
    controller.want(run(1), Want::Start(Box::new(spec)));
    controller.happened(run(1), "not ready", is_not_ready).await;
    assert_eq!(controller.count(run(1), |what| *what == Happened::Ready), 0);
    let flag = work_dir(&world).join("ready");
    std::fs::write(&flag, "").unwrap();
    controller
        .happened(run(1), "ready", |what| *what == Happened::Ready)
        .await;
    std::fs::remove_file(flag).unwrap();
    controller
        .until("not ready again", |told| {
            (told
                .reports
                .iter()
                .filter(|r| is_not_ready(&r.what))
                .count()
                >= 2)
                .then_some(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tcp_and_http_probes_reach_a_listener() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let world = World::joined().await;
    let controller = world.controller();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = [0; 1024];
                let count = stream.read(&mut request).await.unwrap_or(0);
                let good = request[..count].starts_with(b"GET /health ");
                let status = if good { "200 OK" } else { "404 Not Found" };
                let _ = stream
                    .write_all(format!("HTTP/1.1 {status}\r\n\r\n").as_bytes())
                    .await;
            });
        }
    });
    let http = |path: &str| ProbeAction::Http {
        port: "web".to_owned(),
        host: "127.0.0.1".to_owned(),
        path: path.to_owned(),
        status_min: 200,
        status_max: 399,
        headers: Vec::new(),
    };
    let tcp = ProbeAction::Tcp {
        port: port.to_string(),
        host: "127.0.0.1".to_owned(),
    };
    for (number, action, good) in [
        (1, http("/health"), true),
        (2, http("/x"), false),
        (3, tcp, true),
    ] {
        let mut spec = replica(number, "sleep 1000");
        spec.ports = vec![("web".to_owned(), port)];
        spec.template.probes.readiness = Some(Box::new(Probe { action, ..exec("") }));
        controller.want(run(number), Want::Start(Box::new(spec)));
        if good {
            controller
                .happened(run(number), "ready", |what| *what == Happened::Ready)
                .await;
        } else {
            let report = controller
                .happened(run(number), "not ready", is_not_ready)
                .await;
            let Happened::NotReady { text } = report.what else {
                unreachable!()
            };
            assert!(text.contains("404"), "{text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_not_there_is_neither_good_nor_bad() {
    let world = World::joined().await;
    let controller = world.controller();
    let missing = ProbeAction::Exec {
        command: vec!["/no/such/probe".to_owned()],
    };
    let mut spec = replica(1, "sleep 1000");
    spec.template.probes.readiness = Some(Box::new(Probe {
        action: missing.clone(),
        ..exec("")
    }));
    spec.template.probes.liveness = Some(Box::new(Probe {
        action: missing,
        ..exec("")
    }));
    controller.want(run(1), Want::Start(Box::new(spec)));
    for wanted in [ProbeRole::Readiness, ProbeRole::Liveness] {
        let is_told = |what: &Happened| match what {
            Happened::ProbeUnrunnable { role, count, text } => {
                *role == wanted && *count >= 4 && text.contains("/no/such/probe")
            }
            _ => false,
        };
        controller.happened(run(1), "that it cannot", is_told).await;
    }
    let follows = |what: &Happened| {
        matches!(
            what,
            Happened::Restarting { .. } | Happened::RestartWanted { .. } | Happened::Ready
        )
    };
    assert_eq!(controller.count(run(1), follows), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_liveness_probe_restarts_a_job_in_place() {
    let world = World::joined().await;
    let controller = world.controller();
    let mut spec = batch(1, "trap 'exit 0' TERM; while :; do sleep 0.05; done");
    spec.template.restart.mode = RestartMode::Always;
    spec.template.probes.liveness = Some(Box::new(exec("! test -e sick")));
    controller.want(run(1), Want::Start(Box::new(spec)));
    let is_started = |what: &Happened| matches!(what, Happened::Started { .. });
    controller.happened(run(1), "a start", is_started).await;
    let flag = work_dir(&world).join("sick");
    std::fs::write(&flag, "").unwrap();
    let is_restart = |what: &Happened| matches!(what, Happened::Restarting { .. });
    let report = controller.happened(run(1), "restart", is_restart).await;
    let Happened::Restarting { exit, .. } = report.what else {
        unreachable!()
    };
    assert_eq!(exit.cause, Cause::TermLiveness);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_probe_is_killed_with_its_group() {
    let world = World::joined().await;
    let controller = world.controller();
    let mut spec = replica(1, "sleep 1000");
    let probe = exec("yes & echo $$ >> pids; sleep 1000");
    spec.template.probes.readiness = Some(Box::new(Probe {
        timeout: Millis(100),
        ..probe
    }));
    controller.want(run(1), Want::Start(Box::new(spec)));
    controller.happened(run(1), "not ready", is_not_ready).await;
    let pids = std::fs::read_to_string(work_dir(&world).join("pids")).unwrap();
    let first: i32 = pids.lines().next().unwrap().parse().unwrap();
    let left: Vec<_> = xce_shim::machine::processes()
        .into_iter()
        .filter(|stat| stat.pid == first && stat.is_alive())
        .collect();
    assert_eq!(left, []);
    controller.want(
        run(1),
        Want::Stop {
            cause: Cause::TermOwner,
            drained: false,
        },
    );
    controller.ended(run(1)).await;
}
