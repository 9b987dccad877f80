//! Hands the journal out page by page.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{
    ENTRY_HEADER_BYTES, ENTRY_MAGIC, FOOTER_MAGIC, FORMAT, HEADER_BYTES, KIND_BLANK, KIND_GROUPS,
    MAGIC,
};
use crate::groups;
use crate::raft::LogView;
use crate::record::{EntryKind, StoredEntry};
use crate::snapshot::{SnapshotInfo, SnapshotStore};
use crate::status::Shared;

/// Where an export stands. Whoever asks for pages keeps it and gives it back as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalCursor {
    /// LSN that the snapshot at its head covers; 0 for none.
    pub base: u64,
    /// Last LSN of the export, fixed by its first page.
    pub end: u64,
    /// Bytes of the snapshot.
    pub snapshot_bytes: u64,
    /// Bytes of the snapshot that are handed out.
    pub offset: u64,
    /// Last LSN that is handed out.
    pub lsn: u64,
    /// Groups that are handed out.
    pub groups: u64,
}

/// A part of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalPage {
    /// The next bytes of the file.
    pub bytes: Vec<u8>,
    /// What the next page is asked for with.
    pub cursor: JournalCursor,
    /// Whether these are the last bytes.
    pub done: bool,
}

/// Why a journal could not be handed out.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The snapshot or entries after it are gone: begin again.
    #[error("a newer snapshot took the place of the one that is exported; begin again")]
    Superseded,
    /// The cursor is none that a page was answered with.
    #[error("the cursor of the journal is not one that was handed out")]
    BadCursor,
    /// The snapshot could not be read.
    #[error("cannot read {}", file.display())]
    Io {
        /// The snapshot file.
        file: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// There is no disk behind this log.
    #[error("a log in memory has no journal")]
    InMemory,
}

/// What an export reads; clones share it.
#[derive(Clone)]
pub(crate) struct JournalSource {
    pub(crate) cluster_id: [u8; 16],
    pub(crate) log: LogView,
    pub(crate) snapshots: Arc<SnapshotStore>,
    pub(crate) shared: Arc<Shared>,
}

impl JournalSource {
    /// The page after a cursor, or the first one. Blocks on reading a file.
    ///
    /// # Errors
    /// See [`JournalError`].
    pub(crate) fn page(
        &self,
        cursor: Option<JournalCursor>,
        bytes_max: usize,
    ) -> Result<JournalPage, JournalError> {
        let mut bytes = Vec::with_capacity(bytes_max.min(PAGE_BYTES_MAX));
        let mut cursor = match cursor {
            // What is not applied yet may still be replaced.
            Some(cursor) if cursor.is_sound() && cursor.end <= self.applied() => cursor,
            Some(_) => return Err(JournalError::BadCursor),
            None => self.begin(&mut bytes)?,
        };
        let room = bytes_max.clamp(1, PAGE_BYTES_MAX);
        if cursor.offset < cursor.snapshot_bytes {
            self.snapshot_part(&mut cursor, room, &mut bytes)?;
        }
        while cursor.offset == cursor.snapshot_bytes
            && cursor.lsn < cursor.end
            && bytes.len() < room
        {
            let left = room - bytes.len();
            let entries = self.log.entries_after(cursor.lsn, cursor.end, left);
            // An entry that is not there is below the purge point.
            for entry in entries.ok_or(JournalError::Superseded)? {
                cursor.lsn = entry.position.index;
                cursor.groups += put_entry(&mut bytes, &entry);
            }
        }
        let done = cursor.offset == cursor.snapshot_bytes && cursor.lsn == cursor.end;
        if done {
            put_footer(&mut bytes, &cursor);
        }
        Ok(JournalPage {
            bytes,
            cursor,
            done,
        })
    }

    fn applied(&self) -> u64 {
        self.shared.last_lsn.load(Ordering::Acquire)
    }

    /// Chooses where to begin, as far back as it goes, and writes the header: with nothing where the
    /// log is whole, else with the oldest snapshot whose entries are all kept.
    fn begin(&self, bytes: &mut Vec<u8>) -> Result<JournalCursor, JournalError> {
        let purged = self.log.purged();
        let kept = self.snapshots.kept_infos();
        let base = kept
            .into_iter()
            .find(|info| purged > 0 && info.lsn() >= purged);
        if base.is_none() && purged > 0 {
            return Err(JournalError::Superseded);
        }
        let (lsn, snapshot_bytes) = match &base {
            Some(info) => (info.lsn(), file_bytes(info)?),
            None => (0, 0),
        };
        let end = self.applied().max(lsn);
        let start = bytes.len();
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(&self.cluster_id);
        for number in [lsn, end, snapshot_bytes] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        let crc = crc32c::crc32c(&bytes[start..]);
        bytes.extend_from_slice(&crc.to_le_bytes());
        debug_assert_eq!(bytes.len() - start, HEADER_BYTES);
        Ok(JournalCursor {
            base: lsn,
            end,
            snapshot_bytes,
            offset: 0,
            lsn,
            groups: 0,
        })
    }

    fn snapshot_part(
        &self,
        cursor: &mut JournalCursor,
        room: usize,
        bytes: &mut Vec<u8>,
    ) -> Result<(), JournalError> {
        let base = cursor.base;
        let kept = self.snapshots.kept_infos();
        let info = kept.iter().find(|info| info.lsn() == base);
        let file = &info.ok_or(JournalError::Superseded)?.path;
        let failed = |source: io::Error| match source.kind() {
            // Removed between the look above and now.
            io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof => JournalError::Superseded,
            _ => JournalError::Io {
                file: file.clone(),
                source,
            },
        };
        let left = cursor.snapshot_bytes - cursor.offset;
        let part = room.min(usize::try_from(left).unwrap_or(usize::MAX));
        let start = bytes.len();
        bytes.resize(start + part, 0);
        File::open(file)
            .and_then(|open| open.read_exact_at(&mut bytes[start..], cursor.offset))
            .map_err(failed)?;
        cursor.offset += part as u64;
        Ok(())
    }
}

impl JournalCursor {
    fn is_sound(&self) -> bool {
        self.offset <= self.snapshot_bytes && self.base <= self.lsn && self.lsn <= self.end
    }
}

/// Most bytes of a page, but for the rest of one entry.
/// Source: derived; with an entry of 1 MiB it stays far below a frame of 8 MiB.
const PAGE_BYTES_MAX: usize = 2 << 20;

fn file_bytes(info: &SnapshotInfo) -> Result<u64, JournalError> {
    match std::fs::metadata(&info.path) {
        Ok(metadata) => Ok(metadata.len()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(JournalError::Superseded),
        Err(source) => Err(JournalError::Io {
            file: info.path.clone(),
            source,
        }),
    }
}

/// Appends an entry and says how many groups it has.
fn put_entry(out: &mut Vec<u8>, entry: &StoredEntry) -> u64 {
    let (kind, payload): (u32, &[u8]) = match entry.kind {
        EntryKind::Groups => (KIND_GROUPS, &entry.payload),
        // Who the controllers are decides nothing.
        EntryKind::Blank | EntryKind::Membership => (KIND_BLANK, &[]),
    };
    let len = u32::try_from(payload.len()).expect("entries are bounded by the configuration");
    let start = out.len();
    out.reserve(ENTRY_HEADER_BYTES + payload.len());
    out.extend_from_slice(ENTRY_MAGIC);
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&entry.position.term.to_le_bytes());
    out.extend_from_slice(&entry.position.index.to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&out[start..]), payload);
    out.extend_from_slice(&crc.to_le_bytes());
    out.extend_from_slice(payload);
    match kind {
        KIND_GROUPS => groups::unpack(payload).map_or(0, |groups| groups.len() as u64),
        _ => 0,
    }
}

fn put_footer(out: &mut Vec<u8>, cursor: &JournalCursor) {
    let start = out.len();
    out.extend_from_slice(FOOTER_MAGIC);
    for number in [cursor.end - cursor.base, cursor.groups, cursor.end] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    let crc = crc32c::crc32c(&out[start..]);
    out.extend_from_slice(&crc.to_le_bytes());
}
