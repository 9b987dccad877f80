//! `profiles`, `projects` and `queues`: make, replace, look at, delete.

use clap::Subcommand;
use xce_config::policy::read_policy;
use xce_profile::PolicyKind;
use xce_session::policy_wire::{AskPolicy, PolicyView};
use xce_session::wire::{Ask, Reply};

use super::arguments::{ChangeOptions, Global};
use super::connection::{Connection, kind_of};
use super::failure::{Failure, unexpected};
use super::present::policy::details;
use super::print;
use super::source::SourceFile;

/// What is done with profiles, projects and queues.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// List them.
    #[command(visible_alias = "ls")]
    List,
    /// Show one with its values.
    Show {
        /// Its name.
        name: String,
    },
    /// Make one from a file.
    Create {
        /// The file.
        #[command(flatten)]
        source: SourceFile,
        /// Token and waiting.
        #[command(flatten)]
        change: ChangeOptions,
    },
    /// Replace one by a file; what was made with it stays as it is.
    Update {
        /// The file.
        #[command(flatten)]
        source: SourceFile,
        /// Token and waiting.
        #[command(flatten)]
        change: ChangeOptions,
    },
    /// Forget one; what was made with it stays as it is.
    #[command(visible_alias = "rm")]
    Delete {
        /// Its name.
        name: String,
        /// Token and waiting.
        #[command(flatten)]
        change: ChangeOptions,
    },
}

/// Runs a verb.
///
/// # Errors
/// See [`Failure`].
pub async fn run(
    kind: PolicyKind,
    verb: Verb,
    global: &Global,
    connection: &mut Connection,
) -> Result<(), Failure> {
    match verb {
        Verb::List => {
            let rows = ask(AskPolicy::List(kind), connection).await?;
            print::list(global.output, &rows)
        }
        Verb::Show { name } => {
            let ask_one = AskPolicy::Show {
                kind,
                name: name.clone(),
            };
            let rows = ask(ask_one, connection).await?;
            match rows.first() {
                Some(row) => print::show(global.output, row, |look| details(row, look)),
                None => Err(xce_model::Refusal::not_found(kind.word(), name).into()),
            }
        }
        Verb::Create { source, change } => {
            let (name, ask) = set(kind, &source, false)?;
            carry_out(ask, &name, &change, global, connection).await
        }
        Verb::Update { source, change } => {
            let (name, ask) = set(kind, &source, true)?;
            carry_out(ask, &name, &change, global, connection).await
        }
        Verb::Delete { name, change } => {
            let ask = AskPolicy::Delete {
                kind,
                name: name.clone(),
            };
            carry_out(ask, &name, &change, global, connection).await
        }
    }
}

fn set(
    kind: PolicyKind,
    source: &SourceFile,
    update: bool,
) -> Result<(String, AskPolicy), Failure> {
    let text = source.read()?;
    let file =
        read_policy(&text.document(), kind).map_err(|faults| Failure::Usage(faults.to_string()))?;
    let ask = AskPolicy::Set {
        kind,
        name: file.name.clone(),
        document: file.canonical(),
        update,
    };
    Ok((file.name, ask))
}

async fn ask(ask: AskPolicy, connection: &mut Connection) -> Result<Vec<PolicyView>, Failure> {
    match connection.ask(Ask::Policy(ask)).await? {
        Reply::Policies(rows) => Ok(rows),
        other => Err(unexpected(kind_of(&other))),
    }
}

async fn carry_out(
    ask: AskPolicy,
    name: &str,
    change: &ChangeOptions,
    global: &Global,
    connection: &mut Connection,
) -> Result<(), Failure> {
    let operation = change.operation(connection)?;
    let accepted = connection.change(Ask::Policy(ask), operation).await?;
    print::accepted(global.output, &accepted, name)
}
