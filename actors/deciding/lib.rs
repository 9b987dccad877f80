//! Decisions from a view of the whole ledger, as the controller's shells commit them.
//!
//! ```text
//!   view at a position ─┐
//!   event ──────────────┼─► decide ─► conditions + facts ─► Group (with the event and the position)
//!   times, author ──────┘                                     │
//!                       the same function again ◄── replay ◄──┘
//! ```
//!
//! The rules of a service, a job or a host decide about one record. What stands here looks the
//! records up, cuts a decision to what one group takes, and adds under which conditions it holds.
//! It is one function for whoever commits and for whoever replays, so that a recorded decision can
//! be made again byte for byte.
//!
//! Pure: never waits, never reads a clock, never draws a random number.

pub mod blame;
mod cleaning;
pub mod draining;
pub mod fence;
pub mod host;
mod job;
mod losing;
mod planner;
pub mod reading;
pub mod schedule;
mod service;

pub use cleaning::clean_up;
pub use job::job;
pub use planner::Planner;
pub use service::{Author, ServiceStep, event_of, service};

use xce_ledger::{Fact, Group, Precondition};
use xce_model::{ClusterTime, WallTime};

/// Cluster time and wall clock of a decision.
pub type Times = (ClusterTime, WallTime);

/// What a group is made of: facts, and under which conditions they hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decided {
    /// All must hold in log order.
    pub conditions: Vec<Precondition>,
    /// In the order in which they apply.
    pub facts: Vec<Fact>,
}

impl Decided {
    /// The group with these conditions and facts.
    pub fn into_group(self, mut group: Group) -> Group {
        group.preconditions = self.conditions;
        group.facts = self.facts;
        group
    }
}

#[cfg(test)]
mod tests;
