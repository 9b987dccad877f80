//! One running node: starts it, becomes leader, proposes, purges, stops.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::ClientWriteError;
use openraft::impls::{BasicNode, ProgressResponder};
use openraft::{Config, Raft, SnapshotPolicy};

use super::machine::StateMachine;
use super::network::NoPeers;
use super::storage::LogStore;
use super::types::{Groups, Types};
use crate::error::PersistError;
use crate::machine::Machine;
use crate::snapshot::SnapshotHead;
use crate::status::Shared;

/// Source: measured in the foundations; 50 ms beats and 150 to 300 ms elections fail over in 550 ms.
const HEARTBEAT_MS: u64 = 50;
/// Source: as `HEARTBEAT_MS`.
const ELECTION_MS_MIN: u64 = 150;
/// Source: as `HEARTBEAT_MS`.
const ELECTION_MS_MAX: u64 = 300;
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

/// A running node.
pub(crate) struct RaftNode<M: Machine> {
    raft: Raft<Types, StateMachine<M>>,
    shared: Arc<Shared>,
}

impl<M: Machine> Clone for RaftNode<M> {
    fn clone(&self) -> Self {
        Self {
            raft: self.raft.clone(),
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<M: Machine> RaftNode<M> {
    /// Starts consensus and returns once this single voter leads and all its log is applied.
    ///
    /// # Errors
    /// Says what consensus said.
    pub(crate) async fn start(
        node_id: u64,
        log: LogStore,
        machine: StateMachine<M>,
        shared: Arc<Shared>,
    ) -> Result<Self, String> {
        let fresh = log.last_index() == 0;
        let config = settings().map_err(|error| error.to_string())?;
        let raft = Raft::new(node_id, Arc::new(config), NoPeers, log, machine)
            .await
            .map_err(|error| error.to_string())?;
        let node = Self { raft, shared };
        node.lead(node_id, fresh).await?;
        Ok(node)
    }

    async fn lead(&self, node_id: u64, fresh: bool) -> Result<(), String> {
        let initialised = self
            .raft
            .is_initialized()
            .await
            .map_err(|error| error.to_string())?;
        if initialised {
            self.raft
                .trigger()
                .elect(false)
                .await
                .map_err(|error| error.to_string())?;
        } else if fresh {
            let members = BTreeMap::from([(node_id, BasicNode::default())]);
            self.raft
                .initialize(members)
                .await
                .map_err(|error| error.to_string())?;
        } else {
            return Err("the log holds entries but no membership".into());
        }
        let applied = |metrics: &openraft::RaftMetrics<Types>| {
            let last = metrics.last_applied.map(|last| last.index());
            metrics.current_leader == Some(node_id)
                && last.is_some()
                && last == metrics.last_log_index
                && metrics
                    .last_applied
                    .is_some_and(|last| last.committed_leader_id().term == metrics.current_term)
        };
        let wait = self
            .raft
            .wait(Some(LEAD_MAX))
            .metrics(applied, "leading and applied")
            .await;
        let metrics = wait.map_err(|error| error.to_string())?;
        self.shared
            .term
            .store(metrics.current_term, Ordering::Relaxed);
        self.shared.leader.store(node_id, Ordering::Relaxed);
        Ok(())
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
            .map_err(|_| ProposeError::NotPrimary)?;
        let (responder, complete) = ProgressResponder::complete_only();
        self.raft
            .write(groups)
            .with_leader(leader.to_committed_leader_id())
            .responder(responder)
            .await
            .map_err(|_| ProposeError::Stopped)?;
        Ok(async move {
            match complete.await {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(ClientWriteError::ForwardToLeader(forward))) => {
                    Err(PersistError::NotPrimary {
                        leader: forward.leader_id,
                    })
                }
                Ok(Err(ClientWriteError::PreconditionFailed(_))) => {
                    Err(PersistError::NotPrimary { leader: None })
                }
                Ok(Err(
                    ClientWriteError::LogEntryDiscarded(_)
                    | ClientWriteError::ChangeMembershipError(_),
                ))
                | Err(_) => Err(PersistError::Unknown),
            }
        })
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
                self.shared.term.store(now.current_term, Ordering::Relaxed);
                self.shared
                    .leader
                    .store(now.current_leader.unwrap_or(0), Ordering::Relaxed);
                if let Err(error) = &now.running_state {
                    return error.to_string();
                }
            }
            if metrics.changed().await.is_err() {
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
        enable_leader_restore: Some(false),
        // Both are driven by us: the log is purged only up to the older of two kept snapshots.
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: u64::MAX,
        max_payload_entries: 1024,
        ..Config::default()
    }
    .validate()
}
