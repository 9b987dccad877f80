//! A host leaves, or is lost with its jobs.

use xce_host::rules::is_mass_loss;
use xce_host::{HostFact, HostLife};
use xce_ledger::View;
use xce_runtime::Crash;

use crate::control::CommitError;
use crate::host::{Host, State};
use crate::joining::lose_jobs;

/// The worker stopped cleanly: the host is away, its jobs keep their state.
///
/// # Errors
/// The actor must end: the outcome of a write is unknown.
pub async fn leave(host: &Host, state: &mut State) -> Result<(), Crash> {
    let name = host.name.clone();
    host.commit_host("leave", vec![HostFact::Left { host: name }])
        .await?;
    // Ends of the jobs that it stops still come over this connection.
    state.heard_ms = host.control.monotonic_ms();
    host.judge_later(state);
    tracing::info!(host = %host.name, "worker left");
    Ok(())
}

/// The host was silent for the whole grace: it is lost, and its jobs are recovered in one group.
///
/// Where most hosts are silent at once the controller rather doubts its own network, and waits
/// another grace.
///
/// # Errors
/// The actor must end: the outcome of a write is unknown.
pub async fn lose(host: &Host, fact: HostFact, state: &mut State) -> Result<(), Crash> {
    let view = host.control.view();
    let (silent, answering) = silent_and_answering(&view);
    if !state.guarded && (is_mass_loss(silent, answering) || answering == 0) {
        state.guarded = true;
        state.heard_ms = host.control.monotonic_ms();
        tracing::warn!(host = %host.name, silent, answering, "most hosts are silent, waiting another grace");
        return Ok(());
    }
    let Some(record) = view.host(&host.name) else {
        return Ok(());
    };
    let mut conditions = vec![Host::unchanged(record)];
    let lost = lose_jobs(&host.name, &view, host.control.times());
    let jobs = lost.facts.len();
    let mut facts = lost.facts;
    conditions.extend(lost.conditions);
    if !lost.more {
        // With more jobs than one group takes the rest is judged at once, and the loss comes last.
        facts.push(fact.into());
    }
    match host
        .control
        .commit_facts("host lost", conditions, facts)
        .await
    {
        Ok(_) => {
            tracing::warn!(host = %host.name, jobs, "host lost");
            Ok(())
        }
        // Something changed meanwhile: judged again at once.
        Err(CommitError::Stale(_)) => Ok(()),
        Err(CommitError::Refused(refusal)) => {
            tracing::warn!(host = %host.name, code = %refusal.code, "loss not written");
            Ok(())
        }
        Err(CommitError::Unknown) => Err(CommitError::Unknown.into()),
    }
}

fn silent_and_answering(view: &View) -> (u32, u32) {
    view.hosts()
        .values()
        .fold((0, 0), |(silent, answering), host| match host.life {
            HostLife::Suspect => (silent + 1, answering),
            HostLife::Up => (silent, answering + 1),
            HostLife::Lost | HostLife::Away => (silent, answering),
        })
}
