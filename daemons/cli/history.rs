//! `services history`: the versions of a service, and what one of them runs.

use clap::Args;
use xce_model::Version;
use xce_session::history::VersionDetails;
use xce_session::wire::{Ask, AskService, Reply, ServiceName};

use super::arguments::{Form, Global};
use super::connection::{Connection, kind_of};
use super::failure::{Failure, unexpected};
use super::present::history::details;
use super::print::{self, Look};
use super::services_shown::with_proposal;

/// What is listed.
#[derive(Debug, Clone, Args)]
pub struct History {
    /// Name of the service.
    pub name: String,
    /// Print what this version runs, whole.
    #[arg(long, value_name = "NUMBER")]
    pub version: Option<Version>,
}

/// Prints the versions that are kept, or one of them.
///
/// # Errors
/// See [`Failure`].
pub async fn run(
    asked: &History,
    global: &Global,
    connection: &mut Connection,
) -> Result<(), Failure> {
    let (name, project) = (&asked.name, global.project());
    let ask = AskService::History {
        name: ServiceName {
            project: project.to_owned(),
            name: name.clone(),
        },
        version: asked.version,
    };
    let versions = match connection.ask(Ask::Service(ask)).await {
        Ok(Reply::Versions(versions)) => versions,
        Ok(other) => return Err(unexpected(kind_of(&other))),
        Err(failure) if failure.is_not_found() && asked.version.is_none() => {
            return Err(with_proposal(failure, project, name, connection).await);
        }
        Err(failure) => return Err(failure),
    };
    match (asked.version, versions.first()) {
        (Some(_), Some(version)) => one(version, global),
        (Some(_) | None, _) => print::list(global.output, &versions),
    }
}

fn one(version: &VersionDetails, global: &Global) -> Result<(), Failure> {
    match global.output {
        Form::Table | Form::Wide => {
            let look = Look::of(global.output);
            let mut text = details(version, &look);
            if let Some(template) = &version.template {
                text.push('\n');
                text.push_str(&print::yaml(&**template)?);
            }
            print::text(&text)
        }
        form @ (Form::Json | Form::Yaml | Form::Name | Form::Plain | Form::Dns) => {
            print::show(form, version, |_| String::new())
        }
    }
}
