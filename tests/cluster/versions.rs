//! Programs of different versions in one cluster: feature levels, protocol versions, records that a
//! program does not know.

use serde_json::Value;
use xce_tests::harness::cli::Cli;
use xce_tests::harness::patience;
use xce_tests::harness::three::Three;

use super::{rows, word};

fn level(three: &Three) -> u64 {
    let status = three.cli().json(&["cluster", "status"]);
    status["level"].as_u64().expect("a level")
}

fn member(three: &Three, name: &str) -> Value {
    let members = three.cli().json(&["cluster", "members"]);
    let members = members.as_array().cloned().unwrap_or_default();
    let found = members.into_iter().find(|member| member["name"] == name);
    found.unwrap_or_default()
}

#[test]
fn the_feature_level_rises_when_all_support_it_and_features_wait_for_it() {
    let held_back = ["compatibility.level_max=1", "compatibility.protocol_max=1"];
    let mut three = Three::start_with("level", &held_back);
    assert_eq!(level(&three), 1);
    // One after the other is upgraded; features wait for the last one.
    for name in ["c1", "c2", "c3"] {
        assert_eq!(level(&three), 1, "before {name} is upgraded");
        let refused = three
            .cli()
            .run(&["-o", "json", "jobs", "quarantine", "stop", "17"]);
        assert_eq!(refused.code, 3, "nothing is in quarantine: {refused:?}");
        three.kill(name);
        three.set(name, "compatibility.level_max=2");
        three.set(name, "compatibility.protocol_max=2");
        three.up(name);
        three.cli().submit(&["-m", "16MiB", "--", "true"]);
        patience::until(&format!("{name} is back"), || {
            let heard = &member(&three, name)["heard_ms"];
            member(&three, name)["role"] == "primary" || heard.as_u64().is_some_and(|ms| ms < 1000)
        });
    }
    patience::until("the level rises", || level(&three) == 2);
    let status = three.cli().json(&["cluster", "status"]);
    assert!(
        rows(&status, "controllers")
            .iter()
            .all(|one| one["level"] == 2)
    );
    // The way back is closed, in words.
    three.kill("c3");
    three.set("c3", "compatibility.level_max=1");
    three.up("c3");
    assert_eq!(three.wait_for_end("c3"), Some(1));
    let log = three.log("c3");
    let expected = "the cluster is at feature level 2, and this controller supports up to 1";
    assert!(log.contains(expected), "{log}");
    three.cli().good(&["audit"]);
}

#[test]
fn a_worker_and_a_controller_of_neighbouring_protocols_work_together() {
    let mut three = Three::one("protocol");
    three.kill("h1");
    three.set("h1", "compatibility.protocol_max=1");
    three.up("h1");
    three.wait_for_host("h1");
    let job = three.cli().submit(&["-m", "16MiB", "--", "true"]);
    patience::until("a job ends", || three.cli().job(&job)["state"] == "DONE");
    three.kill("h1");
    three.set("h1", "compatibility.protocol_max=7");
    three.up("h1");
    assert_eq!(three.wait_for_end("h1"), Some(1));
    let log = three.log("h1");
    assert!(
        log.contains("protocol version 7 is not spoken here"),
        "{log}"
    );
}

#[test]
fn a_record_of_a_newer_program_stops_a_controller_with_its_name() {
    let mut three = Three::one("newer");
    three.cli().submit(&["-m", "16MiB", "--", "true"]);
    three.kill("c1");
    let state = three.home("c1").join("controller");
    for (version, kind, expected) in [
        (9, None, "job fact has version 9, this program reads up to"),
        (
            1,
            Some(99),
            "record kind 99 version 1 is unknown here: it was written by a newer program",
        ),
    ] {
        let kept = three.folder().join("kept");
        copy(&state, &kept);
        newer(&state, version, kind);
        three.up("c1");
        let code = three.wait_for_end("c1");
        let log = three.log("c1");
        assert_eq!(code, Some(1), "{log}");
        assert!(log.contains(expected), "{log}");
        std::fs::remove_dir_all(&state).expect("it is there");
        std::fs::rename(&kept, &state).expect("it is there");
    }
    three.up("c1");
    three.wait_for_host("h1");
    three.cli().good(&["audit"]);
    let words = ["cluster", "status"];
    Cli::new(&three.home("c1")).good(&words);
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    let copied = std::process::Command::new("cp")
        .args(["-a", word(from), word(to)])
        .status();
    assert!(copied.expect("cp runs").success());
}

/// Commits a group whose only fact is of another version, or kind, than this program knows.
fn newer(state: &std::path::Path, version: u8, kind: Option<u16>) {
    use xce_ledger::Group;
    use xce_model::{ClusterTime, JobId, WallTime};
    let job = JobId::single(1);
    let fact = xce_replica::JobFact::CleanedUp { job };
    let group = Group::new(ClusterTime(1), WallTime(1), "newer");
    let head = group.encode().len();
    let mut bytes = group.with(fact).encode();
    bytes[head + 2] = version;
    if let Some(kind) = kind {
        bytes[head..head + 2].copy_from_slice(&kind.to_le_bytes());
    }
    let text = std::fs::read_to_string(state.join("IDENTITY")).expect("it is there");
    let cluster = text.lines().find_map(|line| line.strip_prefix("cluster "));
    let mut id = [0; 16];
    let digits = cluster.expect("a cluster");
    for (place, byte) in id.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * place..2 * place + 2], 16).expect("digits");
    }
    let config = xce_wal::WalConfig::new(state, id, 1);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let blind = xce_wal::open(config, Blind, |text| panic!("{text}")).await;
        let wal = blind.expect("the log opens");
        wal.persist(bytes).await.expect("it is written");
        wal.close().await;
    });
}

/// Applies everything, and understands nothing.
struct Blind;

impl xce_wal::Machine for Blind {
    type Outcome = ();
    type Snapshot = std::iter::Empty<Vec<u8>>;

    fn apply(&mut self, _at: xce_wal::Position, _group: &[u8]) {}

    fn publish(&mut self, _lsn: u64, _term: u64) {}

    fn snapshot(&self) -> Self::Snapshot {
        std::iter::empty()
    }

    fn clear(&mut self) {}

    fn restore(
        &mut self,
        records: &mut dyn Iterator<Item = Result<Vec<u8>, xce_wal::SnapshotError>>,
    ) -> Result<(), xce_wal::SnapshotError> {
        for record in records {
            record?;
        }
        Ok(())
    }
}
