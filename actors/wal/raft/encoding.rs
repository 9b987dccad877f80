//! Our own bytes for what the consensus library wants remembered, so that a new version of it never
//! touches the disk.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use openraft::EntryPayload;
use openraft::impls::BasicNode;

use super::types::{Entry, Groups, LogId, Membership, StoredMembership, Vote};
use crate::record::{EntryKind, LogPosition, StoredEntry, StoredVote, u32_at, u64_at};

/// Version of the membership's layout.
const MEMBERSHIP_VERSION: u32 = 1;

pub(crate) fn position(id: &LogId) -> LogPosition {
    LogPosition {
        term: id.committed_leader_id().term,
        index: id.index(),
    }
}

pub(crate) fn log_id(at: LogPosition) -> LogId {
    LogId::new_term_index(at.term, at.index)
}

pub(crate) fn stored_vote(vote: &Vote) -> StoredVote {
    let leader = vote.leader_id();
    StoredVote {
        term: leader.term,
        node: leader.voted_for,
        committed: vote.is_committed(),
    }
}

pub(crate) fn vote(stored: StoredVote) -> Vote {
    if stored.committed {
        Vote::new_committed(stored.term, stored.node)
    } else {
        Vote::new(stored.term, stored.node)
    }
}

pub(crate) fn stored_entry(entry: &Entry) -> StoredEntry {
    let (kind, payload) = match &entry.payload {
        EntryPayload::Blank => (EntryKind::Blank, Arc::from([])),
        EntryPayload::Normal(groups) => (EntryKind::Groups, Arc::clone(&groups.bytes)),
        EntryPayload::Membership(membership) => {
            (EntryKind::Membership, membership_bytes(membership).into())
        }
    };
    StoredEntry {
        position: position(&entry.log_id),
        kind,
        payload,
    }
}

/// # Errors
/// The membership in it cannot be read.
pub(crate) fn entry(stored: &StoredEntry) -> Result<Entry, String> {
    let payload = match stored.kind {
        EntryKind::Blank => EntryPayload::Blank,
        EntryKind::Groups => EntryPayload::Normal(Groups {
            bytes: Arc::clone(&stored.payload),
            ticket: 0,
        }),
        EntryKind::Membership => EntryPayload::Membership(membership(&stored.payload)?),
    };
    Ok(Entry {
        log_id: log_id(stored.position),
        payload,
    })
}

/// Version, has position, term, index, then the membership.
pub(crate) fn stored_membership_bytes(stored: &StoredMembership) -> Vec<u8> {
    let mut out = Vec::new();
    let at = stored.log_id().as_ref().map(position);
    put_u32(&mut out, u32::from(at.is_some()));
    let at = at.unwrap_or(LogPosition { term: 0, index: 0 });
    out.extend_from_slice(&at.term.to_le_bytes());
    out.extend_from_slice(&at.index.to_le_bytes());
    out.extend_from_slice(&membership_bytes(stored.membership()));
    out
}

/// Reads what [`stored_membership_bytes`] wrote.
///
/// # Errors
/// Says what is wrong.
pub(crate) fn decode_membership(bytes: &[u8]) -> Result<StoredMembership, String> {
    if bytes.len() < 20 {
        return Err("the membership is cut off".into());
    }
    let at = LogPosition {
        term: u64_at(bytes, 4),
        index: u64_at(bytes, 12),
    };
    let id = (u32_at(bytes, 0) == 1).then(|| log_id(at));
    Ok(StoredMembership::new(id, membership(&bytes[20..])?))
}

/// Version, sets [count, ids], nodes [id, length, address].
fn membership_bytes(membership: &Membership) -> Vec<u8> {
    let mut out = Vec::new();
    put_u32(&mut out, MEMBERSHIP_VERSION);
    let sets = membership.get_joint_config();
    put_u32(&mut out, bounded(sets.len()));
    for set in sets {
        put_u32(&mut out, bounded(set.len()));
        for node in set {
            out.extend_from_slice(&node.to_le_bytes());
        }
    }
    let nodes: Vec<_> = membership.nodes().collect();
    put_u32(&mut out, bounded(nodes.len()));
    for (node, address) in nodes {
        out.extend_from_slice(&node.to_le_bytes());
        put_u32(&mut out, bounded(address.addr.len()));
        out.extend_from_slice(address.addr.as_bytes());
    }
    out
}

fn membership(bytes: &[u8]) -> Result<Membership, String> {
    let mut input = Input { bytes };
    let version = input.u32()?;
    if version != MEMBERSHIP_VERSION {
        return Err(format!("membership version {version} is not known"));
    }
    let mut sets = Vec::new();
    for _ in 0..input.u32()? {
        let mut set = BTreeSet::new();
        for _ in 0..input.u32()? {
            set.insert(input.u64()?);
        }
        sets.push(set);
    }
    let mut nodes = BTreeMap::new();
    for _ in 0..input.u32()? {
        let node = input.u64()?;
        let len = input.u32()? as usize;
        let addr = String::from_utf8(input.take(len)?.to_vec())
            .map_err(|_| "an address is not text".to_owned())?;
        nodes.insert(node, BasicNode { addr });
    }
    if !input.bytes.is_empty() {
        return Err("bytes follow the membership".into());
    }
    if sets.is_empty() && nodes.is_empty() {
        return Ok(Membership::default());
    }
    Membership::new(sets, nodes).map_err(|error| error.to_string())
}

/// Bytes that are consumed from the front.
struct Input<'a> {
    bytes: &'a [u8],
}

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (head, rest) = self
            .bytes
            .split_at_checked(count)
            .ok_or("the membership is cut off")?;
        self.bytes = rest;
        Ok(head)
    }

    fn u32(&mut self) -> Result<u32, String> {
        Ok(u32_at(self.take(4)?, 0))
    }

    fn u64(&mut self) -> Result<u64, String> {
        Ok(u64_at(self.take(8)?, 0))
    }
}

fn put_u32(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn bounded(count: usize) -> u32 {
    u32::try_from(count).expect("a cluster has few nodes and addresses are short")
}
