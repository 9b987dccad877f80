//! Replays a journal file.

use std::path::{Path, PathBuf};

use xce_ledger::{DecodeError, Group, Ledger};
use xce_model::Lsn;
use xce_wal::{JournalReader, Position, SnapshotError};

use crate::replay::{Replay, Report};

/// Why a journal could not be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// It is no whole journal.
    #[error(transparent)]
    Journal(#[from] SnapshotError),
    /// A group in it is not readable here.
    #[error("{} at offset {offset}, lsn {lsn}", file.display())]
    Group {
        /// The file.
        file: PathBuf,
        /// Offset of the entry's end.
        offset: u64,
        /// Position of the entry.
        lsn: Lsn,
        /// What is wrong.
        #[source]
        source: DecodeError,
    },
}

/// Makes all decisions of a journal file again.
///
/// # Errors
/// The file cannot be read, is damaged or cut off, or was written by another program.
pub fn replay_file(path: &Path) -> Result<Report, ReplayError> {
    let mut reader = JournalReader::open(path)?;
    let mut ledger = Ledger::new(Box::new(|_, _| ()));
    reader.restore(&mut ledger)?;
    let mut replay = Replay::new(ledger);
    while let Some(entry) = reader.next_entry()? {
        for (sub, bytes) in (0..).zip(&entry.groups) {
            let group = Group::decode(bytes).map_err(|source| ReplayError::Group {
                file: path.to_path_buf(),
                offset: reader.offset(),
                lsn: entry.lsn,
                source,
            })?;
            let at = Position {
                term: entry.term,
                lsn: entry.lsn,
                sub,
            };
            replay.group(at, group);
        }
        replay.end_entry(entry.lsn, entry.term);
    }
    Ok(replay.report().clone())
}
