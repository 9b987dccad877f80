//! A TOML text read field by field, so that every fault is found with its line and column.
//!
//! A deserialiser stops at the first fault; this reader notes it and goes on.

use std::cell::RefCell;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::fault::{Fault, Faults};
use crate::spelling::closest;

/// Largest text that is read, in bytes.
/// Source: derived; four times the largest environment, the largest thing a file may hold.
pub const TEXT_BYTES_MAX: usize = 1024 * 1024;

/// Collects the faults of one text.
#[derive(Debug)]
pub struct FaultLog<'t> {
    text: &'t str,
    list: RefCell<Vec<Fault>>,
}

/// One table of a text.
#[derive(Debug, Clone)]
pub struct Section<'d> {
    log: &'d FaultLog<'d>,
    table: &'d DeTable<'d>,
    /// Dotted name, empty for the whole text.
    path: String,
    position: usize,
}

/// One value of a text.
#[derive(Debug, Clone)]
pub struct Field<'d> {
    log: &'d FaultLog<'d>,
    value: &'d DeValue<'d>,
    path: String,
    position: usize,
}

/// Reads a text by a function that notes faults in the log.
///
/// # Errors
/// All faults that were noted, or those of the TOML syntax when the text is no TOML.
pub fn read<T>(
    file: &str,
    text: &str,
    allowed: &[&str],
    reader: impl FnOnce(&Section<'_>) -> T,
) -> Result<T, Faults> {
    let log = FaultLog {
        text,
        list: RefCell::default(),
    };
    let failed = |list| Err(Faults::of(file, list).expect("a failure has a fault"));
    if text.len() > TEXT_BYTES_MAX {
        // Whoever read the text may have stopped at this limit, so its length says nothing.
        let sentence =
            format!("the file has more than the {TEXT_BYTES_MAX} bytes that are allowed");
        return failed(vec![Fault::placeless(sentence)]);
    }
    let (root, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let list = errors.iter().map(|error| {
            let position = error.span().map_or(0, |span| span.start);
            Fault::at(
                text,
                position,
                format!("not valid TOML: {}", error.message()),
            )
        });
        return failed(list.collect());
    }
    let outcome = {
        let section = Section {
            log: &log,
            table: root.get_ref(),
            path: String::new(),
            position: 0,
        };
        section.refuse_unknown(allowed);
        reader(&section)
    };
    match Faults::of(file, log.list.into_inner()) {
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
        let value = self.table.get(name)?;
        Some(self.field_of(name, value))
    }

    /// Every field with its name.
    pub fn fields(&self) -> Vec<(String, Field<'d>)> {
        self.table
            .iter()
            .map(|(name, value)| {
                (
                    name.get_ref().to_string(),
                    self.field_of(name.get_ref(), value),
                )
            })
            .collect()
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

    fn field_of(&self, name: &str, value: &'d Spanned<DeValue<'d>>) -> Field<'d> {
        let path = match self.path.as_str() {
            "" => name.to_owned(),
            outer => format!("{outer}.{name}"),
        };
        Field {
            log: self.log,
            value: value.get_ref(),
            path,
            position: value.span().start,
        }
    }

    fn refuse_unknown(&self, allowed: &[&str]) {
        for (name, _) in self.table.iter() {
            let word = name.get_ref();
            if allowed.contains(&word.as_ref()) {
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
            self.log.note(name.span().start, sentence);
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
            DeValue::String(text) => Some(text.to_string()),
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
            DeValue::Integer(number) => {
                let parsed = i128::from_str_radix(number.as_str(), number.radix()).ok();
                let inside = parsed
                    .and_then(|value| u64::try_from(value).ok())
                    .filter(|value| range.contains(value));
                if inside.is_none() {
                    self.fault(format!("{} is not {}", number.as_str(), wanted()));
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

    /// A quantity: a text with its unit, or a number where the quantity allows one without.
    pub fn quantity<T>(&self) -> Option<T>
    where
        T: FromStr,
        T::Err: Display,
    {
        let text = match self.value {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_owned(),
            DeValue::Float(number) => number.as_str().to_owned(),
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
            DeValue::Array(values) => Some(
                values
                    .iter()
                    .enumerate()
                    .map(|(index, value)| Field {
                        log: self.log,
                        value: value.get_ref(),
                        path: format!("{}[{index}]", self.path),
                        position: value.span().start,
                    })
                    .collect(),
            ),
            other => self.wrong_kind("a list in brackets", other),
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
            DeValue::Table(table) => Some(Section {
                log: self.log,
                table,
                path: self.path.clone(),
                position: self.position,
            }),
            other => self.wrong_kind("a table", other),
        }
    }

    /// Whether this is a number rather than a text.
    pub fn is_integer(&self) -> bool {
        matches!(self.value, DeValue::Integer(_))
    }

    fn wrong_kind<T>(&self, wanted: &str, value: &DeValue<'_>) -> Option<T> {
        let found = match value {
            DeValue::String(_) => "a text",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a number",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a time",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        self.fault(format!("{wanted} is wanted here, not {found}"));
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
