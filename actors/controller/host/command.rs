//! What operators want of a host.

use xce_host::{HostFact, HostRecord};
use xce_model::{Refusal, RefusalKind};
use xce_runtime::{Crash, Reply};
use xce_session::wire::Accepted;

use super::Host;
use crate::control::{CommitError, outcome_unknown};
use crate::job::DECISIONS_MAX;
use crate::reading::jobs_on;

/// A command of an operator.
pub struct Asked {
    /// What is wanted.
    pub command: Command,
    /// Who wants it.
    pub principal: String,
    /// Its name for ever.
    pub operation: Option<xce_ledger::Operation>,
    /// Where the answer goes.
    pub reply: Reply<Result<Accepted, Refusal>>,
}

/// What an operator may want of a host.
#[derive(Debug, Clone)]
pub enum Command {
    /// Take no new jobs.
    Close(String),
    /// Take new jobs again.
    Reopen,
    /// Forget it.
    Remove,
}

impl Host {
    pub(super) async fn command(&self, asked: Asked) -> Result<(), Crash> {
        let Asked {
            command,
            principal,
            operation,
            reply,
        } = asked;
        for _ in 0..DECISIONS_MAX {
            let view = self.control.view();
            let decided = match view.host(&self.name) {
                None => Err(Refusal::not_found("host", &self.name)),
                Some(host) => decide_command(host, &view, &command, &principal)
                    .map(|(fact, text)| (Self::unchanged(host), fact, text)),
            };
            let (condition, fact, text) = match decided {
                Ok(decided) => decided,
                Err(refusal) => {
                    reply.send(Err(refusal));
                    return Ok(());
                }
            };
            let group = self
                .control
                .group("host command")
                .on_behalf(&principal, operation);
            let group = group.given(condition).with(fact);
            match self.control.commit(&group).await {
                Ok(committed) => {
                    let ids = vec![self.name.clone()];
                    reply.send(Ok(Accepted {
                        lsn: committed.answer.lsn,
                        ids,
                        text,
                    }));
                    return Ok(());
                }
                Err(CommitError::Stale(_)) => {}
                Err(CommitError::Refused(refusal)) => {
                    reply.send(Err(refusal));
                    return Ok(());
                }
                Err(CommitError::Unknown) => {
                    reply.send(Err(outcome_unknown()));
                    return Err(CommitError::Unknown.into());
                }
            }
        }
        let text = format!(
            "host {} changed faster than the command could be decided",
            self.name
        );
        reply.send(Err(Refusal::new(RefusalKind::Unavailable, "busy", text)));
        Ok(())
    }
}

fn decide_command(
    host: &HostRecord,
    view: &xce_ledger::View,
    command: &Command,
    principal: &str,
) -> Result<(HostFact, String), Refusal> {
    let name = host.inventory.name.clone();
    let by = principal.to_owned();
    match command {
        Command::Close(reason) => {
            let text = format!("host {name} takes no new jobs");
            Ok((
                HostFact::Closed {
                    host: name,
                    reason: reason.clone(),
                    by,
                },
                text,
            ))
        }
        Command::Reopen => {
            let text = format!("host {name} takes new jobs");
            Ok((HostFact::Opened { host: name, by }, text))
        }
        Command::Remove => {
            let jobs = jobs_on(view, &name).count();
            if host.life == xce_host::HostLife::Up || jobs > 0 {
                let text = format!(
                    "host {name} is {} and holds {jobs} jobs; only a host that is lost or away \
                     and holds none can be removed",
                    host.life.word()
                );
                return Err(Refusal::refused("host_in_use", text));
            }
            let text = format!("host {name} is forgotten");
            Ok((HostFact::Removed { host: name }, text))
        }
    }
}
