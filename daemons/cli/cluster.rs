//! `cluster` and `audit`: the cluster itself.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand};
use xce_session::member_wire::{AskMember, Invite, MemberView, ReplyMember};
use xce_session::wire::{Ask, AskCluster, Reply};

use super::arguments::{ChangeOptions, Form, Global};
use super::connection::{Connection, kind_of};
use super::failure::{Failure, unexpected};
use super::present::session;
use super::print;

/// What is done with the cluster.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Show its state, its controllers and what is wrong.
    Status,
    /// List the controllers.
    Members,
    /// Print a token with which somebody may join once; it is a secret.
    Invite(Invitee),
    /// Print a token with which another controller may join once; as `invite --controller`.
    Add,
    /// Write everything that the cluster is to a file, for `xced restore`; it holds the key of the
    /// cluster's authority, so that whoever has it can join anything.
    Backup {
        /// Where to; it must not exist.
        file: PathBuf,
    },
    /// Take a controller out.
    Remove {
        /// Its name, such as c2.
        controller: Controller,
        /// Token and waiting.
        #[command(flatten)]
        change: ChangeOptions,
    },
    /// Hand the leadership to another controller.
    #[command(visible_alias = "transfer")]
    TransferLeader {
        /// Its name, such as c2.
        controller: Controller,
        /// Token and waiting.
        #[command(flatten)]
        change: ChangeOptions,
    },
}

/// Who is invited.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Invitee {
    /// Another controller.
    #[arg(long)]
    controller: bool,
    /// The worker of a host.
    #[arg(long, value_name = "HOST")]
    worker: Option<String>,
    /// A scheduler, for controllers that are set to `scheduler = "daemon"`.
    #[arg(long, value_name = "NAME")]
    scheduler: Option<String>,
    /// A user.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
}

/// A controller by its name.
#[derive(Debug, Clone, Copy)]
pub struct Controller(u64);

impl FromStr for Controller {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.strip_prefix('c').unwrap_or(text);
        match digits.parse() {
            Ok(node) if node > 0 => Ok(Self(node)),
            Ok(_) | Err(_) => Err("a controller is named c and its number, such as c2".to_owned()),
        }
    }
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
        Verb::Members => {
            let members = members(connection).await?;
            print::list(global.output, &members)
        }
        Verb::Invite(invitee) => invite(invitee.whom(), connection).await,
        Verb::Add => invite(Invite::Controller, connection).await,
        Verb::Backup { file } => super::backup::run(&file, global, connection).await,
        Verb::Remove { controller, change } => {
            let ask = AskMember::Remove(controller.0);
            carry_out(ask, controller, &change, global, connection).await
        }
        Verb::TransferLeader { controller, change } => {
            let ask = AskMember::Transfer(controller.0);
            carry_out(ask, controller, &change, global, connection).await
        }
    }
}

async fn members(connection: &mut Connection) -> Result<Vec<MemberView>, Failure> {
    match connection.ask(Ask::Member(AskMember::List)).await? {
        Reply::Member(ReplyMember::List(members)) => Ok(members),
        other => Err(unexpected(kind_of(&other))),
    }
}

impl Invitee {
    fn whom(self) -> Invite {
        match (self.worker, self.user, self.scheduler) {
            (Some(host), _, _) => Invite::Worker(host),
            (None, Some(name), _) => Invite::User(name),
            (None, None, Some(name)) => Invite::Scheduler(name),
            (None, None, None) => Invite::Controller,
        }
    }
}

async fn invite(invite: Invite, connection: &mut Connection) -> Result<(), Failure> {
    match connection
        .ask(Ask::Member(AskMember::Invite(invite)))
        .await?
    {
        Reply::Member(ReplyMember::Token(token)) => {
            print::talk("good for two days at most and for joining once: `xced join TOKEN`");
            print::text(&format!("{token}\n"))
        }
        other => Err(unexpected(kind_of(&other))),
    }
}

async fn carry_out(
    ask: AskMember,
    controller: Controller,
    change: &ChangeOptions,
    global: &Global,
    connection: &mut Connection,
) -> Result<(), Failure> {
    let operation = change.operation(connection)?;
    let accepted = connection.change(Ask::Member(ask), operation).await?;
    print::accepted(global.output, &accepted, &format!("c{}", controller.0))
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
