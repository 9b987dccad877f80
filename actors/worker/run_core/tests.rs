use proptest::prelude::*;
use xce_model::spec::{
    Probe, ProbeAction, Probes, Resources, RestartMode, RestartPolicy, StopPolicy, Template, User,
};
use xce_model::{Bytes, Cause, Exit, JobId, MilliCpu, Millis, Start};
use xce_replica::wire::{Happened, ReplicaOf, RunId, RunSpec};

use super::*;
use crate::probe::{Role, Verdict};

const KILL_BUDGET_MS: u64 = 10_000;

fn spec(mode: RestartMode) -> RunSpec {
    RunSpec {
        run: RunId {
            job: JobId::single(1),
            run: 1,
        },
        name: "x".to_owned(),
        template: Template {
            command: vec!["x".to_owned()],
            env: Vec::new(),
            cwd: None,
            user: User {
                name: String::new(),
                uid: 0,
                gid: 0,
            },
            resources: Resources {
                cpus: MilliCpu(1),
                memory: Bytes(1),
            },
            ports: Vec::new(),
            probes: Probes {
                startup: None,
                readiness: None,
                liveness: None,
            },
            restart: RestartPolicy {
                mode,
                delay: Millis(100),
                delay_max: Millis(60_000),
                max_restarts: 2,
                window: Millis(600_000),
                stable_after: Millis(60_000),
            },
            stop: StopPolicy {
                drain: Millis(0),
                signal: 15,
                grace: Millis(30_000),
            },
            run_limit: None,
            constraints: Vec::new(),
            single_copy: xce_model::spec::SingleCopy::None,
        },
        ports: Vec::new(),
        replica: None,
    }
}

fn replica(mode: RestartMode) -> RunSpec {
    let replica = ReplicaOf {
        service: "s".to_owned(),
        version: 1,
        index: 0,
    };
    RunSpec {
        replica: Some(replica),
        ..spec(mode)
    }
}

fn probe() -> Probe {
    Probe {
        action: ProbeAction::Exec {
            command: Vec::new(),
        },
        initial_delay: Millis(0),
        period: Millis(1),
        timeout: Millis(1),
        success_threshold: 1,
        failure_threshold: 1,
    }
}

fn core(spec: &RunSpec) -> RunCore {
    RunCore::new(spec, Memory::default(), true, Millis(KILL_BUDGET_MS))
}

fn running(spec: &RunSpec) -> RunCore {
    let mut core = core(spec);
    core.handle(Input::Begin, 0);
    core.handle(Input::Started { start: 1, pid: 7 }, 0);
    core
}

fn code(code: i32) -> Exit {
    Exit {
        code: Some(code),
        ..Exit::of(Cause::Exited)
    }
}

fn exited(start: Start, exit: Exit) -> Input {
    Input::Exited {
        start,
        exit,
        ran_ms: 5,
    }
}

fn report(start: Start, what: Happened) -> Effect {
    Effect::Report { start, what }
}

fn ended(start: Start, exit: Exit) -> Effect {
    report(
        start,
        Happened::Ended {
            exit,
            stderr: String::new(),
        },
    )
}

fn restarting(start: Start, exit: Exit) -> Effect {
    report(
        start,
        Happened::Restarting {
            exit,
            stderr: String::new(),
        },
    )
}

#[test]
fn a_batch_job_starts_runs_and_ends_with_its_exit() {
    let mut core = core(&spec(RestartMode::Never));
    assert_eq!(core.handle(Input::Begin, 0), [Effect::Launch(1)]);
    let started = core.handle(Input::Started { start: 1, pid: 7 }, 1);
    assert_eq!(started, [report(1, Happened::Started { pid: 7 })]);
    let end = core.handle(exited(1, code(3)), 6);
    assert_eq!(end, [Effect::StopProbes, ended(1, code(3)), Effect::Finish]);
    assert_eq!((core.phase(), core.deadline()), (Phase::Ended, None));
}

#[test]
fn a_replica_without_probes_is_ready_when_it_runs_and_exit_0_is_a_restart() {
    let mut core = core(&replica(RestartMode::Always));
    core.handle(Input::Begin, 0);
    assert_eq!(
        core.handle(Input::Started { start: 1, pid: 7 }, 1),
        [
            report(1, Happened::Started { pid: 7 }),
            report(1, Happened::Ready),
            Effect::Remember
        ]
    );
    assert_eq!(
        core.handle(exited(1, code(0)), 6),
        [Effect::StopProbes, restarting(1, code(0)), Effect::Remember]
    );
    assert_eq!((core.start(), core.deadline()), (2, Some(106)));
    assert_eq!(core.handle(Input::Tick, 105), []);
    assert_eq!(core.handle(Input::Tick, 106), [Effect::Launch(2)]);
}

#[test]
fn restarts_are_counted_and_then_it_gives_up() {
    let mut core = running(&replica(RestartMode::OnFailure));
    for (start, delay) in [(1, 100), (2, 200)] {
        core.handle(exited(start, code(1)), 1_000);
        assert_eq!(core.deadline(), Some(1_000 + delay));
        core.handle(Input::Tick, 1_000 + delay);
        core.handle(
            Input::Started {
                start: start + 1,
                pid: 8,
            },
            1_000,
        );
    }
    let effects = core.handle(exited(3, code(4)), 2_000);
    let exit = Exit {
        detail: "2 restarts within 10m; last: exit code 4".to_owned(),
        cause: Cause::GaveUp,
        ..code(4)
    };
    assert_eq!(
        effects,
        [Effect::StopProbes, ended(3, exit), Effect::Finish]
    );
}

#[test]
fn what_the_same_command_would_meet_again_is_not_restarted() {
    for cause in [Cause::LaunchFailed, Cause::TermRunlimit] {
        let mut core = running(&replica(RestartMode::Always));
        let exit = Exit { cause, ..code(127) };
        let effects = core.handle(exited(1, exit.clone()), 1);
        assert_eq!(
            effects,
            [Effect::StopProbes, ended(1, exit), Effect::Finish]
        );
    }
    let mut core = running(&replica(RestartMode::OnFailure));
    assert_eq!(core.handle(exited(1, code(0)), 1)[1], ended(1, code(0)));
    let mut core = running(&replica(RestartMode::Always));
    let lost = core.handle(
        Input::Lost {
            start: 1,
            rebooted: true,
        },
        1,
    );
    assert_eq!(lost[1], ended(1, Exit::of(Cause::HostRebooted)));
}

#[test]
fn a_stop_is_sent_and_escalates_until_nothing_is_left() {
    let mut with_drain = spec(RestartMode::Always);
    with_drain.template.stop.drain = Millis(50);
    let mut core = running(&with_drain);
    assert_eq!(
        core.handle(Input::Stop(Cause::TermOwner), 0),
        [Effect::StopProbes]
    );
    let send = Effect::SendStop {
        signal: 15,
        grace_ms: 30_000,
        cause: Cause::TermOwner,
    };
    assert_eq!(core.handle(Input::Tick, 50), [send]);
    // A second order changes nothing.
    assert_eq!(core.handle(Input::Stop(Cause::TermStale), 51), []);
    let kill_at = 50 + 30_000 + KILL_BUDGET_MS;
    assert_eq!(core.handle(Input::Tick, kill_at - 1), []);
    assert_eq!(
        core.handle(Input::Tick, kill_at),
        [Effect::Kill(Cause::TermOwner)]
    );
    let destroy_at = kill_at + KILL_BUDGET_MS;
    assert_eq!(core.handle(Input::Tick, destroy_at), [Effect::Destroy]);
    assert_eq!(
        core.handle(Input::Tick, destroy_at + KILL_BUDGET_MS),
        [Effect::Destroy]
    );
    let effects = core.handle(
        Input::Lost {
            start: 1,
            rebooted: false,
        },
        destroy_at + 1,
    );
    let [
        Effect::StopProbes,
        Effect::Report {
            what: Happened::Ended { exit, .. },
            ..
        },
        Effect::Finish,
    ] = &effects[..]
    else {
        panic!("{effects:?}")
    };
    assert_eq!(exit.cause, Cause::TermOwner);
    assert!(exit.detail.contains("shim"), "{exit:?}");
}

#[test]
fn a_drain_ends_early_when_nobody_sends_work_any_more() {
    let mut with_drain = spec(RestartMode::Always);
    with_drain.template.stop.drain = Millis(5_000);
    let send = Effect::SendStop {
        signal: 15,
        grace_ms: 30_000,
        cause: Cause::TermUpdate,
    };
    let mut core = running(&with_drain);
    assert_eq!(
        core.handle(Input::Drained, 0),
        [],
        "without a stop it says nothing"
    );
    core.handle(Input::Stop(Cause::TermUpdate), 1);
    assert_eq!(core.handle(Input::Drained, 7), std::slice::from_ref(&send));
    assert_eq!(core.deadline(), Some(7 + 30_000 + KILL_BUDGET_MS));
    assert_eq!(core.handle(Input::Drained, 8), [], "it is a level");
    assert_eq!(core.handle(Input::Tick, 5_001), []);
    let mut launching = RunCore::new(&with_drain, Memory::default(), true, Millis(KILL_BUDGET_MS));
    launching.handle(Input::Begin, 0);
    launching.handle(Input::Stop(Cause::TermUpdate), 0);
    let effects = launching.handle(Input::Started { start: 1, pid: 7 }, 1);
    assert_eq!(effects[2], send, "nobody knew of it: nobody is waited for");
}

#[test]
fn a_stop_in_any_phase_ends_it() {
    let cause = Cause::TermScaleDown;
    let mut new = core(&spec(RestartMode::Always));
    assert_eq!(
        new.handle(Input::Stop(cause), 0),
        [ended(1, Exit::of(cause)), Effect::Finish]
    );
    let mut launching = core(&spec(RestartMode::Always));
    launching.handle(Input::Begin, 0);
    assert_eq!(launching.handle(Input::Stop(cause), 0), []);
    let effects = launching.handle(Input::Started { start: 1, pid: 7 }, 1);
    assert_eq!(
        effects[2],
        Effect::SendStop {
            signal: 15,
            grace_ms: 30_000,
            cause
        }
    );
    let mut backoff = running(&replica(RestartMode::Always));
    backoff.handle(exited(1, code(3)), 1);
    let effects = backoff.handle(Input::Stop(cause), 2);
    assert_eq!(
        effects,
        [ended(2, Exit { cause, ..code(3) }), Effect::Finish]
    );
    let mut killed = running(&replica(RestartMode::Always));
    killed.handle(Input::Stop(cause), 1);
    let exit = Exit {
        signal: Some(15),
        ..Exit::of(cause)
    };
    assert_eq!(killed.handle(exited(1, exit.clone()), 2)[1], ended(1, exit));
}

#[test]
fn a_manual_restart_is_at_once_and_does_not_count() {
    let mut core = running(&replica(RestartMode::Never));
    for start in 1..10 {
        let effects = core.handle(Input::Restart, 10);
        assert!(matches!(effects[1], Effect::SendStop { .. }), "{effects:?}");
        let effects = core.handle(exited(start, code(0)), 20);
        assert_eq!(effects[3], Effect::Launch(start + 1));
        core.handle(
            Input::Started {
                start: start + 1,
                pid: 7,
            },
            21,
        );
    }
    assert!(core.memory().history.moments_ms.is_empty());
    // A stop wins over it.
    core.handle(Input::Restart, 30);
    core.handle(Input::Stop(Cause::TermOwner), 31);
    assert_eq!(core.handle(exited(10, code(0)), 32)[1], ended(10, code(0)));
}

#[test]
fn nothing_starts_in_place_before_the_controller_has_spoken() {
    let mut core = RunCore::new(
        &replica(RestartMode::Always),
        Memory::default(),
        false,
        Millis(KILL_BUDGET_MS),
    );
    core.handle(Input::Started { start: 1, pid: 7 }, 0);
    core.handle(exited(1, code(1)), 10);
    assert_eq!(core.deadline(), None);
    assert_eq!(core.handle(Input::Tick, 1_000_000), []);
    let kept = core.memory().clone();
    assert_eq!(core.handle(Input::Resynced, 1_000_000), [Effect::Launch(2)]);
    // The same after the worker has started again.
    let mut core = RunCore::new(
        &replica(RestartMode::Always),
        kept,
        false,
        Millis(KILL_BUDGET_MS),
    );
    assert_eq!(core.handle(Input::Begin, 50), []);
    assert_eq!(core.handle(Input::Resynced, 60), []);
    assert_eq!(core.handle(Input::Tick, 110), [Effect::Launch(2)]);
}

#[test]
fn probes_follow_each_other_and_decide() {
    let mut spec = replica(RestartMode::Always);
    spec.template.probes = Probes {
        startup: Some(Box::new(probe())),
        readiness: Some(Box::new(probe())),
        liveness: Some(Box::new(probe())),
    };
    let mut core = core(&spec);
    core.handle(Input::Begin, 0);
    let effects = core.handle(Input::Started { start: 1, pid: 7 }, 0);
    assert_eq!(
        effects[1],
        Effect::StartProbe {
            role: Role::Startup,
            kept: None
        }
    );
    assert_eq!(effects.len(), 2);
    let tell = |role, verdict| Input::Probe {
        start: 1,
        role,
        verdict,
    };
    let effects = core.handle(tell(Role::Startup, Verdict::Good), 1);
    let start = |role| Effect::StartProbe { role, kept: None };
    let both = [start(Role::Readiness), start(Role::Liveness)];
    assert_eq!(effects[..2], [Effect::StopProbes, Effect::Remember]);
    assert_eq!(effects[2..], both);
    let ready = core.handle(tell(Role::Readiness, Verdict::Good), 2);
    assert_eq!(ready, [report(1, Happened::Ready), Effect::Remember]);
    let text = || "x".to_owned();
    let bad = core.handle(tell(Role::Readiness, Verdict::Bad(text())), 3);
    assert_eq!(
        bad,
        [
            report(1, Happened::NotReady { text: text() }),
            Effect::Remember
        ]
    );
    let sick = core.handle(tell(Role::Liveness, Verdict::Bad(text())), 5);
    let wish = Happened::RestartWanted {
        wish: 1,
        text: text(),
    };
    assert_eq!(sick, [Effect::Remember, report(1, wish)]);
    let dead = core.handle(Input::Granted { start: 1, wish: 1 }, 5);
    let cause = Cause::TermLiveness;
    assert_eq!(
        dead[3],
        Effect::SendStop {
            signal: 15,
            grace_ms: 30_000,
            cause
        }
    );
    let exit = Exit {
        cause,
        signal: Some(15),
        ..Exit::of(cause)
    };
    let effects = core.handle(exited(1, exit.clone()), 6);
    assert_eq!(effects[1], restarting(1, exit));
    // News of the old start change nothing.
    assert_eq!(core.handle(tell(Role::Readiness, Verdict::Good), 7), []);
}

#[test]
fn an_adopted_replica_goes_on_with_its_verdict() {
    let mut spec = replica(RestartMode::Always);
    spec.template.probes.readiness = Some(Box::new(probe()));
    let mut before = running(&spec);
    let good = Input::Probe {
        start: 1,
        role: Role::Readiness,
        verdict: Verdict::Good,
    };
    before.handle(good, 1);
    let mut core = RunCore::new(
        &spec,
        before.memory().clone(),
        false,
        Millis(KILL_BUDGET_MS),
    );
    let effects = core.handle(Input::Started { start: 1, pid: 7 }, 100);
    assert_eq!(
        effects,
        [Effect::StartProbe {
            role: Role::Readiness,
            kept: Some(true)
        }]
    );
}

#[test]
fn a_launch_that_says_nothing_is_given_up() {
    let mut core = core(&spec(RestartMode::Never));
    core.handle(Input::Begin, 0);
    assert_eq!(core.deadline(), Some(LAUNCH_MS_MAX));
    assert_eq!(core.handle(Input::Tick, LAUNCH_MS_MAX), [Effect::Destroy]);
    let effects = core.handle(
        Input::Lost {
            start: 1,
            rebooted: false,
        },
        LAUNCH_MS_MAX + 1,
    );
    assert!(
        matches!(
            &effects[1],
            Effect::Report {
                what: Happened::LaunchFailed { .. },
                ..
            }
        ),
        "{effects:?}"
    );
}

mod turns;

fn any_input() -> impl Strategy<Value = Input> {
    let start = 1_u32..4;
    let role = prop_oneof![
        Just(Role::Startup),
        Just(Role::Readiness),
        Just(Role::Liveness)
    ];
    let verdict = prop_oneof![
        Just(Verdict::Good),
        Just(Verdict::Bad("b".to_owned())),
        Just(Verdict::Unrunnable {
            count: 1,
            text: "u".to_owned()
        })
    ];
    prop_oneof![
        Just(Input::Begin),
        Just(Input::Stop(Cause::TermOwner)),
        Just(Input::Drained),
        Just(Input::Suspend),
        Just(Input::Resume),
        Just(Input::Restart),
        Just(Input::Resynced),
        Just(Input::Tick),
        (start.clone(), 1_u32..3).prop_map(|(start, wish)| Input::Granted { start, wish }),
        start.clone().prop_map(|start| Input::Hangs {
            start,
            text: "7 (x) D".to_owned()
        }),
        start
            .clone()
            .prop_map(|start| Input::Started { start, pid: 7 }),
        (start.clone(), 0..2).prop_map(|(start, number)| exited(start, code(number))),
        start.clone().prop_map(|start| Input::LaunchFailed {
            start,
            text: String::new()
        }),
        start.clone().prop_map(|start| Input::Lost {
            start,
            rebooted: false
        }),
        (start, role, verdict).prop_map(|(start, role, verdict)| Input::Probe {
            start,
            role,
            verdict
        }),
    ]
}

proptest! {
    /// Whatever comes in whatever order: one end at most, nothing after it, every start launched
    /// once, and a stop is never the last word.
    #[test]
    fn a_run_ends_once_and_starts_each_number_once(
        inputs in prop::collection::vec((any_input(), 0_u64..100_000), 0..60),
        resynced: bool,
    ) {
        let mut spec = replica(RestartMode::Always);
        spec.template.probes.liveness = Some(Box::new(probe()));
        let mut core = RunCore::new(&spec, Memory::default(), resynced, Millis(KILL_BUDGET_MS));
        let (mut now, mut ends, mut launched) = (0, 0, Vec::new());
        for (input, wait) in inputs {
            now += wait;
            let over = core.phase() == Phase::Ended;
            let effects = core.handle(input, now);
            prop_assert!(!over || effects.is_empty());
            for effect in effects {
                match effect {
                    Effect::Launch(start) => {
                        prop_assert!(launched.last().is_none_or(|last| *last < start));
                        launched.push(start);
                    }
                    Effect::Finish => ends += 1,
                    Effect::Report { start, .. } => prop_assert!(start <= core.start()),
                    _ => {}
                }
            }
            let waits = matches!(core.phase(), Phase::Launching { .. } | Phase::Stopping { .. });
            prop_assert!(!waits || core.deadline().is_some());
            prop_assert_eq!(ends, usize::from(core.phase() == Phase::Ended));
        }
    }
}
