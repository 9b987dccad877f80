//! The end of a service.

use xce_model::{Cause, Exit};
use xce_replica::JobFact;

use super::draft::Draft;
use super::{Census, Replica, Standing};
use crate::facts::ServiceFact;

/// Stops what is left; ends the service when nothing is.
pub fn step(draft: &mut Draft<'_>, census: &Census<'_>) {
    for replica in &census.replicas {
        match replica.standing {
            Standing::Lost => lose(draft, replica),
            Standing::Stopping => {}
            Standing::Pending
            | Standing::Starting
            | Standing::Unreachable
            | Standing::Running
            | Standing::Unready
            | Standing::Ready
            | Standing::Available => draft.stop(replica.job, Cause::TermServiceDeleted),
        }
    }
    if census.replicas.is_empty() {
        let service = draft.record().id;
        draft.service(ServiceFact::Deleted { service });
    }
}

/// Ends a replica whose host is lost; the ended job is the tombstone that fences its return.
pub fn lose(draft: &mut Draft<'_>, replica: &Replica<'_>) {
    let job = replica.job;
    let host = job.host.as_deref().unwrap_or_default();
    let mut exit = Exit::of(Cause::HostLost);
    exit.detail = format!("host {host} is lost");
    let at = draft.situation().wall;
    draft.job(JobFact::Ended {
        job: job.id,
        run: job.run,
        exit,
        at,
        stderr: String::new(),
    });
}
