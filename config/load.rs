//! Settings from their sources: defaults, file, environment, flags, each winning over those before.

use std::path::{Path, PathBuf};

use figment::providers::{Format, Serialized, Toml};
use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};

use crate::document::{Document, Section, read};
use crate::fault::{Fault, Faults};
use crate::home::Home;
use crate::option::{Kind, OptionDoc, Settings};
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
/// Every fault found: unknown options of all sources together; then a value that is not of its
/// kind; then all values out of range.
pub fn load<S: Settings>(home: &Home, sources: &Sources) -> Result<S, Faults> {
    let name = sources
        .file
        .as_deref()
        .map(|path| path.display().to_string())
        .unwrap_or_default();
    let text = match &sources.file {
        None => String::new(),
        Some(path) => read_file(path)?,
    };
    let fail = |faults| Faults::of(&name, faults);
    let mut faults = unknown_in_file::<S>(&name, &text);
    let environment = pairs_of_environment::<S>(&sources.environment, &mut faults);
    let flags = pairs_of_flags::<S>(&sources.flags, &mut faults);
    if let Some(faults) = fail(faults) {
        return Err(faults);
    }
    let settings: S = Figment::from(Serialized::defaults(S::defaults(home)))
        .merge(Toml::string(&text).profile(Profile::Default))
        .merge(environment)
        .merge(flags)
        .extract()
        .map_err(|error| {
            let faults = error
                .into_iter()
                .map(|error| fault_of::<S>(&name, &text, &error));
            fail(faults.collect()).expect("an error has a fault")
        })?;
    let mut faults = Vec::new();
    settings.check(&mut faults);
    fail(faults).map_or(Ok(settings), Err)
}

fn read_file(path: &Path) -> Result<String, Faults> {
    std::fs::read_to_string(path).map_err(|error| Faults {
        file: path.display().to_string(),
        list: vec![Fault::placeless(format!("cannot be read: {error}"))],
    })
}

fn unknown_in_file<S: Settings>(name: &str, text: &str) -> Vec<Fault> {
    let top: Vec<&str> = S::OPTIONS
        .iter()
        .map(|option| option.key.split('.').next().unwrap_or(option.key))
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .collect();
    let document = Document::toml(name, text);
    let outcome = read(&document, &top, |root| check_tables(root, S::OPTIONS, ""));
    outcome.err().map(|faults| faults.list).unwrap_or_default()
}

/// Descends into the tables that options lie in.
fn check_tables(section: &Section<'_>, options: &[OptionDoc], prefix: &str) {
    for (name, field) in section.fields() {
        let path = format!("{prefix}{name}");
        let below = format!("{path}.");
        let inner: Vec<&str> = options
            .iter()
            .filter_map(|option| option.key.strip_prefix(&below))
            .map(|rest| rest.split('.').next().unwrap_or(rest))
            .collect();
        if inner.is_empty() {
            continue;
        }
        if let Some(section) = field.section(&inner) {
            check_tables(&section, options, &below);
        }
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

/// A fault with the place of the option in the file, where it came from there.
fn fault_of<S: Settings>(name: &str, text: &str, error: &figment::Error) -> Fault {
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
    let from = match source.as_deref() {
        Some(source @ ("environment" | "flags")) => format!("{source}: "),
        Some(_) | None => String::new(),
    };
    let sentence = format!("{from}`{key}`: {}{wanted}", error.kind);
    if !from.is_empty() {
        return Fault::placeless(sentence);
    }
    locate(name, text, &error.path, &sentence).unwrap_or_else(|| Fault::placeless(sentence))
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
