//! What an order asks of this worker, given what it knows of the run: pure.

use std::collections::HashSet;

use xce_model::{Cause, Exit, Start};
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
    /// Tell the run to stop, and whether it need not be drained.
    Stop(RunId, Cause, bool),
    /// Tell the run to suspend its processes.
    Suspend(RunId),
    /// Tell the run to let them go on.
    Resume(RunId),
    /// Send the run's processes a signal.
    Signal(RunId, i32),
    /// Tell the run to start anew in place.
    Restart(RunId),
    /// Tell the run that its turn to restart has come.
    Grant(RunId, Start, u32),
    /// Report this of a run that does not live here.
    Report(RunId, Happened),
}

/// Decides about one order. A worker that is leaving starts nothing; the order comes again when
/// it is back.
pub fn decide(order: Order, known: Known, leaving: bool) -> Action {
    let run = order.run;
    match (order.want, known) {
        (_, Known::EndWaits)
        | (Want::Start(_) | Want::Keep(_), Known::Live)
        | (Want::Leave, Known::Live | Known::Ended | Known::Unknown) => Action::Nothing,
        (Want::Start(_), Known::Unknown) if leaving => Action::Nothing,
        (Want::Start(spec), Known::Unknown) if spec.run == run => Action::Start(spec),
        (Want::Start(_), Known::Unknown) => {
            let text =
                format!("the order names {run:?} and holds the specification of another run");
            Action::Report(run, Happened::LaunchFailed { text })
        }
        (Want::Stop { cause, drained }, Known::Live) => Action::Stop(run, cause, drained),
        (Want::Suspend, Known::Live) => Action::Suspend(run),
        (Want::Resume, Known::Live) => Action::Resume(run),
        (Want::Signal { signal }, Known::Live) => Action::Signal(run, signal),
        // A signal is for who runs; one that comes too late concerns nobody.
        (Want::Signal { .. }, Known::Ended | Known::Unknown) => Action::Nothing,
        (Want::Restart, Known::Live) => Action::Restart(run),
        (Want::RestartGranted { start, wish }, Known::Live) => Action::Grant(run, start, wish),
        // What becomes of a run that is gone follows from the order to keep it.
        (Want::RestartGranted { .. }, Known::Ended | Known::Unknown) => Action::Nothing,
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

#[cfg(test)]
mod tests {
    use super::*;
    use xce_model::JobId;
    use xce_model::spec::{
        Probes, Resources, RestartMode, RestartPolicy, StopPolicy, Template, User,
    };
    use xce_model::{Bytes, MilliCpu, Millis};

    fn run(number: u64) -> RunId {
        RunId {
            job: JobId::single(number),
            run: 1,
        }
    }

    fn spec(run: RunId) -> Box<RunSpec> {
        let zero = Millis(0);
        Box::new(RunSpec {
            run,
            name: String::new(),
            template: Template {
                command: Vec::new(),
                env: Vec::new(),
                cwd: None,
                user: User {
                    name: String::new(),
                    uid: 0,
                    gid: 0,
                },
                resources: Resources {
                    cpus: MilliCpu(0),
                    memory: Bytes(0),
                },
                ports: Vec::new(),
                probes: Probes {
                    startup: None,
                    readiness: None,
                    liveness: None,
                },
                restart: RestartPolicy {
                    mode: RestartMode::Never,
                    delay: zero,
                    delay_max: zero,
                    max_restarts: 0,
                    window: zero,
                    stable_after: zero,
                },
                stop: StopPolicy {
                    drain: zero,
                    signal: 15,
                    grace: zero,
                },
                run_limit: None,
                constraints: Vec::new(),
                single_copy: xce_model::spec::SingleCopy::None,
            },
            ports: Vec::new(),
            replica: None,
        })
    }

    /// One letter for what an action does.
    fn letter(action: &Action) -> char {
        match action {
            Action::Nothing => '.',
            Action::Start(_) => 'S',
            Action::Stop(..) => 'T',
            Action::Suspend(_) => 'u',
            Action::Resume(_) => 'r',
            Action::Signal(..) => 's',
            Action::Restart(_) => 'R',
            Action::Grant(..) => 'G',
            Action::Report(_, Happened::Ended { .. }) => 'L',
            Action::Report(..) => 'F',
        }
    }

    #[test]
    fn each_order_has_one_meaning_for_each_state() {
        let wants: [(Want, &str); 9] = [
            // live, end waits, ended, unknown; and unknown while leaving
            (Want::Start(spec(run(1))), "..LS."),
            (Want::Keep(spec(run(1))), "..LLL"),
            (
                Want::Stop {
                    cause: Cause::TermOwner,
                    drained: false,
                },
                "T.LLL",
            ),
            (Want::Suspend, "u.LLL"),
            (Want::Resume, "r.LLL"),
            (Want::Signal { signal: 10 }, "s...."),
            (Want::Restart, "R.LLL"),
            (Want::RestartGranted { start: 1, wish: 1 }, "G...."),
            (Want::Leave, "....."),
        ];
        for (want, expected) in wants {
            let states = [
                (Known::Live, false),
                (Known::EndWaits, false),
                (Known::Ended, false),
                (Known::Unknown, false),
                (Known::Unknown, true),
            ];
            let found: String = states
                .into_iter()
                .map(|(known, leaving)| {
                    let order = Order {
                        run: run(1),
                        want: want.clone(),
                    };
                    letter(&decide(order, known, leaving))
                })
                .collect();
            assert_eq!(found, expected, "{want:?}");
        }
        let wrong = Order {
            run: run(1),
            want: Want::Start(spec(run(2))),
        };
        assert_eq!(letter(&decide(wrong, Known::Unknown, false)), 'F');
    }

    #[test]
    fn what_complete_orders_do_not_name_is_stale() {
        let live = vec![run(1), run(2), run(3)];
        assert_eq!(
            stale(live, &HashSet::from([run(2), run(9)])),
            [run(1), run(3)]
        );
    }
}
