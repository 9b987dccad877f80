//! A liveness probe that fails: not all replicas of a service restart at once, each waits for its
//! turn. A run that has no siblings takes its turn at once.

use serde::Serialize;
use xce_model::{Cause, Start};
use xce_replica::wire::Happened;

use super::{Effect, Phase, RunCore, StopPlan, Then};

/// Whether a run waits for its turn to restart, or takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Turn {
    /// Neither.
    None,
    /// It wants to be restarted.
    Waits {
        /// The start that is to end.
        start: Start,
        /// Number of the wish.
        wish: u32,
    },
    /// It is being restarted, and is not ready again.
    Taken,
}

impl RunCore {
    /// Whether it waits for its turn to restart, or takes it.
    pub fn turn(&self) -> Turn {
        let waits = self.phase == Phase::Running && self.memory.wanted.is_some();
        if self.phase == Phase::Ended {
            Turn::None
        } else if waits {
            let (start, wish) = (self.memory.start, self.memory.wish);
            Turn::Waits { start, wish }
        } else if self.memory.recovering {
            Turn::Taken
        } else {
            Turn::None
        }
    }

    /// A liveness probe failed: asks for a turn.
    pub(super) fn want_restart(&mut self, text: String, now_ms: u64, effects: &mut Vec<Effect>) {
        if self.memory.wanted.is_none() {
            self.memory.wish = self.memory.wish.saturating_add(1);
            self.memory.wanted = Some(text.clone());
            // Kept first: a worker that starts again repeats what it keeps.
            effects.push(Effect::Remember);
            let wish = self.memory.wish;
            effects.push(self.report(Happened::RestartWanted { wish, text }));
        }
        self.take_turn(now_ms, effects);
    }

    /// The probe succeeds again, or says nothing any more: the turn is not needed.
    pub(super) fn lives_again(&mut self, effects: &mut Vec<Effect>) {
        if self.memory.wanted.take().is_some() {
            self.granted = None;
            effects.push(self.report(Happened::RestartUnwanted));
            effects.push(Effect::Remember);
        }
    }

    /// The turn has come.
    pub(super) fn granted(
        &mut self,
        start: Start,
        wish: u32,
        now_ms: u64,
        effects: &mut Vec<Effect>,
    ) {
        // The turn of an earlier wish may have been given to another replica since.
        if start == self.memory.start && wish == self.memory.wish && self.memory.wanted.is_some() {
            self.granted = Some(wish);
            self.take_turn(now_ms, effects);
        }
    }

    pub(super) fn take_turn(&mut self, now_ms: u64, effects: &mut Vec<Effect>) {
        if self.phase != Phase::Running || !self.may_restart || self.granted.is_none() {
            return;
        }
        let Some(text) = self.memory.wanted.clone() else {
            return;
        };
        self.granted = None;
        self.memory.recovering = true;
        effects.push(Effect::Remember);
        self.restart_failed(text, now_ms, effects);
    }

    /// Stops a start whose probe failed; the next one counts as after any failure.
    pub(super) fn restart_failed(&mut self, text: String, now_ms: u64, effects: &mut Vec<Effect>) {
        effects.push(self.report(Happened::NotReady { text }));
        let plan = StopPlan {
            cause: Cause::TermLiveness,
            then: Then::RestartCounted,
        };
        self.begin_stop(plan, now_ms, effects);
    }

    /// Processes that were killed do not die.
    pub(super) fn hangs(&mut self, text: String, effects: &mut Vec<Effect>) {
        if matches!(self.phase, Phase::Stopping { .. }) && text != self.hanging {
            self.hanging.clone_from(&text);
            effects.push(self.report(Happened::StopHangs { text }));
        }
    }
}
