//! The formats of files, and how each becomes a tree.

mod json;
mod toml;
mod yaml;

use std::fmt;

use crate::fault::Fault;
use crate::tree::{Entry, Node, Value, sort_entries};

/// Format of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// TOML 1.0; the default.
    Toml,
    /// YAML 1.2, one document without tags.
    Yaml,
    /// JSON, strictly.
    Json,
}

/// Deepest nesting of lists and tables.
/// Source: derived; no part of a schema nests deeper than 8, and each level costs stack.
const DEPTH_MAX: usize = 64;

impl Format {
    /// The format that the ending of a file's name says, if it says one.
    pub fn of_file(name: &str) -> Option<Self> {
        let (_, ending) = name.rsplit('/').next()?.rsplit_once('.')?;
        match ending.to_ascii_lowercase().as_str() {
            "toml" => Some(Self::Toml),
            "yaml" | "yml" => Some(Self::Yaml),
            "json" => Some(Self::Json),
            _ => None,
        }
    }

    /// The format that a text seems to have: JSON when it begins with `{`, else TOML.
    pub fn guess(text: &str) -> Self {
        if text.trim_start().starts_with('{') {
            Self::Json
        } else {
            Self::Toml
        }
    }

    /// How a list is written, for sentences.
    pub(crate) const fn list(self) -> &'static str {
        match self {
            Self::Toml | Self::Json => "a list in brackets",
            Self::Yaml => "a list",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Toml => "TOML",
            Self::Yaml => "YAML",
            Self::Json => "JSON",
        })
    }
}

/// Reads a text of at most [`crate::document::TEXT_BYTES_MAX`] bytes; its root is a table.
///
/// # Errors
/// What makes it no text of the format, or a text that holds no table.
pub(crate) fn tree(format: Format, text: &str) -> Result<Node, Vec<Fault>> {
    let root = match format {
        Format::Toml => toml::tree(text),
        Format::Yaml => yaml::tree(text),
        Format::Json => json::tree(text),
    }?;
    match &root.value {
        Value::Table(_) => Ok(root),
        other => Err(vec![Fault::at(
            text,
            root.position,
            format!("fields with names are wanted here, not {}", other.kind()),
        )]),
    }
}

/// A table of entries in the order of the text; names that come again are noted.
fn table(mut entries: Vec<Entry>, format: Format, text: &str, faults: &mut Vec<Fault>) -> Value {
    for entry in sort_entries(&mut entries) {
        let shown: String = entry.name.chars().take(64).collect();
        faults.push(Fault::at(
            text,
            entry.name_position,
            format!(
                "not valid {format}: duplicate key `{}`",
                shown.escape_debug()
            ),
        ));
    }
    Value::Table(entries)
}
