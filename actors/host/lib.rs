//! A machine of the cluster: its record, its life, and the rules of its beats.
//!
//! ```text
//!            join            3 missed beats           host_grace
//! (unknown) ─────► up ──────────────────────► suspect ──────────► lost
//!                  ▲ ▲────────── beat ───────────┘                 │
//!                  │ └──────────── join (resync) ─────────────────-┘
//!                  └── join ── away ◄── clean stop
//! ```
//!
//! The controller's half is one actor a host; the far half is the worker's agent. Closing and
//! draining are the operator's and stand beside this life, not in it.
//!
//! Invariants: a name belongs to one incarnation at a time; the mark of the worker's facts only
//! rises within a spool epoch.

pub mod facts;
pub mod rules;
pub mod state;
pub mod view;
pub mod wire;

pub use facts::HostFact;
pub use state::{HostLife, HostRecord};

#[cfg(test)]
mod tests;
