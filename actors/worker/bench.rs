//! Jobs a second through a worker, as a share of the same shims started by hand.
//!
//! `cargo run --release --package xce-worker --example worker-jobs [jobs] [slots]`
#![allow(clippy::unwrap_used)]

#[path = "tests/controller.rs"]
#[allow(dead_code)]
mod controller;
#[path = "tests/world.rs"]
#[allow(dead_code)]
mod world;

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use xce_replica::wire::{Happened, Want};
use xce_shim::{Output, Spec};

fn main() {
    let mut arguments = std::env::args()
        .skip(1)
        .map(|text| text.parse::<u64>().unwrap());
    let jobs = arguments.next().unwrap_or(5_000);
    let slots = arguments.next().unwrap_or(2);
    let spawned = spawn_only(jobs);
    let bare = shims_only(jobs, slots);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (rate, latencies, cpu) = runtime.block_on(worker(jobs, slots));
    let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize];
    println!(
        "{{\"jobs\":{jobs},\"slots\":{slots},\"spawn_per_s\":{spawned:.0},\"shims_per_s\":{bare:.0},\
         \"worker_per_s\":{rate:.0},\"of_shims\":{:.2},\"start_p50_ms\":{:.2},\"start_p99_ms\":{:.2},\
         \"cpu_us_per_job\":{:.0}}}",
        rate / bare,
        at(0.5).as_secs_f64() * 1e3,
        at(0.99).as_secs_f64() * 1e3,
        cpu.as_secs_f64() * 1e6 / jobs as f64,
    );
}

fn spawn_only(jobs: u64) -> f64 {
    let begin = Instant::now();
    for _ in 0..jobs {
        Command::new("/bin/true").status().unwrap();
    }
    jobs as f64 / begin.elapsed().as_secs_f64()
}

fn shims_only(jobs: u64, slots: u64) -> f64 {
    let dir = tempfile::tempdir().unwrap();
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for slot in 0..slots {
            let dir = dir.path();
            scope.spawn(move || {
                for number in (slot..jobs).step_by(usize::try_from(slots).unwrap()) {
                    one_shim(&dir.join(number.to_string()));
                }
            });
        }
    });
    jobs as f64 / begin.elapsed().as_secs_f64()
}

fn one_shim(dir: &Path) {
    std::fs::create_dir(dir).unwrap();
    let mut spec = Spec::new("n", vec!["/bin/true".to_owned()], "/");
    spec.stdout = Output::Spool("stdout".to_owned());
    spec.stderr = Output::Spool("stderr".to_owned());
    spec.store(dir).unwrap();
    let mut command = Command::new(world::shim());
    let mut child = command.arg(dir).stdout(Stdio::piped()).spawn().unwrap();
    let mut events = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut events)
        .unwrap();
    child.wait().unwrap();
}

fn own_cpu() -> Duration {
    let ticks = xce_shim::machine::process_stat(i32::try_from(std::process::id()).unwrap());
    Duration::from_millis(ticks.unwrap().cpu_ticks * 10)
}

async fn worker(jobs: u64, slots: u64) -> (f64, Vec<Duration>, Duration) {
    let mut world = world::World::new().await;
    let settings = world.settings();
    world.start_worker_with(settings).await;
    let controller = world.controller();
    controller.joined(1).await;
    let (cpu, begin) = (own_cpu(), Instant::now());
    let mut asked = vec![begin];
    let order = |number: u64| {
        let mut spec = world::batch(number, "");
        spec.template.command = vec!["/bin/true".to_owned()];
        spec.template.cwd = Some("/".to_owned());
        controller.order(world::run(number), Want::Start(Box::new(spec)));
    };
    for number in 1..=slots.min(jobs) {
        asked.push(Instant::now());
        order(number);
    }
    let (mut next, mut seen, mut ended, mut latencies) = (slots + 1, 0, 0, Vec::new());
    while ended < jobs {
        let fresh = controller
            .until("facts", |told| {
                (told.reports.len() > seen).then(|| told.reports[seen..].to_vec())
            })
            .await;
        seen += fresh.len();
        for report in fresh {
            let number = usize::try_from(report.run.job.number).unwrap();
            match report.what {
                Happened::Started { .. } => latencies.push(asked[number].elapsed()),
                Happened::Ended { .. } => {
                    ended += 1;
                    if next <= jobs {
                        asked.push(Instant::now());
                        order(next);
                        next += 1;
                    }
                }
                other => panic!("{other:?}"),
            }
        }
    }
    latencies.sort_unstable();
    (
        jobs as f64 / begin.elapsed().as_secs_f64(),
        latencies,
        own_cpu() - cpu,
    )
}
