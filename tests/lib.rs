//! Runs real clusters for tests: daemons as processes, the real command line, and ways to see and
//! to break them.
//!
//! ```text
//!   Setup ──start──► Cluster ──► xced dev ──► controller, workers ──► shims ──► jobs
//!                       │
//!                       ├─ cli()      the real `xcecli`: code, stdout, stderr, JSON
//!                       ├─ until()    waits, woken by what the cluster pushes
//!                       └─ pids       which processes there are, to kill them
//! ```
//! A cluster has a folder of its own, is killed with everything that it started when it goes out
//! of scope, and keeps its folder when the test failed.

pub mod harness;

use std::path::Path;

pub use harness::cli::{Answer, Cli};
pub use harness::cluster::{Cluster, Setup};

/// The root of the sources.
///
/// # Panics
/// When this crate lies nowhere.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the crate lies inside the sources")
}
