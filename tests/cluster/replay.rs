//! The journal of a real cluster, and its decisions made again.

use std::path::Path;
use std::process::Command;

use xce_tests::harness::cli::{Answer, run};
use xce_tests::harness::{binaries, processes};
use xce_tests::{Cluster, Setup};

use super::{idle_service, service, word};

/// Runs `xced replay` on a file.
fn replay(file: &Path) -> Answer {
    let mut command = Command::new(binaries::path("xced"));
    command.arg("replay").arg(file);
    run(command, None)
}

/// Exports the journal; gives the file's path.
fn export(cluster: &Cluster, name: &str) -> std::path::PathBuf {
    let file = cluster.folder().join(name);
    let words = ["journal", "export", "--out", word(&file)];
    let answer = cluster.cli().run(&words);
    answer.code_is(0);
    assert!(
        answer.stderr.starts_with("xcecli: from lsn "),
        "{}",
        answer.stderr
    );
    file
}

/// The number after a word of the report.
fn count(report: &str, what: &str) -> u64 {
    let line = report.lines().find_map(|line| line.strip_prefix(what));
    let number = line.and_then(|line| line.trim_start_matches(':').trim().parse().ok());
    number.unwrap_or_else(|| panic!("no {what} in {report}"))
}

#[test]
fn every_decision_of_a_busy_life_comes_out_again() {
    let mut cluster = Setup::new("replay").start();
    let cli = cluster.cli();
    let file = idle_service(cluster.folder(), "web", 4);
    cli.good(&["services", "create", word(&file)]);
    cluster.steady("web", 4);
    cli.good(&["services", "scale", "web", "6"]);
    cluster.steady("web", 6);
    let changed = r#"["sleep", "200000"]"#;
    let file = service(cluster.folder(), "web", 6, changed, "");
    cli.good(&["services", "update", word(&file)]);
    cluster.service("web", "version 2 is complete", |web| {
        web["version"] == 2 && web["condition"] == "steady"
    });
    let victim = super::identities(&cluster.steady("web", 6)).remove(0);
    processes::kill_hard(victim.2);
    for _ in 0..3 {
        let job = cli.submit(&["--", "true"]);
        cluster.ended(&job);
    }
    cluster.kill_daemon(cluster.controller_pid());
    cli.good(&["services", "scale", "web", "3"]);
    cluster.steady("web", 3);
    let job = cli.submit(&["--", "sleep", "100000"]);
    cluster.running(&job);
    cli.good(&["jobs", "kill", &job]);
    cluster.ended(&job);
    cli.good(&["services", "rollback", "web"]);
    cluster.service("web", "version 3 is complete", |web| {
        web["version"] == 3 && web["condition"] == "steady"
    });
    cli.good(&["services", "delete", "web"]);
    let journal = export(&cluster, "journal");
    let report = replay(&journal).good();
    assert_eq!(count(&report, "differing"), 0, "{report}");
    let again = count(&report, "decisions re-run");
    let inputs = count(&report, "inputs taken as they are");
    assert!(again > 40, "{report}");
    assert_eq!(count(&report, "groups"), again + inputs, "{report}");
    assert!(cluster.stop().success());
}

#[test]
fn an_export_begins_with_the_oldest_snapshot_that_is_whole() {
    let cluster = Setup::new("replay-snapshots")
        .set("snapshot.every_entries=100")
        .start();
    let cli = cluster.cli();
    let file = idle_service(cluster.folder(), "web", 2);
    cli.good(&["services", "create", word(&file)]);
    cluster.steady("web", 2);
    let jobs: Vec<String> = (0..120).map(|_| cli.submit(&["--", "true"])).collect();
    cluster.ended(&jobs[119]);
    let journal = export(&cluster, "journal");
    let report = replay(&journal).good();
    assert!(!report.starts_with("from lsn 0 "), "{report}");
    assert_eq!(count(&report, "differing"), 0, "{report}");

    // On stdout it is the same kind of file.
    let answer = cli.run(&["journal", "export", "--out", "/nowhere/journal"]);
    assert!(answer.refused(1).contains("cannot write"));
    let bytes = std::fs::read(&journal).expect("it was written");
    let cut = cluster.folder().join("cut");
    std::fs::write(&cut, &bytes[..bytes.len() - 40]).expect("the folder can be written");
    let text = replay(&cut).refused(1);
    assert!(text.contains("is damaged at offset"), "{text}");
    std::fs::write(&cut, b"no journal").expect("the folder can be written");
    let text = replay(&cut).refused(1);
    assert!(text.contains("damaged at offset 0"), "{text}");
}

#[test]
fn refusals_are_remembered_with_who_and_why() {
    let mut cluster = Setup::new("refusals-kept").start();
    let cli = cluster.cli();
    assert_eq!(cli.json(&["journal", "refusals"]), serde_json::json!([]));
    cli.run(&["services", "scale", "nothing", "3"]).refused(3);
    cli.run(&["jobs", "kill", "77"]).refused(3);
    cluster.kill_daemon(cluster.controller_pid());
    cli.run(&["hosts", "close", "none"]).refused(3);
    let refusals = cli.json(&["journal", "refusals"]);
    let rows = refusals.as_array().expect("a list");
    let events: Vec<&str> = rows
        .iter()
        .filter_map(|row| row["event"].as_str())
        .collect();
    assert_eq!(events, ["service scale", "job kill", "host close"]);
    assert_eq!(rows[0]["code"], "not_found");
    assert!(rows[0]["lsn"].as_u64() > Some(0), "{refusals}");
    assert!(
        rows[0]["operation"]
            .as_str()
            .is_some_and(|id| !id.is_empty())
    );
    let last = cli.json(&["journal", "refusals", "--last", "1"]);
    assert_eq!(last.as_array().map(Vec::len), Some(1));
    assert!(cluster.stop().success());
}
