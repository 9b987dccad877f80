//! The handle that callers hold.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot, watch};

use crate::device::DiskMode;
use crate::error::{PersistError, SnapshotError};
use crate::journal::{JournalCursor, JournalError, JournalPage, JournalSource};
use crate::machine::Machine;
use crate::memory::MemoryWal;
use crate::peers::{MemberChange, MemberState, MembershipError, Role};
use crate::raft::RaftNode;
use crate::receipt::Receipt;
use crate::request::Request;
use crate::segment_log::LogFigures;
use crate::status::{Shared, WalStatus};

/// The write-ahead log; clones share it. It ends when it is closed or the last clone is gone.
pub struct Wal<M: Machine> {
    backend: Backend<M>,
}

enum Backend<M: Machine> {
    Disk(Arc<DiskWal<M>>),
    Memory(MemoryWal<M>),
}

/// What a handle needs of a WAL on disk.
pub(crate) struct DiskWal<M: Machine> {
    pub(crate) requests: mpsc::Sender<Request<M::Outcome>>,
    pub(crate) closing: watch::Sender<bool>,
    pub(crate) node: RaftNode<M>,
    pub(crate) journal: JournalSource,
    pub(crate) shared: Arc<Shared>,
    pub(crate) figures: Arc<LogFigures>,
    pub(crate) mode: DiskMode,
    pub(crate) entry_bytes: usize,
    pub(crate) queue_bytes: usize,
    /// Closed once everything has stopped.
    pub(crate) ended: watch::Receiver<()>,
}

impl<M: Machine> Clone for Wal<M> {
    fn clone(&self) -> Self {
        let backend = match &self.backend {
            Backend::Disk(disk) => Backend::Disk(Arc::clone(disk)),
            Backend::Memory(memory) => Backend::Memory(memory.clone()),
        };
        Self { backend }
    }
}

impl<M: Machine> From<MemoryWal<M>> for Wal<M> {
    fn from(memory: MemoryWal<M>) -> Self {
        Self {
            backend: Backend::Memory(memory),
        }
    }
}

impl<M: Machine> Wal<M> {
    pub(crate) fn on_disk(disk: DiskWal<M>) -> Self {
        Self {
            backend: Backend::Disk(Arc::new(disk)),
        }
    }

    /// A WAL without a disk, for tests and simulations: same answers, nothing durable.
    pub fn in_memory(machine: M) -> Self {
        MemoryWal::new(machine).into()
    }

    /// Commits a group: durable, applied and published when it returns `Ok`.
    ///
    /// # Errors
    /// [`PersistError::Unknown`] when nobody knows whether it was committed; every other error
    /// means that it was certainly not.
    pub async fn persist(&self, group: Vec<u8>) -> Result<Receipt<M::Outcome>, PersistError> {
        match &self.backend {
            Backend::Disk(disk) => disk.persist(group).await,
            Backend::Memory(memory) => memory.persist_now(&group),
        }
    }

    /// Answers when everything proposed before has been applied, with the LSN reached.
    ///
    /// # Errors
    /// As [`Wal::persist`]; after `Unknown` ask again.
    pub async fn barrier(&self) -> Result<u64, PersistError> {
        match &self.backend {
            Backend::Disk(disk) => {
                let (reply, answer) = oneshot::channel();
                disk.enqueue(Request::Barrier { reply })?;
                answer.await.unwrap_or(Err(PersistError::Unknown))
            }
            Backend::Memory(memory) => Ok(memory.last_lsn()),
        }
    }

    /// Answers a request of another controller.
    ///
    /// The transport has made sure that it comes from a controller of this cluster.
    pub async fn answer(&self, request: &[u8]) -> Vec<u8> {
        match &self.backend {
            Backend::Disk(disk) => disk.node.answer(request).await,
            Backend::Memory(_) => Vec::new(),
        }
    }

    /// What this controller is, and each change of it.
    pub fn role(&self) -> watch::Receiver<Role> {
        match &self.backend {
            Backend::Disk(disk) => disk.shared.role.subscribe(),
            Backend::Memory(memory) => {
                let term = memory.status().term;
                watch::channel(Role::Primary { term }).1
            }
        }
    }

    /// Whether no other controller can be the primary at this moment: what acts on the world asks
    /// this first, so that a primary that was replaced without noticing does nothing.
    pub fn holds_lease(&self) -> bool {
        match &self.backend {
            Backend::Disk(disk) => disk.node.holds_lease(),
            Backend::Memory(_) => true,
        }
    }

    /// The controllers of the cluster as this one sees them, by number.
    pub fn members(&self) -> Vec<MemberState> {
        match &self.backend {
            Backend::Disk(disk) => disk.node.members(),
            Backend::Memory(_) => Vec::new(),
        }
    }

    /// Changes the membership; one change at a time. Returns once it is committed.
    ///
    /// # Errors
    /// See [`MembershipError`].
    pub async fn change_members(&self, change: MemberChange) -> Result<(), MembershipError> {
        match &self.backend {
            Backend::Disk(disk) => disk.node.change_members(change).await,
            Backend::Memory(_) => Err(alone()),
        }
    }

    /// Hands the leadership to another voter; returns once it leads.
    ///
    /// # Errors
    /// See [`MembershipError`].
    pub async fn transfer(&self, to: u64) -> Result<(), MembershipError> {
        match &self.backend {
            Backend::Disk(disk) => disk.node.transfer(to).await,
            Backend::Memory(_) => Err(alone()),
        }
    }

    /// What the WAL says about itself.
    pub fn status(&self) -> WalStatus {
        match &self.backend {
            Backend::Disk(disk) => disk.shared.view(Some((disk.mode, &disk.figures))),
            Backend::Memory(memory) => memory.status(),
        }
    }

    /// Writes a snapshot now and answers with the LSN that it covers.
    ///
    /// # Errors
    /// It could not be written; the log and older snapshots are as before.
    pub async fn snapshot_now(&self) -> Result<u64, SnapshotError> {
        match &self.backend {
            Backend::Disk(disk) => {
                let (reply, answer) = oneshot::channel();
                let request = Request::Snapshot { reply };
                disk.requests
                    .send(request)
                    .await
                    .map_err(|_| SnapshotError::Stopped)?;
                answer.await.unwrap_or(Err(SnapshotError::Stopped))
            }
            Backend::Memory(memory) => Ok(memory.last_lsn()),
        }
    }

    /// A part of the journal: the oldest snapshot whose entries are all kept, and these, up to what
    /// was applied when the first part was asked for. Blocks on reading a file; holds up no commit.
    ///
    /// # Errors
    /// See [`JournalError`].
    pub fn journal_page(
        &self,
        cursor: Option<JournalCursor>,
        bytes_max: usize,
    ) -> Result<JournalPage, JournalError> {
        match &self.backend {
            Backend::Disk(disk) => disk.journal.page(cursor, bytes_max),
            Backend::Memory(_) => Err(JournalError::InMemory),
        }
    }

    /// Finishes what is in flight, refuses what waits, and lets go of the state directory.
    ///
    /// Other clones answer `Stopped` from then on.
    pub async fn close(self) {
        match self.backend {
            Backend::Disk(disk) => {
                let mut ended = disk.ended.clone();
                disk.closing.send_replace(true);
                drop(disk);
                while ended.changed().await.is_ok() {}
            }
            Backend::Memory(memory) => memory.stop(),
        }
    }
}

fn alone() -> MembershipError {
    MembershipError::Refused("a log in memory has no other controllers".to_owned())
}

impl<M: Machine> DiskWal<M> {
    async fn persist(&self, group: Vec<u8>) -> Result<Receipt<M::Outcome>, PersistError> {
        let bytes = group.len();
        if bytes > self.entry_bytes {
            return Err(PersistError::TooLarge {
                bytes,
                max: self.entry_bytes,
            });
        }
        let waiting = self.shared.queue_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.shared.queue_groups.fetch_add(1, Ordering::Relaxed);
        let (reply, answer) = oneshot::channel();
        let queued = if waiting + bytes > self.queue_bytes {
            Err(PersistError::Overloaded)
        } else {
            self.enqueue(Request::Persist { group, reply })
        };
        if let Err(refusal) = queued {
            self.shared.queue_bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.shared.queue_groups.fetch_sub(1, Ordering::Relaxed);
            return Err(refusal);
        }
        answer.await.unwrap_or(Err(PersistError::Unknown))
    }

    fn enqueue(&self, request: Request<M::Outcome>) -> Result<(), PersistError> {
        if self.shared.stopped.load(Ordering::Acquire) {
            return Err(PersistError::Stopped);
        }
        self.requests
            .try_send(request)
            .map_err(|error| match error {
                TrySendError::Full(_) => PersistError::Overloaded,
                TrySendError::Closed(_) => PersistError::Stopped,
            })
    }
}
