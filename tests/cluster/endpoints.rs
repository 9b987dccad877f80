//! Endpoints: who reads them loses no request, whatever is updated, scaled or killed meanwhile.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use xce_tests::harness::cli::Cli;
use xce_tests::harness::load::Load;
use xce_tests::harness::{patience, processes, programs};
use xce_tests::{Cluster, Setup};

use super::{rows, service, word};

/// A drain that no test can wait for: what stops within it was drained early.
/// Source: chosen; ten times the longest wait of a test.
const ENDLESS: &str = "10m";

/// Writes the example of nginx with other numbers.
fn nginx(folder: &Path, replicas: u32, drain: &str, release: u32) -> PathBuf {
    let example = xce_tests::root().join("examples/nginx.toml");
    let text = fs::read_to_string(example).expect("the example can be read");
    let text = text
        .replace("replicas = 2\n", &format!("replicas = {replicas}\n"))
        .replace(
            "name = \"nginx\"\n",
            &format!("name = \"nginx\"\nenv = {{ RELEASE = \"{release}\" }}\n"),
        )
        .replace("[stop]\n", &format!("[stop]\ndrain = \"{drain}\"\n"));
    let path = folder.join(format!("nginx-{release}.toml"));
    fs::write(&path, text).expect("the folder can be written");
    path
}

fn wait(cli: &Cli, words: &[&str]) {
    let all: Vec<&str> = words
        .iter()
        .copied()
        .chain(["--wait", "--timeout", "60s"])
        .collect();
    cli.good(&all);
}

/// How many drains were ended early, as the actor of the endpoints says.
fn early(cluster: &Cluster, name: &str) -> u64 {
    let id = cluster.cli().service(name)["id"].clone();
    let actor = cluster
        .cli()
        .json(&["actors", "show", &format!("endpoints/{id}")]);
    actor["view"]["drains_ended_early"]
        .as_u64()
        .unwrap_or_else(|| panic!("no such field in {actor}"))
}

#[test]
fn a_reader_that_says_what_it_uses_ends_drains_early_and_loses_no_request() {
    programs::need("nginx");
    let cluster = Setup::new("ep-ack").start();
    let cli = cluster.cli();
    let first = nginx(cluster.folder(), 4, ENDLESS, 1);
    wait(&cli, &["services", "create", word(&first)]);
    let load = Load::start(&cli, "nginx", true);
    load.answered(20);
    let second = nginx(cluster.folder(), 4, ENDLESS, 2);
    wait(&cli, &["services", "update", word(&second)]);
    load.answered(20);
    assert_eq!(early(&cluster, "nginx"), 4, "each old replica once");
    wait(&cli, &["services", "scale", "nginx", "2"]);
    assert_eq!(early(&cluster, "nginx"), 6);
    load.answered(20);
    seen_by_operators(&cli);
    load.finish();
    cluster.audit();
}

/// The reader is shown with its service and with its session.
fn seen_by_operators(cli: &Cli) {
    let actor = cli.json(&["actors", "show", "service/nginx"]);
    let readers = rows(&actor["view"], "readers");
    assert_eq!(readers.len(), 1, "{actor}");
    assert_eq!(readers[0]["acknowledges"], true, "{actor}");
    let sessions = cli.json(&["sessions", "list"]);
    let sessions = sessions.as_array().expect("a list");
    let reads: Vec<&Value> = sessions
        .iter()
        .flat_map(|session| rows(session, "reads"))
        .collect();
    assert_eq!(reads.len(), 1, "{sessions:?}");
    assert_eq!(reads[0]["session"], readers[0]["session"]);
}

#[test]
fn a_reader_that_only_watches_loses_no_request_over_kills_of_the_daemons() {
    programs::need("nginx");
    let cluster = Setup::new("ep-watch").broken().start();
    let cli = cluster.cli();
    let first = nginx(cluster.folder(), 4, "2s", 1);
    wait(&cli, &["services", "create", word(&first)]);
    let load = Load::start(&cli, "nginx", false);
    load.answered(20);
    let second = nginx(cluster.folder(), 4, "2s", 2);
    cli.good(&["services", "update", word(&second)]);
    load.answered(20);
    cluster.kill_daemon(cluster.worker_pid("w1"));
    load.answered(100);
    cluster.kill_daemon(cluster.controller_pid());
    cluster.steady("nginx", 4);
    cli.good(&["services", "scale", "nginx", "2"]);
    cluster.kill_daemon(cluster.worker_pid("w2"));
    cluster.steady("nginx", 2);
    load.answered(20);
    load.finish();
    cluster.audit();
}

#[test]
fn a_reader_over_kills_of_the_controller_goes_on_and_generations_stay() {
    let cluster = Setup::new("ep-kill").broken().start();
    let cli = cluster.cli();
    let file = web(cluster.folder(), 4, "30s");
    wait(&cli, &["services", "create", word(&file)]);
    let load = Load::start(&cli, "web", true);
    let generation = |cli: &Cli| cli.json(&["services", "endpoints", "web"])["generation"].clone();
    let before = generation(&cli);
    cluster.kill_daemon(cluster.controller_pid());
    assert_eq!(generation(&cli), before, "the same after a start");
    // The reader is back and says what it uses, so that this ends before its drain.
    wait(&cli, &["services", "scale", "web", "3"]);
    assert_eq!(early(&cluster, "web"), 1);
    let generations: Vec<u64> = load
        .seen()
        .iter()
        .filter_map(|set| set["generation"].as_u64())
        .collect();
    assert!(generations.is_sorted(), "{generations:?}");
    assert!(generations.windows(2).all(|two| two[0] < two[1]));
    load.finish();
    cluster.audit();
}

/// A small web server that ends at once when it is told to.
fn web(folder: &Path, replicas: u32, drain: &str) -> PathBuf {
    programs::need("python3");
    let more = format!(
        "[[ports]]\nname = \"http\"\n[probes.readiness]\n\
         http = {{ port = \"http\", path = \"/\" }}\nperiod = \"200ms\"\n[stop]\ndrain = \"{drain}\"\n"
    );
    let command = r#"["sh", "-c", "exec python3 -m http.server -b 127.0.0.1 $XCE_PORT_http"]"#;
    service(folder, "web", replicas, command, &more)
}

#[test]
fn endpoints_stay_while_all_workers_are_killed_and_come_back() {
    let cluster = Setup::new("ep-workers").broken().start();
    let cli = cluster.cli();
    let file = web(cluster.folder(), 6, "0s");
    wait(&cli, &["services", "create", word(&file)]);
    let load = Load::start(&cli, "web", false);
    for name in ["w1", "w2"] {
        cluster.kill_daemon(cluster.worker_pid(name));
    }
    cluster.until("both hosts have joined again", |cli| {
        let pids = [cluster.worker_pid("w1"), cluster.worker_pid("w2")];
        pids.iter().all(|pid| processes::is_alive(*pid))
            && cli.json(&["cluster", "status"])["hosts_up"] == 2
    });
    load.answered(50);
    for set in load.seen() {
        assert_eq!(rows(&set, "endpoints").len(), 6, "{set}");
    }
    load.finish();
    cluster.audit();
}

#[test]
fn a_port_stays_held_until_its_holder_has_ended() {
    let cluster = Setup::new("ep-port").workers(1).start();
    let cli = cluster.cli();
    let more = "[[ports]]\nname = \"http\"\n[stop]\ngrace = \"4s\"\n";
    let stubborn = r#"["sh", "-c", "trap '' TERM; while :; do sleep 0.2; done"]"#;
    let file = service(cluster.folder(), "stubborn", 1, stubborn, more);
    cli.good(&["services", "create", word(&file)]);
    let old = cluster.steady("stubborn", 1);
    let job = rows(&old, "replicas")[0]["job"]
        .as_str()
        .expect("a job id")
        .to_owned();
    let port = rows(&old, "endpoints")[0]["port"].clone();
    cli.good(&["services", "restart", "stubborn"]);
    cluster.job(&job, "is being stopped", |job| job["state"] == "STOPPING");
    cli.good(&["services", "scale", "stubborn", "3"]);
    let new = cluster.service("stubborn", "has three others", |service| {
        rows(service, "endpoints").len() == 3
    });
    let ports: Vec<&Value> = rows(&new, "endpoints")
        .iter()
        .map(|row| &row["port"])
        .collect();
    assert!(!ports.contains(&&port), "{port} among {ports:?}");
    assert_eq!(
        cli.job(&job)["state"],
        "STOPPING",
        "the old one still holds its port"
    );
    // A fixed port that is held says by whom, and where.
    let number = port.as_u64().expect("a port");
    let more = format!("[[ports]]\nname = \"http\"\nport = {number}\n");
    let file = service(cluster.folder(), "fixed", 1, r#"["sleep", "1000"]"#, &more);
    cli.good(&["services", "create", word(&file)]);
    let expected = format!("port {number} in use on w1 (job {job})");
    cluster.service("fixed", "says who holds its port", |service| {
        let reason = &rows(service, "replicas")[0]["reason"];
        reason.as_str().is_some_and(|text| text.contains(&expected))
    });
    cluster.ended(&job);
    cluster.steady("fixed", 1);
    cluster.audit();
}

#[test]
fn forms_are_views_of_the_same_set() {
    let cluster = Setup::new("ep-forms").start();
    let cli = cluster.cli();
    let file = web(cluster.folder(), 2, "0s");
    wait(&cli, &["services", "create", word(&file)]);
    let all = |form: &str| cli.good(&["services", "endpoints", "web", "-o", form]);
    let set = cli.json(&["services", "endpoints", "web"]);
    let ports: Vec<u64> = rows(&set, "endpoints")
        .iter()
        .filter_map(|row| row["port"].as_u64())
        .collect();
    let plain: String = ports
        .iter()
        .map(|port| format!("127.0.0.1:{port}\n"))
        .collect();
    assert_eq!(all("plain"), plain);
    let hosts: Vec<&str> = rows(&set, "endpoints")
        .iter()
        .filter_map(|row| row["host"].as_str())
        .collect();
    let dns = all("dns");
    for (host, port) in hosts.iter().zip(&ports) {
        let line = format!("_http._tcp.web.default.xce. 0 IN SRV 0 1 {port} {host}.host.xce.\n");
        assert!(dns.contains(&line), "{dns}");
        assert!(dns.contains(&format!("{host}.host.xce. 0 IN A 127.0.0.1\n")));
    }
    let none = [
        "services",
        "endpoints",
        "web",
        "--port",
        "other",
        "-o",
        "plain",
    ];
    assert_eq!(cli.good(&none), "");
    let told = cli.run(&["services", "endpoints", "webb"]).refused(3);
    assert!(told.contains("did you mean `web`"), "{told}");
    let told = cli.run(&["services", "list", "-o", "plain"]).refused(2);
    assert!(told.contains("endpoints"), "{told}");
}

#[test]
fn a_program_is_given_each_set_and_a_failure_is_tried_again() {
    let cluster = Setup::new("ep-exec").start();
    let cli = cluster.cli();
    let file = web(cluster.folder(), 2, ENDLESS);
    wait(&cli, &["services", "create", word(&file)]);
    let (list, gate) = (cluster.folder().join("list"), cluster.folder().join("gate"));
    let script = format!(
        "cat > {0}.new; mv {0}.new {0}; echo $XCE_GENERATION; test -e {1}",
        list.display(),
        gate.display()
    );
    let words = [
        "services",
        "endpoints",
        "web",
        "--watch",
        "-o",
        "plain",
        "--exec",
        &script,
    ];
    let mut command = cli.command(&words);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("xcecli starts");
    let mut told = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let first = told.next().expect("a line").expect("a text");
    let again = told.next().expect("a line").expect("a text");
    assert_eq!(first, again, "it failed, so the same set comes again");
    fs::write(&gate, "").expect("the gate opens");
    // The drain has no end of its own.
    wait(&cli, &["services", "scale", "web", "1"]);
    let text = fs::read_to_string(&list).expect("the program has written it");
    let set = cli.json(&["services", "endpoints", "web"]);
    let port = &rows(&set, "endpoints")[0]["port"];
    assert_eq!(
        text,
        format!("# generation {}\n127.0.0.1:{port}\n", set["generation"])
    );
    let kept = cluster.folder().join("kept");
    let kept_words = [
        "services",
        "endpoints",
        "web",
        "--watch",
        "-o",
        "json",
        "--write",
        word(&kept),
    ];
    let mut writing = cli.command(&kept_words).spawn().expect("xcecli starts");
    patience::until("the file is written", || kept.exists());
    wait(&cli, &["services", "delete", "web"]);
    for ended in [&mut child, &mut writing] {
        let code = ended.wait().expect("a child can be waited for").code();
        assert_eq!(code, Some(3), "the service was deleted");
    }
    let last: Value =
        serde_json::from_str(&fs::read_to_string(&kept).expect("it is there")).expect("a set");
    assert_eq!(rows(&last, "endpoints").len(), 0, "{last}");
    cluster.audit();
}
