//! A backup: what a cluster is, in one file, and how a cluster begins anew from it.
//!
//! ```text
//!  head     magic, format, bytes, JSON: cluster, its authority, its controllers; crc
//!  journal  a snapshot and every committed group after it, as `xcecli journal export` writes it
//! ```
//!
//! It holds the key of the cluster's authority, so that hosts and users stay known after a restore:
//! whoever has the file can join anything to the cluster. It is written with mode 0600.
//!
//! Whatever was committed after a backup is gone with a restore, and numbers given since must not be
//! given again: [`Skip`] says how far ahead a new epoch begins.

mod anew;
mod head;
mod read;

pub use anew::{Begun, Skip, begin};
pub use head::{Controller, Head};
pub use read::{Backup, Contents};

use std::path::PathBuf;

use xce_wal::SnapshotError;

/// Why a backup cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// It cannot be read.
    #[error("cannot read {}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },
    /// A byte range does not hold what was written.
    #[error("{} is damaged at offset {offset}: {detail}", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// Where.
        offset: u64,
        /// What is wrong there.
        detail: String,
    },
    /// It was written by a newer program.
    #[error("{} has format {found}; this program reads up to {known}: use a newer one", file.display())]
    Newer {
        /// The file.
        file: PathBuf,
        /// Format found.
        found: u32,
        /// Highest format known.
        known: u32,
    },
    /// The journal in it is not whole.
    #[error(transparent)]
    Journal(#[from] SnapshotError),
    /// A group in it is not readable here.
    #[error("{}: the group at offset {offset}, lsn {lsn}, cannot be read", file.display())]
    Group {
        /// The file.
        file: PathBuf,
        /// Offset of the entry's end.
        offset: u64,
        /// Position of the entry.
        lsn: u64,
        /// What is wrong.
        #[source]
        source: xce_ledger::DecodeError,
    },
    /// Head and journal are of different clusters.
    #[error("{}: the journal is of another cluster than the head", .0.display())]
    Mixed(PathBuf),
}

#[cfg(test)]
mod tests;
