//! Batch jobs through the same door.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use xce_tests::harness::patience;
use xce_tests::harness::processes;
use xce_tests::{Cluster, Setup};

use super::word;

#[test]
fn exit_codes_and_signals_are_right() {
    let cluster = Cluster::start("exits");
    let cli = cluster.cli();
    let cases = [
        ("true", "DONE", Some(0), None),
        ("exit 7", "EXIT", Some(7), None),
        ("exit 255", "EXIT", Some(255), None),
        ("kill -SEGV $$", "EXIT", None, Some(11)),
        ("kill -KILL $$", "EXIT", None, Some(9)),
        ("kill -TERM $$", "EXIT", None, Some(15)),
    ];
    let ids = cases.map(|(script, ..)| cli.submit(&["--", "sh", "-c", script]));
    for ((script, state, code, signal), id) in cases.into_iter().zip(&ids) {
        let job = cluster.ended(id);
        assert_eq!(job["state"], state, "{script}: {job}");
        assert_eq!(job["exit"]["code"].as_i64(), code, "{script}: {job}");
        assert_eq!(job["exit"]["signal"].as_i64(), signal, "{script}: {job}");
        assert_eq!(job["exit"]["cause"], "EXITED", "{script}: {job}");
        for field in [
            "id",
            "name",
            "reason",
            "run",
            "host",
            "submitted",
            "started",
            "ended",
        ] {
            assert!(!job[field].is_null(), "{script}: no `{field}` in {job}");
        }
        assert_eq!(job["run"], 1, "{script}: {job}");
    }
    cli.good(&["jobs", "submit", "--wait", "--timeout", "60s", "--", "true"]);
    cli.run(&[
        "jobs",
        "submit",
        "--wait",
        "--timeout",
        "60s",
        "--",
        "false",
    ])
    .code_is(1);
    cluster.audit();
}

#[test]
fn a_repeated_token_has_one_effect() {
    let cluster = Setup::new("token").broken().start();
    let cli = cluster.cli();
    let first = cli.submit(&["--token", "nightly-7", "--", "true"]);
    assert_eq!(cli.submit(&["--token", "nightly-7", "--", "true"]), first);
    let other = cli.submit(&["--token", "nightly-8", "--", "true"]);
    assert_ne!(other, first);
    cluster.kill_daemon(cluster.controller_pid());
    assert_eq!(
        cli.submit(&["--token", "nightly-7", "--", "true"]),
        first,
        "also after a restart"
    );
    let all = cli.json(&["jobs", "list", "--all"]);
    assert_eq!(all.as_array().map(Vec::len), Some(2), "{all}");
}

#[test]
fn a_job_gets_its_variables_its_directory_and_its_words() {
    let cluster = Cluster::start("surroundings");
    let cli = cluster.cli().with("COLOUR", "green");
    let folder = cluster.folder().join("a place");
    fs::create_dir(&folder).expect("a folder");
    let script =
        "printf '%s|' \"$COLOUR\" \"$SIZE\" \"$PWD\" \"$XCE_JOB\" \"$1\" \"$2\"; echo talk >&2";
    let words = ["-e", "COLOUR", "-e", "SIZE=a b", "--cwd", word(&folder)];
    let command = [
        "--",
        "sh",
        "-c",
        script,
        "sh",
        "one two",
        "${SIZE}-${XCE_RUN}",
    ];
    let id = cli.submit(&[&words[..], &command[..]].concat());
    assert_eq!(cluster.ended(&id)["state"], "DONE");
    let expected = format!("green|a b|{}|{id}|one two|a b-1|", folder.display());
    assert_eq!(cli.good(&["jobs", "logs", &id]), expected);
    assert_eq!(cli.good(&["jobs", "logs", "--stderr", &id]), "talk\n");
}

#[test]
fn logs_are_followed_while_they_are_written() {
    let cluster = Cluster::start("follow");
    let cli = cluster.cli();
    let gate = cluster.folder().join("gate");
    let script = format!(
        "echo first; while [ ! -e {} ]; do sleep 0.05; done; echo second",
        gate.display()
    );
    let id = cli.submit(&["--", "sh", "-c", &script]);
    cluster.running(&id);
    let mut command = cli.command(&["jobs", "logs", "--follow", &id]);
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .expect("xcecli starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    assert_eq!(lines.next().and_then(Result::ok).as_deref(), Some("first"));
    fs::write(&gate, "").expect("the gate opens");
    assert_eq!(lines.next().and_then(Result::ok).as_deref(), Some("second"));
    assert!(lines.next().is_none(), "it ends with the job");
    assert!(child.wait().is_ok_and(|status| status.success()));
}

#[test]
fn a_held_job_waits_until_it_is_released() {
    let cluster = Cluster::start("hold");
    let cli = cluster.cli();
    let id = cli.submit(&["--hold", "--", "true"]);
    let later = cli.submit(&["--", "true"]);
    cluster.ended(&later);
    let held = cli.job(&id);
    assert_eq!(
        (held["state"].as_str(), held["run"].as_u64()),
        (Some("HELD"), Some(0)),
        "{held}"
    );
    cli.good(&["jobs", "release", &id]);
    assert_eq!(cluster.ended(&id)["state"], "DONE");
    // One that waits for room can be held too.
    let big = cli.submit(&["-c", "100000", "--", "true"]);
    let waiting = cluster.job(&big, "says what it waits for", |job| {
        job["reason"]
            .as_str()
            .is_some_and(|text| text.contains("cpu"))
    });
    assert_eq!(waiting["state"], "PEND");
    cli.good(&["jobs", "hold", &big]);
    assert_eq!(cli.job(&big)["state"], "HELD");
    cli.good(&["jobs", "kill", &big]);
    let killed = cluster.ended(&big);
    assert_eq!(
        (killed["state"].as_str(), killed["exit"]["cause"].as_str()),
        (Some("EXIT"), Some("TERM_OWNER")),
        "{killed}"
    );
    cluster.audit();
}

#[test]
fn a_requeued_job_runs_again_under_the_next_number() {
    let cluster = Cluster::start("requeue");
    let cli = cluster.cli();
    let id = cli.submit(&["--", "sleep", "100000"]);
    let first = cluster.running(&id);
    cli.good(&["jobs", "requeue", &id]);
    cluster.job(&id, "runs again", |job| {
        job["state"] == "RUN" && job["run"] == 2 && !job["pid"].is_null()
    });
    let second = cluster.running(&id);
    assert_ne!(first, second);
    assert!(!processes::is_alive(first), "the first run has ended");
    assert!(processes::is_alive(second));
    // One that has ended runs again too.
    let done = cli.submit(&["--", "true"]);
    cluster.ended(&done);
    cli.good(&["jobs", "requeue", &done]);
    let done = cluster.job(&done, "ends again", |job| {
        job["run"] == 2 && job["terminal"] == true
    });
    assert_eq!(done["state"], "DONE");
    cli.good(&["jobs", "kill", "--wait", "--timeout", "60s", &id]);
    cluster.audit();
}

#[test]
fn a_run_limit_ends_a_job() {
    let cluster = Cluster::start("run-limit");
    let cli = cluster.cli();
    let id = cli.submit(&["-t", "1s", "--", "sleep", "100000"]);
    let pid = cluster.running(&id);
    let job = cluster.ended(&id);
    assert_eq!(
        (job["state"].as_str(), job["exit"]["cause"].as_str()),
        (Some("EXIT"), Some("TERM_RUNLIMIT")),
        "{job}"
    );
    assert!(!processes::is_alive(pid));
}

#[test]
fn a_kill_ends_the_whole_tree() {
    let cluster = Cluster::start("kill-tree");
    let cli = cluster.cli();
    let script =
        "trap '' TERM; setsid sleep 100001 & (sleep 100002 & exec sleep 100003) & sleep 100004";
    let id = cli.submit(&["--", "sh", "-c", script]);
    let root = cluster.running(&id);
    let tree = || {
        let all = cluster.processes();
        let is_part = |line: &str| (100_001..=100_004).any(|n| line == format!("sleep {n}"));
        all.into_iter()
            .filter(|process| is_part(&process.line))
            .collect::<Vec<_>>()
    };
    patience::until("all of the tree runs", || tree().len() == 4);
    let pids: Vec<u32> = tree().iter().map(|process| process.pid).collect();
    // A job that ignores the request has its grace; this one is not asked.
    cli.good(&["jobs", "kill", "--signal", "KILL", &id]);
    let job = cluster.ended(&id);
    assert_eq!(job["exit"]["signal"], 9, "{job}");
    assert!(!processes::is_alive(root));
    let left: Vec<&u32> = pids
        .iter()
        .filter(|pid| processes::is_alive(**pid))
        .collect();
    assert!(
        left.is_empty(),
        "an end is told when the whole tree is gone: {left:?}"
    );

    let id = cli.submit(&["--", "sh", "-c", "sleep 100005 & sleep 100006"]);
    let root = cluster.running(&id);
    cli.good(&["jobs", "kill", "--wait", "--timeout", "60s", &id]);
    let job = cli.job(&id);
    assert_eq!(
        (job["state"].as_str(), job["exit"]["cause"].as_str()),
        (Some("EXIT"), Some("TERM_OWNER")),
        "{job}"
    );
    assert!(!processes::is_alive(root));
    cluster.audit();
}

#[test]
fn a_suspended_job_stands_still() {
    let cluster = Cluster::start("suspend");
    let cli = cluster.cli();
    let id = cli.submit(&["--", "sleep", "100000"]);
    let pid = cluster.running(&id);
    cli.good(&["jobs", "suspend", &id]);
    cluster.job(&id, "is suspended", |job| job["state"] == "SUSP");
    cli.good(&["jobs", "resume", &id]);
    assert_eq!(cluster.running(&id), pid);
    cli.good(&["jobs", "kill", "--wait", "--timeout", "60s", &id]);
}
