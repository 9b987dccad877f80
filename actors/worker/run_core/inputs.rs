//! What a run is told, what it does, and where it is.

use xce_model::{Cause, Exit, Start};
use xce_replica::wire::Happened;

use super::stopping::{StopPlan, StopStep};
use crate::probe::{Role, Verdict};

/// Where a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub enum Phase {
    /// Nothing was done yet.
    New,
    /// A shim was started; the job is not known to run.
    Launching {
        /// When the launch is given up, milliseconds since boot.
        until_ms: u64,
        /// Stopped as soon as it runs.
        stop: Option<StopPlan>,
    },
    /// The job runs.
    Running,
    /// Waits for its next start.
    Backoff {
        /// When that is, milliseconds since boot.
        until_ms: u64,
    },
    /// Being stopped.
    Stopping {
        /// What for.
        plan: StopPlan,
        /// How far it is.
        step: StopStep,
        /// When the next step follows, milliseconds since boot.
        until_ms: u64,
    },
    /// Over; nothing follows.
    Ended,
}

/// What the run is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Begin: nothing of it exists yet.
    Begin,
    /// Wanted stopped.
    Stop(Cause),
    /// Nobody sends it work any more: a stop that drains it goes on at once.
    Drained,
    /// Wanted suspended.
    Suspend,
    /// Wanted to go on.
    Resume,
    /// Wanted started anew, by somebody.
    Restart,
    /// The controller has named every wanted run since this worker started.
    Resynced,
    /// The job of a start runs: just started, or found running.
    Started {
        /// Which start.
        start: Start,
        /// Its process, for display.
        pid: u32,
    },
    /// A start has ended, and nothing of it is left.
    Exited {
        /// Which start.
        start: Start,
        /// How.
        exit: Exit,
        /// How long it ran, milliseconds.
        ran_ms: u64,
    },
    /// A start could not be made by the host's fault.
    LaunchFailed {
        /// Which start.
        start: Start,
        /// What went wrong.
        text: String,
    },
    /// The shim of a start is gone without a word, and so is the job.
    Lost {
        /// Which start.
        start: Start,
        /// Whether the host has booted since.
        rebooted: bool,
    },
    /// A probe came to a verdict.
    Probe {
        /// Which start.
        start: Start,
        /// Which probe.
        role: Role,
        /// The verdict.
        verdict: Verdict,
    },
    /// The restart that it wanted is granted: a level, which holds for that wish only.
    Granted {
        /// The start that is to end.
        start: Start,
        /// The wish.
        wish: u32,
    },
    /// Processes of a start were killed and do not die.
    Hangs {
        /// Which start.
        start: Start,
        /// Which processes, in what state, and since when.
        text: String,
    },
    /// Time has passed: see [`super::RunCore::deadline`].
    Tick,
}

/// What is to be done, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Start a shim for this start.
    Launch(Start),
    /// Tell the shim to stop the job: signal, then kill after the grace.
    SendStop {
        /// Signal number.
        signal: i32,
        /// Grace in milliseconds.
        grace_ms: u64,
        /// Why.
        cause: Cause,
    },
    /// Tell the shim to kill the job's tree now.
    Kill(Cause),
    /// The shim does not answer: kill it and what it left.
    Destroy,
    /// Tell the shim to stop the job's processes for a while.
    Suspend,
    /// Tell the shim to let them go on.
    Resume,
    /// Begin to probe.
    StartProbe {
        /// Which probe.
        role: Role,
        /// The verdict of before the worker started, where there is one.
        kept: Option<bool>,
    },
    /// End all probes.
    StopProbes,
    /// Put a fact into the spool.
    Report {
        /// The start it concerns.
        start: Start,
        /// What happened.
        what: Happened,
    },
    /// Keep [`super::RunCore::memory`] in the run directory.
    Remember,
    /// The run is over: put its directory aside.
    Finish,
}
