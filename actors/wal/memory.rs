//! A WAL without a disk: applies each group at once. For tests and simulations.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::error::PersistError;
use crate::machine::{Machine, Position};
use crate::receipt::Receipt;
use crate::status::WalStatus;

struct Core<M> {
    machine: M,
    term: u64,
    last_lsn: u64,
    groups: u64,
    stopped: bool,
    refusals: VecDeque<PersistError>,
}

/// A WAL in memory; clones share it. Nothing is durable.
pub struct MemoryWal<M: Machine> {
    core: Arc<Mutex<Core<M>>>,
}

impl<M: Machine> Clone for MemoryWal<M> {
    fn clone(&self) -> Self {
        Self {
            core: Arc::clone(&self.core),
        }
    }
}

impl<M: Machine> MemoryWal<M> {
    /// A WAL that leads in term 1 and has committed nothing.
    pub fn new(machine: M) -> Self {
        let core = Core {
            machine,
            term: 1,
            last_lsn: 0,
            groups: 0,
            stopped: false,
            refusals: VecDeque::new(),
        };
        Self {
            core: Arc::new(Mutex::new(core)),
        }
    }

    /// Applies and publishes a group at once.
    ///
    /// # Errors
    /// Stopped, or the next error that a test has asked for.
    pub fn persist_now(&self, group: &[u8]) -> Result<Receipt<M::Outcome>, PersistError> {
        let mut core = self.core();
        if core.stopped {
            return Err(PersistError::Stopped);
        }
        if let Some(refusal) = core.refusals.pop_front() {
            return Err(refusal);
        }
        core.last_lsn += 1;
        core.groups += 1;
        let position = Position {
            term: core.term,
            lsn: core.last_lsn,
            sub: 0,
        };
        let outcome = core.machine.apply(position, group);
        core.machine.publish(position.lsn, position.term);
        Ok(Receipt::new(position, outcome))
    }

    /// Makes the next call of [`MemoryWal::persist_now`] answer this instead of committing.
    pub fn refuse_next(&self, refusal: PersistError) {
        self.core().refusals.push_back(refusal);
    }

    /// Looks at the machine.
    pub fn with_machine<Answer>(&self, look: impl FnOnce(&mut M) -> Answer) -> Answer {
        look(&mut self.core().machine)
    }

    /// LSN of the last group.
    pub fn last_lsn(&self) -> u64 {
        self.core().last_lsn
    }

    /// What the WAL says about itself.
    pub fn status(&self) -> WalStatus {
        let core = self.core();
        WalStatus {
            term: core.term,
            leader: Some(1),
            last_lsn: core.last_lsn,
            queue_groups: 0,
            disk_mode: None,
            syncs: 0,
            entries: core.groups,
            groups: core.groups,
            snapshot_lsn: 0,
            alarm: None,
            leader_heard_ms: None,
            stopped: core.stopped,
        }
    }

    /// Refuses everything from now on.
    pub fn stop(&self) {
        self.core().stopped = true;
    }

    fn core(&self) -> MutexGuard<'_, Core<M>> {
        self.core
            .lock()
            .expect("a machine that panicked is never used again")
    }
}
