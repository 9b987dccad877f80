//! Hosts: read, and commands for their actors.

use xce_model::{Refusal, RefusalKind};
use xce_runtime::CallError;
use xce_session::wire::{AskHost, Reply};

use super::Caller;
use crate::control::outcome_unknown;
use crate::host;
use crate::{job, views};
use xce_host::rules::Command;

pub async fn answer(caller: &Caller<'_>, ask: AskHost) -> Result<Reply, Refusal> {
    let view = caller.control.view();
    match ask {
        AskHost::List => {
            let hosts = view.hosts().values();
            Ok(Reply::Hosts(
                hosts.map(|host| views::host_view(&view, host)).collect(),
            ))
        }
        AskHost::Show(name) => match view.host(&name) {
            Some(host) => Ok(Reply::Hosts(vec![views::host_view(&view, host)])),
            None => Err(not_found(&name)),
        },
        AskHost::Close { host, reason } => command(caller, &host, Command::Close(reason)).await,
        AskHost::Reopen(host) => command(caller, &host, Command::Reopen).await,
        AskHost::Remove(host) => command(caller, &host, Command::Remove).await,
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
    let Some(address) = host::address(caller.control, name) else {
        let text = format!("the actor of host {name} is not there yet; try again");
        return Err(Refusal::new(RefusalKind::Unavailable, "busy", text));
    };
    let (principal, operation) = (caller.name().to_owned(), caller.operation);
    let asked = |reply| {
        host::Message::Command(Box::new(host::Asked {
            command,
            principal,
            operation,
            reply,
        }))
    };
    match address.call(asked, job::COMMAND_WITHIN).await {
        Ok(answer) => answer.map(Reply::Accepted),
        Err(CallError::NotDelivered(error)) => Err(Refusal::new(
            RefusalKind::Unavailable,
            "busy",
            error.to_string(),
        )),
        Err(CallError::Unknown(_)) => Err(outcome_unknown()),
    }
}
