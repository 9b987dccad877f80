//! A controller that is killed: what it acknowledged is there, and nothing else has changed.

use std::thread;

use xce_tests::Setup;
use xce_tests::harness::watch::Watch;
use xce_tests::harness::{patience, processes};

use super::{identities, idle_service, rows, word};

/// Rounds of a kill in the middle of submissions. Source: chosen; the supervisor waits longer from
/// one to the next, up to some seconds.
const ROUNDS: usize = 8;

#[test]
fn ids_and_processes_are_the_same_after_the_kill_of_the_controller() {
    let cluster = Setup::new("controller-kill").broken().start();
    let cli = cluster.cli();
    let file = idle_service(cluster.folder(), "quiet", 4);
    cli.good(&["services", "create", word(&file)]);
    let before = cluster.steady("quiet", 4);
    let job = cli.submit(&["--", "sleep", "100000"]);
    let pid = cluster.running(&job);
    let ended = cli.submit(&["--", "sh", "-c", "exit 9"]);
    let ended_before = cluster.ended(&ended);
    let old = cluster.controller_pid();
    cluster.kill_daemon(old);
    let after = cli.service("quiet");
    assert_eq!(identities(&after), identities(&before));
    assert_eq!(after["id"], before["id"]);
    assert_ne!(cluster.controller_pid(), old);
    let mut ended_after = cli.job(&ended);
    ended_after["lsn"] = ended_before["lsn"].clone();
    assert_eq!(ended_after, ended_before, "an ended job is as it was");
    assert_eq!(cluster.running(&job), pid);
    assert!(processes::is_alive(pid));
    cluster.until("all hosts are up", |cli| {
        cli.json(&["cluster", "status"])["hosts_up"] == 2
    });
    let later = cluster.steady("quiet", 4);
    assert_eq!(
        identities(&later),
        identities(&before),
        "nothing was restarted"
    );
    cli.good(&[
        "services",
        "scale",
        "quiet",
        "2",
        "--wait",
        "--timeout",
        "60s",
    ]);
    cli.good(&["jobs", "kill", "--wait", "--timeout", "60s", &job]);
    cluster.audit();
}

#[test]
fn what_was_acknowledged_is_there_after_any_kill() {
    let cluster = Setup::new("acknowledged").broken().start();
    let cli = cluster.cli();
    let mut ids = Vec::new();
    for round in 0..ROUNDS {
        // Some answers arrive before the kill, some after the restart, none is lost.
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                let cli = cli.clone();
                let token = format!("round-{round}-{writer}");
                thread::spawn(move || {
                    let submit = || {
                        cli.submit(&["--token", &token, "-c", "0.1", "-m", "16MiB", "--", "true"])
                    };
                    let first = submit();
                    assert_eq!(submit(), first, "a repeat is answered as before");
                    first
                })
            })
            .collect();
        if round % 2 == 1 {
            ids.push(cli.submit(&["-c", "0.1", "-m", "16MiB", "--", "true"]));
        }
        cluster.kill_daemon(cluster.controller_pid());
        ids.extend(
            writers
                .into_iter()
                .map(|writer| writer.join().expect("a writer ends well")),
        );
    }
    for id in &ids {
        let job = cluster.ended(id);
        assert_eq!(
            (job["state"].as_str(), job["run"].as_u64()),
            (Some("DONE"), Some(1)),
            "{job}"
        );
    }
    let all = cli.json(&["jobs", "list", "--all"]);
    let count = all.as_array().map(Vec::len);
    assert_eq!(count, Some(ids.len()), "each submission once, and no other");
    cluster.audit();
}

#[test]
fn a_watch_goes_on_behind_the_last_change_it_saw() {
    let cluster = Setup::new("watch").broken().start();
    let cli = cluster.cli();
    let first = cli.submit(&["--", "true"]);
    cluster.ended(&first);
    let watch = Watch::start(&cli, true);
    let shows = |id: &str| {
        let seen = watch.seen();
        seen.iter().any(|changes| {
            rows(changes, "jobs")
                .iter()
                .any(|job| job["id"] == *id && job["terminal"] == true)
        })
    };
    patience::until("the watch begins with what there is", || shows(&first));
    cluster.kill_daemon(cluster.controller_pid());
    let second = cli.submit(&["--", "true"]);
    cluster.ended(&second);
    patience::until("the watch goes on", || shows(&second));
    let seen = watch.seen();
    let full = seen
        .iter()
        .filter(|changes| changes["full"] == true && changes["more"] == false);
    assert_eq!(
        full.count(),
        1,
        "only the beginning is a full state: {seen:?}"
    );
    let positions: Vec<u64> = seen
        .iter()
        .filter_map(|changes| changes["lsn"].as_u64())
        .collect();
    assert!(positions.is_sorted(), "{positions:?}");
}
