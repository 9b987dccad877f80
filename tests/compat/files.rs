//! Logs, snapshots, backups, spools and settings of every version, read by this program.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;
use xce_backup::Backup;
use xce_config::{ClientConfig, ControllerConfig, Home, Sources, WorkerConfig};
use xce_ledger::{Group, Ledger, audit};
use xce_model::{ClusterTime, Incarnation, WallTime};
use xce_tests::harness::cli::Cli;
use xce_wal::WalConfig;
use xce_worker::spool::{Spool, SpoolIdentity};

use super::expected::summary;
use super::{folders, word};

/// Size of a segment of the golden logs. Source: the default of the log then.
const SEGMENT_BYTES: u64 = 16 << 20;

/// A copy of a golden state directory, segments at their full size again.
fn unpacked(folder: &Path) -> TempDir {
    let copy = TempDir::new().expect("a temporary folder");
    for part in ["log", "snapshots"] {
        let to = copy.path().join(part);
        std::fs::create_dir(&to).expect("a fresh folder");
        let files = std::fs::read_dir(folder.join("state").join(part)).expect("the golden files");
        for file in files {
            let file = file.expect("the golden files");
            let target = to.join(file.file_name());
            std::fs::copy(file.path(), &target).expect("room");
            if part == "log" {
                let segment = std::fs::File::options().write(true).open(&target);
                let grown = segment.and_then(|segment| segment.set_len(SEGMENT_BYTES));
                grown.expect("room");
            }
        }
    }
    let identity = folder.join("state/IDENTITY");
    std::fs::copy(identity, copy.path().join("IDENTITY")).expect("room");
    copy
}

fn config(state: &Path) -> WalConfig {
    let text = std::fs::read_to_string(state.join("IDENTITY")).expect("it is there");
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.expect("a field").trim().to_owned()
    };
    let digits = field("cluster ");
    let mut cluster = [0; 16];
    for (place, byte) in cluster.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * place..2 * place + 2], 16).expect("digits");
    }
    let node = field("node ").parse().expect("a number");
    WalConfig::new(state, cluster, node)
}

fn expected(folder: &Path) -> Value {
    let text = std::fs::read_to_string(folder.join("expected.json")).expect("it is there");
    serde_json::from_str(&text).expect("it is JSON")
}

fn ledger() -> Ledger {
    Ledger::new(Box::new(|_, _| {}))
}

#[test]
fn state_directories_of_every_version_are_read_and_go_on() {
    for (version, folder) in folders() {
        let copy = unpacked(&folder);
        let config = config(copy.path());
        let remains = xce_wal::remains_of(&config, ledger()).expect("v{version}");
        let view = remains.machine.view().clone();
        assert_eq!(summary(&view), expected(&folder), "v{version}");
        assert_eq!(audit(&view), [], "v{version}");
        drop(remains);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build();
        runtime.expect("a runtime").block_on(async {
            let opened = xce_wal::open(config, ledger(), |text| panic!("{text}")).await;
            let wal = opened.expect("it opens");
            let group = Group::new(ClusterTime(0), WallTime(0), "compat");
            let receipt = wal
                .persist(group.encode_at(view.level()).expect("no facts"))
                .await;
            assert!(receipt.expect("it goes on").lsn() > view.lsn());
            wal.close().await;
        });
    }
}

/// A snapshot from a file, and the groups after it.
#[test]
fn backups_of_every_version_are_read() {
    for (version, folder) in folders() {
        let backup = Backup::open(&folder.join("backup")).expect("v{version}");
        let contents = backup.contents().expect("v{version}");
        assert!(
            contents.groups > 0,
            "v{version} has groups after its snapshot"
        );
        let mut found = summary(contents.ledger.view());
        let mut expected = expected(&folder);
        // It was taken a little before.
        for part in [
            "lsn",
            "term",
            "clock_ms",
            "operations",
            "sessions",
            "level",
            "epoch",
        ] {
            (found[part], expected[part]) = (Value::Null, Value::Null);
        }
        for state in [&mut found, &mut expected] {
            for host in state["hosts"].as_array_mut().expect("hosts") {
                (host["life"], host["mark"]) = (Value::Null, Value::Null);
            }
        }
        assert_eq!(found, expected, "v{version}");
    }
}

/// The facts in a spool, as text; the file stays as it is.
pub fn facts_of(spool: &Path) -> Vec<String> {
    let copy = TempDir::new().expect("a temporary folder");
    let path = copy.path().join("spool");
    std::fs::copy(spool, &path).expect("room");
    let identity = SpoolIdentity {
        incarnation: Incarnation([5; 16]),
        boot_id: "another boot".to_owned(),
        wall_ms: 1,
    };
    let (mut spool, findings) = Spool::open(&path, identity, 1000).expect("a spool");
    assert_eq!(findings, Vec::<String>::new());
    let facts = spool.batch(0, 1000, 1 << 20);
    facts.iter().map(|fact| format!("{fact:?}")).collect()
}

#[test]
fn spools_of_every_version_are_read() {
    for (version, folder) in folders() {
        let text = std::fs::read_to_string(folder.join("spool.txt")).expect("it is there");
        let found = facts_of(&folder.join("spool"));
        assert_eq!(found, text.lines().collect::<Vec<_>>(), "v{version}");
        assert!(!found.is_empty(), "v{version}");
    }
}

#[test]
fn settings_and_service_files_of_every_version_are_read() {
    let home = Home::new("/home/of/a/cluster");
    for (version, folder) in folders() {
        let of = |name: &str| -> PathBuf { folder.join("config").join(name) };
        let sources = |name: &str| Sources::of_process(Some(of(name)));
        let controller = xce_config::load::<ControllerConfig>(&home, &sources("controller.toml"));
        controller.unwrap_or_else(|faults| panic!("v{version}: {faults}"));
        let worker = xce_config::load::<WorkerConfig>(&home, &sources("worker.toml"));
        worker.unwrap_or_else(|faults| panic!("v{version}: {faults}"));
        let client = xce_config::load::<ClientConfig>(&home, &sources("client.toml"));
        client.unwrap_or_else(|faults| panic!("v{version}: {faults}"));
        // It needs no cluster.
        let web = of("web.toml");
        Cli::new(Path::new("/nowhere")).good(&["services", "validate", word(&web)]);
    }
}
