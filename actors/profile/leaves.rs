//! A document as its leaves: one value each, with where it came from.
//!
//! A leaf is what a later layer replaces as a whole: a number, a text, a list such as the command or
//! the ports, one variable, one label, the action of a probe. Everything else is a table, and merges.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use xce_model::{Origin, Source};

/// Kinds of probes, of which a probe has one.
pub const ACTIONS: [&str; 4] = ["http", "tcp", "exec", "grpc"];

/// Name of a leaf: the names of the tables that lead to it, and its own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(Vec<String>);

/// The leaves of a document by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Leaves(BTreeMap<Path, (Value, Source)>);

impl Path {
    /// A path from its dotted name; a name that holds a dot stands in quotes.
    pub fn of(dotted: &str) -> Self {
        let mut names = vec![String::new()];
        let mut quoted = false;
        for letter in dotted.chars() {
            match letter {
                '"' => quoted = !quoted,
                '.' if !quoted => names.push(String::new()),
                _ => names.last_mut().expect("there is a first").push(letter),
            }
        }
        Self(names)
    }

    /// The first name.
    pub fn head(&self) -> &str {
        self.0.first().map_or("", String::as_str)
    }

    /// The role, where this is the action of a probe.
    fn action_of(&self) -> Option<&str> {
        match self.0.as_slice() {
            [probes, role, action] if probes == "probes" && ACTIONS.contains(&&**action) => {
                Some(role)
            }
            [..] => None,
        }
    }

    fn role(&self) -> Option<&str> {
        match self.0.as_slice() {
            [probes, role, ..] if probes == "probes" => Some(role),
            [..] => None,
        }
    }

    fn below(&self, name: &str) -> Self {
        let mut names = self.0.clone();
        names.push(name.to_owned());
        Self(names)
    }
}

impl fmt::Display for Path {
    /// Dotted; a name that holds a dot itself stands in quotes, as in TOML.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, name) in self.0.iter().enumerate() {
            let dot = if place == 0 { "" } else { "." };
            if name.contains('.') {
                write!(out, "{dot}\"{name}\"")?;
            } else {
                write!(out, "{dot}{name}")?;
            }
        }
        Ok(())
    }
}

impl Leaves {
    /// The leaves of one layer.
    pub fn of<T: Serialize>(document: &T, source: &Source) -> Self {
        let mut leaves = Self::default();
        let value = serde_json::to_value(document).expect("a document has names as keys");
        leaves.add(Path(Vec::new()), value, source);
        leaves
    }

    fn add(&mut self, path: Path, value: Value, source: &Source) {
        match value {
            Value::Null => {}
            Value::Object(fields) if path.action_of().is_none() => {
                for (name, value) in fields {
                    self.add(path.below(&name), value, source);
                }
            }
            Value::Object(_)
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => {
                self.0.insert(path, (value, source.clone()));
            }
        }
    }

    /// Puts another layer above this one.
    pub fn overlay(&mut self, above: Self) {
        for (path, leaf) in above.0 {
            if let Some(role) = path.action_of() {
                self.0.retain(|other, _| other.action_of() != Some(role));
            }
            self.0.insert(path, leaf);
        }
    }

    /// Drops probes that have settings but no action, where no request gave any of them: defaults for a
    /// probe make none.
    pub fn drop_idle_probes(&mut self) {
        let mut kept: Vec<String> = Vec::new();
        for (path, (_, source)) in &self.0 {
            let asked = matches!(source, Source::Request(_)) || path.action_of().is_some();
            if let Some(role) = path.role().filter(|_| asked) {
                kept.push(role.to_owned());
            }
        }
        self.0.retain(|path, _| {
            path.role()
                .is_none_or(|role| kept.iter().any(|kept| kept == role))
        });
    }

    /// Drops leaves by name.
    pub fn drop_all(&mut self, paths: &[Path]) {
        for path in paths {
            self.0.remove(path);
        }
    }

    /// Gives a leaf another source, where there is one.
    pub fn attribute(&mut self, path: &str, source: Source) {
        if let Some(leaf) = self.0.get_mut(&Path::of(path)) {
            leaf.1 = source;
        }
    }

    /// The document of these leaves.
    ///
    /// # Errors
    /// The decoder's sentence when they are none of `T`.
    pub fn document<T: DeserializeOwned>(&self) -> Result<T, String> {
        let mut root = Map::new();
        for (path, (value, _)) in &self.0 {
            let Some((name, tables)) = path.0.split_last() else {
                continue;
            };
            let mut table = &mut root;
            for name in tables {
                let entry = table
                    .entry(name.clone())
                    .or_insert_with(|| Value::Object(Map::new()));
                let Value::Object(below) = entry else {
                    return Err(format!("`{path}`: `{name}` is no table"));
                };
                table = below;
            }
            table.insert(name.clone(), value.clone());
        }
        serde_json::from_value(Value::Object(root)).map_err(|error| error.to_string())
    }

    /// Where each leaf came from that XCE itself did not give.
    pub fn origins(&self) -> Vec<Origin> {
        let given = self
            .0
            .iter()
            .filter(|(_, (_, source))| *source != Source::BuiltIn);
        given
            .map(|(path, (_, source))| Origin {
                path: path.to_string(),
                source: source.clone(),
            })
            .collect()
    }

    /// Where a leaf came from; the deepest table above it that has a leaf counts for it.
    pub fn source(&self, dotted: &str) -> Option<&Source> {
        let path = Path::of(dotted);
        (1..=path.0.len())
            .rev()
            .find_map(|length| self.0.get(&Path(path.0[..length].to_vec())))
            .map(|(_, source)| source)
    }

    /// Every leaf: its name, its value and who gave it.
    pub fn iter(&self) -> impl Iterator<Item = (&Path, &Value, &Source)> {
        self.0
            .iter()
            .map(|(path, (value, source))| (path, value, source))
    }
}
