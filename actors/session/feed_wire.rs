//! A feed of rows, which a daemon reads to hold the state itself, and the plans of a scheduler.
//!
//! ```text
//!   reader: Open { after }          portions follow, a few ahead of what was taken
//!   reader: Taken { number }        it holds the portion, and has looked at it
//!   reader: Plan                    a scheduler's; each placement is committed or refused
//! ```

use xce_model::{ClusterTime, JobId, Lsn, Run};

/// Placements of one plan. Source: as many as the rules of planning place at once.
pub const PLACEMENTS_MAX: usize = 512;

/// What a reader says.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub enum FromReader {
    /// Begins the feed, or begins it again.
    Open {
        /// The reader holds the state of this position; 0 for nothing.
        after: Lsn,
    },
    /// A portion or a tick was taken in and looked at.
    Taken {
        /// Its number.
        number: u64,
    },
    /// A plan.
    Plan(Plan),
}

/// What a scheduler wants placed, made from one whole state.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Plan {
    /// Counts the plans of a connection, from 1.
    pub number: u64,
    /// Position of the state.
    pub made_at: Lsn,
    /// Cluster time that it was made for.
    pub time: ClusterTime,
    /// All placements of the plan, in its order; at most [`PLACEMENTS_MAX`].
    pub placements: Vec<PlannedRun>,
}

/// One job on one host.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct PlannedRun {
    /// The job, or the pending element of an array.
    pub job: JobId,
    /// Number of the run that begins.
    pub run: Run,
    /// The host.
    pub host: String,
    /// Ports by name.
    pub ports: Vec<(String, u16)>,
}

/// What a reader is told.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub enum ToReader {
    /// Changes.
    Portion(FeedPortion),
    /// A sign of life, to be answered.
    Tick {
        /// Number, in one sequence with the portions.
        number: u64,
        /// Nothing that the reader sees and was not told has changed up to here.
        lsn: Lsn,
        /// Cluster time now.
        time: ClusterTime,
    },
    /// What became of a plan.
    Settled(PlanSettled),
    /// Another scheduler plans; this one waits until that one does not respond any more.
    Waits {
        /// Who plans.
        behind: String,
    },
}

/// A portion of a feed.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct FeedPortion {
    /// Counts portions and ticks of a connection, from 1.
    pub number: u64,
    /// Whether it belongs to a full state.
    pub full: bool,
    /// Whether a full state begins with it.
    pub first: bool,
    /// Whether the state is not whole until more has come.
    pub more: bool,
    /// Position from which the reader can go on.
    pub lsn: Lsn,
    /// Cluster time now.
    pub time: ClusterTime,
    /// Rows, as the ledger writes them.
    pub rows: Vec<u8>,
}

/// What became of a plan.
#[derive(
    Debug, Clone, PartialEq, Eq, Default, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize,
)]
pub struct PlanSettled {
    /// Number of the plan.
    pub number: u64,
    /// A position that contains all that is committed of it.
    pub lsn: Lsn,
    /// Placements that are committed.
    pub placed: u32,
    /// Placements that were refused.
    pub refused: u32,
    /// Why the first one was; empty when none was.
    pub reason: String,
}
