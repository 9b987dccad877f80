//! The state machine as the consensus library sees it: applies entries, answers their callers.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

use futures::{Stream, StreamExt};
use openraft::storage::{EntryResponder, RaftSnapshotBuilder, RaftStateMachine};
use openraft::type_config::alias::{SnapshotMetaOf, SnapshotOf};
use openraft::{EntryPayload, OptionalSend};
use xce_failpoint::Point;

use super::encoding::{decode_membership, log_id, position, stored_membership_bytes};
use super::types::{Entry, LogId, StoredMembership, Types};
use crate::digests::Digests;
use crate::error::{PersistError, chain};
use crate::groups;
use crate::machine::{Machine, Position};
use crate::snapshot::{SnapshotHead, SnapshotInfo, SnapshotStore};
use crate::status::Shared;

/// A snapshot as it travels between nodes: a file on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SnapshotFile {
    pub(crate) path: PathBuf,
}

/// What an entry's callers get: where it was applied and each group's outcome.
pub(crate) type Applied<Outcome> = Result<(u64, u64, Vec<Outcome>), PersistError>;
type Answer<Outcome> = Box<dyn FnOnce(Applied<Outcome>) + Send>;

/// The callers who wait for entries of this node.
pub(crate) struct Waiters<Outcome> {
    waiting: Mutex<HashMap<u64, Answer<Outcome>>>,
}

impl<Outcome> Default for Waiters<Outcome> {
    fn default() -> Self {
        Self {
            waiting: Mutex::new(HashMap::new()),
        }
    }
}

impl<Outcome> Waiters<Outcome> {
    /// Remembers who waits for the entry with this ticket.
    pub(crate) fn insert(
        &self,
        ticket: u64,
        answer: impl FnOnce(Applied<Outcome>) + Send + 'static,
    ) {
        self.waiting().insert(ticket, Box::new(answer));
    }

    /// Answers whoever waits with this ticket; nothing happens the second time.
    pub(crate) fn answer(&self, ticket: u64, applied: Applied<Outcome>) {
        let answer = self.waiting().remove(&ticket);
        if let Some(answer) = answer {
            answer(applied);
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<u64, Answer<Outcome>>> {
        self.waiting
            .lock()
            .expect("no code panics while it holds this lock")
    }
}

/// Drives a [`Machine`].
pub(crate) struct StateMachine<M: Machine> {
    /// Never contended: the lock only makes the machine shareable by type. Away while a snapshot is
    /// installed.
    machine: Mutex<Option<M>>,
    last: Option<LogId>,
    membership: StoredMembership,
    waiters: Arc<Waiters<M::Outcome>>,
    snapshots: Arc<SnapshotStore>,
    shared: Arc<Shared>,
    digests: Arc<Digests>,
}

impl<M: Machine> StateMachine<M> {
    /// A machine whose state is that of `restored`, or empty.
    ///
    /// # Errors
    /// The membership in the snapshot cannot be read.
    pub(crate) fn new(
        machine: M,
        restored: Option<&SnapshotInfo>,
        waiters: Arc<Waiters<M::Outcome>>,
        snapshots: Arc<SnapshotStore>,
        shared: Arc<Shared>,
    ) -> Result<Self, String> {
        let membership = match restored {
            Some(info) => decode_membership(&info.head.membership)?,
            None => StoredMembership::default(),
        };
        shared.voters_are(voters_of(&membership));
        let last = restored.and_then(|info| info.head.last);
        if let Some(last) = last {
            shared.last_lsn.store(last.index, Ordering::Release);
            shared.snapshot_lsn.store(last.index, Ordering::Relaxed);
        }
        Ok(Self {
            machine: Mutex::new(Some(machine)),
            last: last.map(log_id),
            membership,
            waiters,
            snapshots,
            shared,
            digests: Arc::default(),
        })
    }

    /// Hashes of the state at marks.
    pub(crate) fn digests(&self) -> Arc<Digests> {
        Arc::clone(&self.digests)
    }

    /// Freezes the state together with what it covers.
    pub(crate) fn freeze(&mut self) -> (SnapshotHead, M::Snapshot) {
        let head = SnapshotHead {
            last: self.last.as_ref().map(position),
            membership: stored_membership_bytes(&self.membership),
            installed: false,
        };
        (head, self.machine().snapshot())
    }

    fn machine(&mut self) -> &mut M {
        self.slot()
            .as_mut()
            .expect("a machine that panicked is never used again")
    }

    fn slot(&mut self) -> &mut Option<M> {
        self.machine
            .get_mut()
            .expect("no code panics while it holds this lock")
    }

    /// Replaces the state by that of a file, beside consensus, whose beats must go on.
    async fn restore(&mut self, path: PathBuf) -> io::Result<()> {
        let machine = self.slot().take();
        let mut machine = machine.ok_or_else(|| io::Error::other("the machine has failed"))?;
        let snapshots = Arc::clone(&self.snapshots);
        let restoring = tokio::task::spawn_blocking(move || {
            let restored = snapshots.restore(&path, &mut machine);
            (machine, restored)
        });
        let (machine, restored) = restoring.await.map_err(io::Error::other)?;
        *self.slot() = Some(machine);
        restored
            .map(drop)
            .map_err(|error| io::Error::other(chain(&error)))
    }

    fn apply_entry(&mut self, entry: Entry) -> io::Result<()> {
        xce_failpoint::hit(Point::WalApplyBefore);
        let at = position(&entry.log_id);
        let (mut ticket, mut outcomes) = (0, Vec::new());
        let mut is_mark = false;
        match entry.payload {
            EntryPayload::Blank => {}
            EntryPayload::Membership(membership) => {
                self.membership = StoredMembership::new(Some(entry.log_id), membership);
                self.shared.voters_are(voters_of(&self.membership));
            }
            EntryPayload::Normal(payload) => {
                ticket = payload.ticket;
                is_mark = groups::is_mark(&payload.bytes);
                let list = groups::unpack(&payload.bytes).map_err(|detail| {
                    io::Error::new(
                        io::ErrorKind::InvalidData,
                        format!("entry {}: {detail}", at.index),
                    )
                })?;
                let machine = self.machine();
                outcomes.reserve(list.len());
                for (sub, group) in (0..).zip(list) {
                    let place = Position {
                        term: at.term,
                        lsn: at.index,
                        sub,
                    };
                    outcomes.push(machine.apply(place, group));
                }
            }
        }
        self.machine().publish(at.index, at.term);
        self.last = Some(entry.log_id);
        if is_mark {
            let records = self.machine().snapshot();
            self.digests.begin(at.index, records);
        }
        self.shared
            .groups
            .fetch_add(outcomes.len() as u64, Ordering::Relaxed);
        self.shared.last_lsn.store(at.index, Ordering::Release);
        xce_failpoint::hit(Point::WalApplyAfter);
        self.waiters
            .answer(ticket, Ok((at.term, at.index, outcomes)));
        Ok(())
    }

    fn meta(info: &SnapshotInfo) -> io::Result<SnapshotMetaOf<Types>> {
        let last_membership = decode_membership(&info.head.membership).map_err(io::Error::other)?;
        Ok(SnapshotMetaOf::<Types> {
            last_log_id: info.head.last.map(log_id),
            last_membership,
        })
    }

    fn snapshot_of(info: SnapshotInfo) -> io::Result<SnapshotOf<Types, SnapshotFile>> {
        let meta = Self::meta(&info)?;
        Ok(SnapshotOf::<Types, SnapshotFile> {
            meta,
            snapshot: SnapshotFile { path: info.path },
        })
    }
}

/// Who is in every set of voters: one is not in yet, or not out yet, while a change is under way.
fn voters_of(stored: &StoredMembership) -> BTreeSet<u64> {
    let sets = stored.membership().get_joint_config().iter().cloned();
    sets.reduce(|all, set| &all & &set).unwrap_or_default()
}

/// Says how a panic was worded.
fn panic_text(payload: &(dyn std::any::Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no text")
}

/// Hands out a snapshot: one that is on disk already, or one that it writes.
pub(crate) struct SnapshotBuilder<M: Machine> {
    snapshots: Arc<SnapshotStore>,
    frozen: Mutex<Option<(SnapshotHead, M::Snapshot)>>,
}

impl<M: Machine> RaftSnapshotBuilder<Types> for SnapshotBuilder<M> {
    type SnapshotData = SnapshotFile;

    async fn build_snapshot(&mut self) -> Result<SnapshotOf<Types, SnapshotFile>, io::Error> {
        let frozen = self
            .frozen
            .get_mut()
            .map_err(|_| io::Error::other("poisoned"))?
            .take();
        let info = match frozen {
            Some((head, mut records)) => {
                let snapshots = Arc::clone(&self.snapshots);
                tokio::task::spawn_blocking(move || snapshots.write(head, &mut records))
                    .await
                    .map_err(io::Error::other)?
                    .map_err(|error| io::Error::other(chain(&error)))?
            }
            None => self
                .snapshots
                .newest()
                .ok_or_else(|| io::Error::other("no snapshot"))?,
        };
        StateMachine::<M>::snapshot_of(info)
    }
}

impl<M: Machine> RaftStateMachine<Types> for StateMachine<M> {
    type SnapshotData = SnapshotFile;
    type SnapshotBuilder = SnapshotBuilder<M>;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), io::Error> {
        Ok((self.last, self.membership.clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> Result<(), io::Error>
    where
        S: Stream<Item = Result<EntryResponder<Types>, io::Error>> + Unpin + OptionalSend,
    {
        while let Some(next) = entries.next().await {
            let (entry, responder) = next?;
            catch_unwind(AssertUnwindSafe(|| self.apply_entry(entry))).unwrap_or_else(
                |payload| {
                    let text = format!("the machine panicked: {}", panic_text(payload.as_ref()));
                    Err(io::Error::other(text))
                },
            )?;
            if let Some(responder) = responder {
                responder.send(());
            }
        }
        Ok(())
    }

    /// Unless forced, only tells of what is on disk: snapshots are written beforehand.
    async fn try_create_snapshot_builder(&mut self, force: bool) -> Option<SnapshotBuilder<M>> {
        if force {
            return Some(self.get_snapshot_builder().await);
        }
        self.snapshots.newest()?;
        Some(SnapshotBuilder {
            snapshots: Arc::clone(&self.snapshots),
            frozen: Mutex::new(None),
        })
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotBuilder<M> {
        let frozen = Mutex::new(Some(self.freeze()));
        SnapshotBuilder {
            snapshots: Arc::clone(&self.snapshots),
            frozen,
        }
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMetaOf<Types>,
        snapshot: SnapshotFile,
    ) -> Result<(), io::Error> {
        self.restore(snapshot.path).await?;
        xce_failpoint::hit(Point::SnapshotInstalled);
        self.last = meta.last_log_id;
        self.membership = meta.last_membership.clone();
        self.shared.voters_are(voters_of(&self.membership));
        let (mut head, mut records) = self.freeze();
        // A crash before the log is purged up to here must not look like a log that was cut off.
        head.installed = true;
        let snapshots = Arc::clone(&self.snapshots);
        tokio::task::spawn_blocking(move || snapshots.write(head, &mut records))
            .await
            .map_err(io::Error::other)?
            .map_err(|error| io::Error::other(chain(&error)))?;
        if let Some(last) = self.last.as_ref().map(position) {
            self.machine().publish(last.index, last.term);
            self.shared.last_lsn.store(last.index, Ordering::Release);
            self.shared
                .snapshot_lsn
                .store(last.index, Ordering::Relaxed);
        }
        Ok(())
    }

    async fn get_current_snapshot(
        &mut self,
    ) -> Result<Option<SnapshotOf<Types, SnapshotFile>>, io::Error> {
        self.snapshots.newest().map(Self::snapshot_of).transpose()
    }
}
