//! The primary gives learners their vote as soon as they have caught up.

use std::time::Duration;

use openraft::async_runtime::watch::WatchReceiver;

use super::membership::LAG_MAX;
use super::node::RaftNode;
use crate::machine::Machine;
use crate::peers::{MemberChange, MemberState, MembershipError};

/// Pause after a promotion that did not come about. Source: chosen; another change takes less.
const AGAIN_AFTER: Duration = Duration::from_millis(100);

impl<M: Machine> RaftNode<M> {
    /// Serves for as long as this node runs; does nothing while another one leads.
    pub(crate) async fn promote_learners(self) {
        let mut metrics = self.raft.metrics();
        loop {
            if let Some(node) = self.caught_up() {
                match self.change_members(MemberChange::Promote(node)).await {
                    Ok(()) => tracing::info!(node, "a controller got its vote"),
                    Err(MembershipError::NotPrimary { .. }) => {}
                    Err(error) => {
                        tracing::info!(node, %error, "no vote yet");
                        tokio::time::sleep(AGAIN_AFTER).await;
                    }
                }
            }
            if metrics.changed().await.is_err() {
                return;
            }
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
