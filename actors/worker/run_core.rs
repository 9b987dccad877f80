//! The rules of one run on this host: what follows from orders, from the shim, from probes and
//! from time. Pure: never waits, never reads a clock.
//!
//! ```text
//!   New ─► Launching ─► Running ─► (exit) ─► Ended
//!             ▲            │  │
//!             │            │  └─ stop ─► Stopping: drain, signal, kill, destroy ─► Ended
//!             │            ▼                          │ of a restart
//!             └──────── Backoff ◄─────────────────────┘
//! ```
//!
//! Each start within the run has a number, from 1. After the worker itself started, nothing starts
//! again in place until the controller has named every wanted run (`Resynced`).

use xce_model::spec::{RestartPolicy, StopPolicy};
use xce_model::{Cause, Exit, Millis, Start};
use xce_replica::wire::{Happened, RunSpec};

use crate::memory::Memory;
use crate::probe::{Role, Verdict};
use crate::restart::{AfterExit, wants_restart};

mod inputs;
mod stopping;
#[cfg(test)]
mod tests;
mod turn;

pub use inputs::{Effect, Input, Phase};
pub use stopping::{StopPlan, StopStep, Then};
pub use turn::Turn;

/// How long a shim may take to say that the job runs, in milliseconds.
///
/// Source: derived; it takes 2 ms on a quiet machine, so this is a machine in deep trouble.
pub const LAUNCH_MS_MAX: u64 = 60_000;

/// One run on this host.
#[derive(Debug, Clone)]
pub struct RunCore {
    restart: RestartPolicy,
    stop: StopPolicy,
    has: Has,
    phase: Phase,
    memory: Memory,
    may_restart: bool,
    kill_budget_ms: u64,
    last_exit: Option<Exit>,
    /// The wish that was granted and not acted upon yet.
    granted: Option<u32>,
    /// What was last told of processes that do not die.
    hanging: String,
}

/// What a run has, of what a run may have.
#[derive(Debug, Clone, Copy)]
struct Has {
    startup: bool,
    readiness: bool,
    liveness: bool,
    /// Somebody wants to know when it is ready.
    readers: bool,
    /// It is one of several, which do not all restart at once.
    siblings: bool,
}

impl RunCore {
    /// A run of which `memory` is remembered; the default memory is that of a new run. A shim is
    /// killed when it has done nothing `kill_budget` after it was to kill.
    pub fn new(spec: &RunSpec, memory: Memory, may_restart: bool, kill_budget: Millis) -> Self {
        let probes = &spec.template.probes;
        let has = Has {
            startup: probes.startup.is_some(),
            readiness: probes.readiness.is_some(),
            liveness: probes.liveness.is_some(),
            readers: spec.replica.is_some()
                || probes.readiness.is_some()
                || probes.startup.is_some(),
            siblings: spec.replica.is_some(),
        };
        Self {
            restart: spec.template.restart.clone(),
            stop: spec.template.stop.clone(),
            has,
            phase: Phase::New,
            memory,
            may_restart,
            kill_budget_ms: kill_budget.0,
            last_exit: None,
            granted: None,
            hanging: String::new(),
        }
    }

    /// Where the run is.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The current start; the next one during backoff.
    pub fn start(&self) -> Start {
        self.memory.start
    }

    /// What is to be kept over a restart of the worker.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// When [`Input::Tick`] is due, milliseconds since boot.
    pub fn deadline(&self) -> Option<u64> {
        match self.phase {
            Phase::Launching { until_ms, .. } | Phase::Stopping { until_ms, .. } => Some(until_ms),
            Phase::Backoff { until_ms } => self.may_restart.then_some(until_ms),
            Phase::New | Phase::Running | Phase::Ended => None,
        }
    }

    /// Decides what follows from an input at `now_ms`, milliseconds since boot.
    pub fn handle(&mut self, input: Input, now_ms: u64) -> Vec<Effect> {
        let mut effects = Vec::new();
        match input {
            Input::Begin => self.begin(now_ms, &mut effects),
            Input::Stop(cause) => self.order_stop(cause, now_ms, &mut effects),
            Input::Drained => self.drained(now_ms, &mut effects),
            Input::Restart => self.order_restart(now_ms, &mut effects),
            Input::Suspend => self.suspend(true, &mut effects),
            Input::Resume => self.suspend(false, &mut effects),
            Input::Resynced => {
                self.may_restart = true;
                self.tick(now_ms, &mut effects);
                self.take_turn(now_ms, &mut effects);
            }
            Input::Granted { start, wish } => self.granted(start, wish, now_ms, &mut effects),
            Input::Hangs { start, text } if self.is_current(start) => {
                self.hangs(text, &mut effects);
            }
            Input::Started { start, pid } if self.is_current(start) => {
                self.started(pid, now_ms, &mut effects);
            }
            Input::Exited {
                start,
                exit,
                ran_ms,
            } if self.is_current(start) => {
                self.exited(exit, ran_ms, now_ms, &mut effects);
            }
            Input::LaunchFailed { start, text } if self.is_current(start) => {
                effects.push(self.report(Happened::LaunchFailed { text }));
                self.finish(&mut effects);
            }
            Input::Lost { start, rebooted } if self.is_current(start) => {
                self.lost(rebooted, &mut effects);
            }
            Input::Probe {
                start,
                role,
                verdict,
            } if self.is_current(start) => {
                self.probed(role, verdict, now_ms, &mut effects);
            }
            Input::Started { .. }
            | Input::Exited { .. }
            | Input::LaunchFailed { .. }
            | Input::Lost { .. }
            | Input::Hangs { .. }
            | Input::Probe { .. } => {}
            Input::Tick => self.tick(now_ms, &mut effects),
        }
        effects
    }

    /// Whether news of this start still matter.
    fn is_current(&self, start: Start) -> bool {
        let alive = match self.phase {
            Phase::New | Phase::Launching { .. } | Phase::Running | Phase::Stopping { .. } => true,
            Phase::Backoff { .. } | Phase::Ended => false,
        };
        alive && start == self.memory.start
    }

    fn report(&self, what: Happened) -> Effect {
        Effect::Report {
            start: self.memory.start,
            what,
        }
    }

    fn begin(&mut self, now_ms: u64, effects: &mut Vec<Effect>) {
        match (self.phase, self.memory.not_before_ms) {
            (Phase::New, Some(until_ms)) => {
                self.phase = Phase::Backoff { until_ms };
                self.tick(now_ms, effects);
            }
            (Phase::New, None) if self.memory.start == 1 || self.may_restart => {
                self.launch(now_ms, effects);
            }
            (Phase::New, None) => self.phase = Phase::Backoff { until_ms: now_ms },
            (
                Phase::Launching { .. }
                | Phase::Running
                | Phase::Backoff { .. }
                | Phase::Stopping { .. }
                | Phase::Ended,
                _,
            ) => {}
        }
    }

    fn launch(&mut self, now_ms: u64, effects: &mut Vec<Effect>) {
        let until_ms = now_ms.saturating_add(LAUNCH_MS_MAX);
        self.phase = Phase::Launching {
            until_ms,
            stop: None,
        };
        self.memory.not_before_ms = None;
        effects.push(Effect::Launch(self.memory.start));
    }

    fn started(&mut self, pid: u32, now_ms: u64, effects: &mut Vec<Effect>) {
        let stop = match self.phase {
            Phase::New => None,
            Phase::Launching { stop, .. } => stop,
            Phase::Running | Phase::Stopping { .. } | Phase::Backoff { .. } | Phase::Ended => {
                return;
            }
        };
        self.phase = Phase::Running;
        self.memory.not_before_ms = None;
        if self.memory.announced < self.memory.start {
            self.memory.announced = self.memory.start;
            effects.push(self.report(Happened::Started { pid }));
        }
        if let Some(plan) = stop {
            self.stop_unserved(plan, now_ms, effects);
            return;
        }
        if self.memory.suspended {
            return;
        }
        self.start_probes(effects);
    }

    fn start_probes(&mut self, effects: &mut Vec<Effect>) {
        if self.has.startup && !self.memory.startup_passed {
            effects.push(Effect::StartProbe {
                role: Role::Startup,
                kept: None,
            });
            return;
        }
        if self.has.readiness {
            let kept = self.memory.ready;
            effects.push(Effect::StartProbe {
                role: Role::Readiness,
                kept,
            });
        } else if self.has.readers {
            self.set_ready(true, effects);
        }
        if self.has.liveness {
            // One that wants to be restarted says so again: whoever grants it may not know.
            let kept = self.memory.wanted.is_some().then_some(false);
            if let Some(text) = self.memory.wanted.clone() {
                let wish = self.memory.wish;
                effects.push(self.report(Happened::RestartWanted { wish, text }));
            }
            effects.push(Effect::StartProbe {
                role: Role::Liveness,
                kept,
            });
        }
    }

    fn set_ready(&mut self, ready: bool, effects: &mut Vec<Effect>) {
        if self.memory.ready == Some(ready) {
            return;
        }
        self.memory.ready = Some(ready);
        if ready {
            self.memory.recovering = false;
            effects.push(self.report(Happened::Ready));
        }
        effects.push(Effect::Remember);
    }

    fn probed(&mut self, role: Role, verdict: Verdict, now_ms: u64, effects: &mut Vec<Effect>) {
        if self.phase != Phase::Running || self.memory.suspended {
            return;
        }
        match (role, verdict) {
            (Role::Startup, Verdict::Good) if !self.memory.startup_passed => {
                self.memory.startup_passed = true;
                effects.extend([Effect::StopProbes, Effect::Remember]);
                self.start_probes(effects);
            }
            (Role::Startup, Verdict::Good) => {}
            (Role::Liveness, Verdict::Good) => self.lives_again(effects),
            (Role::Liveness, Verdict::Bad(text)) if self.has.siblings => {
                self.want_restart(text, now_ms, effects);
            }
            (Role::Startup | Role::Liveness, Verdict::Bad(text)) => {
                self.restart_failed(text, now_ms, effects);
            }
            (Role::Readiness, Verdict::Good) => self.set_ready(true, effects),
            (Role::Readiness, Verdict::Bad(text)) => {
                let changed = self.memory.ready != Some(false);
                self.memory.ready = Some(false);
                // The same verdict again tells another reason.
                effects.push(self.report(Happened::NotReady { text }));
                if changed {
                    effects.push(Effect::Remember);
                }
            }
            // Neither a success nor a failure: shown, and nothing follows.
            (role, Verdict::Unrunnable { count, text }) => {
                effects.push(self.report(Happened::ProbeUnrunnable { role, count, text }));
            }
        }
    }

    fn suspend(&mut self, suspend: bool, effects: &mut Vec<Effect>) {
        if self.phase != Phase::Running || self.memory.suspended == suspend {
            return;
        }
        self.memory.suspended = suspend;
        if suspend {
            self.lives_again(effects);
            effects.extend([Effect::StopProbes, Effect::Suspend]);
            effects.push(self.report(Happened::Suspended));
        } else {
            effects.push(Effect::Resume);
            effects.push(self.report(Happened::Resumed));
            self.start_probes(effects);
        }
        effects.push(Effect::Remember);
    }

    fn exited(&mut self, exit: Exit, ran_ms: u64, now_ms: u64, effects: &mut Vec<Effect>) {
        let plan = match self.phase {
            Phase::Launching { stop, .. } => stop,
            Phase::Stopping { plan, .. } => Some(plan),
            Phase::New | Phase::Running => None,
            Phase::Backoff { .. } | Phase::Ended => return,
        };
        effects.push(Effect::StopProbes);
        let restarts = wants_restart(self.restart.mode, &exit);
        // Whatever these are, the same command would meet them again, or nothing is left to run.
        let is_final = matches!(exit.cause, Cause::LaunchFailed | Cause::TermRunlimit);
        // Its lease was over: another copy may run elsewhere.
        let is_fenced = exit.cause == Cause::HostLost;
        match plan.map(|plan| plan.then) {
            Some(Then::End) => self.end(exit, effects),
            _ if is_fenced => self.end(exit, effects),
            Some(Then::RestartFree) => self.restart_at(now_ms, exit, now_ms, effects),
            None | Some(Then::RestartCounted) if is_final || !restarts => self.end(exit, effects),
            None | Some(Then::RestartCounted) => {
                match self
                    .memory
                    .history
                    .after_exit(&self.restart, ran_ms, now_ms)
                {
                    AfterExit::Again { delay_ms } => {
                        let at_ms = now_ms.saturating_add(delay_ms);
                        self.restart_at(at_ms, exit, now_ms, effects);
                    }
                    AfterExit::End => self.end(exit, effects),
                    AfterExit::GiveUp => self.give_up(&exit, effects),
                }
            }
        }
    }

    fn give_up(&mut self, last: &Exit, effects: &mut Vec<Effect>) {
        let (restarts, window) = (self.restart.max_restarts, self.restart.window);
        let exit = Exit {
            code: last.code,
            signal: last.signal,
            cause: Cause::GaveUp,
            detail: format!("{restarts} restarts within {window}; last: {last}"),
        };
        self.end(exit, effects);
    }

    fn restart_at(&mut self, at_ms: u64, exit: Exit, now_ms: u64, effects: &mut Vec<Effect>) {
        let what = Happened::Restarting {
            exit: exit.clone(),
            stderr: String::new(),
        };
        effects.push(self.report(what));
        self.last_exit = Some(exit);
        self.granted = None;
        self.hanging.clear();
        self.memory.next_start(at_ms);
        effects.push(Effect::Remember);
        self.phase = Phase::Backoff { until_ms: at_ms };
        self.tick(now_ms, effects);
    }

    fn lost(&mut self, rebooted: bool, effects: &mut Vec<Effect>) {
        effects.push(Effect::StopProbes);
        let exit = match self.phase {
            Phase::Stopping { plan, .. } if plan.cause == Cause::HostLaunchFailed => {
                let text = "the shim did not start the job in time".to_owned();
                effects.push(self.report(Happened::LaunchFailed { text }));
                self.finish(effects);
                return;
            }
            Phase::Stopping {
                plan,
                step: StopStep::Destroy,
                ..
            } if plan.then == Then::End => Exit {
                detail: "it did not end in time, so its shim was killed with it".to_owned(),
                ..Exit::of(plan.cause)
            },
            Phase::Launching { .. } if !rebooted => {
                let text = "the shim was lost before the job ran".to_owned();
                effects.push(self.report(Happened::LaunchFailed { text }));
                self.finish(effects);
                return;
            }
            Phase::New
            | Phase::Launching { .. }
            | Phase::Running
            | Phase::Backoff { .. }
            | Phase::Stopping { .. }
            | Phase::Ended => Exit::of(if rebooted {
                Cause::HostRebooted
            } else {
                Cause::ShimLost
            }),
        };
        self.end(exit, effects);
    }

    fn end(&mut self, exit: Exit, effects: &mut Vec<Effect>) {
        effects.push(self.report(Happened::Ended {
            exit,
            stderr: String::new(),
        }));
        self.finish(effects);
    }

    fn finish(&mut self, effects: &mut Vec<Effect>) {
        self.phase = Phase::Ended;
        effects.push(Effect::Finish);
    }
}
