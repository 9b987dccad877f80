//! Probes on a real cluster: turns to restart, and probes that cannot be run.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use xce_tests::Setup;
use xce_tests::harness::watch::Watch;

use super::{rows, service, word};

/// A service whose replicas are sick from the moment that the file `sick` appears until each of them
/// is started anew. They need a moment to stop, so that turns can be seen, and are not judged before
/// they have said that they are well.
fn fragile(folder: &Path, replicas: u32) -> PathBuf {
    let sick = folder.join("sick");
    let sick = sick.display();
    let script = format!(
        "[ ! -e {sick} ] || touch well; trap 'sleep 0.4; exit 0' TERM; while :; do sleep 0.05; done"
    );
    let command = format!(r#"["sh", "-c", "{script}"]"#);
    let probe = format!("[ -e well ] || [ ! -e {sick} ]");
    let more = format!(
        "[probes.liveness]\nexec = {{ command = [\"sh\", \"-c\", \"{probe}\"] }}\n\
         period = \"100ms\"\ntimeout = \"20s\"\nfailure_threshold = 1\n\
         [probes.startup]\nexec = {{ command = [\"sh\", \"-c\", \"{probe}\"] }}\n\
         period = \"100ms\"\ntimeout = \"20s\"\nfailure_threshold = 1000\n"
    );
    service(folder, "fragile", replicas, &command, &more)
}

/// Restarts of all replicas.
fn restarts(service: &Value) -> u64 {
    let replicas = rows(service, "replicas").iter();
    replicas
        .map(|replica| replica["restarts"].as_u64().expect("a number"))
        .sum()
}

#[test]
fn an_overload_restarts_a_quarter_of_a_service_at_once() {
    let cluster = Setup::new("turns").broken().start();
    let cli = cluster.cli();
    let file = fragile(cluster.folder(), 8);
    cli.good(&["services", "create", word(&file)]);
    cluster.steady("fragile", 8);
    let watch = Watch::start(&cli, true);
    fs::write(cluster.folder().join("sick"), "").expect("the folder can be written");
    let waits = "waits for its turn: 2 of 2 restarting";
    cluster.service("fragile", "replicas wait for their turn", |seen| {
        let mut replicas = rows(seen, "replicas").iter();
        replicas.any(|replica| {
            let reason = replica["reason"].as_str().unwrap_or_default();
            reason.contains("liveness failed") && reason.contains(waits)
        })
    });
    // Also those that nobody could tell of it when their turn came.
    cluster.kill_daemon(cluster.controller_pid());
    cluster.kill_daemon(cluster.worker_pid("w1"));
    cluster.service("fragile", "each was restarted once", |seen| {
        restarts(seen) == 8 && seen["ready"] == 8
    });
    let fewest = watch
        .seen()
        .iter()
        .flat_map(|changes| rows(changes, "services").to_vec())
        .filter(|seen| seen["name"] == "fragile")
        .filter_map(|seen| seen["ready"].as_u64())
        .min();
    assert!(fewest.is_none_or(|fewest| fewest >= 6), "{fewest:?}");
    let seen = cluster.steady("fragile", 8);
    assert_eq!(restarts(&seen), 8, "{seen}");
    cluster.audit();
}

#[test]
fn a_probe_that_cannot_be_run_is_shown_and_never_a_success() {
    let cluster = Setup::new("unrunnable").broken().start();
    let cli = cluster.cli();
    let more = "[probes.readiness]\nexec = { command = [\"/no/such/probe\"] }\nperiod = \"50ms\"\n";
    let command = r#"["sleep", "100000"]"#;
    let file = service(cluster.folder(), "blind", 1, command, more);
    cli.good(&["services", "create", word(&file)]);
    let seen = cluster.service("blind", "the probe is shown as not run", |seen| {
        let mut replicas = rows(seen, "replicas").iter();
        replicas.any(|replica| {
            let reason = replica["reason"].as_str().unwrap_or_default();
            reason.contains("readiness probe could not be run, 4 times so far")
                && reason.contains("/no/such/probe")
        })
    });
    assert_eq!(seen["ready"], 0, "{seen}");
    let job = rows(&seen, "replicas")[0]["job"].as_str().expect("a job");
    let job = cli.job(job);
    assert_eq!(job["reason_code"], "probe_not_run", "{job}");
    let probes = rows(&job, "unrunnable_probes");
    assert_eq!(probes[0]["role"], "readiness", "{job}");
    assert_eq!(job["restarts"], 0, "{job}");
    cluster.audit();
}
