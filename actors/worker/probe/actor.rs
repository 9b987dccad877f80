//! The actor of one probe: waits, tries, judges, tells the actor of its run.
//!
//! It lives below the probes' own supervisors, and is shown below its run. A try is a task of its
//! own, so that the actor always answers; there is never more than one.

use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use xce_model::Start;
use xce_model::spec::Probe;
use xce_runtime::{Address, Context, Crash, Entity, Key, Shards, Task, Timer, Trigger, View};

use super::attempt::{Surroundings, attempt};
use super::verdict::ProbeCore;
use super::{Outcome, Role, Verdict};
use crate::run::{RunMessage, shim};

/// What a probe is told.
#[derive(Debug)]
pub enum ProbeMessage {
    /// Time for a try.
    Due(Trigger),
    /// A try is over.
    Tried {
        /// What it gave.
        outcome: Outcome,
        /// When it began, milliseconds since boot.
        began_ms: u64,
    },
}

/// One probe of one start of a run.
#[derive(Debug)]
pub struct ProbeActor {
    /// What is tried.
    pub probe: Probe,
    /// What for.
    pub role: Role,
    /// The start that it belongs to.
    pub start: Start,
    /// When the job started, milliseconds since boot.
    pub since_ms: u64,
    /// The verdict so far; kept here, so that it outlives a crash of this actor.
    pub kept: Mutex<Option<bool>>,
    /// What a try needs.
    pub around: Arc<Surroundings>,
    /// Who is told.
    pub run: Address<RunMessage>,
}

/// What one incarnation knows.
#[derive(Debug)]
pub struct ProbeState {
    core: ProbeCore,
    timer: Timer<ProbeMessage>,
    trying: Option<Task>,
    tries: u64,
    last: &'static str,
    last_text: String,
    lag_ms: u64,
    lag_ms_max: u64,
}

#[derive(Serialize)]
struct ProbeView<'a> {
    role: Role,
    start: Start,
    good: Option<bool>,
    tries: u64,
    could_not_be_run: u64,
    last: &'a str,
    last_text: &'a str,
    next_ms: u64,
    lag_ms: u64,
    lag_ms_max: u64,
}

impl ProbeActor {
    fn arm(&self, state: &mut ProbeState) {
        let at_ms = state.core.next_ms();
        state.timer.arm(at_ms, ProbeMessage::Due);
    }

    fn begin(&self, context: &Context<ProbeMessage>, state: &mut ProbeState) {
        let began_ms = context.clock().monotonic_ms();
        state.tries += 1;
        state.lag_ms = began_ms.saturating_sub(state.core.next_ms());
        state.lag_ms_max = state.lag_ms_max.max(state.lag_ms);
        let (probe, around) = (self.probe.clone(), self.around.clone());
        let address = context.address().clone();
        state.trying = Some(Task::spawn(async move {
            let outcome = attempt(&probe, &around).await;
            // One that is down tries again by itself.
            let _ = address.cast(ProbeMessage::Tried { outcome, began_ms });
        }));
    }

    async fn tried(
        &self,
        context: &Context<ProbeMessage>,
        state: &mut ProbeState,
        outcome: Outcome,
        began_ms: u64,
    ) {
        state.trying = None;
        (state.last, state.last_text) = match &outcome {
            Outcome::Success => ("good", String::new()),
            Outcome::Failure(text) => ("bad", text.clone()),
            Outcome::Unrunnable(text) => ("could not be run", text.clone()),
        };
        let now_ms = context.clock().monotonic_ms();
        let news = state.core.tried(outcome, began_ms, now_ms);
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = state.core.good();
        self.arm(state);
        for verdict in news {
            self.tell(verdict).await;
        }
    }

    async fn tell(&self, verdict: Verdict) {
        let (start, role) = (self.start, self.role);
        shim::deliver(&self.run, RunMessage::Probe(start, role, verdict)).await;
    }
}

impl Entity for ProbeActor {
    type Message = ProbeMessage;
    type State = ProbeState;
    const KIND: &'static str = "probe";

    async fn recover(&self, context: &Context<ProbeMessage>) -> Result<ProbeState, Crash> {
        let kept = *self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = ProbeState {
            core: ProbeCore::new(&self.probe, self.role, self.since_ms, kept),
            timer: Timer::new(context.address().clone(), context.clock().clone()),
            trying: None,
            tries: 0,
            last: "none yet",
            last_text: String::new(),
            lag_ms: 0,
            lag_ms_max: 0,
        };
        self.arm(&mut state);
        Ok(state)
    }

    async fn handle(
        &self,
        context: &Context<ProbeMessage>,
        message: ProbeMessage,
        state: &mut ProbeState,
    ) -> Result<(), Crash> {
        match message {
            ProbeMessage::Due(trigger) if state.timer.accept(trigger) => {
                self.begin(context, state);
            }
            ProbeMessage::Due(_) => {}
            ProbeMessage::Tried { outcome, began_ms } => {
                self.tried(context, state, outcome, began_ms).await;
            }
        }
        Ok(())
    }

    fn view(&self, state: &ProbeState) -> View {
        View::of(&ProbeView {
            role: self.role,
            start: self.start,
            good: state.core.good(),
            tries: state.tries,
            could_not_be_run: state.core.unrunnable(),
            last: state.last,
            last_text: &state.last_text,
            next_ms: state.core.next_ms(),
            lag_ms: state.lag_ms,
            lag_ms_max: state.lag_ms_max,
        })
    }
}

/// A probe that lives; dropping this ends it, whatever it is doing.
#[derive(Debug)]
pub struct LiveProbe {
    /// What it is for.
    pub role: Role,
    key: Key,
    probes: Shards,
}

impl LiveProbe {
    /// Starts the actor of a probe below `probes`, shown below its run. `key` was never used before.
    ///
    /// # Errors
    /// At the end of the worker, and when the key is taken.
    pub fn start(
        probes: &Shards,
        key: Key,
        run: Key,
        actor: ProbeActor,
    ) -> Result<Self, xce_runtime::Refusal> {
        let role = actor.role;
        probes.spawn(key.clone(), Some(run), actor)?;
        Ok(Self {
            role,
            key,
            probes: probes.clone(),
        })
    }
}

impl Drop for LiveProbe {
    fn drop(&mut self) {
        // One that is gone already needs nothing.
        let _ = self.probes.stop(&self.key);
    }
}
