//! What people ask for before anything is filled in, and how it becomes a specification.
//!
//! ```text
//!   built-in < profile < project < request     each a partial document, merged leaf by leaf
//!                     │
//!                  resolve ──► ServiceSpec or JobSpec, and where each value came from
//!                     │
//!             caps of queue and project        a higher value is refused by name
//! ```
//!
//! Everything here is pure: no file, no clock, no lookup of a user.

pub mod document;
