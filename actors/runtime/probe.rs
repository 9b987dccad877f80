//! What is known about one entity without asking it.
//!
//! A probe belongs to the entity, not to an incarnation: it survives restarts. Every field is an
//! atomic, so reading a hundred thousand of them stalls no actor.

use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use crate::key::Key;

/// Longest error text kept, in bytes.
///
/// Source: derived; three lines of a terminal, and 100 000 failing entities keep 25 MB.
pub const ERROR_BYTES_MAX: usize = 256;

/// Where an entity is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Phase {
    /// Not started yet.
    New,
    /// A new incarnation waits until its predecessor's state has been dropped.
    Succeeding,
    /// The incarnation reads committed state.
    Recovering,
    /// The incarnation handles messages.
    Running,
    /// Crashed; starts again after a delay.
    Backoff,
    /// Cannot start because something it depends on is not there; tried again after a delay.
    Waiting,
    /// Crashed too often; starts again after a long delay or by an operator.
    Quarantined,
    /// Ended for good.
    Stopped,
}

impl Phase {
    /// All phases, in the order of a life.
    pub const ALL: [Phase; 8] = [
        Phase::New,
        Phase::Succeeding,
        Phase::Recovering,
        Phase::Running,
        Phase::Backoff,
        Phase::Waiting,
        Phase::Quarantined,
        Phase::Stopped,
    ];
}

impl fmt::Display for Phase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Phase::New => "new",
            Phase::Succeeding => "succeeding",
            Phase::Recovering => "recovering",
            Phase::Running => "running",
            Phase::Backoff => "backoff",
            Phase::Waiting => "waiting",
            Phase::Quarantined => "quarantined",
            Phase::Stopped => "stopped",
        })
    }
}

/// The last failure of an entity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LastError {
    /// When it happened, milliseconds of the monotonic clock.
    pub at_ms: u64,
    /// What was said, cut to [`ERROR_BYTES_MAX`].
    pub text: String,
}

/// Counters of one entity, written by its incarnation and its supervisor, read by anybody.
#[derive(Debug)]
pub struct Probe {
    key: Key,
    parent: Option<Key>,
    phase: AtomicU8,
    restarts: AtomicU32,
    depth: AtomicI64,
    handled: AtomicU64,
    busy_ns: AtomicU64,
    in_handler_since_ns: AtomicU64,
    started_ns: AtomicU64,
    born_ns: u64,
    last_error: Mutex<Option<Box<LastError>>>,
}

impl Probe {
    /// The probe of an entity that is created at `now_ns`; `parent` is its logical parent.
    pub fn new(key: Key, parent: Option<Key>, now_ns: u64) -> Self {
        Self {
            key,
            parent,
            phase: AtomicU8::new(Phase::New as u8),
            restarts: AtomicU32::new(0),
            depth: AtomicI64::new(0),
            handled: AtomicU64::new(0),
            busy_ns: AtomicU64::new(0),
            in_handler_since_ns: AtomicU64::new(0),
            started_ns: AtomicU64::new(0),
            born_ns: now_ns,
            last_error: Mutex::new(None),
        }
    }

    /// The entity's key.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The logical parent shown in the tree.
    pub fn parent(&self) -> Option<&Key> {
        self.parent.as_ref()
    }

    /// The current phase.
    pub fn phase(&self) -> Phase {
        let stored = usize::from(self.phase.load(Relaxed));
        Phase::ALL.get(stored).copied().unwrap_or(Phase::New)
    }

    pub(crate) fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Relaxed);
    }

    /// How often the entity was started again.
    pub fn restarts(&self) -> u32 {
        self.restarts.load(Relaxed)
    }

    pub(crate) fn count_restart(&self) {
        self.restarts.fetch_add(1, Relaxed);
    }

    /// Messages that wait in the mailbox.
    pub fn depth(&self) -> u64 {
        u64::try_from(self.depth.load(Relaxed)).unwrap_or(0)
    }

    /// Counts one more waiting message; returns how many waited before.
    pub(crate) fn raise_depth(&self) -> u64 {
        u64::try_from(self.depth.fetch_add(1, Relaxed)).unwrap_or(0)
    }

    pub(crate) fn lower_depth(&self) {
        self.depth.fetch_sub(1, Relaxed);
    }

    /// Messages handled by all incarnations.
    pub fn handled(&self) -> u64 {
        self.handled.load(Relaxed)
    }

    /// Nanoseconds spent in handlers by all incarnations.
    pub fn busy_ns(&self) -> u64 {
        self.busy_ns.load(Relaxed)
    }

    /// When the handler or recovery that runs now began; `None` while idle. A stuck actor shows here.
    pub fn in_handler_since_ns(&self) -> Option<u64> {
        match self.in_handler_since_ns.load(Relaxed) {
            0 => None,
            since_ns => Some(since_ns),
        }
    }

    pub(crate) fn enter_handler(&self, now_ns: u64) {
        self.in_handler_since_ns.store(now_ns.max(1), Relaxed);
    }

    /// The lease makes one incarnation the only writer, so load and store need no exchange.
    pub(crate) fn leave_handler(&self, messages: u64, spent_ns: u64) {
        self.in_handler_since_ns.store(0, Relaxed);
        self.handled
            .store(self.handled().wrapping_add(messages), Relaxed);
        self.busy_ns
            .store(self.busy_ns().wrapping_add(spent_ns), Relaxed);
    }

    /// When the current incarnation finished its recovery; `None` before the first.
    pub fn started_ns(&self) -> Option<u64> {
        match self.started_ns.load(Relaxed) {
            0 => None,
            started_ns => Some(started_ns),
        }
    }

    pub(crate) fn set_started(&self, now_ns: u64) {
        self.started_ns.store(now_ns.max(1), Relaxed);
    }

    /// When the entity was created in this process.
    pub fn born_ns(&self) -> u64 {
        self.born_ns
    }

    /// The last failure, if there was one.
    pub fn last_error(&self) -> Option<LastError> {
        let guard = self
            .last_error
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        guard.as_deref().cloned()
    }

    pub(crate) fn set_error(&self, at_ms: u64, text: &str) {
        let error = LastError {
            at_ms,
            text: text[..text.floor_char_boundary(ERROR_BYTES_MAX)].to_owned(),
        };
        *self
            .last_error
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(Box::new(error));
    }
}
