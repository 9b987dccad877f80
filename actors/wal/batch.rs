//! A batch: what one write and one sync make durable, in whole blocks.
//!
//! ```text
//!  0 header crc  4 body crc  8 magic  12 records  16 own offset  24 synced up to  32 bytes  40 zero
//! 64 records, padded with zeros to a whole block
//! ```
//!
//! Both checksums are seeded by the salt of the segment's generation and the header names its own
//! offset, so neither old bytes nor a block written to the wrong place can pass. `synced up to` says
//! how much of the segment was durable before this batch: a bad batch below a later one's mark had
//! been acknowledged and is damage; a bad batch that no later one vouches for is a torn tail.

use crate::aligned::AlignedBuffer;
use crate::record::{Record, u32_at, u64_at};

/// Source: the largest logical block of common disks; what O_DIRECT demands.
pub(crate) const BLOCK_BYTES: usize = 4096;
/// Size of the batch header.
pub(crate) const BATCH_HEADER_BYTES: usize = 64;

const MAGIC: u32 = u32::from_le_bytes(*b"XBAT");

/// The header of a batch, after its checksum held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BatchHeader {
    /// Bytes of the segment that were durable before this batch was written.
    pub(crate) synced_upto: u64,
    /// Size with header and padding.
    pub(crate) bytes: u64,
    body_crc: u32,
    records: u32,
}

/// Starts a batch in an empty buffer.
pub(crate) fn begin(buffer: &mut AlignedBuffer) {
    buffer.clear();
    buffer.extend(&[0; BATCH_HEADER_BYTES]);
}

/// Pads the batch and writes its header.
pub(crate) fn finish(
    buffer: &mut AlignedBuffer,
    salt: u32,
    offset: u64,
    synced_upto: u64,
    records: u32,
) {
    buffer.pad(BLOCK_BYTES);
    let total = buffer.len() as u64;
    let body_crc = crc32c::crc32c_append(salt, &buffer.bytes()[BATCH_HEADER_BYTES..]);
    let header = &mut buffer.bytes_mut()[..BATCH_HEADER_BYTES];
    header[4..8].copy_from_slice(&body_crc.to_le_bytes());
    header[8..12].copy_from_slice(&MAGIC.to_le_bytes());
    header[12..16].copy_from_slice(&records.to_le_bytes());
    header[16..24].copy_from_slice(&offset.to_le_bytes());
    header[24..32].copy_from_slice(&synced_upto.to_le_bytes());
    header[32..40].copy_from_slice(&total.to_le_bytes());
    let header_crc = crc32c::crc32c_append(salt, &header[4..]);
    header[..4].copy_from_slice(&header_crc.to_le_bytes());
}

/// Reads the header at `offset`, or `None` when there is no valid one.
pub(crate) fn header_at(segment: &[u8], offset: u64, salt: u32) -> Option<BatchHeader> {
    let start = usize::try_from(offset).ok()?;
    let header = segment.get(start..start.checked_add(BATCH_HEADER_BYTES)?)?;
    let valid = u32_at(header, 0) == crc32c::crc32c_append(salt, &header[4..])
        && u32_at(header, 8) == MAGIC
        && u64_at(header, 16) == offset;
    valid.then(|| BatchHeader {
        body_crc: u32_at(header, 4),
        records: u32_at(header, 12),
        synced_upto: u64_at(header, 24),
        bytes: u64_at(header, 32),
    })
}

/// Why a batch could not be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BatchFault {
    /// The bytes are not what was written.
    Checksum,
    /// The bytes are what was written, but this program does not know them.
    Content(String),
}

/// Reads the records of the batch at `offset`.
///
/// # Errors
/// The body is cut off or does not match its checksum, or holds unknown records.
pub(crate) fn records_at(
    segment: &[u8],
    offset: u64,
    salt: u32,
    header: BatchHeader,
) -> Result<Vec<Record>, BatchFault> {
    let range = usize::try_from(offset)
        .ok()
        .zip(usize::try_from(header.bytes).ok());
    let body = range
        .filter(|(_, bytes)| *bytes >= BLOCK_BYTES && bytes.is_multiple_of(BLOCK_BYTES))
        .and_then(|(start, bytes)| {
            segment.get(start + BATCH_HEADER_BYTES..start.checked_add(bytes)?)
        })
        .ok_or(BatchFault::Checksum)?;
    if crc32c::crc32c_append(salt, body) != header.body_crc {
        return Err(BatchFault::Checksum);
    }
    let mut records = Vec::new();
    let mut at = 0;
    for _ in 0..header.records {
        let (record, size) = Record::decode(&body[at..]).map_err(BatchFault::Content)?;
        records.push(record);
        at = (at + size).min(body.len());
    }
    Ok(records)
}
