//! Plans of the scheduler; each placement is a group of its own.

use xce_ledger::{Fact, Group, View};
use xce_model::ClusterTime;
use xce_placement::{Placement, Queue};
use xce_profile::{PolicyFile, PolicyKind};

use crate::Decided;

/// Most placements of one plan. Source: derived; as many groups as one log entry takes.
pub const PLACEMENTS_MAX: usize = 512;

/// Queues that have a priority; all others have priority 0.
pub fn queues(view: &View) -> Vec<Queue> {
    let queues = view.policies().values();
    let defined = queues.filter(|policy| policy.kind == PolicyKind::Queue);
    defined
        .filter_map(|policy| {
            let priority = PolicyFile::parse(&policy.document).ok()?.priority?;
            Some(Queue {
                name: policy.name.clone(),
                priority,
            })
        })
        .collect()
}

/// Plans what is placed now.
pub fn plan(view: &View, now: ClusterTime) -> Vec<Placement> {
    xce_placement::plan(view, &queues(view), now, PLACEMENTS_MAX)
}

/// Plans what is placed when a group that frees room has applied, from the state as it will be;
/// nothing where the group would be refused.
pub fn plan_ahead(view: &View, group: &Group, now: ClusterTime) -> Vec<Placement> {
    let Some(then) = view.with_group(group) else {
        return Vec::new();
    };
    let mut next = plan(&then, now);
    // What an end means for a service is its service's to decide first: backoff, slow start.
    next.retain(|placement| {
        then.job(placement.job)
            .is_none_or(|job| job.service.is_none())
    });
    next
}

/// What one placement commits.
pub fn placement(placement: &Placement) -> Decided {
    Decided {
        conditions: vec![placement.precondition()],
        facts: vec![Fact::from(placement.fact())],
    }
}
