//! Placement: which waiting job goes to which host, and why the others wait.
//!
//! ```text
//!  View ──► gates (delay, array slots, slow start) ──► pool (free cpus, memory, ports, spread)
//!                                                        │
//!              plan: Placements, checked again in log order by `Precondition::Fits`
//!              why:  the reason of a job that is not among them, in the user's words
//! ```
//!
//! Pure: the same view, queues and time give the same plan and the same words. Rules:
//! * Queues by priority, then name; inside a queue in the order of submission, services' replicas,
//!   batch jobs and elements of arrays alike.
//! * **No overtaking for room that will come**: a job that lacks processors or memory, and would fit
//!   on some host when the batch jobs there have ended, holds back what stands behind it in its queue.
//!   There is no backfill. A job that no such end can help (larger than every host, a port held,
//!   spread, labels, hosts filled by services, closed) holds back nobody; nor does one that may not
//!   start yet.
//! * The host: for a replica the one with the fewest of its version (over the spread label's values
//!   first, where one is set), then the one whose processors are least used, then by name.
//! * Ports: fixed ones must be free, the others are the lowest free of the host's range.

mod candidate;
mod gate;
mod plan;
mod pool;
mod reason;
mod room;
mod why;

#[cfg(test)]
mod tests;

pub use plan::{Placement, Queue, next_wake, plan};
pub use reason::Reason;
pub use room::no_room;
pub use why::{Explainer, NEXT, why};
