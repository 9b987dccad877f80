//! `sessions`: peers of the cluster.

use clap::Subcommand;
use xce_session::wire::{Ask, AskCluster, Reply, SessionView};

use super::arguments::Global;
use super::connection::{Connection, kind_of};
use super::failure::{Failure, unexpected};
use super::present::session::details;
use super::print;

/// What is done with sessions.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// List sessions.
    #[command(visible_alias = "ls")]
    List,
    /// Show one.
    Show {
        /// Its id.
        id: u64,
    },
}

/// Runs a verb.
///
/// # Errors
/// See [`Failure`].
pub async fn run(verb: Verb, global: &Global, connection: &mut Connection) -> Result<(), Failure> {
    match verb {
        Verb::List => {
            let sessions = fetch(AskCluster::Sessions, connection).await?;
            print::list(global.output, &sessions)
        }
        Verb::Show { id } => {
            let sessions = fetch(AskCluster::Session(id), connection).await?;
            let session = sessions
                .into_iter()
                .next()
                .ok_or_else(|| xce_model::Refusal::not_found("session", id))?;
            print::show(global.output, &session, |look| details(&session, look))
        }
    }
}

async fn fetch(ask: AskCluster, connection: &mut Connection) -> Result<Vec<SessionView>, Failure> {
    match connection.ask(Ask::Cluster(ask)).await? {
        Reply::Sessions(sessions) => Ok(sessions),
        other => Err(unexpected(kind_of(&other))),
    }
}
