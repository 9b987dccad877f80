//! JSON Schemas of the documents that people write, for editors and for checks elsewhere.
//!
//! ```text
//!   types of xce-profile ──► schemars ──► no nulls, names, defaults ──► JSON Schema 2020-12
//! ```

use schemars::JsonSchema;
use serde_json::{Map, Value, json};
use xce_model::Source;
use xce_model::limits::{NAME_BYTES_MAX, PORTS_MAX};
use xce_model::spec::User;
use xce_profile::document::{JobFile, ServiceFile};
use xce_profile::layers::{self, Between};
use xce_profile::{Leaves, PolicyFile, RunAs};

/// What a schema describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// A service file.
    Service,
    /// What a batch job may say.
    Batch,
    /// A profile.
    Profile,
    /// A project.
    Project,
    /// A queue.
    Queue,
}

/// Actions of a probe, of which it has one.
const ACTIONS: [&str; 4] = ["http", "tcp", "exec", "grpc"];

/// The JSON Schema of a document.
pub fn schema(subject: Subject) -> Value {
    match subject {
        Subject::Service => service(),
        Subject::Batch => {
            let mut schema = schema_of::<JobFile>();
            let leaves = layers::job(&nobody(), Between::default(), &JobFile::default());
            add_defaults(&mut schema, &leaves);
            schema
        }
        Subject::Profile => policy("XCE profile", &["priority", "caps"], &["name", "kind"]),
        Subject::Project => policy("XCE project", &["kind", "priority"], &["name"]),
        Subject::Queue => policy("XCE queue", &["kind", "service", "batch"], &["name"]),
    }
}

fn service() -> Value {
    let mut schema = schema_of::<ServiceFile>();
    let leaves = layers::service(&nobody(), Between::default(), &ServiceFile::default());
    add_defaults(&mut schema, &leaves);
    schema["required"] = json!(["name"]);
    schema["anyOf"] = json!([{ "required": ["command"] }, { "required": ["profile"] }]);
    schema
}

fn policy(title: &str, foreign: &[&str], required: &[&str]) -> Value {
    let mut schema = schema_of::<PolicyFile>();
    schema["title"] = json!(title);
    schema["required"] = json!(required);
    if let Some(properties) = schema["properties"].as_object_mut() {
        for name in foreign {
            properties.remove(*name);
        }
    }
    prune(&mut schema);
    schema
}

/// Takes out definitions that nothing refers to any more.
fn prune(schema: &mut Value) {
    loop {
        let text = schema.to_string();
        let Some(definitions) = schema.get_mut("$defs").and_then(Value::as_object_mut) else {
            return;
        };
        let before = definitions.len();
        definitions.retain(|name, _| text.contains(&format!("\"#/$defs/{name}\"")));
        if definitions.len() == before {
            return;
        }
    }
}

/// Defaults are asked for nobody in particular; what an account gives is none of them.
fn nobody() -> RunAs {
    RunAs {
        user: User {
            name: String::new(),
            uid: 0,
            gid: 0,
        },
        env: Vec::new(),
        cwd: None,
    }
}

fn schema_of<T: JsonSchema>() -> Value {
    let mut schema = Value::from(schemars::SchemaGenerator::default().into_root_schema_for::<T>());
    clean(&mut schema);
    if let Some(properties) = schema.get_mut("properties") {
        add_rules("", properties);
    }
    let definitions = schema.get_mut("$defs").and_then(Value::as_object_mut);
    for (name, definition) in definitions.into_iter().flatten() {
        if name == "ProbeFile" {
            one_action(definition);
        }
        if let Some(properties) = definition.get_mut("properties") {
            add_rules(name, properties);
        }
    }
    schema
}

/// Takes out nulls, since a field is left out instead, and formats that no standard knows.
fn clean(value: &mut Value) {
    if let Value::Array(values) = value {
        values.iter_mut().for_each(clean);
    }
    let Value::Object(fields) = value else {
        return;
    };
    fields.values_mut().for_each(clean);
    fields.remove("format");
    if let Some(Value::Array(kinds)) = fields.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [kind] = kinds.as_slice() {
            let kind = kind.clone();
            fields.insert("type".to_owned(), kind);
        }
    }
    if let Some(Value::Array(values)) = fields.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(choices)) = fields.get_mut("anyOf") {
        let null = json!({ "type": "null" });
        let nullable = choices.contains(&null);
        choices.retain(|choice| *choice != null);
        if nullable && let [Value::Object(only)] = choices.as_slice() {
            let only = only.clone();
            fields.remove("anyOf");
            take_in(fields, only);
        }
    }
}

/// Takes the only choice into the schema around it; both descriptions stay.
fn take_in(fields: &mut Map<String, Value>, only: Map<String, Value>) {
    for (name, value) in only {
        let both = match (fields.get(&name), &value) {
            (Some(Value::String(outer)), Value::String(inner)) if name == "description" => {
                json!(format!("{outer} {inner}"))
            }
            (Some(_) | None, _) => value,
        };
        fields.insert(name, both);
    }
}

/// Adds what the types do not say: how names and lists are bounded.
fn add_rules(definition: &str, properties: &mut Value) {
    let name = json!({ "pattern": "^[a-z0-9][a-z0-9._-]*$", "maxLength": NAME_BYTES_MAX });
    let labels = json!({ "propertyNames": name });
    let rules = [
        (["", "ServiceFile", "JobFile"].as_slice(), "name", &name),
        (&["", "ServiceFile", "JobFile"], "profile", &name),
        (&["", "ServiceFile", "JobFile"], "project", &name),
        (&["", "ServiceFile", "JobFile"], "queue", &name),
        (&["", "ServiceFile"], "labels", &labels),
        (&["", "ServiceFile", "JobFile"], "constraints", &labels),
        (&["PortFile"], "name", &name),
        (&["SpreadFile"], "label", &name),
        (
            &["", "ServiceFile", "JobFile"],
            "env",
            &json!({ "propertyNames": { "pattern": "^[A-Za-z_][A-Za-z0-9_]*$" } }),
        ),
        (
            &["", "ServiceFile", "JobFile"],
            "ports",
            &json!({ "maxItems": PORTS_MAX }),
        ),
        (
            &["", "ServiceFile", "JobFile", "ExecFile"],
            "command",
            &json!({ "minItems": 1 }),
        ),
        (
            &["", "ServiceFile", "JobFile"],
            "cwd",
            &json!({ "pattern": "^/" }),
        ),
        (&["HttpFile"], "path", &json!({ "pattern": "^/" })),
    ];
    for (definitions, property, rule) in rules {
        let found = properties
            .get_mut(property)
            .filter(|_| definitions.contains(&definition));
        if let (Some(Value::Object(found)), Value::Object(rule)) = (found, rule) {
            found.extend(rule.clone());
        }
    }
}

fn one_action(probe: &mut Value) {
    let pairs: Vec<Value> = ACTIONS
        .iter()
        .enumerate()
        .flat_map(|(place, first)| {
            ACTIONS[place + 1..]
                .iter()
                .map(move |second| json!({ "required": [first, second] }))
        })
        .collect();
    probe["not"] = json!({ "anyOf": pairs });
}

/// Writes the built-in value of each field where the field is described.
fn add_defaults(schema: &mut Value, leaves: &Leaves) {
    for (path, value, source) in leaves.iter() {
        if *source != Source::BuiltIn {
            continue;
        }
        let path = path.to_string();
        let (tables, field) = path.rsplit_once('.').unwrap_or(("", &path));
        let mut place = "/properties".to_owned();
        for table in tables.split('.').filter(|table| !table.is_empty()) {
            let reference = schema.pointer(&format!("{place}/{table}/$ref"));
            let Some(definition) = reference.and_then(Value::as_str) else {
                break;
            };
            place = format!("{}/properties", definition.trim_start_matches('#'));
        }
        if let Some(Value::Object(found)) = schema.pointer_mut(&format!("{place}/{field}")) {
            found.insert("default".to_owned(), value.clone());
        }
    }
}
