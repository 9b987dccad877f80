//! A host's actor: the worker's connection, its beats and its facts, and what it is ordered.

mod command;
mod draining;
mod reach;

use std::collections::BTreeMap;
use std::sync::Arc;

use xce_deciding::{Decided, Times, fence, host as deciding};
use xce_failpoint::Point;
use xce_host::rules::next_judgement;
use xce_host::wire::{Beat, BeatAck};
use xce_ledger::GroupEvent;
use xce_link::{CloseCode, Route};
use xce_model::{JobId, Lsn, Millis, Refusal, RefusalKind};
use xce_replica::wire::{Order, Orders, Output, ReadOutput, Reports};
use xce_runtime::{Context, Crash, Entity, Reply, Timer, Trigger, View};
use xce_session::worker_wire::ToWorker;

use crate::connections::Connection;
use crate::control::{CommitError, Control};
use crate::{joining, losing, orders, reports};

pub use command::Asked;
pub use reach::{address, connect, ensure, order, release, send_order};

/// Questions to one worker that may wait. Source: derived; 64 clients that follow a job's output.
const QUESTIONS_MAX: usize = 64;

/// Least time between two judgements of a silence.
/// Source: chosen; a loss that cannot be written, as on a full disk, is tried ten times a second.
const JUDGE_PAUSE: Millis = Millis(100);

/// The actor.
pub struct Host {
    /// Shared parts.
    pub control: Arc<Control>,
    /// Its name.
    pub name: String,
}

/// What it is told.
pub enum Message {
    /// Its worker is connected and wants to join.
    Connected(Arc<Connection>),
    /// Its worker gave a sign of life.
    Beat(Beat),
    /// Facts of its worker.
    Reports(Reports),
    /// Its worker answered a question.
    Output(u64, Output),
    /// Its worker stops cleanly.
    Leaving,
    /// States of jobs on it changed so that its worker has to be told.
    Order(Vec<JobId>),
    /// One order that follows from no state.
    Send(Box<Order>),
    /// Its silence is to be judged.
    Due(Trigger),
    /// A part of a run's output is wanted.
    Read(Box<(ReadOutput, Reply<Result<Output, Refusal>>)>),
    /// A command of an operator.
    Command(Box<Asked>),
    /// The deadline of its drain may have passed.
    DrainDue(Trigger),
}

/// What one incarnation knows.
pub struct State {
    pub(crate) connection: Option<Arc<Connection>>,
    /// When the worker was last heard, in milliseconds of the monotonic clock.
    pub(crate) heard_ms: u64,
    pub(crate) timer: Timer<Message>,
    /// For the deadline of its drain.
    drain: Timer<Message>,
    questions: BTreeMap<u64, Reply<Result<Output, Refusal>>>,
    next_question: u64,
    beats: u64,
    pub(crate) reports: u64,
    pub(crate) stale: u64,
}

#[derive(serde::Serialize)]
struct Seen {
    host: String,
    life: Option<&'static str>,
    connected: bool,
    session: Option<u64>,
    silent_ms: u64,
    beats: u64,
    reports: u64,
    stale_reports: u64,
    mark: (u64, u64),
    changed_lsn: Lsn,
}

impl Entity for Host {
    type Message = Message;
    type State = State;
    const KIND: &'static str = "host";

    /// Gives the host one fresh grace, and goes on with the connection its predecessor had.
    async fn recover(&self, context: &Context<Message>) -> Result<State, Crash> {
        self.control.settled().await?;
        let mut state = State {
            connection: None,
            heard_ms: self.control.monotonic_ms(),
            timer: Timer::new(context.address().clone(), Arc::clone(context.clock())),
            drain: Timer::new(context.address().clone(), Arc::clone(context.clock())),
            questions: BTreeMap::new(),
            next_question: 0,
            beats: 0,
            reports: 0,
            stale: 0,
        };
        self.judge_later(&mut state);
        self.drain_later(&mut state);
        if let Some(connection) = self.control.connections.get(&self.name) {
            joining::join(self, connection, &mut state).await?;
        }
        // Told to its predecessor, and not answered.
        if let Some(connection) = self.control.connections.waiting(&self.name) {
            joining::join(self, connection, &mut state).await?;
        }
        Ok(state)
    }

    async fn handle(
        &self,
        _context: &Context<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), Crash> {
        match message {
            Message::Connected(connection) => joining::join(self, connection, state).await,
            Message::Beat(beat) => self.beat(beat, state).await,
            Message::Reports(batch) => {
                state.heard_ms = self.control.monotonic_ms();
                reports::take(self, batch, state).await
            }
            Message::Output(question, output) => {
                if let Some(reply) = state.questions.remove(&question) {
                    reply.send(Ok(output));
                }
                Ok(())
            }
            Message::Leaving => losing::leave(self, state).await,
            Message::Order(jobs) => {
                self.order(&jobs, state);
                Ok(())
            }
            Message::Send(order) => {
                self.send(state, false, vec![*order], self.control.view().lsn());
                Ok(())
            }
            Message::Due(trigger) if state.timer.accept(trigger) => self.judge(state).await,
            Message::Due(_) => Ok(()),
            Message::Read(question) => {
                let (read, reply) = *question;
                self.read(read, reply, state);
                Ok(())
            }
            Message::Command(asked) => {
                self.command(*asked, state).await?;
                self.drain_later(state);
                Ok(())
            }
            Message::DrainDue(trigger) if state.drain.accept(trigger) => {
                self.drain_due(state).await
            }
            Message::DrainDue(_) => Ok(()),
        }
    }

    fn view(&self, state: &State) -> View {
        let view = self.control.view();
        let host = view.host(&self.name);
        View::of(&Seen {
            host: self.name.clone(),
            life: host.map(|host| host.life.word()),
            connected: state.is_connected(),
            session: state
                .connection
                .as_ref()
                .map(|connection| connection.session.0),
            silent_ms: self.control.monotonic_ms().saturating_sub(state.heard_ms),
            beats: state.beats,
            reports: state.reports,
            stale_reports: state.stale,
            mark: host.map_or((0, 0), |host| (host.epoch, host.sequence)),
            changed_lsn: host.map_or(0, |host| host.changed),
        })
    }
}

impl State {
    /// Questions to a connection that is gone are never answered: who asked hears so at once.
    pub(crate) fn drop_questions(&mut self) {
        self.questions.clear();
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.connection
            .as_ref()
            .is_some_and(|connection| connection.peer.closed_now().is_none())
    }
}

impl Host {
    async fn beat(&self, beat: Beat, state: &mut State) -> Result<(), Crash> {
        state.heard_ms = self.control.monotonic_ms();
        state.beats += 1;
        let view = self.control.view();
        let Some(host) = view.host(&self.name) else {
            return Ok(());
        };
        match host.life {
            xce_host::HostLife::Away => return Ok(()),
            xce_host::HostLife::Lost => {
                // Its runs may have been given to others: it has to join again.
                if let Some(connection) = &state.connection {
                    connection
                        .peer
                        .close(CloseCode::Fenced, "this host was lost; join again");
                }
                return Ok(());
            }
            xce_host::HostLife::Up | xce_host::HostLife::Suspect => {}
        }
        let times = self.control.times();
        if let Some(decided) = deciding::beat(&view, &self.name, beat.disk_full, times) {
            let (host, disk_full) = (self.name.clone(), beat.disk_full);
            let on = (view.lsn(), GroupEvent::HostBeat { host, disk_full });
            self.commit_decided("recovered", on, times, decided).await?;
        }
        if !self.control.holds_lease() {
            // Another controller may be the primary by now: what it holds this host for counts.
            return Ok(());
        }
        let ack = BeatAck {
            number: beat.number,
            term: self.control.term,
            lsn: view.lsn(),
            lease: self.control.settings.lease().unwrap_or(Millis(0)),
        };
        self.tell(state, &ToWorker::BeatAck(ack));
        self.judge_later(state);
        Ok(())
    }

    /// Commits what was decided of this host; what no longer fits is left to the next event. Says
    /// whether it is committed.
    pub(crate) async fn commit_decided(
        &self,
        cause: &str,
        on: (Lsn, GroupEvent),
        times: Times,
        decided: Decided,
    ) -> Result<bool, Crash> {
        match self.control.commit_decided(cause, on, times, decided).await {
            Ok(_) => Ok(true),
            Err(CommitError::Stale(_)) => Ok(false),
            Err(CommitError::Refused(refusal)) => {
                tracing::warn!(host = %self.name, code = %refusal.code, "host fact not written");
                Ok(false)
            }
            Err(CommitError::Unknown) => Err(CommitError::Unknown.into()),
        }
    }

    async fn judge(&self, state: &mut State) -> Result<(), Crash> {
        let silent = Millis(self.control.monotonic_ms().saturating_sub(state.heard_ms));
        match losing::judge(self, silent).await? {
            Some(until) => state
                .timer
                .arm(self.control.monotonic_of(until), Message::Due),
            None => self.judge_later(state),
        }
        Ok(())
    }

    pub(crate) fn judge_later(&self, state: &mut State) {
        let now = self.control.monotonic_ms();
        let silent = Millis(now.saturating_sub(state.heard_ms));
        let view = self.control.view();
        let wait = view.host(&self.name).and_then(|host| {
            let patience = self.control.settings.patience();
            let strict = fence::time_left_while_away(&view, host, silent, patience);
            let wait = next_judgement(host, silent, patience, self.control.now());
            wait.into_iter().chain(strict).min()
        });
        match wait {
            Some(wait) => state
                .timer
                .arm(now + wait.0.max(JUDGE_PAUSE.0), Message::Due),
            None => state.timer.disarm(),
        }
    }

    fn order(&self, jobs: &[JobId], state: &State) {
        let view = self.control.view();
        let wanted: Vec<Order> = jobs
            .iter()
            .filter_map(|id| view.job(*id))
            .filter(|job| job.host.as_deref() == Some(self.name.as_str()))
            .flat_map(|job| orders::all(&view, job, false))
            .collect();
        self.send(state, false, wanted, view.lsn());
    }

    pub(crate) fn send(&self, state: &State, complete: bool, orders: Vec<Order>, lsn: Lsn) {
        if orders.is_empty() && !complete {
            return;
        }
        xce_failpoint::hit(Point::ControllerOrdersBefore);
        let term = self.control.term;
        self.tell(
            state,
            &ToWorker::Orders(Orders {
                term,
                lsn,
                complete,
                orders,
            }),
        );
    }

    /// Tells the worker something; a connection that cannot take it is ended, since what it would
    /// miss is told again in full when it joins.
    pub(crate) fn tell(&self, state: &State, message: &ToWorker) {
        let Some(connection) = &state.connection else {
            return;
        };
        if let Err(error) = connection.peer.push(0, message) {
            tracing::info!(host = %self.name, %error, "worker not told");
            connection
                .peer
                .close(CloseCode::SlowPeer, "what it was to be told did not fit");
        }
    }

    fn read(&self, read: ReadOutput, reply: Reply<Result<Output, Refusal>>, state: &mut State) {
        state.questions.retain(|_, waiting| !waiting.is_closed());
        let unavailable =
            |code, text: String| Err(Refusal::new(RefusalKind::Unavailable, code, text));
        let Some(connection) = state.connection.as_ref().filter(|_| state.is_connected()) else {
            let text = format!(
                "host {} does not answer, its output cannot be read now",
                self.name
            );
            return reply.send(unavailable("host_unreachable", text));
        };
        if state.questions.len() >= QUESTIONS_MAX {
            let text = format!(
                "{QUESTIONS_MAX} readers wait for host {} already",
                self.name
            );
            return reply.send(unavailable("overloaded", text));
        }
        state.next_question += 1;
        let question = state.next_question;
        match connection
            .peer
            .send(Route::request(question), &ToWorker::ReadOutput(read))
        {
            Ok(()) => {
                state.questions.insert(question, reply);
            }
            Err(error) => reply.send(Err(error.refusal())),
        }
    }
}
