use std::path::PathBuf;

use tempfile::TempDir;
use xce_ledger::{Group, Ledger};
use xce_wal::{Wal, WalConfig};

use super::histories::eventful;
use crate::{ReplayError, replay_file};

async fn open(directory: &TempDir) -> Wal<Ledger> {
    let config = WalConfig {
        create: true,
        ..WalConfig::new(directory.path(), [7; 16], 1)
    };
    let ledger = Ledger::new(Box::new(|_, _| ()));
    let wal = xce_wal::open(config, ledger, |text| panic!("{text}")).await;
    wal.unwrap()
}

fn export(wal: &Wal<Ledger>, directory: &TempDir) -> PathBuf {
    let (mut cursor, mut bytes) = (None, Vec::new());
    loop {
        let page = wal.journal_page(cursor, 10_000).unwrap();
        bytes.extend_from_slice(&page.bytes);
        if page.done {
            break;
        }
        cursor = Some(page.cursor);
    }
    let path = directory.path().join("journal");
    std::fs::write(&path, bytes).unwrap();
    path
}

/// A log on disk has positions of its own, so groups are decided from there anew: here only what
/// does not depend on positions is looked at.
#[tokio::test]
async fn a_journal_is_read_and_what_is_not_readable_is_named() {
    let directory = TempDir::new().unwrap();
    let wal = open(&directory).await;
    let world = eventful();
    let inputs: Vec<&Group> = world
        .log
        .iter()
        .map(|(_, group)| group)
        .filter(|group| group.event.is_none())
        .collect();
    for group in &inputs {
        wal.persist(group.encode()).await.unwrap();
    }
    let path = export(&wal, &directory);
    let report = replay_file(&path).unwrap();
    assert_eq!(report.groups, inputs.len() as u64);
    assert_eq!((report.inputs, report.differing), (report.groups, 0));
    let lsn = wal.status().last_lsn;
    assert_eq!((report.from, report.to), (0, lsn));

    // Once the log was purged it begins with a snapshot; purging is in the background.
    let mut report = report;
    for _ in 0..100 {
        wal.snapshot_now().await.unwrap();
        wal.persist(inputs[0].encode()).await.unwrap();
        report = replay_file(&export(&wal, &directory)).unwrap();
        if report.from > 0 {
            break;
        }
    }
    assert!(report.from >= lsn, "{report:?}");
    assert_eq!(report.to, wal.status().last_lsn);
    assert_eq!(report.groups, report.to - report.from);
    wal.close().await;

    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let error = replay_file(&path).unwrap_err();
    assert!(matches!(error, ReplayError::Journal(_)));
    assert!(error.to_string().contains("at offset"), "{error}");
    let error = replay_file(&directory.path().join("none")).unwrap_err();
    assert!(error.to_string().starts_with("cannot open"), "{error}");
}
