//! What a worker is ordered, derived from the committed state of a job.

use xce_host::HostRecord;
use xce_ledger::View;
use xce_model::{Cause, JobState};
use xce_replica::JobRecord;
use xce_replica::wire::{Order, ReplicaOf, RunId, RunSpec, Want};

/// All that is wanted of the job's current run, in order.
pub fn all(view: &View, job: &JobRecord, complete: bool) -> impl Iterator<Item = Order> + use<> {
    order(view, job, complete).into_iter().chain(permit(job))
}

/// Runs in quarantine are named, so that they are not stale, and left as they are.
pub fn left_alone(host: &HostRecord) -> impl Iterator<Item = Order> {
    host.quarantined().map(|one| Order {
        run: RunId {
            job: one.job,
            run: one.run,
        },
        want: Want::Leave,
    })
}

/// The permission to restart in place that its worker has not acted upon yet.
fn permit(job: &JobRecord) -> Option<Order> {
    let permit = job.open_permit()?;
    Some(Order {
        run: RunId {
            job: job.id,
            run: job.run,
        },
        want: Want::RestartGranted {
            start: permit.start,
            wish: permit.wish,
        },
    })
}

/// What is wanted of the job's current run; nothing where it holds no host. `complete` also names
/// runs that the worker has confirmed already.
pub fn order(view: &View, job: &JobRecord, complete: bool) -> Option<Order> {
    let run = RunId {
        job: job.id,
        run: job.run,
    };
    let want = match job.state {
        JobState::Start => Want::Start(Box::new(spec(view, job, run))),
        JobState::Run | JobState::Susp if complete => Want::Keep(Box::new(spec(view, job, run))),
        JobState::Stopping => Want::Stop {
            cause: job.stop.map_or(Cause::TermOwner, |stop| stop.cause),
            drained: job.stop.is_some_and(|stop| stop.drained),
        },
        JobState::Run
        | JobState::Susp
        | JobState::Pend
        | JobState::Held
        | JobState::Done
        | JobState::Exit => return None,
    };
    Some(Order { run, want })
}

fn spec(view: &View, job: &JobRecord, run: RunId) -> RunSpec {
    let replica = job.service.map(|part| ReplicaOf {
        service: view
            .service(part.service)
            .map_or_else(String::new, |service| service.name.clone()),
        version: part.version,
        index: part.index,
    });
    RunSpec {
        run,
        name: job.spec.name.clone(),
        template: job.spec.template.clone(),
        ports: job.ports.clone(),
        replica,
    }
}
