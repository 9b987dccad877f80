//! Hosts that go silent, are lost, come back, or do not.

use std::process::Stdio;

use nix::sys::signal::Signal;
use serde_json::Value;
use xce_tests::harness::cli::Cli;
use xce_tests::harness::{binaries, patience, processes};
use xce_tests::{Cluster, Setup};

use super::{identities, idle_service, rows, service, word};

/// A cluster whose hosts are suspect after 1.5 s and lost after 4 s.
fn cluster(name: &str, workers: u16) -> Cluster {
    Setup::new(name)
        .workers(workers)
        .set("beat=500ms")
        .set("host_grace=4s")
        .set_worker("beat=500ms")
        .broken()
        .start()
}

/// Workers that are frozen; they go on when this ends.
struct Frozen(Vec<u32>);

impl Frozen {
    fn new(cluster: &Cluster, names: &[&str]) -> Self {
        let pids: Vec<u32> = names.iter().map(|name| cluster.worker_pid(name)).collect();
        for pid in &pids {
            processes::signal(*pid, Signal::SIGSTOP);
        }
        Self(pids)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        for pid in &self.0 {
            processes::signal(*pid, Signal::SIGCONT);
        }
    }
}

fn life(cli: &Cli, host: &str) -> String {
    let host = cli.json(&["hosts", "show", host]);
    host["state"].as_str().unwrap_or_default().to_owned()
}

fn is(cluster: &Cluster, host: &str, state: &str) {
    cluster.until(&format!("{host} is {state}"), |cli| {
        life(cli, host) == state
    });
}

/// The replica of a service on a host.
fn replica_on(service: &Value, host: &str) -> Value {
    let mut replicas = rows(service, "replicas").iter();
    let there = replicas.find(|replica| replica["host"] == host);
    there
        .unwrap_or_else(|| panic!("none on {host}: {service}"))
        .clone()
}

fn cause(job: &Value) -> &str {
    job["exit"]["cause"].as_str().unwrap_or_default()
}

#[test]
fn f06_a_worker_that_is_frozen_for_less_than_the_grace_changes_nothing() {
    let cluster = Setup::new("frozen")
        .set("beat=500ms")
        .set("host_grace=10m")
        .set_worker("beat=500ms")
        .broken()
        .start();
    let cli = cluster.cli();
    let more = "[[ports]]\nname = \"http\"";
    let command = r#"["sleep", "100000"]"#;
    let file = service(cluster.folder(), "web", 4, command, more);
    cli.good(&["services", "create", word(&file)]);
    let seen = cluster.steady("web", 4);
    let before = identities(&seen);
    let frozen = Frozen::new(&cluster, &["w2"]);
    is(&cluster, "w2", "suspect");
    let job = replica_on(&seen, "w2")["job"]
        .as_str()
        .expect("a job")
        .to_owned();
    let job = cli.job(&job);
    assert_eq!(
        (&job["state"], &job["reachable"]),
        (&"RUN".into(), &false.into())
    );
    let seen = cluster.service("web", "has less available replicas", |service| {
        service["available"].as_u64() < Some(4)
    });
    assert_eq!(
        (&seen["live"], &seen["lost"]),
        (&4.into(), &0.into()),
        "{seen}"
    );
    let suspects = rows(&seen, "endpoints").iter();
    assert!(
        suspects.clone().any(|one| one["state"] == "suspect"),
        "{seen}"
    );
    let host = cli.json(&["hosts", "show", "w2"]);
    assert!(host["jobs_unreachable"].as_u64() > Some(0), "{host}");
    // The same under another start of the controller: everybody has a fresh grace.
    cluster.kill_daemon(cluster.controller_pid());
    cluster.until("the controller is back", |cli| life(cli, "w1") == "up");
    assert_eq!(life(&cli, "w2"), "suspect");
    drop(frozen);
    is(&cluster, "w2", "up");
    assert_eq!(identities(&cluster.steady("web", 4)), before);
    cluster.audit();
}

#[test]
fn a_lost_replica_that_nobody_could_replace_goes_on_where_its_host_is_back() {
    let cluster = cluster("kept", 3);
    let cli = cluster.cli();
    let command = r#"["sleep", "100000"]"#;
    let more = "[spread]\nmax_per_host = 1\nmode = \"strict\"";
    let file = service(cluster.folder(), "web", 3, command, more);
    cli.good(&["services", "create", word(&file)]);
    let before = identities(&cluster.steady("web", 3));
    let frozen = Frozen::new(&cluster, &["w3"]);
    is(&cluster, "w3", "lost");
    let seen = cluster.service("web", "has a replacement that waits", |service| {
        service["lost"] == 1 && rows(service, "replicas").len() == 4
    });
    assert_eq!(seen["live"], 3, "{seen}");
    let lost = replica_on(&seen, "w3");
    assert_eq!(
        (&lost["state"], &lost["lost"]),
        (&"RUN".into(), &true.into()),
        "{lost}"
    );
    let job = cli.job(lost["job"].as_str().expect("a job"));
    assert_eq!(
        (&job["terminal"], &job["reason_code"]),
        (&false.into(), &"lost".into())
    );
    let explained = cli.good(&["services", "explain", "web"]);
    assert!(
        explained.contains("on w3, lost with its host"),
        "{explained}"
    );
    let status = cli.good(&["cluster", "status"]);
    assert!(status.contains("1 host is lost: w3"), "{status}");
    drop(frozen);
    let seen = cluster.steady("web", 3);
    assert_eq!(identities(&seen), before, "same jobs, runs and processes");
    assert_eq!(seen["lost"], 0, "{seen}");
    cluster.audit();
}

#[test]
fn what_was_replaced_is_stopped_when_its_host_is_back() {
    let cluster = cluster("fenced", 3);
    let cli = cluster.cli();
    let more = "[[ports]]\nname = \"http\"";
    let command = r#"["sleep", "100000"]"#;
    let file = service(cluster.folder(), "web", 6, command, more);
    cli.good(&["services", "create", word(&file)]);
    let before = identities(&cluster.steady("web", 6));
    let again = cli.submit(&[
        "-c",
        "0.1",
        "-m",
        "16MiB",
        "--rerunnable",
        "--",
        "sleep",
        "100000",
    ]);
    let once = cli.submit(&["-c", "0.1", "-m", "16MiB", "--", "sleep", "100000"]);
    let pids = [&again, &once].map(|id| cluster.running(id));
    let hosts = [&again, &once].map(|id| cli.job(id)["host"].clone());
    let lost = hosts[0].as_str().expect("a host").to_owned();
    let frozen = Frozen::new(&cluster, &[&lost]);
    is(&cluster, &lost, "lost");
    let seen = cluster.steady("web", 6);
    let after = identities(&seen);
    let replaced: Vec<_> = before.iter().filter(|one| !after.contains(one)).collect();
    assert!(!replaced.is_empty(), "{seen}");
    for (job, _, pid) in &replaced {
        let job = cluster.ended(job);
        assert_eq!(cause(&job), "HOST_LOST", "{job}");
        assert!(
            processes::is_alive(*pid),
            "its worker is frozen, so nobody stops it"
        );
    }
    cluster.job(&again, "runs again", |job| {
        job["state"] == "RUN" && job["run"] == 2
    });
    if hosts[1] == hosts[0] {
        assert_eq!(cause(&cluster.ended(&once)), "HOST_LOST");
    }
    let host = cli.json(&["hosts", "show", &lost]);
    assert!(rows(&host, "remnants").len() > replaced.len(), "{host}");
    drop(frozen);
    is(&cluster, &lost, "up");
    patience::until("what was replaced is stopped", || {
        let mut old = replaced.iter().map(|(_, _, pid)| *pid).chain([pids[0]]);
        !old.any(processes::is_alive)
    });
    cluster.until("its ends are confirmed", |cli| {
        rows(&cli.json(&["hosts", "show", &lost]), "remnants").is_empty()
    });
    assert_eq!(identities(&cluster.steady("web", 6)), after);
    let counted = cli.json(&["actors", "show", &format!("host/{lost}")]);
    assert!(counted.to_string().contains("stale_reports"), "{counted}");
    cluster.audit();
}

#[test]
fn an_operator_knows_that_a_host_is_off_and_takes_it_out() {
    let cluster = cluster("dead", 3);
    let cli = cluster.cli();
    let file = idle_service(cluster.folder(), "web", 6);
    cli.good(&["services", "create", word(&file)]);
    let seen = cluster.steady("web", 6);
    let refused = cli.run(&["hosts", "confirm-dead", "w3"]).refused(1);
    assert!(refused.contains("host w3 answers"), "{refused}");
    let refused = cli.run(&["hosts", "remove", "w3"]).refused(1);
    assert!(
        refused.contains("drain it and stop its worker"),
        "{refused}"
    );
    let there = replica_on(&seen, "w3");
    let job = there["job"].as_str().expect("a job").to_owned();
    let refused = cli.run(&["jobs", "confirm-dead", &job]).refused(1);
    assert!(refused.contains("kill the job"), "{refused}");
    let frozen = Frozen::new(&cluster, &["w3"]);
    is(&cluster, "w3", "suspect");
    cli.good(&["hosts", "confirm-dead", "w3", "--wait"]);
    let host = cli.json(&["hosts", "show", "w3"]);
    assert!(host["state"] == "lost" && host["jobs"] == 0, "{host}");
    assert!(
        host["reason"]
            .as_str()
            .is_some_and(|text| text.contains("knows that it is off"))
    );
    cluster.steady("web", 6);
    cli.good(&["hosts", "remove", "w3", "--wait"]);
    cli.run(&["hosts", "show", "w3"]).refused(3);
    // Back all the same: it joins anew, and what it had is stopped.
    drop(frozen);
    cluster.until("it is up", |cli| {
        cli.json(&["hosts", "list"])
            .as_array()
            .is_some_and(|hosts| hosts.len() == 3)
    });
    let pid = xce_tests::harness::cluster::pid(&there);
    patience::until("what it had is stopped", || !processes::is_alive(pid));
    cluster.steady("web", 6);
    cluster.audit();
}

#[test]
fn r28_when_most_hosts_go_silent_at_once_none_is_lost_for_another_grace() {
    let cluster = cluster("mass", 4);
    let cli = cluster.cli();
    let file = idle_service(cluster.folder(), "web", 4);
    cli.good(&["services", "create", word(&file)]);
    let before = identities(&cluster.steady("web", 4));
    let frozen = Frozen::new(&cluster, &["w1", "w2", "w3"]);
    let alarm = |cli: &Cli, text: &str| cli.good(&["cluster", "status"]).contains(text);
    cluster.until("the controller doubts its own network", |cli| {
        alarm(cli, "3 of 4 hosts went silent at once")
    });
    let told = cli.good(&["hosts", "list"]);
    assert!(told.contains("declares none lost for another"), "{told}");
    assert_eq!(
        ["w1", "w2", "w3"].map(|host| life(&cli, host)),
        ["suspect"; 3]
    );
    // The last one too: none is lost at all.
    let last = Frozen::new(&cluster, &["w4"]);
    cluster.until("all are silent", |cli| {
        alarm(cli, "not one of 4 hosts answers")
    });
    assert_eq!(
        ["w1", "w2", "w3", "w4"].map(|host| life(&cli, host)),
        ["suspect"; 4]
    );
    drop(last);
    is(&cluster, "w4", "up");
    drop(frozen);
    for host in ["w1", "w2", "w3"] {
        is(&cluster, host, "up");
    }
    assert_eq!(identities(&cluster.steady("web", 4)), before);
    let status = cli.json(&["cluster", "status"]);
    assert!(rows(&status, "alarms").is_empty(), "all is well: {status}");
    cluster.audit();
}

#[test]
fn r28_after_the_second_grace_losses_come_one_by_one() {
    let cluster = cluster("slowly", 4);
    let cli = cluster.cli();
    let file = idle_service(cluster.folder(), "web", 4);
    cli.good(&["services", "create", word(&file)]);
    cluster.steady("web", 4);
    let frozen = Frozen::new(&cluster, &["w1", "w2", "w3"]);
    for host in ["w1", "w2", "w3"] {
        is(&cluster, host, "lost");
    }
    let seen = cluster.steady("web", 4);
    assert!(
        rows(&seen, "replicas")
            .iter()
            .all(|one| one["host"] == "w4"),
        "{seen}"
    );
    let log = cluster.log_text();
    assert!(log.contains("hosts are silent at once"), "{log}");
    drop(frozen);
    for host in ["w1", "w2", "w3"] {
        is(&cluster, host, "up");
    }
    cluster.audit();
}

/// A worker that was started by hand; ends with this.
struct Second(std::process::Child);

impl Second {
    /// Another worker under a name of the cluster, with a state directory of its own.
    fn start(cluster: &Cluster, name: &str) -> Self {
        let log = std::fs::File::create(cluster.folder().join("second.log"));
        let identity = cluster.home().join(name).join("identity");
        let settings = [
            format!("name={name}"),
            format!("state_dir={}", cluster.folder().join("second").display()),
            format!("identity_dir={}", identity.display()),
            format!("controllers={}", cluster.address()),
            "beat=500ms".to_owned(),
        ];
        let mut command = std::process::Command::new(binaries::path("xced"));
        command.args(["worker", "--home"]).arg(cluster.home());
        for setting in settings {
            command.args(["--set", &setting]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command
            .stderr(log.expect("the folder can be written"))
            .spawn();
        Self(child.expect("xced starts"))
    }
}

impl Drop for Second {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn f62_r18_a_name_belongs_to_the_worker_that_answers_and_passes_on() {
    let cluster = cluster("name", 2);
    let cli = cluster.cli();
    let file = idle_service(cluster.folder(), "web", 4);
    cli.good(&["services", "create", word(&file)]);
    let before = identities(&cluster.steady("web", 4));
    let incarnation = |cli: &Cli| cli.json(&["hosts", "show", "w2"])["incarnation"].clone();
    let first = incarnation(&cli);
    let second = Second::start(&cluster, "w2");
    let log = cluster.folder().join("second.log");
    let refused = || std::fs::read_to_string(&log).is_ok_and(|text| text.contains("is in use"));
    patience::until("the second one is refused in words", refused);
    assert_eq!(incarnation(&cli), first);
    assert_eq!(identities(&cluster.steady("web", 4)), before);
    // The first one misses its beats: the name passes on, and its jobs are lost with it.
    let frozen = Frozen::new(&cluster, &["w2"]);
    cluster.until("the second one has the name", |cli| {
        incarnation(cli) != first
    });
    let seen = cluster.steady("web", 4);
    assert_eq!(
        cli.json(&["hosts", "list"]).as_array().map(Vec::len),
        Some(2)
    );
    let after = identities(&seen);
    let lost: Vec<_> = before.iter().filter(|one| !after.contains(one)).collect();
    assert!(!lost.is_empty(), "{seen}");
    for (job, _, _) in &lost {
        assert_eq!(cause(&cluster.ended(job)), "HOST_LOST");
    }
    // It is back without its name: what it has is stopped.
    drop(frozen);
    patience::until("what the first one has is stopped", || {
        !lost.iter().any(|(_, _, pid)| processes::is_alive(*pid))
    });
    assert_eq!(identities(&cluster.steady("web", 4)), after);
    cluster.audit();
    drop(second);
}
