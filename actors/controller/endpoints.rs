//! Endpoints of one service: pushes its set to those who read it, and ends drains that nobody needs.
//!
//! ```text
//!   committed ─► publisher ─► look ─► set of this generation ─► what differs ─► each reader
//!                                                                                  │
//!   Drained, committed ◄─ no reader uses the replica any more ◄── "I use generation n"
//! ```
//!
//! It lives from the first reader to the end of the service. What it knows of its readers is kept
//! outside it, so that one that starts again goes on where its predecessor was. A reader that is slow
//! gets the difference to what it has when it can take it: a state feed, never longer than the set.

mod drain;
mod opening;
mod readers;

use std::collections::BTreeMap;
use std::sync::Arc;

use xce_ledger::{Fact, View as LedgerView};
use xce_link::SendError;
use xce_model::{Lsn, ServiceId};
use xce_replica::JobFact;
use xce_runtime::{Context, Crash, Entity, Key, Timer, Trigger, View};
use xce_service::view::{EndpointSet, EndpointsChange, endpoint_state, endpoints_of};
use xce_session::endpoints_wire::{EndpointsPush, ReaderView};

use crate::control::{CommitError, Control};
use crate::reading::condition_of;

pub use opening::{Asked, closed, once, open, used};
pub use readers::Readers;
use readers::{Reader, Standing};

/// Pause before a reader that is too slow is tried again. Source: chosen; some round trips.
const SLOW_PAUSE_MS: u64 = 50;
/// How long a reader that went away without a word may be on its way back, so that drains do not end
/// early without it; as long after the start of a controller, for those of its predecessor.
/// Source: derived; a reader notices the restart of a controller within 0.7 s (foundations section 3)
/// and dials again every 0.4 s at most; some of each.
const RETURN_WITHIN_MS: u64 = 5_000;

/// The actor.
pub struct Endpoints {
    /// Shared parts.
    pub control: Arc<Control>,
    /// Whose endpoints.
    pub service: ServiceId,
}

/// What it is told.
pub enum Message {
    /// Something that concerns its service, or one of its readers, changed.
    Look,
    /// It is time to look again.
    Due(Trigger),
}

/// What one incarnation knows.
pub struct State {
    set: Option<Arc<EndpointSet>>,
    timer: Timer<Message>,
    pushes: u64,
    drained: u64,
}

#[derive(serde::Serialize)]
struct Seen {
    service: String,
    generation: Lsn,
    endpoints: usize,
    pushes: u64,
    drains_ended_early: u64,
    readers: Vec<ReaderView>,
}

impl Entity for Endpoints {
    type Message = Message;
    type State = State;
    const KIND: &'static str = "endpoints";

    async fn recover(&self, context: &Context<Message>) -> Result<State, Crash> {
        // Sets are levels and what is decided is checked in log order, so a stale read does no harm.
        let mut state = State {
            set: None,
            timer: Timer::new(context.address().clone(), Arc::clone(context.clock())),
            pushes: 0,
            drained: 0,
        };
        self.look(&mut state).await?;
        Ok(state)
    }

    async fn handle(
        &self,
        _context: &Context<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), Crash> {
        match message {
            Message::Look => self.look(state).await,
            Message::Due(trigger) if state.timer.accept(trigger) => self.look(state).await,
            Message::Due(_) => Ok(()),
        }
    }

    fn view(&self, state: &State) -> View {
        let set = state.set.as_deref();
        View::of(&Seen {
            service: self.service.to_string(),
            generation: set.map_or(0, |set| set.generation),
            endpoints: set.map_or(0, |set| set.rows().len()),
            pushes: state.pushes,
            drains_ended_early: state.drained,
            readers: self.control.readers.views(self.service),
        })
    }
}

/// One look: what is pushed, and when to look again.
struct Look {
    set: Arc<EndpointSet>,
    /// What makes the set of a generation into this one: nearly all readers have the same, and finding
    /// out costs as much as the set is large.
    differences: BTreeMap<Option<Lsn>, Vec<EndpointsChange>>,
    now_ms: u64,
    pushes: u64,
    /// When to look again, in milliseconds of the monotonic clock; the earliest that was asked for.
    again: Option<u64>,
}

impl Look {
    fn again_at(&mut self, at_ms: u64) {
        self.again = Some(self.again.map_or(at_ms, |known| known.min(at_ms)));
    }

    /// What makes the set that a reader has into this one; nothing when it has it.
    fn missing(&mut self, reader: &Reader) -> &[EndpointsChange] {
        let has = reader.has();
        let generation = has.as_ref().map(|has| has.generation);
        if generation == Some(self.set.generation) {
            return &[];
        }
        let set = &self.set;
        self.differences
            .entry(generation)
            .or_insert_with(|| set.since(has.as_deref()))
    }
}

impl Endpoints {
    async fn look(&self, state: &mut State) -> Result<(), Crash> {
        let view = self.control.view();
        if view.service(self.service).is_none() {
            // The publisher lets this actor go.
            return Ok(());
        }
        let generation = view.endpoints_changed(self.service);
        let set = match &state.set {
            Some(set) if set.generation == generation => Arc::clone(set),
            Some(_) | None => Arc::new(set_of(&view, self.service)),
        };
        state.set = Some(Arc::clone(&set));
        let mut look = Look {
            set,
            differences: BTreeMap::new(),
            now_ms: self.control.monotonic_ms(),
            pushes: 0,
            again: None,
        };
        for reader in self.control.readers.of(self.service) {
            self.serve(&reader, &mut look);
        }
        state.pushes += look.pushes;
        self.end_drains(&view, state, &mut look).await?;
        match look.again {
            Some(at_ms) => state.timer.arm(at_ms, Message::Due),
            None => state.timer.disarm(),
        }
        Ok(())
    }

    /// Tells one reader what it does not have.
    fn serve(&self, reader: &Reader, look: &mut Look) {
        let now_ms = look.now_ms;
        if reader.peer.closed_now().is_some() {
            reader.leave(now_ms);
        }
        match reader.standing(now_ms, RETURN_WITHIN_MS) {
            Standing::Connected => {}
            Standing::Away { until_ms } => return look.again_at(until_ms),
            Standing::Over => return self.control.readers.take(reader),
        }
        let changes = look.missing(reader).to_vec();
        if changes.is_empty() {
            return;
        }
        // Noted first: its word that it uses the set may come before this goes on.
        reader.pushed(&look.set);
        let mut sent = 0;
        let mut failed = None;
        for change in changes {
            match reader.peer.push(reader.number(), &EndpointsPush { change }) {
                Ok(()) => sent += 1,
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        look.pushes += sent;
        match failed {
            None => {}
            Some(SendError::SlowPeer { .. }) => {
                // A part of it may be there: the next one is sent in full.
                reader.interrupted();
                look.again_at(now_ms + SLOW_PAUSE_MS);
            }
            Some(SendError::Ended { .. } | SendError::Encode(_)) => {
                reader.leave(now_ms);
                look.again_at(now_ms);
            }
        }
    }

    /// Commits that replicas are drained where every reader has said so.
    async fn end_drains(
        &self,
        view: &LedgerView,
        state: &mut State,
        look: &mut Look,
    ) -> Result<(), Crash> {
        let readers = self.control.readers.of(self.service);
        let Some(service) = view.service(self.service) else {
            return Ok(());
        };
        let uses: Vec<_> = readers.iter().filter_map(|reader| reader.uses()).collect();
        let jobs = view.live_replicas(self.service);
        let over = drain::over(jobs, &uses, self.control.now());
        if over.is_empty() {
            return Ok(());
        }
        let started_ms = self.control.anchor.boot_ms;
        let (created, begun) = (service.created, self.control.anchor.wall);
        let settled_ms = started_ms + RETURN_WITHIN_MS;
        if created < begun && self.control.monotonic_ms() < settled_ms {
            look.again_at(settled_ms);
            return Ok(());
        }
        let facts: Vec<JobFact> = over;
        let count = facts.len() as u64;
        let mut group = self.control.group("drained");
        group.preconditions = facts
            .iter()
            .filter_map(|fact| condition_of(view, fact))
            .collect();
        group.facts = facts.into_iter().map(Fact::from).collect();
        match self.control.commit(&group).await {
            Ok(_) => {
                state.drained += count;
                Ok(())
            }
            // What changed it also has this actor look again.
            Err(CommitError::Stale(_)) => Ok(()),
            Err(CommitError::Refused(refusal)) => {
                // The drain ends by itself.
                tracing::warn!(service = %self.service, code = %refusal.code, "early end of a drain not written");
                Ok(())
            }
            Err(CommitError::Unknown) => Err(CommitError::Unknown.into()),
        }
    }
}

/// The endpoints of a service as committed.
pub fn set_of(view: &LedgerView, service: ServiceId) -> EndpointSet {
    let rows = view.live_replicas(service).flat_map(|job| {
        let host = job.host.as_deref().and_then(|host| view.host(host));
        let state = endpoint_state(job, host.map(|host| host.life));
        let served = state.zip(host);
        served.into_iter().flat_map(|(state, host)| {
            endpoints_of(job, state, host.inventory.address.as_str()).collect::<Vec<_>>()
        })
    });
    EndpointSet::new(view.endpoints_changed(service), rows)
}

/// The key of the actor of a service's endpoints.
pub fn key(service: ServiceId) -> Key {
    Key::numbered(Endpoints::KIND, service.0)
}

/// Has the endpoints of a service looked at, where anybody reads them.
pub fn look(control: &Arc<Control>, service: ServiceId) {
    if control.view().service(service).is_none() {
        deleted(control, service);
        return;
    }
    if !control.readers.any(service) {
        return;
    }
    match control.endpoints.address::<Message>(&key(service)) {
        // One that is down looks when it starts; a full mailbox holds a look already.
        Some(address) => drop(address.cast(Message::Look)),
        None => {
            let endpoints = Endpoints {
                control: Arc::clone(control),
                service,
            };
            let parent = Some(crate::service::key(service));
            drop(control.endpoints.spawn(key(service), parent, endpoints));
        }
    }
}

/// Tells the readers of a service that is gone, and lets its actor go.
fn deleted(control: &Arc<Control>, service: ServiceId) {
    for reader in control.readers.take_all(service) {
        let change = EndpointsChange {
            generation: control.view().lsn(),
            deleted: true,
            ..EndpointsChange::default()
        };
        // One that is slow or gone learns it when it asks again.
        drop(reader.peer.push(reader.number(), &EndpointsPush { change }));
    }
    // One that does not exist needs nothing.
    drop(control.endpoints.stop(&key(service)));
}
