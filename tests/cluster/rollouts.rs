//! Rollouts as users see them: updates, pauses, stuck ones with their line, rollbacks, plans.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use xce_tests::Cluster;

use super::{rows, word};

/// One more and none less, so that each step is known; stuck soon.
const ONE_BY_ONE: &str =
    "[rollout]\nmax_surge = 1\nmax_unavailable = 0\nprogress_deadline = \"5s\"";

/// Writes a service that is ready when its readiness program says so.
fn service(folder: &Path, replicas: u32, second: &str, cpus: &str, settings: &str) -> PathBuf {
    let path = folder.join("web.toml");
    let text = format!(
        "name = \"web\"\nreplicas = {replicas}\ncommand = [\"sleep\", \"{second}\"]\n\
         resources = {{ cpus = {cpus}, memory = \"16MiB\" }}\n\
         [probes.readiness]\nexec = {{ command = [\"true\"] }}\n{settings}\n"
    );
    fs::write(&path, text).expect("the folder can be written");
    path
}

fn created(cluster: &Cluster, replicas: u32) -> PathBuf {
    let file = service(cluster.folder(), replicas, "100001", "0.01", ONE_BY_ONE);
    let cli = cluster.cli();
    cli.good(&[
        "services",
        "create",
        word(&file),
        "--wait",
        "--timeout",
        "60s",
    ]);
    file
}

/// Makes the file ask for another version.
fn changed(cluster: &Cluster, replicas: u32, second: &str) -> PathBuf {
    service(cluster.folder(), replicas, second, "0.01", ONE_BY_ONE)
}

/// Wanted counts in the order in which they were decided, such as `1 replicas of version 2 wanted`.
fn steps(cluster: &Cluster) -> Vec<String> {
    let events = cluster.cli().json(&["services", "events", "web"]);
    let events = events.as_array().expect("a list").iter();
    let steps = events.filter(|event| event["kind"] == "step");
    steps
        .map(|event| event["text"].as_str().expect("a text").to_owned())
        .collect()
}

#[test]
fn a_plan_is_what_then_happens_and_writes_nothing() {
    let cluster = Cluster::start("plan");
    let cli = cluster.cli();
    created(&cluster, 3);
    let file = changed(&cluster, 3, "100002");
    let before = cli.json(&["services", "show", "web"]);
    let plan = cli.json(&["services", "plan", word(&file)]);
    assert_eq!(
        cli.json(&["services", "show", "web"])["changed"],
        before["changed"]
    );
    assert_eq!(plan["outcome"], "completes", "{plan}");
    assert_eq!(
        (&plan["available_min"], &plan["live_max"]),
        (&3.into(), &4.into())
    );
    assert_eq!(plan["times"][0]["ready"]["measured_on"], 1, "{plan}");
    let text = cli.good(&["services", "update", word(&file), "--plan"]);
    assert!(text.contains("6 steps, about "), "{text}");
    assert!(
        text.contains("ready never below 3 (minimum 3); at most 4 live (limit 4); blocker: none")
    );

    let so_far = steps(&cluster).len();
    cli.good(&[
        "services",
        "update",
        word(&file),
        "--wait",
        "--timeout",
        "60s",
    ]);
    let mut wanted = (0_i64, 3_i64);
    let expected = rows(&plan, "steps").iter().map(|step| {
        let change = &rows(step, "changes")[0];
        let count = change["started"].as_i64().unwrap() - change["stopped"].as_i64().unwrap();
        let sum = match change["version"].as_i64() {
            Some(2) => &mut wanted.0,
            Some(_) | None => &mut wanted.1,
        };
        *sum += count;
        format!(
            "{sum} replicas of version {} wanted (rollout)",
            change["version"]
        )
    });
    let expected: Vec<String> = expected.collect();
    assert_eq!(steps(&cluster)[so_far..], expected);
    cluster.audit();
}

#[test]
fn a_stuck_rollout_says_why_and_is_rolled_back() {
    let cluster = Cluster::start("stuck");
    let cli = cluster.cli();
    created(&cluster, 3);
    let file = service(cluster.folder(), 3, "100002", "900", ONE_BY_ONE);
    let plan = cli.run(&["services", "plan", word(&file)]);
    plan.code_is(1);
    let arithmetic =
        "cannot stop version 1: available 3 - 1 < minimum 3; waiting for job 4, pending: ";
    assert!(plan.stdout.contains(arithmetic), "{}", plan.stdout);
    assert!(plan.stdout.contains("stuck after 5s"), "{}", plan.stdout);

    let text = cli.good(&["services", "update", word(&file)]);
    assert!(text.contains("version 2 is rolling out"), "{text}");
    // Followed line by line to its end, which is not a good one.
    let followed = cli.run(&["rollout", "status", "web", "--watch", "--timeout", "60s"]);
    followed.code_is(1);
    assert!(
        followed
            .stderr
            .contains("web is stuck: no progress within 5s: ")
    );
    assert!(followed.stdout.contains(arithmetic), "{}", followed.stdout);
    let explained = cli.good(&["services", "explain", "web"]);
    assert!(explained.contains(arithmetic), "{explained}");
    assert!(
        explained.contains("cpus"),
        "placement's reason: {explained}"
    );

    let text = cli.good(&["rollout", "undo", "web", "--wait", "--timeout", "60s"]);
    assert!(text.contains("version 3 is rolling out"), "{text}");
    cli.good(&["rollout", "status", "web"]);
    let history = cli.json(&["services", "history", "web"]);
    let outcomes: Vec<&Value> = history
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["outcome"])
        .collect();
    assert_eq!(outcomes, ["completed", "rolled_back", "completed"]);
    assert_eq!(history[2]["reason"]["rollback_of"], 1);
    let second = cli.good(&["services", "history", "web", "--version", "2"]);
    assert!(second.contains("100002"), "{second}");
    // The replicas of version 1 were never touched.
    let jobs = cli.service("web");
    let jobs: Vec<&Value> = rows(&jobs, "replicas")
        .iter()
        .map(|one| &one["job"])
        .collect();
    assert_eq!(jobs, ["1", "2", "3"]);
    let missing = cli
        .run(&["services", "history", "web", "--version", "9"])
        .refused(3);
    assert!(missing.contains("kept are 1, 2, 3"), "{missing}");
    cluster.audit();
}

#[test]
fn a_paused_rollout_waits_scales_and_goes_on() {
    let cluster = Cluster::start("pause");
    let cli = cluster.cli();
    created(&cluster, 2);
    cli.good(&["rollout", "pause", "web"]);
    let file = changed(&cluster, 2, "100002");
    let text = cli.good(&["services", "update", word(&file)]);
    assert!(text.contains("paused, will start on resume"), "{text}");
    let plan = cli.run(&["services", "scale", "web", "5", "--plan"]);
    plan.code_is(1);
    assert!(
        plan.stdout.contains("blocker: paused with "),
        "{}",
        plan.stdout
    );
    cli.good(&["services", "scale", "web", "4"]);
    let service = cluster.service("web", "the new ones are there", |service| {
        service["available"] == 4
    });
    assert_eq!(service["condition"], "paused");
    let text = cli.good(&["services", "rollback", "web", "--to", "1"]);
    assert!(text.contains("paused, will start on resume"), "{text}");
    let text = cli.good(&["rollout", "undo", "web", "--to", "2", "--resume"]);
    assert!(text.contains("it goes on"), "{text}");
    let followed = cli.good(&["rollout", "status", "web", "--watch", "--timeout", "60s"]);
    assert!(
        followed.contains("version 4 is complete: 4 of 4 updated"),
        "{followed}"
    );
    assert_eq!(cli.service("web")["desired"], 4);
    cluster.audit();
}

#[test]
fn many_versions_are_numbers_and_the_last_one_is_gone_back_to() {
    let cluster = Cluster::start("many");
    let cli = cluster.cli();
    created(&cluster, 0);
    for number in 2..=12 {
        let file = changed(&cluster, 1, &format!("{}", 100_000 + number));
        cli.good(&[
            "services",
            "update",
            word(&file),
            "--wait",
            "--timeout",
            "60s",
        ]);
    }
    let plan = cli.json(&["services", "rollback", "web", "--plan"]);
    assert_eq!(plan["version"], 13);
    cli.good(&["services", "rollback", "web", "--wait", "--timeout", "60s"]);
    let history = cli.json(&["services", "history", "web"]);
    let last = history.as_array().unwrap().last().unwrap();
    assert_eq!(last["reason"]["rollback_of"], 11, "{history}");
    cli.good(&["services", "restart", "web", "--wait", "--timeout", "60s"]);
    assert_eq!(cli.service("web")["version"], 14);
    let text = cli.good(&["services", "delete", "web", "--wait", "--timeout", "60s"]);
    assert_eq!(text, "service web is deleted\n");
    cluster.audit();
}
