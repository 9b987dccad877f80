//! Our own bytes for what controllers tell each other, so that a new version of the consensus
//! library never touches the wire.
//!
//! ```text
//!  request  version, kind, fields        answer  version, kind, fields
//! ```
//!
//! Numbers are little-endian. A length is checked against what is there before it is believed.

use std::sync::Arc;

use crate::peers::Member;
use crate::record::{EntryKind, LogPosition, StoredEntry, StoredVote};

/// Version of the messages; a change is a new version beside this one.
const VERSION: u8 = 1;

/// What one controller asks of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PeerRequest {
    /// Entries to append, or a beat when there are none.
    Append {
        vote: StoredVote,
        previous: Option<LogPosition>,
        committed: Option<LogPosition>,
        entries: Vec<StoredEntry>,
    },
    /// A vote, or only whether it would be given.
    Vote {
        vote: StoredVote,
        last: Option<LogPosition>,
        transfer: bool,
        /// Nothing is remembered of it.
        only_ask: bool,
    },
    /// Take over from the primary.
    Transfer {
        vote: StoredVote,
        to: u64,
        last: Option<LogPosition>,
    },
    /// A snapshot follows in parts.
    SnapshotOffer(SnapshotName),
    /// A part of it.
    SnapshotPart {
        name: SnapshotName,
        offset: u64,
        data: Vec<u8>,
    },
    /// All parts were sent; install it.
    SnapshotInstall {
        vote: StoredVote,
        name: SnapshotName,
    },
    /// It has just started, and wants to know what was seen of it.
    Greet(Greeting),
    /// It has lost its log, and wants to be taken in again.
    Rejoin(Member),
    /// Which start it is that answers here.
    Who,
    /// The hash of its state at a position.
    Digest(u64),
    /// Its state at that position is not what most have.
    Differs(u64),
}

/// What a controller says of itself when it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Greeting {
    pub(crate) node: u64,
    /// Which directory; a copy has the same.
    pub(crate) birth: u64,
    /// Which start; nobody else has the same.
    pub(crate) start: u64,
    /// The highest term that it knows.
    pub(crate) term: u64,
    /// The end of its log.
    pub(crate) last: Option<LogPosition>,
}

/// Names the content of a snapshot file: the same on every controller that wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SnapshotName {
    pub(crate) last: LogPosition,
    pub(crate) bytes: u64,
    /// The hash in the footer of the file.
    pub(crate) hash: [u8; 32],
}

/// What it is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PeerAnswer {
    /// It was not carried out.
    Failed(String),
    Appended,
    AppendedUpTo(Option<LogPosition>),
    AppendConflict,
    HigherVote(StoredVote),
    Voted {
        vote: StoredVote,
        granted: bool,
        last: Option<LogPosition>,
    },
    TransferAccepted,
    TransferVoteChanged(StoredVote),
    TransferLogMissing(Option<LogPosition>),
    /// So many bytes of the snapshot are here.
    SnapshotHeld(u64),
    SnapshotInstalled(StoredVote),
    /// To a greeting: how far its log was seen, if that is further than it says, and where another
    /// process runs under its number.
    Seen {
        matched: Option<LogPosition>,
        elsewhere: Option<String>,
    },
    /// Who answers here.
    Am {
        birth: u64,
        start: u64,
    },
    /// It is a learner now, and what it had before no longer counts.
    TakenIn,
    /// Another one is the primary, if any.
    NotPrimary(Option<Member>),
    /// It does not belong to the cluster.
    NotMember,
    /// The hash of the state, if there is one at that position.
    Digest(Option<[u8; 32]>),
}

impl PeerRequest {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Output::new();
        match self {
            Self::Append {
                vote,
                previous,
                committed,
                entries,
            } => {
                let payload: usize = entries.iter().map(|entry| entry.payload.len() + 21).sum();
                out.bytes.reserve(payload + 96);
                out.u8(1);
                out.vote(*vote);
                out.position(*previous);
                out.position(*committed);
                out.length(entries.len());
                for entry in entries {
                    out.entry(entry);
                }
            }
            Self::Vote {
                vote,
                last,
                transfer,
                only_ask,
            } => {
                out.u8(2);
                out.vote(*vote);
                out.position(*last);
                out.u8(u8::from(*transfer));
                out.u8(u8::from(*only_ask));
            }
            Self::Transfer { vote, to, last } => {
                out.u8(3);
                out.vote(*vote);
                out.u64(*to);
                out.position(*last);
            }
            Self::SnapshotOffer(name) => {
                out.u8(4);
                out.name(name);
            }
            Self::SnapshotPart { name, offset, data } => {
                out.bytes.reserve(data.len() + 96);
                out.u8(5);
                out.name(name);
                out.u64(*offset);
                out.text(data);
            }
            Self::SnapshotInstall { vote, name } => {
                out.u8(6);
                out.vote(*vote);
                out.name(name);
            }
            Self::Greet(greeting) => {
                out.u8(7);
                for number in [greeting.node, greeting.birth, greeting.start, greeting.term] {
                    out.u64(number);
                }
                out.position(greeting.last);
            }
            Self::Rejoin(member) => {
                out.u8(8);
                out.member(member);
            }
            Self::Who => out.u8(9),
            Self::Digest(lsn) => {
                out.u8(10);
                out.u64(*lsn);
            }
            Self::Differs(lsn) => {
                out.u8(11);
                out.u64(*lsn);
            }
        }
        out.bytes
    }

    /// # Errors
    /// Says what is wrong with the bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let mut input = Input::new(bytes)?;
        let request = match input.u8()? {
            1 => {
                let (vote, previous) = (input.vote()?, input.position()?);
                let committed = input.position()?;
                let count = input.length()?;
                let mut entries = Vec::new();
                for _ in 0..count {
                    entries.push(input.entry()?);
                }
                Self::Append {
                    vote,
                    previous,
                    committed,
                    entries,
                }
            }
            2 => Self::Vote {
                vote: input.vote()?,
                last: input.position()?,
                transfer: input.flag()?,
                only_ask: input.flag()?,
            },
            3 => Self::Transfer {
                vote: input.vote()?,
                to: input.u64()?,
                last: input.position()?,
            },
            4 => Self::SnapshotOffer(input.name()?),
            5 => Self::SnapshotPart {
                name: input.name()?,
                offset: input.u64()?,
                data: input.text()?.to_vec(),
            },
            6 => Self::SnapshotInstall {
                vote: input.vote()?,
                name: input.name()?,
            },
            7 => Self::Greet(Greeting {
                node: input.u64()?,
                birth: input.u64()?,
                start: input.u64()?,
                term: input.u64()?,
                last: input.position()?,
            }),
            8 => Self::Rejoin(input.member()?),
            9 => Self::Who,
            10 => Self::Digest(input.u64()?),
            11 => Self::Differs(input.u64()?),
            other => return Err(format!("request {other} is not known here")),
        };
        input.end()?;
        Ok(request)
    }
}

impl PeerAnswer {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Output::new();
        match self {
            Self::Failed(text) => {
                out.u8(0);
                out.text(text.as_bytes());
            }
            Self::Appended => out.u8(1),
            Self::AppendedUpTo(last) => {
                out.u8(2);
                out.position(*last);
            }
            Self::AppendConflict => out.u8(3),
            Self::HigherVote(vote) => {
                out.u8(4);
                out.vote(*vote);
            }
            Self::Voted {
                vote,
                granted,
                last,
            } => {
                out.u8(5);
                out.vote(*vote);
                out.u8(u8::from(*granted));
                out.position(*last);
            }
            Self::TransferAccepted => out.u8(6),
            Self::TransferVoteChanged(vote) => {
                out.u8(7);
                out.vote(*vote);
            }
            Self::TransferLogMissing(last) => {
                out.u8(8);
                out.position(*last);
            }
            Self::SnapshotHeld(bytes) => {
                out.u8(9);
                out.u64(*bytes);
            }
            Self::SnapshotInstalled(vote) => {
                out.u8(10);
                out.vote(*vote);
            }
            Self::Seen { matched, elsewhere } => {
                out.u8(11);
                out.position(*matched);
                out.text(elsewhere.as_deref().unwrap_or_default().as_bytes());
            }
            Self::Am { birth, start } => {
                out.u8(12);
                out.u64(*birth);
                out.u64(*start);
            }
            Self::TakenIn => out.u8(13),
            Self::NotPrimary(leader) => {
                out.u8(14);
                out.u8(u8::from(leader.is_some()));
                if let Some(leader) = leader {
                    out.member(leader);
                }
            }
            Self::NotMember => out.u8(15),
            Self::Digest(digest) => {
                out.u8(16);
                out.u8(u8::from(digest.is_some()));
                out.bytes
                    .extend_from_slice(digest.as_ref().map_or(&[], |digest| &digest[..]));
            }
        }
        out.bytes
    }

    /// # Errors
    /// Says what is wrong with the bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let mut input = Input::new(bytes)?;
        let answer = match input.u8()? {
            0 => Self::Failed(String::from_utf8_lossy(input.text()?).into_owned()),
            1 => Self::Appended,
            2 => Self::AppendedUpTo(input.position()?),
            3 => Self::AppendConflict,
            4 => Self::HigherVote(input.vote()?),
            5 => Self::Voted {
                vote: input.vote()?,
                granted: input.flag()?,
                last: input.position()?,
            },
            6 => Self::TransferAccepted,
            7 => Self::TransferVoteChanged(input.vote()?),
            8 => Self::TransferLogMissing(input.position()?),
            9 => Self::SnapshotHeld(input.u64()?),
            10 => Self::SnapshotInstalled(input.vote()?),
            11 => {
                let (matched, elsewhere) = (input.position()?, input.words()?);
                Self::Seen {
                    matched,
                    elsewhere: (!elsewhere.is_empty()).then_some(elsewhere),
                }
            }
            12 => Self::Am {
                birth: input.u64()?,
                start: input.u64()?,
            },
            13 => Self::TakenIn,
            14 => {
                let is_known = input.flag()?;
                Self::NotPrimary(is_known.then(|| input.member()).transpose()?)
            }
            15 => Self::NotMember,
            16 => {
                let is_known = input.flag()?;
                Self::Digest(is_known.then(|| input.array()).transpose()?)
            }
            other => return Err(format!("answer {other} is not known here")),
        };
        input.end()?;
        Ok(answer)
    }
}

struct Output {
    bytes: Vec<u8>,
}

impl Output {
    fn new() -> Self {
        Self {
            bytes: vec![VERSION],
        }
    }

    fn u8(&mut self, number: u8) {
        self.bytes.push(number);
    }

    fn u64(&mut self, number: u64) {
        self.bytes.extend_from_slice(&number.to_le_bytes());
    }

    fn length(&mut self, length: usize) {
        let length = u32::try_from(length).expect("a message is far below 4 GiB");
        self.bytes.extend_from_slice(&length.to_le_bytes());
    }

    fn text(&mut self, bytes: &[u8]) {
        self.length(bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    fn vote(&mut self, vote: StoredVote) {
        self.u64(vote.term);
        self.u64(vote.node);
        self.u8(u8::from(vote.committed));
    }

    fn position(&mut self, at: Option<LogPosition>) {
        self.u8(u8::from(at.is_some()));
        if let Some(at) = at {
            self.u64(at.term);
            self.u64(at.index);
        }
    }

    fn entry(&mut self, entry: &StoredEntry) {
        self.u64(entry.position.term);
        self.u64(entry.position.index);
        self.u8(match entry.kind {
            EntryKind::Blank => 0,
            EntryKind::Groups => 1,
            EntryKind::Membership => 2,
        });
        self.text(&entry.payload);
    }

    fn member(&mut self, member: &Member) {
        self.u64(member.node);
        self.text(member.address.as_bytes());
    }

    fn name(&mut self, name: &SnapshotName) {
        self.u64(name.last.term);
        self.u64(name.last.index);
        self.u64(name.bytes);
        self.bytes.extend_from_slice(&name.hash);
    }
}

/// Bytes that are consumed from the front.
struct Input<'a> {
    bytes: &'a [u8],
}

impl<'a> Input<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self, String> {
        let mut input = Self { bytes };
        match input.u8()? {
            VERSION => Ok(input),
            other => Err(format!(
                "the message has version {other}, this program knows {VERSION}"
            )),
        }
    }

    fn end(&self) -> Result<(), String> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        Err(format!("{} bytes follow the message", self.bytes.len()))
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (head, rest) = self
            .bytes
            .split_at_checked(count)
            .ok_or("the message is cut off")?;
        self.bytes = rest;
        Ok(head)
    }

    fn array<const BYTES: usize>(&mut self) -> Result<[u8; BYTES], String> {
        let (head, rest) = self
            .bytes
            .split_first_chunk::<BYTES>()
            .ok_or("the message is cut off")?;
        self.bytes = rest;
        Ok(*head)
    }

    fn u8(&mut self) -> Result<u8, String> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u64(&mut self) -> Result<u64, String> {
        self.array().map(u64::from_le_bytes)
    }

    fn length(&mut self) -> Result<usize, String> {
        self.array()
            .map(u32::from_le_bytes)
            .map(|length| length as usize)
    }

    fn text(&mut self) -> Result<&'a [u8], String> {
        let length = self.length()?;
        self.take(length)
    }

    fn flag(&mut self) -> Result<bool, String> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(format!("{other} is neither yes nor no")),
        }
    }

    fn vote(&mut self) -> Result<StoredVote, String> {
        Ok(StoredVote {
            term: self.u64()?,
            node: self.u64()?,
            committed: self.flag()?,
        })
    }

    fn position(&mut self) -> Result<Option<LogPosition>, String> {
        if !self.flag()? {
            return Ok(None);
        }
        Ok(Some(LogPosition {
            term: self.u64()?,
            index: self.u64()?,
        }))
    }

    fn entry(&mut self) -> Result<StoredEntry, String> {
        let position = LogPosition {
            term: self.u64()?,
            index: self.u64()?,
        };
        let kind = match self.u8()? {
            0 => EntryKind::Blank,
            1 => EntryKind::Groups,
            2 => EntryKind::Membership,
            other => return Err(format!("entries of kind {other} are not known here")),
        };
        Ok(StoredEntry {
            position,
            kind,
            payload: Arc::from(self.text()?),
        })
    }

    fn words(&mut self) -> Result<String, String> {
        let bytes = self.text()?.to_vec();
        String::from_utf8(bytes).map_err(|_| "a text is not UTF-8".to_owned())
    }

    fn member(&mut self) -> Result<Member, String> {
        Ok(Member {
            node: self.u64()?,
            address: self.words()?,
        })
    }

    fn name(&mut self) -> Result<SnapshotName, String> {
        Ok(SnapshotName {
            last: LogPosition {
                term: self.u64()?,
                index: self.u64()?,
            },
            bytes: self.u64()?,
            hash: self.array()?,
        })
    }
}
