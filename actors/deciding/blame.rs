//! What a report about a run says of the host that it ran on.

use xce_host::rules::{
    Failed, Services, Tried, decide_launch_failed, decide_replica_failed, decide_trial,
};
use xce_host::{HostFact, HostRecord};
use xce_ledger::View;
use xce_model::{Cause, ClusterTime, JobState, ServiceId};
use xce_replica::JobRecord;
use xce_replica::wire::Happened;
use xce_service::rules::is_failure;

use crate::reading::jobs_on;

/// Decides what a report about a run says of its host, and applies it to the host's record, so that
/// the next report of the same batch sees it. The job is as it is after the report.
pub fn of_report(
    view: &View,
    host: &mut HostRecord,
    job: Option<&JobRecord>,
    what: &Happened,
    now: ClusterTime,
) -> Vec<HostFact> {
    let placed_at = job.and_then(|job| job.placed_at);
    let facts = match what {
        Happened::LaunchFailed { text } => decide_launch_failed(host, placed_at, text, now),
        Happened::Started { .. } if host.launch_failures > 0 => {
            vec![HostFact::LaunchSucceeded {
                host: host.inventory.name.clone(),
            }]
        }
        Happened::Ended { .. } => job.map_or_else(Vec::new, |job| ended(view, host, job, now)),
        Happened::Started { .. }
        | Happened::Ready
        | Happened::NotReady { .. }
        | Happened::Restarting { .. }
        | Happened::Suspended
        | Happened::Resumed
        | Happened::ProbeUnrunnable { .. }
        | Happened::RestartWanted { .. }
        | Happened::RestartUnwanted
        | Happened::StopHangs { .. } => Vec::new(),
    };
    let lsn = host.changed;
    for fact in &facts {
        host.apply(fact, now, lsn);
    }
    facts
}

/// A replica that fails before it has run for long may speak against its host.
fn ended(view: &View, host: &HostRecord, job: &JobRecord, now: ClusterTime) -> Vec<HostFact> {
    let (Some(replica), Some(exit)) = (job.service, job.exit.as_ref()) else {
        return Vec::new();
    };
    let Some(service) = view.service(replica.service) else {
        return Vec::new();
    };
    let stable_after = service.settings.replacement.stable_after;
    // What killed a worker or a shim says nothing of how replicas do there, and a command that cannot
    // be started fails everywhere.
    let unheard = matches!(
        exit.cause,
        Cause::RunLost | Cause::ShimLost | Cause::LaunchFailed
    );
    let failed = is_failure(exit.cause) && !unheard;
    if !job.state.is_terminal() || !failed || job.ready_longest >= stable_after {
        return Vec::new();
    }
    let others: Vec<&HostRecord> = view
        .hosts()
        .values()
        .map(AsRef::as_ref)
        .filter(|other: &&HostRecord| other.inventory.name != host.inventory.name)
        .collect();
    let name = |id: ServiceId| {
        view.service(id)
            .map_or_else(|| id.to_string(), |service| service.name.clone())
    };
    let is_there = |id: ServiceId| view.service(id).is_some();
    let services = Services {
        name: &name,
        is_there: &is_there,
    };
    let how = exit.to_string();
    let failed = Failed {
        service: replica.service,
        placed_at: job.placed_at,
        how: &how,
    };
    decide_replica_failed(host, &others, services, failed, now)
}

/// Decides whether a host that is tried does well enough to be opened.
pub fn trial(view: &View, host: &HostRecord, now: ClusterTime) -> Option<HostFact> {
    host.trial?;
    let jobs = jobs_on(view, &host.inventory.name).map(|job| Tried {
        placed_at: job.placed_at,
        running_since: job.running_since,
        well: job.state == JobState::Run && (job.service.is_none() || job.ready_since.is_some()),
    });
    decide_trial(host, jobs, now)
}
