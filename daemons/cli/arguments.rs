//! The words that all commands share; each noun has its own in its file.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use xce_model::{Millis, OperationId};

use super::connection::Connection;
use super::failure::{EXIT_CODES, Failure};
use super::{
    actors, cluster, config, hosts, jobs, journal, operation, policies, rollout, services,
    sessions, validate, watch,
};

/// Runs jobs and services on a cluster.
#[derive(Debug, Parser)]
#[command(name = "xcecli", version, after_help = EXIT_CODES, max_term_width = 100)]
#[command(
    infer_long_args = false,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub struct Arguments {
    /// For every command.
    #[command(flatten)]
    pub global: Global,
    /// What it is about.
    #[command(subcommand)]
    pub noun: Noun,
}

/// Options of every command.
#[derive(Debug, Clone, Args)]
pub struct Global {
    /// Form of the result.
    #[arg(
        short,
        long,
        global = true,
        value_enum,
        default_value = "table",
        value_name = "FORM"
    )]
    pub output: Form,
    /// Project [default: `default`, or what a service file says].
    #[arg(long, global = true, value_name = "NAME")]
    pub project: Option<String>,
    /// Directory where client.toml and the identity lie below client/ [default: XCE_HOME or ~/.xce].
    #[arg(long, global = true, value_name = "DIR")]
    pub home: Option<PathBuf>,
    /// Read from any controller, also where none leads; what it says may be behind.
    #[arg(long, global = true)]
    pub stale: bool,
    /// How long to go on trying while no controller answers [default: 30s for changes, 10s else].
    #[arg(long, global = true, value_name = "DURATION")]
    pub retry_for: Option<Millis>,
}

impl Global {
    /// The project that is meant.
    pub fn project(&self) -> &str {
        self.project
            .as_deref()
            .unwrap_or(xce_profile::defaults::PROJECT)
    }
}

/// Form of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// For people.
    Table,
    /// For people, with more columns.
    Wide,
    /// For programs: a list of objects, or one object.
    Json,
    /// As JSON, in YAML.
    Yaml,
    /// One name or id a line.
    Name,
    /// Endpoints only: `host:port` lines.
    Plain,
    /// Endpoints only: DNS-SD names, as lines of a zone.
    Dns,
}

impl Form {
    /// Whether every command has it; the others belong to endpoints.
    pub const fn is_general(self) -> bool {
        match self {
            Self::Table | Self::Wide | Self::Json | Self::Yaml | Self::Name => true,
            Self::Plain | Self::Dns => false,
        }
    }
}

/// What a command is about.
#[derive(Debug, Subcommand)]
pub enum Noun {
    /// Long-running services and their replicas.
    #[command(subcommand, visible_aliases = ["service", "svc", "s"])]
    Services(services::Verb),
    /// How far the rollout of a service is, and the verbs around it.
    #[command(subcommand, visible_alias = "ro")]
    Rollout(rollout::Verb),
    /// Batch jobs and the replicas of services.
    #[command(subcommand, visible_aliases = ["job", "j"])]
    Jobs(jobs::Verb),
    /// Defaults that services and batch jobs name.
    #[command(subcommand, visible_alias = "profile")]
    Profiles(policies::Verb),
    /// Projects: defaults and caps of what belongs together.
    #[command(subcommand, visible_alias = "project")]
    Projects(policies::Verb),
    /// Queues: priority and caps of what waits in them.
    #[command(subcommand, visible_alias = "queue")]
    Queues(policies::Verb),
    /// Machines of the cluster.
    #[command(subcommand, visible_aliases = ["host", "h"])]
    Hosts(hosts::Verb),
    /// The live tree of actors inside the controller.
    #[command(subcommand, visible_aliases = ["actor", "a"])]
    Actors(actors::Verb),
    /// Peers of the cluster: clients and workers.
    #[command(subcommand, visible_alias = "session")]
    Sessions(sessions::Verb),
    /// The cluster itself.
    #[command(subcommand, visible_alias = "c")]
    Cluster(cluster::Verb),
    /// The log as a file, and the changes that were refused.
    #[command(subcommand)]
    Journal(journal::Verb),
    /// Settings of the controller, while it runs.
    #[command(subcommand)]
    Config(config::Verb),
    /// Check the invariants of the ledger; prints what breaks, and then exits with 1.
    Audit,
    /// Print changes as they are committed.
    #[command(visible_alias = "w")]
    Watch(watch::What),
    /// Print the JSON Schema of a kind of file, for editors.
    Schema {
        /// What it describes.
        #[arg(value_enum)]
        described: validate::Described,
    },
    /// Print a completion script for a shell.
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
}

/// Waiting for a change to have its effect.
#[derive(Debug, Clone, Copy, Args)]
pub struct WaitOptions {
    /// Wait until the wanted state is reached.
    #[arg(long)]
    pub wait: bool,
    /// Longest wait; then the exit code is 6 [default: no limit].
    #[arg(long, requires = "wait", value_name = "DURATION")]
    pub timeout: Option<Millis>,
}

/// Showing again what changes.
#[derive(Debug, Clone, Copy, Args)]
pub struct WatchOption {
    /// Print again whenever it changes.
    #[arg(long)]
    pub watch: bool,
}

/// What every change takes.
#[derive(Debug, Clone, Args)]
pub struct ChangeOptions {
    /// Names this change: the same token again has no second effect and gets the first answer.
    #[arg(long, value_name = "TEXT", value_parser = token)]
    pub token: Option<String>,
    /// Waiting.
    #[command(flatten)]
    pub wait: WaitOptions,
}

impl ChangeOptions {
    /// The operation that this change is.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub fn operation(&self, connection: &Connection) -> Result<OperationId, Failure> {
        match &self.token {
            Some(token) => Ok(operation::of_token(&connection.principal(), token)),
            None => operation::random(),
        }
    }

    /// The operation of a second change that belongs to this one.
    ///
    /// # Errors
    /// As [`ChangeOptions::operation`].
    pub fn second_operation(&self, connection: &Connection) -> Result<OperationId, Failure> {
        match &self.token {
            // No token of its own is as long.
            Some(token) => {
                let second = format!("{token}/{}", "2".repeat(TOKEN_BYTES_MAX));
                Ok(operation::of_token(&connection.principal(), &second))
            }
            None => operation::random(),
        }
    }
}

/// Longest token in bytes. Source: as long as a name, design section 15.
const TOKEN_BYTES_MAX: usize = xce_model::limits::NAME_BYTES_MAX;

/// A token that is empty, as from a variable that is not set, would make all changes one.
fn token(text: &str) -> Result<String, String> {
    match text.len() {
        0 => Err("a token must not be empty: all changes with it would be one".to_owned()),
        bytes if bytes > TOKEN_BYTES_MAX => Err(format!(
            "a token has at most {TOKEN_BYTES_MAX} bytes, this one {bytes}"
        )),
        _ => Ok(text.to_owned()),
    }
}
