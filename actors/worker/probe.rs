//! Probes: whether the job of a run takes work, has started, or is still alive.
//!
//! Each probe of a run is an actor, shown below the run's actor, that ends with it; it never has two
//! tries in flight, and tells the run's actor only what is news.

pub mod actor;
pub mod attempt;
mod exec;
mod grpc;
mod http;
pub mod verdict;

pub use xce_replica::ProbeRole as Role;

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
    /// It cannot be tried: said the first time, at each doubling of the count, and once with an
    /// empty text when it can again.
    Unrunnable {
        /// How often so far.
        count: u64,
        /// Why.
        text: String,
    },
}
