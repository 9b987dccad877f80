//! What a worker and the controller tell each other about the machine as a whole.

use xce_model::{Lsn, Millis};

use crate::facts::{Inventory, Remnant};

/// First message of a worker on a new connection, after the handshake.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Join {
    /// What it offers.
    pub inventory: Inventory,
    /// Epoch of its spool.
    pub epoch: u64,
    /// Sequence number of the last fact that it knows to be committed.
    pub committed: u64,
    /// Every run that it has and that has not ended.
    pub runs: Vec<Remnant>,
}

/// A sign of life, at a fixed period, from the worker's host agent itself.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Beat {
    /// Number of the beat on this connection, from 1.
    pub number: u64,
    /// Whether the disk of the worker's state directory is full, so that no run can be recorded.
    pub disk_full: bool,
}

/// Answer to a beat, only from a primary that holds its lease.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct BeatAck {
    /// The beat that it answers.
    pub number: u64,
    /// Term of the primary.
    pub term: u64,
    /// Last committed position.
    pub lsn: Lsn,
    /// How long from the sending of that beat strict single copies may run; 0 where they may not.
    pub lease: Millis,
}

/// The worker stops cleanly and will be away.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Leaving {
    /// Whether its jobs go on without it.
    pub keeps_jobs: bool,
}
