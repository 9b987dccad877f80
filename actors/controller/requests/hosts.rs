//! Hosts: read, and commands for their actors.

use std::sync::Arc;

use xce_host::HostRecord;
use xce_ledger::{View, level};
use xce_model::Refusal;
use xce_session::wire::{AskHost, Reply};

use super::{Caller, needs_primary};
use crate::views::Times;
use crate::{host, losing, reach, views};
use xce_host::rules::Command;

pub async fn answer(caller: &Caller<'_>, ask: AskHost) -> Result<Reply, Refusal> {
    let control = caller.control;
    let view = control.view();
    match ask {
        AskHost::List | AskHost::Show(_) => {
            let doubt = losing::alarm(control, &view);
            read(&view, control.times(), doubt.as_deref(), &ask)
        }
        AskHost::Close { host, reason } => command(caller, &host, Command::Close(reason)).await,
        AskHost::Reopen(host) => command(caller, &host, Command::Reopen).await,
        AskHost::Remove(host) => command(caller, &host, Command::Remove).await,
        AskHost::StopQuarantined { host, job, run } => {
            let feature = "stopping a run in quarantine";
            level::require(view.level(), level::LEVEL_OF_QUARANTINE, feature)?;
            command(caller, &host, Command::StopQuarantined(job, run)).await
        }
        AskHost::ConfirmDead(host) => command(caller, &host, Command::ConfirmDead).await,
        AskHost::Drain {
            host,
            patience,
            reason,
        } => command(caller, &host, Command::Drain(patience, reason)).await,
        AskHost::Undrain(host) => command(caller, &host, Command::Undrain).await,
    }
}

/// Answers from one position, whoever leads; `doubt` is why no host is declared lost at present.
pub(super) fn read(
    view: &View,
    times: Times,
    doubt: Option<&str>,
    ask: &AskHost,
) -> Result<Reply, Refusal> {
    let seen = |host: &Arc<HostRecord>| views::host_view(view, host, times, doubt);
    match ask {
        AskHost::List => Ok(Reply::Hosts(view.hosts().values().map(seen).collect())),
        AskHost::Show(name) => match view.host(name) {
            Some(host) => Ok(Reply::Hosts(vec![seen(host)])),
            None => Err(not_found(name)),
        },
        AskHost::Close { .. }
        | AskHost::Reopen(_)
        | AskHost::Remove(_)
        | AskHost::StopQuarantined { .. }
        | AskHost::ConfirmDead(_)
        | AskHost::Drain { .. }
        | AskHost::Undrain(_) => Err(needs_primary()),
    }
}

fn not_found(name: &str) -> Refusal {
    let shown: String = name
        .chars()
        .take(64)
        .flat_map(char::escape_default)
        .collect();
    Refusal::not_found("host", shown)
}

async fn command(caller: &Caller<'_>, name: &str, command: Command) -> Result<Reply, Refusal> {
    if let Some(answer) = caller.remembered() {
        return Ok(answer);
    }
    if caller.control.view().host(name).is_none() {
        return Err(not_found(name));
    }
    let actor = || host::ensure(caller.control, name);
    let answer = reach::ask(actor, |reply| {
        host::Message::Command(Box::new(host::Asked {
            command: command.clone(),
            principal: caller.name().to_owned(),
            operation: caller.operation,
            reply,
        }))
    });
    answer.await.flatten().map(Reply::Accepted)
}
