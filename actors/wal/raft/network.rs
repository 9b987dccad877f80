//! Consensus talks to its peers: our messages over the caller's transport.

use std::fs::File;
use std::future::Future;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use openraft::OptionalSend;
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::impls::BasicNode;
use openraft::network::v2::RaftNetworkV2;
use openraft::network::{RPCOption, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderError,
    TransferLeaderRequest, TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::type_config::alias::SnapshotOf;

use super::encoding::{log_id, position, stored_entry, stored_vote, vote};
use super::machine::SnapshotFile;
use super::message::{PeerAnswer, PeerRequest, SnapshotName};
use super::types::{Types, Vote};
use crate::peers::{Lane, Member, PeerError, Peers, SNAPSHOT_PART_BYTES};
use crate::snapshot::snapshot_hash;

/// How long entries may take to be durable at a peer, besides their way there.
///
/// Source: chosen; far above a sync of a slow disk, and short enough that a lost answer is noticed
/// while the peer still counts.
const APPEND_WITHIN: Duration = Duration::from_secs(1);
/// How long a KiB of them may take on its way. Source: as for parts of snapshots, 10 kB/s.
const APPEND_PER_KIB: Duration = Duration::from_millis(100);
/// How long one part of a snapshot may take.
///
/// Source: derived; 1 MiB over a line of 10 kB/s takes 100 s, and parts are what a transfer resumes at.
const PART_WITHIN: Duration = Duration::from_secs(150);
/// How long a standby may take to install a snapshot.
///
/// Source: derived; a million jobs load in about 1 s, and a busy machine is ten times slower.
const INSTALL_WITHIN: Duration = Duration::from_secs(120);

/// Makes clients of peers.
pub(crate) struct Network {
    pub(crate) peers: Arc<dyn Peers>,
}

/// The way to one peer.
pub(crate) struct Client {
    to: Member,
    peers: Arc<dyn Peers>,
}

impl RaftNetworkFactory<Types> for Network {
    type Network = Client;

    async fn new_client(&mut self, target: u64, node: &BasicNode) -> Client {
        Client {
            to: Member {
                node: target,
                address: node.addr.clone(),
            },
            peers: Arc::clone(&self.peers),
        }
    }
}

impl Client {
    async fn call(
        &self,
        lane: Lane,
        request: &PeerRequest,
        within: Duration,
    ) -> Result<PeerAnswer, RPCError<Types>> {
        let bytes = self
            .peers
            .call(self.to.clone(), lane, request.encode(), within)
            .await
            .map_err(|error| match error {
                PeerError::Unreachable { .. } => RPCError::Unreachable(Unreachable::new(&error)),
                PeerError::NoAnswer { .. } => RPCError::Network(NetworkError::new(&error)),
            })?;
        match PeerAnswer::decode(&bytes) {
            Ok(PeerAnswer::Failed(text)) | Err(text) => Err(self.broken(text)),
            Ok(answer) => Ok(answer),
        }
    }

    fn broken(&self, text: String) -> RPCError<Types> {
        let text = format!("controller {}: {text}", self.to.node);
        // Trying again at once would meet the same.
        RPCError::Unreachable(Unreachable::new(&io::Error::other(text)))
    }

    fn misplaced(&self, answer: &PeerAnswer) -> RPCError<Types> {
        self.broken(format!("its answer makes no sense here: {answer:?}"))
    }

    async fn ask_vote(
        &self,
        request: VoteRequest<Types>,
        only_ask: bool,
        within: Duration,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        let request = PeerRequest::Vote {
            vote: stored_vote(&request.vote),
            last: request.last_log_id.as_ref().map(position),
            transfer: request.leadership_transfer,
            only_ask,
        };
        match self.call(Lane::Control, &request, within).await? {
            PeerAnswer::Voted {
                vote: theirs,
                granted,
                last,
            } => Ok(VoteResponse::new(vote(theirs), last.map(log_id), granted)),
            other => Err(self.misplaced(&other)),
        }
    }

    /// Sends a snapshot from where the peer has it, then has it installed.
    async fn send_snapshot(
        &self,
        leader: Vote,
        path: PathBuf,
        last: crate::record::LogPosition,
    ) -> Result<SnapshotResponse<Types>, RPCError<Types>> {
        // Open until all is sent: a newer snapshot may take the place of this one meanwhile.
        let opened = blocking(move || open_snapshot(&path, last)).await;
        let (name, file) = opened.map_err(|error| self.broken(error.to_string()))?;
        let file = Arc::new(file);
        let offer = PeerRequest::SnapshotOffer(name);
        let mut held = self.held(&offer, PART_WITHIN).await?;
        while held < name.bytes {
            let from = Arc::clone(&file);
            let data = blocking(move || read_part(&from, held))
                .await
                .map_err(|error| self.broken(error.to_string()))?;
            let part = PeerRequest::SnapshotPart {
                name,
                offset: held,
                data,
            };
            held = self.held(&part, PART_WITHIN).await?;
        }
        let install = PeerRequest::SnapshotInstall {
            vote: stored_vote(&leader),
            name,
        };
        match self.call(Lane::Snapshot, &install, INSTALL_WITHIN).await? {
            PeerAnswer::SnapshotInstalled(theirs) => Ok(SnapshotResponse::new(vote(theirs))),
            other => Err(self.misplaced(&other)),
        }
    }

    async fn held(&self, request: &PeerRequest, within: Duration) -> Result<u64, RPCError<Types>> {
        match self.call(Lane::Snapshot, request, within).await? {
            PeerAnswer::SnapshotHeld(held) => Ok(held),
            other => Err(self.misplaced(&other)),
        }
    }
}

/// How long entries may take to a peer: a slow line needs longer for more of them.
fn append_within(request: &PeerRequest) -> Duration {
    let bytes: usize = match request {
        PeerRequest::Append { entries, .. } => {
            entries.iter().map(|entry| entry.payload.len()).sum()
        }
        PeerRequest::Vote { .. }
        | PeerRequest::Transfer { .. }
        | PeerRequest::SnapshotOffer(_)
        | PeerRequest::SnapshotPart { .. }
        | PeerRequest::SnapshotInstall { .. }
        | PeerRequest::Greet(_)
        | PeerRequest::Rejoin(_)
        | PeerRequest::Who
        | PeerRequest::Digest(_)
        | PeerRequest::Differs(_) => 0,
    };
    APPEND_WITHIN + APPEND_PER_KIB * u32::try_from(bytes / 1024).unwrap_or(u32::MAX)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(io::Error::other)?
}

fn open_snapshot(
    path: &Path,
    last: crate::record::LogPosition,
) -> io::Result<(SnapshotName, File)> {
    let file = File::open(path)?;
    let name = SnapshotName {
        last,
        bytes: file.metadata()?.len(),
        hash: snapshot_hash(&file)?,
    };
    Ok((name, file))
}

fn read_part(file: &File, offset: u64) -> io::Result<Vec<u8>> {
    let mut data = vec![0; SNAPSHOT_PART_BYTES];
    let mut filled = 0;
    while filled < data.len() {
        match file.read_at(&mut data[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(now) => filled += now,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    if filled == 0 {
        return Err(io::Error::other("the snapshot became shorter"));
    }
    data.truncate(filled);
    Ok(data)
}

impl RaftNetworkV2<Types> for Client {
    type SnapshotData = SnapshotFile;

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, RPCError<Types>> {
        let lane = if request.entries.is_empty() {
            Lane::Control
        } else {
            Lane::Log
        };
        let request = PeerRequest::Append {
            vote: stored_vote(&request.vote),
            previous: request.prev_log_id.as_ref().map(position),
            committed: request.leader_commit.as_ref().map(position),
            entries: request.entries.iter().map(stored_entry).collect(),
        };
        let within = if lane == Lane::Control {
            option.hard_ttl()
        } else {
            append_within(&request)
        };
        match self.call(lane, &request, within).await? {
            PeerAnswer::Appended => Ok(AppendEntriesResponse::Success),
            PeerAnswer::AppendedUpTo(last) => {
                Ok(AppendEntriesResponse::PartialSuccess(last.map(log_id)))
            }
            PeerAnswer::AppendConflict => Ok(AppendEntriesResponse::Conflict),
            PeerAnswer::HigherVote(theirs) => Ok(AppendEntriesResponse::HigherVote(vote(theirs))),
            other => Err(self.misplaced(&other)),
        }
    }

    async fn vote(
        &mut self,
        request: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        self.ask_vote(request, false, option.hard_ttl()).await
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        self.ask_vote(request, true, option.hard_ttl()).await
    }

    async fn full_snapshot(
        &mut self,
        leader: Vote,
        snapshot: SnapshotOf<Types, SnapshotFile>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        let Some(last) = snapshot.meta.last_log_id.as_ref().map(position) else {
            return Err(self.broken("an empty snapshot".to_owned()).into());
        };
        let sending = self.send_snapshot(leader, snapshot.snapshot.path, last);
        tokio::select! {
            biased;
            closed = cancel => Err(StreamingError::Closed(closed)),
            sent = sending => sent.map_err(StreamingError::from),
        }
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<Types>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<Types>, RPCError<Types>> {
        let expected_log = request.last_log_id().copied();
        let expected_vote = *request.from_leader();
        let message = PeerRequest::Transfer {
            vote: stored_vote(request.from_leader()),
            to: *request.to_node_id(),
            last: request.last_log_id().map(position),
        };
        match self
            .call(Lane::Control, &message, option.hard_ttl())
            .await?
        {
            PeerAnswer::TransferAccepted => Ok(Ok(())),
            PeerAnswer::TransferVoteChanged(actual) => Ok(Err(TransferLeaderError::VoteChanged {
                expected: expected_vote,
                actual: vote(actual),
            })),
            PeerAnswer::TransferLogMissing(actual) => Ok(Err(TransferLeaderError::LogNotFlushed {
                expected: expected_log,
                actual: actual.map(log_id),
            })),
            other => Err(self.misplaced(&other)),
        }
    }
}
