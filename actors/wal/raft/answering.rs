//! What this controller answers its peers.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use openraft::Raft;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::Fatal;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, TransferLeaderError, TransferLeaderRequest,
    VoteRequest,
};
use openraft::type_config::alias::{SnapshotMetaOf, SnapshotOf};

use super::encoding::{decode_membership, entry, log_id, position, stored_vote, vote};
use super::machine::{SnapshotFile, StateMachine};
use super::message::{PeerAnswer, PeerRequest, SnapshotName};
use super::types::Types;
use crate::error::chain;
use crate::machine::Machine;
use crate::record::StoredVote;
use crate::snapshot::{Incoming, SnapshotStore};
use crate::status::Shared;

/// Answers requests of peers.
pub(crate) struct Answering<M: Machine> {
    pub(crate) raft: Raft<Types, StateMachine<M>>,
    pub(crate) incoming: Arc<Incoming>,
    pub(crate) snapshots: Arc<SnapshotStore>,
    /// Whether it votes: not before the others have been greeted.
    pub(crate) votes: Arc<AtomicBool>,
    pub(crate) shared: Arc<Shared>,
}

impl<M: Machine> Clone for Answering<M> {
    fn clone(&self) -> Self {
        Self {
            raft: self.raft.clone(),
            incoming: Arc::clone(&self.incoming),
            snapshots: Arc::clone(&self.snapshots),
            votes: Arc::clone(&self.votes),
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<M: Machine> Answering<M> {
    /// The answer to a request; one that makes no sense gets an answer that says so.
    pub(crate) async fn answer(&self, request: PeerRequest) -> PeerAnswer {
        let answer = self.carry_out(request).await;
        answer.unwrap_or_else(PeerAnswer::Failed)
    }

    /// Who has nothing, or may have forgotten something, votes for nobody.
    fn may_vote(&self) -> Result<(), String> {
        let metrics = self.raft.metrics();
        let now = metrics.borrow_watched();
        if now.last_log_index.is_none() && now.last_applied.is_none() {
            return Err("it has nothing yet, and votes for nobody".to_owned());
        }
        if !self.votes.load(Ordering::Acquire) {
            return Err("it has just started, and does not vote yet".to_owned());
        }
        Ok(())
    }

    async fn carry_out(&self, request: PeerRequest) -> Result<PeerAnswer, String> {
        match request {
            PeerRequest::Append {
                vote: leader,
                previous,
                committed,
                entries,
            } => {
                let entries = entries.iter().map(entry).collect::<Result<Vec<_>, _>>()?;
                self.append(AppendEntriesRequest {
                    vote: vote(leader),
                    prev_log_id: previous.map(log_id),
                    entries,
                    leader_commit: committed.map(log_id),
                })
                .await
            }
            PeerRequest::Vote {
                vote: candidate,
                last,
                transfer,
                only_ask,
            } => {
                self.may_vote()?;
                let mut request = VoteRequest::new(vote(candidate), last.map(log_id));
                request.leadership_transfer = transfer;
                let response = if only_ask {
                    self.raft.pre_vote(request).await
                } else {
                    self.raft.vote(request).await
                };
                let response = response.map_err(|error| error.to_string())?;
                Ok(PeerAnswer::Voted {
                    vote: stored_vote(&response.vote),
                    granted: response.vote_granted,
                    last: response.last_log_id.as_ref().map(position),
                })
            }
            PeerRequest::Transfer {
                vote: leader,
                to,
                last,
            } => self.transfer(leader, to, last.map(log_id)).await,
            PeerRequest::SnapshotOffer(name) => {
                self.file(move |incoming| incoming.offer(name)).await
            }
            PeerRequest::SnapshotPart { name, offset, data } => {
                self.file(move |incoming| incoming.part(name, offset, &data))
                    .await
            }
            PeerRequest::SnapshotInstall { vote, name } => self.install(vote, name).await,
            PeerRequest::Greet(_)
            | PeerRequest::Rejoin(_)
            | PeerRequest::Who
            | PeerRequest::Digest(_)
            | PeerRequest::Differs(_) => Err("consensus has no answer to this".to_owned()),
        }
    }

    async fn append(&self, request: AppendEntriesRequest<Types>) -> Result<PeerAnswer, String> {
        let response = self.raft.append_entries(request).await;
        let response = response.map_err(|error| error.to_string())?;
        if !matches!(response, AppendEntriesResponse::HigherVote(_)) {
            self.shared.hear_leader();
        }
        Ok(match response {
            AppendEntriesResponse::Success => PeerAnswer::Appended,
            AppendEntriesResponse::PartialSuccess(last) => {
                PeerAnswer::AppendedUpTo(last.as_ref().map(position))
            }
            AppendEntriesResponse::Conflict => PeerAnswer::AppendConflict,
            AppendEntriesResponse::HigherVote(theirs) => {
                PeerAnswer::HigherVote(stored_vote(&theirs))
            }
        })
    }

    async fn transfer(
        &self,
        leader: StoredVote,
        to: u64,
        last: Option<super::types::LogId>,
    ) -> Result<PeerAnswer, String> {
        let request = TransferLeaderRequest::new(vote(leader), to, last);
        let response = self.raft.handle_transfer_leader(request).await;
        Ok(
            match response.map_err(|error: Fatal<Types>| error.to_string())? {
                Ok(()) => PeerAnswer::TransferAccepted,
                Err(TransferLeaderError::VoteChanged { actual, .. }) => {
                    PeerAnswer::TransferVoteChanged(stored_vote(&actual))
                }
                Err(TransferLeaderError::LogNotFlushed { actual, .. }) => {
                    PeerAnswer::TransferLogMissing(actual.as_ref().map(position))
                }
            },
        )
    }

    async fn file(
        &self,
        work: impl FnOnce(&Incoming) -> io::Result<u64> + Send + 'static,
    ) -> Result<PeerAnswer, String> {
        let incoming = Arc::clone(&self.incoming);
        let held = tokio::task::spawn_blocking(move || work(&incoming)).await;
        match held.map_err(|error| error.to_string())? {
            Ok(held) => Ok(PeerAnswer::SnapshotHeld(held)),
            Err(error) => Err(error.to_string()),
        }
    }

    async fn install(&self, leader: StoredVote, name: SnapshotName) -> Result<PeerAnswer, String> {
        let (incoming, snapshots) = (Arc::clone(&self.incoming), Arc::clone(&self.snapshots));
        let checked = tokio::task::spawn_blocking(move || {
            let path = incoming.take(name).map_err(|error| error.to_string())?;
            let head = snapshots.check(&path).map_err(|error| chain(&error));
            let head = head.and_then(|head| match head.last == Some(name.last) {
                true => Ok(head),
                false => Err("the snapshot covers something else than it said".to_owned()),
            });
            if head.is_err() {
                incoming.done();
            }
            head.map(|head| (path, head))
        });
        let (path, head) = checked.await.map_err(|error| error.to_string())??;
        let snapshot = SnapshotOf::<Types, SnapshotFile> {
            meta: SnapshotMetaOf::<Types> {
                last_log_id: head.last.map(log_id),
                last_membership: decode_membership(&head.membership)?,
            },
            snapshot: SnapshotFile { path },
        };
        let response = self
            .raft
            .install_full_snapshot(vote(leader), snapshot)
            .await
            .map_err(|error| error.to_string())?;
        self.incoming.done();
        Ok(PeerAnswer::SnapshotInstalled(stored_vote(&response.vote)))
    }
}
