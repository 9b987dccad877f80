//! Service files in three formats: checked without a cluster, and described by a schema.

use std::fs;
use std::path::Path;

use serde_json::Value;
use xce_tests::Setup;
use xce_tests::harness::cli::Cli;

use super::word;

/// A command line whose cluster does not exist.
fn alone(folder: &Path) -> Cli {
    Cli::new(&folder.join("nowhere"))
}

#[test]
fn files_are_checked_without_a_cluster() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let cli = alone(folder.path());
    let all = cli.good(&[
        "services",
        "validate",
        "examples/web.toml",
        "examples/corpus/revert.yaml",
        "examples/corpus/hub.json",
    ]);
    let lines: Vec<&str> = all.lines().collect();
    assert_eq!(lines[0], "examples/web.toml: valid");
    assert_eq!(lines[1], "examples/corpus/revert.yaml: valid");
    assert!(lines[2].starts_with("examples/corpus/revert.yaml: warning: no `probes.readiness`"));
    assert_eq!(lines[3], "examples/corpus/hub.json: valid");

    let bad = folder.path().join("bad.yml");
    fs::write(
        &bad,
        "name: web\ncommand: [sleep]\nreplica: 3\nstop: {grace: 1}\n",
    )
    .expect("the folder can be written");
    let answer = cli.run(&["services", "validate", "examples/web.toml", word(&bad)]);
    answer.code_is(2);
    let lines: Vec<&str> = answer.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{}", answer.stdout);
    assert!(
        lines[1].contains("bad.yml: line 3, column 1: unknown field `replica`; did you mean"),
        "{}",
        lines[1]
    );
    assert!(lines[2].contains("bad.yml: line 4, column 15: `stop.grace`: `1` is not a duration"));
    assert_eq!(answer.stderr, "xcecli: 1 of 2 files cannot be used\n");

    let answer = cli.run(&["-o", "json", "services", "validate", word(&bad)]);
    answer.code_is(2);
    let found: Value = serde_json::from_str(&answer.stdout).expect("JSON");
    assert_eq!(found[0]["valid"], false);
    assert_eq!(found[0]["faults"][1]["line"], 4);
    let gone = cli
        .run(&["services", "validate", "no/such/file.toml"])
        .refused(2);
    assert!(gone.contains("no/such/file.toml cannot be read"), "{gone}");
}

#[test]
fn stdin_has_the_format_that_is_said_or_seen() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let cli = alone(folder.path());
    let from_stdin = |words: &[&str], text: &str| {
        let all: Vec<&str> = ["services", "validate", "-"]
            .iter()
            .chain(words)
            .copied()
            .collect();
        cli.run_with_stdin(&all, text)
    };
    let json = r#"{"name": "web", "command": ["sleep", "1"]}"#;
    assert!(from_stdin(&[], json).good().starts_with("stdin: valid\n"));
    let yaml = "name: web\ncommand: [sleep, '1']\n";
    assert!(
        from_stdin(&["--format", "yaml"], yaml)
            .good()
            .starts_with("stdin: valid\n")
    );
    let answer = from_stdin(&[], yaml);
    answer.code_is(2);
    assert!(
        answer
            .stdout
            .starts_with("stdin: read as TOML, since neither an ending"),
        "{}",
        answer.stdout
    );
}

#[test]
fn the_schema_of_each_kind_of_file_is_printed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let cli = alone(folder.path());
    for kind in ["service", "batch", "profile", "project", "queue"] {
        let text = cli.good(&["schema", kind]);
        let schema: Value = serde_json::from_str(&text).expect("a schema is JSON");
        assert_eq!(
            schema["$schema"], "https://json-schema.org/draft/2020-12/schema",
            "{kind}"
        );
        assert_eq!(schema["additionalProperties"], false, "{kind}");
    }
    let said = cli.run(&["schema", "servce"]).refused(2);
    assert!(said.contains("service"), "{said}");
}

#[test]
fn a_cluster_says_what_its_profiles_and_caps_make_of_a_file() {
    let cluster = Setup::new("files").workers(1).start();
    let cli = cluster.cli();
    let written = |name: &str, text: &str| {
        let path = cluster.folder().join(name);
        fs::write(&path, text).expect("the folder can be written");
        path
    };
    let profile = written(
        "sleepers.yaml",
        "name: sleepers\nkind: service\nservice:\n  command: [sleep, '1000']\n  \
         resources: {cpus: 0.01, memory: 16MiB}\n",
    );
    cli.good(&["profiles", "create", word(&profile)]);
    let queue = written(
        "small.json",
        r#"{"name": "small", "caps": {"replicas": 2}}"#,
    );
    cli.good(&["queues", "create", word(&queue)]);

    let good = written("good.json", r#"{"name": "doze", "profile": "sleepers"}"#);
    let validate = |path: &Path| cli.run(&["services", "validate", "--online", word(path)]);
    assert!(validate(&good).good().contains("good.json: valid\n"));
    let unknown = written("unknown.yaml", "{name: doze, profile: sleeper}\n");
    let answer = validate(&unknown);
    answer.code_is(2);
    assert!(
        answer
            .stdout
            .contains("unknown.yaml: there is no profile `sleeper`"),
        "{}",
        answer.stdout
    );
    assert!(answer.stdout.contains("sleepers"), "{}", answer.stdout);
    let capped = written(
        "capped.toml",
        "name = \"doze\"\nprofile = \"sleepers\"\nreplicas = 3\nqueue = \"small\"\n",
    );
    let answer = validate(&capped);
    answer.code_is(2);
    assert!(
        answer
            .stdout
            .contains("`replicas`: 3 is above 2, the cap of queue small"),
        "{}",
        answer.stdout
    );
    // Nothing was written by all this; and then the file makes a service.
    assert_eq!(cli.run(&["services", "show", "doze"]).code, 3);
    cli.good(&[
        "services",
        "create",
        word(&good),
        "--wait",
        "--timeout",
        "60s",
    ]);
    assert!(validate(&good).good().contains("good.json: valid\n"));
    cli.good(&["services", "delete", "doze", "--wait", "--timeout", "60s"]);
    cluster.audit();
}
