//! `services validate` and `schema`: what can be said of files without a cluster.

use std::fmt::Write;

use clap::{Args, ValueEnum};
use serde::Serialize;
use xce_config::Faults;
use xce_config::schema::{Subject, schema};
use xce_config::service::{doubts, read_request, read_service};
use xce_model::RefusalKind;
use xce_profile::document::ServiceFile;
use xce_session::wire::{Ask, Reply};

use super::arguments::{Form, Global};
use super::connection::{Connection, kind_of};
use super::failure::{Failure, unexpected};
use super::source::{self, FileFormat};
use super::{account, print, services};

/// Files to check.
#[derive(Debug, Args)]
pub struct Options {
    /// Service files, in TOML, YAML or JSON as their endings say; `-` reads one from stdin.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<String>,
    /// Format of files without such an ending [default: JSON when it begins with `{`, else TOML].
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<FileFormat>,
    /// Ask the cluster too, which knows profiles, projects, queues and their caps; nothing is
    /// written.
    #[arg(long)]
    pub online: bool,
}

/// What a schema describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Described {
    /// A service file.
    Service,
    /// Defaults of a batch job.
    Batch,
    /// A profile.
    Profile,
    /// A project.
    Project,
    /// A queue.
    Queue,
}

/// What was found in one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Findings {
    /// Name of the file.
    pub file: String,
    /// Whether a service can be made from it.
    pub valid: bool,
    /// Everything that is wrong.
    pub faults: Vec<Finding>,
    /// What is allowed and probably not meant.
    pub warnings: Vec<String>,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Line from 1; 0 where it has no place.
    pub line: usize,
    /// Column in characters from 1; 0 where it has no place.
    pub column: usize,
    /// What is wrong and what is allowed.
    pub text: String,
}

/// Checks files without a cluster.
///
/// # Errors
/// When a file cannot be read or has a fault; the findings were printed.
pub fn alone(options: &Options, global: &Global) -> Result<(), Failure> {
    let knows_user = |name: &str| account::find(name).is_some();
    let mut all = Vec::new();
    let mut unread = Vec::new();
    for path in &options.files {
        match source::read(path, options.format) {
            Ok(text) => {
                let outcome = read_service(&text.document(), &knows_user);
                all.push(findings(&text.shown, outcome).0);
            }
            Err(failure) => unread.push(failure.to_string()),
        }
    }
    report(&all, unread, global)
}

/// Checks files with what the cluster knows: each is planned as it would be created or updated.
///
/// # Errors
/// As [`alone`], and when no controller answers.
pub async fn online(
    options: &Options,
    global: &Global,
    connection: &mut Connection,
) -> Result<(), Failure> {
    let knows_user = |name: &str| account::find(name).is_some();
    let mut all = Vec::new();
    let mut unread = Vec::new();
    for path in &options.files {
        let text = match source::read(path, options.format) {
            Ok(text) => text,
            Err(failure) => {
                unread.push(failure.to_string());
                continue;
            }
        };
        let outcome = read_request(&text.document(), &knows_user);
        let (mut found, file) = findings(&text.shown, outcome);
        if let Some(file) = file {
            resolve(&mut found, &file, global, connection).await?;
        }
        all.push(found);
    }
    report(&all, unread, global)
}

/// Adds what the cluster says of a document.
async fn resolve(
    found: &mut Findings,
    file: &ServiceFile,
    global: &Global,
    connection: &mut Connection,
) -> Result<(), Failure> {
    let request = Box::new(services::request_of(file, global)?);
    let ask = services::ask_of(request, false, connection).await?;
    let refusal = match connection.ask(Ask::Plan(ask)).await {
        Ok(Reply::Plan(plan)) => {
            if !plan.blocker.is_empty() {
                let change = &plan.change;
                let text = format!("this {change} would come to a halt: {}", plan.blocker);
                found.warnings.push(text);
            }
            return Ok(());
        }
        Ok(other) => return Err(unexpected(kind_of(&other))),
        Err(Failure::Refused(refusal)) => refusal,
        Err(failure) => return Err(failure),
    };
    match refusal.kind {
        RefusalKind::Usage
        | RefusalKind::Refused
        | RefusalKind::NotFound
        | RefusalKind::NotPermitted => {}
        RefusalKind::Unavailable | RefusalKind::OutcomeUnknown => {
            return Err(Failure::Refused(refusal));
        }
    }
    found.faults = refusal
        .text
        .lines()
        .map(|line| Finding {
            line: 0,
            column: 0,
            text: line.to_owned(),
        })
        .collect();
    found.valid = false;
    Ok(())
}

fn report(all: &[Findings], mut unread: Vec<String>, global: &Global) -> Result<(), Failure> {
    print::text(&match global.output {
        Form::Table | Form::Wide => all.iter().map(for_people).collect(),
        Form::Json => print::json(all)?,
        Form::Yaml => print::yaml(all)?,
        Form::Name | Form::Plain | Form::Dns => all
            .iter()
            .filter(|findings| findings.valid)
            .map(|findings| format!("{}\n", print::visible(&findings.file)))
            .collect(),
    })?;
    let invalid = all.iter().filter(|findings| !findings.valid).count();
    if invalid > 0 {
        let (count, files) = (all.len(), if all.len() == 1 { "file" } else { "files" });
        unread.push(format!("{invalid} of {count} {files} cannot be used"));
    }
    if unread.is_empty() {
        Ok(())
    } else {
        Err(Failure::Usage(unread.join("\n")))
    }
}

/// What was found in one file, and what it means where it has no fault.
fn findings(shown: &str, outcome: Result<ServiceFile, Faults>) -> (Findings, Option<ServiceFile>) {
    let (faults, file) = match outcome {
        Ok(file) => (Vec::new(), Some(file)),
        Err(faults) => (faults.list, None),
    };
    let found = Findings {
        file: shown.to_owned(),
        valid: faults.is_empty(),
        faults: faults
            .into_iter()
            .map(|fault| Finding {
                line: fault.line,
                column: fault.column,
                text: fault.text,
            })
            .collect(),
        warnings: file.as_ref().map(doubts).unwrap_or_default(),
    };
    (found, file)
}

/// A line for each finding.
pub fn for_people(findings: &Findings) -> String {
    let file = print::visible(&findings.file);
    let mut text = String::new();
    for fault in &findings.faults {
        let place = match fault.line {
            0 => String::new(),
            line => format!("line {line}, column {}: ", fault.column),
        };
        // Writing to a text cannot fail.
        let _ = writeln!(text, "{file}: {place}{}", print::visible(&fault.text));
    }
    if findings.valid {
        let _ = writeln!(text, "{file}: valid");
    }
    for warning in &findings.warnings {
        let _ = writeln!(text, "{file}: warning: {}", print::visible(warning));
    }
    text
}

/// Prints the JSON Schema of a kind of file.
///
/// # Errors
/// When stdout cannot be written.
pub fn print_schema(described: Described, global: &Global) -> Result<(), Failure> {
    let schema = schema(match described {
        Described::Service => Subject::Service,
        Described::Batch => Subject::Batch,
        Described::Profile => Subject::Profile,
        Described::Project => Subject::Project,
        Described::Queue => Subject::Queue,
    });
    print::text(&match global.output {
        Form::Yaml => print::yaml(&schema)?,
        Form::Table | Form::Wide | Form::Json | Form::Name | Form::Plain | Form::Dns => {
            print::json(&schema)?
        }
    })
}
