//! Service files: a text of any format to a partial service, every fault at its place.
//!
//! ```text
//!   document ──► template, probes, settings ──► ServiceFile ──► doubts
//! ```
//!
//! What a file leaves out stays out: profiles and defaults are merged where they are kept. So what
//! takes two values to judge is judged here only when the file has both, or names no profile that
//! could give the other one.

mod doubts;
mod probes;
mod settings;
mod template;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::str::FromStr;

use xce_model::limits::{REPLICAS_MAX, check_name};
use xce_profile::document::ServiceFile;

use crate::document::{Document, Field, Section, read};
use crate::fault::Faults;

pub use doubts::doubts;
pub(crate) use template::resources;

/// Fields of a service file.
pub const FIELDS: &[&str] = &[
    "name",
    "replicas",
    "profile",
    "project",
    "queue",
    "command",
    "env",
    "cwd",
    "user",
    "resources",
    "ports",
    "probes",
    "restart",
    "stop",
    "spread",
    "rollout",
    "replacement",
    "labels",
    "run_limit",
    "constraints",
    "single_copy",
];

/// What is known besides the text when it is read.
#[derive(Clone, Copy)]
pub struct Reading<'r> {
    /// Whether there is a user of a name.
    pub knows_user: &'r dyn Fn(&str) -> bool,
    /// Whether the text is all that there is to be, so that only built-in defaults are below it.
    pub whole: bool,
}

/// Reads a file that is to mean a service by itself: a file that names no profile is taken to have
/// nothing but the built-in values below it, and must name its command.
///
/// # Errors
/// Every fault of the file, each with its line and what is allowed.
pub fn read_service(
    document: &Document<'_>,
    knows_user: &dyn Fn(&str) -> bool,
) -> Result<ServiceFile, Faults> {
    named(document, knows_user, |root| root.field("profile").is_none())
}

/// Reads a file for somebody who merges it with a profile and a project, and then judges what this
/// leaves open.
///
/// # Errors
/// Every fault of the file that no profile could mend, each with its line and what is allowed.
pub fn read_request(
    document: &Document<'_>,
    knows_user: &dyn Fn(&str) -> bool,
) -> Result<ServiceFile, Faults> {
    named(document, knows_user, |_| false)
}

fn named(
    document: &Document<'_>,
    knows_user: &dyn Fn(&str) -> bool,
    whole: impl Fn(&Section<'_>) -> bool,
) -> Result<ServiceFile, Faults> {
    read(document, FIELDS, |root| {
        if root.field("name").is_none() {
            root.fault("`name` is missing: the name of the service");
        }
        let reading = Reading {
            knows_user,
            whole: whole(root),
        };
        partial(root, reading)
    })
}

/// Reads any part of a service, such as a profile holds, whose unknown fields were refused.
pub fn partial(root: &Section<'_>, reading: Reading<'_>) -> ServiceFile {
    let named = |field: &str, what: &str| {
        let field = root.field(field)?;
        checked_name(&field, what)
    };
    let ports = template::ports(root);
    ServiceFile {
        name: named("name", "service"),
        replicas: count(root, "replicas", 0..=REPLICAS_MAX),
        profile: named("profile", "profile"),
        project: named("project", "project"),
        queue: named("queue", "queue"),
        command: template::command(root, reading, ports.as_deref()),
        env: template::environment(root),
        cwd: template::directory(root),
        user: template::user(root, reading),
        resources: template::resources(root),
        probes: probes::probes(root, reading, ports.as_deref()),
        ports,
        restart: template::restart(root, reading),
        stop: template::stop(root),
        spread: settings::spread(root),
        rollout: settings::rollout(root, reading),
        replacement: settings::replacement(root, reading),
        labels: pairs(root, "labels"),
        run_limit: template::run_limit(root),
        constraints: pairs(root, "constraints"),
        single_copy: template::single_copy(root),
    }
}

impl Reading<'_> {
    /// A value that another one is judged with: the text's, else the built-in default where nothing
    /// else can give it.
    fn known<T>(self, given: Option<T>, default: T) -> Option<T> {
        given.or_else(|| self.whole.then_some(default))
    }
}

pub(crate) fn checked_name(field: &Field<'_>, what: &str) -> Option<String> {
    let name = field.text()?;
    check_name(what, &name)
        .map_err(|refusal| field.fault(refusal))
        .ok()?;
    Some(name)
}

pub(crate) fn quantity<T>(section: &Section<'_>, name: &str) -> Option<T>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    section.field(name)?.quantity()
}

pub(crate) fn count(section: &Section<'_>, name: &str, range: RangeInclusive<u32>) -> Option<u32> {
    section.field(name)?.small_integer(range)
}

/// A table of labels.
fn pairs(root: &Section<'_>, name: &str) -> Option<BTreeMap<String, String>> {
    let section = root.field(name)?.open_section()?;
    let mut pairs = BTreeMap::new();
    for (label, field) in section.fields() {
        let Some(value) = field.text() else { continue };
        if let Err(refusal) = check_name("label", &label) {
            field.fault(refusal);
        } else if value.len() > xce_model::limits::NAME_BYTES_MAX
            || value.chars().any(char::is_control)
        {
            field.fault("a label's value has at most 128 bytes and no control characters");
        }
        pairs.insert(label, value);
    }
    Some(pairs)
}
