//! The WAL actor: drains waiting groups into entries, at most two entries in flight.
//!
//! Runs on the consensus thread. It refuses what cannot be written before it is proposed, so that
//! a full disk never reaches consensus.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, mpsc, oneshot, watch};

use crate::batch::BLOCK_BYTES;
use crate::error::{PersistError, SnapshotError};
use crate::groups;
use crate::machine::Machine;
use crate::raft::{Groups, ProposeError, RaftNode, Waiters};
use crate::request::{Batch, Limits, Request, answer, footprint};
use crate::segment_log::{LogFigures, RESERVE_BYTES};
use crate::snapshot::SnapshotStore;
use crate::snapshot_job::SnapshotJob;
use crate::spare::SpareStatus;
use crate::status::Shared;

/// Source: measured in the foundations; more gains nothing, one halves the rate.
const ENTRIES_IN_FLIGHT: usize = 2;

/// How long the end waits for entries that were proposed.
///
/// Source: chosen; far above a round of a healthy quorum on a slow disk.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// How long to wait before a failed snapshot is tried again.
///
/// Source: chosen; a full disk is not helped by trying more often.
const SNAPSHOT_RETRY: Duration = Duration::from_secs(30);

/// Everything the actor works with.
pub(crate) struct ActorParts<M: Machine> {
    pub(crate) requests: mpsc::Receiver<Request<M::Outcome>>,
    /// Says `true`, or ends, when the WAL is to end.
    pub(crate) closing: watch::Receiver<bool>,
    pub(crate) node: RaftNode<M>,
    pub(crate) waiters: Arc<Waiters<M::Outcome>>,
    pub(crate) snapshots: Arc<SnapshotStore>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) figures: Arc<LogFigures>,
    pub(crate) spare: watch::Receiver<SpareStatus>,
    pub(crate) limits: Limits,
    /// Bytes of the log since the newest snapshot.
    pub(crate) bytes_since_snapshot: u64,
}

pub(crate) struct Actor<M: Machine> {
    parts: ActorParts<M>,
    in_flight: Arc<Semaphore>,
    bytes_in_flight: Arc<AtomicU64>,
    /// Taken from the queue, but did not fit into the last entry.
    held: VecDeque<Request<M::Outcome>>,
    snapshot: Arc<Semaphore>,
    snapshot_replies: Vec<oneshot::Sender<Result<u64, SnapshotError>>>,
    snapshot_done: Arc<Notify>,
    snapshot_failed: Arc<AtomicBool>,
    snapshot_started: Option<tokio::time::Instant>,
    ticket: u64,
    closing: bool,
}

impl<M: Machine> Actor<M> {
    pub(crate) fn new(parts: ActorParts<M>) -> Self {
        Self {
            parts,
            in_flight: Arc::new(Semaphore::new(ENTRIES_IN_FLIGHT)),
            bytes_in_flight: Arc::default(),
            held: VecDeque::new(),
            snapshot: Arc::new(Semaphore::new(1)),
            snapshot_replies: Vec::new(),
            snapshot_done: Arc::default(),
            snapshot_failed: Arc::default(),
            snapshot_started: None,
            ticket: 0,
            closing: false,
        }
    }

    /// Serves until closed, then waits for what is in flight.
    pub(crate) async fn run(mut self) {
        while !self.closing {
            // Not a message: entries that no quorum agrees to must not hold up the end.
            let permit = tokio::select! {
                biased;
                _ = self.parts.closing.wait_for(|closing| *closing) => break,
                permit = Arc::clone(&self.in_flight).acquire_owned() => permit,
            };
            let Ok(permit) = permit else {
                break;
            };
            let batch = self.gather().await;
            if !batch.is_empty() {
                self.propose(batch, permit).await;
            }
            self.snapshot_if_due().await;
        }
        self.refuse_waiting();
        let all = u32::try_from(ENTRIES_IN_FLIGHT).expect("a small constant");
        // What no quorum agrees to would never end; its callers are told that nobody knows.
        let in_flight = self.in_flight.acquire_many(all);
        drop(tokio::time::timeout(CLOSE_WITHIN, in_flight).await);
        drop(self.snapshot.acquire().await);
    }

    /// Waits for a request and takes along what waits with it.
    async fn gather(&mut self) -> Batch<M::Outcome> {
        let mut batch = Batch::new();
        let first = match self.held.pop_front() {
            Some(held) => Some(held),
            None => tokio::select! {
                biased;
                _ = self.parts.closing.wait_for(|closing| *closing) => None,
                () = self.snapshot_done.notified() => return batch,
                request = self.parts.requests.recv() => request,
            },
        };
        let Some(first) = first else {
            self.closing = true;
            return batch;
        };
        let mut next = Some(first);
        while let Some(request) = next.take() {
            if !self.take(&mut batch, request) {
                break;
            }
            next = self.parts.requests.try_recv().ok();
        }
        batch
    }

    /// Adds a request to the batch; false when the batch is complete.
    fn take(&mut self, batch: &mut Batch<M::Outcome>, request: Request<M::Outcome>) -> bool {
        match request {
            Request::Persist { group, reply } => {
                let bytes = batch.bytes + group.len();
                if !batch.groups.is_empty() && bytes > self.parts.limits.entry_bytes {
                    self.held.push_back(Request::Persist { group, reply });
                    return false;
                }
                self.parts
                    .shared
                    .queue_groups
                    .fetch_sub(1, Ordering::Relaxed);
                self.parts
                    .shared
                    .queue_bytes
                    .fetch_sub(group.len(), Ordering::Relaxed);
                batch.bytes = bytes;
                batch.groups.push(group);
                batch.replies.push(reply);
                batch.groups.len() < self.parts.limits.entry_groups
            }
            Request::Barrier { reply } => {
                batch.barriers.push(reply);
                batch.barriers.len() < self.parts.limits.entry_groups
            }
            Request::Snapshot { reply } => {
                self.snapshot_replies.push(reply);
                false
            }
        }
    }

    async fn propose(
        &mut self,
        batch: Batch<M::Outcome>,
        permit: tokio::sync::OwnedSemaphorePermit,
    ) {
        let payload = groups::pack(&batch.groups);
        let Batch {
            replies, barriers, ..
        } = batch;
        // One block more for the marks that a new segment would start with.
        let payload_bytes = payload.len();
        let bytes = footprint(payload_bytes) + BLOCK_BYTES as u64;
        if !self.has_space(bytes).await {
            return answer(replies, barriers, Err(PersistError::DiskFull));
        }
        self.ticket += 1;
        let ticket = self.ticket;
        let waiters = Arc::clone(&self.parts.waiters);
        waiters.insert(ticket, move |applied| answer(replies, barriers, applied));
        match self
            .parts
            .node
            .propose(Groups {
                bytes: payload,
                ticket,
            })
            .await
        {
            Ok(completion) => {
                self.parts.shared.entries.fetch_add(1, Ordering::Relaxed);
                self.parts.bytes_since_snapshot += footprint(payload_bytes);
                self.bytes_in_flight.fetch_add(bytes, Ordering::Relaxed);
                let in_flight = Arc::clone(&self.bytes_in_flight);
                tokio::spawn(async move {
                    if let Err(error) = completion.await {
                        waiters.answer(ticket, Err(error));
                    }
                    in_flight.fetch_sub(bytes, Ordering::Relaxed);
                    drop(permit);
                });
            }
            Err(ProposeError::NotPrimary) => {
                let leader = self.parts.shared.leader();
                waiters.answer(ticket, Err(PersistError::NotPrimary { leader }));
            }
            Err(ProposeError::Stopped) => waiters.answer(ticket, Err(PersistError::Stopped)),
        }
    }

    /// Whether an entry is certain to find allocated space; waits while a spare is being filled.
    async fn has_space(&mut self, bytes: u64) -> bool {
        loop {
            let status = self.parts.spare.borrow_and_update().clone();
            let needed = self.bytes_in_flight.load(Ordering::Relaxed) + bytes + RESERVE_BYTES;
            let fits = self.parts.figures.remaining.load(Ordering::Acquire) >= needed;
            if fits {
                return true;
            }
            match status {
                SpareStatus::Ready => return true,
                SpareStatus::Failed { .. } => return false,
                SpareStatus::Preparing => {
                    if self.parts.spare.changed().await.is_err() {
                        return false;
                    }
                }
            }
        }
    }

    /// Tells everybody who still waits that nothing was written.
    fn refuse_waiting(&mut self) {
        self.parts.requests.close();
        let mut waiting: VecDeque<_> = std::mem::take(&mut self.held);
        while let Ok(request) = self.parts.requests.try_recv() {
            waiting.push_back(request);
        }
        for request in waiting {
            match request {
                Request::Persist { reply, .. } => drop(reply.send(Err(PersistError::Stopped))),
                Request::Barrier { reply } => drop(reply.send(Err(PersistError::Stopped))),
                Request::Snapshot { reply } => drop(reply.send(Err(SnapshotError::Stopped))),
            }
        }
        for reply in std::mem::take(&mut self.snapshot_replies) {
            drop(reply.send(Err(SnapshotError::Stopped)));
        }
    }

    /// Starts a snapshot when enough was logged since the last one, or when somebody asked.
    async fn snapshot_if_due(&mut self) {
        let shared = &self.parts.shared;
        let entries = shared
            .last_lsn
            .load(Ordering::Relaxed)
            .saturating_sub(shared.snapshot_lsn.load(Ordering::Relaxed));
        let limits = self.parts.limits;
        let failed = self.snapshot_failed.load(Ordering::Relaxed);
        let due = failed
            || entries >= limits.snapshot_every_entries
            || self.parts.bytes_since_snapshot >= limits.snapshot_every_bytes;
        let wait = failed
            && self
                .snapshot_started
                .is_some_and(|at| at.elapsed() < SNAPSHOT_RETRY);
        if self.snapshot_replies.is_empty() && (!due || wait) {
            return;
        }
        // One at a time; the end of the one that is being written wakes this actor.
        let Ok(permit) = Arc::clone(&self.snapshot).try_acquire_owned() else {
            return;
        };
        let Some((head, records)) = self.parts.node.freeze().await else {
            return;
        };
        self.parts.bytes_since_snapshot = 0;
        self.snapshot_started = Some(tokio::time::Instant::now());
        let replies = std::mem::take(&mut self.snapshot_replies);
        let job = SnapshotJob {
            node: self.parts.node.clone(),
            store: Arc::clone(&self.parts.snapshots),
            shared: Arc::clone(&self.parts.shared),
            failed: Arc::clone(&self.snapshot_failed),
            keep: limits.log_keep_entries,
        };
        let done = Arc::clone(&self.snapshot_done);
        tokio::spawn(async move {
            let lsn = job.write(head, records).await;
            for reply in replies {
                let copy = lsn.as_ref().copied().map_err(|text| SnapshotError::Record {
                    detail: text.clone(),
                });
                drop(reply.send(copy));
            }
            drop(permit);
            done.notify_one();
        });
    }
}
