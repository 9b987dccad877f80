//! What a new user does.

use std::net::SocketAddr;

use serde_json::Value;
use xce_tests::Setup;
use xce_tests::harness::net::http_get;
use xce_tests::harness::programs;

use super::rows;

#[test]
fn a_service_goes_from_create_over_scale_and_kill_to_delete() {
    programs::need("python3");
    let mut cluster = Setup::new("first-run").start();
    let cli = cluster.cli();
    cli.good(&["services", "create", "examples/web.toml"]);
    let web = cluster.steady("web", 3);
    service_has_all_fields(&web);
    each_endpoint_serves(&web, 3);
    assert!(
        cli.good(&["services", "list"]).contains("web"),
        "a list for people names it"
    );
    assert_eq!(cli.good(&["-o", "name", "services", "list"]), "web\n");

    cli.good(&[
        "services",
        "scale",
        "web",
        "5",
        "--wait",
        "--timeout",
        "60s",
    ]);
    each_endpoint_serves(&cluster.steady("web", 5), 5);

    let job_of = |service: &Value| rows(service, "replicas")[1]["job"].clone();
    let killed = job_of(&cluster.steady("web", 5));
    cli.good(&["services", "kill", "web", "1"]);
    let web = cluster.service("web", "the killed replica is replaced", |service| {
        service["available"] == 5 && service["live"] == 5 && job_of(service) != killed
    });
    each_endpoint_serves(&web, 5);
    let old = cluster.ended(killed.as_str().expect("a job id"));
    assert_eq!(old["exit"]["cause"], "TERM_OWNER", "{old}");

    cluster.audit();
    cli.good(&["services", "delete", "web", "--wait", "--timeout", "60s"]);
    cli.run(&["services", "show", "web"]).refused(3);
    assert_eq!(cli.json(&["services", "list"]), Value::Array(Vec::new()));
    cluster.until("no process of the service is left", |_cli| {
        !has_jobs(&cluster)
    });
    cluster.audit();
    assert!(cluster.stop().success(), "Ctrl-C ends it well");
}

#[test]
fn hosts_actors_sessions_and_the_cluster_can_be_seen() {
    let cluster = Setup::new("looking").start();
    let cli = cluster.cli();
    let hosts = cli.json(&["hosts", "list"]);
    let names: Vec<&Value> = hosts
        .as_array()
        .expect("a list")
        .iter()
        .map(|host| &host["name"])
        .collect();
    assert_eq!(names, ["w1", "w2"]);
    assert_eq!(cli.json(&["hosts", "show", "w1"])["state"], "up");
    let actors = cli.json(&["actors", "tree", "--no-fold"]);
    for field in [
        "kind",
        "key",
        "state",
        "restarts",
        "mailbox",
        "handled",
        "age_ms",
        "last_error",
    ] {
        let actors = actors.as_array().expect("a list");
        assert!(
            actors.iter().all(|actor| !actor[field].is_null()),
            "{field}: {actors:?}"
        );
    }
    let key = actors[0]["key"].as_str().expect("an actor has a key");
    cli.json(&["actors", "show", key]);
    let hosts_only = cli.json(&["actors", "tree", "--kind", "host"]);
    assert!(
        hosts_only
            .as_array()
            .expect("a list")
            .iter()
            .any(|actor| actor["key"] == "host/w1"),
        "{hosts_only}"
    );
    assert!(
        !cli.json(&["sessions", "list"])
            .as_array()
            .expect("a list")
            .is_empty()
    );
    let status = cli.json(&["cluster", "status"]);
    assert_eq!(status["hosts_up"], 2);
    assert_eq!(status["pid"], cluster.controller_pid());
    assert_eq!(status["alarms"], Value::Array(Vec::new()));
    cluster.audit();
}

fn has_jobs(cluster: &xce_tests::Cluster) -> bool {
    let left = cluster.processes();
    left.iter()
        .any(|process| process.line.contains("xce-shim") || process.line.contains("http.server"))
}

fn service_has_all_fields(service: &Value) {
    for field in [
        "name",
        "id",
        "project",
        "desired",
        "live",
        "ready",
        "available",
        "stopping",
        "version",
        "condition",
        "reason",
        "replicas",
    ] {
        assert!(service.get(field).is_some(), "no `{field}` in {service}");
    }
    assert_eq!(service["condition"], "steady", "{service}");
    for replica in rows(service, "replicas") {
        for field in [
            "index", "job", "run", "host", "state", "ready", "pid", "restarts",
        ] {
            assert!(!replica[field].is_null(), "no `{field}` in {replica}");
        }
    }
}

fn each_endpoint_serves(service: &Value, count: usize) {
    let endpoints = rows(service, "endpoints");
    assert_eq!(endpoints.len(), count, "{service}");
    for endpoint in endpoints {
        let address = address(endpoint);
        let (status, body) = http_get(address, "/").unwrap_or_else(|fault| panic!("{fault}"));
        assert_eq!(status, 200, "{address}: {body}");
        assert!(body.contains("Directory listing"), "{address}: {body}");
    }
}

/// Where an endpoint is.
pub fn address(endpoint: &Value) -> SocketAddr {
    let text = format!(
        "{}:{}",
        endpoint["address"].as_str().unwrap_or_default(),
        endpoint["port"]
    );
    text.parse()
        .unwrap_or_else(|_| panic!("no address in {endpoint}"))
}
