//! What all actors of one node share, and what an operator may do to them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::address::{Address, Occupant, Slot};
use crate::admit::Admission;
use crate::clock::Clock;
use crate::inspect::{Answer, Family, Filter, Inspection, Page, Row, Tree};
use crate::key::Key;
use crate::probe::Phase;
use crate::refusal::Refusal;
use crate::registry::{EXAMINED_MAX, Registry};

/// Questions for a view that may wait at once.
///
/// Source: derived; a few operators at once, and at most 64 times 64 KB of answers in memory.
const QUESTIONS_MAX: usize = 64;

/// Keys kept of each family in a tree.
///
/// Source: derived; families that fit a screen are shown unfolded.
const FAMILY_FIRST_MAX: usize = 16;

/// The actors of one node: registry, clock, and the source of jitter.
pub struct Node {
    registry: Registry,
    clock: Arc<dyn Clock>,
    seed: AtomicU64,
    questions: Admission,
}

impl fmt::Debug for Node {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Node({} actors)", self.registry.len())
    }
}

impl Node {
    /// A node without actors. `seed` decides the jitter of all delays.
    pub fn new(clock: Arc<dyn Clock>, seed: u64) -> Arc<Self> {
        Arc::new(Self {
            registry: Registry::default(),
            clock,
            seed: AtomicU64::new(seed),
            questions: Admission::new("actor views", QUESTIONS_MAX),
        })
    }

    /// The node's clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// A different seed for each who asks.
    pub(crate) fn next_seed(&self) -> u64 {
        self.seed
            .fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed)
    }

    /// How many actors there are, in any phase.
    pub fn actors(&self) -> usize {
        self.registry.len()
    }

    /// The address of an actor; `None` when there is none or it takes other messages.
    pub fn address<M: Send + 'static>(&self, key: &Key) -> Option<Address<M>> {
        let slot = self.registry.get(key)?.into_any().downcast::<Slot<M>>();
        slot.ok().map(Address::of)
    }

    /// One page of actors after a key, in order; `rows_max` is at most 1 000.
    pub fn page(&self, filter: &Filter, after: Option<&Key>, rows_max: usize) -> Page {
        let now_ns = self.clock.monotonic_ns();
        self.registry.page(filter, after, rows_max, now_ns)
    }

    /// The whole tree, folded: one family for each parent and kind, at most `families_max`.
    /// Gives way to other tasks between stretches.
    pub async fn tree(&self, families_max: usize) -> Tree {
        let mut families: BTreeMap<(Option<Key>, &'static str), Family> = BTreeMap::new();
        let mut left_out = 0;
        let mut after = None;
        loop {
            let stretch = self.registry.stretch(after.as_ref(), EXAMINED_MAX);
            for entry in &stretch.entries {
                let probe = entry.probe();
                let name = (probe.parent().cloned(), probe.key().kind());
                let room = families.len() < families_max;
                match families.entry(name) {
                    Entry::Occupied(known) => count(known.into_mut(), entry.as_ref()),
                    Entry::Vacant(place) if room => {
                        let (parent, kind) = place.key().clone();
                        count(place.insert(empty(parent, kind)), entry.as_ref());
                    }
                    Entry::Vacant(_) => left_out += 1,
                }
            }
            after = stretch.next;
            if after.is_none() {
                break;
            }
            tokio::task::yield_now().await;
        }
        Tree {
            families: families.into_values().collect(),
            left_out,
        }
    }

    fn find(&self, text: &str) -> Result<Arc<dyn Occupant>, Refusal> {
        self.registry.find(text).ok_or_else(|| {
            let cut = text.floor_char_boundary(crate::key::KEY_TEXT_BYTES_MAX);
            Refusal::Unknown(text[..cut].to_owned())
        })
    }

    /// One actor in full: its counters, and its view if it answers `within` the time given.
    ///
    /// # Errors
    /// [`Refusal::Unknown`] without such an actor, [`Refusal::Overloaded`] when too many ask.
    pub async fn inspect(&self, text: &str, within: Duration) -> Result<Inspection, Refusal> {
        let occupant = self.find(text)?;
        let _permit = self.questions.enter()?;
        let (answer, view) = oneshot::channel();
        let answer = match occupant.clone().ask_view(answer) {
            Err(_not_delivered) => Answer::Down(occupant.last_view()),
            Ok(()) => match tokio::time::timeout(within, view).await {
                Ok(Ok(view)) => Answer::Alive(view),
                Ok(Err(_dropped)) => Answer::Down(occupant.last_view()),
                Err(_elapsed) => Answer::Late(occupant.last_view()),
            },
        };
        let row = Row::of(occupant.probe(), self.clock.monotonic_ns());
        Ok(Inspection { row, answer })
    }

    /// Kills the live incarnation of an actor; its supervisor starts the next one through recovery.
    ///
    /// # Errors
    /// [`Refusal::Unknown`] without such an actor, [`Refusal::NotRunning`] when it is down anyway
    /// or the top of the tree.
    pub fn kill(&self, text: &str) -> Result<(), Refusal> {
        let occupant = self.find(text)?;
        if occupant.supervisor().is_some() && occupant.kill() {
            Ok(())
        } else {
            Err(Refusal::NotRunning(occupant.probe().key().clone()))
        }
    }

    /// Ends the quarantine of an actor: it starts again at once, with a clean slate.
    ///
    /// # Errors
    /// [`Refusal::Unknown`] without such an actor, [`Refusal::NotQuarantined`] otherwise.
    pub fn retry(&self, text: &str) -> Result<(), Refusal> {
        let occupant = self.find(text)?;
        let key = occupant.probe().key().clone();
        if occupant.probe().phase() != Phase::Quarantined {
            return Err(Refusal::NotQuarantined(key));
        }
        match occupant.supervisor().and_then(|weak| weak.upgrade()) {
            Some(supervisor) => supervisor.retry(key),
            None => Err(Refusal::Stopping(key)),
        }
    }
}

fn empty(parent: Option<Key>, kind: &'static str) -> Family {
    Family {
        parent,
        kind,
        count: 0,
        phases: BTreeMap::new(),
        depth: 0,
        restarts: 0,
        first: Vec::new(),
    }
}

fn count(family: &mut Family, occupant: &dyn Occupant) {
    let probe = occupant.probe();
    family.count += 1;
    *family.phases.entry(probe.phase()).or_default() += 1;
    family.depth += probe.depth();
    family.restarts += u64::from(probe.restarts());
    if family.first.len() < FAMILY_FIRST_MAX {
        family.first.push(probe.key().clone());
    }
}
