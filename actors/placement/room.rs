//! Whether a job that does not exist yet would find a host now.

use std::sync::Arc;

use xce_ledger::View;
use xce_model::spec::JobSpec;
use xce_model::{ClusterTime, JobId};
use xce_replica::ServiceRef;

use crate::candidate::Candidate;
use crate::pool::{Nowhere, Pool};
use crate::reason::{self, Reason};

/// Why one more replica would find no host, for as long as nothing but the services themselves gives
/// way: the hosts that suit it are full of replicas, or its ports are held there.
///
/// None where it fits now, where ends of batch jobs will make room, and where no host suits it at
/// all, so that nothing that a service does helps.
pub fn no_room(
    view: &View,
    now: ClusterTime,
    spec: &Arc<JobSpec>,
    replica: ServiceRef,
) -> Option<Reason> {
    let candidate = Candidate {
        id: JobId::single(u64::MAX),
        run: 1,
        spec,
        service: Some(replica),
        avoid: &[],
        not_before: ClusterTime(0),
    };
    let mut pool = Pool::open(view, now);
    if pool.slots.is_empty() {
        return None;
    }
    match pool.choose(&candidate) {
        Ok(_) | Err(Nowhere::Blocks) => return None,
        Err(Nowhere::Passes) => {}
    }
    let misses = pool.misses(&candidate);
    let reason = reason::of_misses(&pool, &spec.template, &misses);
    ["needs_cpus", "needs_memory", "port", "port_range"]
        .contains(&reason.code)
        .then_some(reason)
}
