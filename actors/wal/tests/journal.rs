//! The journal through the public door: whole, in parts, under a running log, damaged.

use std::path::Path;
use std::sync::{Arc, Mutex};

use tempfile::TempDir;

use super::book::{Book, Page};
use super::wal::{small, start};
use crate::{JournalError, JournalReader, Machine, Position, SnapshotError, Wal, WalConfig};

async fn write(wal: &Wal<Book>, count: u8) {
    for number in 0..count {
        wal.persist(vec![number; 3000]).await.unwrap();
    }
}

/// All pages of an export.
fn export(wal: &Wal<Book>, bytes_max: usize) -> Result<Vec<u8>, JournalError> {
    let (mut cursor, mut bytes) = (None, Vec::new());
    loop {
        let page = wal.journal_page(cursor, bytes_max)?;
        assert!(page.bytes.len() <= bytes_max + 8192, "a page is bounded");
        bytes.extend_from_slice(&page.bytes);
        if page.done {
            return Ok(bytes);
        }
        cursor = Some(page.cursor);
    }
}

/// Follows a journal from front to back.
fn follow(path: &Path) -> Result<(u64, Arc<Mutex<Page>>), SnapshotError> {
    let mut reader = JournalReader::open(path)?;
    let (mut book, page) = Book::new();
    reader.restore(&mut book)?;
    let base = reader.head().base;
    let mut lsn = base;
    while let Some(entry) = reader.next_entry()? {
        assert_eq!(entry.lsn, lsn + 1);
        lsn = entry.lsn;
        for (sub, group) in (0..).zip(&entry.groups) {
            let at = Position {
                term: entry.term,
                lsn,
                sub,
            };
            book.apply(at, group);
        }
        book.publish(entry.lsn, entry.term);
    }
    assert_eq!(lsn, reader.head().end);
    Ok((base, page))
}

fn saved(dir: &TempDir, bytes: &[u8]) -> std::path::PathBuf {
    let path = dir.path().join("journal");
    // A file that is written over would be synced when it is closed.
    drop(std::fs::remove_file(&path));
    std::fs::write(&path, bytes).unwrap();
    path
}

#[tokio::test]
async fn a_journal_gives_the_same_state_with_and_without_a_snapshot() {
    let dir = TempDir::new().unwrap();
    let (wal, page) = start(small(dir.path())).await;
    let file = TempDir::new().unwrap();
    for round in 0..4 {
        write(&wal, 20).await;
        for bytes_max in [50, 5000, 1 << 20] {
            let path = saved(&file, &export(&wal, bytes_max).unwrap());
            let (base, followed) = follow(&path).unwrap();
            // Before there are two snapshots nothing is purged.
            assert!(base == 0 || round > 1, "it begins as far back as it can");
            let (want, found) = (page.lock().unwrap(), followed.lock().unwrap());
            assert_eq!((&want.groups, want.lsn), (&found.groups, found.lsn));
        }
        wal.snapshot_now().await.unwrap();
    }
    wal.close().await;
    // What is kept after a restart is exported alike.
    let (wal, page) = start(small(dir.path())).await;
    let path = saved(&file, &export(&wal, 4096).unwrap());
    let (_, followed) = follow(&path).unwrap();
    assert_eq!(page.lock().unwrap().groups, followed.lock().unwrap().groups);
    wal.close().await;
}

#[tokio::test]
async fn an_export_ends_where_it_began_although_the_log_grows() {
    let dir = TempDir::new().unwrap();
    let (wal, _page) = start(small(dir.path())).await;
    write(&wal, 30).await;
    let first = wal.journal_page(None, 100).unwrap();
    write(&wal, 30).await;
    let (mut cursor, mut bytes) = (first.cursor, first.bytes);
    loop {
        let page = wal.journal_page(Some(cursor), 100).unwrap();
        bytes.extend_from_slice(&page.bytes);
        cursor = page.cursor;
        if page.done {
            break;
        }
    }
    let file = TempDir::new().unwrap();
    let (_, followed) = follow(&saved(&file, &bytes)).unwrap();
    assert_eq!(followed.lock().unwrap().groups.len(), 30);
    wal.close().await;
}

#[tokio::test]
async fn a_snapshot_that_is_gone_is_said_and_a_false_cursor_is_refused() {
    let dir = TempDir::new().unwrap();
    let (wal, _page) = start(small(dir.path())).await;
    write(&wal, 10).await;
    wal.snapshot_now().await.unwrap();
    let page = wal.journal_page(None, 1000).unwrap();
    // Purging is in the background.
    let mut later = wal.journal_page(Some(page.cursor), 1000);
    for _ in 0..100 {
        write(&wal, 10).await;
        wal.snapshot_now().await.unwrap();
        later = wal.journal_page(Some(page.cursor), 1000);
        if later.is_err() {
            break;
        }
    }
    assert!(matches!(later, Err(JournalError::Superseded)), "{later:?}");
    let mut wrong = page.cursor;
    wrong.lsn = wrong.end + 1;
    let refused = wal.journal_page(Some(wrong), 1000);
    assert!(matches!(refused, Err(JournalError::BadCursor)));
    // Whatever the cursor says, nothing is read that does not exist.
    wrong.end = u64::MAX;
    let refused = wal.journal_page(Some(wrong), 1000);
    assert!(matches!(refused, Err(JournalError::BadCursor)));
    wal.close().await;
}

#[tokio::test]
async fn a_file_that_is_damaged_or_cut_off_is_refused_with_its_offset() {
    let dir = TempDir::new().unwrap();
    let (wal, _page) = start(WalConfig {
        snapshot_every_entries: u64::MAX,
        ..small(dir.path())
    })
    .await;
    write(&wal, 2).await;
    wal.snapshot_now().await.unwrap();
    wal.persist(b"one".to_vec()).await.unwrap();
    wal.persist(b"two".to_vec()).await.unwrap();
    let bytes = export(&wal, 1 << 20).unwrap();
    wal.close().await;
    let file = TempDir::new().unwrap();
    follow(&saved(&file, &bytes)).unwrap();
    for length in 0..bytes.len() {
        let error = follow(&saved(&file, &bytes[..length])).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("is damaged at offset"),
            "cut at {length}: {text}"
        );
    }
    for place in 0..bytes.len() {
        let mut wrong = bytes.clone();
        wrong[place] ^= 0x20;
        assert!(follow(&saved(&file, &wrong)).is_err(), "byte {place}");
    }
    let longer = [&bytes[..], b"x"].concat();
    let error = follow(&saved(&file, &longer)).unwrap_err().to_string();
    assert!(error.contains("bytes follow the footer"), "{error}");
}
