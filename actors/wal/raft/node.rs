//! One running node: starts it, becomes leader, proposes, purges, stops.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{ClientWriteError, ForwardReason};
use openraft::impls::{BasicNode, ProgressResponder};
use openraft::raft::ClientWriteResult;
use openraft::type_config::alias::OneshotReceiverOf;
use openraft::vote::leader_id_std::CommittedLeaderId;
use openraft::{Config, Instant, Raft, RaftMetrics, ServerState, SnapshotPolicy};

use super::answering::Answering;
use super::greeting::Origin;
use super::machine::StateMachine;
use super::message::{PeerAnswer, PeerRequest};
use super::network::Network;
use super::storage::{LogStore, LogView};
use super::types::{Groups, Types};
use crate::digests::Digests;
use crate::error::PersistError;
use crate::machine::Machine;
use crate::notes::Notes;
use crate::peers::{Member, Peers, Role};
use crate::snapshot::{Incoming, SnapshotHead, SnapshotStore};
use crate::status::Shared;
use crate::writer::OnFatal;

/// Source: measured in the foundations; 50 ms beats and 150 to 300 ms elections fail over in 550 ms.
const HEARTBEAT_MS: u64 = 50;
/// Source: as `HEARTBEAT_MS`.
const ELECTION_MS_MIN: u64 = 150;
/// Source: as `HEARTBEAT_MS`.
const ELECTION_MS_MAX: u64 = 300;
/// How long a write waits for a quorum that has not answered for a while.
///
/// Source: derived; a primary that is cut off has been replaced by then.
const LEASE_PATIENCE: Duration = Duration::from_millis(2 * ELECTION_MS_MAX);
/// After how long without an answer of a quorum a primary no longer calls itself one.
///
/// Source: derived; ten elections, so that a machine that is busy for a moment does not start all its
/// actors anew. Consensus itself would let it lead for as long as nobody tells
/// it of another term, and peers that reach only this one would stay with it.
const CUT_OFF: Duration = Duration::from_millis(10 * ELECTION_MS_MAX);
/// How long a single voter may take to lead; it needs two syncs.
///
/// Source: chosen; far above the slowest disk seen, so only a fault comes here.
const LEAD_MAX: Duration = Duration::from_secs(60);

/// Why nothing was proposed.
#[derive(Debug)]
pub(crate) enum ProposeError {
    /// Another node leads, or none.
    NotPrimary,
    /// Consensus has ended.
    Stopped,
}

/// Tells how one write ended.
type Written = OneshotReceiverOf<Types, ClientWriteResult<Types>>;

/// A running node.
pub(crate) struct RaftNode<M: Machine> {
    pub(super) raft: Raft<Types, StateMachine<M>>,
    pub(super) shared: Arc<Shared>,
    pub(super) answering: Answering<M>,
    pub(super) node_id: u64,
    pub(super) origin: Origin,
    pub(super) log: LogView,
    pub(super) notes: Arc<Notes>,
    pub(super) peers: Arc<dyn Peers>,
    /// A controller that was taken out to come in again; zero for none.
    pub(super) taken_out: Arc<AtomicU64>,
    pub(super) digests: Arc<Digests>,
    /// The state directory.
    pub(super) root: PathBuf,
    pub(super) fatal: OnFatal,
}

impl<M: Machine> Clone for RaftNode<M> {
    fn clone(&self) -> Self {
        Self {
            raft: self.raft.clone(),
            shared: Arc::clone(&self.shared),
            answering: self.answering.clone(),
            node_id: self.node_id,
            origin: self.origin,
            log: self.log.clone(),
            notes: Arc::clone(&self.notes),
            peers: Arc::clone(&self.peers),
            taken_out: Arc::clone(&self.taken_out),
            digests: Arc::clone(&self.digests),
            root: self.root.clone(),
            fatal: Arc::clone(&self.fatal),
        }
    }
}

/// What a node starts from.
pub(crate) struct Begin<M: Machine> {
    pub(crate) me: Member,
    /// A directory without a log founds a cluster; else it waits until one takes it in.
    pub(crate) found: bool,
    pub(crate) log: LogStore,
    pub(crate) machine: StateMachine<M>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) snapshots: Arc<SnapshotStore>,
    pub(crate) peers: Arc<dyn Peers>,
    pub(crate) notes: Arc<Notes>,
    pub(crate) origin: Origin,
    pub(crate) root: PathBuf,
    pub(crate) fatal: OnFatal,
}

impl<M: Machine> RaftNode<M> {
    /// Starts consensus. A node that is the only voter returns once it leads and all its log is
    /// applied; any other returns at once, and its role follows.
    ///
    /// # Errors
    /// Says what consensus said.
    pub(crate) async fn start(begin: Begin<M>) -> Result<Self, String> {
        let Begin {
            me,
            found,
            log,
            machine,
            shared,
            snapshots,
            peers,
            notes,
            origin,
            root,
            fatal,
        } = begin;
        let digests = machine.digests();
        let fresh = log.last_index() == 0;
        let config = settings().map_err(|error| error.to_string())?;
        let network = Network {
            peers: Arc::clone(&peers),
        };
        let view = log.look();
        let raft = Raft::new(me.node, Arc::new(config), network, log, machine)
            .await
            .map_err(|error| error.to_string())?;
        let answering = Answering {
            raft: raft.clone(),
            incoming: Arc::new(Incoming::new(
                Arc::clone(snapshots.disk()),
                snapshots.directory(),
            )),
            snapshots,
            votes: Arc::default(),
            shared: Arc::clone(&shared),
        };
        let node = Self {
            raft,
            shared,
            answering,
            node_id: me.node,
            origin,
            log: view,
            notes,
            peers,
            taken_out: Arc::default(),
            digests,
            root,
            fatal,
        };
        node.take_up(me, found, fresh).await?;
        Ok(node)
    }

    /// Goes on with what the log says, founds a cluster, or waits for one.
    async fn take_up(&self, me: Member, found: bool, fresh: bool) -> Result<(), String> {
        let initialised = self.raft.is_initialized().await;
        if initialised.map_err(|error| error.to_string())? {
            if self.is_only_voter() {
                self.vote_from_now_on();
                let elected = self.raft.trigger().elect(false).await;
                elected.map_err(|error| error.to_string())?;
                self.lead().await?;
            } else {
                // Another may count on what this one answered before it ended: until that is over it
                // must give no vote, and consensus remembers no such time.
                tokio::time::sleep(Duration::from_millis(ELECTION_MS_MAX)).await;
            }
            return Ok(());
        }
        if !fresh {
            return Err("the log holds entries but no membership".into());
        }
        self.vote_from_now_on();
        if found {
            let address = BasicNode { addr: me.address };
            let members = BTreeMap::from([(me.node, address)]);
            // This begins an election too.
            let founded = self.raft.initialize(members).await;
            founded.map_err(|error| error.to_string())?;
            self.lead().await?;
        }
        Ok(())
    }

    fn is_only_voter(&self) -> bool {
        let metrics = self.raft.metrics();
        let now = metrics.borrow_watched();
        let membership = now.membership_config.membership();
        let mut voters = membership.voter_ids();
        voters.next() == Some(self.node_id) && voters.next().is_none()
    }

    /// Waits until this only voter leads and all its log is applied.
    async fn lead(&self) -> Result<(), String> {
        let node_id = self.node_id;
        let applied = move |metrics: &RaftMetrics<Types>| {
            let last = metrics.last_applied.map(|last| last.index());
            last == metrics.last_log_index && role_of(metrics, node_id).primary_term().is_some()
        };
        let wait = self
            .raft
            .wait(Some(LEAD_MAX))
            .metrics(applied, "leading and applied")
            .await;
        let metrics = wait.map_err(|error| error.to_string())?;
        self.follow(&metrics);
        Ok(())
    }

    /// Takes over what consensus says of itself.
    fn follow(&self, metrics: &RaftMetrics<Types>) {
        self.shared
            .term
            .store(metrics.current_term, Ordering::Relaxed);
        self.shared
            .leader
            .store(metrics.current_leader.unwrap_or(0), Ordering::Relaxed);
        let mut role = role_of(metrics, self.node_id);
        if let Role::Primary { term } = role
            && unanswered(metrics).is_some_and(|time| time >= CUT_OFF)
        {
            role = Role::Standby { leader: None, term };
        }
        self.shared.role.send_if_modified(|known| {
            let changed = *known != role;
            *known = role;
            changed
        });
    }

    /// Answers a request of a peer.
    pub(crate) async fn answer(&self, request: &[u8]) -> Vec<u8> {
        let answer = match PeerRequest::decode(request) {
            Ok(PeerRequest::Greet(greeting)) => self.greeted(greeting).await,
            Ok(PeerRequest::Rejoin(member)) => self.take_in_again(member).await,
            Ok(PeerRequest::Who) => PeerAnswer::Am {
                birth: self.origin.birth,
                start: self.origin.start,
            },
            Ok(PeerRequest::Digest(lsn)) => PeerAnswer::Digest(self.digests.at(lsn)),
            Ok(PeerRequest::Differs(lsn)) => {
                self.stop_as_wrong(lsn);
                PeerAnswer::Digest(self.digests.at(lsn))
            }
            Ok(request) => self.answering.answer(request).await,
            Err(text) => PeerAnswer::Failed(text),
        };
        answer.encode()
    }

    /// Whether it votes already; one that is not alone greets the others first.
    pub(crate) fn votes(&self) -> bool {
        self.answering.votes.load(Ordering::Acquire)
    }

    pub(super) fn vote_from_now_on(&self) {
        self.answering.votes.store(true, Ordering::Release);
        self.raft.runtime_config().elect(true);
    }

    /// Whether no other node can lead now: the only voter, or a quorum answered less than the
    /// shortest time ago after which another may be elected.
    pub(crate) fn holds_lease(&self) -> bool {
        let metrics = self.raft.metrics();
        let now = metrics.borrow_watched();
        let Some(term) = role_of(&now, self.node_id).primary_term() else {
            return false;
        };
        // The one that takes over is elected although this one still leads.
        if self.handed_over() == term {
            return false;
        }
        unanswered(&now).is_some_and(|time| time < Duration::from_millis(ELECTION_MS_MAX))
    }

    fn handed_over(&self) -> u64 {
        self.shared.handed_over.load(Ordering::Acquire)
    }

    /// From now on nobody may count on it that this node leads in a term.
    pub(super) fn hand_over(&self, term: u64) {
        self.shared.handed_over.store(term, Ordering::Release);
    }

    /// Proposes one entry, fenced by the term in which this node leads now.
    ///
    /// The future in the answer ends when the entry was applied, or says why it was not.
    ///
    /// # Errors
    /// Nothing was proposed.
    pub(crate) async fn propose(
        &self,
        groups: Groups,
    ) -> Result<impl Future<Output = Result<(), PersistError>> + Send + 'static, ProposeError> {
        let leader = self
            .raft
            .as_leader()
            .map_err(|_| ProposeError::NotPrimary)?
            .to_committed_leader_id();
        let mut written = self.write(groups.clone(), leader).await?;
        let node = self.clone();
        let mut metrics = self.raft.metrics();
        Ok(async move {
            let deadline = tokio::time::Instant::now() + LEASE_PATIENCE;
            loop {
                let error = match written.await {
                    Ok(Ok(_)) => return Ok(()),
                    Ok(Err(error)) => error,
                    Err(_) => return Err(PersistError::Unknown),
                };
                let ClientWriteError::ForwardToLeader(forward) = error else {
                    return Err(match error {
                        ClientWriteError::PreconditionFailed(_) => {
                            PersistError::NotPrimary { leader: None }
                        }
                        ClientWriteError::ForwardToLeader(_)
                        | ClientWriteError::LogEntryDiscarded(_)
                        | ClientWriteError::ChangeMembershipError(_) => PersistError::Unknown,
                    });
                };
                let leader_id = forward.leader_id;
                let waits = forward.reason == ForwardReason::LeaseExpired
                    && tokio::time::Instant::now() < deadline;
                if !waits {
                    return Err(PersistError::NotPrimary { leader: leader_id });
                }
                // Certainly not written: a quorum has not answered for a while, or not yet. An answer
                // shows in the metrics.
                let answered = tokio::time::timeout_at(deadline, metrics.changed());
                if matches!(answered.await, Ok(Err(_))) {
                    return Err(PersistError::Stopped);
                }
                written = match node.write(groups.clone(), leader).await {
                    Ok(written) => written,
                    Err(_) => return Err(PersistError::Stopped),
                };
            }
        })
    }

    async fn write(
        &self,
        groups: Groups,
        leader: CommittedLeaderId<u64>,
    ) -> Result<Written, ProposeError> {
        let (responder, complete) = ProgressResponder::complete_only();
        self.raft
            .write(groups)
            .with_leader(leader)
            .responder(responder)
            .await
            .map_err(|_| ProposeError::Stopped)?;
        Ok(complete)
    }

    /// Freezes the machine between two entries.
    pub(crate) async fn freeze(&self) -> Option<(SnapshotHead, M::Snapshot)> {
        self.raft
            .with_state_machine(|machine| {
                let frozen = machine.freeze();
                Box::pin(async move { frozen })
            })
            .await
            .ok()
    }

    /// Tells consensus of a snapshot on disk, and that the log may be purged up to `purge`.
    pub(crate) async fn snapshot_written(&self, purge: Option<u64>) {
        // Both only fail when consensus has ended, which is reported elsewhere.
        drop(self.raft.trigger().snapshot().await);
        if let Some(upto) = purge {
            drop(self.raft.trigger().purge_log(upto).await);
        }
    }

    /// Follows term and leader; ends with the reason when consensus fails.
    pub(crate) async fn watch(self) -> String {
        let mut metrics = self.raft.metrics();
        loop {
            {
                let now = metrics.borrow_watched();
                self.follow(&now);
                if let Err(error) = &now.running_state {
                    return error.to_string();
                }
            }
            // One that is cut off hears of no change.
            let changed = tokio::time::timeout(CUT_OFF / 4, metrics.changed()).await;
            if let Ok(Err(_)) = changed {
                return "consensus ended".into();
            }
        }
    }

    /// Stops consensus and waits until it has stopped.
    pub(crate) async fn shutdown(&self) {
        // The only error is that its task was gone already.
        drop(self.raft.shutdown().await);
    }
}

fn settings() -> Result<Config, openraft::ConfigError> {
    Config {
        cluster_name: "xce".into(),
        heartbeat_interval: HEARTBEAT_MS,
        election_timeout_min: ELECTION_MS_MIN,
        election_timeout_max: ELECTION_MS_MAX,
        enable_pre_vote: Some(true),
        // Not before the others have been greeted.
        enable_elect: false,
        // One that lost its log must not bring down the primary; it is found out when it greets.
        allow_log_reversion: Some(true),
        enable_leader_restore: Some(false),
        // Both are driven by us: the log is purged only up to the older of two kept snapshots.
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: u64::MAX,
        max_payload_entries: 1024,
        ..Config::default()
    }
    .validate()
}

/// How long ago a quorum answered; not known of one that leads no others.
fn unanswered(metrics: &RaftMetrics<Types>) -> Option<Duration> {
    let membership = metrics.membership_config.membership();
    if membership.voter_ids().count() == 1 {
        return Some(Duration::ZERO);
    }
    metrics.last_quorum_acked.map(|at| at.elapsed())
}

/// What a node is by its own account.
fn role_of(metrics: &RaftMetrics<Types>, node_id: u64) -> Role {
    let term = metrics.current_term;
    let leads = metrics.state == ServerState::Leader && metrics.current_leader == Some(node_id);
    // Its first entry of a term is committed after all that it had before.
    let applied = metrics
        .last_applied
        .is_some_and(|last| last.committed_leader_id().term == term);
    if leads && applied {
        return Role::Primary { term };
    }
    let leader = metrics.current_leader.filter(|leader| *leader != node_id);
    let leader = leader.map(|node| {
        let known = metrics.membership_config.membership().get_node(&node);
        Member {
            node,
            address: known.map_or_else(String::new, |known| known.addr.clone()),
        }
    });
    Role::Standby { leader, term }
}
