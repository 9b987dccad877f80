//! The WAL through its public door.

use std::path::Path;
use std::sync::{Arc, Mutex};

use tempfile::TempDir;

use super::book::{Book, POISON, Page};
use crate::{MemoryWal, OpenError, PersistError, Wal, WalConfig, open};

pub(super) const CLUSTER: [u8; 16] = *b"a test's cluster";

/// Small segments, so that tests roll over often.
pub(super) fn small(dir: &Path) -> WalConfig {
    WalConfig {
        create: true,
        entry_bytes: 16 << 10,
        entry_groups: 64,
        segment_bytes: 512 << 10,
        queue_bytes: 1 << 20,
        ..WalConfig::new(dir, CLUSTER, 1)
    }
}

pub(super) async fn start(config: WalConfig) -> (Wal<Book>, Arc<Mutex<Page>>) {
    let (book, page) = Book::new();
    let wal = open(config, book, |reason| panic!("fatal: {reason}"))
        .await
        .unwrap();
    (wal, page)
}

pub(super) async fn refuse(config: WalConfig) -> OpenError {
    let (book, _page) = Book::new();
    match open(config, book, |reason| panic!("fatal: {reason}")).await {
        Ok(_) => panic!("the directory was accepted"),
        Err(error) => error,
    }
}

fn group(number: u32) -> Vec<u8> {
    format!("group {number}").into_bytes()
}

#[tokio::test]
async fn groups_come_back_in_order_after_a_restart() {
    let dir = TempDir::new().unwrap();
    let (wal, page) = start(small(dir.path())).await;
    let mut last = 0;
    for number in 0..200 {
        let receipt = wal.persist(group(number)).await.unwrap();
        assert!(receipt.lsn() > last);
        assert_eq!(*receipt.outcome(), number as usize + 1);
        last = receipt.lsn();
        let page = page.lock().unwrap();
        assert_eq!((page.groups.len(), page.lsn), (number as usize + 1, last));
    }
    let term = wal.status().term;
    wal.close().await;
    let (wal, again) = start(small(dir.path())).await;
    assert_eq!(again.lock().unwrap().groups, page.lock().unwrap().groups);
    assert!(wal.status().term > term);
    assert!(wal.barrier().await.unwrap() > last);
    assert!(wal.persist(group(200)).await.unwrap().lsn() > last);
    wal.close().await;
}

#[tokio::test]
async fn many_callers_share_entries_and_segments_roll_over() {
    let dir = TempDir::new().unwrap();
    let (wal, page) = start(small(dir.path())).await;
    let mut callers = Vec::new();
    for caller in 0..32_u32 {
        let wal = wal.clone();
        callers.push(tokio::spawn(async move {
            for number in 0..40_u32 {
                let mut group = vec![7; 2000];
                group[..4].copy_from_slice(&(caller * 1000 + number).to_le_bytes());
                wal.persist(group).await.unwrap();
            }
        }));
    }
    for caller in callers {
        caller.await.unwrap();
    }
    let status = wal.status();
    assert_eq!(status.groups, 32 * 40);
    assert!(
        status.entries < status.groups,
        "groups share entries: {status:?}"
    );
    wal.close().await;
    let segments = std::fs::read_dir(dir.path().join("log")).unwrap().count();
    assert!(segments > 3, "only {segments} segments");
    let (wal, again) = start(small(dir.path())).await;
    assert_eq!(again.lock().unwrap().groups, page.lock().unwrap().groups);
    wal.close().await;
}

#[tokio::test]
async fn a_second_owner_is_refused_until_the_first_has_closed() {
    let dir = TempDir::new().unwrap();
    let (wal, _page) = start(small(dir.path())).await;
    let error = refuse(small(dir.path())).await;
    assert!(matches!(error, OpenError::Locked { .. }), "{error}");
    wal.close().await;
    start(small(dir.path())).await.0.close().await;
}

#[tokio::test]
async fn a_foreign_directory_is_refused_by_name() {
    let dir = TempDir::new().unwrap();
    start(small(dir.path())).await.0.close().await;
    let other = WalConfig {
        cluster_id: [9; 16],
        ..small(dir.path())
    };
    let error = refuse(other).await.to_string();
    assert!(error.contains("belongs to cluster 6120"), "{error}");
    assert!(error.contains("not to 0909"), "{error}");
    let error = refuse(WalConfig {
        node_id: 2,
        ..small(dir.path())
    })
    .await
    .to_string();
    assert!(error.contains("belongs to node 1, not to 2"), "{error}");
    let identity = dir.path().join("IDENTITY");
    let text = std::fs::read_to_string(&identity).unwrap();
    std::fs::write(&identity, text.replace("format 1", "format 9")).unwrap();
    let error = refuse(small(dir.path())).await;
    assert!(
        matches!(
            error,
            OpenError::Newer {
                found: 9,
                known: 1,
                ..
            }
        ),
        "{error}"
    );
}

#[tokio::test]
async fn an_empty_directory_is_only_initialised_on_request() {
    let dir = TempDir::new().unwrap();
    for path in [dir.path().to_path_buf(), dir.path().join("missing")] {
        let error = refuse(WalConfig {
            create: false,
            ..small(&path)
        })
        .await;
        assert!(matches!(error, OpenError::NotInitialised { .. }), "{error}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_group_that_is_too_large_is_refused() {
    let dir = TempDir::new().unwrap();
    let (wal, page) = start(small(dir.path())).await;
    let max = 16 << 10;
    let refused = wal.persist(vec![0; max + 1]).await.unwrap_err();
    assert_eq!(
        refused,
        PersistError::TooLarge {
            bytes: max + 1,
            max
        }
    );
    wal.persist(vec![0; max]).await.unwrap();
    assert_eq!(page.lock().unwrap().groups.len(), 1);
    wal.close().await;
}

#[tokio::test]
async fn a_closed_wal_answers_stopped() {
    let dir = TempDir::new().unwrap();
    let (wal, _page) = start(small(dir.path())).await;
    let other = wal.clone();
    wal.close().await;
    assert_eq!(
        other.persist(group(1)).await.unwrap_err(),
        PersistError::Stopped
    );
    assert_eq!(other.barrier().await.unwrap_err(), PersistError::Stopped);
    assert!(other.status().stopped);
}

#[tokio::test]
async fn a_machine_that_panics_is_fatal_and_named() {
    let dir = TempDir::new().unwrap();
    let (told, mut reasons) = tokio::sync::mpsc::unbounded_channel();
    let (book, _page) = Book::new();
    let wal = open(small(dir.path()), book, move |reason| {
        told.send(reason).unwrap()
    })
    .await
    .unwrap();
    assert_eq!(
        wal.persist(POISON.to_vec()).await.unwrap_err(),
        PersistError::Unknown
    );
    let reason = reasons.recv().await.unwrap();
    assert!(reason.contains("poisoned group"), "{reason}");
    assert_eq!(
        wal.persist(group(1)).await.unwrap_err(),
        PersistError::Stopped
    );
    assert_eq!(wal.status().alarm, Some(reason));
    wal.close().await;
}

#[tokio::test]
async fn a_wal_in_memory_answers_like_one_on_disk() {
    let (book, page) = Book::new();
    let memory = MemoryWal::new(book);
    let wal = Wal::from(memory.clone());
    let receipt = wal.persist(group(1)).await.unwrap();
    assert_eq!(
        (receipt.lsn(), receipt.term(), *receipt.outcome()),
        (1, 1, 1)
    );
    memory.refuse_next(PersistError::Unknown);
    assert_eq!(
        wal.persist(group(2)).await.unwrap_err(),
        PersistError::Unknown
    );
    assert_eq!(wal.barrier().await, Ok(1));
    assert_eq!(page.lock().unwrap().groups, [group(1)]);
    wal.close().await;
    assert_eq!(memory.persist_now(b"x").unwrap_err(), PersistError::Stopped);
}

#[tokio::test]
async fn once_idle_even_the_last_group_is_vouched_for() {
    let dir = TempDir::new().unwrap();
    let config = WalConfig {
        watermark_after: std::time::Duration::from_millis(1),
        ..small(dir.path())
    };
    let (wal, _page) = start(config.clone()).await;
    let _receipt = wal.persist(group(1)).await.unwrap();
    let syncs = wal.status().syncs;
    while wal.status().syncs == syncs {
        tokio::task::yield_now().await;
    }
    wal.close().await;
    let path = dir.path().join("log/00000000000000000001.seg");
    let mut bytes = std::fs::read(&path).unwrap();
    let text = b"group 1";
    let at = bytes
        .windows(text.len())
        .rposition(|window| window == text)
        .unwrap();
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let error = refuse(config).await;
    let OpenError::Damage(damage) = &error else {
        panic!("{error}")
    };
    assert_eq!(
        (&damage.file, damage.offset),
        (&path, at as u64 / 4096 * 4096)
    );
    assert!(
        error.to_string().contains("Restore the state directory"),
        "{error}"
    );
}

#[tokio::test]
async fn a_lost_log_or_identity_is_refused_by_name() {
    let dir = TempDir::new().unwrap();
    let (wal, _page) = start(small(dir.path())).await;
    let receipt = wal.persist(group(1)).await.unwrap();
    let (proof, outcome) = receipt.into_parts();
    assert_eq!((proof.position().sub, outcome), (0, 1));
    wal.close().await;
    let identity = dir.path().join("IDENTITY");
    let text = std::fs::read(&identity).unwrap();
    std::fs::remove_file(&identity).unwrap();
    let error = refuse(small(dir.path())).await.to_string();
    assert!(
        error.contains("although the file IDENTITY is missing"),
        "{error}"
    );
    std::fs::write(&identity, b"format one").unwrap();
    let error = refuse(small(dir.path())).await.to_string();
    assert!(error.contains("does not name a format"), "{error}");
    std::fs::write(&identity, text).unwrap();
    std::fs::remove_dir_all(dir.path().join("log")).unwrap();
    let error = refuse(small(dir.path())).await.to_string();
    assert!(error.contains("the log segments are missing"), "{error}");
}

#[tokio::test]
async fn settings_that_cannot_work_are_refused_by_name() {
    let dir = TempDir::new().unwrap();
    let config = small(dir.path());
    let faulty = [
        (
            WalConfig {
                node_id: 0,
                ..config.clone()
            },
            "node_id",
        ),
        (
            WalConfig {
                entry_bytes: 0,
                ..config.clone()
            },
            "entry_bytes",
        ),
        (
            WalConfig {
                entry_groups: 0,
                ..config.clone()
            },
            "entry_groups",
        ),
        (
            WalConfig {
                queue_groups: 0,
                ..config.clone()
            },
            "queue_groups",
        ),
        (
            WalConfig {
                segment_bytes: 64 << 10,
                ..config.clone()
            },
            "segment_bytes",
        ),
        (
            WalConfig {
                segment_bytes: (1 << 20) + 1,
                ..config
            },
            "segment_bytes",
        ),
    ];
    for (config, name) in faulty {
        let error = refuse(config).await.to_string();
        assert!(error.contains(name), "{error}");
    }
}
