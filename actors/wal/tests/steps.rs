//! Each operation of the device in turn is the one at which the process dies, the power goes, or the
//! disk fails: what was acknowledged is there, and nothing else but what was sent.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tempfile::TempDir;

use super::book::Book;
use super::conformance::Tally;
use super::model::{Harm, Lie, ModelDisk};
use super::wal::{small, start};
use crate::{PersistError, Wal, WalConfig, open};

/// Groups of one run: three segments, three snapshots, and a purge.
const GROUPS: u32 = 56;
/// After so many groups a snapshot is taken.
const SNAPSHOT_EVERY: u32 = 14;

fn config(dir: &Path) -> WalConfig {
    WalConfig {
        entry_bytes: 4 << 10,
        segment_bytes: 192 << 10,
        space_retry: Duration::from_millis(1),
        // Idle confirmation would make the number of operations depend on time.
        watermark_after: Duration::from_secs(3600),
        ..small(dir)
    }
}

fn group(number: u32) -> Vec<u8> {
    let mut bytes = vec![number as u8; 4000];
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// What a run was told.
struct Told {
    acknowledged: u32,
    sent: u32,
    has_failed: bool,
}

/// Writes group after group until all are written or the log has failed.
async fn write(wal: &Wal<Book>, from: u32, failed: &AtomicBool) -> Told {
    let mut number = from;
    while number < from + GROUPS {
        match wal.persist(group(number)).await {
            Ok(_) => number += 1,
            Err(PersistError::DiskFull) => tokio::task::yield_now().await,
            Err(error) => {
                let sent = number + u32::from(error == PersistError::Unknown);
                // The first error is told on the log thread, after its callers.
                while !failed.load(Ordering::SeqCst) {
                    tokio::task::yield_now().await;
                }
                return Told {
                    acknowledged: number,
                    sent,
                    has_failed: true,
                };
            }
        }
        if number.is_multiple_of(SNAPSHOT_EVERY) {
            // One that fails raises an alarm; the log and the older ones are as before.
            drop(wal.snapshot_now().await);
        }
    }
    Told {
        acknowledged: number,
        sent: number,
        has_failed: failed.load(Ordering::SeqCst),
    }
}

async fn run(config: &WalConfig, disk: &ModelDisk, from: u32) -> Told {
    let failed = Arc::new(AtomicBool::new(false));
    let tell = Arc::clone(&failed);
    let (book, _page) = Book::new();
    let config = WalConfig {
        disk: Some(Arc::new(disk.clone())),
        ..config.clone()
    };
    let opened = open(config, book, move |_| tell.store(true, Ordering::SeqCst)).await;
    let Ok(wal) = opened else {
        return Told {
            acknowledged: from,
            sent: from,
            has_failed: true,
        };
    };
    let told = write(&wal, from, &failed).await;
    wal.close().await;
    told
}

/// What is there after a start on a healthy disk.
async fn found(config: &WalConfig, what: &str) -> u32 {
    let (book, page) = Book::new();
    let opened = open(config.clone(), book, |_| {}).await;
    let wal = opened
        .unwrap_or_else(|error| panic!("{what}: not opened: {}", crate::error::chain(&error)));
    let groups = page.lock().unwrap().groups.clone();
    for (number, found) in (0..).zip(&groups) {
        assert!(*found == group(number), "{what}: group {number} is another");
    }
    wal.close().await;
    groups.len() as u32
}

/// One harm at one operation; false when the run ended before it came.
async fn harmed(step: u64, harm: Harm, seed: u64, lie: Option<Lie>) -> bool {
    let dir = TempDir::new().unwrap();
    let config = config(dir.path());
    start(config.clone()).await.0.close().await;
    let disk = ModelDisk::over(dir.path(), seed ^ step);
    disk.harm_after(step, harm);
    if let Some(lie) = lie {
        disk.lies(lie);
    }
    let told = run(&config, &disk, 0).await;
    let Some(harmed) = disk.harmed() else {
        assert!(!told.has_failed && told.acknowledged == GROUPS);
        return false;
    };
    let what = format!("{harm:?} at operation {step}, {harmed}");
    if harm != Harm::Kill {
        // Also after an error: the machine may lose its power next.
        disk.leave_image();
    }
    let there = found(&config, &what).await;
    assert!(
        there >= told.acknowledged,
        "{what}: {} acknowledged, {there} there",
        told.acknowledged
    );
    assert!(
        there <= told.sent,
        "{what}: {} sent, {there} there",
        told.sent
    );
    // It goes on from there.
    let disk = ModelDisk::over(dir.path(), seed);
    let more = run(&config, &disk, there).await;
    assert_eq!(
        more.acknowledged,
        there + GROUPS,
        "{what}: it does not go on"
    );
    disk.leave_image();
    assert_eq!(found(&config, &what).await, there + GROUPS, "{what}: later");
    true
}

/// Every `stride`th operation, from one that the seed chooses, until a run needs no more.
async fn at_each_step(suite: &str, harm: Harm, tally: &Tally) {
    let mut cases = 0;
    for seed in tally.seeds() {
        let stride = tally.stride();
        let mut step = seed % stride;
        while harmed(step, harm, seed, None).await {
            cases += 1;
            step += stride;
        }
    }
    tally.report(suite, cases);
}

/// Source: measured; about 300 operations of 50 ms each.
const STRIDE: u64 = 17;

#[tokio::test]
async fn a_process_may_die_at_any_operation() {
    at_each_step("device: process killed", Harm::Kill, &Tally::begin(STRIDE)).await;
}

#[tokio::test]
async fn the_power_may_go_at_any_operation() {
    at_each_step("device: power cut", Harm::PowerCut, &Tally::begin(STRIDE)).await;
}

#[tokio::test]
async fn any_operation_may_fail_with_eio() {
    at_each_step("device: EIO", Harm::Eio, &Tally::begin(STRIDE)).await;
}

#[tokio::test]
async fn any_operation_may_find_no_space() {
    at_each_step("device: ENOSPC", Harm::NoSpace, &Tally::begin(STRIDE)).await;
}

#[tokio::test]
async fn a_device_that_lies_is_found_out() {
    for lie in [Lie::Files, Lie::Names] {
        // Some power cut shows it; by chance, one may not.
        let mut shown = false;
        for seed in 0..20 {
            let run = tokio::spawn(harmed(120, Harm::PowerCut, seed, Some(lie)));
            shown = run.await.is_err();
            if shown {
                break;
            }
        }
        assert!(shown, "lies about {lie:?}");
    }
    Tally::begin(1).report("device: liars found out", 2);
}
