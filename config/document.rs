//! A text read field by field, so that every fault is found with its line and column.
//!
//! ```text
//!   TOML, YAML, JSON ──► tree (values and their places) ──► sections and fields ──► T, or all faults
//! ```
//!
//! A deserialiser stops at the first fault; this reader notes it and goes on.

use std::cell::RefCell;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::fault::{Fault, Faults};
use crate::syntax::{self, Format};
use crate::tree::{Entry, Node, Value};
use xce_profile::closest;

/// Largest text that is read, in bytes.
/// Source: derived; four times the largest environment, the largest thing a file may hold.
pub const TEXT_BYTES_MAX: usize = 1024 * 1024;

/// A text with its name and its format.
#[derive(Debug, Clone, Copy)]
pub struct Document<'t> {
    /// Name of the file, for faults; empty where there is none.
    pub file: &'t str,
    /// What it holds.
    pub text: &'t str,
    /// How it is written.
    pub format: Format,
    /// Whether neither its name nor the user said the format.
    guessed: bool,
}

impl<'t> Document<'t> {
    /// A text in the format that is given, else in that of the file's ending, else a guess.
    pub fn new(file: &'t str, text: &'t str, format: Option<Format>) -> Self {
        let known = format.or_else(|| Format::of_file(file));
        Self {
            file,
            text,
            format: known.unwrap_or_else(|| Format::guess(text)),
            guessed: known.is_none(),
        }
    }

    /// A text in TOML.
    pub const fn toml(file: &'t str, text: &'t str) -> Self {
        Self {
            file,
            text,
            format: Format::Toml,
            guessed: false,
        }
    }

    fn failed(&self, list: Vec<Fault>) -> Faults {
        Faults::of(self.file, list).expect("a failure has a fault")
    }

    fn tree(&self) -> Result<Node, Faults> {
        if self.text.len() > TEXT_BYTES_MAX {
            // Whoever read the text may have stopped at this limit, so its length says nothing.
            let sentence =
                format!("the file has more than the {TEXT_BYTES_MAX} bytes that are allowed");
            return Err(self.failed(vec![Fault::placeless(sentence)]));
        }
        syntax::tree(self.format, self.text).map_err(|mut list| {
            if self.guessed {
                list.push(Fault::placeless(format!(
                    "read as {}, since neither an ending (.toml, .yaml, .json) nor --format says \
                     what it is",
                    self.format
                )));
            }
            self.failed(list)
        })
    }
}

/// Collects the faults of one text.
#[derive(Debug)]
pub struct FaultLog<'t> {
    text: &'t str,
    format: Format,
    list: RefCell<Vec<Fault>>,
}

/// One table of a text.
#[derive(Debug, Clone)]
pub struct Section<'d> {
    log: &'d FaultLog<'d>,
    entries: &'d [Entry],
    /// Dotted name, empty for the whole text.
    path: String,
    position: usize,
}

/// One value of a text.
#[derive(Debug, Clone)]
pub struct Field<'d> {
    log: &'d FaultLog<'d>,
    value: &'d Value,
    path: String,
    position: usize,
}

/// Reads a text by a function that notes faults in the log.
///
/// # Errors
/// All faults that were noted, or those of the syntax when the text is not of its format.
pub fn read<T>(
    document: &Document<'_>,
    allowed: &[&str],
    reader: impl FnOnce(&Section<'_>) -> T,
) -> Result<T, Faults> {
    let root = document.tree()?;
    let log = FaultLog {
        text: document.text,
        format: document.format,
        list: RefCell::default(),
    };
    let entries: &[Entry] = match &root.value {
        Value::Table(entries) => entries,
        Value::Text(_)
        | Value::Integer(_)
        | Value::Float(_)
        | Value::Boolean(_)
        | Value::Time
        | Value::Null
        | Value::List(_) => &[],
    };
    let section = Section {
        log: &log,
        entries,
        path: String::new(),
        position: root.position,
    };
    section.refuse_unknown(allowed);
    let outcome = reader(&section);
    match Faults::of(document.file, log.list.take()) {
        None => Ok(outcome),
        Some(faults) => Err(faults),
    }
}

impl FaultLog<'_> {
    fn note(&self, position: usize, sentence: String) {
        self.list
            .borrow_mut()
            .push(Fault::at(self.text, position, sentence));
    }
}

impl<'d> Section<'d> {
    /// The field of a name, if it is given.
    pub fn field(&self, name: &str) -> Option<Field<'d>> {
        let found = self
            .entries
            .binary_search_by(|entry| entry.name.as_str().cmp(name))
            .ok()?;
        Some(self.field_of(&self.entries[found]))
    }

    /// Every field with its name, sorted by name.
    pub fn fields(&self) -> Vec<(String, Field<'d>)> {
        self.entries
            .iter()
            .map(|entry| (entry.name.clone(), self.field_of(entry)))
            .collect()
    }

    /// Format of the text.
    pub const fn format(&self) -> Format {
        self.log.format
    }

    /// The table of a name, if it is given and holds only the allowed fields.
    pub fn section(&self, name: &str, allowed: &[&str]) -> Option<Section<'d>> {
        self.field(name)?.section(allowed)
    }

    /// Where the table begins, as a place for faults.
    pub fn fault(&self, sentence: impl Display) {
        self.log
            .note(self.position, format!("{}{sentence}", prefix(&self.path)));
    }

    fn field_of(&self, entry: &'d Entry) -> Field<'d> {
        let path = match self.path.as_str() {
            "" => entry.name.clone(),
            outer => format!("{outer}.{}", entry.name),
        };
        Field {
            log: self.log,
            value: &entry.node.value,
            path,
            position: entry.node.position,
        }
    }

    fn refuse_unknown(&self, allowed: &[&str]) {
        for entry in self.entries {
            let word = entry.name.as_str();
            if allowed.contains(&word) {
                continue;
            }
            let shown: String = word.chars().take(64).flat_map(char::escape_debug).collect();
            let place = match self.path.as_str() {
                "" => String::new(),
                path => format!(" in `{path}`"),
            };
            let proposal = closest(word, allowed.iter().copied())
                .map(|near| format!("; did you mean `{near}`?"))
                .unwrap_or_default();
            let list = allowed.join(", ");
            let sentence = format!("unknown field `{shown}`{place}{proposal} (allowed: {list})");
            self.log.note(entry.name_position, sentence);
        }
    }
}

impl<'d> Field<'d> {
    /// Notes a fault at this value.
    pub fn fault(&self, sentence: impl Display) {
        self.log
            .note(self.position, format!("{}{sentence}", prefix(&self.path)));
    }

    /// Dotted name.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// A text.
    pub fn text(&self) -> Option<String> {
        match self.value {
            Value::Text(text) => Some(text.clone()),
            other => self.wrong_kind("a text in quotes", other),
        }
    }

    /// One of a few words.
    pub fn word<T: Copy>(&self, words: &[(&str, T)]) -> Option<T> {
        let text = self.text()?;
        let found = words
            .iter()
            .find(|(word, _)| *word == text)
            .map(|(_, value)| *value);
        if found.is_none() {
            let allowed: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let proposal = closest(&text, allowed.iter().copied())
                .map(|near| format!("; did you mean `{near}`?"))
                .unwrap_or_default();
            let shown: String = text.chars().take(64).flat_map(char::escape_debug).collect();
            self.fault(format!(
                "`{shown}` is not one of {}{proposal}",
                allowed.join(", ")
            ));
        }
        found
    }

    /// A whole number of a range.
    pub fn integer(&self, range: RangeInclusive<u64>) -> Option<u64> {
        let wanted = || format!("a whole number from {} to {}", range.start(), range.end());
        match self.value {
            Value::Integer(number) => {
                let inside = number
                    .value
                    .and_then(|value| u64::try_from(value).ok())
                    .filter(|value| range.contains(value));
                if inside.is_none() {
                    let shown: String = number.digits.chars().take(40).collect();
                    self.fault(format!("{shown} is not {}", wanted()));
                }
                inside
            }
            other => self.wrong_kind(&wanted(), other),
        }
    }

    /// As [`Field::integer`], for ranges that fit 32 bits.
    pub fn small_integer(&self, range: RangeInclusive<u32>) -> Option<u32> {
        let wide = u64::from(*range.start())..=u64::from(*range.end());
        self.integer(wide)
            .and_then(|value| u32::try_from(value).ok())
    }

    /// A whole number of 32 bits with its sign.
    pub fn signed(&self) -> Option<i32> {
        let wanted = || format!("a whole number from {} to {}", i32::MIN, i32::MAX);
        let Value::Integer(number) = self.value else {
            return self.wrong_kind(&wanted(), self.value);
        };
        let found = number.value.and_then(|value| i32::try_from(value).ok());
        if found.is_none() {
            let shown: String = number.digits.chars().take(40).collect();
            self.fault(format!("{shown} is not {}", wanted()));
        }
        found
    }

    /// True or false.
    pub fn boolean(&self) -> Option<bool> {
        match self.value {
            Value::Boolean(value) => Some(*value),
            other => self.wrong_kind("true or false", other),
        }
    }

    /// A quantity: a text with its unit, or a number where the quantity allows one without.
    pub fn quantity<T>(&self) -> Option<T>
    where
        T: FromStr,
        T::Err: Display,
    {
        let text = match self.value {
            Value::Text(text) => text.clone(),
            Value::Integer(number) if number.decimal => number.digits.clone(),
            Value::Float(number) => number.clone(),
            other => {
                return self.wrong_kind("a quantity, such as \"10s\", \"512MiB\" or 0.5", other);
            }
        };
        match text.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                self.fault(error);
                None
            }
        }
    }

    /// A list; each value with its number in its path.
    pub fn list(&self) -> Option<Vec<Field<'d>>> {
        match self.value {
            Value::List(values) => Some(
                values
                    .iter()
                    .enumerate()
                    .map(|(index, node)| Field {
                        log: self.log,
                        value: &node.value,
                        path: format!("{}[{index}]", self.path),
                        position: node.position,
                    })
                    .collect(),
            ),
            other => self.wrong_kind(self.log.format.list(), other),
        }
    }

    /// A list of texts.
    pub fn texts(&self) -> Option<Vec<String>> {
        self.list()?.iter().map(Field::text).collect()
    }

    /// A table that holds only the allowed fields; the others are noted as faults.
    pub fn section(&self, allowed: &[&str]) -> Option<Section<'d>> {
        let section = self.open_section()?;
        section.refuse_unknown(allowed);
        Some(section)
    }

    /// A table with names of the writer's choice.
    pub fn open_section(&self) -> Option<Section<'d>> {
        match self.value {
            Value::Table(entries) => Some(Section {
                log: self.log,
                entries,
                path: self.path.clone(),
                position: self.position,
            }),
            other => self.wrong_kind("a table", other),
        }
    }

    /// Whether this is a table.
    pub fn is_table(&self) -> bool {
        matches!(self.value, Value::Table(_))
    }

    /// Whether this is a number rather than a text.
    pub fn is_integer(&self) -> bool {
        matches!(self.value, Value::Integer(_))
    }

    fn wrong_kind<T>(&self, wanted: &str, value: &Value) -> Option<T> {
        self.fault(format!("{wanted} is wanted here, not {}", value.kind()));
        None
    }
}

fn prefix(path: &str) -> String {
    if path.is_empty() {
        String::new()
    } else {
        format!("`{path}`: ")
    }
}
