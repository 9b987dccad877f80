//! The schemas: they accept what the reader accepts, and refuse most of what it refuses.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::service::any_document;
use super::validator::accepts;
use crate::schema::{Subject, schema};

proptest! {
    #[test]
    fn the_schema_accepts_every_document_that_is_read(document in any_document()) {
        static SCHEMA: LazyLock<Value> = LazyLock::new(|| schema(Subject::Service));
        prop_assert_eq!(accepts(&SCHEMA, &document), Ok(()));
    }
}

/// Documents that are wrong, below a name and a command.
fn wrong() -> Vec<Value> {
    vec![
        json!({ "replica": 1 }),
        json!({ "replicas": -1 }),
        json!({ "replicas": 100_001 }),
        json!({ "replicas": 1.5 }),
        json!({ "replicas": null }),
        json!({ "name": "Web" }),
        json!({ "command": [] }),
        json!({ "command": "sleep 1" }),
        json!({ "cwd": "srv" }),
        json!({ "env": { "A B": "x" } }),
        json!({ "env": { "A": 1 } }),
        json!({ "labels": { "Team": "x" } }),
        json!({ "resources": { "memory": "512 bananas 3" } }),
        json!({ "resources": { "memory": 512 } }),
        json!({ "resources": { "cpus": 0 } }),
        json!({ "stop": { "grace": 10 } }),
        json!({ "stop": { "grace": "10" } }),
        json!({ "stop": { "signal": 65 } }),
        json!({ "restart": { "mode": "allways" } }),
        json!({ "rollout": { "max_surge": "101 replicas" } }),
        json!({ "rollout": { "max_surge": "25" } }),
        json!({ "rollout": { "history_limit": 0 } }),
        json!({ "spread": { "mode": "loose" } }),
        json!({ "ports": [{ "port": 80 }] }),
        json!({ "ports": [{ "name": "http", "port": 0 }] }),
        json!({ "probes": { "readyness": {} } }),
        json!({ "probes": { "readiness": { "tcp": { "port": 1 }, "exec": { "command": ["x"] } } } }),
        json!({ "probes": { "readiness": { "http": { "port": 1, "path": "up" } } } }),
    ]
}

#[test]
fn the_schema_refuses_what_is_wrong() {
    let schema = schema(Subject::Service);
    let good = json!({ "name": "web", "command": ["x"] });
    assert_eq!(accepts(&schema, &good), Ok(()));
    for wrong in wrong() {
        let mut document = good.clone();
        let fields = document.as_object_mut().unwrap();
        fields.extend(wrong.as_object().unwrap().clone());
        assert!(accepts(&schema, &document).is_err(), "{wrong}");
    }
    assert!(accepts(&schema, &json!({ "command": ["x"] })).is_err());
    assert!(accepts(&schema, &json!({ "name": "web" })).is_err());
    assert_eq!(
        accepts(&schema, &json!({ "name": "web", "profile": "p" })),
        Ok(())
    );
}

#[test]
fn each_field_is_described_and_most_have_their_default() {
    for subject in [
        Subject::Service,
        Subject::Batch,
        Subject::Profile,
        Subject::Project,
        Subject::Queue,
    ] {
        let schema = schema(subject);
        assert_eq!(
            schema["$schema"],
            "https://json-schema.org/draft/2020-12/schema"
        );
        let definitions = schema["$defs"].as_object().unwrap();
        for (name, table) in definitions.iter().chain([(&String::new(), &schema)]) {
            let properties = table.get("properties").and_then(Value::as_object);
            for (field, described) in properties.into_iter().flatten() {
                let text = described["description"].as_str();
                assert!(text.is_some_and(|text| text.len() > 4), "{name}.{field}");
            }
        }
        assert!(!schema.to_string().contains("null"), "{schema:#}");
    }
    let schema = schema(Subject::Service);
    let default = |place: &str| schema.pointer(&format!("{place}/default")).cloned();
    assert_eq!(default("/properties/replicas"), Some(json!(1)));
    assert_eq!(default("/properties/profile"), Some(json!("service")));
    assert_eq!(
        default("/$defs/RolloutFile/properties/max_surge"),
        Some(json!("25%"))
    );
    assert_eq!(
        default("/$defs/RolloutFile/properties/progress_deadline"),
        Some(json!("10m"))
    );
    assert_eq!(
        default("/$defs/StopFile/properties/signal"),
        Some(json!("TERM"))
    );
    assert_eq!(
        default("/$defs/ResourcesFile/properties/memory"),
        Some(json!("128MiB"))
    );
}

#[test]
fn a_policy_has_the_fields_of_its_kind() {
    let fields = |subject| {
        let schema = schema(subject);
        let properties = schema["properties"].as_object().unwrap();
        properties.keys().cloned().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        fields(Subject::Profile),
        "batch description kind name service"
    );
    assert_eq!(
        fields(Subject::Project),
        "batch caps description name service"
    );
    assert_eq!(fields(Subject::Queue), "caps description name priority");
}
