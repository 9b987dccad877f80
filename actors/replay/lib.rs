//! Replay: the decisions of a log are made again, and must come out the same.
//!
//! ```text
//!   journal ─► group: event, position it was decided from, times, conditions, facts
//!                │                       │
//!                │      view at that position (a clone of each of the last entries' state)
//!                │                       ▼
//!                │              decide again ─► conditions, facts ─► equal to the recorded ones?
//!                ▼
//!              ledger: apply ─► the state after the entry
//! ```
//!
//! Groups that carry no event are inputs: what a worker reported, what a client submitted, the
//! clock. They are taken as they are. A group that was refused in log order applies nothing, and is
//! compared all the same: it was decided from what its maker read.
//!
//! Pure but for reading the file; memory is bounded by the state and by the views that are kept.

mod again;
mod difference;
mod file;
mod replay;

pub use difference::Difference;
pub use file::{ReplayError, replay_file};
pub use replay::{Replay, Report, VIEWS_KEPT, replay};

#[cfg(test)]
mod tests;
