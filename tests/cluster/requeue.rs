//! `jobs requeue`: the run is killed if there is one, and the next one follows; what ended is kept.

use std::fs;

use serde_json::Value;
use xce_tests::{Cluster, Setup};

use super::{idle_service, rows, word};

fn past(job: &Value) -> Vec<(u64, String)> {
    let run = |run: &Value| {
        let cause = run["exit"]["cause"].as_str().unwrap_or_default().to_owned();
        (run["run"].as_u64().unwrap_or_default(), cause)
    };
    rows(job, "past").iter().map(run).collect()
}

#[test]
fn a_job_runs_again_in_every_state_and_over_a_kill_of_the_controller() {
    let cluster = Setup::new("requeue").broken().start();
    let cli = cluster.cli();
    let runs = cluster.folder().join("runs");
    let script = format!("echo $XCE_RUN >> {}; exec sleep 1000", runs.display());
    let id = cli.submit(&["--", "sh", "-c", &script]);
    let first = cluster.running(&id);
    cli.good(&["jobs", "requeue", &id]);
    cluster.kill_daemon(cluster.controller_pid());
    let again = cluster.job(&id, "runs again", |job| {
        job["run"] == 2 && job["state"] == "RUN"
    });
    assert_ne!(again["pid"].as_u64(), Some(u64::from(first)), "{again}");
    assert_eq!(past(&again), [(1, "TERM_REQUEUE".to_owned())]);
    // One that was killed comes back too, with both ends kept.
    cli.good(&["jobs", "kill", &id]);
    cluster.ended(&id);
    cli.good(&["jobs", "requeue", &id]);
    let third = cluster.job(&id, "runs once more", |job| {
        job["run"] == 3 && job["state"] == "RUN"
    });
    assert_eq!(past(&third)[1], (2, "TERM_OWNER".to_owned()));
    cluster.until("each run wrote its number once", |_| {
        fs::read_to_string(&runs).unwrap_or_default() == "1\n2\n3\n"
    });
    let shown = cli.good(&["jobs", "show", &id]);
    assert!(shown.contains("run 1 on w"), "{shown}");
    // What it holds is counted once, and given back.
    let used = |cli: &xce_tests::harness::cli::Cli| -> u64 {
        let hosts = cli.json(&["hosts", "list"]);
        let hosts = hosts.as_array().expect("a list");
        hosts.iter().filter_map(|host| host["jobs"].as_u64()).sum()
    };
    assert_eq!(used(&cli), 1);
    for _ in 0..5 {
        let before = cli.job(&id)["run"].as_u64().unwrap_or_default();
        cli.good(&["jobs", "requeue", &id]);
        cluster.job(&id, "runs again", |job| {
            job["run"] == before + 1 && job["state"] == "RUN"
        });
    }
    assert_eq!(used(&cli), 1);
    cli.good(&["jobs", "kill", &id]);
    cluster.ended(&id);
    assert_eq!(used(&cli), 0);
    cluster.audit();
}

#[test]
fn elements_and_whole_arrays_run_again() {
    let cluster = Cluster::start("requeue-array");
    let cli = cluster.cli();
    let id = cli.submit(&[
        "-n",
        "sweep[1-3]%1",
        "--",
        "sh",
        "-c",
        "exit $((XCE_RUN - 1))",
    ]);
    cluster.ended(&id);
    let element = format!("{id}[2]");
    cli.good(&["jobs", "requeue", &element]);
    let again = cluster.job(&element, "ended again", |job| {
        job["run"] == 2 && job["terminal"] == true
    });
    assert_eq!(
        (&again["state"], &again["exit"]["code"]),
        (&"EXIT".into(), &1.into())
    );
    cli.good(&["jobs", "requeue", &id]);
    cluster.job(&id, "all ended once more", |job| {
        job["terminal"] == true && job["array"]["exited"] == 3
    });
    // Elements that were cancelled while they waited run after all.
    let id = cli.submit(&["--hold", "-n", "later[1-3]", "--", "true"]);
    cli.good(&["jobs", "kill", &id]);
    cluster.ended(&id);
    cli.good(&["jobs", "requeue", &format!("{id}[3]")]);
    cli.good(&["jobs", "requeue", &id]);
    cli.good(&["jobs", "release", &id]);
    let done = cluster.job(&id, "all of it ran", |job| job["array"]["done"] == 3);
    assert_eq!(done["state"], "DONE", "{done}");
    cluster.audit();
}

#[test]
fn a_replica_that_its_service_ends_stays_ended() {
    let cluster = Cluster::start("requeue-replica");
    let cli = cluster.cli();
    let file = idle_service(cluster.folder(), "idle", 2);
    cli.good(&["services", "create", word(&file), "--wait"]);
    let service = cluster.steady("idle", 2);
    let job = service["replicas"][1]["job"]
        .as_str()
        .expect("a job")
        .to_owned();
    // One that goes on is started anew in its place.
    cli.good(&["jobs", "requeue", &job]);
    let again = cluster.job(&job, "runs again", |job| {
        job["run"] == 2 && job["state"] == "RUN"
    });
    assert_eq!(again["replica"], 1, "{again}");
    cluster.steady("idle", 2);
    cli.good(&["services", "scale", "idle", "1", "--wait"]);
    let ended = cluster.steady("idle", 1)["replicas"][0]["job"].clone();
    let gone = if ended == job.as_str() {
        service["replicas"][0]["job"].as_str().expect("a job")
    } else {
        &job
    };
    let text = cli.run(&["jobs", "requeue", gone]).refused(1);
    assert!(text.contains("its service decides"), "{text}");
    cli.run(&["jobs", "requeue", "4711"]).refused(3);
    cli.run(&["jobs", "requeue", "none"]).code_is(2);
    assert_eq!(cluster.steady("idle", 1)["live"], 1);
    cluster.audit();
}
