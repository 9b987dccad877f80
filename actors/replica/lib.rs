//! One job's life: a batch job, an element of an array, or a replica of a service.
//!
//! ```text
//! submit ─► PEND ──place──► START ──started──► RUN ──ended──► DONE | EXIT
//!            │ ▲              │                 │
//!        hold│ │release       └──── stop ───────┴──► STOPPING ──ended──► EXIT, or PEND again
//!            ▼ │                                            (requeue: the next run)
//!           HELD
//! ```
//!
//! The controller's half decides on commands and on what the worker reports; the worker's half is
//! the agent that guards the processes. (job, run) fences: a report of another run changes nothing.
//!
//! Invariants: a job that holds a host has a run above 0 and a host; a terminal job has an exit; a
//! run number only rises, and rises only with a placement.

pub mod facts;
pub mod rules;
pub mod state;
pub mod view;
pub mod wire;

pub use facts::{AfterStop, JobFact, ProbeRole, ServiceRef};
pub use state::JobRecord;

#[cfg(test)]
mod tests;
