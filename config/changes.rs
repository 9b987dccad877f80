//! What another configuration of a daemon changes, and which of it holds without a restart.

use serde_json::Value;

use crate::option::Settings;

/// A value that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Dotted name of the option.
    pub key: &'static str,
    /// As it was.
    pub from: String,
    /// As it is to be.
    pub to: String,
    /// Whether it holds at once; else from the next start on.
    pub live: bool,
}

/// What a reload comes to.
#[derive(Debug, Clone)]
pub struct Reloaded<S> {
    /// What runs from now on: the new values where they hold at once, the old ones elsewhere.
    pub running: S,
    /// All that differs, in the order of the reference.
    pub changes: Vec<Change>,
}

/// Compares what runs with what was read, and takes over what holds at once.
///
/// # Panics
/// Never: settings are tables of their options.
pub fn reload<S: Settings>(running: &S, read: &S) -> Reloaded<S> {
    let before = serde_json::to_value(running).unwrap_or_default();
    let wanted = serde_json::to_value(read).unwrap_or_default();
    let mut now = before.clone();
    let mut changes = Vec::new();
    for option in S::OPTIONS {
        let (from, to) = (value(&before, option.key), value(&wanted, option.key));
        if from == to {
            continue;
        }
        let live = S::LIVE.contains(&option.key);
        if live && let Some(to) = to {
            set(&mut now, option.key, to.clone());
        }
        changes.push(Change {
            key: option.key,
            from: shown(from),
            to: shown(to),
            live,
        });
    }
    let running = serde_json::from_value(now).expect("each value was one of its option before");
    Reloaded { running, changes }
}

fn value<'v>(all: &'v Value, key: &str) -> Option<&'v Value> {
    key.split('.').try_fold(all, |value, name| value.get(name))
}

fn set(all: &mut Value, key: &str, to: Value) {
    let mut place = all;
    for name in key.split('.') {
        let Value::Object(fields) = place else { return };
        place = fields.entry(name).or_insert(Value::Null);
    }
    *place = to;
}

fn shown(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "unset".to_owned(),
        Some(Value::String(text)) if text.is_empty() => "empty".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_))) => {
            other.to_string()
        }
    }
}

/// All settings as a table of their options.
pub fn to_value<S: Settings>(settings: &S) -> Value {
    serde_json::to_value(settings).unwrap_or_default()
}

/// All settings as a file that means just them.
pub fn to_file<S: Settings>(settings: &S, head: &str) -> String {
    let values = serde_json::to_value(settings).unwrap_or_default();
    let mut text: String = head.lines().map(|line| format!("# {line}\n")).collect();
    let mut table = "";
    for option in S::OPTIONS {
        let Some(value) = value(&values, option.key).filter(|value| !value.is_null()) else {
            continue;
        };
        let (outer, name) = option.key.rsplit_once('.').unwrap_or(("", option.key));
        if outer != table {
            text.push_str(&format!("\n[{outer}]\n"));
            table = outer;
        }
        text.push_str(&format!("{name} = {}\n", toml_of(value)));
    }
    text
}

fn toml_of(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let pairs: Vec<String> = fields
                .iter()
                .map(|(name, value)| format!("{} = {}", Value::from(name.as_str()), toml_of(value)))
                .collect();
            format!("{{ {} }}", pairs.join(", "))
        }
        Value::Null => "\"\"".to_owned(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => value.to_string(),
    }
}
