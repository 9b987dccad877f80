//! Stopping a run, and what its deadlines lead to.

use serde::Serialize;
use xce_model::{Cause, Exit};

use super::{Effect, Phase, RunCore};

/// What a stop is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct StopPlan {
    /// Why.
    pub cause: Cause,
    /// What follows.
    pub then: Then,
}

/// What follows a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Then {
    /// The run ends.
    End,
    /// The next start, counted as after any failure.
    RestartCounted,
    /// The next start at once, not counted.
    RestartFree,
}

/// How far a stop is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum StopStep {
    /// Its endpoint is being taken away; the job knows nothing yet.
    Drain,
    /// The signal is sent; the shim kills after the grace.
    Grace,
    /// The shim was told to kill, since the grace and its budget are over.
    Kill,
    /// The shim is being killed, since it did nothing.
    Destroy,
}

impl RunCore {
    pub(super) fn order_stop(&mut self, cause: Cause, now_ms: u64, effects: &mut Vec<Effect>) {
        let plan = StopPlan {
            cause,
            then: Then::End,
        };
        match &mut self.phase {
            Phase::New => self.end(Exit::of(cause), effects),
            Phase::Backoff { .. } => {
                let exit = Exit {
                    cause,
                    ..self.last_exit.clone().unwrap_or(Exit::of(cause))
                };
                self.end(exit, effects);
            }
            Phase::Launching { stop, .. } => {
                // The cause of the first stop stays.
                if stop.is_none() {
                    *stop = Some(plan);
                }
            }
            Phase::Stopping {
                plan: under_way, ..
            } => {
                if under_way.then != Then::End {
                    *under_way = plan;
                }
            }
            Phase::Running => self.begin_stop(plan, now_ms, effects),
            Phase::Ended => {}
        }
    }

    pub(super) fn order_restart(&mut self, now_ms: u64, effects: &mut Vec<Effect>) {
        match self.phase {
            Phase::Running => {
                let plan = StopPlan {
                    cause: Cause::TermOwner,
                    then: Then::RestartFree,
                };
                self.begin_stop(plan, now_ms, effects);
            }
            Phase::Backoff { .. } if self.may_restart => self.launch(now_ms, effects),
            Phase::New
            | Phase::Launching { .. }
            | Phase::Backoff { .. }
            | Phase::Stopping { .. }
            | Phase::Ended => {}
        }
    }

    pub(super) fn begin_stop(&mut self, plan: StopPlan, now_ms: u64, effects: &mut Vec<Effect>) {
        effects.push(Effect::StopProbes);
        let drain_ms = self.stop.drain.0;
        // A restart of what is not alive has nobody to wait for.
        if drain_ms == 0 || plan.then != Then::End {
            self.send_stop(plan, now_ms, effects);
            return;
        }
        let until_ms = now_ms.saturating_add(drain_ms);
        self.phase = Phase::Stopping {
            plan,
            step: StopStep::Drain,
            until_ms,
        };
    }

    /// Stops a start that was never ready: nobody knows of it, so nobody is waited for.
    pub(super) fn stop_unserved(&mut self, plan: StopPlan, now_ms: u64, effects: &mut Vec<Effect>) {
        effects.push(Effect::StopProbes);
        self.send_stop(plan, now_ms, effects);
    }

    /// Ends the drain of a stop that is under way.
    pub(super) fn drained(&mut self, now_ms: u64, effects: &mut Vec<Effect>) {
        if let Phase::Stopping {
            plan,
            step: StopStep::Drain,
            ..
        } = self.phase
        {
            self.send_stop(plan, now_ms, effects);
        }
    }

    fn send_stop(&mut self, plan: StopPlan, now_ms: u64, effects: &mut Vec<Effect>) {
        let grace_ms = self.stop.grace.0;
        let until_ms = now_ms
            .saturating_add(grace_ms)
            .saturating_add(self.kill_budget_ms);
        self.phase = Phase::Stopping {
            plan,
            step: StopStep::Grace,
            until_ms,
        };
        effects.push(Effect::SendStop {
            signal: self.stop.signal,
            grace_ms,
            cause: plan.cause,
        });
    }

    pub(super) fn tick(&mut self, now_ms: u64, effects: &mut Vec<Effect>) {
        if self.deadline().is_none_or(|at_ms| now_ms < at_ms) {
            return;
        }
        match self.phase {
            Phase::Backoff { .. } => self.launch(now_ms, effects),
            Phase::Launching { stop, .. } => {
                let give_up = StopPlan {
                    cause: Cause::HostLaunchFailed,
                    then: Then::End,
                };
                let plan = stop.unwrap_or(give_up);
                self.next_step(plan, StopStep::Destroy, now_ms, effects);
            }
            Phase::Stopping { plan, step, .. } => match step {
                StopStep::Drain => self.send_stop(plan, now_ms, effects),
                StopStep::Grace => self.next_step(plan, StopStep::Kill, now_ms, effects),
                StopStep::Kill | StopStep::Destroy => {
                    self.next_step(plan, StopStep::Destroy, now_ms, effects);
                }
            },
            Phase::New | Phase::Running | Phase::Ended => {}
        }
    }

    fn next_step(
        &mut self,
        plan: StopPlan,
        step: StopStep,
        now_ms: u64,
        effects: &mut Vec<Effect>,
    ) {
        let until_ms = now_ms.saturating_add(self.kill_budget_ms);
        self.phase = Phase::Stopping {
            plan,
            step,
            until_ms,
        };
        effects.push(match step {
            StopStep::Destroy => Effect::Destroy,
            StopStep::Drain | StopStep::Grace | StopStep::Kill => Effect::Kill(plan.cause),
        });
    }
}
