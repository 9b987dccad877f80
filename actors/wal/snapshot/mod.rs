//! Snapshots on disk: written beside the running machine, two kept, read back frame by frame.
//!
//! ```text
//!  header  magic, format, cluster, position, membership, crc
//!  frame*  "FRAM" raw bytes, stored bytes, records, crc, lz4 of [length, record]*
//!  footer  "FOOT" frames, records, raw bytes, crc, blake3 of all raw bytes
//! ```

mod incoming;
mod read;
mod store;
mod write;

pub(crate) use incoming::Incoming;
pub(crate) use read::SnapshotReader;
pub(crate) use store::{SnapshotInfo, SnapshotStore, snapshot_hash};

use crate::record::LogPosition;

/// Highest snapshot format that this program reads, and the one that it writes.
const FORMAT: u32 = 1;
const MAGIC: &[u8; 8] = b"XCESNAPS";
const FRAME_MAGIC: &[u8; 4] = b"FRAM";
const FOOTER_MAGIC: &[u8; 4] = b"FOOT";
/// Magic, format, cluster, term, index, flags (bit 0 has a position, 1 installed), membership length.
const HEADER_BYTES: usize = 8 + 4 + 16 + 8 + 8 + 4 + 4;
/// Magic, raw bytes, stored bytes, records, crc of the other fields and the stored bytes.
const FRAME_HEADER_BYTES: usize = 20;
/// Magic, frames, records, raw bytes, hash, crc.
const FOOTER_BYTES: usize = 4 + 8 + 8 + 8 + 32 + 4;
/// Source: measured in the foundations; frames of 1 MiB compress well and stay small in memory.
const FRAME_RAW_BYTES: usize = 1 << 20;
/// Largest record; one larger than a frame gets a frame of its own.
///
/// Source: chosen; bounds what a damaged length can make the reader allocate.
const RECORD_BYTES_MAX: usize = 64 << 20;
/// Source: chosen; memberships are a few hundred bytes.
const MEMBERSHIP_BYTES_MAX: usize = 1 << 20;

/// What a snapshot covers, as its header says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SnapshotHead {
    /// The last applied entry; `None` when nothing was applied.
    pub(crate) last: Option<LogPosition>,
    /// The encoded membership at that entry.
    pub(crate) membership: Vec<u8>,
    /// Whether it came from the primary, so that the log may end before what it covers.
    pub(crate) installed: bool,
}
