//! Takes out of the ledger what ended long ago, in bounded batches.

use std::sync::Arc;

use xce_ledger::Fact;
use xce_model::{ClusterTime, Millis};
use xce_replica::JobFact;
use xce_runtime::{Context, Crash, Entity, Key, Timer, Trigger, View};

use crate::control::{CommitError, Control};

/// Jobs of one batch. Source: derived; as many facts as one log entry of groups holds.
const BATCH_MAX: usize = 500;
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
        let due = self.due();
        let pause = if due.is_empty() { PAUSE_MAX } else { PAUSE };
        state.cleaned += self.clean(due).await?;
        let keep = self.control.settings.keep_ended;
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
    fn due(&self) -> Vec<Fact> {
        let keep = self.control.settings.keep_ended;
        let now = self.control.now();
        if now.0 < keep.0 {
            return Vec::new();
        }
        let until = ClusterTime(now.0 - keep.0);
        let view = self.control.view();
        let due = view.ended_until(until).take(BATCH_MAX);
        due.map(|job| Fact::from(JobFact::CleanedUp { job }))
            .collect()
    }

    async fn clean(&self, facts: Vec<Fact>) -> Result<u64, Crash> {
        let count = facts.len() as u64;
        if count == 0 {
            return Ok(0);
        }
        match self
            .control
            .commit_facts("clean up", Vec::new(), facts)
            .await
        {
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
