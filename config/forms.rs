//! Forms of settings files: what earlier versions of a form named otherwise, and how a file is
//! brought up to the newest.
//!
//! A file says its version with `config_version`. An older one is read by its names for ever; one
//! that says none may use the names of every version. `upgrade` renames in the text itself, so that
//! comments and order stay.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::fault::{Fault, Faults};
use crate::home::Home;
use crate::load::{Sources, load_text};
use crate::option::{CONFIG_VERSION, Settings};

/// An option that had another name in earlier versions.
#[derive(Debug, Clone, Copy)]
pub struct Renamed {
    /// Dotted name until then.
    pub old: &'static str,
    /// Dotted name since; an option.
    pub new: &'static str,
    /// First version with the new name.
    pub since: u32,
    /// What an old value is now; the same when absent.
    pub convert: Option<fn(&toml::Value) -> Option<toml::Value>>,
}

/// The version that a text says it is of; none where it says none, or is no TOML.
pub fn version_of(text: &str) -> Option<u32> {
    let table: toml::Table = toml::from_str(text).ok()?;
    let version = table.get("config_version")?.as_integer()?;
    u32::try_from(version).ok()
}

/// The renamings whose old names a file of a version may use.
pub(crate) fn old_names<S: Settings>(
    version: Option<u32>,
) -> impl Iterator<Item = &'static Renamed> {
    let renamed: &'static [Renamed] = S::RENAMED;
    renamed
        .iter()
        .filter(move |one| version.is_none_or(|version| version < one.since))
}

/// What an upgrade comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Upgrade {
    /// It is of the newest version already.
    Newest,
    /// The text of the newest version, and what was renamed, old and new.
    Text {
        /// Version that it was of.
        from: u32,
        /// The new text.
        text: String,
        /// Renamed options.
        renamed: Vec<(&'static str, &'static str)>,
    },
}

/// Brings the text of a settings file up to the newest version. Both mean the same settings.
///
/// # Errors
/// Every fault of the file as it is; a file with faults is not touched.
pub fn upgrade<S: Settings + PartialEq>(
    home: &Home,
    name: &str,
    text: &str,
) -> Result<Upgrade, Faults> {
    let sources = Sources::default();
    let before: S = load_text(home, &sources, name, text)?;
    let version = version_of(text);
    if version == Some(CONFIG_VERSION) {
        return Ok(Upgrade::Newest);
    }
    let (new, renamed) = rewritten::<S>(text, version);
    let after: Option<S> = load_text(home, &sources, name, &new).ok();
    if after != Some(before) {
        let text = "it is written in a way that cannot be brought up to the newest form by itself, \
                    such as tables in one line; it is left as it is";
        return Err(Faults {
            file: name.to_owned(),
            list: vec![Fault::placeless(text)],
        });
    }
    Ok(Upgrade::Text {
        from: version.unwrap_or(1),
        text: new,
        renamed,
    })
}

/// One change of a text.
struct Edit {
    range: Range<usize>,
    with: String,
}

/// The text with the newest names. Entries that move into a table are cut out, with the comments
/// right above them, and put at the table's end.
fn rewritten<S: Settings>(
    text: &str,
    version: Option<u32>,
) -> (String, Vec<(&'static str, &'static str)>) {
    let (root, _errors) = DeTable::parse_recoverable(text);
    let root = root.get_ref();
    let mut edits = Vec::new();
    let mut moved: Vec<(&'static str, String)> = Vec::new();
    let mut renamed = Vec::new();
    let mut lifted = String::new();
    for one in old_names::<S>(version) {
        if one.old.contains('.') {
            if let Some(line) = lift(text, root, one, &mut edits) {
                renamed.push((one.old, one.new));
                lifted.push_str(&line);
            }
            continue;
        }
        let Some((key, value)) = root.iter().find(|(key, _)| key.get_ref() == one.old) else {
            continue;
        };
        let (table, name) = one.new.split_once('.').unwrap_or(("", one.new));
        renamed.push((one.old, one.new));
        if table.is_empty() || is_dotted(text, root, table) {
            edits.push(Edit {
                range: key.span(),
                with: one.new.to_owned(),
            });
            continue;
        }
        let whole = entry(text, key.span().start, value.span().end);
        let comments = &text[whole.start..key.span().start];
        let rest = text[key.span().end..whole.end].trim_end();
        moved.push((table, format!("{comments}{name}{rest}\n")));
        edits.push(Edit {
            range: whole,
            with: String::new(),
        });
    }
    put_into_tables(text, root, &moved, &mut edits);
    set_version(root, &lifted, &mut edits);
    (apply(text, edits), renamed)
}

/// The lines of an entry, with the comment lines right above it.
fn entry(text: &str, key: usize, value_end: usize) -> Range<usize> {
    let line_start = |at: usize| text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let mut start = line_start(key);
    while start > 0 {
        let above = line_start(start - 1);
        if !text[above..start].trim_start().starts_with('#') {
            break;
        }
        start = above;
    }
    let end = text[value_end..]
        .find('\n')
        .map_or(text.len(), |newline| value_end + newline + 1);
    start..end
}

/// Adds what moves: below the header of its table where there is one, else in a new table at the end.
fn put_into_tables(
    text: &str,
    root: &DeTable<'_>,
    moved: &[(&'static str, String)],
    edits: &mut Vec<Edit>,
) {
    let mut tables: Vec<&str> = Vec::new();
    for (table, _) in moved {
        if !tables.contains(table) {
            tables.push(table);
        }
    }
    for table in tables {
        let lines = moved.iter().filter(|(of, _)| *of == table);
        let mut body: String = lines.map(|(_, line)| line.as_str()).collect();
        let known = root.iter().find(|(key, _)| key.get_ref() == table);
        let header = known.and_then(|(key, value)| header_end(text, key, value));
        let at = header.unwrap_or(text.len());
        if header.is_none() {
            let gap = if text.is_empty() || text.ends_with('\n') {
                ""
            } else {
                "\n"
            };
            body = format!("{gap}\n[{table}]\n{body}");
        }
        edits.push(Edit {
            range: at..at,
            with: body,
        });
    }
}

/// Whether a table is there without a header of its own, so that its entries stand as dotted names.
fn is_dotted(text: &str, root: &DeTable<'_>, table: &str) -> bool {
    let known = root.iter().find(|(key, _)| key.get_ref() == table);
    known.is_some_and(|(key, value)| header_end(text, key, value).is_none())
}

/// Where the line of a table's header ends; none where the table is written inline.
fn header_end(
    text: &str,
    key: &Spanned<std::borrow::Cow<'_, str>>,
    value: &Spanned<DeValue<'_>>,
) -> Option<usize> {
    let line = text[..key.span().start]
        .rfind('\n')
        .map_or(0, |newline| newline + 1);
    let is_header = text[line..].trim_start().starts_with('[');
    let table = matches!(value.get_ref(), DeValue::Table(_));
    (is_header && table).then(|| {
        text[line..]
            .find('\n')
            .map_or(text.len(), |newline| line + newline + 1)
    })
}

/// Takes the only entry of a table out, with the table, and gives the line at the top that stands
/// for it now.
fn lift(text: &str, root: &DeTable<'_>, one: &Renamed, edits: &mut Vec<Edit>) -> Option<String> {
    let (table, name) = one.old.split_once('.')?;
    let (outer, inner) = root.iter().find(|(key, _)| key.get_ref() == table)?;
    let DeValue::Table(entries) = inner.get_ref() else {
        return None;
    };
    let (key, value) = entries.iter().find(|(key, _)| key.get_ref() == name)?;
    let old: toml::Table = toml::from_str(text).ok()?;
    let old = old.get(table)?.get(name)?.clone();
    let new = match one.convert {
        Some(convert) => convert(&old)?,
        None => old,
    };
    let header = entry(text, outer.span().start, outer.span().end);
    let whole = entry(text, key.span().start, value.span().end);
    if whole.start >= header.end {
        edits.push(Edit {
            range: header,
            with: String::new(),
        });
        edits.push(Edit {
            range: whole,
            with: String::new(),
        });
    } else {
        // `table.name = value`, or an inline table: one line.
        edits.push(Edit {
            range: header.start..whole.end.max(header.end),
            with: String::new(),
        });
    }
    Some(format!("{} = {new}\n", one.new))
}

fn set_version(root: &DeTable<'_>, lifted: &str, edits: &mut Vec<Edit>) {
    if !lifted.is_empty() {
        edits.push(Edit {
            range: 0..0,
            with: lifted.to_owned(),
        });
    }
    let known = root
        .iter()
        .find(|(key, _)| key.get_ref() == "config_version");
    edits.push(match known {
        Some((_, value)) => Edit {
            range: value.span(),
            with: CONFIG_VERSION.to_string(),
        },
        None => Edit {
            range: 0..0,
            with: format!("config_version = {CONFIG_VERSION}\n"),
        },
    });
}

/// Makes all changes, which do not overlap.
fn apply(text: &str, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|edit| (edit.range.start, edit.range.end));
    let mut new = String::with_capacity(text.len() + 64);
    let mut at = 0;
    for edit in edits {
        new.push_str(&text[at..edit.range.start]);
        new.push_str(&edit.with);
        at = edit.range.end;
    }
    new.push_str(&text[at..]);
    new
}
