//! The bytes of the spool file.
//!
//! ```text
//!   header, 88 bytes:  magic 8 | epoch 8 | committed 8 | incarnation 16 | boot id 44 | crc 4
//!   record:            magic 4 | length 4 | crc 4 | archived report
//!   mark:              magic 4 | length 4 | crc 4 | sequence number, 8
//! ```
//! Numbers are little-endian; a checksum covers what stands before it, and of a record the length
//! and the report.

use rkyv::util::AlignedVec;
use xce_model::Incarnation;
use xce_replica::wire::Report;

/// First bytes of a spool file; the last digit is the version of its form.
const FILE_MAGIC: [u8; 8] = *b"XCESPO01";

/// First bytes of a record, by which reading goes on behind a damaged one.
const RECORD_MAGIC: [u8; 4] = [0xCE, b'r', b'e', b'p'];

/// First bytes of a mark: facts up to its number are committed.
const MARK_MAGIC: [u8; 4] = [0xCE, b'm', b'r', b'k'];

/// Length of the header in bytes. Source: derived, see the picture above.
pub const HEADER_BYTES: usize = 88;

/// Bytes of a record before its report. Source: derived, see the picture above.
pub const RECORD_HEAD_BYTES: usize = 12;

/// Longest report in bytes.
///
/// Source: derived; its longest texts are 4 KiB of stderr and 1 KiB of an error, a hundred times
/// that is no report.
pub const REPORT_BYTES_MAX: usize = 512 * 1024;

/// Longest boot id kept, in bytes. Source: derived, see the picture above; a boot id has 36.
const BOOT_ID_BYTES: usize = 44;

/// What stands at the head of a spool file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Epoch of the sequence numbers.
    pub epoch: u64,
    /// Facts up to this sequence number are committed.
    pub committed: u64,
    /// Whose spool it is.
    pub incarnation: Incarnation,
    /// The boot that it was written in; cut to 44 bytes.
    pub boot_id: String,
}

impl Header {
    /// The header's bytes.
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&FILE_MAGIC);
        bytes[8..16].copy_from_slice(&self.epoch.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.committed.to_le_bytes());
        bytes[24..40].copy_from_slice(&self.incarnation.0);
        let boot = self.boot_id.as_bytes();
        let boot = &boot[..boot.len().min(BOOT_ID_BYTES)];
        bytes[40..40 + boot.len()].copy_from_slice(boot);
        let crc = crc32c::crc32c(&bytes[..HEADER_BYTES - 4]);
        bytes[HEADER_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads a header; `None` when the bytes are none.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; HEADER_BYTES] = bytes.get(..HEADER_BYTES)?.try_into().ok()?;
        let (body, crc) = bytes.split_at(HEADER_BYTES - 4);
        if body[..8] != FILE_MAGIC || crc32c::crc32c(body).to_le_bytes() != crc {
            return None;
        }
        let number = |at: usize| Some(u64::from_le_bytes(body.get(at..at + 8)?.try_into().ok()?));
        let boot = body[40..]
            .split(|byte| *byte == 0)
            .next()
            .unwrap_or_default();
        Some(Self {
            epoch: number(8)?,
            committed: number(16)?,
            incarnation: Incarnation(body[24..40].try_into().ok()?),
            boot_id: String::from_utf8_lossy(boot).into_owned(),
        })
    }
}

/// A report cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a report cannot be kept: {0}")]
pub struct EncodeError(String);

/// Appends a record to a buffer.
///
/// # Errors
/// When the report is longer than [`REPORT_BYTES_MAX`] or cannot be archived.
pub fn encode(report: &Report, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let body = rkyv::to_bytes::<rkyv::rancor::Error>(report)
        .map_err(|error| EncodeError(error.to_string()))?;
    let length = u32::try_from(body.len())
        .ok()
        .filter(|_| body.len() <= REPORT_BYTES_MAX);
    let length = length.ok_or_else(|| EncodeError(format!("{} bytes are too many", body.len())))?;
    let crc = crc32c::crc32c_append(crc32c::crc32c(&length.to_le_bytes()), &body);
    out.extend_from_slice(&RECORD_MAGIC);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&crc.to_le_bytes());
    out.extend_from_slice(&body);
    Ok(())
}

/// Appends a mark to a buffer.
pub fn encode_mark(committed: u64, out: &mut Vec<u8>) {
    let (length, body) = (8_u32.to_le_bytes(), committed.to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&length), &body);
    out.extend_from_slice(&MARK_MAGIC);
    out.extend_from_slice(&length);
    out.extend_from_slice(&crc.to_le_bytes());
    out.extend_from_slice(&body);
}

enum Entry {
    Fact(Report),
    Mark(u64),
}

/// What reading a spool file gave.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// The reports, in the order of the file.
    pub reports: Vec<Report>,
    /// The highest mark; 0 where there is none.
    pub committed: u64,
    /// Up to here the file is good, or was damaged in the middle; the rest is a torn tail.
    pub good_bytes: usize,
    /// Places that were damaged in the middle: from and to, in bytes.
    pub damaged: Vec<(usize, usize)>,
}

/// Reads the records behind the header. Never fails: what is no record is passed over.
pub fn scan(file: &[u8]) -> Scan {
    let mut found = Scan {
        good_bytes: HEADER_BYTES.min(file.len()),
        ..Scan::default()
    };
    let mut at = found.good_bytes;
    while at < file.len() {
        if let Some((entry, length)) = decode(&file[at..]) {
            if at > found.good_bytes {
                found.damaged.push((found.good_bytes, at));
            }
            at += length;
            found.good_bytes = at;
            match entry {
                Entry::Fact(report) => found.reports.push(report),
                Entry::Mark(committed) => found.committed = found.committed.max(committed),
            }
        } else {
            at += 1 + next_magic(&file[at + 1..]);
        }
    }
    found
}

fn next_magic(bytes: &[u8]) -> usize {
    let window = RECORD_MAGIC.len();
    let begins = |part: &[u8]| part == RECORD_MAGIC || part == MARK_MAGIC;
    bytes
        .windows(window)
        .position(begins)
        .unwrap_or(bytes.len())
}

fn decode(bytes: &[u8]) -> Option<(Entry, usize)> {
    let head = bytes.get(..RECORD_HEAD_BYTES)?;
    let word = |at: usize| Some(u32::from_le_bytes(head.get(at..at + 4)?.try_into().ok()?));
    let (length_word, crc) = (word(4)?, word(8)?);
    let length = usize::try_from(length_word)
        .ok()
        .filter(|length| *length <= REPORT_BYTES_MAX)?;
    let body = bytes.get(RECORD_HEAD_BYTES..RECORD_HEAD_BYTES + length)?;
    let found = crc32c::crc32c_append(crc32c::crc32c(&length_word.to_le_bytes()), body);
    let whole = RECORD_HEAD_BYTES + length;
    if found != crc {
        return None;
    }
    if head[..4] == MARK_MAGIC {
        return Some((
            Entry::Mark(u64::from_le_bytes(body.try_into().ok()?)),
            whole,
        ));
    }
    if head[..4] != RECORD_MAGIC {
        return None;
    }
    let mut aligned = AlignedVec::<16>::with_capacity(length);
    aligned.extend_from_slice(body);
    let report = rkyv::from_bytes::<Report, rkyv::rancor::Error>(&aligned).ok()?;
    Some((Entry::Fact(report), whole))
}
