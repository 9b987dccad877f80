//! A worker that is killed: its jobs go on, and nothing about them is lost or told twice.

use std::fs;

use nix::sys::signal::Signal;
use xce_tests::Setup;
use xce_tests::harness::patience;
use xce_tests::harness::processes;
use xce_tests::harness::watch::Watch;

use super::{identities, idle_service, word};

#[test]
fn jobs_survive_the_kill_of_their_worker_with_the_same_processes() {
    let cluster = Setup::new("worker-kill").broken().start();
    let cli = cluster.cli();
    let file = idle_service(cluster.folder(), "quiet", 4);
    cli.good(&["services", "create", word(&file)]);
    let before = identities(&cluster.steady("quiet", 4));
    let job = cli.submit(&["--", "sleep", "100000"]);
    let pid = cluster.running(&job);
    for name in ["w1", "w2"] {
        cluster.kill_daemon(cluster.worker_pid(name));
    }
    let workers = ["w1", "w2"].map(|name| cluster.worker_pid(name));
    assert!(
        workers.iter().all(|pid| processes::is_alive(*pid)),
        "they are started again"
    );
    // An answer that needs the worker shows that it is back.
    let host = cli.job(&job)["host"]
        .as_str()
        .expect("it runs somewhere")
        .to_owned();
    cluster.until("the host answers", |cli| {
        cli.json(&["hosts", "show", &host])["state"] == "up"
    });
    cli.good(&["jobs", "suspend", &job]);
    cluster.job(&job, "is suspended by the new worker", |job| {
        job["state"] == "SUSP"
    });
    cli.good(&["jobs", "resume", &job]);
    assert_eq!(cluster.running(&job), pid);
    let after = cluster.steady("quiet", 4);
    assert_eq!(identities(&after), before, "same jobs, runs and processes");
    assert!(before.iter().all(|(_, _, pid)| processes::is_alive(*pid)));
    cli.good(&["jobs", "kill", "--wait", "--timeout", "60s", &job]);
    assert!(
        !processes::is_alive(pid),
        "the new worker stops what the old one started"
    );
    cluster.audit();
}

#[test]
fn ends_that_no_worker_saw_are_told_exactly_once() {
    let cluster = Setup::new("worker-away").broken().start();
    let cli = cluster.cli();
    let gate = cluster.folder().join("gate");
    let wait = format!("while [ ! -e {} ]; do sleep 0.05; done", gate.display());
    let scripts = [
        format!("{wait}; exit 3"),
        format!("{wait}; kill -ABRT $$"),
        wait.clone(),
    ];
    let ids: Vec<String> = scripts
        .iter()
        .map(|script| cli.submit(&["-c", "0.1", "--", "sh", "-c", script]))
        .collect();
    let pids: Vec<u32> = ids.iter().map(|id| cluster.running(id)).collect();
    let watch = Watch::start(&cli, true);
    // Stopped, the supervisor starts no worker anew.
    processes::signal(cluster.dev_pid(), Signal::SIGSTOP);
    for name in ["w1", "w2"] {
        cluster.kill_daemon(cluster.worker_pid(name));
    }
    fs::write(&gate, "").expect("the gate opens");
    patience::until("the jobs have ended", || {
        pids.iter().all(|pid| !processes::is_alive(*pid))
    });
    assert!(
        ids.iter().all(|id| cli.job(id)["terminal"] == false),
        "nobody could tell yet"
    );
    processes::signal(cluster.dev_pid(), Signal::SIGCONT);
    let expected = [
        ("EXIT", Some(3), None),
        ("EXIT", None, Some(6)),
        ("DONE", Some(0), None),
    ];
    for (id, (state, code, signal)) in ids.iter().zip(expected) {
        let job = cluster.ended(id);
        let exit = &job["exit"];
        assert_eq!(
            (
                job["state"].as_str(),
                exit["code"].as_i64(),
                exit["signal"].as_i64()
            ),
            (Some(state), code, signal),
            "{job}"
        );
        assert_eq!(job["run"], 1, "{job}");
    }
    // A last change, behind which nothing older can come.
    let last = cli.submit(&["--", "true"]);
    cluster.ended(&last);
    let arrived = || watch.seen().iter().any(|changes| ends(changes, &last) == 1);
    patience::until("the watch has seen the last change", arrived);
    for id in &ids {
        let times: usize = watch.seen().iter().map(|changes| ends(changes, id)).sum();
        assert_eq!(times, 1, "the end of job {id} was told {times} times");
    }
    cluster.audit();
}

/// How often changes show a job as ended.
fn ends(changes: &serde_json::Value, id: &str) -> usize {
    let jobs = super::rows(changes, "jobs").iter();
    jobs.filter(|job| job["id"] == id && job["terminal"] == true)
        .count()
}
