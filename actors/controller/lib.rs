//! The controller's half: the shells that receive, decide by the rules, persist, act and reply.
//!
//! ```text
//!   root
//!    ├─ wal              what operators see of the log
//!    ├─ publisher        tells actors to look when something that concerns them was committed
//!    ├─ scheduler        plans from the committed state
//!    ├─ janitor          takes out what ended long ago
//!    ├─ shards/service   service/3 …    what users asked for
//!    ├─ shards/job       job/17 …       commands on one job
//!    ├─ shards/host      host/w1 …      a worker's connection, beats and facts
//!    ├─ shards/endpoints endpoints/3 …  pushes where clients reach a service to those who read it
//!    └─ shards/session   session/9.1 …  one peer's requests and watches
//! ```
//!
//! Shells have no authority: a decision is committed under preconditions that are checked in log
//! order, so one that was made from an old state is refused and made again. What is to be done
//! after a commit follows from the committed state, is told as a level, and is told again whenever
//! an actor or the whole controller starts.

mod barrier;
mod checking;
mod connections;
mod control;
mod door;
mod endpoints;
mod feeder;
mod host;
mod janitor;
mod job;
pub mod joining;
mod journal;
mod live;
mod log;
mod losing;
mod members_known;
mod opening;
pub mod orders;
mod peer_doors;
pub mod peers;
mod publisher;
mod reach;
mod refusals;
mod reign;
pub mod reports;
mod requests;
mod resume;
mod scheduler;
mod service;
mod session;
mod sessions;
mod settings;
mod start;
mod views;
mod watch;

pub use live::{Live, LiveSettings, Reload};
pub use settings::Settings;
pub use start::{Controller, StartError, initialise, offline, start};
pub use xce_deciding::reading;
