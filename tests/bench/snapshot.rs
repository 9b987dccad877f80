//! A ledger of a million jobs: what a snapshot costs those who commit meanwhile, and how long a start
//! from it takes. One JSON line.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use xce_ledger::{Fact, Ledger};
use xce_model::ClusterTime;
use xce_wal::{Wal, WalConfig};

use crate::actors::{Size, created, group, ready, write_all};
use crate::client::Fault;
use crate::wal::{folder, median};

/// Source: the requirement, a million jobs.
const SIZE: Size = Size {
    services: 1_000,
    replicas: 1_000,
};
const JOBS: u64 = SIZE.services * SIZE.replicas as u64;
/// Changes of one commit. Source: the foundations, whose figures this repeats.
const CHANGES: u64 = 64;
/// How long is committed without a snapshot. Source: chosen; thousands of commits.
const BEFORE: Duration = Duration::from_secs(3);

/// Measures and prints.
///
/// # Errors
/// The disk fails.
pub fn run() -> Result<(), Box<dyn std::error::Error>> {
    let line = folder("snapshot", |dir| {
        measure(dir).map_err(|fault| fault as Box<dyn std::error::Error>)
    })?;
    println!("{line}");
    Ok(())
}

fn measure(dir: &Path) -> Result<Value, Fault> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let wal = runtime.block_on(opened(dir))?;
    let mut first = None;
    write_all(SIZE, &mut |facts| {
        let receipt = runtime.block_on(wal.persist(group(ClusterTime(0), facts).encode()))?;
        let made = created(receipt.outcome())?;
        for one in &made {
            if let xce_ledger::Created::Replicas { first: number, .. } = one {
                first.get_or_insert(*number);
            }
        }
        Ok(made)
    })?;
    let first = first.ok_or("no job was created")?;
    eprintln!("snapshot: {JOBS} jobs are there");
    let measured = runtime.block_on(async {
        let quiet = commits(&wal, first, async {
            tokio::time::sleep(BEFORE).await;
            Ok(())
        })
        .await?;
        let begin = Instant::now();
        let other = wal.clone();
        let writing = commits(&wal, first, async move {
            other.snapshot_now().await?;
            Ok(())
        })
        .await?;
        let snapshot_ms = begin.elapsed().as_millis();
        // The older of two is what the log is purged up to.
        wal.snapshot_now().await?;
        wal.clone().close().await;
        Ok::<_, Fault>((quiet, writing, snapshot_ms))
    });
    let (quiet, writing, snapshot_ms) = measured?;
    drop(wal);
    let begin = Instant::now();
    let wal = runtime.block_on(opened(dir))?;
    let start_ms = begin.elapsed().as_millis();
    runtime.block_on(wal.close());
    let p99 = |waits: &[u64]| waits[(waits.len() - 1) * 99 / 100];
    Ok(json!({
        "bench": "snapshot",
        "jobs": JOBS,
        "changes": CHANGES,
        "commit_p50_us": median(&quiet),
        "commit_p99_us": p99(&quiet),
        "commit_max_us": quiet.last(),
        "meanwhile_p50_us": median(&writing),
        "meanwhile_p99_us": p99(&writing),
        "meanwhile_max_us": writing.last(),
        "snapshot_ms": snapshot_ms as u64,
        "start_ms": start_ms as u64,
    }))
}

async fn opened(dir: &Path) -> Result<Wal<Ledger>, Fault> {
    let config = WalConfig {
        create: true,
        snapshot_every_entries: u64::MAX,
        snapshot_every_bytes: u64::MAX,
        ..WalConfig::new(dir.join("log-of-jobs"), [1; 16], 1)
    };
    let ledger = Ledger::new(Box::new(|_, _| {}));
    let wal = xce_wal::open(config, ledger, |reason| eprintln!("snapshot: {reason}")).await?;
    Ok(wal)
}

/// Microseconds of each commit until something has ended, sorted.
async fn commits(
    wal: &Wal<Ledger>,
    first: u64,
    until: impl Future<Output = Result<(), Fault>>,
) -> Result<Vec<u64>, Fault> {
    let mut waits = Vec::new();
    let mut next = 0;
    tokio::pin!(until);
    loop {
        let changed = (0..CHANGES).map(move |step| first + (next + step * 7_919) % JOBS);
        next += 1;
        let facts: Vec<Fact> = changed.map(|number| ready(number).into()).collect();
        let bytes = group(ClusterTime(0), facts).encode();
        let begin = Instant::now();
        let mut committed = Box::pin(wal.persist(bytes));
        tokio::select! {
            biased;
            receipt = &mut committed => drop(receipt?),
            ended = &mut until => {
                ended?;
                committed.await?;
                waits.sort_unstable();
                return Ok(waits);
            }
        }
        waits.push(u64::try_from(begin.elapsed().as_micros())?);
    }
}
