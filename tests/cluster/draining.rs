//! Hosts are drained: replicas move first, batch jobs have until the deadline.

use std::path::{Path, PathBuf};

use serde_json::Value;
use xce_tests::harness::cli::Cli;
use xce_tests::harness::load::Load;
use xce_tests::harness::programs;
use xce_tests::{Cluster, Setup};

use super::{rows, service, word};

/// A small web server with a readiness probe.
fn web(folder: &Path, name: &str, replicas: u32, rollout: &str) -> PathBuf {
    programs::need("python3");
    let more = format!(
        "[[ports]]\nname = \"http\"\n[probes.readiness]\n\
         http = {{ port = \"http\", path = \"/\" }}\nperiod = \"200ms\"\n\
         [stop]\ndrain = \"1s\"\n[rollout]\n{rollout}\n"
    );
    let command = r#"["sh", "-c", "exec python3 -m http.server -b 127.0.0.1 $XCE_PORT_http"]"#;
    service(folder, name, replicas, command, &more)
}

fn hosts_of(service: &Value) -> Vec<String> {
    let host = |replica: &Value| replica["host"].as_str().unwrap_or("-").to_owned();
    let mut hosts: Vec<String> = rows(service, "replicas").iter().map(host).collect();
    hosts.sort();
    hosts
}

fn drain_of(cli: &Cli, host: &str) -> Value {
    cli.json(&["hosts", "show", host])["drain"].clone()
}

/// What is left on a host, as one text.
fn left(cli: &Cli, host: &str) -> String {
    let drain = drain_of(cli, host);
    let lines = rows(&drain, "left").iter();
    let lines: Vec<&str> = lines.filter_map(Value::as_str).collect();
    lines.join("\n")
}

fn drained(cli: &Cli, host: &str) -> bool {
    drain_of(cli, host)["state"] == "drained"
}

#[test]
fn p65_one_replica_moves_without_a_request_lost() {
    let cluster = Setup::new("drain-one").start();
    let cli = cluster.cli();
    let file = web(
        cluster.folder(),
        "one",
        1,
        "max_surge = 1\nmax_unavailable = 0",
    );
    cli.good(&["services", "create", word(&file), "--wait"]);
    let host = hosts_of(&cli.service("one"))[0].clone();
    let other = if host == "w1" { "w2" } else { "w1" };
    let load = Load::start(&cli, "one", false);
    load.answered(20);
    let told = cli.good(&["hosts", "drain", &host, "--reason", "a new disk", "--wait"]);
    assert!(
        told.contains("1 replica of one moves to other hosts"),
        "{told}"
    );
    assert!(drained(&cli, &host), "{}", drain_of(&cli, &host));
    load.answered(20);
    for set in load.seen() {
        assert!(!rows(&set, "endpoints").is_empty(), "{set}");
    }
    load.finish();
    let seen = cluster.steady("one", 1);
    assert_eq!(hosts_of(&seen), [other], "{seen}");
    assert_eq!(seen["replicas"][0]["index"], 0, "{seen}");
    // Back again the other way, over a restart of the controller.
    cli.good(&["hosts", "reopen", &host, "--wait"]);
    cli.good(&["hosts", "drain", other]);
    cluster.kill_daemon(cluster.controller_pid());
    cluster.until("the other host is drained", |cli| drained(cli, other));
    let seen = cluster.steady("one", 1);
    assert_eq!(hosts_of(&seen), [host.as_str()], "{seen}");
    assert_eq!(
        drain_of(&cli, other)["by"],
        cli.json(&["jobs", "list", "--all"])[0]["owner"]
    );
    cli.good(&["hosts", "undrain", other, "--wait"]);
    assert!(drain_of(&cli, other).is_null());
    cluster.audit();
}

#[test]
fn f91_all_hosts_at_once_leave_what_must_be_available() {
    let cluster = Setup::new("drain-all").start();
    let cli = cluster.cli();
    let rollout = "max_surge = 1\nmax_unavailable = 1";
    let file = web(cluster.folder(), "web", 4, rollout);
    cli.good(&["services", "create", word(&file), "--wait"]);
    let job = cli.submit(&["--", "sleep", "1000"]);
    cluster.running(&job);
    cli.good(&["hosts", "drain", "w1", "--deadline", "2s"]);
    let told = cli.good(&["hosts", "drain", "w2", "--deadline", "2s"]);
    assert!(told.contains("no other host takes jobs now"), "{told}");
    let ended = cluster.ended(&job);
    assert_eq!(
        (&ended["state"], &ended["exit"]["cause"]),
        (&"EXIT".into(), &"TERM_DRAIN".into())
    );
    cluster.until("one replica has stopped, and three stay", |cli| {
        let seen = cli.service("web");
        (seen["available"].as_u64(), seen["stopping"].as_u64()) == (Some(3), Some(0))
    });
    let held = "available 3 - 1 < minimum 3";
    let lines = left(&cli, "w1") + &left(&cli, "w2");
    assert!(
        lines.contains(held) && lines.contains("no host takes jobs"),
        "{lines}"
    );
    let explained = cli.good(&["services", "explain", "web"]);
    assert!(explained.contains(held), "{explained}");
    // A job that waits says why.
    let waits = cli.submit(&["--", "true"]);
    let reason = cluster.job(&waits, "waits", |job| job["state"] == "PEND")["reason"].clone();
    assert!(
        reason
            .as_str()
            .is_some_and(|text| text.contains("is drained")),
        "{reason}"
    );
    cli.good(&["hosts", "reopen", "w2"]);
    cluster.steady("web", 4);
    cluster.until("the first host is drained", |cli| drained(cli, "w1"));
    cluster.ended(&waits);
    cluster.audit();
}

#[test]
fn batch_jobs_have_until_the_deadline_and_run_again_where_they_may() {
    let cluster = Setup::new("drain-batch").broken().start();
    let cli = cluster.cli();
    let again = cli.submit(&["--rerunnable", "--", "sleep", "1000"]);
    cluster.running(&again);
    let host = cli.job(&again)["host"]
        .as_str()
        .expect("it runs")
        .to_owned();
    let told = cli.good(&["hosts", "drain", &host]);
    assert!(told.contains("1 batch job runs on until it ends"), "{told}");
    let line = left(&cli, &host);
    assert!(
        line.contains("runs until it ends: no deadline was given"),
        "{line}"
    );
    // Another deadline replaces it, and holds over a kill of controller and worker.
    cli.good(&["hosts", "drain", &host, "--deadline", "3s"]);
    cluster.kill_daemon(cluster.controller_pid());
    cluster.kill_daemon(cluster.worker_pid(&host));
    let moved = cluster.job(&again, "runs elsewhere", |job| {
        job["state"] == "RUN" && job["run"] == 2
    });
    assert_ne!(moved["host"], host.as_str(), "{moved}");
    let past = rows(&moved, "past");
    assert_eq!(past.len(), 1, "{moved}");
    assert_eq!(
        (&past[0]["run"], &past[0]["host"]),
        (&1.into(), &host.as_str().into())
    );
    assert_eq!(past[0]["exit"]["cause"], "TERM_DRAIN", "{moved}");
    cluster.until("it is drained", |cli| drained(cli, &host));
    let listed = cli.good(&["hosts", "list"]);
    assert!(listed.contains("drained"), "{listed}");
    cli.good(&["hosts", "drain", &host, "--wait", "--timeout", "20s"]);
    cluster.audit();
}

#[test]
fn what_is_asked_wrongly_is_refused() {
    let cluster = Cluster::start("drain-bad");
    let cli = cluster.cli();
    let text = cli.run(&["hosts", "drain", "w3"]).refused(3);
    assert!(text.contains("did you mean `w"), "{text}");
    cli.run(&["hosts", "drain", "w1", "--deadline", "soon"])
        .code_is(2);
    let text = cli.good(&["hosts", "undrain", "w1"]);
    assert!(text.contains("is not drained"), "{text}");
    let text = cli.good(&["hosts", "drain", "w1"]);
    assert!(text.contains("nothing runs there"), "{text}");
    assert!(drained(&cli, "w1"));
    cluster.audit();
}
