//! Everything that is known about running actors, once: supervision, addresses, bounds, the view
//! from outside.
//!
//! ```text
//!   Root                     ends only with the node; its end ends the process
//!    ├─ wal                  Policy::WAL: three crashes in 60 s escalate
//!    ├─ shards/service       a family: one supervisor of shards
//!    │   ├─ shard/service-0  at most 2 000 entities
//!    │   │   ├─ service/web  an entity: recover, handle, view
//!    │   │   └─ …
//!    │   └─ shard/service-1
//!    └─ …
//! ```
//!
//! An author writes an [`Entity`] and reaches it by its [`Address`]; both outlive every
//! incarnation. What is guaranteed:
//!
//! * A crash, a kill or a panic concerns one entity. It starts again through
//!   [`Entity::recover`]: the first time at once, then after growing delays, and after too many
//!   crashes it is quarantined, visibly, while its siblings go on.
//! * An incarnation acts only after its predecessor's state has been dropped (lease).
//! * A sender learns whether a message was certainly not delivered ([`NotDelivered`]) or whether
//!   its outcome is unknown ([`Unknown`]); never silence, never without a bound.
//! * Mailboxes are bounded at the address, doors by [`Admission`].
//! * The end of a tree is ordered and bounded.
//!
//! The rest of the system does not see ractor. Names, process groups and output ports of ractor
//! are not used: they are shared by all nodes in a process.

mod address;
mod admit;
pub mod backoff;
mod clock;
mod desk;
mod inspect;
mod key;
mod keyed;
mod node;
mod policy;
mod probe;
mod refusal;
mod registry;
mod reply;
mod root;
mod shards;
mod shutdown;
mod supervise;
mod supervised;
mod task;
mod timer;
pub mod trace;

#[cfg(test)]
mod tests;

pub use address::Address;
pub use admit::{Admission, Permit};
pub use clock::{Clock, ManualClock, RealClock, Sleep};
pub use inspect::{Answer, Family, Filter, Inspection, Page, Row, Tree, VIEW_BYTES_MAX, View};
pub use key::{KEY_TEXT_BYTES_MAX, Key};
pub use node::Node;
pub use policy::{Limits, OnLimit, OnStorm, Policy, Restart, StopOrder};
pub use probe::{ERROR_BYTES_MAX, LastError, Phase, Probe};
pub use refusal::{CallError, NotDelivered, Refusal, Unknown};
pub use registry::ROWS_MAX;
pub use reply::Reply;
pub use root::Root;
pub use shards::{SHARD_CHILDREN_MAX, Shards};
pub use supervise::Supervisor;
pub use supervised::{ChildEnded, Context, Crash, Entity, NotYet};
pub use task::Task;
pub use timer::{Timer, Trigger};
