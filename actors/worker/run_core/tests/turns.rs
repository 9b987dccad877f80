//! Restarts after a failed liveness probe, and what cannot be probed or killed.

use super::*;

fn with_liveness(mode: RestartMode) -> RunSpec {
    let mut spec = replica(mode);
    spec.template.probes.liveness = Some(Box::new(probe()));
    spec
}

fn tell(start: Start, role: Role, verdict: Verdict) -> Input {
    Input::Probe {
        start,
        role,
        verdict,
    }
}

fn bad() -> Verdict {
    Verdict::Bad("refused".to_owned())
}

fn wanted(wish: u32) -> Happened {
    Happened::RestartWanted {
        wish,
        text: "refused".to_owned(),
    }
}

fn stops(effects: &[Effect]) -> bool {
    effects
        .iter()
        .any(|effect| matches!(effect, Effect::SendStop { .. }))
}

#[test]
fn a_replica_waits_for_its_turn_and_takes_it_once() {
    let mut core = running(&with_liveness(RestartMode::Always));
    let effects = core.handle(tell(1, Role::Liveness, bad()), 1);
    assert_eq!(effects, [Effect::Remember, report(1, wanted(1))]);
    assert_eq!(core.turn(), Turn::Waits { start: 1, wish: 1 });
    // Another failure is no other wish, and a permission for something else none for this.
    assert_eq!(core.handle(tell(1, Role::Liveness, bad()), 2), []);
    assert_eq!(core.handle(Input::Granted { start: 1, wish: 2 }, 3), []);
    assert_eq!(core.handle(Input::Granted { start: 2, wish: 1 }, 3), []);
    let effects = core.handle(Input::Granted { start: 1, wish: 1 }, 4);
    assert!(stops(&effects), "{effects:?}");
    assert_eq!(core.handle(Input::Granted { start: 1, wish: 1 }, 5), []);
    let exit = Exit {
        signal: Some(15),
        ..Exit::of(Cause::TermLiveness)
    };
    core.handle(exited(1, exit), 6);
    assert_eq!(core.turn(), Turn::Taken);
    assert_eq!(core.deadline(), Some(106), "the delay of any first end");
    core.handle(Input::Tick, 106);
    // The level may still be told; it is of the start that ended.
    assert_eq!(core.handle(Input::Granted { start: 1, wish: 1 }, 107), []);
    core.handle(Input::Started { start: 2, pid: 8 }, 108);
    assert_eq!(core.turn(), Turn::None, "ready again");
}

#[test]
fn a_replica_that_lives_again_needs_no_turn() {
    let mut core = running(&with_liveness(RestartMode::Always));
    core.handle(tell(1, Role::Liveness, bad()), 1);
    let effects = core.handle(tell(1, Role::Liveness, Verdict::Good), 2);
    assert_eq!(
        effects,
        [report(1, Happened::RestartUnwanted), Effect::Remember]
    );
    assert_eq!(core.turn(), Turn::None);
    assert_eq!(core.handle(Input::Granted { start: 1, wish: 1 }, 3), []);
    // The next wish is another one: a late permission for the first is none for it.
    let effects = core.handle(tell(1, Role::Liveness, bad()), 4);
    assert_eq!(effects[1], report(1, wanted(2)));
    assert_eq!(core.handle(Input::Granted { start: 1, wish: 1 }, 5), []);
    // Processes that stand still are asked nothing.
    let effects = core.handle(Input::Suspend, 6);
    assert_eq!(effects[0], report(1, Happened::RestartUnwanted));
}

#[test]
fn a_wish_outlives_the_worker() {
    let spec = with_liveness(RestartMode::Always);
    let mut before = running(&spec);
    before.handle(tell(1, Role::Liveness, bad()), 1);
    let kept = before.memory().clone();
    let mut core = RunCore::new(&spec, kept, false, Millis(KILL_BUDGET_MS));
    let effects = core.handle(Input::Started { start: 1, pid: 7 }, 10);
    let probe = Effect::StartProbe {
        role: Role::Liveness,
        kept: Some(false),
    };
    assert_eq!(effects, [report(1, wanted(1)), probe]);
    // A permission from before the controller has spoken waits until it has.
    assert_eq!(core.handle(Input::Granted { start: 1, wish: 1 }, 11), []);
    assert!(stops(&core.handle(Input::Resynced, 12)));
    assert!(core.memory().recovering);
}

#[test]
fn a_job_without_siblings_restarts_at_once() {
    let mut batch = spec(RestartMode::OnFailure);
    batch.template.probes.liveness = Some(Box::new(probe()));
    let mut core = running(&batch);
    assert!(stops(&core.handle(tell(1, Role::Liveness, bad()), 1)));
    assert_eq!(core.turn(), Turn::None);
}

#[test]
fn p37_one_series_whatever_ended_a_start() {
    let mut spec = with_liveness(RestartMode::Always);
    spec.template.restart.max_restarts = 100;
    let mut core = running(&spec);
    let mut now = 0;
    for start in 1..=8 {
        let by_liveness = start % 2 == 0;
        if by_liveness {
            core.handle(tell(start, Role::Liveness, bad()), now);
            let wish = core.memory().wish;
            core.handle(Input::Granted { start, wish }, now);
        }
        let cause = if by_liveness {
            Cause::TermLiveness
        } else {
            Cause::Exited
        };
        core.handle(exited(start, Exit { cause, ..code(1) }), now);
        assert_eq!(
            core.deadline(),
            Some(now + (100 << (start - 1)).min(60_000))
        );
        now = core.deadline().unwrap();
        core.handle(Input::Tick, now);
        let next = start + 1;
        core.handle(
            Input::Started {
                start: next,
                pid: 7,
            },
            now,
        );
    }
    assert_eq!(core.memory().history.moments_ms.len(), 8);
}

#[test]
fn p49_liveness_begins_when_startup_has_passed() {
    let mut spec = with_liveness(RestartMode::Always);
    spec.template.probes.startup = Some(Box::new(probe()));
    let mut core = core(&spec);
    core.handle(Input::Begin, 0);
    let effects = core.handle(Input::Started { start: 1, pid: 7 }, 0);
    let started = |effects: &[Effect]| -> Vec<Role> {
        let role = |effect: &Effect| match effect {
            Effect::StartProbe { role, .. } => Some(*role),
            _ => None,
        };
        effects.iter().filter_map(role).collect()
    };
    assert_eq!(started(&effects), [Role::Startup]);
    let effects = core.handle(tell(1, Role::Startup, Verdict::Good), 25_000);
    assert_eq!(started(&effects), [Role::Liveness]);
}

#[test]
fn p38_each_start_is_probed_anew() {
    let mut core = running(&with_liveness(RestartMode::Always));
    core.handle(tell(1, Role::Liveness, bad()), 1);
    core.handle(Input::Granted { start: 1, wish: 1 }, 1);
    core.handle(exited(1, Exit::of(Cause::TermLiveness)), 2);
    core.handle(Input::Tick, 102);
    let effects = core.handle(Input::Started { start: 2, pid: 8 }, 103);
    let anew = Effect::StartProbe {
        role: Role::Liveness,
        kept: None,
    };
    assert!(effects.contains(&anew), "{effects:?}");
    // What a probe of the first start still says is nothing to the second.
    assert_eq!(core.handle(tell(1, Role::Liveness, bad()), 104), []);
    assert_eq!(core.turn(), Turn::None);
}

#[test]
fn what_cannot_be_probed_is_told_and_nothing_follows() {
    let mut spec = with_liveness(RestartMode::Always);
    spec.template.probes.readiness = Some(Box::new(probe()));
    for role in [Role::Readiness, Role::Liveness] {
        let mut core = running(&spec);
        let text = || "no such program".to_owned();
        let cannot = Verdict::Unrunnable {
            count: 1,
            text: text(),
        };
        let told = Happened::ProbeUnrunnable {
            role,
            count: 1,
            text: text(),
        };
        assert_eq!(core.handle(tell(1, role, cannot), 4), [report(1, told)]);
        assert_eq!((core.turn(), core.memory().ready), (Turn::None, None));
    }
}

#[test]
fn processes_that_do_not_die_are_told_once() {
    let mut core = running(&replica(RestartMode::Always));
    let hangs = || Input::Hangs {
        start: 1,
        text: "7 (dd) in state D".to_owned(),
    };
    assert_eq!(core.handle(hangs(), 1), [], "nobody has killed anything");
    core.handle(Input::Stop(Cause::TermUpdate), 2);
    let text = "7 (dd) in state D".to_owned();
    assert_eq!(
        core.handle(hangs(), 3),
        [report(1, Happened::StopHangs { text })]
    );
    assert_eq!(core.handle(hangs(), 4), []);
    // Only the end of the last process is the end.
    assert!(matches!(core.phase(), Phase::Stopping { .. }));
}
