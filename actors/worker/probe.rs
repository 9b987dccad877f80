//! Probes: whether the job of a run takes work, has started, or is still alive.
//!
//! Each probe of a run is one task that belongs to the run's actor and ends with it; it never has
//! two tries in flight, and tells the actor only when its verdict changes.

pub mod attempt;
mod exec;
mod grpc;
mod http;
pub mod task;
pub mod verdict;

use serde::Serialize;

/// What a probe is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Role {
    /// Must succeed once before the others start.
    Startup,
    /// Decides whether the run takes work.
    Readiness,
    /// Decides whether the run is restarted.
    Liveness,
}

/// What one try gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Good.
    Success,
    /// Bad, and why.
    Failure(String),
    /// It could not be tried at all, and why: neither good nor bad.
    Unrunnable(String),
}

/// What a probe says after its thresholds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// As many successes in a row as wanted.
    Good,
    /// As many failures in a row as allowed; the text of the last.
    Bad(String),
    /// It cannot be tried; said once until it can.
    Unrunnable(String),
}
