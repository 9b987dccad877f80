//! Sessions as operators see them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use xce_link::PeerKind;
use xce_model::{Lsn, SessionId};
use xce_session::operator_wire::ResumeView;
use xce_session::wire::SessionView;

/// Sessions that are remembered after their connection has ended.
/// Source: chosen; a screen of them, and a bound on memory.
const ENDED_MAX: usize = 64;

/// What is known of one session.
#[derive(Debug)]
pub struct SessionInfo {
    /// Identity.
    pub id: SessionId,
    /// Kind of the peer.
    pub kind: PeerKind,
    /// Who it is.
    pub principal: String,
    /// Address that it came from.
    pub remote: String,
    /// How often it was resumed, plus one.
    pub epoch: u64,
    /// Messages received.
    pub received: AtomicU64,
    /// Messages sent.
    pub sent: AtomicU64,
    /// Whether it is connected.
    pub connected: AtomicBool,
    /// How it came, or came back.
    pub resume: Mutex<String>,
    /// What it cost to bring its last feed up to date.
    pub cost: Mutex<Option<ResumeView>>,
}

impl SessionInfo {
    /// What operators see.
    pub fn view(&self) -> SessionView {
        SessionView {
            id: self.id.0,
            kind: kind_word(self.kind).to_owned(),
            principal: self.principal.clone(),
            remote: self.remote.clone(),
            connected: self.connected.load(Ordering::Relaxed),
            epoch: u32::try_from(self.epoch).unwrap_or(u32::MAX),
            received: self.received.load(Ordering::Relaxed),
            sent: self.sent.load(Ordering::Relaxed),
            last_resume: self
                .resume
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
            reads: Vec::new(),
            resume: self
                .cost
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
        }
    }

    /// Notes what it cost to bring a feed of it up to date.
    pub fn note_resume(&self, cost: ResumeView) {
        let text = crate::resume::text(&cost);
        *self.resume.lock().unwrap_or_else(PoisonError::into_inner) = text;
        *self.cost.lock().unwrap_or_else(PoisonError::into_inner) = Some(cost);
    }
}

/// The word for a kind of peer.
pub const fn kind_word(kind: PeerKind) -> &'static str {
    match kind {
        PeerKind::Worker => "worker",
        PeerKind::Client => "client",
        PeerKind::Scheduler => "scheduler",
        PeerKind::Apiserver => "apiserver",
        PeerKind::Controller => "controller",
    }
}

/// All sessions of this controller.
#[derive(Debug, Default)]
pub struct Sessions {
    next: AtomicU64,
    all: Mutex<BTreeMap<SessionId, Arc<SessionInfo>>>,
}

impl Sessions {
    /// Sessions of a reign, by a position since its first commit: ids of different reigns differ,
    /// since each begins with a commit of its own.
    pub fn of_reign(begun: Lsn) -> Self {
        Self {
            next: AtomicU64::new(begun << 24),
            all: Mutex::default(),
        }
    }

    /// An id that was never given before.
    pub fn next_id(&self) -> SessionId {
        SessionId(self.next.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// The epoch of a session that is known.
    pub fn epoch_of(&self, id: SessionId) -> Option<u64> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&id).map(|info| info.epoch)
    }

    /// Adds a session; old ended ones are forgotten.
    pub fn add(&self, info: Arc<SessionInfo>) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(info.id, info);
        let ended: Vec<SessionId> = all
            .values()
            .filter(|info| !info.connected.load(Ordering::Relaxed))
            .map(|info| info.id)
            .collect();
        for id in ended.iter().take(ended.len().saturating_sub(ENDED_MAX)) {
            all.remove(id);
        }
    }

    /// All, in the order of their ids.
    pub fn views(&self) -> Vec<SessionView> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.values().map(|info| info.view()).collect()
    }

    /// One.
    pub fn view(&self, id: SessionId) -> Option<SessionView> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&id).map(|info| info.view())
    }

    /// How many are connected.
    pub fn connected(&self) -> usize {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.values()
            .filter(|info| info.connected.load(Ordering::Relaxed))
            .count()
    }
}
