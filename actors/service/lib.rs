//! A service: desired count, versions, rollout and replacement of its replica jobs.
//!
//! ```text
//!                                     ┌──────── update, rollback, restart ───────┐
//!                                     ▼                                          │
//! create ─► version 1 ─► rolling ──all available──► complete ─────────────────── ┤
//!                        │  ▲   ▲                                                │
//!              deadline  ▼  │   └─ resume ─ paused ◄─ pause                      │
//!                       stuck ── on_stuck = rollback: a copy of the last completed one
//!
//! delete, at any time ─► deleting ──every host confirmed──► gone
//!
//! replicas of a version:  missing ─► submitted ─► pending ─► ... ─► available ─► stopping ─► ended
//!                            ▲                                                                 │
//!                            └──── failed: delay 1, 2, 4 ... s of the version; crash loop ─────┘
//! ```
//!
//! A service runs nothing itself. Its record says how many replicas of each version are wanted; its
//! rules compare that with the jobs that are there, and decide facts of both. What is wanted is a
//! level, so a decision that was lost is made again from what is committed.
//!
//! The actor of a service decides on [`rules::Event::Changed`] whenever a fact of the service, of
//! one of its replicas or of one of their hosts is committed, and again until nothing comes out.
//! Replicas are told by their own facts; the placement reads
//! [`ServiceRecord::dispatch_limit`](state::ServiceRecord::dispatch_limit).
//!
//! Invariants: live replicas are never more than desired and surge by the rules' own doing;
//! available ones never fewer than desired minus unavailable; an index is used once in a making of
//! a version; only one version stands for a making, and only it is wanted; a complete rollout wants
//! no replica of another version; numbers of versions rise and are not used again.

pub mod explain;
pub mod facts;
pub mod roster;
pub mod rules;
pub mod state;
pub mod view;

pub use explain::{Explanation, explain};
pub use facts::{Failure, ServiceFact, Times, VersionReason};
pub use roster::{Replicas, Roster};
pub use rules::{
    Answer, Author, Change, Command, Effect, Event, ServiceDecision, Situation, Which, check_spec,
    decide,
};
pub use state::{ServiceRecord, VersionRecord};
pub use view::{Condition, ServiceView, view};

#[cfg(test)]
mod tests;
