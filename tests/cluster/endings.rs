//! Jobs and services that cannot run say why.

use serde_json::Value;
use xce_tests::Cluster;

use super::{service, word};

fn says(object: &Value, field: &str, words: &[&str]) -> bool {
    object[field]
        .as_str()
        .is_some_and(|text| words.iter().all(|word| text.contains(word)))
}

#[test]
fn a_service_that_crashes_waits_with_the_reason() {
    let cluster = Cluster::start("crash-loop");
    let cli = cluster.cli();
    let command = r#"["sh", "-c", "echo cannot open the till >&2; exit 42"]"#;
    // Without a probe it would be ready as soon as it runs, and a replica that was ready is no sign
    // of a bad version.
    let more =
        "[restart]\nmode = \"never\"\n[probes.readiness]\nexec = { command = [\"false\"] }\n";
    let file = service(cluster.folder(), "broken", 1, command, more);
    cli.good(&["services", "create", word(&file)]);
    let broken = cluster.service("broken", "is in a crash loop", |service| {
        service["condition"] == "crash-loop"
    });
    assert!(
        says(&broken, "reason", &["42", "cannot open the till"]),
        "{}",
        broken["reason"]
    );
    let text = cli
        .run(&[
            "services",
            "create",
            word(&file),
            "--wait",
            "--timeout",
            "60s",
        ])
        .refused(1);
    assert!(
        text.contains("broken"),
        "a name twice is refused by name: {text}"
    );
    let explained = cli.good(&["services", "explain", "broken"]);
    assert!(explained.contains("42"), "{explained}");
    cluster.audit();
    cli.good(&["services", "delete", "broken", "--wait", "--timeout", "60s"]);
}

#[test]
fn a_command_that_does_not_exist_is_the_job_s_fault() {
    let cluster = Cluster::start("no-command");
    let cli = cluster.cli();
    let id = cli.submit(&["--", "/no/such/program"]);
    let job = cluster.ended(&id);
    assert_eq!(
        (job["state"].as_str(), job["exit"]["cause"].as_str()),
        (Some("EXIT"), Some("LAUNCH_FAILED")),
        "{job}"
    );
    assert!(says(&job, "reason", &["/no/such/program"]), "{job}");
    let id = cli.submit(&["--cwd", "/no/such/folder", "--", "true"]);
    let job = cluster.ended(&id);
    assert_eq!(
        (job["state"].as_str(), job["exit"]["cause"].as_str()),
        (Some("EXIT"), Some("LAUNCH_FAILED")),
        "{job}"
    );
    assert!(says(&job, "reason", &["/no/such/folder"]), "{job}");

    let file = service(cluster.folder(), "absent", 2, r#"["/no/such/program"]"#, "");
    cli.good(&["services", "create", word(&file)]);
    let absent = cluster.service("absent", "is in a crash loop", |service| {
        service["condition"] == "crash-loop"
    });
    assert!(
        says(&absent, "reason", &["/no/such/program"]),
        "{}",
        absent["reason"]
    );
    let file = service(
        cluster.folder(),
        "nowhere",
        1,
        r#"["true"]"#,
        "cwd = \"/no/such/folder\"",
    );
    cli.good(&["services", "create", word(&file)]);
    let nowhere = cluster.service("nowhere", "is in a crash loop", |service| {
        service["condition"] == "crash-loop"
    });
    assert!(
        says(&nowhere, "reason", &["/no/such/folder"]),
        "{}",
        nowhere["reason"]
    );
    cluster.audit();
}

#[test]
fn a_job_that_fits_nowhere_says_what_it_lacks() {
    let cluster = Cluster::start("too-big");
    let cli = cluster.cli();
    let cases = [
        (["-c", "100000"], "cpus"),
        (["-m", "900TiB"], "memory"),
        (["--constraint", "zone=moon"], "zone"),
    ];
    for (option, word) in cases {
        let id = cli.submit(&[&option[..], &["--", "true"][..]].concat());
        let job = cluster.job(&id, "says what it lacks", |job| {
            says(job, "reason", &[word])
        });
        assert_eq!(job["state"], "PEND", "{job}");
        cli.good(&["jobs", "kill", &id]);
    }
    cluster.audit();
}
