//! The types that the consensus library is told to use.

use std::fmt;
use std::sync::Arc;

use openraft::impls::{BasicNode, leader_id_std};
use openraft::type_config::alias::{EntryOf, LogIdOf, StoredMembershipOf, VoteOf};

/// The groups of one entry.
///
/// `ticket` finds the callers who wait for this entry on this node; it is never stored and is zero
/// for entries that were read from disk or came from a peer.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Groups {
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) ticket: u64,
}

impl fmt::Debug for Groups {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "groups of {} bytes", self.bytes.len())
    }
}

impl fmt::Display for Groups {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, out)
    }
}

openraft::declare_raft_types!(
    /// One leader per term; callers are answered by the state machine, so the response is empty.
    pub(crate) Types:
        D = Groups,
        R = (),
        NodeId = u64,
        Node = BasicNode,
        Term = u64,
        LeaderId = leader_id_std::LeaderId<Self::Term, Self::NodeId>,
);

pub(crate) type Entry = EntryOf<Types>;
pub(crate) type LogId = LogIdOf<Types>;
pub(crate) type Vote = VoteOf<Types>;
pub(crate) type StoredMembership = StoredMembershipOf<Types>;
pub(crate) type Membership = openraft::Membership<u64, BasicNode>;
