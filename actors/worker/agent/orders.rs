//! What an order asks of this worker, given what it knows of the run: pure.

use std::collections::HashSet;

use xce_model::{Cause, Exit};
use xce_replica::wire::{Happened, Order, RunId, RunSpec, Want};

/// What this worker knows of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// It lives here.
    Live,
    /// Its end is in the spool.
    EndWaits,
    /// It ended here, and the controller has heard of it.
    Ended,
    /// Nothing.
    Unknown,
}

/// What is to be done about an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// It is so already.
    Nothing,
    /// Start the run.
    Start(Box<RunSpec>),
    /// Tell the run to stop.
    Stop(RunId, Cause),
    /// Tell the run to suspend its processes.
    Suspend(RunId),
    /// Tell the run to let them go on.
    Resume(RunId),
    /// Tell the run to start anew in place.
    Restart(RunId),
    /// Report this of a run that does not live here.
    Report(RunId, Happened),
}

/// Decides about one order. A worker that is leaving starts nothing; the order comes again when
/// it is back.
pub fn decide(order: Order, known: Known, leaving: bool) -> Action {
    let run = order.run;
    match (order.want, known) {
        (_, Known::EndWaits) | (Want::Start(_) | Want::Keep(_), Known::Live) => Action::Nothing,
        (Want::Start(_), Known::Unknown) if leaving => Action::Nothing,
        (Want::Start(spec), Known::Unknown) if spec.run == run => Action::Start(spec),
        (Want::Start(_), Known::Unknown) => {
            let text =
                format!("the order names {run:?} and holds the specification of another run");
            Action::Report(run, Happened::LaunchFailed { text })
        }
        (Want::Stop { cause }, Known::Live) => Action::Stop(run, cause),
        (Want::Suspend, Known::Live) => Action::Suspend(run),
        (Want::Resume, Known::Live) => Action::Resume(run),
        (Want::Restart, Known::Live) => Action::Restart(run),
        (Want::Start(_), Known::Ended) => lost(run, "it ended here before"),
        (
            Want::Keep(_) | Want::Stop { .. } | Want::Suspend | Want::Resume | Want::Restart,
            Known::Ended | Known::Unknown,
        ) => lost(run, ""),
    }
}

/// Live runs that complete orders do not name: stale.
pub fn stale(live: Vec<RunId>, named: &HashSet<RunId>) -> Vec<RunId> {
    live.into_iter()
        .filter(|run| !named.contains(run))
        .collect()
}

fn lost(run: RunId, detail: &str) -> Action {
    let exit = Exit {
        detail: detail.to_owned(),
        ..Exit::of(Cause::RunLost)
    };
    Action::Report(
        run,
        Happened::Ended {
            exit,
            stderr: String::new(),
        },
    )
}
