//! `hosts`: look at, close, reopen, remove.

use clap::{Args, Subcommand};
use xce_host::view::HostView;
use xce_model::Millis;
use xce_session::wire::{Ask, AskHost, Reply, WatchFilter};

use super::arguments::{ChangeOptions, Global, WatchOption};
use super::connection::{Connection, kind_of};
use super::failure::{Failure, unexpected};
use super::present::host::details;
use super::{print, wait, watch};

/// What is done with hosts.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// List hosts.
    #[command(visible_alias = "ls")]
    List {
        /// Printing again.
        #[command(flatten)]
        watch: WatchOption,
    },
    /// Show one.
    Show {
        /// Its name.
        name: String,
        /// Printing again.
        #[command(flatten)]
        watch: WatchOption,
    },
    /// Let it take no new jobs; those on it go on.
    Close {
        /// Which.
        #[command(flatten)]
        change: HostChange,
        /// Why; shown to everybody.
        #[arg(long, default_value = "closed by hand", value_name = "TEXT")]
        reason: String,
    },
    /// Let it take new jobs again.
    Reopen(HostChange),
    /// Forget a host that is lost, or away without jobs; what it held is recovered.
    #[command(visible_alias = "rm")]
    Remove(HostChange),
    /// Say that the machine is known to be off: its jobs are recovered at once.
    ConfirmDead(HostChange),
    /// Let what runs there leave it: replicas move to other hosts, batch jobs end or are stopped.
    Drain {
        /// Which.
        #[command(flatten)]
        change: HostChange,
        /// How long batch jobs may run on and replicas wait for their replacement, such as 30m;
        /// then jobs are run again elsewhere where they are rerunnable and ended where not, and
        /// replicas stop first as far as their service may miss them.
        #[arg(long, value_name = "TIME")]
        deadline: Option<Millis>,
        /// Why; shown to everybody.
        #[arg(long, default_value = "drained by hand", value_name = "TEXT")]
        reason: String,
    },
    /// Drain it no longer; what has not left stays.
    Undrain(HostChange),
}

/// A change of a host.
#[derive(Debug, Args)]
pub struct HostChange {
    /// Its name.
    pub name: String,
    /// Token and waiting.
    #[command(flatten)]
    pub change: ChangeOptions,
}

/// Runs a verb.
///
/// # Errors
/// See [`Failure`].
pub async fn run(verb: Verb, global: &Global, connection: &mut Connection) -> Result<(), Failure> {
    match verb {
        Verb::List { watch } => list(watch, global, connection).await,
        Verb::Show { name, watch } => show(&name, watch, global, connection).await,
        Verb::Close { change, reason } => {
            let host = change.name.clone();
            let ask = AskHost::Close { host, reason };
            let done = |host: Option<&HostView>| host.is_none_or(|host| !host.takes_jobs);
            carried_out(ask, &change, done, global, connection).await
        }
        Verb::Drain {
            change,
            deadline,
            reason,
        } => {
            let ask = AskHost::Drain {
                host: change.name.clone(),
                patience: deadline,
                reason,
            };
            carry_out(ask, &change, global, connection).await?;
            wait::for_drain(connection, &change.name, change.change.wait).await
        }
        Verb::Undrain(change) => {
            let ask = AskHost::Undrain(change.name.clone());
            let done = |host: Option<&HostView>| host.is_none_or(|host| host.drain.is_none());
            carried_out(ask, &change, done, global, connection).await
        }
        Verb::Reopen(change) => {
            let ask = AskHost::Reopen(change.name.clone());
            let done = |host: Option<&HostView>| host.is_some_and(|host| host.takes_jobs);
            carried_out(ask, &change, done, global, connection).await
        }
        Verb::ConfirmDead(change) => {
            let ask = AskHost::ConfirmDead(change.name.clone());
            let done = |host: Option<&HostView>| host.is_none_or(|host| host.jobs == 0);
            carried_out(ask, &change, done, global, connection).await
        }
        Verb::Remove(change) => {
            let ask = AskHost::Remove(change.name.clone());
            let done = |host: Option<&HostView>| host.is_none();
            carried_out(ask, &change, done, global, connection).await
        }
    }
}

/// Carries a change out, and waits until it shows where that is wanted.
async fn carried_out(
    ask: AskHost,
    change: &HostChange,
    done: impl Fn(Option<&HostView>) -> bool,
    global: &Global,
    connection: &mut Connection,
) -> Result<(), Failure> {
    carry_out(ask, change, global, connection).await?;
    wait::for_host(connection, &change.name, change.change.wait, done).await
}

async fn carry_out(
    ask: AskHost,
    change: &HostChange,
    global: &Global,
    connection: &mut Connection,
) -> Result<(), Failure> {
    let operation = change.change.operation(connection)?;
    match connection.change(Ask::Host(ask), operation).await {
        Ok(accepted) => print::accepted(global.output, &accepted, &change.name),
        Err(failure) => Err(with_proposal(failure, &change.name, connection).await),
    }
}

async fn fetch_all(connection: &mut Connection) -> Result<Vec<HostView>, Failure> {
    match connection.ask(Ask::Host(AskHost::List)).await? {
        Reply::Hosts(hosts) => Ok(hosts),
        other => Err(unexpected(kind_of(&other))),
    }
}

/// One host.
///
/// # Errors
/// As [`Connection::ask`].
pub async fn fetch(connection: &mut Connection, name: &str) -> Result<HostView, Failure> {
    match connection
        .ask(Ask::Host(AskHost::Show(name.to_owned())))
        .await?
    {
        Reply::Hosts(hosts) => hosts
            .into_iter()
            .next()
            .ok_or_else(|| xce_model::Refusal::not_found("host", name).into()),
        other => Err(unexpected(kind_of(&other))),
    }
}

/// Adds a name that may have been meant, where a host was not found.
async fn with_proposal(failure: Failure, name: &str, connection: &mut Connection) -> Failure {
    if !failure.is_not_found() {
        return failure;
    }
    let Ok(hosts) = fetch_all(connection).await else {
        return failure;
    };
    let names = hosts.iter().map(|host| host.name.as_str());
    match (failure, xce_config::closest(name, names)) {
        (Failure::Refused(mut refusal), Some(near)) if near != name => {
            refusal.text.push_str(&format!("; did you mean `{near}`?"));
            Failure::Refused(refusal)
        }
        (failure, Some(_) | None) => failure,
    }
}

fn watched() -> WatchFilter {
    WatchFilter {
        hosts: true,
        ..WatchFilter::default()
    }
}

async fn list(
    watching: WatchOption,
    global: &Global,
    connection: &mut Connection,
) -> Result<(), Failure> {
    let form = global.output;
    watch::repeat(
        connection,
        watching.watch,
        form,
        watched(),
        async |connection, _look| print::list(form, &fetch_all(connection).await?),
    )
    .await
}

async fn show(
    name: &str,
    watching: WatchOption,
    global: &Global,
    connection: &mut Connection,
) -> Result<(), Failure> {
    let form = global.output;
    watch::repeat(
        connection,
        watching.watch,
        form,
        watched(),
        async |connection, _look| match fetch(connection, name).await {
            Ok(host) => print::show(form, &host, |look| details(&host, look)),
            Err(failure) => Err(with_proposal(failure, name, connection).await),
        },
    )
    .await
}
