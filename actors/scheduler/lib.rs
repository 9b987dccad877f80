//! The scheduler as a daemon: a copy of what placement needs, filled by a feed, and plans made from it.
//!
//! ```text
//!   connection ── portions, ticks ──► Core ── plans ──► connection
//!     │ dial, hello, resume             └ mirror of the state, cluster time
//!     └ led to the primary; after a failover the feed goes on from where the mirror is
//! ```
//!
//! It decides nothing for good: each placement names the position that it was made from, and the
//! controller commits it under its precondition or refuses it. A scheduler that is killed loses nothing;
//! the next one begins with the state. It writes nothing to disk.

mod connection;
mod core;
mod settings;

#[cfg(test)]
mod tests;

pub use connection::run;
pub use settings::Settings;
