//! The embedded scheduler: plans from the committed state and commits each placement under its own
//! preconditions; one that no longer fits is planned again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::future::join_all;
use xce_deciding::schedule::{self, PLACEMENTS_MAX};
use xce_ledger::GroupEvent::Planned;
use xce_model::{Lsn, Millis};
use xce_runtime::{Context, Crash, Entity, Key, Timer, Trigger, View};

use crate::control::{CommitError, Control};

/// Pause before what could not be written is planned again. Source: chosen; a person frees space.
const UNWRITTEN_PAUSE: Millis = Millis::seconds(1);

/// The actor.
pub struct Scheduler {
    /// Shared parts.
    pub control: Arc<Control>,
}

/// What it is told.
pub enum Message {
    /// Something changed that may let a job be placed.
    Look,
    /// A delay ended.
    Due(Trigger),
}

/// What one incarnation knows.
pub struct State {
    timer: Timer<Message>,
    cycles: u64,
    placed: u64,
    refused: u64,
    last_lsn: Lsn,
}

#[derive(serde::Serialize)]
struct Seen {
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
        }
        self.cycle(state).await
    }

    fn view(&self, state: &State) -> View {
        View::of(&Seen {
            cycles: state.cycles,
            placed: state.placed,
            refused: state.refused,
            last_lsn: state.last_lsn,
            next_delay_ends_ms: state.timer.armed_for(),
        })
    }
}

impl Scheduler {
    /// Plans and commits once; whatever is committed or refused makes the publisher tell it again.
    async fn cycle(&self, state: &mut State) -> Result<(), Crash> {
        let view = self.control.view();
        let times = self.control.times();
        let now = times.0;
        let placements = schedule::plan(&view, now);
        state.cycles += 1;
        state.last_lsn = view.lsn();
        let full = placements.len() >= PLACEMENTS_MAX;
        let outcomes = join_all(
            (0..)
                .zip(placements)
                .map(|(nth, placement)| self.control.place(placement, Planned { nth }, times)),
        )
        .await;
        let (mut again, mut unwritten) = (full, false);
        for outcome in outcomes {
            match outcome {
                Ok(_) => state.placed += 1,
                Err(CommitError::Stale(_)) => {
                    state.refused += 1;
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
        match xce_placement::next_wake(&self.control.view(), now) {
            Some(at) => state.timer.arm(self.control.monotonic_of(at), Message::Due),
            None => state.timer.disarm(),
        }
        Ok(())
    }
}

/// Its key.
pub fn key() -> Key {
    Key::single("scheduler")
}
