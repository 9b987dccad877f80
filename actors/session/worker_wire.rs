//! What a worker and the controller send each other on their control stream.

use xce_host::wire::{Beat, BeatAck, Join, Leaving};
use xce_model::Refusal;
use xce_replica::wire::{Orders, Output, ReadOutput, Reports, ReportsCommitted};

/// From a worker to the controller.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub enum FromWorker {
    /// First message of a connection.
    Join(Box<Join>),
    /// Sign of life.
    Beat(Beat),
    /// Facts from the spool.
    Reports(Reports),
    /// Answer to [`ToWorker::ReadOutput`], with the same request id.
    Output(Output),
    /// Clean stop.
    Leaving(Leaving),
}

/// From the controller to a worker.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub enum ToWorker {
    /// The join is committed; orders follow, the first ones complete. Holds the committed mark of
    /// the worker's facts, so that the worker sends what lies after it.
    Joined(ReportsCommitted),
    /// Answer to a beat.
    BeatAck(BeatAck),
    /// What is wanted of runs.
    Orders(Orders),
    /// Facts that are committed.
    Committed(ReportsCommitted),
    /// Asks for output; the answer carries the same request id.
    ReadOutput(ReadOutput),
    /// The join is refused; the connection ends.
    Refused(Refusal),
}
