//! Who belongs to the cluster: one change at a time, learners first.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{ChangeMembershipError, ClientWriteError, RaftError};
use openraft::impls::BasicNode;
use openraft::{ChangeMembers, Instant};

use super::node::RaftNode;
use super::types::Types;
use crate::machine::Machine;
use crate::peers::{Member, MemberChange, MemberState, MembershipError};

/// How long a change may take to be committed, in each of its two steps.
///
/// Source: chosen; two entries on a slow disk, far above any healthy one.
const CHANGE_WITHIN: Duration = Duration::from_secs(20);
/// How long a change waits for another one. Source: chosen; two syncs of a quorum take far less.
const TURN_WITHIN: Duration = Duration::from_secs(5);
/// How long a transfer of the leadership may take.
///
/// Source: measured in the foundations as 35 ms; this is a machine in deep trouble.
const TRANSFER_WITHIN: Duration = Duration::from_secs(5);
/// Entries kept for members that are behind. Source: the foundations; the time of a transfer at full
/// load.
const KEPT_ENTRIES: u64 = 200_000;
/// Bytes kept for them. Source: the foundations; they are in memory as well.
const KEPT_BYTES: usize = 256 << 20;
/// Entries that a learner may be behind and still get its vote at once.
///
/// Source: derived; well under a second of full load.
pub(super) const LAG_MAX: u64 = 1000;

impl<M: Machine> RaftNode<M> {
    /// The members as this node sees them, by number.
    pub(crate) fn members(&self) -> Vec<MemberState> {
        let metrics = self.raft.metrics();
        let now = metrics.borrow_watched();
        let membership = now.membership_config.membership();
        let voters = self.shared.voters();
        let nodes = membership.nodes();
        nodes
            .map(|(node, known)| {
                let replicated = now.replication.as_ref().and_then(|all| all.get(node));
                let heard = now.heartbeat.as_ref().and_then(|all| all.get(node));
                let own = *node == self.node_id;
                MemberState {
                    member: Member {
                        node: *node,
                        address: known.addr.clone(),
                    },
                    voter: voters.contains(node),
                    matched: if own {
                        now.last_log_index
                    } else {
                        replicated.map(|at| at.as_ref().map_or(0, |at| at.index()))
                    },
                    heard_ms: heard
                        .and_then(|at| at.as_ref())
                        .map(|at| u64::try_from(at.elapsed().as_millis()).unwrap_or(u64::MAX)),
                }
            })
            .collect()
    }

    /// Up to where the log is purged when nobody here needs more than what is after `limit`: a member
    /// that is behind gets the entries it lacks rather than another snapshot, within bounds.
    pub(crate) fn purge_for_others(&self, limit: u64) -> u64 {
        if self.shared.role.borrow().primary_term().is_none() {
            return limit;
        }
        let members = self.members();
        let others = members
            .iter()
            .filter(|state| state.member.node != self.node_id);
        let lowest = others.map(|state| state.matched.unwrap_or(0)).min();
        let needed = lowest.map_or(limit, |lowest| lowest.min(limit));
        needed.max(self.log.beyond(KEPT_ENTRIES, KEPT_BYTES).min(limit))
    }

    /// Changes the membership, after a change that is under way.
    ///
    /// # Errors
    /// See [`MembershipError`].
    pub(crate) async fn change_members(&self, change: MemberChange) -> Result<(), MembershipError> {
        let deadline = tokio::time::Instant::now() + TURN_WITHIN;
        let mut metrics = self.raft.metrics();
        loop {
            match self.change_once(change.clone()).await {
                Err(MembershipError::Busy) => {}
                done => return done,
            }
            // Its end shows in the metrics.
            let changed = tokio::time::timeout_at(deadline, metrics.changed());
            if !matches!(changed.await, Ok(Ok(()))) {
                return Err(MembershipError::Busy);
            }
        }
    }

    async fn change_once(&self, change: MemberChange) -> Result<(), MembershipError> {
        let (members, retain) = self.checked(change)?;
        let changing = self.raft.change_membership(members, retain);
        let changed = tokio::time::timeout(2 * CHANGE_WITHIN, changing).await;
        let Ok(changed) = changed else {
            return Err(MembershipError::Unknown(
                "it was not committed in time".to_owned(),
            ));
        };
        match changed {
            Ok(_) => Ok(()),
            Err(RaftError::APIError(error)) => Err(self.refusal(error)),
            Err(RaftError::Fatal(error)) => Err(MembershipError::Unknown(error.to_string())),
        }
    }

    fn checked(
        &self,
        change: MemberChange,
    ) -> Result<(ChangeMembers<u64, BasicNode>, bool), MembershipError> {
        let members = self.members();
        let found = |node: u64| members.iter().find(|state| state.member.node == node);
        let known = |node: u64| {
            found(node).ok_or_else(|| {
                let numbers: Vec<String> = members
                    .iter()
                    .map(|state| state.member.node.to_string())
                    .collect();
                let text = format!(
                    "there is no controller {node}; the cluster has {}",
                    numbers.join(", ")
                );
                MembershipError::Refused(text)
            })
        };
        match change {
            MemberChange::AddLearner(member) => match found(member.node) {
                Some(state) if state.member != member => Err(MembershipError::Refused(format!(
                    "controller {} is known at {}",
                    member.node, state.member.address
                ))),
                Some(_) | None => {
                    let node = BasicNode {
                        addr: member.address,
                    };
                    let nodes = BTreeMap::from([(member.node, node)]);
                    Ok((ChangeMembers::AddNodes(nodes), true))
                }
            },
            MemberChange::Promote(node) => {
                let last = found(self.node_id).and_then(|own| own.matched).unwrap_or(0);
                let state = known(node)?;
                let behind = last.saturating_sub(state.matched.unwrap_or(0));
                if behind > LAG_MAX {
                    let text = format!("controller {node} is {behind} entries behind; wait for it");
                    return Err(MembershipError::Refused(text));
                }
                Ok((ChangeMembers::AddVoterIds(BTreeSet::from([node])), true))
            }
            MemberChange::Remove(node) => {
                let state = known(node)?;
                if !state.voter {
                    return Ok((ChangeMembers::RemoveNodes(BTreeSet::from([node])), false));
                }
                if members.iter().filter(|state| state.voter).count() == 1 {
                    let text = "the last controller with a vote cannot be removed".to_owned();
                    return Err(MembershipError::Refused(text));
                }
                Ok((ChangeMembers::RemoveVoters(BTreeSet::from([node])), false))
            }
            MemberChange::SetAddress(member) => {
                known(member.node)?;
                let node = BasicNode {
                    addr: member.address,
                };
                let nodes = BTreeMap::from([(member.node, node)]);
                Ok((ChangeMembers::SetNodes(nodes), true))
            }
        }
    }

    fn refusal(&self, error: ClientWriteError<Types>) -> MembershipError {
        match error {
            ClientWriteError::ForwardToLeader(forward) => MembershipError::NotPrimary {
                leader: forward.leader_id.map(|node| Member {
                    node,
                    address: forward
                        .leader_node
                        .map_or_else(String::new, |node| node.addr),
                }),
            },
            ClientWriteError::ChangeMembershipError(
                ChangeMembershipError::InProgress(_)
                | ChangeMembershipError::UncommittedLeaderLog(_),
            )
            | ClientWriteError::PreconditionFailed(_) => MembershipError::Busy,
            ClientWriteError::ChangeMembershipError(error) => {
                MembershipError::Refused(error.to_string())
            }
            ClientWriteError::LogEntryDiscarded(error) => {
                MembershipError::Unknown(error.to_string())
            }
        }
    }

    /// Hands the leadership over.
    ///
    /// # Errors
    /// See [`MembershipError`].
    pub(crate) async fn transfer(&self, to: u64) -> Result<(), MembershipError> {
        let members = self.members();
        let voter = members
            .iter()
            .any(|state| state.member.node == to && state.voter);
        if !voter {
            let text = format!("controller {to} has no vote in this cluster");
            return Err(MembershipError::Refused(text));
        }
        if self.raft.metrics().borrow_watched().current_leader == Some(to) {
            return Ok(());
        }
        let stopped = |error: &dyn std::fmt::Display| MembershipError::Unknown(error.to_string());
        // Before anybody is told: what follows from the lease must not outlive it.
        let term = self.raft.metrics().borrow_watched().current_term;
        self.hand_over(term);
        let asked = self.raft.trigger().transfer_leader(to).await;
        asked.map_err(|error| stopped(&error))?;
        self.raft
            .wait(Some(TRANSFER_WITHIN))
            .current_leader(to, "transfer")
            .await
            .map(drop)
            .map_err(|error| stopped(&error))
    }
}
