//! Words that every part of XCE shares: ids, units, reasons, specifications, decisions.
//!
//! Nothing here waits, reads a clock or knows an actor. It changes rarely, since every crate above
//! is built again when it does.

pub mod decision;

/// Position of a committed entry in the log: increasing, not dense, never reused.
pub type Lsn = u64;
