//! The journal: a snapshot and every entry after it as one file that describes itself, for replay.
//!
//! ```text
//!  header   magic, format, cluster, base lsn, end lsn, bytes of the snapshot, crc
//!  snapshot a snapshot file as it is on disk, up to base; absent when base is 0
//!  entry*   "ENTR" kind, payload bytes, term, lsn, crc, payload; base + 1 up to end, dense
//!  footer   "DONE" entries, groups, end lsn, crc
//! ```
//!
//! It is handed out page by page beside the running log and holds nothing up: entries come from
//! memory, the snapshot from its file. The one who asks keeps the cursor, so that nobody needs to be
//! remembered here.

mod export;
mod read;

pub use export::{JournalCursor, JournalError, JournalPage};
pub use read::{JournalEntry, JournalHead, JournalReader};

pub(crate) use export::JournalSource;

/// Highest format that this program reads, and the one that it writes.
const FORMAT: u32 = 1;
const MAGIC: &[u8; 8] = b"XCEJRNL1";
const ENTRY_MAGIC: &[u8; 4] = b"ENTR";
const FOOTER_MAGIC: &[u8; 4] = b"DONE";
/// Magic, format, cluster, base, end, snapshot bytes, crc.
const HEADER_BYTES: usize = 8 + 4 + 16 + 8 + 8 + 8 + 4;
/// Magic, kind, payload bytes, term, lsn, crc of the other fields and the payload.
const ENTRY_HEADER_BYTES: usize = 4 + 4 + 4 + 8 + 8 + 4;
/// Magic, entries, groups, end, crc.
const FOOTER_BYTES: usize = 4 + 8 + 8 + 8 + 4;
/// An entry without groups.
const KIND_BLANK: u32 = 0;
/// An entry of groups.
const KIND_GROUPS: u32 = 1;
