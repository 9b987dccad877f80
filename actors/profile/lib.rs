//! What people ask for before anything is filled in, and how it becomes a specification.
//!
//! ```text
//!   built-in < account < profile < project < request     partial documents, merged leaf by leaf
//!                           │
//!                        resolve ──► ServiceSpec or JobSpec, and where each value came from
//!                           │
//!                   caps of queue and project             a higher value is refused by name
//! ```
//!
//! Everything here is pure: no file, no clock, no lookup of a user. What is resolved stays so: a
//! profile that is edited later changes nothing that was made before.

pub mod document;

pub mod checks;
pub mod defaults;
mod spelling;

mod builtin;
mod leaves;
mod probing;
mod problem;
mod request;

pub mod layers;
pub mod resolve;
pub mod unfold;

pub mod caps;
pub mod policy;

pub use caps::{CapsFile, OwnedCaps};
pub use leaves::{Leaves, Path};
pub use policy::{PolicyFile, PolicyKind, ProfileKind};
pub use problem::{Problem, refusal};
pub use request::RunAs;
pub use resolve::Purpose;
pub use spelling::closest;

#[cfg(test)]
mod tests;
