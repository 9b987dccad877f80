//! Words that every part of XCE shares: ids, units, reasons, specifications, decisions.
//!
//! Nothing here waits, reads a clock or knows an actor. It changes rarely, since every crate above
//! is built again when it does.

mod causes;
pub mod codes;
pub mod decision;
pub mod ids;
pub mod limits;
pub mod origins;
pub mod spec;
pub mod units;

pub use causes::chain;
pub use codes::{Cause, Exit, JobState, Refusal, RefusalKind};
pub use ids::{
    ClusterId, Incarnation, JobId, OperationId, Run, ServiceId, SessionId, Start, Version,
};
pub use origins::{Origin, Source};
pub use units::{Bytes, ClusterTime, MilliCpu, Millis, WallTime};

/// Position of a committed entry in the log: increasing, not dense, never reused.
pub type Lsn = u64;

#[cfg(test)]
mod tests;
