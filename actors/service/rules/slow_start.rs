//! Slow start: a version that never worked starts few replicas at first, then more and more.

use xce_model::{ClusterTime, Millis};

use super::draft::Draft;
use super::{Census, Standing};
use crate::facts::ServiceFact;

/// Time that the replicas of a step must run before the next, larger step. Source: design 6.4.
const STEP_RUNS: Millis = Millis::seconds(1);

/// What is known of the replicas that a step has dispatched.
enum Step {
    /// None has a host.
    Empty,
    /// One of them does not run yet.
    Starting,
    /// All run; the last one since this time.
    RunSince(ClusterTime),
}

/// Notes the first replica of a version that works, and raises limits whose step has run long enough.
pub fn observe(draft: &mut Draft<'_>, census: &Census<'_>) {
    let now = draft.situation().now;
    for (place, group) in census.groups.iter().enumerate() {
        let service = draft.record().id;
        let Some(version) = draft.record().version(group.version) else {
            continue;
        };
        let (number, want, proved) = (version.number, version.want, version.proved);
        let (limit, limit_since) = (version.dispatch_limit, version.limit_since);
        let waits = version.backoff.waiting;
        if group.has_worked {
            if !proved {
                draft.service(ServiceFact::VersionProved {
                    service,
                    version: number,
                });
            }
            continue;
        }
        if let (Some(time), false) = (group.works_at, proved) {
            draft.wake_at(time);
        }
        let Some(limit) = limit else {
            continue;
        };
        if waits {
            continue;
        }
        match step(census, place) {
            Step::Empty | Step::Starting => {}
            // What was not placed within the time of a step cannot be placed, and holds nothing.
            Step::RunSince(since) if since.max(limit_since).after(STEP_RUNS) <= now => {
                let next = limit.saturating_mul(2);
                draft.service(ServiceFact::DispatchLimited {
                    service,
                    version: number,
                    limit: (next < want).then_some(next),
                });
            }
            Step::RunSince(since) => {
                let end = since.max(limit_since).after(STEP_RUNS);
                draft.wake_at(end);
            }
        }
    }
}

/// Replicas that wait for a host, or whose host does not answer, do not hold a step.
fn step(census: &Census<'_>, place: usize) -> Step {
    let mut step = Step::Empty;
    for replica in census.of_group(place) {
        match replica.standing {
            Standing::Pending | Standing::Unreachable | Standing::Stopping | Standing::Lost => {}
            Standing::Starting
            | Standing::Running
            | Standing::Unready
            | Standing::Ready
            | Standing::Available => match (replica.job.running_since, &step) {
                (None, _) => return Step::Starting,
                (Some(since), Step::RunSince(other)) => step = Step::RunSince(since.max(*other)),
                (Some(since), Step::Empty | Step::Starting) => step = Step::RunSince(since),
            },
        }
    }
    step
}
