//! Takes out of the ledger what ended long ago, in bounded batches.

use std::sync::Arc;

use xce_ledger::GroupEvent;
use xce_model::Millis;
use xce_runtime::{Context, Crash, Entity, Key, Timer, Trigger, View};

use crate::control::{CommitError, Control};

/// Pause between batches, and before the next look where nothing is due yet.
/// Source: chosen; a batch a second keeps up with 500 jobs a second.
const PAUSE: Millis = Millis::seconds(1);
/// Longest wait for the next look. Source: chosen; cleaning up is not urgent.
const PAUSE_MAX: Millis = Millis::seconds(60);

/// The actor.
pub struct Janitor {
    /// Shared parts.
    pub control: Arc<Control>,
}

/// What it is told.
pub enum Message {
    /// Something may be due.
    Due(Trigger),
}

/// What one incarnation knows.
pub struct State {
    timer: Timer<Message>,
    cleaned: u64,
}

#[derive(serde::Serialize)]
struct Seen {
    cleaned: u64,
    next_look_ms: Option<u64>,
}

impl Entity for Janitor {
    type Message = Message;
    type State = State;
    const KIND: &'static str = "janitor";

    async fn recover(&self, context: &Context<Message>) -> Result<State, Crash> {
        let mut timer = Timer::new(context.address().clone(), Arc::clone(context.clock()));
        timer.arm(self.control.monotonic_ms() + PAUSE.0, Message::Due);
        Ok(State { timer, cleaned: 0 })
    }

    async fn handle(
        &self,
        _context: &Context<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), Crash> {
        let Message::Due(trigger) = message;
        if !state.timer.accept(trigger) {
            return Ok(());
        }
        let cleaned = self.clean().await?;
        let pause = if cleaned == 0 { PAUSE_MAX } else { PAUSE };
        state.cleaned += cleaned;
        let keep = self.control.settings.live.get().keep_ended;
        let wait = pause.0.min(keep.0.max(PAUSE.0));
        state
            .timer
            .arm(self.control.monotonic_ms() + wait, Message::Due);
        Ok(())
    }

    fn view(&self, state: &State) -> View {
        View::of(&Seen {
            cleaned: state.cleaned,
            next_look_ms: state.timer.armed_for(),
        })
    }
}

impl Janitor {
    /// Cleans up what is due, as much as one group takes; says how much.
    async fn clean(&self) -> Result<u64, Crash> {
        let (control, keep) = (&self.control, self.control.settings.live.get().keep_ended);
        let (view, times) = (control.view(), control.times());
        let decided = xce_deciding::clean_up(&view, keep, times.0);
        let count = decided.facts.len() as u64;
        if count == 0 {
            return Ok(0);
        }
        let on = (view.lsn(), GroupEvent::CleanUp { keep });
        drop(view);
        match control.commit_decided("clean up", on, times, decided).await {
            Ok(_) => Ok(count),
            Err(CommitError::Stale(_) | CommitError::Refused(_)) => Ok(0),
            Err(CommitError::Unknown) => Err(CommitError::Unknown.into()),
        }
    }
}

/// Its key.
pub fn key() -> Key {
    Key::single("janitor")
}
