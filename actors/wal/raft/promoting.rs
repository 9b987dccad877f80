//! The primary gives learners their vote as soon as they have caught up, and finishes changes of the
//! members that stopped half-way, because the primary was cut off between their two steps.

use std::collections::BTreeSet;
use std::time::Duration;

use openraft::ChangeMembers;
use openraft::async_runtime::watch::WatchReceiver;

use super::membership::LAG_MAX;
use super::node::RaftNode;
use crate::machine::Machine;
use crate::peers::{MemberChange, MemberState, MembershipError};

/// Pause after a change that did not come about, and before one counts as stopped half-way.
///
/// Source: chosen; far above the two steps of a change on a healthy disk.
const AGAIN_AFTER: Duration = Duration::from_millis(500);

/// What is left to do of a change that has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Rest {
    /// These get their vote.
    Added(BTreeSet<u64>),
    /// These go.
    Removed(BTreeSet<u64>),
}

impl<M: Machine> RaftNode<M> {
    /// Serves for as long as this node runs; does nothing while another one leads.
    pub(crate) async fn promote_learners(self) {
        let mut metrics = self.raft.metrics();
        loop {
            if let Some(rest) = self.rest() {
                tokio::time::sleep(AGAIN_AFTER).await;
                // Still the same: nobody is at it.
                if self.rest().as_ref() == Some(&rest) {
                    self.finish(rest).await;
                }
            } else if let Some(node) = self.caught_up() {
                match self.change_members(MemberChange::Promote(node)).await {
                    Ok(()) => tracing::info!(node, "a controller got its vote"),
                    Err(error) => {
                        if !matches!(error, MembershipError::NotPrimary { .. }) {
                            tracing::info!(node, %error, "no vote yet");
                        }
                        tokio::time::sleep(AGAIN_AFTER).await;
                    }
                }
            }
            if metrics.changed().await.is_err() {
                return;
            }
        }
    }

    /// What is left of a change, when this node leads.
    fn rest(&self) -> Option<Rest> {
        self.shared.role.borrow().primary_term()?;
        let metrics = self.raft.metrics();
        let now = metrics.borrow_watched();
        rest_of(now.membership_config.membership().get_joint_config())
    }

    async fn finish(&self, rest: Rest) {
        tracing::info!(?rest, "a change of the controllers is finished");
        let (change, retain) = match rest {
            Rest::Added(nodes) => (ChangeMembers::AddVoterIds(nodes), true),
            Rest::Removed(nodes) => (ChangeMembers::RemoveVoters(nodes), false),
        };
        if let Err(error) = self.raft.change_membership(change, retain).await {
            tracing::info!(%error, "it is not finished yet");
        }
    }

    /// A learner that has nearly all that this primary has.
    fn caught_up(&self) -> Option<u64> {
        self.shared.role.borrow().primary_term()?;
        let members = self.members();
        let own = members
            .iter()
            .find(|state| state.member.node == self.node_id)?;
        let last = own.matched?;
        let metrics = self.raft.metrics();
        let promoted: Vec<u64> = {
            let now = metrics.borrow_watched();
            now.membership_config.membership().voter_ids().collect()
        };
        let near = |state: &&MemberState| {
            let matched = state.matched.unwrap_or(0);
            !promoted.contains(&state.member.node)
                && matched > 0
                && last.saturating_sub(matched) <= LAG_MAX
        };
        members.iter().find(near).map(|state| state.member.node)
    }
}

/// What is left of a change from the first sets of voters to the last one.
fn rest_of(sets: &[BTreeSet<u64>]) -> Option<Rest> {
    let (last, before) = sets.split_last()?;
    let before: BTreeSet<u64> = before.iter().flatten().copied().collect();
    if before.is_empty() {
        return None;
    }
    let removed = &before - last;
    if removed.is_empty() {
        return Some(Rest::Added(last - &before));
    }
    Some(Rest::Removed(removed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_change_of_two_sets_has_a_rest() {
        let set = |nodes: &[u64]| nodes.iter().copied().collect::<BTreeSet<u64>>();
        assert_eq!(rest_of(&[]), None);
        assert_eq!(rest_of(&[set(&[1, 2])]), None);
        let added = rest_of(&[set(&[1]), set(&[1, 2])]);
        assert_eq!(added, Some(Rest::Added(set(&[2]))));
        let removed = rest_of(&[set(&[1, 2, 3]), set(&[1, 3])]);
        assert_eq!(removed, Some(Rest::Removed(set(&[2]))));
    }
}
