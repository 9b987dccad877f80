//! What the WAL says about itself.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use tokio::sync::watch;

use crate::device::DiskMode;
use crate::peers::Role;
use crate::segment_log::LogFigures;

/// A view of the WAL for operators and tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WalStatus {
    /// Current term.
    pub term: u64,
    /// The node that leads, if known.
    pub leader: Option<u64>,
    /// LSN of the last applied entry.
    pub last_lsn: u64,
    /// Groups that wait.
    pub queue_groups: usize,
    /// How writes are made durable; `None` for a WAL in memory.
    pub disk_mode: Option<DiskMode>,
    /// Syncs since the start.
    pub syncs: u64,
    /// Entries proposed since the start.
    pub entries: u64,
    /// Groups applied since the start.
    pub groups: u64,
    /// LSN that the newest snapshot covers; zero for none.
    pub snapshot_lsn: u64,
    /// What somebody must look at.
    pub alarm: Option<String>,
    /// Whether it has stopped for good.
    pub stopped: bool,
    /// How long ago one that leads was heard here, in milliseconds; none if never.
    pub leader_heard_ms: Option<u64>,
}

#[derive(Debug, Default)]
struct Texts {
    space: Option<String>,
    snapshot: Option<String>,
    fatal: Option<String>,
}

/// Counters that all parts write and [`WalStatus`] reads.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) term: AtomicU64,
    /// Zero for unknown.
    pub(crate) leader: AtomicU64,
    pub(crate) last_lsn: AtomicU64,
    pub(crate) queue_groups: AtomicUsize,
    pub(crate) queue_bytes: AtomicUsize,
    pub(crate) entries: AtomicU64,
    pub(crate) groups: AtomicU64,
    pub(crate) snapshot_lsn: AtomicU64,
    pub(crate) stopped: AtomicBool,
    pub(crate) role: watch::Sender<Role>,
    /// Who has a vote by all that is applied: in every set of a change that is under way.
    pub(crate) voters: Mutex<BTreeSet<u64>>,
    /// When the one that leads was last heard here.
    pub(crate) heard_leader: Mutex<Option<Instant>>,
    /// The term whose leadership this node has begun to hand over; zero for none.
    pub(crate) handed_over: AtomicU64,
    texts: Mutex<Texts>,
}

impl Shared {
    pub(crate) fn view(&self, disk: Option<(DiskMode, &Arc<LogFigures>)>) -> WalStatus {
        let texts = self.texts();
        let alarms = [&texts.fatal, &texts.space, &texts.snapshot];
        WalStatus {
            term: self.term.load(Ordering::Relaxed),
            leader: self.leader(),
            last_lsn: self.last_lsn.load(Ordering::Acquire),
            queue_groups: self.queue_groups.load(Ordering::Relaxed),
            disk_mode: disk.map(|(mode, _)| mode),
            syncs: disk.map_or(0, |(_, figures)| figures.syncs.load(Ordering::Relaxed)),
            entries: self.entries.load(Ordering::Relaxed),
            groups: self.groups.load(Ordering::Relaxed),
            snapshot_lsn: self.snapshot_lsn.load(Ordering::Relaxed),
            alarm: alarms.into_iter().flatten().next().cloned(),
            stopped: self.stopped.load(Ordering::Acquire),
            leader_heard_ms: self.leader_heard_ms(),
        }
    }

    /// Notes that one that leads was heard.
    pub(crate) fn hear_leader(&self) {
        *self.heard() = Some(Instant::now());
    }

    fn leader_heard_ms(&self) -> Option<u64> {
        let heard = (*self.heard())?;
        Some(u64::try_from(heard.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    fn heard(&self) -> MutexGuard<'_, Option<Instant>> {
        self.heard_leader
            .lock()
            .expect("no code panics while it holds this lock")
    }

    /// Takes over the voters of an applied membership.
    pub(crate) fn voters_are(&self, voters: BTreeSet<u64>) {
        *self
            .voters
            .lock()
            .expect("no code panics while it holds this lock") = voters;
    }

    /// Who has a vote.
    pub(crate) fn voters(&self) -> BTreeSet<u64> {
        let voters = self.voters.lock();
        voters
            .expect("no code panics while it holds this lock")
            .clone()
    }

    pub(crate) fn leader(&self) -> Option<u64> {
        Some(self.leader.load(Ordering::Relaxed)).filter(|leader| *leader != 0)
    }

    pub(crate) fn space_alarm(&self, text: Option<String>) {
        self.texts().space = text;
    }

    pub(crate) fn snapshot_alarm(&self, text: Option<String>) {
        self.texts().snapshot = text;
    }

    /// Notes the end; true for the first one.
    pub(crate) fn fail(&self, text: &str) -> bool {
        let mut texts = self.texts();
        let first = texts.fatal.is_none();
        if first {
            texts.fatal = Some(text.to_owned());
        }
        self.stopped.store(true, Ordering::Release);
        first
    }

    fn texts(&self) -> MutexGuard<'_, Texts> {
        self.texts
            .lock()
            .expect("no code panics while it holds this lock")
    }
}
