//! Committed state of a host.

use xce_model::{ClusterTime, Lsn};

use crate::facts::{HostFact, Inventory};

/// Where a host is in its life.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum HostLife {
    /// Answers.
    Up,
    /// Missed beats; its jobs keep their state.
    Suspect,
    /// Silent for the whole grace; its jobs were recovered.
    Lost,
    /// Its worker was stopped cleanly.
    Away,
}

impl HostLife {
    /// The word that users see.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Suspect => "suspect",
            Self::Lost => "lost",
            Self::Away => "away",
        }
    }
}

/// Why a host takes no new jobs.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct Closure {
    /// A sentence.
    pub reason: String,
    /// Who closed it; empty where XCE did.
    pub by: String,
}

/// A host as committed.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct HostRecord {
    /// What it offers.
    pub inventory: Inventory,
    /// Where it is in its life.
    pub life: HostLife,
    /// Since when.
    pub since: ClusterTime,
    /// Why it takes no new jobs, where it does not.
    pub closed: Option<Closure>,
    /// Launches that failed in a row by the host's fault.
    pub launch_failures: u32,
    /// Text of the last such failure; empty before the first.
    pub launch_error: String,
    /// Epoch of the worker's spool that `sequence` belongs to.
    pub epoch: u64,
    /// Last sequence number of the worker's facts that is committed.
    pub sequence: u64,
    /// Position of the last change other than of the mark.
    pub changed: Lsn,
}

/// Launches that fail in a row by a host's fault before it is closed. Source: design section 7.4.
pub const LAUNCH_FAIL_LIMIT: u32 = 3;

impl HostRecord {
    /// A host that just joined.
    pub fn joined(inventory: Inventory, now: ClusterTime, lsn: Lsn) -> Self {
        Self {
            inventory,
            life: HostLife::Up,
            since: now,
            closed: None,
            launch_failures: 0,
            launch_error: String::new(),
            epoch: 0,
            sequence: 0,
            changed: lsn,
        }
    }

    /// Applies a fact of this host; the ledger handles joining of unknown hosts and removal.
    pub fn apply(&mut self, fact: &HostFact, now: ClusterTime, lsn: Lsn) {
        match fact {
            HostFact::Joined { inventory } => {
                if inventory.incarnation != self.inventory.incarnation {
                    self.epoch = 0;
                    self.sequence = 0;
                }
                self.inventory = inventory.clone();
                self.enter(HostLife::Up, now);
            }
            HostFact::Suspected { .. } => self.enter(HostLife::Suspect, now),
            HostFact::Recovered { .. } => self.enter(HostLife::Up, now),
            HostFact::Lost { .. } => self.enter(HostLife::Lost, now),
            HostFact::Left { .. } => self.enter(HostLife::Away, now),
            HostFact::Closed { reason, by, .. } => {
                self.closed = Some(Closure {
                    reason: reason.clone(),
                    by: by.clone(),
                });
            }
            HostFact::Opened { .. } => {
                self.closed = None;
                self.launch_failures = 0;
            }
            HostFact::LaunchFailed { text, .. } => {
                self.launch_failures = self.launch_failures.saturating_add(1);
                self.launch_error = text.clone();
            }
            HostFact::LaunchSucceeded { .. } => self.launch_failures = 0,
            HostFact::Marked {
                epoch, sequence, ..
            } => {
                self.epoch = *epoch;
                self.sequence = *sequence;
                return;
            }
            HostFact::Removed { .. } => {}
        }
        self.changed = lsn;
    }

    fn enter(&mut self, life: HostLife, now: ClusterTime) {
        if self.life != life {
            self.life = life;
            self.since = now;
        }
    }

    /// Whether new jobs may be placed on it.
    pub fn takes_jobs(&self) -> bool {
        self.life == HostLife::Up && self.closed.is_none()
    }

    /// Whether it answers.
    pub fn is_reachable(&self) -> bool {
        self.life == HostLife::Up
    }
}
