//! The ledger: the sum of all committed facts, equal on every controller.
//!
//! ```text
//!             ┌────────────── Group: preconditions + facts ──────────────┐
//!  deciders ──┤ encode                                                    ▼
//!             └─► WAL ─► committed ─► Ledger::apply ─► publish ─► Reader::view ─► deciders, feeds
//!                                       │    tables, derived indices, change index
//!                                       └──► snapshot records, and back by restore
//! ```
//!
//! Pure: never waits, never reads a clock. `apply` cannot fail; a group whose preconditions do not
//! hold in log order is committed as refused and changes nothing. Driven by the WAL, one thread.
//!
//! Invariants, checked by [`audit`] after every step of the tests: derived tables equal a recount;
//! a port is held once; every live replica belongs to a service that exists, its index is unique
//! within the version; every job that holds a host holds one that exists.

mod arrays;
mod changes;
mod clock;
mod endpoints;
mod event;
mod fact;
mod feed;
mod group;
pub mod level;
mod members;
mod operations;
mod policies;
mod ranges;
mod sessions;
mod usage;
mod view;

mod encode;
mod envelope;
mod past;

mod apply;
mod audit;
mod check;
mod index;
mod intern;
mod ledger;
mod machine;
mod restore;
mod rows;
mod snapshot;

pub use arrays::{ArrayRecord, ElementCounts};
pub use audit::{FINDINGS_MAX, Finding, audit};
pub use changes::{Changes, Delta, TOMBSTONES_MAX, TooOld};
pub use clock::{Anchor, ClockFact, ClusterClock, Here};
pub use encode::GROUP_FACTS_MAX;
pub use envelope::DecodeError;
pub use event::{GroupEvent, Joining, RULES_VERSION};
pub use fact::Fact;
pub use feed::{
    Change, Cursor, EventLog, Events, Gap, Mirror, Portion, RowReader, RowWriter, Scope,
};
pub use group::{Answer, Created, Group, Operation, Outcome, Precondition, Unmet};
pub use ledger::{Ledger, OnChange, Reader};
pub use members::{Anew, Epoch, FOUNDER, MemberFact};
pub use operations::{OPERATION_AGE_MAX, OPERATIONS_MAX};
pub use policies::{PolicyFact, PolicyKey, PolicyRecord};
pub use ranges::Ranges;
pub use sessions::{SessionFact, SessionKind, SessionRecord};
pub use snapshot::SnapshotRecords;
pub use usage::Usage;
pub use view::{ChangeIndex, Key, Numbers, Requests, View};

#[cfg(test)]
mod tests;
