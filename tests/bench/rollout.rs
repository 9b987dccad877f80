//! A rollout of a thousand replicas that become ready at once, on real daemons: how much of it is
//! starts and ends of processes, and how much is control. One JSON line.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::json;
use xce_model::Millis;
use xce_model::spec::{Probe, ProbeAction, ServiceSpec};
use xce_session::policy_wire::ServiceRequest;
use xce_session::wire::{AskService, ServiceName};
use xce_tests::{Cluster, Setup};

use crate::client::{Client, Fault, service};
use crate::{cpu, jobs};

/// Replicas. Source: the requirement.
const REPLICAS: u32 = 1_000;
/// Time between two looks. Source: chosen; the view of a thousand replicas costs some milliseconds.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Longest wait for a rollout. Source: derived; ten times what a busy machine needs.
const WITHIN: Duration = Duration::from_secs(300);

/// Measures and prints.
pub fn run() -> Result<(), Fault> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    // Everybody's probe asks this program, which answers at once.
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let base = tempfile::tempdir()?;
    let (_, chains) = jobs::baselines(base.path())?;
    let cluster = Setup::new("bench-rollout")
        .workers(1)
        .set_worker("cpus=64")
        .set_worker("memory=\"64GiB\"")
        .start();
    let client = runtime.block_on(Client::connect(cluster.home(), cluster.address()))?;
    let create = AskService::Create(Box::new(ServiceRequest::whole(&spec("1", port))));
    let created = runtime.block_on(measure(&client, &cluster, create))?;
    eprintln!("rollout: created in {} ms", created.wall.as_millis());
    let update = AskService::Update {
        request: Box::new(ServiceRequest::whole(&spec("2", port))),
        take_count: false,
    };
    let updated = runtime.block_on(measure(&client, &cluster, update))?;
    eprintln!("rollout: updated in {} ms", updated.wall.as_millis());
    let bare = f64::from(REPLICAS) / chains;
    let wall = updated.wall.as_secs_f64();
    let all = updated.controller + updated.worker + updated.runs;
    let share = |part: u64| (part as f64 / all.max(1) as f64 * 100.0).round() / 100.0;
    println!(
        "{}",
        json!({
            "bench": "rollout",
            "replicas": REPLICAS,
            "create_ms": created.wall.as_millis() as u64,
            "update_ms": updated.wall.as_millis() as u64,
            "bare_shim_chains_ms": (bare * 1000.0).round(),
            "update_of_bare": (bare / wall * 100.0).round() / 100.0,
            "time_beside_bare_share": ((1.0 - bare / wall) * 100.0).round() / 100.0,
            "controller_cpu_ms": updated.controller,
            "worker_cpu_ms": updated.worker,
            "shims_and_replicas_cpu_ms": updated.runs,
            "control_cpu_share": share(updated.controller),
            "worker_cpu_share": share(updated.worker),
        })
    );
    Ok(())
}

fn spec(text: &str, port: u16) -> ServiceSpec {
    let mut spec = service("many", REPLICAS);
    spec.template.env = vec![("VERSION".to_owned(), text.to_owned())];
    spec.template.probes.readiness = Some(Box::new(Probe {
        action: ProbeAction::Tcp {
            port: port.to_string(),
            host: "127.0.0.1".to_owned(),
        },
        initial_delay: Millis(0),
        period: Millis::seconds(3_600),
        timeout: Millis::seconds(1),
        success_threshold: 1,
        failure_threshold: 3,
    }));
    spec
}

/// How long a rollout took, and the processor time that was used for it, in milliseconds.
struct Took {
    wall: Duration,
    controller: u64,
    worker: u64,
    runs: u64,
}

async fn measure(client: &Client, cluster: &Cluster, ask: AskService) -> Result<Took, Fault> {
    let (controller, _) = cpu::of_process(cluster.controller_pid())?;
    let (worker, runs) = cpu::of_process(cluster.worker_pid("w1"))?;
    let begun = Instant::now();
    client.service(ask).await?;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let name = ServiceName {
            project: "default".to_owned(),
            name: "many".to_owned(),
        };
        let view = client.show_service(name).await?;
        let done = view.rollout.phase == "complete" && view.live == REPLICAS;
        if done && view.available == REPLICAS {
            break;
        }
        if begun.elapsed() > WITHIN {
            return Err(format!("not complete: {}", view.rollout.explain).into());
        }
    }
    let wall = begun.elapsed();
    let (controller_then, _) = cpu::of_process(cluster.controller_pid())?;
    let (worker_then, runs_then) = cpu::of_process(cluster.worker_pid("w1"))?;
    Ok(Took {
        wall,
        controller: controller_then - controller,
        worker: worker_then - worker,
        runs: runs_then - runs,
    })
}
