//! The table of results, `tests/chaos/RESULTS.md`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::process::Command;

use super::table::Row;

/// The file, from the root of the sources.
const FILE: &str = "tests/chaos/RESULTS.md";
/// What stands above the table.
const HEAD: &str = "# Faults, and what became of them\n\n\
    Written by `cargo x faults [ID...]`; rows that were not run again stay as they were. What each\n\
    fault is stands in `tests/chaos/faults/`, by its name.\n\n\
    | id | what was run | when | result |\n|---|---|---|---|\n";

/// How a scenario ended.
#[derive(Debug)]
pub enum Outcome {
    /// As it should; with figures.
    Passed(String),
    /// Not as it should.
    Failed(String),
    /// It was not run, and why.
    NotRun(String),
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed(note) if note.is_empty() => write!(out, "passed"),
            Self::Passed(note) => write!(out, "passed: {note}"),
            Self::Failed(text) => write!(out, "FAILED: {text}"),
            Self::NotRun(why) => write!(out, "not run: {why}"),
        }
    }
}

/// All results, those of earlier runs among them.
#[derive(Debug)]
pub struct Results {
    /// Id and what is run, in the order of the table.
    rows: Vec<(&'static str, &'static str)>,
    /// When, and the result, by id.
    known: BTreeMap<String, (String, String)>,
    today: String,
}

impl Results {
    /// Reads what is there.
    pub fn read(rows: &[Row]) -> Self {
        let text = std::fs::read_to_string(path()).unwrap_or_default();
        let cells = |line: &str| -> Option<(String, (String, String))> {
            let mut cells = line
                .strip_prefix("| ")?
                .strip_suffix(" |")?
                .splitn(4, " | ");
            let (id, _what, when, result) =
                (cells.next()?, cells.next()?, cells.next()?, cells.next()?);
            Some((id.to_owned(), (when.to_owned(), result.to_owned())))
        };
        Self {
            rows: rows.iter().map(|row| (row.id, row.what)).collect(),
            known: text.lines().filter_map(cells).collect(),
            today: today(),
        }
    }

    /// Notes a result.
    pub fn set(&mut self, id: &str, outcome: &Outcome) {
        let text = outcome.to_string().replace('|', "/");
        let when = match outcome {
            Outcome::NotRun(_) => "-".to_owned(),
            Outcome::Passed(_) | Outcome::Failed(_) => self.today.clone(),
        };
        self.known.insert(id.to_owned(), (when, text));
    }

    /// The whole file.
    pub fn text(&self) -> String {
        let mut text = HEAD.to_owned();
        for (id, what) in &self.rows {
            let known = self.known.get(*id);
            let (when, result) = known.map_or(("-", "not run yet"), |(when, result)| {
                (when.as_str(), result.as_str())
            });
            text.push_str(&format!("| {id} | {what} | {when} | {result} |\n"));
        }
        text
    }

    /// Writes the file.
    pub fn write(&self) -> std::io::Result<()> {
        std::fs::write(path(), self.text())
    }
}

fn path() -> PathBuf {
    xce_tests::root().join(FILE)
}

/// The day, as its owner reads it.
fn today() -> String {
    let output = Command::new("date").arg("+%F").output();
    output.map_or_else(
        |_| "-".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}
