//! What operators want of a host.

use xce_deciding::host as deciding;
use xce_host::rules::Command;
use xce_ledger::{Group, GroupEvent};
use xce_model::{Cause, Refusal, RefusalKind};
use xce_replica::wire::{Order, RunId, Want};
use xce_runtime::{Crash, Reply};
use xce_session::wire::Accepted;

use super::{Host, State};
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
    pub(super) async fn command(&self, asked: Asked, state: &State) -> Result<(), Crash> {
        let Asked {
            command,
            principal,
            operation,
            reply,
        } = asked;
        let (mut tries, mut recovered) = (0, 0);
        while tries < DECISIONS_MAX {
            let (view, times) = (self.control.view(), self.control.times());
            let decided = deciding::command(&view, &self.name, &command, &principal, times);
            let (step, text) = match decided {
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
            // The operation is done with the last group of it.
            let operation = operation.filter(|_| !step.more);
            let group = Group::new(times.0, times.1, "host command")
                .on_behalf(&principal, operation)
                .decided_on(view.lsn(), event);
            match self.control.commit(&step.decided.into_group(group)).await {
                Ok(_) if step.more => recovered += step.jobs,
                Ok(committed) => {
                    self.carry_out(&command, state);
                    let text = match recovered {
                        0 => text,
                        before => format!("{text}, after {before} others"),
                    };
                    let ids = vec![self.name.clone()];
                    reply.send(Ok(Accepted {
                        lsn: committed.answer.lsn,
                        ids,
                        text,
                    }));
                    return Ok(());
                }
                Err(CommitError::Stale(_)) => tries += 1,
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

    /// What the worker is told of it at once; one that is away is told when it joins.
    fn carry_out(&self, command: &Command, state: &State) {
        if let Command::StopQuarantined(job, run) = command {
            let run = RunId {
                job: *job,
                run: *run,
            };
            let want = Want::Stop {
                cause: Cause::TermAdmin,
                drained: false,
            };
            let lsn = self.control.view().lsn();
            self.send(state, false, vec![Order { run, want }], lsn);
        }
    }
}
