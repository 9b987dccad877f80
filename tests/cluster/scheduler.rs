//! The scheduler as a daemon: fed by deltas, led to the primary, and replaced when it is killed or
//! silent; nothing that it decided on old data counts, and nothing counts twice.

use nix::sys::signal::Signal;
use serde_json::Value;
use xce_tests::harness::patience;
use xce_tests::harness::three::Three;
use xce_tests::harness::{cli::Cli, processes};
use xce_tests::{Cluster, Setup};

fn with_daemon(name: &str) -> Cluster {
    Setup::new(name)
        .workers(1)
        .set("scheduler=daemon")
        .set("scheduler_grace=400ms")
        .broken()
        .start()
}

/// The scheduler's actor on the primary, as operators see it.
fn shown(cli: &Cli) -> Value {
    let shown = cli.run(&["-o", "json", "actors", "show", "scheduler"]);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap_or_default();
    shown["view"].clone()
}

/// The connected session of a scheduler.
fn session(cli: &Cli) -> Option<Value> {
    let sessions = cli.json(&["sessions", "list"]);
    let sessions = sessions.as_array().cloned().unwrap_or_default();
    let is_there = |one: &Value| one["kind"] == "scheduler" && one["connected"] == true;
    sessions.into_iter().find(is_there)
}

#[test]
fn a_scheduler_that_is_a_daemon_places_jobs_and_its_feed_is_measured() {
    let cluster = with_daemon("scheduler-daemon");
    let cli = cluster.cli();
    let first = cli.submit(&["--", "true"]);
    assert_eq!(cluster.ended(&first)["state"], "DONE");
    let read = session(&cli).expect("a scheduler is connected");
    assert_eq!(read["resume"]["kind"], "full", "{read}");
    assert!(read["resume"]["bytes"].as_u64() > Some(0), "{read}");
    let text = read["last_resume"].as_str().unwrap_or_default();
    assert!(text.starts_with("full after 0: "), "{text}");
    let array = cli.submit(&["-n", "some[1-20]", "-c", "0.1", "-m", "16MiB", "--", "true"]);
    assert_eq!(cluster.ended(&array)["state"], "DONE");
    cluster.audit();
}

#[test]
fn a_scheduler_that_is_stopped_is_told_of_and_nothing_old_counts_when_it_returns() {
    let cluster = with_daemon("scheduler-silent");
    let cli = cluster.cli();
    cluster.ended(&cli.submit(&["--", "true"]));
    let scheduler = cluster.scheduler_pid();
    processes::signal(scheduler, Signal::SIGSTOP);
    let waiting = cli.submit(&["--", "true"]);
    // Nothing is committed when it is told, so it is looked for again and again.
    let mut job = Value::Null;
    patience::until("the job says why it waits", || {
        job = cli.job(&waiting);
        job["reason_code"] == "scheduler_not_responding"
    });
    let reason = job["reason"].as_str().unwrap_or_default();
    assert!(
        reason.starts_with("scheduler not responding since 20"),
        "{job}"
    );
    // The controller lives: it takes changes and answers.
    let cancelled = cli.submit(&["--", "true"]);
    cli.good(&["jobs", "kill", &cancelled]);
    let status = cli.json(&["cluster", "status"]);
    let alarms = status["alarms"].to_string();
    assert!(alarms.contains("scheduler not responding"), "{alarms}");
    processes::signal(scheduler, Signal::SIGCONT);
    let ended = cluster.ended(&waiting);
    assert_eq!(
        (&ended["state"], &ended["run"]),
        (&"DONE".into(), &1.into())
    );
    assert_eq!(cluster.ended(&cancelled)["started"], Value::Null);
    patience::until("it responds", || shown(&cli)["responds"] == true);
    cluster.audit();
}

#[test]
fn a_scheduler_that_is_killed_amid_its_decisions_places_every_job_once() {
    let cluster = with_daemon("scheduler-killed");
    let cli = cluster.cli();
    let array = cli.submit(&[
        "-n",
        "many[1-120]",
        "-c",
        "0.1",
        "-m",
        "16MiB",
        "--",
        "true",
    ]);
    for _ in 0..3 {
        let scheduler = cluster.scheduler_pid();
        let placed = shown(&cli)["placed"].as_u64();
        patience::until("it has placed some", || {
            shown(&cli)["placed"].as_u64() > placed
                || cli.json(&["jobs", "show", &array])["terminal"] == true
        });
        cluster.kill_daemon(scheduler);
    }
    assert_eq!(cluster.ended(&array)["state"], "DONE");
    let all = cli.json(&["jobs", "list", "--all"]);
    let all = all.as_array().cloned().unwrap_or_default();
    let runs = all.iter().filter(|job| job["array"].is_null());
    assert!(runs.clone().count() >= 120, "{}", all.len());
    for job in runs {
        assert_eq!(job["run"], 1, "{job}");
    }
    cluster.audit();
}

#[test]
fn a_scheduler_follows_the_primary_and_is_sent_what_changed() {
    let settings = ["scheduler=daemon", "scheduler_grace=2s"];
    let mut three = Three::start_with("scheduler-three", &settings);
    three.add_scheduler("s1");
    let cli = three.cli();
    let ended = |id: &str| {
        patience::until(&format!("job {id} ends"), || {
            let shown = cli.run(&["-o", "json", "jobs", "show", id]);
            let job: Value = serde_json::from_str(&shown.stdout).unwrap_or_default();
            job["terminal"] == true
        });
    };
    ended(&cli.submit(&["--", "true"]));
    // One more waits for its turn.
    three.add_scheduler("s2");
    patience::until("another waits", || shown(&cli)["waiting"] == 1);
    let primary = three.primary();
    three.kill(&primary);
    ended(&cli.submit(&["--", "true"]));
    patience::until("the resume is measured", || {
        session(&cli).is_some_and(|session| session["resume"]["kind"] == "delta")
    });
    // The one that waits takes the place of the one that plans.
    let daemon = shown(&cli)["daemon"].clone();
    let active = if daemon.to_string().contains("s1") {
        "s1"
    } else {
        "s2"
    };
    three.kill(active);
    ended(&cli.submit(&["--", "true"]));
    assert_ne!(shown(&cli)["daemon"], daemon);
    cli.good(&["audit"]);
}
