//! What an operator sees of the actors: rows, families and views.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use crate::key::Key;
use crate::probe::{LastError, Phase, Probe};

/// Longest view kept or sent, in bytes of JSON.
///
/// Source: derived; a screen of a terminal is 4 KB, and a view of all fields of a large entity is
/// some tens of KB.
pub const VIEW_BYTES_MAX: usize = 64 * 1024;

/// The state of an entity as JSON text, made only when somebody asks.
#[derive(Clone, PartialEq, Eq)]
pub struct View(Arc<str>);

impl View {
    /// Turns a serialisable snapshot into a view. One that is longer than [`VIEW_BYTES_MAX`] or
    /// cannot be written as JSON becomes an object with the field `view_error`.
    pub fn of<T: Serialize>(snapshot: &T) -> Self {
        match serde_json::to_string(snapshot) {
            Ok(text) if text.len() <= VIEW_BYTES_MAX => Self(text.into()),
            Ok(_long) => Self(r#"{"view_error":"too long"}"#.into()),
            Err(_fault) => Self::failed(),
        }
    }

    /// The view of an entity that offers none.
    pub fn empty() -> Self {
        Self("null".into())
    }

    pub(crate) fn failed() -> Self {
        Self(r#"{"view_error":"failed"}"#.into())
    }

    /// The JSON text.
    pub fn as_json(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for View {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// One actor, read from its probe.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// `kind/id`.
    pub key: Key,
    /// Logical parent.
    pub parent: Option<Key>,
    /// Where it is in its life.
    pub phase: Phase,
    /// How often it was started again.
    pub restarts: u32,
    /// Messages that wait.
    pub depth: u64,
    /// Messages handled since the entity was created.
    pub handled: u64,
    /// Share of its age spent in handlers, 0.0 to 1.0.
    pub busy_share: f64,
    /// Milliseconds since the current incarnation finished its recovery; 0 before the first.
    pub age_ms: u64,
    /// Milliseconds that the current handler or recovery has been running; `None` while idle.
    pub stuck_ms: Option<u64>,
    /// The last failure, if there was one.
    pub last_error: Option<LastError>,
}

impl Row {
    pub(crate) fn of(probe: &Probe, now_ns: u64) -> Self {
        let life_ns = now_ns.saturating_sub(probe.born_ns()).max(1);
        let since_ms = |then_ns: u64| now_ns.saturating_sub(then_ns) / 1_000_000;
        let current_ns = probe
            .in_handler_since_ns()
            .map_or(0, |since_ns| now_ns.saturating_sub(since_ns));
        let busy_ns = probe.busy_ns().saturating_add(current_ns);
        Self {
            key: probe.key().clone(),
            parent: probe.parent().cloned(),
            phase: probe.phase(),
            restarts: probe.restarts(),
            depth: probe.depth(),
            handled: probe.handled(),
            busy_share: (busy_ns as f64 / life_ns as f64).min(1.0),
            age_ms: probe.started_ns().map_or(0, since_ms),
            stuck_ms: probe.in_handler_since_ns().map(since_ms),
            last_error: probe.last_error(),
        }
    }
}

/// Which actors are meant; every field narrows further, the default means all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only this kind.
    pub kind: Option<String>,
    /// Only ids that begin with this.
    pub id_prefix: Option<String>,
    /// Only this phase.
    pub phase: Option<Phase>,
    /// Only children of this logical parent, as `kind/id`.
    pub parent: Option<String>,
}

impl Filter {
    pub(crate) fn admits(&self, probe: &Probe) -> bool {
        let key = probe.key();
        self.kind.as_ref().is_none_or(|kind| kind == key.kind())
            && self
                .id_prefix
                .as_ref()
                .is_none_or(|prefix| key.id().starts_with(prefix.as_str()))
            && self.phase.is_none_or(|phase| phase == probe.phase())
            && self.parent.as_ref().is_none_or(|parent| {
                probe
                    .parent()
                    .is_some_and(|own| (own.kind(), own.id()) == Key::split(parent))
            })
    }
}

/// Some rows in the order of their keys, and where to go on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Page {
    /// At most as many as asked for; may be fewer, even none, although more follow.
    pub rows: Vec<Row>,
    /// Give this back to read on; `None` at the end.
    pub next: Option<Key>,
}

/// All children of one kind below one parent, folded into numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Family {
    /// Logical parent; `None` at the top.
    pub parent: Option<Key>,
    /// Kind of the children.
    pub kind: &'static str,
    /// How many there are.
    pub count: u64,
    /// How many are in each phase; phases without any are left out.
    pub phases: BTreeMap<Phase, u64>,
    /// Messages that wait for all of them.
    pub depth: u64,
    /// Restarts of all of them.
    pub restarts: u64,
    /// The first keys, so that small families can be shown unfolded.
    pub first: Vec<Key>,
}

/// The actor tree, with its large families folded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tree {
    /// Ordered by parent, then kind.
    pub families: Vec<Family>,
    /// Actors in families beyond the bound, counted but not listed.
    pub left_out: u64,
}

/// What became of a question for a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The entity answered.
    Alive(View),
    /// It did not answer in time; its last words, if it ever answered.
    Late(Option<View>),
    /// It has no live incarnation; its last words, if it ever answered.
    Down(Option<View>),
}

/// One actor in full.
#[derive(Debug, Clone, PartialEq)]
pub struct Inspection {
    /// Its counters.
    pub row: Row,
    /// Its own view of its state.
    pub answer: Answer,
}
