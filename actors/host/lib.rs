//! A machine of the cluster: its record, its life, and the rules of its beats.
//!
//! ```text
//!            join            3 missed beats           host_grace
//! (unknown) ─────► up ──────────────────────► suspect ──────────► lost
//!                  ▲ ▲────────── beat ───────────┘                 │ ▲
//!                  │ └──────────── join (resync) ──────────────────┘ │
//!                  └── join ── away ◄── clean stop                   │
//!                                │ away_max                          │
//!                                └──────────► lost    confirmed dead ┘
//! ```
//!
//! Silence is counted from the last exchange. A new primary gives every host one ordinary fresh
//! grace. When most hosts go silent at once, the controller rather doubts its own network
//! ([`rules::MassLoss`]).
//!
//! The controller's half is one actor a host; the far half is the worker's agent. Closing and
//! draining are the operator's and stand beside this life, not in it.
//!
//! Invariants: a name belongs to one incarnation at a time; the mark of the worker's facts only
//! rises within a spool epoch; a run that was given up holds its ports until its end is confirmed.

pub mod facts;
pub mod rules;
pub mod state;
pub mod view;
pub mod wire;

pub use facts::{HostFact, Remnant};
pub use state::{Drain, HostLife, HostRecord};

#[cfg(test)]
mod tests;
