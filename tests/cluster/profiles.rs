//! Profiles, projects and queues on real daemons.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use xce_tests::harness::cli::Cli;
use xce_tests::{Cluster, Setup};

use super::{identities, word};

fn write(cluster: &Cluster, name: &str, text: &str) -> PathBuf {
    let path = cluster.folder().join(name);
    fs::write(&path, text).expect("the folder can be written");
    path
}

/// Value and source of each leaf of a service.
fn resolved(cli: &Cli, name: &str) -> Vec<(String, String, String)> {
    let text = cli.good(&["-o", "json", "services", "show", name, "--resolved"]);
    let rows: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    let text = |row: &Value, field: &str| row[field].as_str().unwrap_or_default().to_owned();
    rows.iter()
        .map(|row| (text(row, "path"), text(row, "value"), text(row, "source")))
        .collect()
}

fn row<'r>(rows: &'r [(String, String, String)], path: &str) -> (&'r str, &'r str) {
    let found = rows.iter().find(|row| row.0 == path);
    found.map_or(("", ""), |row| (row.1.as_str(), row.2.as_str()))
}

const PROFILE: &str = "name = \"idle\"\nkind = \"service\"\n[service]\nreplicas = 2\n\
    command = [\"sleep\", \"100000\"]\nenv = { COLOUR = \"blue\" }\nresources = { cpus = 0.01, \
    memory = \"8MiB\" }\n";

#[test]
fn a_profile_that_is_edited_changes_no_running_version() {
    let mut cluster = Setup::new("profiles").keep_jobs().start();
    let cli = cluster.cli();
    let profile = write(&cluster, "profile.toml", PROFILE);
    cli.good(&["profiles", "create", word(&profile)]);
    cli.run(&["profiles", "create", word(&profile)]).refused(1);
    let file = write(
        &cluster,
        "quiet.toml",
        "name = \"quiet\"\nprofile = \"idle\"\nresources = { memory = \"16MiB\" }\n",
    );
    cli.good(&["services", "create", word(&file)]);
    let before = identities(&cluster.steady("quiet", 2));
    let values = resolved(&cli, "quiet");
    assert_eq!(row(&values, "env.COLOUR"), ("\"blue\"", "profile idle"));
    assert_eq!(row(&values, "replicas"), ("2", "profile idle"));
    assert_eq!(
        row(&values, "resources.memory"),
        ("\"16MiB\"", "request of version 1")
    );
    assert_eq!(row(&values, "stop.grace"), ("\"30s\"", "built-in"));

    fs::write(&profile, PROFILE.replace("blue", "red")).expect("it can be written");
    let said = cli.good(&["profiles", "update", word(&profile)]);
    assert!(said.contains("1 services that use it stay"), "{said}");
    assert_eq!(resolved(&cli, "quiet"), values);
    // A restart of everything but the jobs keeps both the policy and what was resolved.
    assert!(cluster.stop().success());
    cluster.up();
    assert_eq!(identities(&cluster.steady("quiet", 2)), before);
    assert_eq!(resolved(&cli, "quiet"), values);
    let shown = cli.good(&["profiles", "show", "idle"]);
    assert!(shown.contains("red"), "{shown}");

    // The next update takes the profile as it is now.
    cli.good(&[
        "services",
        "update",
        word(&file),
        "--wait",
        "--timeout",
        "60s",
    ]);
    let values = resolved(&cli, "quiet");
    assert_eq!(row(&values, "env.COLOUR"), ("\"red\"", "profile idle"));
    let said = cli.good(&["profiles", "delete", "idle"]);
    assert!(
        said.contains("their next update must name another"),
        "{said}"
    );
    assert_eq!(resolved(&cli, "quiet"), values);
    let said = cli.run(&["services", "update", word(&file)]).refused(3);
    assert!(said.contains("there is no profile `idle`"), "{said}");
    cluster.audit();
}

#[test]
fn caps_kinds_and_unknown_names_are_refused_by_name() {
    let cluster = Cluster::start("caps");
    let cli = cluster.cli();
    let queue =
        "name = \"small\"\npriority = 5\n[caps]\nreplicas = 2\nresources = { cpus = 0.5 }\n";
    let queue = write(&cluster, "queue.toml", queue);
    cli.good(&["queues", "create", word(&queue)]);
    let project = write(
        &cluster,
        "project.yaml",
        "name: lab\nbatch: {queue: small}\ncaps: {run_limit: 1h}\n",
    );
    cli.good(&["projects", "create", word(&project)]);
    let service = |count: u32, extra: &str| {
        let text = format!(
            "name = \"capped\"\nreplicas = {count}\nqueue = \"small\"\ncommand = [\"sleep\", \"100000\"]\n{extra}\n"
        );
        write(&cluster, "capped.toml", &text)
    };
    let said = cli.run(&["services", "create", word(&service(3, ""))]);
    let said = said.refused(1);
    let wanted = "`replicas`: 3 is above 2, the cap of queue small";
    assert!(said.contains(wanted), "{said}");
    cli.good(&["services", "create", word(&service(2, ""))]);
    let said = cli.run(&["services", "scale", "capped", "3"]).refused(1);
    assert!(said.contains(wanted), "{said}");
    let file = service(2, "resources = { cpus = 0.6 }");
    let said = cli.run(&["services", "update", word(&file)]).refused(1);
    assert!(
        said.contains("`resources.cpus`: 0.6 is above 0.5"),
        "{said}"
    );

    let submit = ["jobs", "submit", "--project", "lab", "-c", "0.5"];
    let said = cli.run(&[&submit[..], &["--", "true"]].concat()).refused(1);
    assert!(said.contains("the cap of project lab"), "{said}");
    cli.good(&[&submit[..], &["-t", "1h", "--", "true"]].concat());

    for (words, wanted) in [
        (
            &["--queue", "smal"][..],
            "there is no queue `smal`; did you mean `small`? (known: default, small)",
        ),
        (
            &["--profile", "service"],
            "profile `service` is of kind service, one of kind batch is needed (known: batch)",
        ),
        (&["--profile", "batsh"], "did you mean `batch`?"),
    ] {
        let said = cli.run(&[&["jobs", "submit"], words, &["--", "true"]].concat());
        assert_ne!(said.code, 0);
        assert!(said.stderr.contains(wanted), "{}", said.stderr);
    }
    let listed = cli.good(&["-o", "name", "queues", "list"]);
    assert_eq!(listed.lines().collect::<Vec<_>>(), ["default", "small"]);
    cluster.audit();
}

#[test]
fn the_examples_are_accepted() {
    let cluster = Cluster::start("policy-examples");
    let cli = cluster.cli();
    for (noun, file) in [
        ("profiles", "examples/profile-web.toml"),
        ("profiles", "examples/profile-short.toml"),
        ("queues", "examples/queue-night.toml"),
        ("projects", "examples/project-lab.toml"),
    ] {
        cli.good(&[noun, "create", file]);
    }
    cli.good(&[
        "jobs",
        "submit",
        "--profile",
        "short",
        "--queue",
        "night",
        "--wait",
        "--",
        "true",
    ]);
    cli.good(&["jobs", "submit", "--project", "lab", "--wait", "--", "true"]);
    cluster.audit();
}
