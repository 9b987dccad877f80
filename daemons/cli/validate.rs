//! `services validate` and `schema`: what can be said of files without a cluster.

use std::fmt::Write;

use clap::{Args, ValueEnum};
use serde::Serialize;
use xce_config::schema::{Subject, schema};
use xce_config::service::{doubts, read_service};

use super::arguments::{Form, Global};
use super::failure::Failure;
use super::source::{self, FileFormat};
use super::{account, print};

/// Files to check.
#[derive(Debug, Args)]
pub struct Options {
    /// Service files, in TOML, YAML or JSON as their endings say; `-` reads one from stdin.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<String>,
    /// Format of files without such an ending [default: JSON when it begins with `{`, else TOML].
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<FileFormat>,
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

/// Checks files.
///
/// # Errors
/// When a file cannot be read or has a fault; the findings were printed.
pub fn run(options: &Options, global: &Global) -> Result<(), Failure> {
    let mut all = Vec::new();
    let mut unread = Vec::new();
    for path in &options.files {
        match source::read(path, options.format) {
            Ok(text) => all.push(findings(&text)),
            Err(failure) => unread.push(failure.to_string()),
        }
    }
    print::text(&match global.output {
        Form::Table | Form::Wide => all.iter().map(for_people).collect(),
        Form::Json => print::json(&all)?,
        Form::Yaml => print::yaml(&all)?,
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

fn findings(text: &source::SourceText) -> Findings {
    let knows_user = |name: &str| account::find(name).is_some();
    let (faults, warnings) = match read_service(&text.document(), &knows_user) {
        Ok(file) => (Vec::new(), doubts(&file)),
        Err(faults) => (faults.list, Vec::new()),
    };
    Findings {
        file: text.shown.clone(),
        valid: faults.is_empty(),
        faults: faults
            .into_iter()
            .map(|fault| Finding {
                line: fault.line,
                column: fault.column,
                text: fault.text,
            })
            .collect(),
        warnings,
    }
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
