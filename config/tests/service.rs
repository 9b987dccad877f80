//! The located reader against plain serde, what a profile leaves open, and doubts.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use xce_profile::document::ServiceFile;

use super::formats::{read_as, read_toml};
use crate::document::Document;
use crate::service::{doubts, read_request};
use crate::syntax::Format;

fn durations() -> Vec<Value> {
    vec![
        json!("0s"),
        json!("1s"),
        json!("1m 30s"),
        json!("0"),
        json!(0),
    ]
}

fn long() -> Vec<Value> {
    vec![json!("2m"), json!("1h"), json!("3d")]
}

/// Values that a leaf may have in a file that names a profile.
fn leaves() -> Vec<(&'static str, Vec<Value>)> {
    [what_runs(), settings(), probes()].concat()
}

/// Values of the template, but for its probes.
fn what_runs() -> Vec<(&'static str, Vec<Value>)> {
    vec![
        ("replicas", vec![json!(0), json!(7), json!(100_000)]),
        ("project", vec![json!("shop"), json!("a.b_c-9")]),
        ("queue", vec![json!("fast"), json!("0")]),
        (
            "command",
            vec![json!(["a"]), json!(["sh", "-c", "x: \"y\" #z\n"])],
        ),
        (
            "env.LANG",
            vec![json!("C"), json!("yes"), json!("0x1f"), json!("")],
        ),
        (
            "env._x1",
            vec![json!("null"), json!("1.5"), json!("~"), json!(" - a")],
        ),
        ("cwd", vec![json!("/"), json!("/srv/a b")]),
        ("user", vec![json!("ada")]),
        (
            "resources.cpus",
            vec![json!(1), json!(0.25), json!("2"), json!(1e3)],
        ),
        (
            "resources.memory",
            vec![json!("64MiB"), json!("1.5GiB"), json!("500MB")],
        ),
        (
            "ports",
            vec![
                json!([]),
                json!([{ "name": "http" }, { "name": "b", "port": 65_535 }]),
            ],
        ),
        (
            "restart.mode",
            vec![json!("never"), json!("on_failure"), json!("always")],
        ),
        ("restart.delay", durations()),
        ("restart.delay_max", long()),
        ("restart.max_restarts", vec![json!(0), json!(9)]),
        ("restart.window", durations()),
        ("restart.stable_after", durations()),
        ("stop.drain", durations()),
        (
            "stop.signal",
            vec![
                json!("QUIT"),
                json!("SIGINT"),
                json!("usr1"),
                json!(9),
                json!("15"),
            ],
        ),
        ("stop.grace", durations()),
    ]
}

/// Values of settings that make no version.
fn settings() -> Vec<(&'static str, Vec<Value>)> {
    vec![
        ("spread.max_per_host", vec![json!(1), json!(100_000)]),
        ("spread.mode", vec![json!("strict"), json!("best_effort")]),
        ("spread.label", vec![json!("zone")]),
        (
            "rollout.max_surge",
            vec![json!(1), json!("25%"), json!("100%")],
        ),
        (
            "rollout.max_unavailable",
            vec![json!(0), json!("0%"), json!("7 %")],
        ),
        ("rollout.min_ready", durations()),
        ("rollout.progress_deadline", long()),
        ("rollout.on_stuck", vec![json!("stop"), json!("rollback")]),
        ("rollout.history_limit", vec![json!(1), json!(1000)]),
        ("replacement.stable_after", durations()),
        ("replacement.delay", durations()),
        ("replacement.delay_max", long()),
        ("replacement.crash_limit", vec![json!(1), json!(1_000_000)]),
        ("replacement.crash_window", durations()),
        ("labels.team", vec![json!("a: b"), json!("é, ")]),
        ("constraints.zone", vec![json!("a"), json!("")]),
        ("run_limit", long()),
    ]
}

/// Values of probes.
fn probes() -> Vec<(&'static str, Vec<Value>)> {
    vec![
        ("probes.readiness.initial_delay", durations()),
        (
            "probes.readiness.success_threshold",
            vec![json!(1), json!(1000)],
        ),
        ("probes.liveness.period", vec![json!("10ms"), json!("1d")]),
        ("probes.liveness.timeout", vec![json!("10ms"), json!("2s")]),
        (
            "probes.startup.failure_threshold",
            vec![json!(1), json!(1000)],
        ),
        ("probes.startup.success_threshold", vec![json!(1)]),
        ("probes.startup.exec", vec![json!({ "command": ["check"] })]),
        (
            "probes.readiness.http",
            vec![
                json!({ "port": 80, "path": "/a?b", "headers": { "Host": "x" } }),
                json!({ "port": 1, "host": "::1", "status_min": 200, "status_max": 204 }),
            ],
        ),
        (
            "probes.liveness.tcp",
            vec![
                json!({ "port": 65_535 }),
                json!({ "port": 1, "host": "localhost" }),
            ],
        ),
    ]
}

fn insert(table: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        None => {
            table.insert(path.to_owned(), value);
        }
        Some((first, rest)) => {
            let inner = table.entry(first).or_insert_with(|| json!({}));
            insert(inner.as_object_mut().expect("tables only"), rest, value);
        }
    }
}

/// Any part of a service, as a file that names a profile may give it.
pub fn any_document() -> impl Strategy<Value = Value> {
    let leaves = leaves();
    let whole = leaves.len();
    proptest::collection::vec((0..whole, any::<prop::sample::Index>()), 0..40).prop_map(
        move |chosen| {
            let mut table = Map::new();
            insert(&mut table, "name", json!("web"));
            insert(&mut table, "profile", json!("p"));
            for (leaf, value) in chosen {
                let (path, values) = &leaves[leaf];
                insert(&mut table, path, value.get(values).clone());
            }
            Value::Object(table)
        },
    )
}

/// A document as plain serde and as the located reader see it, from each format.
fn assert_all_equal(document: &Value) {
    let plain: ServiceFile = serde_json::from_value(document.clone()).unwrap();
    let json = document.to_string();
    let yaml = serde_saphyr::to_string(document).unwrap();
    let toml = toml::to_string(document).unwrap();
    let by_serde: [(&str, Result<ServiceFile, String>); 3] = [
        (
            &json,
            serde_json::from_str(&json).map_err(|error| error.to_string()),
        ),
        (
            &yaml,
            serde_saphyr::from_str(&yaml).map_err(|error| error.to_string()),
        ),
        (
            &toml,
            toml::from_str(&toml).map_err(|error| error.to_string()),
        ),
    ];
    for (text, read) in by_serde {
        assert_eq!(read.as_ref(), Ok(&plain), "serde\n{text}");
    }
    for (format, text) in [
        (Format::Json, json),
        (Format::Yaml, yaml),
        (Format::Toml, toml),
    ] {
        assert_eq!(
            read_as(format, &text).as_ref(),
            Ok(&plain),
            "located\n{text}"
        );
    }
}

proptest! {
    #[test]
    fn each_format_and_both_readers_give_the_same(document in any_document()) {
        assert_all_equal(&document);
        // What was read is written in the one canonical form, and read again.
        let plain: ServiceFile = serde_json::from_value(document).unwrap();
        assert_all_equal(&serde_json::to_value(&plain).unwrap());
    }
}

#[test]
fn every_value_of_a_leaf_is_read_the_same() {
    for (path, values) in leaves() {
        for value in values {
            let mut table = Map::new();
            insert(&mut table, "name", json!("web"));
            insert(&mut table, "profile", json!("p"));
            insert(&mut table, path, value);
            assert_all_equal(&Value::Object(table));
        }
    }
}

#[test]
fn a_profile_may_give_what_the_file_leaves_out() {
    let text = "name = \"web\"\nprofile = \"p\"\n[probes.readiness]\nperiod = \"1s\"\n\
                [probes.liveness]\ntcp = { port = \"http\" }\n[restart]\ndelay = \"5m\"\n\
                [rollout]\nmin_ready = \"20m\"\nmax_surge = 0\n";
    assert!(read_toml(text).is_ok());
    let own = text.replace("profile = \"p\"", "");
    let request = read_request(&Document::toml("f", &own), &|_| true);
    assert!(request.is_ok(), "a project may give it too");
    let said = read_toml(&own).unwrap_err();
    let wanted = [
        "`command` is missing",
        "`probes.readiness`: a probe needs one of",
        "there is no port `http` (no [[ports]] are declared",
        "delay 5m is above delay_max 1m",
        "progress_deadline 10m must be longer than min_ready 20m",
    ];
    assert_eq!(said.lines().count(), wanted.len(), "{said}");
    for wanted in wanted {
        assert!(said.contains(wanted), "{said}");
    }
    let both = "name = \"web\"\nprofile = \"p\"\nports = []\n[rollout]\nmin_ready = \"2s\"\n\
                progress_deadline = \"1s\"\n[probes.liveness]\ntcp = { port = \"http\" }\n";
    let said = read_toml(both).unwrap_err();
    assert!(
        said.contains("progress_deadline 1s must be longer"),
        "{said}"
    );
    assert!(said.contains("there is no port `http`"), "{said}");
}

/// Lines of a file, and how its doubts begin.
const DOUBTS: &[(&str, &[&str])] = &[
    ("", &["no `probes.readiness`"]),
    (
        "[probes.readiness]\ntcp = { port = 1 }\nperiod = \"100ms\"",
        &[],
    ),
    (
        "replicas = 3\nports = [{ name = \"http\", port = 80 }]\n[probes.startup]\ntcp = { port = 1 }",
        &[
            "`rollout.max_surge` with the fixed port `http` 80: one host holds only one such replica, so a rollout of 3 waits for 4 hosts;",
        ],
    ),
    (
        "replicas = 3\nports = [{ name = \"http\", port = 80 }]\n[rollout]\nmax_surge = 0\n[probes.startup]\ntcp = { port = 1 }",
        &["3 replicas with the fixed port `http` 80 need 3 hosts"],
    ),
    (
        "[probes.readiness]\ntcp = { port = 1 }\nperiod = \"1s\"\ntimeout = \"5s\"",
        &["`probes.readiness`: the period 1s is below the timeout 5s"],
    ),
    (
        "[probes.readiness]\ntcp = { port = 1 }\n[probes.liveness]\ntcp = { port = 1 }\nperiod = \"1s\"",
        &[
            "`probes.liveness` without `probes.startup`: a replica that takes longer than 2s to start",
        ],
    ),
    (
        "[probes.startup]\ntcp = { port = 1 }\nfailure_threshold = 100",
        &[
            "`rollout.progress_deadline` 10m is shorter than the 16m 30s that `probes.startup` gives",
        ],
    ),
    (
        "[rollout]\nprogress_deadline = \"30s\"\n[probes.readiness]\ntcp = { port = 1 }\ninitial_delay = \"30s\"",
        &[
            "`rollout.progress_deadline` 30s ends before a replica can be available, which takes 30s",
        ],
    ),
    (
        "[stop]\ngrace = \"0\"\n[probes.readiness]\ntcp = { port = 1 }",
        &["`stop.grace` is 0s"],
    ),
];

#[test]
fn what_is_allowed_and_doubtful_is_said() {
    for (lines, wanted) in DOUBTS {
        let file = read_toml(&format!("name = \"web\"\ncommand = [\"x\"]\n{lines}\n")).unwrap();
        let doubts = doubts(&file);
        assert_eq!(doubts.len(), wanted.len(), "{lines}: {doubts:?}");
        for (doubt, wanted) in doubts.iter().zip(*wanted) {
            assert!(doubt.starts_with(wanted), "{lines}: {doubt}");
        }
    }
}
