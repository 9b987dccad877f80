//! What is wrong in a text, with its place.

use std::fmt;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// Line from 1; 0 where it has no place in the file.
    pub line: usize,
    /// Column in characters from 1; 0 where it has no place in the file.
    pub column: usize,
    /// What is wrong and what is allowed, in one sentence.
    pub text: String,
}

/// Everything that is wrong with one file, in the order of lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults {
    /// Name of the file, as the caller gave it; empty where there is none.
    pub file: String,
    /// The faults; at least one.
    pub list: Vec<Fault>,
}

/// Most faults that are shown.
/// Source: chosen, one screen; a file with more is of another kind altogether.
const SHOWN_MAX: usize = 20;

impl Fault {
    /// A fault that has no place in a file.
    pub fn placeless(text: impl Into<String>) -> Self {
        Self {
            line: 0,
            column: 0,
            text: text.into(),
        }
    }

    /// A fault at a byte position of a text.
    pub fn at(text: &str, position: usize, sentence: impl Into<String>) -> Self {
        let (line, column) = place(text, position);
        Self {
            line,
            column,
            text: sentence.into(),
        }
    }
}

impl Faults {
    /// Faults of a file, sorted by place; `None` when there is none.
    pub fn of(file: &str, mut list: Vec<Fault>) -> Option<Self> {
        list.sort();
        list.dedup();
        (!list.is_empty()).then(|| Self {
            file: file.to_owned(),
            list,
        })
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.list.iter().take(SHOWN_MAX).enumerate() {
            if index > 0 {
                writeln!(out)?;
            }
            if !self.file.is_empty() {
                write!(out, "{}: ", self.file)?;
            }
            if fault.line > 0 {
                write!(out, "line {}, column {}: ", fault.line, fault.column)?;
            }
            write!(out, "{}", fault.text)?;
        }
        match self.list.len().checked_sub(SHOWN_MAX) {
            Some(more) if more > 0 => write!(out, "\nand {more} more"),
            Some(_) | None => Ok(()),
        }
    }
}

impl std::error::Error for Faults {}

/// Line and column, both from 1, of a byte position.
fn place(text: &str, position: usize) -> (usize, usize) {
    let mut position = position.min(text.len());
    while !text.is_char_boundary(position) {
        position -= 1;
    }
    let before = &text[..position];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (
        before.matches('\n').count() + 1,
        before[line_start..].chars().count() + 1,
    )
}
