//! Ten services as people run them elsewhere, from files in three formats, all at once on one
//! cluster: each becomes what its file says.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use xce_tests::harness::net::{http_get, redis};
use xce_tests::harness::patience;
use xce_tests::harness::programs;
use xce_tests::{Cluster, Setup};

use super::first_run::address;
use super::{identities, rows, word};

#[test]
fn ten_services_from_files_become_what_they_say() {
    for program in ["python3", "redis-server", "redis-cli"] {
        programs::need(program);
    }
    let cluster = Setup::new("corpus").start();
    let cli = cluster.cli();
    let data = cluster.folder().join("data");
    fs::create_dir(&data).expect("the folder can be written");
    let stateful = changed(&cluster, "stateful.toml", "/var/lib/redis", word(&data));

    // With one host closed, three of ten have no place.
    cli.good(&[
        "hosts",
        "close",
        "w2",
        "--reason",
        "rack 2 is not there yet",
    ]);
    create(&cluster, &example("racks.json"));
    let racks = cluster.service("racks", "has seven on w1", |service| service["ready"] == 7);
    assert_eq!(by_host(&racks), [("w1".to_owned(), 7)].into());
    cli.good(&["hosts", "reopen", "w2"]);
    for name in [
        "revert.yaml",
        "checked.toml",
        "unhealthy.yaml",
        "slow-stop.toml",
        "hub.json",
        "instances.yaml",
        "each-host.toml",
        "cache.toml",
    ] {
        create(&cluster, &example(name));
    }
    create(&cluster, &stateful);

    let racks = cluster.steady("racks", 10);
    assert_eq!(
        by_host(&racks),
        [("w1".to_owned(), 7), ("w2".to_owned(), 3)].into()
    );
    let one = by_host(&cluster.steady("each-host", 2));
    assert_eq!(one, [("w1".to_owned(), 1), ("w2".to_owned(), 1)].into());
    let good = identities(&cluster.steady("revert", 3));
    let bad = changed(
        &cluster,
        "revert.yaml",
        "[sleep, \"15000\"]",
        "[sh, -c, 'exit 3']",
    );
    cli.good(&["services", "update", word(&bad)]);

    cache_answers(&cluster);
    hub_has_three_ports(&cluster);
    instances_have_their_own_files(&cluster);
    data_stays_when_it_is_replaced(&cluster);
    slow_one_is_killed_when_its_grace_is_over(&cluster);
    bad_version_is_taken_back(&cluster, &good);
    unhealthy_one_is_in_a_crash_loop(&cluster);
    checked_one_gives_up(&cluster);
    cluster.audit();
}

fn example(name: &str) -> PathBuf {
    Path::new("examples/corpus").join(name)
}

/// An example with another text in one place, under its own ending.
#[track_caller]
fn changed(cluster: &Cluster, name: &str, from: &str, to: &str) -> PathBuf {
    let text = fs::read_to_string(xce_tests::root().join(example(name))).expect("an example");
    assert!(text.contains(from), "{name} has {from}");
    let path = cluster.folder().join(name);
    fs::write(&path, text.replace(from, to)).expect("the folder can be written");
    path
}

#[track_caller]
fn create(cluster: &Cluster, path: &Path) {
    cluster.cli().good(&["services", "create", word(path)]);
}

fn by_host(service: &Value) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    let running = rows(service, "replicas")
        .iter()
        .filter(|replica| !replica["pid"].is_null())
        .filter_map(|replica| replica["host"].as_str());
    for host in running {
        *counts.entry(host.to_owned()).or_default() += 1;
    }
    counts
}

fn cache_answers(cluster: &Cluster) {
    let service = cluster.steady("cache", 1);
    let endpoint = address(&rows(&service, "endpoints")[0]);
    // It has no probe, so it counts as ready before it listens.
    patience::until("the cache answers", || {
        redis(endpoint, "PING").as_deref() == Ok("+PONG")
    });
}

fn hub_has_three_ports(cluster: &Cluster) {
    let service = cluster.steady("hub", 1);
    let endpoints = rows(&service, "endpoints");
    let names: Vec<&str> = endpoints
        .iter()
        .filter_map(|endpoint| endpoint["name"].as_str())
        .collect();
    assert_eq!(names.len(), 3, "{names:?}");
    for endpoint in endpoints {
        patience::until("each port of the hub answers", || {
            http_get(address(endpoint), "/").is_ok_and(|(status, _)| status == 200)
        });
    }
}

fn instances_have_their_own_files(cluster: &Cluster) {
    let service = cluster.steady("instances", 3);
    for endpoint in rows(&service, "endpoints") {
        let file = format!("redis-{}.conf", endpoint["replica"]);
        let said = redis_lines(address(endpoint), "INFO server", &file);
        assert!(said.contains(&file), "{file} in {said}");
    }
    assert_eq!(rows(&service, "endpoints").len(), 3);
}

/// What redis says to a command, read until a word is in it.
fn redis_lines(address: std::net::SocketAddr, command: &str, wanted: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address).expect("it listens");
    stream
        .set_read_timeout(Some(patience::LONGEST))
        .expect("a socket takes a limit");
    write!(stream, "{command}\r\nQUIT\r\n").expect("it reads");
    let mut said = String::new();
    stream.read_to_string(&mut said).expect("it answers");
    assert!(said.contains(wanted), "{wanted} in {said}");
    said
}

fn data_stays_when_it_is_replaced(cluster: &Cluster) {
    let service = cluster.steady("stateful", 1);
    let endpoint = address(&rows(&service, "endpoints")[0]);
    assert_eq!(redis(endpoint, "SET colour green").as_deref(), Ok("+OK"));
    let before = identities(&service);
    let cli = cluster.cli();
    cli.good(&[
        "services",
        "restart",
        "stateful",
        "--wait",
        "--timeout",
        "60s",
    ]);
    let service = cluster.steady("stateful", 1);
    assert_ne!(identities(&service), before, "it was replaced");
    let endpoint = address(&rows(&service, "endpoints")[0]);
    let said = redis(endpoint, "STRLEN colour");
    assert_eq!(said.as_deref(), Ok(":5"));
}

fn slow_one_is_killed_when_its_grace_is_over(cluster: &Cluster) {
    cluster.steady("slow-stop", 1);
    let begin = Instant::now();
    let cli = cluster.cli();
    cli.good(&["services", "delete", "slow-stop"]);
    let service = cli.service("slow-stop");
    assert_eq!(service["condition"], "deleting", "{service}");
    cluster.until("slow-stop is gone", |cli| {
        cli.run(&["services", "show", "slow-stop"]).code == 3
    });
    assert!(
        begin.elapsed() >= Duration::from_secs(2),
        "it had its grace"
    );
}

fn bad_version_is_taken_back(cluster: &Cluster, good: &[(String, u64, u32)]) {
    let service = cluster.service("revert", "is taken back", |service| {
        service["version"] == 3 && service["condition"] == "steady" && service["available"] == 3
    });
    let kept = identities(&service);
    let same = good.iter().filter(|one| kept.contains(one)).count();
    assert_eq!(same, 2, "only one was ever replaced: {service}");
}

fn unhealthy_one_is_in_a_crash_loop(cluster: &Cluster) {
    let service = cluster.service("unhealthy", "is in a crash loop", |service| {
        service["condition"] == "crash-loop"
    });
    assert_eq!(service["ready"], 0);
    assert!(rows(&service, "endpoints").is_empty());
}

fn checked_one_gives_up(cluster: &Cluster) {
    let words =
        "its restarts are used up: 2 restarts within 5m; last: signal 15, its liveness probe";
    let service = cluster.service("checked", "has given up", |service| {
        service["reason"]
            .as_str()
            .is_some_and(|text| text.contains(words))
    });
    assert_eq!(service["desired"], 1, "the service goes on: {service}");
}
