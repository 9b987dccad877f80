//! Backups of a real log: whole, damaged anywhere, and begun anew from.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use xce_ledger::{Anew, Group, Ledger, MemberFact};
use xce_model::{ClusterId, ClusterTime, WallTime};
use xce_wal::{Beginning, Member, Wal, WalConfig};

use crate::{Backup, BackupError, Controller, Head, Skip, begin};

const CLUSTER: ClusterId = ClusterId([7; 16]);

fn head() -> Head {
    Head {
        cluster: CLUSTER,
        taken: WallTime(1_000),
        version: "0.1.0".into(),
        controllers: vec![Controller {
            node: 1,
            address: "c1.site:7477".into(),
        }],
        certificate: "a certificate".into(),
        key: "a secret".into(),
    }
}

fn config(dir: &Path, node: u64) -> WalConfig {
    WalConfig {
        create: true,
        ..WalConfig::new(dir, CLUSTER.0, node)
    }
}

async fn wal(dir: &Path, node: u64) -> Wal<Ledger> {
    let ledger = Ledger::new(Box::new(|_, _| {}));
    let opened = xce_wal::open(config(dir, node), ledger, |text| panic!("{text}")).await;
    opened.unwrap()
}

fn numbered(node: u64) -> Vec<u8> {
    Group::new(ClusterTime(5), WallTime(2_000), "invite")
        .with(MemberFact::Numbered { node })
        .encode()
}

/// A backup of a log with some groups, and a snapshot in their midst.
async fn backup(dir: &TempDir) -> PathBuf {
    let wal = wal(&dir.path().join("state"), 1).await;
    for node in 2..5 {
        wal.persist(numbered(node)).await.unwrap();
    }
    wal.snapshot_now().await.unwrap();
    wal.snapshot_now().await.unwrap();
    for node in 5..9 {
        wal.persist(numbered(node)).await.unwrap();
    }
    let (mut cursor, mut bytes) = (None, head().encode());
    loop {
        let page = wal.journal_page(cursor, 1 << 16).unwrap();
        bytes.extend_from_slice(&page.bytes);
        if page.done {
            break;
        }
        cursor = Some(page.cursor);
    }
    wal.close().await;
    let file = dir.path().join("backup");
    std::fs::write(&file, bytes).unwrap();
    file
}

#[tokio::test]
async fn a_cluster_begins_anew_from_a_backup() {
    let dir = TempDir::new().unwrap();
    let file = backup(&dir).await;
    let opened = Backup::open(&file).unwrap();
    assert_eq!(*opened.head(), head());
    let shown = format!("{opened:?}");
    assert!(!shown.contains("secret"), "{shown}");
    let mut contents = opened.contents().unwrap();
    assert_eq!(contents.ledger.view().last_controller(), 8);
    assert_eq!(contents.ledger.view().epoch(), 1);
    let skip = Skip::since(WallTime(2_000), WallTime(62_000));
    let seen = (contents.term, contents.lsn);
    let by = ("root", WallTime(62_000));
    let begun = begin(&mut contents.ledger, Anew::Restored, None, seen, skip, by);
    assert_eq!(begun.epoch.number, 2);
    assert_eq!(begun.epoch.controllers, (8, 200));
    assert_eq!(begun.epoch.founder, 201);
    assert!(begun.epoch.at > contents.lsn + 60 * 10_000);
    assert!(begun.term > contents.term + 1000);
    let member = Member {
        node: 201,
        address: "127.0.0.1:1".into(),
    };
    let beginning = Beginning {
        term: begun.term,
        lsn: begun.epoch.at,
        member,
    };
    let state = dir.path().join("restored");
    xce_wal::begin_anew(&config(&state, 201), &contents.ledger, &beginning).unwrap();
    let again = xce_wal::begin_anew(&config(&state, 201), &contents.ledger, &beginning);
    assert!(
        again
            .unwrap_err()
            .to_string()
            .contains("holds a log already")
    );
    for _ in 0..2 {
        let wal = wal(&state, 201).await;
        let receipt = wal.persist(numbered(300)).await.unwrap();
        assert!(receipt.lsn() > begun.epoch.at);
        assert!(receipt.term() > begun.term);
        assert_eq!(wal.members().len(), 1);
        wal.close().await;
    }
}

#[tokio::test]
async fn what_one_controller_has_is_kept_and_begins_anew() {
    let dir = TempDir::new().unwrap();
    drop(backup(&dir).await);
    let state = dir.path().join("state");
    let ledger = || Ledger::new(Box::new(|_, _| {}));
    let mut remains = xce_wal::remains_of(&config(&state, 1), ledger()).unwrap();
    assert_eq!(remains.voters.len(), 1);
    assert!(remains.last >= remains.committed && remains.committed > 0);
    assert_eq!(remains.machine.view().last_controller(), 8);
    // Nobody else can use it meanwhile.
    assert!(xce_wal::remains_of(&config(&state, 1), ledger()).is_err());
    let skip = Skip::since(WallTime(2_000), WallTime(2_000));
    let seen = (remains.term, remains.last);
    let by = ("root", WallTime(3));
    let begun = begin(&mut remains.machine, Anew::Forced, Some(1), seen, skip, by);
    let member = remains.voters[0].clone();
    let beginning = Beginning {
        term: begun.term,
        lsn: begun.epoch.at,
        member,
    };
    remains.begin_anew(&beginning, "before-epoch-2").unwrap();
    assert!(!xce_wal::finish_anew(&state, "before-epoch-2").unwrap());
    assert!(state.join("before-epoch-2/log").is_dir());
    let wal = wal(&state, 1).await;
    wal.persist(numbered(300)).await.unwrap();
    wal.close().await;
    let remains = xce_wal::remains_of(&config(&state, 1), ledger()).unwrap();
    let view = remains.machine.view();
    assert_eq!((view.epoch(), view.last_controller()), (2, 300));
    assert_eq!(view.epochs()[0], begun.epoch);
}

#[tokio::test]
async fn damage_is_named_with_its_offset() {
    let dir = TempDir::new().unwrap();
    let file = backup(&dir).await;
    let good = std::fs::read(&file).unwrap();
    let read = |bytes: &[u8]| {
        std::fs::write(&file, bytes).unwrap();
        Backup::open(&file).and_then(|backup| backup.contents())
    };
    for place in 0..good.len() {
        let mut bytes = good.clone();
        bytes[place] ^= 0x20;
        let error = match read(&bytes) {
            Ok(_) => panic!("a flip at {place} is not found"),
            Err(error) => error.to_string(),
        };
        assert!(
            error.contains("damaged at offset") || error.contains("has format"),
            "{place}: {error}"
        );
    }
    for length in (0..good.len()).step_by(7) {
        assert!(read(&good[..length]).is_err(), "cut at {length}");
    }
    let mut newer = good.clone();
    newer[8] = 9;
    assert!(matches!(
        read(&newer),
        Err(BackupError::Newer { found: 9, .. })
    ));
    let mut other = head();
    other.cluster = ClusterId([8; 16]);
    let mut mixed = other.encode();
    mixed.extend_from_slice(&good[head().encode().len()..]);
    assert!(matches!(read(&mixed), Err(BackupError::Mixed(_))));
}

#[test]
fn the_skip_follows_the_time_that_is_lost() {
    let hour = Skip::since(WallTime(0), WallTime(0));
    let day = Skip::since(WallTime(0), WallTime(86_400_000));
    let before = Skip::since(WallTime(86_400_000), WallTime(0));
    assert_eq!(hour, before);
    assert!(day.lsn > 20 * hour.lsn && day.jobs > 20 * hour.jobs);
    assert_eq!(
        super::anew::Skip::since(WallTime(i64::MIN), WallTime(i64::MAX)).terms,
        day.terms
    );
}
