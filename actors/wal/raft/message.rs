//! Our own bytes for what controllers tell each other, so that a new version of the consensus
//! library never touches the wire.
//!
//! ```text
//!  request  version, kind, fields        answer  version, kind, fields
//! ```
//!
//! Numbers are little-endian. A length is checked against what is there before it is believed.

use super::fields::{Input, Output};
use crate::peers::Member;
use crate::record::{LogPosition, StoredEntry, StoredVote};

/// Version of the messages; a change is a new version beside this one.
pub(super) const VERSION: u8 = 1;

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
                out.u8(1);
                out.vote(*vote);
                out.position(*previous);
                out.position(*committed);
                out.entries(entries);
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
                out.greeting(greeting);
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
            7 => Self::Greet(input.greeting()?),
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
                out.some_member(leader.as_ref());
            }
            Self::NotMember => out.u8(15),
            Self::Digest(digest) => {
                out.u8(16);
                out.digest(digest.as_ref());
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
