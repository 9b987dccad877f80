//! What ended long ago is taken out of the ledger, in bounded batches.

use xce_ledger::{Fact, View};
use xce_model::{ClusterTime, Millis};
use xce_replica::JobFact;

use crate::Decided;

/// Jobs of one batch. Source: derived; as many facts as one log entry of groups holds.
const BATCH_MAX: usize = 500;

/// Decides which jobs are cleaned up: those that ended at least `keep` ago, the oldest first, as
/// many as one group takes.
pub fn clean_up(view: &View, keep: Millis, now: ClusterTime) -> Decided {
    if now.0 < keep.0 {
        return Decided::default();
    }
    let due = view
        .ended_until(ClusterTime(now.0 - keep.0))
        .take(BATCH_MAX);
    let facts = due
        .map(|job| Fact::from(JobFact::CleanedUp { job }))
        .collect();
    Decided {
        conditions: Vec::new(),
        facts,
    }
}
