//! What is remembered of the controllers besides the log's own membership: the numbers that were
//! given, the beginnings anew, and the feature level of the cluster.

use xce_model::{Lsn, WallTime};

/// A committed change of the controllers.
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
pub enum MemberFact {
    /// A number was given to a controller that is invited; it is never given again.
    Numbered {
        /// The number.
        node: u64,
    },
    /// The cluster began anew from a state of its past: whatever was committed after that state is
    /// gone, and no number that may have been given meanwhile is given again.
    BeganAnew {
        /// How.
        epoch: Epoch,
    },
    /// From here on facts may be written that programs below this level cannot read.
    LevelRaised {
        /// The level.
        level: u16,
    },
}

/// Why a cluster began anew.
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
#[serde(rename_all = "snake_case")]
pub enum Anew {
    /// From a backup.
    Restored,
    /// From what one controller had, after the loss of a quorum.
    Forced,
}

impl Anew {
    /// The word that users see.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Restored => "restored",
            Self::Forced => "forced",
        }
    }
}

/// One beginning of a cluster anew. Its first epoch is that in which it was founded.
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
pub struct Epoch {
    /// Its number, from 2.
    pub number: u32,
    /// How it came about.
    pub anew: Anew,
    /// The only controller that it began with.
    pub founder: u64,
    /// Last position of the state that it began with.
    pub from: Lsn,
    /// First position of its own; those between the two are lost.
    pub at: Lsn,
    /// Wall clock then, for display.
    pub wall: WallTime,
    /// Who began it.
    pub by: String,
    /// Highest number of a job or an array that the state knew, and the one after which numbers are
    /// given again.
    pub jobs: (u64, u64),
    /// The same of services.
    pub services: (u64, u64),
    /// The same of sessions.
    pub sessions: (u64, u64),
    /// The same of controllers.
    pub controllers: (u64, u64),
}

impl Epoch {
    /// Whether a job's number may have been given in the time that is lost.
    pub fn may_have_lost_job(&self, number: u64) -> bool {
        number > self.jobs.0 && number <= self.jobs.1
    }

    /// Whether a position belongs to the time that is lost.
    pub fn has_lost(&self, lsn: Lsn) -> bool {
        lsn > self.from && lsn < self.at
    }

    /// Whether a controller belongs to the time before, and not to this epoch.
    pub fn has_ended_controller(&self, node: u64) -> bool {
        node <= self.controllers.1 && node != self.founder
    }
}

/// Number of the controller that founds a cluster.
pub const FOUNDER: u64 = 1;
