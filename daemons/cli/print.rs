//! All output: tables, JSON, YAML and names on stdout, talk on stderr.

use std::io::{self, ErrorKind, IsTerminal, Write};

use comfy_table::{Attribute, Cell, Color, ContentArrangement, Table, presets};
use jiff::ZonedDateTime;
use serde::Serialize;
use xce_session::wire::Accepted;

use super::arguments::Form;
use super::failure::Failure;

/// Spaces between two columns. Source: chosen, as most tools print tables.
const GAP: u16 = 2;

/// Something that has a row in a table.
pub trait Row: Serialize {
    /// Headings; more of them when wide.
    fn head(wide: bool) -> Vec<&'static str>;
    /// Cells, as many as headings.
    fn cells(&self, look: &Look) -> Vec<Field>;
    /// Its name or id.
    fn name(&self) -> String;
}

/// How a table looks.
#[derive(Debug, Clone)]
pub struct Look {
    /// With more columns.
    pub wide: bool,
    /// With colours.
    pub coloured: bool,
    /// The present in the user's time zone.
    pub now: ZonedDateTime,
}

impl Look {
    /// The look of a form on this terminal.
    pub fn of(form: Form) -> Self {
        Self {
            wide: form == Form::Wide,
            coloured: is_coloured(),
            now: ZonedDateTime::now(),
        }
    }
}

/// One cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    text: String,
    tone: Tone,
}

/// How a cell is coloured on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// As any text.
    Plain,
    /// All is well.
    Good,
    /// On the way.
    Passing,
    /// Somebody should look.
    Bad,
}

impl Field {
    /// A cell with a tone.
    pub fn toned(text: impl ToString, tone: Tone) -> Self {
        Self {
            text: visible(&text.to_string()),
            tone,
        }
    }
}

/// A plain cell.
pub fn cell(text: impl ToString) -> Field {
    Field::toned(text, Tone::Plain)
}

/// A text in which control characters are shown instead of obeyed.
pub fn visible(text: &str) -> String {
    text.chars()
        .flat_map(|letter| {
            let shown: Vec<char> = if letter.is_control() {
                letter.escape_default().collect()
            } else {
                vec![letter]
            };
            shown
        })
        .collect()
}

/// Prints a list.
///
/// # Errors
/// When stdout cannot be written; a closed pipe is no error.
pub fn list<T: Row>(form: Form, rows: &[T]) -> Result<(), Failure> {
    text(&list_text(form, rows, &Look::of(form))?)
}

/// Prints one object; `table` gives the form for people.
///
/// # Errors
/// As [`list`].
pub fn show<T: Row>(
    form: Form,
    row: &T,
    table: impl FnOnce(&Look) -> String,
) -> Result<(), Failure> {
    text(&match form {
        Form::Table | Form::Wide => table(&Look::of(form)),
        Form::Json => json(row)?,
        Form::Yaml => yaml(row)?,
        Form::Name | Form::Plain | Form::Dns => format!("{}\n", visible(&row.name())),
    })
}

/// Prints a change that was carried out; `name` is what it was about, for changes without ids.
///
/// # Errors
/// As [`list`].
pub fn accepted(form: Form, change: &Accepted, name: &str) -> Result<(), Failure> {
    text(&match form {
        Form::Table | Form::Wide if change.text.is_empty() => format!("{}\n", visible(name)),
        Form::Table | Form::Wide => format!("{}\n", visible(&change.text)),
        Form::Json => json(change)?,
        Form::Yaml => yaml(change)?,
        Form::Name | Form::Plain | Form::Dns if change.ids.is_empty() => {
            format!("{}\n", visible(name))
        }
        Form::Name | Form::Plain | Form::Dns => change
            .ids
            .iter()
            .map(|id| format!("{}\n", visible(id)))
            .collect(),
    })
}

/// Prints sentences, or a list of texts to programs.
///
/// # Errors
/// As [`list`].
pub fn lines(form: Form, lines: &[String]) -> Result<(), Failure> {
    text(&match form {
        Form::Table | Form::Wide | Form::Name | Form::Plain | Form::Dns => lines
            .iter()
            .map(|line| format!("{}\n", visible(line)))
            .collect(),
        Form::Json => json(lines)?,
        Form::Yaml => yaml(lines)?,
    })
}

/// A list as text.
///
/// # Errors
/// When a value has no JSON.
pub fn list_text<T: Row>(form: Form, rows: &[T], look: &Look) -> Result<String, Failure> {
    match form {
        Form::Table | Form::Wide => {
            let cells = rows.iter().map(|row| row.cells(look)).collect();
            Ok(table_text(&T::head(look.wide), cells, look.coloured))
        }
        Form::Json => json(&rows),
        Form::Yaml => yaml(&rows),
        Form::Name | Form::Plain | Form::Dns => Ok(rows
            .iter()
            .map(|row| format!("{}\n", visible(&row.name())))
            .collect()),
    }
}

/// A table as text; headings alone when there are no rows.
pub fn table_text(head: &[&str], rows: Vec<Vec<Field>>, coloured: bool) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    if coloured {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    table.set_header(head.iter().map(|title| {
        let cell = Cell::new(title);
        if coloured {
            cell.add_attribute(Attribute::Bold)
        } else {
            cell
        }
    }));
    for row in rows {
        table.add_row(row.into_iter().map(|field| styled(field, coloured)));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, GAP));
    }
    table
        .lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

fn styled(field: Field, coloured: bool) -> Cell {
    let cell = Cell::new(field.text);
    match (coloured, field.tone) {
        (false, _) | (true, Tone::Plain) => cell,
        (true, Tone::Good) => cell.fg(Color::Green),
        (true, Tone::Passing) => cell.fg(Color::Yellow),
        (true, Tone::Bad) => cell.fg(Color::Red),
    }
}

/// Names and values, one a line, aligned.
pub fn pairs_text<N: AsRef<str>>(pairs: &[(N, String)]) -> String {
    let width = pairs
        .iter()
        .map(|(name, _)| name.as_ref().len())
        .max()
        .unwrap_or(0)
        + 1;
    pairs
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| {
            format!(
                "{:<width$} {}\n",
                format!("{}:", name.as_ref()),
                visible(value)
            )
        })
        .collect()
}

/// A value as JSON text.
///
/// # Errors
/// When it has none.
pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<String, Failure> {
    serde_json::to_string_pretty(value)
        .map(|text| format!("{text}\n"))
        .map_err(|error| Failure::Local(format!("cannot be printed as JSON: {error}")))
}

/// A value as YAML text.
///
/// # Errors
/// When it has none.
pub fn yaml<T: Serialize + ?Sized>(value: &T) -> Result<String, Failure> {
    // By way of JSON, so that both forms hold the same.
    let value = serde_json::to_value(value)
        .map_err(|error| Failure::Local(format!("cannot be printed as YAML: {error}")))?;
    serde_saphyr::to_string(&value)
        .map(|text| {
            if text.ends_with('\n') {
                text
            } else {
                format!("{text}\n")
            }
        })
        .map_err(|error| Failure::Local(format!("cannot be printed as YAML: {error}")))
}

/// Whether stdout shows colours.
pub fn is_coloured() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !refused && io::stdout().is_terminal()
}

/// Writes a text to stdout.
///
/// # Errors
/// When it cannot be written; a closed pipe is no error, since its reader has what it wanted.
pub fn text(text: &str) -> Result<(), Failure> {
    bytes(text.as_bytes()).map(|_| ())
}

/// Writes bytes to stdout; says whether anybody still reads.
///
/// # Errors
/// As [`text`].
pub fn bytes(bytes: &[u8]) -> Result<bool, Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::Local(format!("stdout cannot be written: {error}"))),
    }
}

/// Says something beside the result.
pub fn talk(sentence: &str) {
    // Whoever closed stderr does not want to hear it.
    let _ = writeln!(io::stderr().lock(), "xcecli: {sentence}");
}
