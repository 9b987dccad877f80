//! Files of profiles, projects and queues.

use xce_profile::{PolicyFile, PolicyKind};

use crate::document::Document;
use crate::policy::read_policy;
use crate::schema::{Subject, schema};

use super::validator::accepts;

const PROFILE: &str = r#"
name = "web"
description = "servers of pages"
kind = "service"
[service]
command = ["serve"]
ports = [{ name = "http" }]
resources = { memory = "1GiB" }
[service.probes.readiness]
http = { port = "http" }
period = "1s"
[service.rollout]
max_surge = 0
min_ready = "20m"
"#;

const PROJECT: &str = r#"
name: shop
batch:
  array: 1-100%10
  held: true
  rerunnable: false
  env: {A: b}
service: {queue: fast}
caps:
  replicas: 10
  elements: 1000
  ports: 2
  resources: {cpus: 4, memory: 2GiB}
  run_limit: 1h
  stop: {drain: 10s, grace: 1m}
  rollout: {progress_deadline: 1h, min_ready: 1m, history_limit: 20}
"#;

const QUEUE: &str = r#"{"name": "fast", "priority": -3, "caps": {"run_limit": "10m"}}"#;

#[test]
fn a_policy_is_read_as_plain_serde_reads_it_and_as_its_schema_says() {
    let toml: PolicyFile = toml::from_str(PROFILE).unwrap();
    let yaml: PolicyFile = serde_saphyr::from_str(PROJECT).unwrap();
    let json: PolicyFile = serde_json::from_str(QUEUE).unwrap();
    for (file, text, kind, subject, wanted) in [
        (
            "p.toml",
            PROFILE,
            PolicyKind::Profile,
            Subject::Profile,
            toml,
        ),
        (
            "p.yaml",
            PROJECT,
            PolicyKind::Project,
            Subject::Project,
            yaml,
        ),
        ("p.json", QUEUE, PolicyKind::Queue, Subject::Queue, json),
    ] {
        let found = read_policy(&Document::new(file, text, None), kind).unwrap();
        assert_eq!(found, wanted);
        found.check(kind).unwrap();
        let value = serde_json::to_value(&found).unwrap();
        assert_eq!(accepts(&schema(subject), &value), Ok(()));
    }
}

/// Texts of policies that are wrong, and words of what is said of them.
const FAULTS: &[(PolicyKind, &str, &str)] = &[
    (
        PolicyKind::Queue,
        "",
        "`name` is missing: the name of the queue",
    ),
    (
        PolicyKind::Profile,
        "name = \"p\"",
        "`kind` is missing: service or batch",
    ),
    (
        PolicyKind::Profile,
        "name = \"p\"\nkind = \"servce\"",
        "line 2, column 8: `kind`: `servce` is not one of service, batch; did you mean `service`?",
    ),
    (
        PolicyKind::Profile,
        "name = \"p\"\nkind = \"service\"\n[service]\nreplica = 1",
        "line 4, column 1: unknown field `replica` in `service`; did you mean `replicas`?",
    ),
    (
        PolicyKind::Profile,
        "name = \"p\"\nkind = \"batch\"\n[batch]\narray = \"x\"\nheld = 1",
        "line 4, column 9: `batch.array`: `x`: elements are given as",
    ),
    (
        PolicyKind::Profile,
        "name = \"p\"\nkind = \"batch\"\n[batch]\narray = \"x\"\nheld = 1",
        "line 5, column 8: `batch.held`: true or false is wanted here, not a whole number",
    ),
    (
        PolicyKind::Queue,
        "name = \"q\"\nkind = \"batch\"",
        "unknown field `kind` (allowed: name, description, priority, caps)",
    ),
    (
        PolicyKind::Queue,
        "name = \"q\"\npriority = 3000000000",
        "`priority`: 3000000000 is not a whole number from -2147483648 to 2147483647",
    ),
    (
        PolicyKind::Project,
        "name = \"q\"\n[caps.resources]\nmemory = \"1 apple\"",
        "line 3, column 10: `caps.resources.memory`: `1 apple` is not a size",
    ),
];

#[test]
fn each_fault_of_a_policy_has_its_place() {
    for (kind, text, wanted) in FAULTS {
        let said = read_policy(&Document::toml("f", text), *kind)
            .unwrap_err()
            .to_string();
        assert!(said.contains(wanted), "{text}\n{said}");
    }
}
