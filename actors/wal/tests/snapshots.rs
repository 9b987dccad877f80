//! Snapshots through the public door: recovery from snapshot and log, and what breaks.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::book::Book;
use super::conformance::Tally;
use super::synced;
use super::wal::{CLUSTER, refuse, small, start};
use crate::record::LogPosition;
use crate::snapshot::{SnapshotHead, SnapshotStore};
use crate::{OpenError, Wal, WalConfig};

fn snapshots(dir: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = std::fs::read_dir(dir.join("snapshots"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "snap")
        })
        .collect();
    paths.sort();
    paths
}

async fn write(wal: &Wal<Book>, groups: std::ops::Range<u32>) {
    for number in groups {
        let mut group = vec![1; 3000];
        group[..4].copy_from_slice(&number.to_le_bytes());
        wal.persist(group).await.unwrap();
    }
}

/// Three snapshots with groups before, between and after them.
async fn filled(dir: &Path) -> Vec<Vec<u8>> {
    let (wal, page) = start(small(dir)).await;
    for round in 0..3 {
        write(&wal, round * 100..(round + 1) * 100).await;
        let lsn = wal.snapshot_now().await.unwrap();
        assert_eq!(
            (lsn, wal.status().snapshot_lsn),
            (wal.status().last_lsn, lsn)
        );
    }
    write(&wal, 300..320).await;
    wal.close().await;
    page.lock().unwrap().groups.clone()
}

fn flip(path: &Path, offset: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[offset] ^= 0x10;
    std::fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn two_are_kept_and_the_state_comes_back() {
    let dir = TempDir::new().unwrap();
    let groups = filled(dir.path()).await;
    assert_eq!(groups.len(), 320);
    assert_eq!(snapshots(dir.path()).len(), 2);
    let (wal, page) = start(small(dir.path())).await;
    assert_eq!(page.lock().unwrap().groups, groups);
    assert!(wal.status().snapshot_lsn > 200);
    write(&wal, 320..330).await;
    wal.close().await;
    let (wal, page) = start(small(dir.path())).await;
    assert_eq!(page.lock().unwrap().groups.len(), 330);
    wal.close().await;
}

#[tokio::test]
async fn the_log_is_purged_only_up_to_the_older_one() {
    let dir = TempDir::new().unwrap();
    let groups = filled(dir.path()).await;
    // Purging is in the background: what counts is that the log got shorter but suffices.
    let (wal, _page) = start(small(dir.path())).await;
    wal.close().await;
    let first = std::fs::read_dir(dir.path().join("log"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".seg"))
        .min()
        .unwrap();
    assert!(first.as_str() > "00000000000000000001.seg", "{first}");
    let newest = snapshots(dir.path()).pop().unwrap();
    std::fs::remove_file(newest).unwrap();
    let (wal, page) = start(small(dir.path())).await;
    assert_eq!(page.lock().unwrap().groups, groups);
    wal.close().await;
}

#[tokio::test]
async fn a_broken_newest_one_falls_back_to_the_older_and_the_log() {
    let dir = TempDir::new().unwrap();
    let groups = filled(dir.path()).await;
    let newest = snapshots(dir.path()).pop().unwrap();
    flip(&newest, 700);
    let (wal, page) = start(small(dir.path())).await;
    assert_eq!(page.lock().unwrap().groups, groups);
    let lsn = wal.snapshot_now().await.unwrap();
    wal.close().await;
    let (wal, page) = start(small(dir.path())).await;
    assert_eq!(
        (wal.status().snapshot_lsn, page.lock().unwrap().groups.len()),
        (lsn, 320)
    );
    wal.close().await;
}

#[tokio::test]
async fn without_a_usable_one_and_with_a_purged_log_it_is_refused_by_name() {
    let dir = TempDir::new().unwrap();
    filled(dir.path()).await;
    for path in snapshots(dir.path()) {
        flip(&path, 700);
    }
    let error = refuse(small(dir.path())).await;
    let text = crate::error::chain(&error);
    assert!(matches!(error, OpenError::Snapshot(_)), "{text}");
    assert!(text.contains(".snap is damaged at offset"), "{text}");
    for path in snapshots(dir.path()) {
        std::fs::remove_file(path).unwrap();
    }
    let error = refuse(small(dir.path())).await;
    assert!(
        error.to_string().contains("the log was purged up to"),
        "{error}"
    );
}

#[tokio::test]
async fn without_a_usable_one_the_whole_log_suffices() {
    let dir = TempDir::new().unwrap();
    let (wal, page) = start(small(dir.path())).await;
    write(&wal, 0..50).await;
    wal.snapshot_now().await.unwrap();
    wal.close().await;
    flip(&snapshots(dir.path())[0], 700);
    let (wal, again) = start(small(dir.path())).await;
    assert_eq!(again.lock().unwrap().groups, page.lock().unwrap().groups);
    wal.close().await;
}

#[tokio::test]
async fn a_snapshot_beyond_the_log_is_refused() {
    let dir = TempDir::new().unwrap();
    let (wal, _page) = start(small(dir.path())).await;
    write(&wal, 0..5).await;
    wal.close().await;
    let store = SnapshotStore::new(synced(), dir.path().join("snapshots"), CLUSTER);
    let last = Some(LogPosition {
        term: 9,
        index: 900,
    });
    let membership = {
        let other = TempDir::new().unwrap();
        filled(other.path()).await;
        let mut book = Book::new().0;
        let store = SnapshotStore::new(synced(), other.path().join("snapshots"), CLUSTER);
        store
            .restore_newest(&mut book)
            .unwrap()
            .unwrap()
            .head
            .membership
    };
    store
        .write(
            SnapshotHead {
                last,
                membership,
                installed: false,
            },
            &mut std::iter::empty(),
        )
        .unwrap();
    let error = refuse(small(dir.path())).await.to_string();
    assert!(error.contains("but a snapshot covers 900"), "{error}");
}

#[tokio::test]
async fn they_are_taken_by_themselves_while_groups_go_on() {
    let dir = TempDir::new().unwrap();
    let config = WalConfig {
        snapshot_every_entries: 50,
        ..small(dir.path())
    };
    let (wal, page) = start(config.clone()).await;
    let mut number = 0;
    while wal.status().snapshot_lsn < 150 {
        write(&wal, number..number + 10).await;
        number += 10;
        assert!(number < 100_000, "no snapshot is taken");
    }
    wal.close().await;
    let (wal, again) = start(config).await;
    assert_eq!(again.lock().unwrap().groups, page.lock().unwrap().groups);
    wal.close().await;
}

#[test]
fn no_flipped_bit_and_no_cut_gives_another_state() {
    let dir = TempDir::new().unwrap();
    let store = || SnapshotStore::new(synced(), dir.path().to_path_buf(), CLUSTER);
    let head = SnapshotHead {
        last: Some(LogPosition { term: 1, index: 5 }),
        membership: vec![8; 40],
        installed: false,
    };
    let records: Vec<_> = (0..200_u8)
        .map(|number| vec![number; usize::from(number) * 3])
        .collect();
    let info = store()
        .write(head.clone(), &mut records.clone().into_iter())
        .unwrap();
    let whole = std::fs::read(&info.path).unwrap();
    let tally = Tally::begin(1);
    let turns = tally.seeds();
    let cases = (0..whole.len()).flat_map(|offset| turns.clone().map(move |turn| (offset, turn)));
    let count = cases.clone().count() as u64;
    for (offset, turn) in cases {
        let mut bytes = whole.clone();
        bytes[offset] ^= 1 << ((offset as u64 + turn) % 8);
        std::fs::write(&info.path, &bytes).unwrap();
        let (mut book, _page) = Book::new();
        assert!(
            store().restore_newest(&mut book).is_err(),
            "flip at {offset}"
        );
        if offset % 16 == 0 {
            std::fs::write(&info.path, &whole[..offset]).unwrap();
            assert!(
                store().restore_newest(&mut book).is_err(),
                "cut at {offset}"
            );
        }
    }
    tally.report("bit flips, snapshot", count);
    std::fs::write(&info.path, &whole).unwrap();
    let (mut book, _page) = Book::new();
    assert_eq!(
        store().restore_newest(&mut book).unwrap().unwrap().head,
        head
    );
    assert_eq!(crate::Machine::snapshot(&book).collect::<Vec<_>>(), records);
}

#[test]
fn large_records_take_frames_of_their_own() {
    let dir = TempDir::new().unwrap();
    let store = SnapshotStore::new(synced(), dir.path().to_path_buf(), CLUSTER);
    let records: Vec<_> = (0..6_u8)
        .map(|number| vec![number; (usize::from(number) + 1) << 19])
        .collect();
    let head = SnapshotHead {
        last: None,
        membership: Vec::new(),
        installed: false,
    };
    store.write(head, &mut records.clone().into_iter()).unwrap();
    let (mut book, _page) = Book::new();
    store.restore_newest(&mut book).unwrap().unwrap();
    assert_eq!(crate::Machine::snapshot(&book).collect::<Vec<_>>(), records);
}

#[tokio::test]
async fn one_that_cannot_be_written_raises_an_alarm_and_changes_nothing() {
    let dir = TempDir::new().unwrap();
    let (wal, page) = start(small(dir.path())).await;
    write(&wal, 0..5).await;
    let folder = dir.path().join("snapshots");
    std::fs::remove_dir(&folder).unwrap();
    let error = wal.snapshot_now().await.unwrap_err();
    assert!(
        error.to_string().contains("cannot write snapshot"),
        "{error}"
    );
    assert!(
        wal.status()
            .alarm
            .unwrap()
            .contains("cannot write snapshot")
    );
    write(&wal, 5..10).await;
    std::fs::create_dir(&folder).unwrap();
    wal.snapshot_now().await.unwrap();
    assert_eq!((wal.status().alarm, wal.status().stopped), (None, false));
    wal.close().await;
    assert_eq!(page.lock().unwrap().groups.len(), 10);
    let (wal, again) = start(small(dir.path())).await;
    assert_eq!(again.lock().unwrap().groups, page.lock().unwrap().groups);
    assert!(wal.status().snapshot_lsn > 0);
    wal.close().await;
}
