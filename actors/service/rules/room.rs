//! A new version that could not even begin: it may only add replicas, and no host takes one more.

use std::sync::Arc;

use xce_model::Refusal;
use xce_model::spec::JobSpec;
use xce_replica::ServiceRef;

use super::fence::Fence;
use super::{Census, Change, Situation, Standing};
use crate::facts::{ServiceFact, VersionReason};

/// A replica that must find a host before anything else of a rollout can happen.
#[derive(Debug, Clone)]
pub struct RoomNeeded {
    /// What it runs.
    pub spec: Arc<JobSpec>,
    /// Which replica it would be.
    pub replica: ServiceRef,
}

/// What a command needs room for, before it is committed: where it makes a version, no available
/// replica may be missing for it, and nothing that is on its way out makes room.
///
/// A rollback needs nothing: it is the way out, also of a site that is full.
pub fn room_needed(situation: &Situation<'_>, changes: &[Change]) -> Option<RoomNeeded> {
    let makes = |change: &Change| match change {
        Change::Service(ServiceFact::Versioned { reason, .. }) => match reason {
            VersionReason::Update | VersionReason::Restart => true,
            VersionReason::Create
            | VersionReason::RollbackOf(_)
            | VersionReason::AutomaticRollbackOf(_) => false,
        },
        Change::Service(_) | Change::Job(_) => false,
    };
    if !changes.iter().any(makes) {
        return None;
    }
    let mut then = situation.service.clone();
    for change in changes {
        if let Change::Service(fact) = change {
            then.apply(fact, situation.now, then.changed, situation.wall);
        }
    }
    let fence = Fence::of(&then.settings.rollout, then.desired);
    let total = Census::take(situation.service, situation).total();
    let settled = total.available() >= fence.desired
        && total.live() <= fence.desired
        && total.of(Standing::Pending) == 0;
    if fence.unavailable > 0 || fence.desired == 0 || !settled {
        return None;
    }
    let current = then.current();
    Some(RoomNeeded {
        spec: Arc::clone(&current.spec),
        replica: ServiceRef {
            service: then.id,
            version: current.number,
            index: 0,
        },
    })
}

/// The refusal of a command that needs room where there is none, with the setting that would help.
pub fn cannot_move(why: &str) -> Refusal {
    let text = format!(
        "the rollout could not begin: `max_unavailable` comes to 0, so that one more replica must \
         start before one stops, and no host takes one more: {why}; set `max_unavailable` to at \
         least 1, or make room"
    );
    Refusal::refused("cannot_move", text)
}
