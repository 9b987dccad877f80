//! A host leaves, or is lost with its jobs.

use xce_deciding::host as deciding;
use xce_host::HostLife;
use xce_host::rules::is_mass_loss;
use xce_ledger::{GroupEvent, View};
use xce_model::Millis;
use xce_runtime::Crash;

use crate::host::{Host, State};

/// The worker stopped cleanly: the host is away, its jobs keep their state.
///
/// # Errors
/// The actor must end: the outcome of a write is unknown.
pub async fn leave(host: &Host, state: &mut State) -> Result<(), Crash> {
    let view = host.control.view();
    if let Some(decided) = deciding::left(&view, &host.name) {
        let name = host.name.clone();
        let on = (view.lsn(), GroupEvent::HostLeft { host: name });
        let times = host.control.times();
        host.commit_decided("leave", on, times, decided).await?;
    }
    // Ends of the jobs that it stops still come over this connection.
    state.heard_ms = host.control.monotonic_ms();
    host.judge_later(state);
    tracing::info!(host = %host.name, "worker left");
    Ok(())
}

/// Judges the silence of a worker. When it lasted for the whole grace the host is lost, and its jobs
/// are recovered in one group.
///
/// Where most hosts are silent at once the controller rather doubts its own network, and waits
/// another grace.
///
/// # Errors
/// The actor must end: the outcome of a write is unknown.
pub async fn judge(host: &Host, silent: Millis, state: &mut State) -> Result<(), Crash> {
    let view = host.control.view();
    let (patience, times) = (host.control.settings.patience, host.control.times());
    let lost = deciding::is_loss(&view, &host.name, silent, patience);
    if lost && doubts_network(host, &view, state) {
        return Ok(());
    }
    let Some(step) = deciding::silence(&view, &host.name, silent, patience, times) else {
        return Ok(());
    };
    let event = GroupEvent::HostSilent {
        host: host.name.clone(),
        silent,
        patience: Box::new(patience),
    };
    let cause = if lost { "host lost" } else { "suspected" };
    let committed = host
        .commit_decided(cause, (view.lsn(), event), times, step.decided)
        .await?;
    if committed && lost {
        tracing::warn!(host = %host.name, jobs = step.jobs, "host lost");
    }
    Ok(())
}

/// Whether this loss is put off by another grace, once.
fn doubts_network(host: &Host, view: &View, state: &mut State) -> bool {
    let (silent, answering) = silent_and_answering(view);
    let doubts = !state.guarded && (is_mass_loss(silent, answering) || answering == 0);
    if doubts {
        state.guarded = true;
        state.heard_ms = host.control.monotonic_ms();
        tracing::warn!(host = %host.name, silent, answering, "most hosts are silent, waiting another grace");
    }
    doubts
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
