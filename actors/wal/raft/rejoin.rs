//! The primary's part when a controller has lost its log: it is out of the cluster first, with its
//! vote, and comes in again as one that has nothing. Whatever it once agreed to is thus held by a
//! quorum without it, and it votes again only with all that in its log.

use std::sync::atomic::Ordering;

use super::message::PeerAnswer;
use super::node::RaftNode;
use crate::machine::Machine;
use crate::peers::{Member, MemberChange, MembershipError, Role};

impl<M: Machine> RaftNode<M> {
    /// Takes a controller out and in again.
    pub(crate) async fn take_in_again(&self, member: Member) -> PeerAnswer {
        let role = self.shared.role.borrow().clone();
        if let Role::Standby { leader, .. } = role {
            return PeerAnswer::NotPrimary(leader);
        }
        let node = member.node;
        if node == self.node_id {
            return PeerAnswer::Failed("it asks itself".to_owned());
        }
        let is_member = self.members().iter().any(|state| state.member.node == node);
        // One that was taken out and not yet in again, because this request was cut off.
        let is_half_way = self.taken_out.load(Ordering::Acquire) == node;
        if !is_member && !is_half_way {
            return PeerAnswer::NotMember;
        }
        tracing::warn!(node, address = %member.address, "a controller lost its log; it comes in again without a vote");
        self.taken_out.store(node, Ordering::Release);
        if is_member && let Err(error) = self.change_members(MemberChange::Remove(node)).await {
            return self.not_taken(error);
        }
        match self.change_members(MemberChange::AddLearner(member)).await {
            Ok(()) => {
                self.taken_out.store(0, Ordering::Release);
                PeerAnswer::TakenIn
            }
            Err(error) => self.not_taken(error),
        }
    }

    fn not_taken(&self, error: MembershipError) -> PeerAnswer {
        match error {
            MembershipError::NotPrimary { leader } => PeerAnswer::NotPrimary(leader),
            MembershipError::Busy | MembershipError::Refused(_) | MembershipError::Unknown(_) => {
                PeerAnswer::Failed(error.to_string())
            }
        }
    }
}
