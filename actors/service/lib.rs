//! A service: desired count, versions, rollout and replacement of its replica jobs.

pub mod facts;
pub mod state;
pub mod view;

pub use facts::{Failure, ServiceFact, VersionReason};
pub use state::{ServiceRecord, VersionRecord};
