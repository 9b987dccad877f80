//! Power cuts, full disks and overload: what was acknowledged is there, what was refused is not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tempfile::TempDir;

use super::book::Book;
use super::faults::FaultyDisk;
use super::wal::{refuse, small, start};
use crate::{PersistError, WalConfig, open};

/// Writers number their groups; each stops at its first error and says what was acknowledged.
const WRITERS: u8 = 6;

fn numbered(writer: u8, number: u32) -> Vec<u8> {
    let mut group = vec![writer; 200 + usize::from(writer) * 300];
    group[1..5].copy_from_slice(&number.to_le_bytes());
    group
}

/// Runs writers until the plug is pulled at the `plug`th write; gives how many groups of each
/// writer were acknowledged and how many were sent.
async fn run_until_cut(
    config: &WalConfig,
    plug: u64,
    torn_blocks: u64,
    from: &[u32],
) -> Vec<(u32, u32)> {
    let (disk, faults) = FaultyDisk::with_faults();
    faults.torn_blocks.store(torn_blocks, Ordering::SeqCst);
    faults.pull_plug.store(plug, Ordering::SeqCst);
    let failed = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&failed);
    let (book, _page) = Book::new();
    let config = WalConfig {
        disk: Some(disk),
        ..config.clone()
    };
    let opened = open(config, book, move |_| seen.store(true, Ordering::SeqCst)).await;
    let Ok(wal) = opened else {
        return from.iter().map(|from| (*from, *from)).collect();
    };
    let mut writers = Vec::new();
    for (writer, from) in (0..).zip(from.iter().copied()) {
        let wal = wal.clone();
        writers.push(tokio::spawn(async move {
            let mut number = from;
            loop {
                match wal.persist(numbered(writer, number)).await {
                    Ok(_) => number += 1,
                    Err(PersistError::Unknown) => return (number, number + 1),
                    Err(PersistError::Stopped) => return (number, number),
                    Err(other) => panic!("refused: {other}"),
                }
            }
        }));
    }
    let mut answers = Vec::new();
    for writer in writers {
        answers.push(writer.await.unwrap());
    }
    assert!(failed.load(Ordering::SeqCst), "the failure was reported");
    wal.close().await;
    answers
}

#[tokio::test]
async fn after_a_power_cut_at_any_write_all_that_was_acknowledged_is_there_in_order() {
    let mut random = fastrand_like(42);
    for _ in 0..12 {
        let dir = TempDir::new().unwrap();
        let config = WalConfig {
            snapshot_every_entries: 40,
            ..small(dir.path())
        };
        start(config.clone()).await.0.close().await;
        let mut from = vec![0; usize::from(WRITERS)];
        for _ in 0..3 {
            let (plug, torn) = (random() % 120, random() % 6);
            let answers = run_until_cut(&config, plug, torn, &from).await;
            let (wal, page) = start(config.clone()).await;
            let mut next = vec![0; usize::from(WRITERS)];
            for group in &page.lock().unwrap().groups {
                let writer = usize::from(group[0]);
                assert_eq!(
                    *group,
                    numbered(group[0], next[writer]),
                    "order of one writer"
                );
                next[writer] += 1;
            }
            for (writer, (acknowledged, sent)) in answers.iter().enumerate() {
                assert!(
                    next[writer] >= *acknowledged,
                    "lost: {answers:?}, found {next:?}"
                );
                assert!(
                    next[writer] <= *sent,
                    "invented: {answers:?}, found {next:?}"
                );
            }
            wal.close().await;
            from = next;
        }
    }
}

/// A small generator of its own, so that a run can be repeated.
fn fastrand_like(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    }
}

#[tokio::test]
async fn a_full_disk_refuses_writes_and_goes_on_when_there_is_space() {
    let dir = TempDir::new().unwrap();
    let (disk, faults) = FaultyDisk::with_faults();
    let config = WalConfig {
        disk: Some(disk),
        space_retry: Duration::from_millis(1),
        ..small(dir.path())
    };
    let (wal, page) = start(config).await;
    faults.full.store(true, Ordering::SeqCst);
    let mut written = 0;
    let refusal = loop {
        match wal.persist(vec![5; 10_000]).await {
            Ok(_) => written += 1,
            Err(refusal) => break refusal,
        }
        assert!(written < 1000, "the disk never fills up");
    };
    assert_eq!(refusal, PersistError::DiskFull);
    assert!(written > 20, "{written}");
    let alarm = wal.status().alarm.unwrap();
    assert!(alarm.contains("cannot prepare log segment"), "{alarm}");
    // Refused for certain, for everybody, and no matter how often.
    for _ in 0..20 {
        assert_eq!(
            wal.persist(vec![5; 10_000]).await.unwrap_err(),
            PersistError::DiskFull
        );
    }
    assert_eq!(page.lock().unwrap().groups.len(), written);
    assert!(!wal.status().stopped);
    faults.full.store(false, Ordering::SeqCst);
    while wal.persist(vec![6; 10_000]).await.is_err() {
        tokio::task::yield_now().await;
    }
    for _ in 0..100 {
        wal.persist(vec![6; 10_000]).await.unwrap();
    }
    while wal.status().alarm.is_some() {
        tokio::task::yield_now().await;
    }
    wal.close().await;
    let (wal, again) = start(small(dir.path())).await;
    assert_eq!(again.lock().unwrap().groups, page.lock().unwrap().groups);
    assert_eq!(again.lock().unwrap().groups.len(), written + 101);
    wal.close().await;
}

#[tokio::test]
async fn a_full_queue_refuses_at_once_and_loses_nothing() {
    let dir = TempDir::new().unwrap();
    let (disk, faults) = FaultyDisk::with_faults();
    let config = WalConfig {
        disk: Some(disk),
        queue_groups: 8,
        ..small(dir.path())
    };
    let (wal, page) = start(config).await;
    faults.hold();
    let mut waiting = Vec::new();
    // Two entries in flight take what they find; then eight groups wait and the next is refused.
    let refused = loop {
        let sender = wal.clone();
        let mut sent = Box::pin(async move { sender.persist(vec![1; 100]).await });
        match futures::poll!(&mut sent) {
            std::task::Poll::Ready(answer) => break answer.unwrap_err(),
            std::task::Poll::Pending => waiting.push(sent),
        }
        tokio::task::yield_now().await;
        assert!(waiting.len() < 1000, "nothing is ever refused");
    };
    assert_eq!(refused, PersistError::Overloaded);
    assert!(waiting.len() >= 8, "{}", waiting.len());
    assert!(
        page.lock().unwrap().groups.is_empty(),
        "nothing was acknowledged before the sync"
    );
    faults.let_go();
    let count = waiting.len();
    for sent in waiting {
        sent.await.unwrap();
    }
    assert_eq!(page.lock().unwrap().groups.len(), count);
    assert_eq!(wal.status().queue_groups, 0);
    wal.close().await;
}

#[tokio::test]
async fn a_failed_sync_is_fatal_and_its_callers_learn_unknown() {
    let dir = TempDir::new().unwrap();
    let (disk, faults) = FaultyDisk::with_faults();
    let (told, mut reasons) = tokio::sync::mpsc::unbounded_channel();
    let (book, page) = Book::new();
    let config = WalConfig {
        disk: Some(disk),
        ..small(dir.path())
    };
    let wal = open(config, book, move |reason| told.send(reason).unwrap())
        .await
        .unwrap();
    wal.persist(b"kept".to_vec()).await.unwrap();
    faults
        .fail_sync
        .store(faults.syncs.load(Ordering::SeqCst), Ordering::SeqCst);
    assert_eq!(
        wal.persist(b"lost".to_vec()).await.unwrap_err(),
        PersistError::Unknown
    );
    let reason = reasons.recv().await.unwrap();
    assert!(reason.contains("injected sync error"), "{reason}");
    assert_eq!(
        wal.persist(b"late".to_vec()).await.unwrap_err(),
        PersistError::Stopped
    );
    assert_eq!(page.lock().unwrap().groups, [b"kept"]);
    wal.close().await;
    assert!(reasons.recv().await.is_none(), "reported once");
}

#[tokio::test]
async fn a_disk_that_is_full_from_the_start_is_refused_by_name() {
    let dir = TempDir::new().unwrap();
    let (disk, faults) = FaultyDisk::with_faults();
    faults.full.store(true, Ordering::SeqCst);
    let config = WalConfig {
        disk: Some(disk),
        ..small(dir.path())
    };
    let error = crate::error::chain(&refuse(config.clone()).await);
    assert!(error.contains("cannot prepare log segment"), "{error}");
    faults.full.store(false, Ordering::SeqCst);
    start(config.clone()).await.0.close().await;
    // The reserve allows for some starts on a full disk; then the reason is named.
    faults.full.store(true, Ordering::SeqCst);
    let mut starts = 0;
    let error = loop {
        let (book, _page) = Book::new();
        match open(config.clone(), book, |reason| panic!("fatal: {reason}")).await {
            Ok(wal) => {
                while wal.persist(vec![5; 10_000]).await.is_ok() {}
                wal.close().await;
            }
            Err(error) => break error.to_string(),
        }
        starts += 1;
        assert!(starts < 100, "starts write nothing");
    };
    assert!(starts > 2, "{starts}");
    assert!(error.contains("cannot prepare log segment"), "{error}");
}
