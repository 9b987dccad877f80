//! A segment file: its name and its header block.

use std::path::{Path, PathBuf};

use crate::aligned::AlignedBuffer;
use crate::batch::BLOCK_BYTES;
use crate::error::{Damage, OpenError};
use crate::record::{u32_at, u64_at};

/// Offset of the first batch.
pub(crate) const FIRST_BATCH: u64 = BLOCK_BYTES as u64;

const MAGIC: &[u8; 8] = b"XCEWALSG";
/// Highest format of segments that this program reads, and the one that it writes.
pub(crate) const FORMAT: u32 = 1;
/// Bytes of the header that the checksum covers.
const COVERED: usize = 68;

/// What the header of a segment says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) cluster_id: [u8; 16],
    pub(crate) node_id: u64,
    /// Number of the segment, from 1, without gaps.
    pub(crate) sequence: u64,
    /// Seeds the checksums of this generation; random.
    pub(crate) salt: u32,
    /// Where the segment before ends; all of it was durable when this one was made. Zero for none.
    pub(crate) previous_end: u64,
}

impl SegmentHeader {
    /// The header block.
    pub(crate) fn encode(&self, out: &mut AlignedBuffer) {
        let mut header = [0; COVERED + 4];
        header[..8].copy_from_slice(MAGIC);
        header[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        header[12..16].copy_from_slice(&self.salt.to_le_bytes());
        header[16..32].copy_from_slice(&self.cluster_id);
        header[32..40].copy_from_slice(&self.node_id.to_le_bytes());
        header[40..48].copy_from_slice(&self.sequence.to_le_bytes());
        header[48..56].copy_from_slice(&self.previous_end.to_le_bytes());
        let crc = crc32c::crc32c(&header[..COVERED]);
        header[COVERED..].copy_from_slice(&crc.to_le_bytes());
        out.clear();
        out.extend(&header);
        out.pad(BLOCK_BYTES);
    }

    /// Reads the header of `file`.
    ///
    /// # Errors
    /// The header is damaged, or of a newer format.
    pub(crate) fn decode(bytes: &[u8], file: &Path) -> Result<Self, OpenError> {
        let damage = |detail: &str| Damage {
            file: file.to_path_buf(),
            offset: 0,
            detail: detail.to_owned(),
        };
        let header = bytes
            .get(..COVERED + 4)
            .ok_or_else(|| damage("the segment header is cut off"))?;
        if u32_at(header, COVERED) != crc32c::crc32c(&header[..COVERED]) {
            return Err(damage("the segment header does not match its checksum").into());
        }
        if &header[..8] != MAGIC {
            return Err(damage("this is not a log segment").into());
        }
        let found = u32_at(header, 8);
        if found > FORMAT {
            return Err(OpenError::Newer {
                file: file.to_path_buf(),
                found,
                known: FORMAT,
            });
        }
        let mut cluster_id = [0; 16];
        cluster_id.copy_from_slice(&header[16..32]);
        Ok(Self {
            cluster_id,
            node_id: u64_at(header, 32),
            sequence: u64_at(header, 40),
            salt: u32_at(header, 12),
            previous_end: u64_at(header, 48),
        })
    }
}

/// The path of segment `sequence`.
pub(crate) fn path(directory: &Path, sequence: u64) -> PathBuf {
    directory.join(format!("{sequence:020}.seg"))
}

/// The number in the name of a segment file, or `None` for any other file.
pub(crate) fn sequence_of(path: &Path) -> Option<u64> {
    if path.extension()? != "seg" {
        return None;
    }
    path.file_stem()?.to_str()?.parse().ok()
}
