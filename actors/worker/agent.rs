//! The host agent: this worker's half of the relation to the controller.
//!
//! It sends the beats itself, since a beat says that the worker works; it takes orders, and
//! refuses those of a primary that another one has followed. The connection is a task of its own
//! that ends with it.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde::Serialize;
use xce_failpoint::Point;
use xce_host::wire::{Beat, BeatAck, Leaving};
use xce_link::{CloseCode, Dialer, Peer};
use xce_model::Cause;
use xce_model::spec::SingleCopy;
use xce_replica::wire::{Happened, Order, Orders, ReportsCommitted, RunId, RunSpec};
use xce_runtime::{Context, Crash, Entity, Key, Reply, Shards, Task, Timer, Trigger, View};
use xce_session::worker_wire::FromWorker;

use crate::leases::SentBeats;
use crate::run::{RunActor, RunMessage};
use crate::state_dir::run_name;
use crate::station::Station;
use connection::Connection;
use orders::{Action, Known};

mod connection;
pub mod orders;

/// Beats without an answer after which the connection is given up.
///
/// Source: design section 8.1; a host is suspect after three, and another controller may be the
/// primary by now.
const UNANSWERED_MAX: u64 = 3;

/// What the agent is told.
#[derive(Debug, Clone)]
pub enum AgentMessage {
    /// A controller took the join; facts flow.
    Joined {
        /// Number of the connection.
        number: u64,
        /// The controller.
        peer: Peer,
    },
    /// A connection has ended, or was not made.
    Disconnected {
        /// Number of the connection.
        number: u64,
        /// Why.
        text: String,
    },
    /// What is wanted of runs.
    Orders {
        /// Number of the connection.
        number: u64,
        /// The orders.
        orders: Box<Orders>,
    },
    /// Facts are committed.
    Committed {
        /// Up to where.
        mark: ReportsCommitted,
    },
    /// A beat was answered.
    Acknowledged {
        /// Number of the connection.
        number: u64,
        /// The answer.
        ack: BeatAck,
    },
    /// Time for a beat.
    BeatDue(Trigger),
    /// Say goodbye: no beats any more, and the host is away.
    Leave(Leave),
}

/// Asks the agent to say goodbye.
#[derive(Debug, Clone)]
pub struct Leave {
    /// Whether the jobs go on.
    pub keeps_jobs: bool,
    /// Told the controller's peer, if there is one, once it is said.
    pub said: Arc<std::sync::Mutex<Option<Reply<Option<Peer>>>>>,
}

/// The host agent.
#[derive(Debug)]
pub struct HostAgent {
    station: Arc<Station>,
    runs: Shards,
    probes: Shards,
    dialer: DialerBox,
}

struct DialerBox(Dialer);

impl std::fmt::Debug for DialerBox {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Dialer({})", self.0.identity().principal())
    }
}

/// What one incarnation knows.
#[derive(Debug)]
pub struct AgentState {
    _connection: Task,
    timer: Timer<AgentMessage>,
    joined: Option<(u64, Peer)>,
    /// Highest term seen.
    term: u64,
    beats: u64,
    answered: u64,
    /// When beats of this connection were sent that are not acknowledged.
    sent: SentBeats,
    /// When the controller was last heard, milliseconds since boot.
    heard_ms: u64,
    orders: u64,
    refused_orders: u64,
    last_error: String,
    left: bool,
}

#[derive(Serialize)]
struct AgentView<'a> {
    host: &'a str,
    incarnation: String,
    connected: bool,
    term: u64,
    beats: u64,
    answered: u64,
    orders: u64,
    refused_orders: u64,
    resynced: bool,
    live_runs: usize,
    ended_runs: usize,
    spool_epoch: u64,
    spool_committed: u64,
    spool_waiting: usize,
    spool_bytes: u64,
    disk_full: bool,
    last_error: &'a str,
}

impl HostAgent {
    /// An agent that starts runs below `runs`, and their probes below `probes`.
    pub fn new(station: Arc<Station>, runs: Shards, probes: Shards, dialer: Dialer) -> Self {
        Self {
            station,
            runs,
            probes,
            dialer: DialerBox(dialer),
        }
    }

    fn arm(&self, state: &mut AgentState) {
        let beat_ms = self.station.settings.beat.0;
        let at_ms = self.station.clock.monotonic_ms().saturating_add(beat_ms);
        state.timer.arm(at_ms, AgentMessage::BeatDue);
    }

    fn beat(&self, state: &mut AgentState) {
        let Some((_, peer)) = state.joined.clone() else {
            return;
        };
        if state.left {
            return;
        }
        // With one controller there is nobody else to turn to, and it may only be slow.
        let has_choice = self.station.settings.controllers.len() > 1;
        if has_choice && state.beats.saturating_sub(state.answered) >= UNANSWERED_MAX {
            tracing::warn!(beats = state.beats, "the controller does not answer beats");
            peer.close(CloseCode::Done, "beats are not answered");
            state.joined = None;
            return;
        }
        state.beats += 1;
        state
            .sent
            .sent(state.beats, self.station.clock.monotonic_ms());
        // An error ends the connection, which is told.
        let _ = peer.push(
            0,
            &FromWorker::Beat(Beat {
                number: state.beats,
                disk_full: self.station.disk.is_full(),
            }),
        );
    }

    /// While it is cut off, gives turns to restart itself: one per service at a time.
    fn give_turns(&self, state: &AgentState) {
        let now_ms = self.station.clock.monotonic_ms();
        let beat_ms = self.station.settings.beat.0;
        let cut_off_ms = beat_ms.saturating_mul(UNANSWERED_MAX);
        if now_ms < state.heard_ms.saturating_add(cut_off_ms) {
            return;
        }
        for (run, start, wish) in self.station.turns.next(now_ms) {
            self.act(Action::Grant(run, start, wish));
        }
    }

    /// Whether a primary of this term may still give orders.
    fn admits(&self, state: &mut AgentState, term: u64) -> bool {
        if term < state.term {
            return false;
        }
        if term > state.term {
            state.term = term;
            if let Err(error) = self.station.dir.keep_term(term) {
                tracing::error!(error = %error, "the term of the primary is not kept");
            }
        }
        true
    }

    fn ordered(&self, state: &mut AgentState, orders: Orders) {
        if !self.admits(state, orders.term) {
            state.refused_orders += 1;
            let (seen, given) = (state.term, orders.term);
            tracing::warn!(seen, given, "orders of a former primary are refused");
            return;
        }
        state.orders += 1;
        xce_failpoint::hit(Point::WorkerOrdered);
        let named: HashSet<RunId> = if orders.complete {
            orders.orders.iter().map(|order| order.run).collect()
        } else {
            HashSet::new()
        };
        for order in orders.orders {
            self.obey(order);
        }
        if orders.complete {
            for run in orders::stale(self.station.roster.runs(), &named) {
                self.act(Action::Stop(run, Cause::TermStale, false));
            }
            if !self.station.resynced.swap(true, Ordering::AcqRel) {
                for address in self.station.roster.addresses() {
                    // One that is down reads the flag when it recovers.
                    let _ = address.cast(RunMessage::Resynced);
                }
            }
        }
    }

    fn obey(&self, order: Order) {
        let known = self.known(order.run);
        let leaving = self.station.leaving.load(Ordering::Acquire);
        self.act(orders::decide(order, known, leaving));
    }

    fn known(&self, run: RunId) -> Known {
        if self.station.roster.address(run).is_some() {
            Known::Live
        } else if self.station.spool.lock().has_end(run) {
            Known::EndWaits
        } else if self.station.ended.contains(run) {
            Known::Ended
        } else {
            Known::Unknown
        }
    }

    fn act(&self, action: Action) {
        let tell = |run, message| {
            if let Some(address) = self.station.roster.address(run) {
                // One that is down finds the same in the roster, or is told again.
                let _ = address.cast(message);
            }
        };
        match action {
            Action::Nothing => {}
            Action::Start(spec) => self.start(*spec),
            Action::Stop(run, cause, drained) => {
                self.station.leases.give_up(run);
                if self.station.roster.stop(run, cause, drained).is_some() {
                    tell(run, RunMessage::Stop(cause));
                }
                if drained {
                    tell(run, RunMessage::Drained);
                }
            }
            Action::Suspend(run) => tell(run, RunMessage::Suspend),
            Action::Resume(run) => tell(run, RunMessage::Resume),
            Action::Signal(run, signal) => tell(run, RunMessage::Signal(signal)),
            Action::Restart(run) => tell(run, RunMessage::Restart),
            Action::Grant(run, start, wish) => tell(run, RunMessage::Granted(start, wish)),
            Action::Report(run, what) => {
                self.station.report(run, 1, what);
            }
        }
    }

    fn joined(&self, state: &mut AgentState, connection: (u64, Peer)) {
        tracing::info!("joined the cluster");
        state.joined = Some(connection);
        (state.beats, state.answered) = (0, 0);
        state.sent.forget();
        // What is wanted is told anew.
        self.station.leases.take_waiting();
        self.beat(state);
        self.arm(state);
    }

    /// Strict single copies may live on, and those that waited for it start.
    fn renew(&self, state: &mut AgentState, ack: &BeatAck) {
        let until_ms = state.sent.acknowledged(ack.number, ack.lease);
        let Some(until_ms) = until_ms.filter(|_| ack.lease.0 > 0) else {
            return;
        };
        let leases = &self.station.leases;
        leases.renew(until_ms);
        for spec in leases.take_waiting() {
            self.start(spec);
        }
    }

    fn start(&self, spec: RunSpec) {
        let run = spec.run;
        let leases = &self.station.leases;
        let is_strict = spec.template.single_copy == SingleCopy::Strict;
        if is_strict && leases.until_ms() <= self.station.clock.monotonic_ms() {
            return leases.wait(spec);
        }
        if let Err(full) = self.station.spool.lock().reserve() {
            self.station.report(
                run,
                1,
                Happened::LaunchFailed {
                    text: full.to_string(),
                },
            );
            return;
        }
        let actor = RunActor::new(spec, self.station.clone(), self.probes.clone());
        enlist(&self.station, &self.runs, run, actor);
    }
}

/// Starts the actor of a run and enters it into the roster.
pub(crate) fn enlist(station: &Arc<Station>, runs: &Shards, run: RunId, actor: RunActor) {
    let key = Key::new(RunActor::KIND, run_name(run));
    let parent = Some(Key::single(HostAgent::KIND));
    if let Err(refusal) = station
        .roster
        .enter(run, actor.holds(), || runs.spawn(key, parent, actor))
    {
        // The order comes again.
        tracing::warn!(run = ?run, error = %refusal, "a run has no actor");
    }
}

impl Entity for HostAgent {
    type Message = AgentMessage;
    type State = AgentState;
    const KIND: &'static str = "agent";

    async fn recover(&self, context: &Context<AgentMessage>) -> Result<AgentState, Crash> {
        let connection = Connection {
            station: self.station.clone(),
            agent: context.address().clone(),
            dialer: self.dialer.0.clone(),
        };
        let mut state = AgentState {
            _connection: Task::spawn(connection.run()),
            timer: Timer::new(context.address().clone(), context.clock().clone()),
            joined: None,
            term: self.station.dir.term(),
            beats: 0,
            answered: 0,
            sent: SentBeats::default(),
            heard_ms: context.clock().monotonic_ms(),
            orders: 0,
            refused_orders: 0,
            last_error: String::new(),
            left: false,
        };
        self.arm(&mut state);
        Ok(state)
    }

    async fn handle(
        &self,
        _context: &Context<AgentMessage>,
        message: AgentMessage,
        state: &mut AgentState,
    ) -> Result<(), Crash> {
        let current = state.joined.as_ref().map(|(number, _)| *number);
        if !matches!(
            message,
            AgentMessage::BeatDue(_) | AgentMessage::Leave(_) | AgentMessage::Disconnected { .. }
        ) {
            state.heard_ms = self.station.clock.monotonic_ms();
        }
        match message {
            AgentMessage::Joined { number, peer } => self.joined(state, (number, peer)),
            AgentMessage::Disconnected { number, text } => {
                if current == Some(number) {
                    state.joined = None;
                }
                state.last_error = text;
            }
            AgentMessage::Orders { number, orders } if current.is_none_or(|now| now == number) => {
                self.ordered(state, *orders);
            }
            AgentMessage::Acknowledged { number, ack } if current == Some(number) => {
                if self.admits(state, ack.term) {
                    state.answered = state.answered.max(ack.number);
                    self.renew(state, &ack);
                }
            }
            AgentMessage::Orders { .. } | AgentMessage::Acknowledged { .. } => {}
            AgentMessage::BeatDue(trigger) if state.timer.accept(trigger) => {
                self.beat(state);
                self.give_turns(state);
                self.arm(state);
            }
            AgentMessage::BeatDue(_) => {}
            AgentMessage::Committed { mark } => {
                self.station.spool.committed(&mark)?;
                self.station.spool.changed.notify_one();
            }
            AgentMessage::Leave(leave) => {
                state.left = true;
                let peer = state.joined.as_ref().map(|(_, peer)| peer.clone());
                if let Some(peer) = &peer {
                    let goodbye = Leaving {
                        keeps_jobs: leave.keeps_jobs,
                    };
                    let _ = peer.push(0, &FromWorker::Leaving(goodbye));
                }
                let said = leave
                    .said
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner)
                    .take();
                if let Some(said) = said {
                    said.send(peer);
                }
            }
        }
        Ok(())
    }

    fn view(&self, state: &AgentState) -> View {
        let spool = self.station.spool.lock();
        View::of(&AgentView {
            host: &self.station.settings.name,
            incarnation: self.station.inventory.incarnation.to_string(),
            connected: state.joined.is_some(),
            term: state.term,
            beats: state.beats,
            answered: state.answered,
            orders: state.orders,
            refused_orders: state.refused_orders,
            resynced: self.station.resynced.load(Ordering::Relaxed),
            live_runs: self.station.roster.count(),
            ended_runs: self.station.ended.count(),
            spool_epoch: spool.epoch(),
            spool_committed: spool.committed(),
            spool_waiting: spool.waiting(),
            spool_bytes: spool.file_bytes(),
            disk_full: self.station.disk.is_full(),
            last_error: &state.last_error,
        })
    }
}
