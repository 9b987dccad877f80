//! Answers to what clients ask.
//!
//! A read answers from the committed state at once. A change goes to the actor that owns what it
//! changes, under the caller's operation id.

mod actors;
mod alarms;
mod cluster;
mod hosts;
mod jobs;
pub(crate) mod looking;
pub(crate) mod members;
mod planning;
mod profiles;
mod services;

pub(crate) use services::find_service;

use std::sync::Arc;
use std::time::Duration;

use xce_ledger::Operation;
use xce_link::Principal;
use xce_model::{Lsn, Refusal, RefusalKind};
use xce_session::member_wire::AskMember;
use xce_session::wire::{Accepted, Ask, Reply, Request};

use crate::control::{CommitError, Control, operation, outcome_unknown};
use crate::refusals;

/// Longest wait of a read for the position that it asks for. Source: as for commands.
const POSITION_WITHIN: Duration = crate::reach::COMMAND_WITHIN;

/// Who asks, and under which operation.
struct Caller<'a> {
    control: &'a Arc<Control>,
    principal: &'a Principal,
    operation: Option<Operation>,
}

impl Caller<'_> {
    /// The answer to an operation that was carried out before, also where what it changed is gone.
    fn remembered(&self) -> Option<Reply> {
        let operation = self.operation?;
        let answer = self.control.view().answer(self.name(), operation.id)?;
        Some(Reply::Accepted(Accepted {
            lsn: answer.lsn,
            ids: Vec::new(),
            text: "was carried out before".to_owned(),
        }))
    }

    fn name(&self) -> &str {
        &self.principal.name
    }
}

/// Answers one request.
pub async fn answer(control: &Arc<Control>, principal: &Principal, request: Request) -> Reply {
    if let Err(refusal) = reach(control, request.at_least).await {
        return Reply::Refused(refusal);
    }
    // What was wanted of a change is remembered where it is refused.
    let change = request
        .operation
        .map(|operation| (refusals::event(&request.ask), operation));
    let operation = operation(request.operation, request.made_at);
    let caller = Caller {
        control,
        principal,
        operation,
    };
    if let Err(refusal) = may_ask(principal, &request.ask) {
        return Reply::Refused(refusal);
    }
    let answered = match request.ask {
        Ask::Service(ask) => services::answer(&caller, ask).await,
        Ask::Job(ask) => jobs::answer(&caller, ask).await,
        Ask::Host(ask) => hosts::answer(&caller, ask).await,
        Ask::Actor(ask) => actors::answer(&caller, ask).await,
        Ask::Cluster(ask) => cluster::answer(&caller, ask).await,
        Ask::Member(ask) => members::answer(&caller, ask).await,
        Ask::Plan(ask) => planning::answer(&caller, ask).await,
        Ask::Policy(ask) => profiles::answer(&caller, ask).await,
    };
    let read = request.operation.is_none();
    if !control.holds_lease() {
        // Another controller may have committed more by now: what follows from the state here, also
        // that something is refused or nothing is to do, is nobody's to say. What was carried out
        // is remembered.
        let refusal = if read {
            not_primary()
        } else {
            outcome_unknown()
        };
        return Reply::Refused(refusal);
    }
    if let (Err(refusal), Some(change)) = (&answered, change) {
        refusals::keep(control, &principal.name, change, refusal);
    }
    answered.unwrap_or_else(Reply::Refused)
}

/// An invitation is good for joining, and for nothing else.
fn may_ask(principal: &Principal, ask: &Ask) -> Result<(), Refusal> {
    let joins = matches!(ask, Ask::Member(AskMember::Join { .. }));
    if joins || !xce_link::invitation::is_reserved(&principal.name) {
        return Ok(());
    }
    let text = "an invitation is good for joining only";
    Err(Refusal::new(
        RefusalKind::NotPermitted,
        "not_permitted",
        text,
    ))
}

/// What only the primary can answer.
fn needs_primary() -> Refusal {
    let text = "--stale reads services, jobs and hosts, and `cluster status`; everything else needs the \
                primary";
    Refusal::new(RefusalKind::Usage, "needs_primary", text)
}

/// What is answered while another controller may be the primary.
fn not_primary() -> Refusal {
    let text = "this controller has not heard of the others for a while; another one may lead";
    Refusal::new(RefusalKind::Unavailable, "not_primary", text)
}

/// Waits until the committed state is at least as new as a position.
pub(crate) async fn reach(control: &Control, position: Lsn) -> Result<(), Refusal> {
    let mut published = control.published.clone();
    let reached = published.wait_for(|lsn| *lsn >= position);
    match tokio::time::timeout(POSITION_WITHIN, reached).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(_)) | Err(_) => {
            let here = control.view().lsn();
            let text = format!("this controller is at position {here}, not yet at {position}");
            Err(Refusal::new(RefusalKind::Unavailable, "behind", text))
        }
    }
}

/// What a client is told of a change that was not committed.
fn refusal_of(error: CommitError) -> Refusal {
    match error {
        CommitError::Stale(text) => Refusal::refused("conflict", text),
        CommitError::Refused(refusal) => refusal,
        CommitError::Unknown => outcome_unknown(),
    }
}
