//! What operators want of a host.

use xce_deciding::host as deciding;
use xce_host::rules::Command;
use xce_ledger::GroupEvent;
use xce_model::{Refusal, RefusalKind};
use xce_runtime::{Crash, Reply};
use xce_session::wire::Accepted;

use super::Host;
use crate::control::{CommitError, outcome_unknown};
use crate::job::DECISIONS_MAX;

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
            let decided = deciding::command(&view, &self.name, &command, &principal);
            let (decided, text) = match decided {
                Ok(decided) => decided,
                Err(refusal) => {
                    reply.send(Err(refusal));
                    return Ok(());
                }
            };
            let event = GroupEvent::HostCommand {
                host: self.name.clone(),
                command: Box::new(command.clone()),
            };
            let group = self
                .control
                .group("host command")
                .on_behalf(&principal, operation)
                .decided_on(view.lsn(), event);
            match self.control.commit(&decided.into_group(group)).await {
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
