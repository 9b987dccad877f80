//! The scheduler inside the controller: the feed hands it the records themselves, and its first full
//! state is the view itself, shared.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::future::join_all;
use xce_deciding::Planner;
use xce_deciding::schedule::PLACEMENTS_MAX;
use xce_ledger::GroupEvent::Planned;
use xce_ledger::{Cursor, Scope};
use xce_model::{Lsn, Millis, Refusal};
use xce_runtime::{Context, Crash, Entity, Timer, View};

use super::Message;
use crate::control::{CommitError, Control};

/// Pause before what could not be written is planned again. Source: chosen; a person frees space.
const UNWRITTEN_PAUSE: Millis = Millis::seconds(1);
/// Changes taken in at a time. Source: derived; a millisecond's work.
const CHANGES_MAX: usize = 4096;

/// The actor.
pub struct Scheduler {
    /// Shared parts.
    pub control: Arc<Control>,
}

/// What one incarnation knows.
pub struct State {
    timer: Timer<Message>,
    cursor: Cursor,
    planner: Planner,
    fulls: u64,
    changes: u64,
    cycles: u64,
    placed: u64,
    refused: u64,
    last_lsn: Lsn,
}

#[derive(serde::Serialize)]
struct Seen {
    embedded: bool,
    fulls: u64,
    changes: u64,
    cycles: u64,
    placed: u64,
    refused: u64,
    last_lsn: Lsn,
    next_delay_ends_ms: Option<u64>,
}

impl Entity for Scheduler {
    type Message = Message;
    type State = State;
    const KIND: &'static str = "scheduler";

    async fn recover(&self, context: &Context<Message>) -> Result<State, Crash> {
        self.control.wal.barrier().await?;
        self.control.scheduler_told.store(false, Ordering::Release);
        self.control.tell_scheduler();
        Ok(State {
            timer: Timer::new(context.address().clone(), Arc::clone(context.clock())),
            cursor: Cursor::new(Scope::Scheduler, 0),
            planner: Planner::new(),
            fulls: 0,
            changes: 0,
            cycles: 0,
            placed: 0,
            refused: 0,
            last_lsn: 0,
        })
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
            Message::Due(_) => {}
            Message::Opened(opened) => {
                let text = "the scheduler of this cluster is embedded in its controllers; \
                            set `scheduler = \"daemon\"` there to use another";
                let refusal = Refusal::refused("scheduler_embedded", text);
                // A peer that is gone hears nothing.
                drop(opened.peer.refuse(opened.number, &refusal));
                return Ok(());
            }
            Message::Said(..) | Message::Ended(_) => return Ok(()),
        }
        self.cycle(state).await
    }

    fn view(&self, state: &State) -> View {
        View::of(&Seen {
            embedded: true,
            fulls: state.fulls,
            changes: state.changes,
            cycles: state.cycles,
            placed: state.placed,
            refused: state.refused,
            last_lsn: state.last_lsn,
            next_delay_ends_ms: state.timer.armed_for(),
        })
    }
}

impl Scheduler {
    /// Takes in what changed: all of it, so that the state is whole.
    fn follow(&self, state: &mut State) {
        let view = self.control.view();
        if state.planner.is_doubtful() {
            tracing::warn!("plans came to nothing again and again; the state is read anew");
            state.planner.forget();
            state.cursor = Cursor::new(Scope::Scheduler, 0);
        }
        if state.cursor.needs_full(&view) {
            state.planner.adopt(&view);
            state.cursor = Cursor::new(Scope::Scheduler, view.lsn());
            state.fulls += 1;
            return;
        }
        loop {
            let mut changes = Vec::new();
            let portion = state.cursor.next(&view, |change| {
                changes.push(change);
                changes.len() < CHANGES_MAX
            });
            let Some(portion) = portion else { break };
            state.changes += changes.len() as u64;
            state.planner.take(&portion, changes);
        }
        state.planner.pass(view.lsn());
    }

    /// Plans and commits once; whatever is committed or refused makes the publisher tell it again.
    async fn cycle(&self, state: &mut State) -> Result<(), Crash> {
        self.follow(state);
        let times = self.control.times();
        let now = times.0;
        let placements = state.planner.plan(now);
        state.cycles += 1;
        state.last_lsn = state.planner.lsn();
        let full = placements.len() >= PLACEMENTS_MAX;
        let outcomes = join_all(
            (0..)
                .zip(placements)
                .map(|(nth, placement)| self.control.place(placement, Planned { nth }, times)),
        )
        .await;
        let (mut again, mut unwritten) = (full, false);
        let (mut placed, mut refused) = (0, 0);
        for outcome in outcomes {
            match outcome {
                Ok(()) => placed += 1,
                Err(CommitError::Stale(_)) => {
                    refused += 1;
                    again = true;
                }
                Err(CommitError::Refused(refusal)) => {
                    // Overloaded or no space.
                    unwritten = true;
                    tracing::warn!(code = %refusal.code, "placement not written");
                }
                Err(CommitError::Unknown) => return Err(CommitError::Unknown.into()),
            }
        }
        state.placed += placed as u64;
        state.refused += refused as u64;
        state
            .planner
            .settled(self.control.view().lsn(), placed, refused);
        if again {
            self.control.tell_scheduler();
        }
        if unwritten {
            state.timer.arm(
                self.control.monotonic_ms() + UNWRITTEN_PAUSE.0,
                Message::Due,
            );
            return Ok(());
        }
        match state.planner.next_wake(now) {
            Some(at) => state.timer.arm(self.control.monotonic_of(at), Message::Due),
            None => state.timer.disarm(),
        }
        Ok(())
    }
}
