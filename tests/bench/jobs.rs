//! Batch jobs through the whole chain, with every fact durable: ended jobs a second as a share of the
//! bare shim chain and of a bare start and wait, the wait from submission to start on an idle
//! cluster, and what ten thousand pending jobs cost. One JSON line.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;
use xce_model::spec::ArraySpec;
use xce_model::{JobId, JobState};
use xce_tests::{Cluster, Setup};

use crate::client::{Client, Fault, job};
use crate::cpu;

/// Jobs of one case. Source: the requirement, 5 000 jobs of `/bin/true`.
const JOBS: u64 = 5_000;
/// Jobs for the latency on an idle cluster. Source: derived; a p99 needs some hundreds.
const SAMPLES: usize = 300;
/// Jobs that wait. Source: the requirement.
const PENDING: u64 = 10_000;
/// Time between two looks at jobs that run. Source: derived; a hundredth of the shortest case.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The same on an idle cluster, where one job is looked at.
const LOOK_AT_ONE_EVERY: Duration = Duration::from_millis(5);
/// Submissions in flight. Source: foundations section 3; 64 saturate a connection.
const IN_FLIGHT: usize = 64;

/// Measures and prints.
pub fn run() -> Result<(), Fault> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    // Kept to the end: some file systems are slow to make files while others were just removed.
    let base = tempfile::tempdir()?;
    let (bare, shim) = baselines(base.path())?;
    let cluster = Setup::new("bench-jobs")
        .workers(1)
        .set_worker("cpus=2")
        .start();
    let mut measured = runtime.block_on(measure(&cluster, bare, shim))?;
    drop(cluster);
    // Of its own, so that no earlier job is in its log or its memory.
    let cluster = Setup::new("bench-pending").workers(1).broken().start();
    let waiting = runtime.block_on(pending(&cluster))?;
    if let (Some(all), Some(waiting)) = (measured.as_object_mut(), waiting.as_object()) {
        all.extend(waiting.clone());
    }
    println!("{measured}");
    Ok(())
}

async fn measure(cluster: &Cluster, bare: f64, shim: f64) -> Result<serde_json::Value, Fault> {
    let client = Client::connect(cluster.home(), cluster.address()).await?;
    let (p50, p99) = latency(&client).await?;
    eprintln!("jobs: from submission to start {p50} ms, p99 {p99} ms");
    let before = Costs::now(cluster)?;
    let single = singles(&client).await?;
    let single_costs = before.until(&Costs::now(cluster)?);
    eprintln!("jobs: {single:.0} single ones a second, bare shim chain {shim:.0}");
    let before = Costs::now(cluster)?;
    let array = array(&client).await?;
    let array_costs = before.until(&Costs::now(cluster)?);
    eprintln!("jobs: {array:.0} elements of an array a second");
    Ok(json!({
        "bench": "jobs",
        "slots": 2,
        "bare_spawn_per_s": round(bare),
        "shim_chain_per_s": round(shim),
        "single_per_s": round(single),
        "single_of_shim_chain": round(single / shim * 100.0) / 100.0,
        "array_per_s": round(array),
        "array_of_shim_chain": round(array / shim * 100.0) / 100.0,
        "array_of_bare_spawn": round(array / bare * 100.0) / 100.0,
        "single_cpu_us": single_costs,
        "array_cpu_us": array_costs,
        "submit_to_start_p50_ms": p50,
        "submit_to_start_p99_ms": p99,
    }))
}

/// Processor time used so far, in milliseconds.
struct Costs {
    controller: u64,
    worker: u64,
    runs: u64,
    machine: u64,
}

impl Costs {
    fn now(cluster: &Cluster) -> Result<Self, Fault> {
        let (controller, _) = cpu::of_process(cluster.controller_pid())?;
        let (worker, runs) = cpu::of_process(cluster.worker_pid("w1"))?;
        let machine = cpu::of_machine()?;
        Ok(Self {
            controller,
            worker,
            runs,
            machine,
        })
    }

    /// Microseconds a job; `machine` also holds what has nothing to do with this measurement.
    fn until(&self, after: &Self) -> serde_json::Value {
        let each = |before: u64, after: u64| (after - before) * 1000 / JOBS;
        json!({
            "controller": each(self.controller, after.controller),
            "worker": each(self.worker, after.worker),
            "shim_and_job": each(self.runs, after.runs),
            "machine": each(self.machine, after.machine),
        })
    }
}

fn round(value: f64) -> f64 {
    value.round()
}

/// Jobs a second of a bare start and wait, and of the bare shim chain, two at once.
pub fn baselines(base: &Path) -> Result<(f64, f64), Fault> {
    let bare = two_at_once(|_, _| {
        let status = Command::new("/bin/true").status();
        assert!(
            status.is_ok_and(|status| status.success()),
            "/bin/true runs"
        );
    });
    let shim = xce_tests::harness::binaries::path("xce-shim");
    let group = format!("xce-bench-jobs-{}", std::process::id());
    let chain = |thread: usize, number: u32| {
        let dir = base.join(format!("{thread}-{number}"));
        chain(&shim, &dir, &group);
    };
    let chained = two_at_once(chain);
    if let Some(mount) = xce_shim::cgroup::v2_mount() {
        xce_shim::cgroup::remove(&mount.join(&group));
    }
    Ok((bare, chained))
}

/// One job through its shim, launched as a worker launches it, and its record read: what a worker
/// cannot do without.
fn chain(shim: &Path, dir: &Path, group: &str) {
    std::fs::create_dir(dir).expect("the run directory can be made");
    std::fs::create_dir(dir.join("work")).expect("the working directory can be made");
    let command = vec!["/bin/true".to_owned()];
    let mut spec = xce_shim::Spec::new("bench", command, &dir.join("work").to_string_lossy());
    spec.env = vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())];
    spec.stdout = xce_shim::Output::Spool("stdout".to_owned());
    spec.stderr = xce_shim::Output::Spool("stderr".to_owned());
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    spec.cgroup = Some(format!("{group}/{name}"));
    spec.limits = xce_shim::Limits {
        memory_bytes: Some(1 << 20),
        pids: None,
        cpu_milli: Some(1000),
    };
    spec.store(dir).expect("the spec can be stored");
    let mut child = xce_shim::spawn(shim, dir).expect("the shim starts");
    let status = child.wait().expect("the shim ends");
    assert!(status.success(), "the shim ended with {status}");
    let state = xce_shim::inspect(dir).expect("the run can be read");
    assert!(
        matches!(state, xce_shim::RunState::Exited(_)),
        "the run ended: {state:?}"
    );
}

fn two_at_once(one: impl Fn(usize, u32) + Sync) -> f64 {
    const TIME: Duration = Duration::from_secs(2);
    let start = Instant::now();
    let total: u32 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2)
            .map(|thread| {
                let one = &one;
                scope.spawn(move || {
                    let mut done = 0;
                    while start.elapsed() < TIME {
                        one(thread, done);
                        done += 1;
                    }
                    done
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or(0))
            .sum()
    });
    f64::from(total) / start.elapsed().as_secs_f64()
}

/// From submission to start on an idle cluster, by the stamps of controller and worker.
async fn latency(client: &Client) -> Result<(i64, i64), Fault> {
    let mut waits = Vec::with_capacity(SAMPLES);
    for _ in 0..SAMPLES {
        let accepted = client.submit(job(&["/bin/true"], 1000, None)).await?;
        let id: JobId = accepted.ids.first().ok_or("no id")?.parse()?;
        loop {
            tokio::time::sleep(LOOK_AT_ONE_EVERY).await;
            let shown = client.show(id).await?;
            let view = shown.first().ok_or("no job")?;
            if view.terminal {
                let start = view.started.as_deref().ok_or("never started")?;
                waits.push(stamp(start)? - stamp(&view.submitted)?);
                break;
            }
        }
    }
    waits.sort_unstable();
    Ok((waits[SAMPLES / 2], waits[SAMPLES * 99 / 100]))
}

fn stamp(text: &str) -> Result<i64, Fault> {
    Ok(text.parse::<jiff::Timestamp>()?.as_millisecond())
}

/// Ended jobs a second, each submitted by itself.
async fn singles(client: &Client) -> Result<f64, Fault> {
    let start = Instant::now();
    let last = submit_many(client, JOBS, &["/bin/true"], 1000).await?;
    wait_for(client, last, JOBS).await?;
    Ok(JOBS as f64 / start.elapsed().as_secs_f64())
}

async fn submit_many(
    client: &Client,
    count: u64,
    command: &[&str],
    cpus: u64,
) -> Result<JobId, Fault> {
    let mut tasks = tokio::task::JoinSet::new();
    let mut last = JobId::single(0);
    let mut left = count;
    while left > 0 || !tasks.is_empty() {
        while left > 0 && tasks.len() < IN_FLIGHT {
            let (client, spec) = (client.clone(), job(command, cpus, None));
            tasks.spawn(async move { client.submit(spec).await });
            left -= 1;
        }
        if let Some(done) = tasks.join_next().await {
            let id = done??.ids.first().ok_or("no id")?.parse()?;
            last = last.max(id);
        }
    }
    Ok(last)
}

/// Waits until one job, or one element, has ended: one small question at a time, since whoever asks
/// takes processor time from those that are measured.
async fn wait_for_one(client: &Client, id: JobId) -> Result<(), Fault> {
    loop {
        let shown = client.show(id).await?;
        if shown.first().is_some_and(|job| job.terminal) {
            return Ok(());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Waits until the last `count` jobs up to `last` have ended, first come first served.
async fn wait_for(client: &Client, last: JobId, count: u64) -> Result<(), Fault> {
    wait_for_one(client, last).await?;
    let mut after = JobId::single(last.number - count);
    loop {
        let jobs = client.list(Some(after)).await?;
        let ended = jobs.iter().take_while(|job| job.terminal).last();
        if let Some(view) = &ended {
            after = view.id.parse()?;
        }
        if after >= last {
            return Ok(());
        }
        if ended.is_none() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

async fn array(client: &Client) -> Result<f64, Fault> {
    let elements = u32::try_from(JOBS)?;
    let ranges = ArraySpec {
        ranges: vec![(1, elements)],
        slot_limit: None,
    };
    let start = Instant::now();
    let accepted = client
        .submit(job(&["/bin/true"], 1000, Some(ranges)))
        .await?;
    let id: JobId = accepted.ids.first().ok_or("no id")?.parse()?;
    wait_for_one(client, JobId::element(id.number, elements)).await?;
    loop {
        let shown = client.show(id).await?;
        let whole = shown
            .first()
            .and_then(|job| job.array.clone())
            .ok_or("no array")?;
        if whole.done == JOBS {
            return Ok(JOBS as f64 / start.elapsed().as_secs_f64());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Memory of pending jobs on the controller, and the time from its kill to an answer.
async fn pending(cluster: &Cluster) -> Result<serde_json::Value, Fault> {
    let client = Client::connect(cluster.home(), cluster.address()).await?;
    let before = cpu::resident(cluster.controller_pid())?;
    let last = submit_many(&client, PENDING, &["/bin/sleep", "1000"], 64_000).await?;
    let after = cpu::resident(cluster.controller_pid())?;
    let jobs = client.show(last).await?;
    assert_eq!(
        jobs.first().map(|job| job.state),
        Some(JobState::Pend),
        "nothing has room for it"
    );
    let killed = Instant::now();
    cluster.kill_daemon(cluster.controller_pid());
    let client = Client::connect(cluster.home(), cluster.address()).await?;
    let connected = killed.elapsed();
    client.show(last).await?;
    let answered = killed.elapsed();
    let bytes = after.saturating_sub(before);
    Ok(json!({
        "pending_jobs": PENDING,
        "pending_bytes_each": bytes / PENDING,
        "pending_mib": round(bytes as f64 / 1_048_576.0 * 10.0) / 10.0,
        "kill_to_connected_ms": u64::try_from(connected.as_millis())?,
        "kill_to_answer_ms": u64::try_from(answered.as_millis())?,
    }))
}
