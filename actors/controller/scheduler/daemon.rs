//! The scheduler at the other end of a session: it is fed, and its plans are checked and committed.
//!
//! ```text
//!   feed ──► daemon ──► plan (position, time, placements) ──► each commits under its precondition
//!     │                                                          or is refused
//!     └ silent for the grace: jobs are told so, another daemon that waits takes its place, and what
//!       comes back later with plans from before is refused: nothing old is committed
//! ```
//!
//! It responds when it has looked at what it was sent, not when its socket answers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::future::join_all;
use xce_ledger::GroupEvent::Planned;
use xce_ledger::Scope;
use xce_link::{CloseCode, SendError};
use xce_model::{Lsn, Millis, WallTime};
use xce_placement::Placement;
use xce_runtime::{Context, Crash, Entity, Timer, View};
use xce_session::feed_wire::{FromReader, PLACEMENTS_MAX, Plan, PlanSettled, ToReader};

use super::{Message, Opened, Silence, Who};
use crate::control::{CommitError, Control};
use crate::feeder::Feeder;

/// Parts of the grace in which a daemon that was told nothing is asked for a sign of life.
/// Source: chosen; two may be late on a busy machine.
const TICKS_IN_GRACE: u64 = 4;
/// Graces after which a connection that says nothing is cut off; its daemon resumes.
/// Source: chosen; by then its socket's end would be noticed too.
const CUT_OFF_GRACES: u64 = 6;
/// Daemons that may wait for the place of the one that plans. Source: chosen; one for each controller.
const WAITING_MAX: usize = 4;

/// The actor.
pub struct Daemon {
    /// Shared parts.
    pub control: Arc<Control>,
    /// How long it may not respond.
    pub grace: Millis,
}

/// What one incarnation knows.
pub struct State {
    timer: Timer<Message>,
    active: Option<Feeder>,
    waiting: Vec<Opened>,
    /// When nobody was there, since when; else when the active one last said something.
    heard_ms: u64,
    /// Plans from before are refused.
    accepts_from: Lsn,
    opened: u64,
    plans: u64,
    stale_plans: u64,
    placed: u64,
    refused: u64,
    last_plan: Lsn,
}

#[derive(serde::Serialize)]
struct Seen {
    embedded: bool,
    daemon: Option<String>,
    session: Option<u64>,
    responds: bool,
    behind: usize,
    told_up_to: Lsn,
    waiting: usize,
    opened: u64,
    plans: u64,
    stale_plans: u64,
    placed: u64,
    refused: u64,
    last_lsn: Lsn,
}

impl Entity for Daemon {
    type Message = Message;
    type State = State;
    const KIND: &'static str = "scheduler";

    async fn recover(&self, context: &Context<Message>) -> Result<State, Crash> {
        self.control.wal.barrier().await?;
        self.control.scheduler_told.store(false, Ordering::Release);
        self.control.scheduling.set(None);
        let mut state = State {
            timer: Timer::new(context.address().clone(), Arc::clone(context.clock())),
            active: None,
            waiting: Vec::new(),
            heard_ms: self.control.monotonic_ms(),
            accepts_from: self.control.view().lsn(),
            opened: 0,
            plans: 0,
            stale_plans: 0,
            placed: 0,
            refused: 0,
            last_plan: 0,
        };
        self.arm(&mut state);
        Ok(state)
    }

    async fn handle(
        &self,
        _context: &Context<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), Crash> {
        match message {
            Message::Look => self.control.scheduler_told.store(false, Ordering::Release),
            Message::Due(trigger) if !state.timer.accept(trigger) => return Ok(()),
            Message::Due(_) => {
                self.judge(state);
                self.tick(state);
                self.arm(state);
            }
            Message::Opened(opened) => self.open(*opened, state),
            Message::Said(who, what) => self.said(who, what, state).await?,
            Message::Ended(who) => self.ended(who, state),
        }
        self.feed(state);
        Ok(())
    }

    fn view(&self, state: &State) -> View {
        let active = state.active.as_ref();
        View::of(&Seen {
            embedded: false,
            daemon: active.map(|feeder| feeder.info().principal.clone()),
            session: active.map(|feeder| feeder.info().id.0),
            responds: active.is_some() && self.control.scheduling.silence().is_none(),
            behind: active.map_or(0, Feeder::behind),
            told_up_to: active.map_or(0, Feeder::lsn),
            waiting: state.waiting.len(),
            opened: state.opened,
            plans: state.plans,
            stale_plans: state.stale_plans,
            placed: state.placed,
            refused: state.refused,
            last_lsn: state.last_plan,
        })
    }
}

impl Drop for State {
    /// After a crash too: what this incarnation knew of the connection is lost with it.
    fn drop(&mut self) {
        let peers = self.active.iter().map(Feeder::peer);
        for peer in peers.chain(self.waiting.iter().map(|opened| &opened.peer)) {
            peer.close(CloseCode::Dropped, "the scheduler's actor ends; resume");
        }
    }
}

impl Daemon {
    fn arm(&self, state: &mut State) {
        let period = (self.grace.0 / TICKS_IN_GRACE).max(1);
        let at_ms = self.control.monotonic_ms() + period;
        state.timer.arm(at_ms, Message::Due);
    }

    fn now_ns(&self) -> u64 {
        self.control.node.clock().monotonic_ns()
    }

    /// Takes a daemon on, or lets it wait while another one plans.
    fn open(&self, opened: Opened, state: &mut State) {
        state.opened += 1;
        let silent = self.control.scheduling.silence().is_some();
        if let Some(feeder) = &state.active {
            let same = feeder.info().principal == opened.info.principal;
            if !same && !silent && feeder.peer().closed_now().is_none() {
                let behind = feeder.info().principal.clone();
                // One that is gone is found out when its turn comes.
                drop(opened.peer.push(opened.number, &ToReader::Waits { behind }));
                state.waiting.retain(|one| one.peer.closed_now().is_none());
                if state.waiting.len() >= WAITING_MAX {
                    let text = "enough schedulers wait already";
                    opened.peer.close(CloseCode::Refused, text);
                } else {
                    state.waiting.push(opened);
                }
                return;
            }
        }
        self.take_on(opened, state);
    }

    /// Feeds it from now on; another one before it is fenced.
    fn take_on(&self, opened: Opened, state: &mut State) {
        if let Some(before) = state.active.take()
            && !(Arc::ptr_eq(before.info(), &opened.info))
        {
            let text = "another scheduler took its place";
            before.peer().close(CloseCode::Fenced, text);
        }
        tracing::info!(daemon = %opened.info.principal, after = opened.after, "scheduler connected");
        // What it plans has to be planned from what it is told from now on.
        state.accepts_from = self.control.view().lsn();
        state.active = Some(Feeder::new(
            opened.info,
            opened.peer,
            opened.number,
            Scope::Scheduler,
            opened.after,
            self.now_ns(),
        ));
        self.hear(state);
        self.feed(state);
        // Where it missed nothing it hears that.
        self.tick(state);
    }

    /// It said something: it responds, from now on.
    fn hear(&self, state: &mut State) {
        state.heard_ms = self.control.monotonic_ms();
        if self.control.scheduling.silence().is_some() {
            // What it decided before it fell silent is decided on old data.
            state.accepts_from = self.control.view().lsn();
            self.control.scheduling.set(None);
            tracing::warn!("the scheduler responds again");
        }
    }

    fn ended(&self, who: Who, state: &mut State) {
        state.waiting.retain(|opened| opened.who() != who);
        let is_active = |feeder: &Feeder| super::who(feeder.info()) == who;
        if !state.active.as_ref().is_some_and(is_active) {
            return;
        }
        state.active = None;
        tracing::warn!("the scheduler's connection has ended");
        self.next_in_line(state);
    }

    /// Whoever waits takes the place of the one that is gone or silent.
    fn next_in_line(&self, state: &mut State) -> bool {
        while !state.waiting.is_empty() {
            let opened = state.waiting.remove(0);
            if opened.peer.closed_now().is_none() {
                self.take_on(opened, state);
                return true;
            }
        }
        false
    }

    /// Notes a silence, and cuts off who is silent for long.
    fn judge(&self, state: &mut State) {
        let now_ms = self.control.monotonic_ms();
        let since_ms = match &state.active {
            None => Some(state.heard_ms),
            Some(feeder) => feeder
                .waits_since_ms()
                .map(|sent_ms| sent_ms.max(state.heard_ms)),
        };
        let Some(since_ms) = since_ms.filter(|since| now_ms - since >= self.grace.0) else {
            return;
        };
        if self.next_in_line(state) {
            return;
        }
        let cut_off = now_ms - since_ms >= self.grace.0 * CUT_OFF_GRACES;
        let detail = match &state.active {
            None => "none is connected".to_owned(),
            Some(feeder) => {
                let principal = &feeder.info().principal;
                if cut_off {
                    let text = format!("reads nothing; resume after LSN {}", feeder.lsn());
                    feeder.peer().close(CloseCode::SlowPeer, &text);
                }
                format!("{principal} is connected and takes nothing")
            }
        };
        let ago = i64::try_from(now_ms - since_ms).unwrap_or(i64::MAX);
        if self.control.scheduling.silence().is_none() {
            tracing::warn!(detail, "the scheduler does not respond");
        }
        self.control.scheduling.set(Some(Silence {
            since_ms,
            since: WallTime(self.control.wall().0.saturating_sub(ago)),
            detail,
        }));
    }

    fn tick(&self, state: &mut State) {
        let (time, now_ms) = (self.control.now(), self.control.monotonic_ms());
        if let Some(feeder) = &mut state.active {
            let sent = feeder.tick(time, now_ms);
            Self::note_end(sent, feeder);
        }
    }

    fn feed(&self, state: &mut State) {
        let (time, now_ms) = (self.control.now(), self.control.monotonic_ms());
        if let Some(feeder) = &mut state.active {
            let sent = feeder.send(&self.control.view(), time, now_ms);
            Self::note_end(sent.map(drop), feeder);
        }
    }

    /// A connection that does not take what it is sent is over; its end is told.
    fn note_end(sent: Result<(), SendError>, feeder: &Feeder) {
        if let Err(error) = sent {
            tracing::info!(%error, "the scheduler is not fed");
            feeder
                .peer()
                .close(CloseCode::SlowPeer, "reads too slowly; resume");
        }
    }

    async fn said(&self, who: Who, what: FromReader, state: &mut State) -> Result<(), Crash> {
        let now_ns = self.now_ns();
        let Some(feeder) = state
            .active
            .as_mut()
            .filter(|feeder| super::who(feeder.info()) == who)
        else {
            // One that was fenced, or waits.
            return Ok(());
        };
        match what {
            FromReader::Taken { number } => {
                feeder.taken(number, now_ns);
                self.hear(state);
                Ok(())
            }
            FromReader::Plan(plan) => {
                let (peer, number) = (feeder.peer().clone(), feeder.subscription());
                self.hear(state);
                if let Some(settled) = self.settle(plan, state).await? {
                    // One that is gone plans again from what became of it.
                    drop(peer.push(number, &ToReader::Settled(settled)));
                } else {
                    let text = format!("a plan has at most {PLACEMENTS_MAX} placements");
                    peer.close(CloseCode::Protocol, &text);
                }
                Ok(())
            }
            FromReader::Open { .. } => Ok(()),
        }
    }

    /// Commits each placement of a plan under its precondition; nothing of one that is no plan.
    async fn settle(&self, plan: Plan, state: &mut State) -> Result<Option<PlanSettled>, Crash> {
        let count = plan.placements.len();
        if count > PLACEMENTS_MAX {
            return Ok(None);
        }
        state.plans += 1;
        state.last_plan = plan.made_at;
        let mut settled = PlanSettled {
            number: plan.number,
            ..PlanSettled::default()
        };
        let now = self.control.times();
        let refusal = if plan.made_at < state.accepts_from {
            Some(format!(
                "decided on the state of LSN {}, which is not new enough: {}",
                plan.made_at, state.accepts_from
            ))
        } else if plan.time > now.0 {
            Some("made for a time to come".to_owned())
        } else {
            None
        };
        if let Some(reason) = refusal {
            state.stale_plans += 1;
            settled.refused = u32::try_from(count).unwrap_or(u32::MAX);
            settled.reason = reason;
            settled.lsn = self.control.view().lsn();
            return Ok(Some(settled));
        }
        let times = (plan.time, now.1);
        let placements = plan.placements.into_iter().map(|run| Placement {
            job: run.job,
            run: run.run,
            host: Arc::from(run.host),
            ports: run.ports,
            made_at: plan.made_at,
        });
        let committing = (0..)
            .zip(placements)
            .map(|(nth, placement)| self.control.place(placement, Planned { nth }, times));
        for outcome in join_all(committing).await {
            let reason = match outcome {
                Ok(()) => {
                    settled.placed += 1;
                    continue;
                }
                Err(CommitError::Stale(reason)) => reason,
                Err(CommitError::Refused(refusal)) => refusal.text,
                Err(CommitError::Unknown) => return Err(CommitError::Unknown.into()),
            };
            settled.refused += 1;
            if settled.reason.is_empty() {
                settled.reason = reason;
            }
        }
        state.placed += u64::from(settled.placed);
        state.refused += u64::from(settled.refused);
        settled.lsn = self.control.view().lsn();
        Ok(Some(settled))
    }
}
