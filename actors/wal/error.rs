//! Refusals and faults of the WAL.

use std::io;
use std::path::PathBuf;
pub(crate) use xce_model::chain;

/// Why a group got no receipt.
///
/// Every variant but [`PersistError::Unknown`] means that the group was certainly not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PersistError {
    /// The queue is full; nothing was taken in. Try again later.
    #[error("the write-ahead log is overloaded; try again")]
    Overloaded,
    /// The group is larger than an entry may be.
    #[error("a group of {bytes} bytes is larger than the {max} bytes that one entry may hold")]
    TooLarge {
        /// Size of the refused group in bytes.
        bytes: usize,
        /// Largest size in bytes.
        max: usize,
    },
    /// This controller does not lead.
    #[error("this controller is not the primary")]
    NotPrimary {
        /// The node that leads, if known.
        leader: Option<u64>,
    },
    /// No space for another log segment; writes go on by themselves when there is space again.
    #[error("no disk space for the write-ahead log; free some space, no restart is needed")]
    DiskFull,
    /// The log is closed or has failed.
    #[error("the write-ahead log is stopped")]
    Stopped,
    /// Nobody knows whether the group was committed: the caller must stop and read the state again.
    #[error("the outcome of the write is unknown")]
    Unknown,
}

impl PersistError {
    /// The stable code of this refusal.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Overloaded => "wal-overloaded",
            Self::TooLarge { .. } => "wal-too-large",
            Self::NotPrimary { .. } => "wal-not-primary",
            Self::DiskFull => "wal-disk-full",
            Self::Stopped => "wal-stopped",
            Self::Unknown => "wal-unknown",
        }
    }
}

/// Damage in the part of a file that had been acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} is damaged at offset {offset}: {detail}. Nothing was changed. Restore the state directory \
     from a backup, or move it aside and let this controller join again from the others",
    file.display()
)]
pub struct Damage {
    /// The damaged file.
    pub file: PathBuf,
    /// Offset of the first damaged byte range.
    pub offset: u64,
    /// What is wrong there.
    pub detail: String,
}

/// Why a state directory could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A setting is out of range.
    #[error("setting {setting} is out of range: {detail}")]
    Setting {
        /// Name of the field of the configuration.
        setting: &'static str,
        /// What is allowed.
        detail: String,
    },
    /// Another process holds the directory.
    #[error("{} is in use by another process (it holds the lock {})", directory.display(), lock.display())]
    Locked {
        /// The state directory.
        directory: PathBuf,
        /// The lock file.
        lock: PathBuf,
    },
    /// The directory holds no state and the caller did not ask to create it.
    #[error("{} holds no state; it is only initialised on request", directory.display())]
    NotInitialised {
        /// The state directory.
        directory: PathBuf,
    },
    /// The directory belongs to another cluster or node.
    #[error("{} belongs to {what} {found}, not to {wanted}", directory.display())]
    Foreign {
        /// The state directory or file.
        directory: PathBuf,
        /// `cluster` or `node`.
        what: &'static str,
        /// What is written there.
        found: String,
        /// What the caller is.
        wanted: String,
    },
    /// A file was written by a newer version.
    #[error("{} has format {found}; this program reads up to {known}: use a newer one", file.display())]
    Newer {
        /// The file.
        file: PathBuf,
        /// Version found.
        found: u32,
        /// Highest version known.
        known: u32,
    },
    /// Acknowledged data is damaged or missing.
    #[error(transparent)]
    Damage(#[from] Damage),
    /// A snapshot could not be used and no older one with its log is there.
    #[error("no usable snapshot")]
    Snapshot(#[source] SnapshotError),
    /// The directory is older than what others have seen of it.
    #[error("the state in {} must not be used: {detail}", directory.display())]
    Outdated {
        /// The state directory.
        directory: PathBuf,
        /// How that is known.
        detail: String,
    },
    /// The log cannot be used, and no other controller could take this one in again. Nothing was
    /// changed.
    #[error(
        "this controller cannot use its log, and the others could not take it in again ({detail})"
    )]
    NotTakenIn {
        /// What they said.
        detail: String,
        /// What is wrong with the log.
        #[source]
        source: Box<OpenError>,
    },
    /// An operating system call failed.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// What was attempted.
        doing: &'static str,
        /// On which path.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// Consensus did not start.
    #[error("consensus did not start: {detail}")]
    Consensus {
        /// What it said.
        detail: String,
    },
}

/// What is wrong with a snapshot.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// A byte range does not hold what was written.
    #[error("{} is damaged at offset {offset}: {detail}", file.display())]
    Damaged {
        /// The snapshot file.
        file: PathBuf,
        /// Offset of the damaged range.
        offset: u64,
        /// What is wrong.
        detail: String,
    },
    /// Written by a newer version.
    #[error("{} has snapshot format {found}; this program reads up to {known}", file.display())]
    Newer {
        /// The snapshot file.
        file: PathBuf,
        /// Version found.
        found: u32,
        /// Highest version known.
        known: u32,
    },
    /// The machine does not accept a record.
    #[error("record not accepted: {detail}")]
    Record {
        /// What the machine said.
        detail: String,
    },
    /// Reading or writing failed.
    #[error("cannot {doing} {}", file.display())]
    Io {
        /// What was attempted.
        doing: &'static str,
        /// The snapshot file.
        file: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// The WAL is stopped.
    #[error("the write-ahead log is stopped")]
    Stopped,
}
