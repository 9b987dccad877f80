//! The records of the log and their bytes. One ordered stream carries all of them.

use std::sync::Arc;

use crate::aligned::AlignedBuffer;

/// Term and index of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LogPosition {
    pub(crate) term: u64,
    pub(crate) index: u64,
}

/// What the payload of an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    /// Nothing: the first entry of a term.
    Blank,
    /// Groups of callers.
    Groups,
    /// A membership.
    Membership,
}

/// One log entry as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredEntry {
    pub(crate) position: LogPosition,
    pub(crate) kind: EntryKind,
    pub(crate) payload: Arc<[u8]>,
}

/// The vote a node gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredVote {
    pub(crate) term: u64,
    pub(crate) node: u64,
    pub(crate) committed: bool,
}

/// What must be known besides the entries; every segment starts with a copy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LogMarks {
    pub(crate) vote: Option<StoredVote>,
    pub(crate) committed: Option<LogPosition>,
    pub(crate) purged: Option<LogPosition>,
    /// The last entry, or the purge point when no entry is kept.
    pub(crate) last: Option<LogPosition>,
}

/// One change of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Record {
    /// An entry follows the last one.
    Entry(StoredEntry),
    /// A vote was given.
    Vote(StoredVote),
    /// All entries after this one are gone; `None` means all.
    Truncate(Option<LogPosition>),
    /// Everything up to here is committed; may lag.
    Committed(LogPosition),
    /// Everything up to here is gone, being covered by a snapshot.
    Purged(LogPosition),
    /// The marks at the start of a segment.
    Marks(LogMarks),
    /// The segment ends before this record, and the next one exists: its loss would be noticed.
    Sealed,
}

impl LogMarks {
    /// Follows one record.
    pub(crate) fn follow(&mut self, record: &Record) {
        match record {
            Record::Entry(entry) => self.last = Some(entry.position),
            Record::Vote(vote) => self.vote = Some(*vote),
            Record::Truncate(last) => self.last = last.or(self.purged),
            Record::Committed(at) => self.committed = Some(*at),
            Record::Purged(at) => {
                self.purged = Some(*at);
                if self.last.is_none_or(|last| last.index < at.index) {
                    self.last = Some(*at);
                }
            }
            Record::Marks(marks) => *self = *marks,
            Record::Sealed => {}
        }
    }
}

/// Bytes of a record's header: kind, version, detail, zero, length (u32), two u64.
const HEADER_BYTES: usize = 24;
/// Records start at multiples of this.
const RECORD_ALIGN: usize = 8;
/// Version of the records' layout.
const RECORD_VERSION: u8 = 1;

const KIND_ENTRY: u8 = 1;
const KIND_VOTE: u8 = 2;
const KIND_TRUNCATE: u8 = 3;
const KIND_COMMITTED: u8 = 4;
const KIND_PURGED: u8 = 5;
const KIND_MARKS: u8 = 6;
const KIND_SEALED: u8 = 7;

const DETAIL_BLANK: u8 = 0;
const DETAIL_GROUPS: u8 = 1;
const DETAIL_MEMBERSHIP: u8 = 2;

/// Bytes of the payload of [`Record::Marks`]: flags and seven numbers, see `marks_bytes`.
const MARKS_BYTES: usize = 72;

impl Record {
    /// Bytes that the record takes in a batch.
    pub(crate) fn encoded_bytes(&self) -> usize {
        let payload = match self {
            Self::Entry(entry) => entry.payload.len(),
            Self::Marks(_) => MARKS_BYTES,
            Self::Vote(_)
            | Self::Truncate(_)
            | Self::Committed(_)
            | Self::Purged(_)
            | Self::Sealed => 0,
        };
        (HEADER_BYTES + payload).next_multiple_of(RECORD_ALIGN)
    }

    /// Appends the record's bytes.
    pub(crate) fn encode(&self, out: &mut AlignedBuffer) {
        match self {
            Self::Entry(entry) => {
                let detail = match entry.kind {
                    EntryKind::Blank => DETAIL_BLANK,
                    EntryKind::Groups => DETAIL_GROUPS,
                    EntryKind::Membership => DETAIL_MEMBERSHIP,
                };
                put(out, KIND_ENTRY, detail, entry.position, &entry.payload);
            }
            Self::Vote(vote) => {
                let pair = LogPosition {
                    term: vote.node,
                    index: vote.term,
                };
                put(out, KIND_VOTE, u8::from(vote.committed), pair, &[]);
            }
            Self::Truncate(last) => {
                let at = last.unwrap_or(LogPosition { term: 0, index: 0 });
                put(out, KIND_TRUNCATE, u8::from(last.is_some()), at, &[]);
            }
            Self::Committed(at) => put(out, KIND_COMMITTED, 0, *at, &[]),
            Self::Purged(at) => put(out, KIND_PURGED, 0, *at, &[]),
            Self::Sealed => put(out, KIND_SEALED, 0, LogPosition { term: 0, index: 0 }, &[]),
            Self::Marks(marks) => {
                let zero = LogPosition { term: 0, index: 0 };
                put(out, KIND_MARKS, 0, zero, &marks_bytes(marks));
            }
        }
    }

    /// Reads the record at the start of `bytes` and says how many bytes it takes.
    ///
    /// # Errors
    /// Says what is wrong; `bytes` passed their checksum, so this is a newer or a faulty writer.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Self, usize), String> {
        let header = bytes
            .get(..HEADER_BYTES)
            .ok_or("a record header is cut off")?;
        let (kind, version, detail) = (header[0], header[1], header[2]);
        if version != RECORD_VERSION {
            return Err(format!("record version {version} is not known"));
        }
        let len = u32_at(header, 4) as usize;
        let at = LogPosition {
            index: u64_at(header, 8),
            term: u64_at(header, 16),
        };
        let payload = bytes
            .get(HEADER_BYTES..HEADER_BYTES + len)
            .ok_or_else(|| format!("a record of {len} bytes is cut off"))?;
        let size = (HEADER_BYTES + len).next_multiple_of(RECORD_ALIGN);
        let record = match kind {
            KIND_ENTRY => Self::Entry(StoredEntry {
                position: at,
                kind: entry_kind(detail)?,
                payload: payload.into(),
            }),
            KIND_VOTE => Self::Vote(StoredVote {
                term: at.index,
                node: at.term,
                committed: detail == 1,
            }),
            KIND_TRUNCATE => Self::Truncate((detail == 1).then_some(at)),
            KIND_COMMITTED => Self::Committed(at),
            KIND_PURGED => Self::Purged(at),
            KIND_MARKS => Self::Marks(marks_from(payload)?),
            KIND_SEALED => Self::Sealed,
            other => return Err(format!("record kind {other} is not known")),
        };
        Ok((record, size))
    }
}

fn entry_kind(detail: u8) -> Result<EntryKind, String> {
    match detail {
        DETAIL_BLANK => Ok(EntryKind::Blank),
        DETAIL_GROUPS => Ok(EntryKind::Groups),
        DETAIL_MEMBERSHIP => Ok(EntryKind::Membership),
        other => Err(format!("entry kind {other} is not known")),
    }
}

fn put(out: &mut AlignedBuffer, kind: u8, detail: u8, at: LogPosition, payload: &[u8]) {
    let len = u32::try_from(payload.len()).expect("entries are bounded by the configuration");
    let mut header = [0; HEADER_BYTES];
    header[0] = kind;
    header[1] = RECORD_VERSION;
    header[2] = detail;
    header[4..8].copy_from_slice(&len.to_le_bytes());
    header[8..16].copy_from_slice(&at.index.to_le_bytes());
    header[16..24].copy_from_slice(&at.term.to_le_bytes());
    out.extend(&header);
    out.extend(payload);
    out.pad(RECORD_ALIGN);
}

/// Flags (bits 0 vote, 1 vote committed, 2 committed, 3 purged, 4 last), then eight u64.
fn marks_bytes(marks: &LogMarks) -> [u8; MARKS_BYTES] {
    let mut out = [0; MARKS_BYTES];
    let vote = marks.vote;
    out[0] = u8::from(vote.is_some())
        | u8::from(vote.is_some_and(|vote| vote.committed)) << 1
        | u8::from(marks.committed.is_some()) << 2
        | u8::from(marks.purged.is_some()) << 3
        | u8::from(marks.last.is_some()) << 4;
    let vote = vote.map(|vote| LogPosition {
        term: vote.node,
        index: vote.term,
    });
    for (place, pair) in [vote, marks.committed, marks.purged, marks.last]
        .iter()
        .enumerate()
    {
        if let Some(pair) = pair {
            let at = 8 + place * 16;
            out[at..at + 8].copy_from_slice(&pair.index.to_le_bytes());
            out[at + 8..at + 16].copy_from_slice(&pair.term.to_le_bytes());
        }
    }
    out
}

fn marks_from(bytes: &[u8]) -> Result<LogMarks, String> {
    if bytes.len() != MARKS_BYTES {
        return Err(format!(
            "marks of {} bytes instead of {MARKS_BYTES}",
            bytes.len()
        ));
    }
    let flag = |bit: u8| bytes[0] >> bit & 1 == 1;
    let pair = |place: usize| LogPosition {
        index: u64_at(bytes, 8 + place * 16),
        term: u64_at(bytes, 16 + place * 16),
    };
    let vote = StoredVote {
        term: pair(0).index,
        node: pair(0).term,
        committed: flag(1),
    };
    Ok(LogMarks {
        vote: flag(0).then_some(vote),
        committed: flag(2).then(|| pair(1)),
        purged: flag(3).then(|| pair(2)),
        last: flag(4).then(|| pair(3)),
    })
}

/// Reads a little-endian u32; the caller has checked the length.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

/// Reads a little-endian u64; the caller has checked the length.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}
