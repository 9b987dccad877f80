//! Questions to the ledger's view that several shells ask.

use std::collections::BTreeSet;
use std::sync::Arc;

use xce_ledger::{Precondition, View};
use xce_model::{JobId, ServiceId};
use xce_replica::{JobFact, JobRecord};

/// Jobs that hold a host, by id.
pub fn jobs_on<'a>(view: &'a View, host: &str) -> impl Iterator<Item = &'a Arc<JobRecord>> {
    view.usage(host)
        .into_iter()
        .flat_map(|usage| usage.jobs.iter())
        .filter_map(|id| view.job(*id))
}

/// Services with replicas that hold a host.
pub fn services_on(view: &View, host: &str) -> BTreeSet<ServiceId> {
    jobs_on(view, host)
        .filter_map(|job| job.service)
        .map(|part| part.service)
        .collect()
}

/// Elements of an array that have a job of their own.
pub fn elements_of(view: &View, number: u64) -> impl Iterator<Item = &Arc<JobRecord>> {
    let elements = JobId::element(number, 0)..=JobId::single(number);
    view.jobs()
        .range(elements)
        .map(|(_, job)| job)
        .filter(|job| job.id.is_element())
}

/// Under which condition a fact about a job is decided: that it is as it was read.
pub fn condition_of(view: &View, fact: &JobFact) -> Option<Precondition> {
    let job = match fact {
        JobFact::Submitted { .. } | JobFact::ReplicasSubmitted { .. } => return None,
        JobFact::Held { job }
        | JobFact::Released { job }
        | JobFact::Placed { job, .. }
        | JobFact::Started { job, .. }
        | JobFact::Ready { job, .. }
        | JobFact::NotReady { job, .. }
        | JobFact::Restarting { job, .. }
        | JobFact::StopRequested { job, .. }
        | JobFact::Ended { job, .. }
        | JobFact::Requeued { job, .. }
        | JobFact::Suspended { job, .. }
        | JobFact::ProbeUnrunnable { job, .. }
        | JobFact::RestartWanted { job, .. }
        | JobFact::RestartUnwanted { job, .. }
        | JobFact::RestartGranted { job, .. }
        | JobFact::StopHangs { job, .. }
        | JobFact::Resumed { job, .. }
        | JobFact::Drained { job, .. }
        | JobFact::MoveBegan { job, .. }
        | JobFact::MoveEnded { job, .. }
        | JobFact::CleanedUp { job } => *job,
    };
    let lsn = view.job(job)?.changed;
    Some(Precondition::JobUnchanged { job, lsn })
}
