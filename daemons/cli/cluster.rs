//! `cluster` and `audit`: the cluster itself.

use clap::Subcommand;
use xce_session::wire::{Ask, AskCluster, Reply};

use super::arguments::{Form, Global};
use super::connection::{Connection, kind_of};
use super::failure::{Failure, unexpected};
use super::present::session;
use super::print;

/// What is done with the cluster.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Show its state and what is wrong.
    Status,
}

/// Runs a verb.
///
/// # Errors
/// See [`Failure`].
pub async fn run(verb: Verb, global: &Global, connection: &mut Connection) -> Result<(), Failure> {
    match verb {
        Verb::Status => match connection.ask(Ask::Cluster(AskCluster::Status)).await? {
            Reply::Cluster(cluster) => print::show(global.output, &*cluster, |look| {
                session::cluster(&cluster, look)
            }),
            other => Err(unexpected(kind_of(&other))),
        },
    }
}

/// Prints what breaks the invariants of the ledger.
///
/// # Errors
/// [`Failure::Unmet`] when anything does.
pub async fn audit(global: &Global, connection: &mut Connection) -> Result<(), Failure> {
    let findings = match connection.ask(Ask::Cluster(AskCluster::Audit)).await? {
        Reply::Findings(findings) => findings,
        other => return Err(unexpected(kind_of(&other))),
    };
    match global.output {
        Form::Table | Form::Wide if findings.is_empty() => {
            print::text("the ledger keeps all its invariants\n")?;
        }
        Form::Table
        | Form::Wide
        | Form::Json
        | Form::Yaml
        | Form::Name
        | Form::Plain
        | Form::Dns => {
            print::lines(global.output, &findings)?;
        }
    }
    match findings.len() {
        0 => Ok(()),
        count => Err(Failure::Unmet(format!(
            "the ledger breaks {count} invariants"
        ))),
    }
}
