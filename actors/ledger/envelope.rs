//! The envelope around every persisted body: 16 bytes, little-endian, then the body.
//!
//! ```text
//!  0      2         3            4             8        12        14      16
//!  │ kind │ version │ min reader │ fingerprint │ stored │ trimmed │ check │ body … pad to 16
//! ```
//!
//! The body is the value's archive, whose layout *is* its schema: the fingerprint of that layout is
//! compared before the body is looked at, since an archive of another layout often validates and
//! then says something else. Archives of enums are as long as their largest variant; the zeros at
//! the end are not stored, only counted in `trimmed`. `check` is a fold of the CRC-32C of all that
//! stands before it and of the body: the last line of defence, the log and the snapshot have full
//! checksums of their own.

use rkyv::api::high::{HighDeserializer, HighSerializer, HighValidator};
use rkyv::bytecheck::CheckBytes;
use rkyv::rancor::Error as ArchiveError;
use rkyv::ser::allocator::ArenaHandle;
use rkyv::util::AlignedVec;
use rkyv::{Archive, Deserialize, Serialize};

/// Bytes of the envelope, and the alignment of bodies. Source: the picture above; archives of 128-bit
/// integers need 16.
pub const ENVELOPE_BYTES: usize = 16;

/// Identity of one persisted type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Number of the kind; never given to another type.
    pub kind: u16,
    /// Its name in messages.
    pub name: &'static str,
    /// Version of the body.
    pub version: u8,
    /// Lowest version of a program's knowledge that can read the body.
    pub min_reader: u8,
    /// Fingerprint of the archive's layout: the CRC-32C of a sample's archive, pinned by a test.
    pub fingerprint: u32,
}

/// An earlier version of a kind, which is read by way of its frozen body.
pub(crate) struct Past<Value> {
    /// Identity of the body.
    pub shape: Shape,
    read: fn(&Raw<'_>, &Shape) -> Result<Value, DecodeError>,
}

impl<Value> Past<Value> {
    /// The version with this shape, whose body converts into the value of now.
    pub const fn of<Body>(shape: Shape) -> Self
    where
        Value: From<Body>,
        Body: Archive,
        Body::Archived: for<'a> CheckBytes<HighValidator<'a, ArchiveError>>
            + Deserialize<Body, HighDeserializer<ArchiveError>>,
    {
        Self {
            shape,
            read: |raw, shape| raw.read::<Body>(shape).map(Value::from),
        }
    }
}

/// Why persisted bytes could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end inside a record.
    #[error("a record ends after {found} bytes of {wanted}")]
    Short {
        /// Bytes that there are.
        found: usize,
        /// Bytes that there should be.
        wanted: usize,
    },
    /// A kind that this program does not know.
    #[error(
        "record kind {kind} version {version} is unknown here: it was written by a newer program; use that one"
    )]
    UnknownKind {
        /// The kind.
        kind: u16,
        /// Its version.
        version: u8,
    },
    /// A version that this program cannot read.
    #[error("{name} has version {version}, this program reads up to {known}: use a newer one")]
    Newer {
        /// Name of the kind.
        name: &'static str,
        /// Version found.
        version: u8,
        /// Highest version known.
        known: u8,
    },
    /// The version is known and its layout is another: two builds disagree about one version.
    #[error(
        "{name} version {version} has layout {found:08x}, this program knows {known:08x}: it was built from other sources"
    )]
    Layout {
        /// Name of the kind.
        name: &'static str,
        /// Its version.
        version: u8,
        /// Fingerprint found.
        found: u32,
        /// Fingerprint known.
        known: u32,
    },
    /// The body is not what was written.
    #[error("{name} is damaged: {detail}")]
    Damaged {
        /// Name of the kind.
        name: &'static str,
        /// What is wrong.
        detail: String,
    },
    /// A record of this kind does not belong here.
    #[error("{found} stands where {wanted} is due")]
    Misplaced {
        /// Name or number of the kind found.
        found: String,
        /// What is due there.
        wanted: &'static str,
    },
}

/// What can be put into an envelope.
pub(crate) trait Body:
    for<'a> Serialize<HighSerializer<AlignedVec, ArenaHandle<'a>, ArchiveError>>
{
}

impl<T> Body for T where
    T: for<'a> Serialize<HighSerializer<AlignedVec, ArenaHandle<'a>, ArchiveError>>
{
}

/// The archive of a value. Never fails: our bodies have no shared or fallible parts.
pub(crate) fn archive<T: Body>(value: &T) -> AlignedVec {
    rkyv::to_bytes::<ArchiveError>(value).expect("an archive in memory cannot fail")
}

/// Appends a value in its envelope, padded to 16 bytes.
pub(crate) fn put<T: Body>(out: &mut Vec<u8>, shape: &Shape, value: &T) {
    let body = archive(value);
    let kept = body
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |place| place + 1);
    let trimmed = u16::try_from(body.len() - kept).unwrap_or(u16::MAX);
    let stored = &body[..body.len() - usize::from(trimmed)];
    let length = u32::try_from(stored.len()).expect("a record is below 4 GiB: inputs are bounded");
    let mut head = [0; ENVELOPE_BYTES];
    head[..2].copy_from_slice(&shape.kind.to_le_bytes());
    head[2] = shape.version;
    head[3] = shape.min_reader;
    head[4..8].copy_from_slice(&shape.fingerprint.to_le_bytes());
    head[8..12].copy_from_slice(&length.to_le_bytes());
    head[12..14].copy_from_slice(&trimmed.to_le_bytes());
    let check = fold(&head, stored).to_le_bytes();
    head[14..].copy_from_slice(&check);
    out.extend_from_slice(&head);
    out.extend_from_slice(stored);
    out.resize(out.len().next_multiple_of(ENVELOPE_BYTES), 0);
}

/// Over the envelope but for the check itself, and the body.
fn fold(head: &[u8; ENVELOPE_BYTES], stored: &[u8]) -> u16 {
    let full = crc32c::crc32c_append(crc32c::crc32c(&head[..14]), stored).to_le_bytes();
    u16::from_le_bytes([full[0] ^ full[2], full[1] ^ full[3]])
}

/// A record as found: envelope checked for length only.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Raw<'a> {
    pub kind: u16,
    pub version: u8,
    min_reader: u8,
    fingerprint: u32,
    trimmed: u16,
    is_whole: bool,
    stored: &'a [u8],
}

/// Splits the first record off.
pub(crate) fn take<'a>(bytes: &mut &'a [u8]) -> Result<Raw<'a>, DecodeError> {
    let whole = *bytes;
    let short = |wanted| DecodeError::Short {
        found: whole.len(),
        wanted,
    };
    let Some((head, rest)) = whole.split_first_chunk::<ENVELOPE_BYTES>() else {
        return Err(short(ENVELOPE_BYTES));
    };
    let length = u32::from_le_bytes([head[8], head[9], head[10], head[11]]) as usize;
    let padded = length.next_multiple_of(ENVELOPE_BYTES);
    if rest.len() < padded {
        return Err(short(ENVELOPE_BYTES + padded));
    }
    *bytes = &rest[padded..];
    Ok(Raw {
        kind: u16::from_le_bytes([head[0], head[1]]),
        version: head[2],
        min_reader: head[3],
        fingerprint: u32::from_le_bytes([head[4], head[5], head[6], head[7]]),
        trimmed: u16::from_le_bytes([head[12], head[13]]),
        is_whole: u16::from_le_bytes([head[14], head[15]]) == fold(head, &rest[..length]),
        stored: &rest[..length],
    })
}

impl Raw<'_> {
    /// The error for a kind that the reader does not know.
    pub fn unknown(&self) -> DecodeError {
        DecodeError::UnknownKind {
            kind: self.kind,
            version: self.version,
        }
    }

    /// The value, from the version of now or from an earlier one.
    pub fn read_any<T>(&self, now: &Shape, past: &[Past<T>]) -> Result<T, DecodeError>
    where
        T: Archive,
        T::Archived: for<'a> CheckBytes<HighValidator<'a, ArchiveError>>
            + Deserialize<T, HighDeserializer<ArchiveError>>,
    {
        match past.iter().find(|past| past.shape.version == self.version) {
            Some(past) => (past.read)(self, &past.shape),
            None => self.read(now),
        }
    }

    /// The value, after version, layout, checksum and every byte were checked.
    pub fn read<T>(&self, shape: &Shape) -> Result<T, DecodeError>
    where
        T: Archive,
        T::Archived: for<'a> CheckBytes<HighValidator<'a, ArchiveError>>
            + Deserialize<T, HighDeserializer<ArchiveError>>,
    {
        let name = shape.name;
        if self.version != shape.version || self.min_reader > shape.version {
            return Err(DecodeError::Newer {
                name,
                version: self.version,
                known: shape.version,
            });
        }
        if self.fingerprint != shape.fingerprint {
            return Err(DecodeError::Layout {
                name,
                version: self.version,
                found: self.fingerprint,
                known: shape.fingerprint,
            });
        }
        let damaged = |detail: String| DecodeError::Damaged { name, detail };
        if !self.is_whole {
            return Err(damaged("its checksum differs".to_owned()));
        }
        let full = self.stored.len() + usize::from(self.trimmed);
        let mut body: AlignedVec = AlignedVec::with_capacity(full);
        body.extend_from_slice(self.stored);
        body.resize(full, 0);
        rkyv::from_bytes::<T, ArchiveError>(&body).map_err(|error| damaged(error.to_string()))
    }
}
