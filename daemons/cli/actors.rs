//! `actors`: the live tree inside the controller.

use clap::{Args, Subcommand};
use xce_session::wire::{ActorView, Ask, AskActor, Reply};

use super::arguments::{Form, Global};
use super::connection::{Connection, kind_of};
use super::failure::{Failure, unexpected};
use super::operation;
use super::present::actor::tree;
use super::print::{self, Look};

/// Children of one kind below one parent that are still shown one by one.
/// Source: chosen, a screen holds them with their parents.
const FOLD_ABOVE: u32 = 20;

/// What is done with actors.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Print the tree; large families are folded into one row.
    Tree(TreeOptions),
    /// Show one with its view of its state.
    Show {
        /// Its key, such as service/3.
        key: String,
    },
    /// Kill one; it comes back from committed state. Needs chaos.enabled.
    Kill {
        /// Its key.
        key: String,
    },
    /// Start a quarantined one again.
    Retry {
        /// Its key.
        key: String,
    },
}

/// Which actors are shown.
#[derive(Debug, Clone, Args)]
pub struct TreeOptions {
    /// Only of this kind.
    #[arg(long)]
    pub kind: Option<String>,
    /// Only in this state, such as running or quarantined.
    #[arg(long)]
    pub state: Option<String>,
    /// Show every actor of large families.
    #[arg(long)]
    pub no_fold: bool,
}

/// Runs a verb.
///
/// # Errors
/// See [`Failure`].
pub async fn run(verb: Verb, global: &Global, connection: &mut Connection) -> Result<(), Failure> {
    match verb {
        Verb::Tree(options) => show_tree(options, global, connection).await,
        Verb::Show { key } => show(key, global, connection).await,
        Verb::Kill { key } => change(AskActor::Kill(key.clone()), &key, global, connection).await,
        Verb::Retry { key } => change(AskActor::Retry(key.clone()), &key, global, connection).await,
    }
}

async fn show_tree(
    options: TreeOptions,
    global: &Global,
    connection: &mut Connection,
) -> Result<(), Failure> {
    let ask = AskActor::Tree {
        kind: options.kind,
        phase: options.state,
        fold_above: if options.no_fold {
            u32::MAX
        } else {
            FOLD_ABOVE
        },
    };
    let actors: Vec<ActorView> = match connection.ask(Ask::Actor(ask)).await? {
        Reply::Actors(actors) => actors,
        other => return Err(unexpected(kind_of(&other))),
    };
    match global.output {
        Form::Table | Form::Wide => print::text(&tree(&actors, &Look::of(global.output))),
        Form::Json | Form::Yaml | Form::Name | Form::Plain | Form::Dns => {
            print::list(global.output, &actors)
        }
    }
}

async fn show(key: String, global: &Global, connection: &mut Connection) -> Result<(), Failure> {
    let text = match connection
        .ask(Ask::Actor(AskActor::Show(key.clone())))
        .await?
    {
        Reply::Json(text) => text,
        other => return Err(unexpected(kind_of(&other))),
    };
    let value: serde_json::Value = serde_json::from_str(&text)
        .map_err(|error| Failure::Local(format!("the state of {key} is no JSON: {error}")))?;
    print::text(&match global.output {
        Form::Json => print::json(&value)?,
        Form::Table | Form::Wide | Form::Yaml => print::yaml(&value)?,
        Form::Name | Form::Plain | Form::Dns => format!("{}\n", print::visible(&key)),
    })
}

async fn change(
    ask: AskActor,
    key: &str,
    global: &Global,
    connection: &mut Connection,
) -> Result<(), Failure> {
    let accepted = connection
        .change(Ask::Actor(ask), operation::random()?)
        .await?;
    print::accepted(global.output, &accepted, key)
}
