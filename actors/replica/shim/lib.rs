//! One small process per run of a job, and the library by which the worker deals with it.
//!
//! ```text
//!   worker daemon ──spawn──► xce-shim RUN_DIR ──fork, exec──► job ──► its children
//!        │                      │  own session, subreaper, holds `lock`
//!        │   `sock`: commands   │
//!        └─────────────────────►│
//!                               ▼
//!   RUN_DIR:  spec (by the worker)   lock   sock   run (started)   exit (ended)
//! ```
//!
//! The worker may stop, be upgraded or be killed at any time: the shim goes on, writes the exit
//! record, and ends by itself. Nobody has to be there.
//!
//! Invariants
//! * A run directory is used once. `lock` appears already locked; who finds it there is refused.
//! * Alive means: the lock is held. A pid is for display, and is checked with its start time
//!   before anything is sent to it.
//! * The exit record is written after the last process of the job's tree is gone and reaped.
//! * If the shim dies, the job's first process dies with it (parent-death signal); the rest of the
//!   tree is killed by [`reclaim()`], and the run is [`RunState::Lost`].
//!
//! This crate has no async code, and knows nothing of actors, facts or the network.

pub mod cgroup;
pub mod claim;
pub mod control;
pub mod inspect;
pub mod machine;
pub mod outcome;
pub mod protocol;
pub mod reclaim;
pub mod record;
pub mod spec;
pub mod tree;

pub use claim::{Claim, ClaimError};
pub use control::{Control, ControlError, ControlPath, spawn};
pub use inspect::{LostReason, RunState, inspect};
pub use outcome::{
    Cause, HostFault, HostFaultKind, JobFault, JobFaultKind, LaunchFailure, Outcome,
};
pub use protocol::{Event, Request, ShimState, Status, Usage};
pub use reclaim::{Reclaim, kill_shim, reclaim};
pub use record::{ExitRecord, ProcessId, RecordError, RunRecord};
pub use spec::{Limits, Output, Spec, SpecFault, User};
