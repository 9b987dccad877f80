//! Memberships as they are stored, for whoever begins a cluster anew.

use std::collections::{BTreeMap, BTreeSet};

use openraft::EntryPayload;
use openraft::impls::BasicNode;

use super::encoding::{decode_membership, entry, log_id, stored_membership_bytes};
use super::types::{Membership, StoredMembership};
use crate::peers::Member;
use crate::record::{LogPosition, StoredEntry};

/// A membership of one, as a snapshot stores it.
///
/// # Errors
/// Says what the consensus library said.
pub(crate) fn alone(at: LogPosition, member: &Member) -> Result<Vec<u8>, String> {
    let address = BasicNode {
        addr: member.address.clone(),
    };
    let nodes = BTreeMap::from([(member.node, address)]);
    let voters = vec![BTreeSet::from([member.node])];
    let membership = Membership::new(voters, nodes).map_err(|error| error.to_string())?;
    let stored = StoredMembership::new(Some(log_id(at)), membership);
    Ok(stored_membership_bytes(&stored))
}

/// The controllers with a vote, of a membership that a snapshot stores.
///
/// # Errors
/// Says what is wrong with the bytes.
pub(crate) fn voters_of(bytes: &[u8]) -> Result<Vec<Member>, String> {
    Ok(voters(decode_membership(bytes)?.membership()))
}

/// The controllers with a vote from an entry on, where it changes them.
///
/// # Errors
/// Says what is wrong with the entry.
pub(crate) fn voters_in(stored: &StoredEntry) -> Result<Option<Vec<Member>>, String> {
    match entry(stored)?.payload {
        EntryPayload::Membership(membership) => Ok(Some(voters(&membership))),
        EntryPayload::Blank | EntryPayload::Normal(_) => Ok(None),
    }
}

fn voters(membership: &Membership) -> Vec<Member> {
    let voters: BTreeSet<u64> = membership.voter_ids().collect();
    let of = |node: u64| Member {
        node,
        address: membership
            .get_node(&node)
            .map_or_else(String::new, |known| known.addr.clone()),
    };
    voters.into_iter().map(of).collect()
}
