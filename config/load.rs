//! Settings from their sources: defaults, file, environment, flags, each winning over those before.

use std::path::{Path, PathBuf};

use figment::providers::Serialized;
use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};

use crate::document::{Document, Section, read};
use crate::fault::{Fault, Faults};
use crate::forms::{old_names, version_of};
use crate::home::Home;
use crate::option::{CONFIG_VERSION, Kind, OptionDoc, Settings};
use xce_profile::closest;

/// Where settings come from.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The file; it must exist when it is named.
    pub file: Option<PathBuf>,
    /// Variables of the environment; only those that begin with the role's prefix matter.
    pub environment: Vec<(String, String)>,
    /// Flags, each a dotted option and its value.
    pub flags: Vec<(String, String)>,
}

impl Sources {
    /// The environment of this process, and a file.
    pub fn of_process(file: Option<PathBuf>) -> Self {
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Self {
            file,
            environment,
            flags: Vec::new(),
        }
    }

    /// These sources with one flag more.
    #[must_use]
    pub fn with_flag(mut self, key: &str, value: impl ToString) -> Self {
        self.flags.push((key.to_owned(), value.to_string()));
        self
    }
}

/// Reads, merges and checks the settings of a daemon.
///
/// # Errors
/// Every fault found, of all sources and kinds together.
pub fn load<S: Settings>(home: &Home, sources: &Sources) -> Result<S, Faults> {
    let Some(path) = &sources.file else {
        return load_text(home, sources, "", "");
    };
    let text = read_file(path)?;
    load_text(home, sources, &path.display().to_string(), &text)
}

/// As [`load`], of a file's text that was read already.
///
/// # Errors
/// As [`load`].
pub fn load_text<S: Settings>(
    home: &Home,
    sources: &Sources,
    name: &str,
    text: &str,
) -> Result<S, Faults> {
    let version = version_of(text);
    let table: toml::Table = toml::from_str(text).unwrap_or_default();
    let mut faults = unknown_in_file::<S>(name, text, version)?;
    faults.extend(given_twice::<S>(name, text, &table, version));
    let environment = pairs_of_environment::<S>(&sources.environment, &mut faults);
    let flags = pairs_of_flags::<S>(&sources.flags, &mut faults);
    let file = FileText {
        name,
        text,
        table: &table,
    };
    let figment = Figment::from(Serialized::defaults(S::defaults(home)))
        .merge(pairs_of_file::<S>(&table, version))
        .merge(environment)
        .merge(flags);
    let settings = extract::<S>(home, figment, &file, &mut faults);
    if let Some(settings) = settings {
        let mut wrong = Vec::new();
        settings.check(&mut wrong);
        faults.extend(wrong.into_iter().map(|fault| file.placed::<S>(fault)));
        if faults.is_empty() {
            return Ok(settings);
        }
    }
    Err(Faults::of(name, faults).expect("settings that cannot be had have a fault"))
}

/// Takes the settings out; a value that is not of its kind is noted, and its default stands for it, so
/// that the next one is found.
fn extract<S: Settings>(
    home: &Home,
    mut figment: Figment,
    file: &FileText<'_>,
    faults: &mut Vec<Fault>,
) -> Option<S> {
    let defaults = Figment::from(Serialized::defaults(S::defaults(home)));
    for _ in 0..=S::OPTIONS.len() {
        let error = match figment.extract() {
            Ok(settings) => return Some(settings),
            Err(error) => error,
        };
        faults.push(file.fault_of::<S>(&error));
        let path = error.path.join(".");
        let of = |option: &&OptionDoc| {
            path == option.key || path.starts_with(&format!("{}.", option.key))
        };
        let option = S::OPTIONS.iter().find(of)?;
        let value = defaults.find_value(option.key).ok()?;
        let mut values = Dict::new();
        insert(&mut values, option.key, value);
        let source = "defaults";
        figment = figment.merge(Pairs { source, values });
    }
    None
}

fn read_file(path: &Path) -> Result<String, Faults> {
    std::fs::read_to_string(path).map_err(|error| Faults {
        file: path.display().to_string(),
        list: vec![Fault::placeless(format!("cannot be read: {error}"))],
    })
}

/// Faults of names; an error where the text is no TOML at all, or too long.
fn unknown_in_file<S: Settings>(
    name: &str,
    text: &str,
    version: Option<u32>,
) -> Result<Vec<Fault>, Faults> {
    let mut keys: Vec<&str> = S::OPTIONS.iter().map(|option| option.key).collect();
    keys.extend(old_names::<S>(version).map(|renamed| renamed.old));
    let top: Vec<&str> = keys
        .iter()
        .map(|key| key.split('.').next().unwrap_or(key))
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .collect();
    let document = Document::toml(name, text);
    let outcome = read(&document, &top, |root| {
        note_renamed::<S>(root, version);
        check_tables(root, &keys, "");
    });
    match outcome {
        Ok(()) => Ok(Vec::new()),
        Err(faults) if toml::from_str::<toml::Table>(text).is_err() => Err(faults),
        Err(faults) => Ok(faults.list),
    }
}

/// Old names in a file that says that it is of a version with new ones.
fn note_renamed<S: Settings>(root: &Section<'_>, version: Option<u32>) {
    for one in S::RENAMED {
        let is_old = version.is_some_and(|version| version >= one.since);
        if let Some(field) = root.field(one.old).filter(|_| is_old) {
            field.fault(format!(
                "`{}` is `{}` since version {} of the form",
                one.old, one.new, one.since
            ));
        }
    }
}

/// Descends into the tables that options lie in.
fn check_tables(section: &Section<'_>, keys: &[&str], prefix: &str) {
    for (name, field) in section.fields() {
        let path = format!("{prefix}{name}");
        let below = format!("{path}.");
        let inner: Vec<&str> = keys
            .iter()
            .filter_map(|key| key.strip_prefix(&below))
            .map(|rest| rest.split('.').next().unwrap_or(rest))
            .collect();
        let is_value = keys.contains(&path.as_str()) && !field.is_table();
        if inner.is_empty() || is_value {
            continue;
        }
        if let Some(section) = field.section(&inner) {
            check_tables(&section, keys, &below);
        }
    }
}

/// Options that a file gives under their old and their new name.
fn given_twice<S: Settings>(
    name: &str,
    text: &str,
    table: &toml::Table,
    version: Option<u32>,
) -> Vec<Fault> {
    let twice = old_names::<S>(version).filter(|one| {
        let new = at(table, one.new).filter(|value| !value.is_table());
        at(table, one.old).is_some() && new.is_some()
    });
    twice
        .map(|one| {
            let sentence = format!("`{}` is given twice: also as `{}`", one.new, one.old);
            let path = [one.old.to_owned()];
            locate(name, text, &path, &sentence).unwrap_or_else(|| Fault::placeless(sentence))
        })
        .collect()
}

/// Whether a dotted name lies in a table.
fn lies_in(key: &str, table: &str) -> bool {
    key.strip_prefix(table)
        .is_some_and(|rest| rest.starts_with('.'))
}

/// A value by its dotted name.
fn at<'t>(table: &'t toml::Table, key: &str) -> Option<&'t toml::Value> {
    let (first, rest) = match key.split_once('.') {
        Some((first, rest)) => (first, Some(rest)),
        None => (key, None),
    };
    let value = table.get(first)?;
    match rest {
        None => Some(value),
        Some(rest) => at(value.as_table()?, rest),
    }
}

/// The options of a file, by their newest names; what names no option is left out.
fn pairs_of_file<S: Settings>(table: &toml::Table, version: Option<u32>) -> Pairs {
    let mut values = Dict::new();
    let mut take = |value: &toml::Value, to: &str| {
        if let Ok(value) = Value::serialize(value) {
            insert(&mut values, to, value);
        }
    };
    // What was a table and is a value now.
    let was_table = |key: &str| old_names::<S>(version).any(|one| lies_in(one.old, key));
    for option in S::OPTIONS {
        let given = at(table, option.key);
        if let Some(value) = given.filter(|value| !value.is_table() || !was_table(option.key)) {
            take(value, option.key);
        }
    }
    for one in old_names::<S>(version) {
        let Some(value) = at(table, one.old) else {
            continue;
        };
        match one.convert.and_then(|convert| convert(value)) {
            Some(value) => take(&value, one.new),
            None => take(value, one.new),
        }
    }
    // What was read by the names of its version is of the newest form now.
    if version.is_some_and(|version| (1..CONFIG_VERSION).contains(&version)) {
        insert(&mut values, "config_version", Value::from(CONFIG_VERSION));
    }
    Pairs {
        source: "file",
        values,
    }
}

/// Values of one source, by dotted option.
struct Pairs {
    source: &'static str,
    values: Dict,
}

impl Provider for Pairs {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.source)
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Ok(Map::from([(Profile::Default, self.values.clone())]))
    }
}

fn pairs_of_environment<S: Settings>(
    environment: &[(String, String)],
    faults: &mut Vec<Fault>,
) -> Pairs {
    let prefix = format!("XCE_{}_", S::ROLE.to_ascii_uppercase());
    let pairs = environment.iter().filter_map(|(name, value)| {
        let rest = name.strip_prefix(&prefix)?;
        Some((
            name.clone(),
            rest.to_ascii_lowercase().replace("__", "."),
            value.clone(),
        ))
    });
    collect::<S>("environment", pairs, faults)
}

fn pairs_of_flags<S: Settings>(flags: &[(String, String)], faults: &mut Vec<Fault>) -> Pairs {
    let pairs = flags
        .iter()
        .map(|(key, value)| (key.clone(), key.clone(), value.clone()));
    collect::<S>("flags", pairs, faults)
}

fn collect<S: Settings>(
    source: &'static str,
    given: impl Iterator<Item = (String, String, String)>,
    faults: &mut Vec<Fault>,
) -> Pairs {
    let mut values = Dict::new();
    for (shown, key, value) in given {
        // Names of earlier versions hold for ever.
        let renamed = S::RENAMED.iter().find(|one| one.old == key);
        let key = renamed.map_or(key, |one| one.new.to_owned());
        match S::OPTIONS.iter().find(|option| option.key == key) {
            Some(option) => insert(&mut values, &key, value_of(option.kind, &value)),
            None => {
                let keys = || S::OPTIONS.iter().map(|option| option.key);
                let proposal = closest(&key, keys())
                    .map(|near| format!("; did you mean `{near}`?"))
                    .unwrap_or_default();
                let list = keys().collect::<Vec<_>>().join(", ");
                faults.push(Fault::placeless(format!(
                    "{source}: `{shown}` names no option{proposal} (allowed: {list})"
                )));
            }
        }
    }
    Pairs { source, values }
}

fn insert(values: &mut Dict, key: &str, value: Value) {
    match key.split_once('.') {
        None => {
            values.insert(key.to_owned(), value);
        }
        Some((table, rest)) => {
            let mut inner = match values.remove(table) {
                Some(Value::Dict(_, inner)) => inner,
                Some(_) | None => Dict::new(),
            };
            insert(&mut inner, rest, value);
            values.insert(table.to_owned(), Value::from(inner));
        }
    }
}

/// A text of the environment or of a flag as the value that an option of its kind holds.
fn value_of(kind: Kind, text: &str) -> Value {
    match kind {
        Kind::Text | Kind::Path | Kind::Address | Kind::Duration | Kind::Size => Value::from(text),
        Kind::Number | Kind::Boolean | Kind::Table => text
            .parse()
            .unwrap_or_else(|_: std::convert::Infallible| Value::from(text)),
        Kind::List => Value::from(
            text.split(',')
                .map(str::trim)
                .filter(|entry| !entry.is_empty())
                .map(Value::from)
                .collect::<Vec<_>>(),
        ),
    }
}

/// The file that values came from.
struct FileText<'t> {
    name: &'t str,
    text: &'t str,
    table: &'t toml::Table,
}

impl FileText<'_> {
    /// The name under which the file gives an option; none where it does not.
    fn name_of<S: Settings>(&self, key: &str) -> Option<&'static str> {
        let renamed = S::RENAMED.iter().find(|one| one.new == key);
        let option = S::OPTIONS.iter().find(|option| option.key == key)?;
        let names = [Some(option.key), renamed.map(|one| one.old)];
        let given = |name: &&'static str| at(self.table, name).is_some();
        names.into_iter().flatten().find(given)
    }

    fn locate(&self, key: &str, sentence: &str) -> Option<Fault> {
        let path: Vec<String> = key.split('.').map(str::to_owned).collect();
        locate(self.name, self.text, &path, sentence)
    }

    /// A value that is not of its kind, with its place where it came from the file.
    fn fault_of<S: Settings>(&self, error: &figment::Error) -> Fault {
        let key = error.path.join(".");
        let source = error
            .metadata
            .as_ref()
            .map(|metadata| metadata.name.to_string());
        let wanted = S::OPTIONS
            .iter()
            .find(|option| option.key == key)
            .map(|option| format!(" (wanted: {}, {})", option.kind, option.range))
            .unwrap_or_default();
        if let Some(source @ ("environment" | "flags")) = source.as_deref() {
            return Fault::placeless(format!("{source}: `{key}`: {}{wanted}", error.kind));
        }
        let given = self.name_of::<S>(&key).unwrap_or(&key);
        let sentence = format!("`{given}`: {}{wanted}", error.kind);
        self.locate(given, &sentence)
            .unwrap_or_else(|| Fault::placeless(sentence))
    }

    /// A fault of a value that is named at its beginning, with its place where the file gives it.
    fn placed<S: Settings>(&self, fault: Fault) -> Fault {
        let mut parts = fault.text.splitn(3, '`');
        let (before, key) = (parts.next(), parts.next());
        let given = key
            .filter(|_| before == Some(""))
            .and_then(|key| self.name_of::<S>(key));
        given
            .and_then(|given| self.locate(given, &fault.text))
            .unwrap_or(fault)
    }
}

fn locate(name: &str, text: &str, path: &[String], sentence: &str) -> Option<Fault> {
    let tops: Vec<&str> = path.first().map(String::as_str).into_iter().collect();
    let document = Document::toml(name, text);
    let outcome = read(&document, &tops, |root| note_at(root, path, sentence));
    let faults = outcome.err()?;
    faults
        .list
        .into_iter()
        .find(|fault| fault.text.contains(sentence))
        .map(|fault| Fault {
            text: sentence.to_owned(),
            ..fault
        })
}

fn note_at(section: &Section<'_>, path: &[String], sentence: &str) {
    let Some((name, rest)) = path.split_first() else {
        return;
    };
    let Some(field) = section.field(name) else {
        return;
    };
    match field.open_section() {
        Some(inner) if !rest.is_empty() => note_at(&inner, rest, sentence),
        Some(_) | None => field.fault(sentence),
    }
}
