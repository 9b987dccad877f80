//! Actors of the controller that are killed one by one: each comes back from committed state, and
//! nobody outside notices more than a moment's delay.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::Value;
use xce_tests::{Cli, Cluster, Setup};

use super::{identities, idle_service, word};

#[test]
fn any_actor_may_be_killed_and_nothing_is_lost() {
    let cluster = Setup::new("actors").chaos().broken().start();
    let cli = cluster.cli();
    let file = idle_service(cluster.folder(), "quiet", 3);
    cli.good(&["services", "create", word(&file)]);
    let before = identities(&cluster.steady("quiet", 3));
    let job = cli.submit(&["--", "sleep", "100000"]);
    let pid = cluster.running(&job);
    let keys = keys(&cli);
    assert!(keys.len() >= 10, "{keys:?}");
    let stop = AtomicBool::new(false);
    let submitted = thread::scope(|scope| {
        let writer = scope.spawn(|| submit_until(&cli, &stop));
        for key in &keys {
            kill(&cli, key);
            let service = cluster.steady("quiet", 3);
            assert_eq!(identities(&service), before, "after the kill of {key}");
            assert_eq!(cluster.running(&job), pid, "after the kill of {key}");
            cluster.audit();
        }
        stop.store(true, Ordering::Relaxed);
        writer.join().expect("no submission is refused")
    });
    assert!(!submitted.is_empty());
    for id in &submitted {
        let job = cluster.ended(id);
        assert_eq!(
            (job["state"].as_str(), job["run"].as_u64()),
            (Some("DONE"), Some(1)),
            "{job}"
        );
    }
    cluster.until("every actor runs again", |cli| {
        let tree = cli.json(&["actors", "tree", "--no-fold"]);
        tree.as_array()
            .is_some_and(|actors| actors.iter().all(|actor| actor["state"] == "running"))
    });
    cli.good(&[
        "services",
        "scale",
        "quiet",
        "1",
        "--wait",
        "--timeout",
        "60s",
    ]);
    cli.good(&["jobs", "kill", "--wait", "--timeout", "60s", &job]);
    cluster.audit();
}

#[test]
fn actors_are_killed_only_where_that_is_allowed() {
    let cluster = Cluster::start("no-chaos");
    let cli = cluster.cli();
    let text = cli.run(&["actors", "kill", "host/w1"]).refused(4);
    assert!(text.contains("chaos.enabled"), "{text}");
}

#[test]
fn a_kill_of_what_cannot_be_killed_is_refused() {
    let cluster = Setup::new("kill-root").chaos().start();
    let cli = cluster.cli();
    cli.run(&["actors", "kill", "root"]).refused(1);
    cli.run(&["actors", "kill", "service/999"]).refused(3);
    cli.run(&["actors", "kill", "no such actor\n"]).refused(3);
    cluster.audit();
}

/// Keys of all actors that may be killed, the root and clients' own sessions left out.
fn keys(cli: &Cli) -> BTreeSet<String> {
    let tree = cli.json(&["actors", "tree", "--no-fold"]);
    let actors: &Vec<Value> = tree.as_array().expect("a list");
    let keys = actors
        .iter()
        .filter(|actor| actor["kind"] != "session" && actor["parent"] != "");
    keys.filter_map(|actor| actor["key"].as_str())
        .map(str::to_owned)
        .collect()
}

/// Kills an actor; one that ended meanwhile, or took the answer with it, is as good as killed.
fn kill(cli: &Cli, key: &str) {
    let answer = cli.run(&["actors", "kill", key]);
    let is_killed = matches!(answer.code, 0 | 3);
    assert!(is_killed, "{key}: {} {}", answer.code, answer.stderr);
}

fn submit_until(cli: &Cli, stop: &AtomicBool) -> Vec<String> {
    let mut ids = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        ids.push(cli.submit(&["-c", "0.1", "-m", "16MiB", "--", "true"]));
    }
    ids
}
