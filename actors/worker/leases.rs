//! Leases of strict single copies on this host: how long their shims may let them live.
//!
//! Counted from the sending of a beat, once it is acknowledged: whoever answered it holds this host
//! for living until the same time after it *arrived*, which is later. Runs hear of each renewal, and
//! hand it to their shims; whoever waits for a lease starts with the first one.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use xce_model::Millis;
use xce_replica::wire::{RunId, RunSpec};
use xce_runtime::Address;

use crate::run::RunMessage;

/// Beats that may wait for their acknowledgement; older ones renew nothing.
/// Source: derived; at the shortest period of 100 ms they cover the shortest lease.
const BEATS_MAX: usize = 64;

/// When the beats of one connection were sent. Pure.
#[derive(Debug, Default)]
pub struct SentBeats(VecDeque<(u64, u64)>);

impl SentBeats {
    /// A beat with this number is about to be sent, at this time since boot.
    pub fn sent(&mut self, number: u64, at_ms: u64) {
        if self.0.len() == BEATS_MAX {
            self.0.pop_front();
        }
        self.0.push_back((number, at_ms));
    }

    /// A beat is acknowledged with this lease: until when it holds, if it is known.
    pub fn acknowledged(&mut self, number: u64, lease: Millis) -> Option<u64> {
        while let Some((sent, at_ms)) = self.0.front().copied()
            && sent <= number
        {
            self.0.pop_front();
            if sent == number {
                return Some(at_ms.saturating_add(lease.0));
            }
        }
        None
    }

    /// Another connection begins, whose numbers begin anew.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}

/// The lease of this host, and who needs it.
#[derive(Debug, Default)]
pub struct Leases {
    /// Its end, milliseconds since boot; 0 before the first.
    until_ms: AtomicU64,
    holders: Mutex<BTreeMap<RunId, Address<RunMessage>>>,
    waiting: Mutex<BTreeMap<RunId, RunSpec>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Leases {
    /// The end of the lease, milliseconds since boot; it may be over.
    pub fn until_ms(&self) -> u64 {
        self.until_ms.load(Ordering::Acquire)
    }

    /// Extends the lease, never shortens it, and tells the runs that hold it.
    pub fn renew(&self, until_ms: u64) {
        if self.until_ms.fetch_max(until_ms, Ordering::AcqRel) >= until_ms {
            return;
        }
        for address in locked(&self.holders).values() {
            // One that is down reads it when it recovers.
            let _ = address.cast(RunMessage::Lease);
        }
    }

    /// A run needs the lease from now on.
    pub fn enter(&self, run: RunId, address: Address<RunMessage>) {
        locked(&self.holders).insert(run, address);
    }

    /// A run has ended.
    pub fn leave(&self, run: RunId) {
        locked(&self.holders).remove(&run);
    }

    /// Number of runs that need the lease.
    pub fn count(&self) -> usize {
        locked(&self.holders).len()
    }

    /// Keeps a run that is to start until there is a lease.
    pub fn wait(&self, spec: RunSpec) {
        locked(&self.waiting).insert(spec.run, spec);
    }

    /// Lets a run go that was to start.
    pub fn give_up(&self, run: RunId) {
        locked(&self.waiting).remove(&run);
    }

    /// Everything that waits: to start it, or since it is ordered anew.
    pub fn take_waiting(&self) -> Vec<RunSpec> {
        std::mem::take(&mut *locked(&self.waiting))
            .into_values()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_counts_from_the_sending_of_the_beat_that_is_acknowledged() {
        let lease = Millis(15_000);
        let mut beats = SentBeats::default();
        for (number, at_ms) in [(1, 1_000), (2, 3_000), (3, 5_000)] {
            beats.sent(number, at_ms);
        }
        // The answer to the second says nothing of the third.
        assert_eq!(beats.acknowledged(2, lease), Some(18_000));
        // Late, twice, or never sent.
        assert_eq!(beats.acknowledged(1, lease), None);
        assert_eq!(beats.acknowledged(2, lease), None);
        assert_eq!(beats.acknowledged(9, lease), None);
        // An answer that passes over a beat has renewed more than that one would.
        assert_eq!(beats.acknowledged(3, lease), None);
    }

    #[test]
    fn another_connection_counts_anew_and_nothing_grows() {
        let mut beats = SentBeats::default();
        beats.sent(1, 10);
        beats.forget();
        assert_eq!(beats.acknowledged(1, Millis(5)), None);
        for number in 1..1_000 {
            beats.sent(number, number);
        }
        assert_eq!(beats.0.len(), BEATS_MAX);
        assert_eq!(beats.acknowledged(1, Millis(5)), None);
        assert_eq!(beats.acknowledged(999, Millis(5)), Some(1_004));
    }

    #[test]
    fn a_lease_is_never_shortened() {
        let leases = Leases::default();
        leases.renew(50);
        leases.renew(40);
        assert_eq!(leases.until_ms(), 50);
        leases.renew(60);
        assert_eq!(leases.until_ms(), 60);
    }
}
