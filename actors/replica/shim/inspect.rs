//! What became of a run, from what lies in its directory: lock first, then records.

use std::io;
use std::path::Path;

use crate::claim::{self, Held};
use crate::machine;
use crate::record::{ExitRecord, RecordError, RunRecord};

/// The state of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunState {
    /// No shim ever claimed the directory: it is safe to start one.
    NeverStarted,
    /// The shim lives. Without a record it is between its claim and the start of the job.
    Running {
        /// The run record, if it is written yet.
        run: Option<RunRecord>,
    },
    /// It ended, and this is how. Nothing of the job is left.
    Exited(ExitRecord),
    /// The shim is gone without an exit record. Processes may be left: see [`crate::reclaim()`].
    Lost {
        /// Why.
        reason: LostReason,
        /// The run record, if it was written and can be read.
        run: Option<RunRecord>,
    },
}

/// How a run was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LostReason {
    /// The host has booted since: nothing of it is left.
    Rebooted,
    /// The shim was killed, or its exit record could not be written.
    ShimGone,
    /// An exit record is there and cannot be read; the text says why.
    ExitUnreadable(String),
}

/// Finds out what became of a run. Compare the nonce in the records with the expected one.
///
/// # Errors
/// When the directory or a record is there and the kernel does not let it be read.
pub fn inspect(run_dir: &Path) -> io::Result<RunState> {
    inspect_in_boot(run_dir, &machine::boot_id()?)
}

/// Whether a shim has left a record, in whatever state.
pub(crate) fn has_records(run_dir: &Path) -> bool {
    let is_there = |name: &str| run_dir.join(name).symlink_metadata().is_ok();
    is_there("run") || is_there("exit")
}

/// As [`inspect`], in the boot of the given id.
///
/// # Errors
/// As [`inspect`].
pub fn inspect_in_boot(run_dir: &Path, boot_id: &str) -> io::Result<RunState> {
    match claim::held(run_dir)? {
        Held::Never if !has_records(run_dir) => return Ok(RunState::NeverStarted),
        // The lock comes first and is never removed: somebody else did that. Whether the shim lives
        // cannot be known any more.
        Held::Never => {}
        Held::Yes => {
            return Ok(match ExitRecord::load(run_dir) {
                Ok(exit) => RunState::Exited(exit),
                Err(_) => RunState::Running {
                    run: RunRecord::load(run_dir).ok(),
                },
            });
        }
        Held::NoLonger => {}
    }
    // The shim wrote before it let go of the lock, so now the records are final.
    let reason = match ExitRecord::load(run_dir) {
        Ok(exit) => return Ok(RunState::Exited(exit)),
        Err(RecordError::Unreadable { source, .. }) => return Err(source),
        Err(RecordError::Missing(_)) => LostReason::ShimGone,
        Err(
            error @ (RecordError::TooLarge { .. }
            | RecordError::Corrupt { .. }
            | RecordError::TooNew { .. }),
        ) => LostReason::ExitUnreadable(error.to_string()),
    };
    let run = RunRecord::load(run_dir).ok();
    let rebooted = run.as_ref().is_some_and(|run| run.boot_id != boot_id);
    let reason = match reason {
        LostReason::ShimGone if rebooted => LostReason::Rebooted,
        LostReason::ShimGone | LostReason::Rebooted | LostReason::ExitUnreadable(_) => reason,
    };
    Ok(RunState::Lost { reason, run })
}
