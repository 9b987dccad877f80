//! How controllers reach each other: bytes out, bytes in. The transport is the caller's.
//!
//! ```text
//!   consensus ─► Peers::call(member, lane, bytes) ══ transport ══► Wal::answer(bytes) ─► consensus
//! ```
//!
//! A transport may lose, delay, repeat and reorder messages; it must not deliver to another
//! controller than the one named, nor change a byte.

use std::time::Duration;

use futures::future::BoxFuture;

/// A controller as the others know it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    /// Its number, from 1; never given to another controller.
    pub node: u64,
    /// Where it listens, `host:port`; empty for one that never had a peer.
    pub address: String,
}

/// Which way a message takes, so that none waits behind a longer one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Votes and beats: some hundred bytes.
    Control,
    /// Log entries: at most some MiB.
    Log,
    /// Parts of a snapshot: at most [`SNAPSHOT_PART_BYTES`] each.
    Snapshot,
}

/// Bytes of one part of a snapshot on its way to a standby.
///
/// Source: measured in the foundations; 1 MiB frames lose nothing to larger ones.
pub const SNAPSHOT_PART_BYTES: usize = 1 << 20;

/// Why a peer gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// There is no connection, and trying again at once is of no use.
    #[error("controller {node} is not reached: {detail}")]
    Unreachable {
        /// Which.
        node: u64,
        /// Why.
        detail: String,
    },
    /// It did not answer in time, or the connection broke meanwhile.
    #[error("controller {node} did not answer: {detail}")]
    NoAnswer {
        /// Which.
        node: u64,
        /// Why.
        detail: String,
    },
}

/// Carries messages of consensus to other controllers.
pub trait Peers: Send + Sync + 'static {
    /// Gives a request to the [`Wal::answer`](crate::Wal::answer) of a controller, and its answer
    /// back.
    ///
    /// Ends within `within`, or may be dropped then.
    fn call(
        &self,
        to: Member,
        lane: Lane,
        request: Vec<u8>,
        within: Duration,
    ) -> BoxFuture<'static, Result<Vec<u8>, PeerError>>;
}

/// The transport of a controller that is alone: there is nobody to reach.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoPeers;

impl Peers for NoPeers {
    fn call(
        &self,
        to: Member,
        _lane: Lane,
        _request: Vec<u8>,
        _within: Duration,
    ) -> BoxFuture<'static, Result<Vec<u8>, PeerError>> {
        Box::pin(std::future::ready(Err(PeerError::Unreachable {
            node: to.node,
            detail: "this controller has no way to others".to_owned(),
        })))
    }
}

/// What this controller is in its cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// It leads: all its log is applied and an entry of this term is committed.
    Primary {
        /// The term that it leads in.
        term: u64,
    },
    /// Another one leads, or none does.
    Standby {
        /// Who leads, if known.
        leader: Option<Member>,
        /// The highest term seen.
        term: u64,
    },
}

impl Default for Role {
    fn default() -> Self {
        Self::Standby {
            leader: None,
            term: 0,
        }
    }
}

impl Role {
    /// The term it leads in, if it leads.
    pub const fn primary_term(&self) -> Option<u64> {
        match self {
            Self::Primary { term } => Some(*term),
            Self::Standby { .. } => None,
        }
    }
}

/// One controller of the cluster, as this one sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberState {
    /// Who.
    pub member: Member,
    /// Whether it has a vote; a learner has none.
    pub voter: bool,
    /// Up to where its log equals the primary's; known to the primary only.
    pub matched: Option<u64>,
    /// How long ago it last answered, in milliseconds; known to the primary only.
    pub heard_ms: Option<u64>,
}

/// A change of the membership.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberChange {
    /// Takes a controller in without a vote; the log is sent to it from then on.
    AddLearner(Member),
    /// Gives a learner its vote.
    Promote(u64),
    /// Takes a controller out, whether it has a vote or not.
    Remove(u64),
    /// Another address of a controller that is in.
    SetAddress(Member),
}

/// Why the membership could not be changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MembershipError {
    /// This controller does not lead.
    #[error("this controller is not the primary")]
    NotPrimary {
        /// Who leads, if known.
        leader: Option<Member>,
    },
    /// Another change is under way; one at a time.
    #[error("another change of the membership is under way; wait for it and try again")]
    Busy,
    /// It makes no sense as things are.
    #[error("{0}")]
    Refused(String),
    /// It was not confirmed in time, or consensus ended: look at the membership before trying again.
    #[error("it is not known whether the membership was changed: {0}")]
    Unknown(String),
}
