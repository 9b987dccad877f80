//! Cluster time: a time that never decreases, and how it goes on after a full restart.
//!
//! Never reads a clock: what the machine's clocks say is an argument.

use xce_model::{ClusterTime, WallTime};

/// A committed change of cluster time itself; every group carries its time beside this.
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
pub enum ClockFact {
    /// A primary tied the group's cluster time to the clocks of its machine.
    Anchored {
        /// Boot id of the machine.
        boot_id: String,
        /// Time since that boot, in milliseconds.
        boot_ms: u64,
        /// Its wall clock.
        wall: WallTime,
    },
}

/// A cluster time tied to the clocks of one machine.
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
pub struct Anchor {
    /// The cluster time.
    pub at: ClusterTime,
    /// Boot id of the machine.
    pub boot_id: String,
    /// Time since that boot then, in milliseconds.
    pub boot_ms: u64,
    /// Its wall clock then.
    pub wall: WallTime,
}

/// What the ledger knows of time.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    Default,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct ClusterClock {
    /// Cluster time of the last group.
    pub last: ClusterTime,
    /// Wall clock of the primary that proposed it.
    pub last_wall: WallTime,
    /// The last anchor; absent before the first.
    pub anchor: Option<Anchor>,
}

/// What the clocks of this machine say now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Here {
    /// Boot id of the machine.
    pub boot_id: String,
    /// Time since that boot, in milliseconds.
    pub boot_ms: u64,
    /// The wall clock.
    pub wall: WallTime,
}

impl ClusterClock {
    /// Advances to a group's time; a group that is behind leaves cluster time where it is.
    pub(crate) fn advance(&mut self, at: ClusterTime, wall: WallTime) -> ClusterTime {
        if at >= self.last {
            self.last = at;
            self.last_wall = wall;
        }
        self.last
    }

    pub(crate) fn apply(&mut self, fact: &ClockFact) {
        match fact {
            ClockFact::Anchored {
                boot_id,
                boot_ms,
                wall,
            } => {
                self.anchor = Some(Anchor {
                    at: self.last,
                    boot_id: boot_id.clone(),
                    boot_ms: *boot_ms,
                    wall: *wall,
                });
            }
        }
    }

    /// The cluster time with which a primary that starts here goes on.
    ///
    /// In the same boot as the anchor's it is the anchor's time and what passed of that boot; in
    /// another one the last group's time and what the wall clocks differ by. It is never below the
    /// last group's time.
    pub fn resume(&self, here: &Here) -> ClusterTime {
        let by_boot = self
            .anchor
            .as_ref()
            .filter(|anchor| anchor.boot_id == here.boot_id && anchor.boot_ms <= here.boot_ms);
        let now = match by_boot {
            Some(anchor) => anchor.at.0.saturating_add(here.boot_ms - anchor.boot_ms),
            None => {
                let passed = here.wall.0.saturating_sub(self.last_wall.0).max(0);
                self.last.0.saturating_add(passed.unsigned_abs())
            }
        };
        // Before the first group there is no wall clock to compare with: time begins at zero.
        if self.last_wall == WallTime::default() && by_boot.is_none() {
            return self.last;
        }
        ClusterTime(now.max(self.last.0))
    }
}
