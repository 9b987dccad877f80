//! What callers send to the WAL actor, and the batch that it makes of it.

use tokio::sync::oneshot;

use crate::batch::{BATCH_HEADER_BYTES, BLOCK_BYTES};
use crate::config::WalConfig;
use crate::error::{PersistError, SnapshotError};
use crate::machine::Position;
use crate::raft::Applied;
use crate::receipt::Receipt;

/// What a caller wants.
pub(crate) enum Request<Outcome> {
    /// Commit a group.
    Persist {
        group: Vec<u8>,
        reply: oneshot::Sender<Result<Receipt<Outcome>, PersistError>>,
    },
    /// Say when everything before has been applied.
    Barrier {
        reply: oneshot::Sender<Result<u64, PersistError>>,
    },
    /// Take a snapshot now.
    Snapshot {
        reply: oneshot::Sender<Result<u64, SnapshotError>>,
    },
}

/// Limits of the actor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) entry_bytes: usize,
    pub(crate) entry_groups: usize,
    pub(crate) snapshot_every_entries: u64,
    pub(crate) snapshot_every_bytes: u64,
    pub(crate) log_keep_entries: u64,
}

impl Limits {
    /// Those that are configured.
    pub(crate) fn of(config: &WalConfig) -> Self {
        Self {
            entry_bytes: config.entry_bytes,
            entry_groups: config.entry_groups,
            snapshot_every_entries: config.snapshot_every_entries,
            snapshot_every_bytes: config.snapshot_every_bytes,
            log_keep_entries: config.log_keep_entries,
        }
    }
}

/// What goes into one entry, and who waits for it.
pub(crate) struct Batch<Outcome> {
    pub(crate) groups: Vec<Vec<u8>>,
    pub(crate) replies: Vec<oneshot::Sender<Result<Receipt<Outcome>, PersistError>>>,
    pub(crate) barriers: Vec<oneshot::Sender<Result<u64, PersistError>>>,
    /// Bytes of the groups.
    pub(crate) bytes: usize,
}

impl<Outcome> Batch<Outcome> {
    pub(crate) fn new() -> Self {
        Self {
            groups: Vec::new(),
            replies: Vec::new(),
            barriers: Vec::new(),
            bytes: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.replies.is_empty() && self.barriers.is_empty()
    }
}

/// Bytes that an entry takes in the log when it is written alone.
pub(crate) fn footprint(payload_bytes: usize) -> u64 {
    (payload_bytes + BATCH_HEADER_BYTES).next_multiple_of(BLOCK_BYTES) as u64
}

/// Answers all callers of one entry. A caller who left is no matter.
pub(crate) fn answer<Outcome>(
    replies: Vec<oneshot::Sender<Result<Receipt<Outcome>, PersistError>>>,
    barriers: Vec<oneshot::Sender<Result<u64, PersistError>>>,
    applied: Applied<Outcome>,
) {
    match applied {
        Ok((term, lsn, outcomes)) => {
            for ((sub, reply), outcome) in (0..).zip(replies).zip(outcomes) {
                drop(reply.send(Ok(Receipt::new(Position { term, lsn, sub }, outcome))));
            }
            for barrier in barriers {
                barrier.send(Ok(lsn)).ok();
            }
        }
        Err(error) => {
            for reply in replies {
                drop(reply.send(Err(error)));
            }
            for barrier in barriers {
                barrier.send(Err(error)).ok();
            }
        }
    }
}
