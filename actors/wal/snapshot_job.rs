//! Takes one snapshot while the machine runs on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::chain;
use crate::machine::Machine;
use crate::raft::RaftNode;
use crate::snapshot::{SnapshotHead, SnapshotStore};
use crate::status::Shared;

/// Writes one snapshot beside the running machine.
pub(crate) struct SnapshotJob<M: Machine> {
    pub(crate) node: RaftNode<M>,
    pub(crate) store: Arc<SnapshotStore>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) failed: Arc<AtomicBool>,
    pub(crate) keep: u64,
}

impl<M: Machine> SnapshotJob<M> {
    /// Writes it, tells consensus, purges the log; says up to which LSN or why not.
    pub(crate) async fn write(
        &self,
        head: SnapshotHead,
        mut records: M::Snapshot,
    ) -> Result<u64, String> {
        let store = Arc::clone(&self.store);
        let written = tokio::task::spawn_blocking(move || store.write(head, &mut records)).await;
        let result = match written {
            Ok(Ok(info)) => Ok(info.lsn()),
            Ok(Err(error)) => Err(chain(&error)),
            Err(error) => Err(format!("the snapshot thread failed: {error}")),
        };
        self.failed.store(result.is_err(), Ordering::Relaxed);
        self.shared.snapshot_alarm(result.as_ref().err().cloned());
        if let Ok(lsn) = result {
            self.shared.snapshot_lsn.store(lsn, Ordering::Relaxed);
            let keep = lsn.saturating_sub(self.keep);
            let purge = self.store.purge_limit();
            let purge = purge.map(|limit| self.node.purge_for_others(limit.min(keep)));
            self.node.snapshot_written(purge).await;
        }
        result
    }
}
