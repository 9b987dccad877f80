mod requeue;

use std::sync::Arc;

use proptest::prelude::*;
use xce_model::spec::{
    JobSpec, Probe, ProbeAction, Probes, Resources, RestartMode, RestartPolicy, StopPolicy,
    Template, User,
};
use xce_model::{Bytes, Cause, ClusterTime, Exit, JobId, JobState, MilliCpu, Millis, WallTime};

use crate::facts::{AfterStop, JobFact, ProbeRole};
use crate::rules::{
    Command, SHIMS_LOST_MAX, Verdict, decide_command, decide_host_lost, decide_report,
};
use crate::state::JobRecord;
use crate::wire::{Happened, Report, RunId};

fn spec(rerunnable: bool) -> JobSpec {
    JobSpec {
        name: "job".into(),
        project: "default".into(),
        queue: "normal".into(),
        template: Template {
            command: vec!["true".into()],
            env: Vec::new(),
            cwd: None,
            user: User {
                name: "ann".into(),
                uid: 1000,
                gid: 1000,
            },
            resources: Resources {
                cpus: MilliCpu(1000),
                memory: Bytes(1 << 20),
            },
            ports: Vec::new(),
            probes: Probes::default(),
            restart: RestartPolicy {
                mode: RestartMode::Never,
                delay: Millis(100),
                delay_max: Millis(60_000),
                max_restarts: 5,
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
        array: None,
        held: false,
        rerunnable,
    }
}

fn pending(rerunnable: bool) -> JobRecord {
    let at = (1, ClusterTime(0), WallTime(0));
    JobRecord::submitted(JobId::single(7), Arc::new(spec(rerunnable)), None, at)
}

fn apply(job: &mut JobRecord, facts: &[JobFact]) {
    for fact in facts {
        let lsn = job.changed + 1;
        job.apply(fact, ClusterTime(lsn), lsn);
        job.check().unwrap();
    }
}

fn place(job: &mut JobRecord, host: &str) {
    let run = job.run + 1;
    let host = host.into();
    apply(
        job,
        &[JobFact::Placed {
            job: job.id,
            run,
            host,
            ports: Vec::new(),
        }],
    );
}

fn report(run: u32, start: u32, what: Happened) -> Report {
    let run = RunId {
        job: JobId::single(7),
        run,
    };
    Report {
        sequence: 1,
        run,
        start,
        at: WallTime(5),
        what,
    }
}

fn hear(job: &mut JobRecord, host: &str, report: &Report) -> bool {
    match decide_report(Some(job), host, report, ClusterTime(9)) {
        Verdict::Facts(facts) => {
            apply(job, &facts);
            true
        }
        Verdict::Stale => false,
    }
}

fn ended(cause: Cause, code: Option<i32>) -> Happened {
    let exit = Exit {
        code,
        signal: None,
        cause,
        detail: String::new(),
    };
    Happened::Ended {
        exit,
        stderr: String::new(),
    }
}

#[test]
fn a_job_runs_from_submission_to_its_end() {
    let mut job = pending(false);
    place(&mut job, "w1");
    assert_eq!(job.state, JobState::Start);
    assert!(hear(
        &mut job,
        "w1",
        &report(1, 1, Happened::Started { pid: 42 })
    ));
    assert_eq!((job.state, job.pid, job.start), (JobState::Run, 42, 1));
    assert!(hear(
        &mut job,
        "w1",
        &report(1, 1, ended(Cause::Exited, Some(0)))
    ));
    assert_eq!(job.state, JobState::Done);
    // The same end once more: known, and it changes nothing.
    assert!(!hear(
        &mut job,
        "w1",
        &report(1, 1, ended(Cause::Exited, Some(9)))
    ));
    assert_eq!(job.state, JobState::Done);
}

/// Case A1: the late end of a requeued run says nothing of the next one on the same host.
#[test]
fn a1_late_end_of_an_earlier_run_is_stale() {
    let mut job = pending(false);
    place(&mut job, "w1");
    hear(&mut job, "w1", &report(1, 1, Happened::Started { pid: 1 }));
    let facts = decide_command(&job, Command::Requeue, ClusterTime(3), WallTime(0)).unwrap();
    apply(&mut job, &facts);
    assert!(hear(
        &mut job,
        "w1",
        &report(1, 1, ended(Cause::TermRequeue, None))
    ));
    assert_eq!(job.state, JobState::Pend);
    place(&mut job, "w1");
    hear(&mut job, "w1", &report(2, 1, Happened::Started { pid: 2 }));
    assert!(!hear(
        &mut job,
        "w1",
        &report(1, 1, ended(Cause::Exited, Some(137)))
    ));
    assert_eq!((job.state, job.run), (JobState::Run, 2));
}

/// Case A3: another host says that the job is gone; the run elsewhere is untouched.
#[test]
fn a3_report_of_another_host_is_stale() {
    let mut job = pending(true);
    place(&mut job, "w1");
    let lost = decide_host_lost(&job, "host w1 is lost", ClusterTime(4), WallTime(4));
    apply(&mut job, &[lost]);
    assert_eq!(job.state, JobState::Pend);
    place(&mut job, "w2");
    assert!(!hear(
        &mut job,
        "w1",
        &report(2, 1, ended(Cause::RunLost, None))
    ));
    assert_eq!(job.state, JobState::Start);
}

/// A job that ends its own shim is tried on a few hosts, and then ended with that reason.
#[test]
fn a_job_that_ends_its_shim_again_and_again_is_ended() {
    let mut job = pending(true);
    for run in 1..=SHIMS_LOST_MAX {
        place(&mut job, "w1");
        hear(
            &mut job,
            "w1",
            &report(run, 1, Happened::Started { pid: 1 }),
        );
        let other = report(run, 1, ended(Cause::ShimLost, None));
        assert!(hear(&mut job, "w1", &other));
        let again = run < SHIMS_LOST_MAX;
        let expected = if again {
            JobState::Pend
        } else {
            JobState::Exit
        };
        assert_eq!(job.state, expected, "run {run}");
    }
    let exit = job.exit.as_ref().unwrap();
    assert_eq!(exit.cause, Cause::ShimLost);
    assert!(exit.detail.contains("in 3 runs"), "{}", exit.detail);
    job.check().unwrap();
}

#[test]
fn loss_of_the_host_ends_what_may_not_run_again() {
    let mut job = pending(false);
    place(&mut job, "w1");
    apply(
        &mut job.clone(),
        &[decide_host_lost(
            &job,
            "host w1 is lost",
            ClusterTime(4),
            WallTime(4),
        )],
    );
    let lost = decide_host_lost(&job, "host w1 is lost", ClusterTime(4), WallTime(4));
    apply(&mut job, &[lost]);
    assert_eq!(job.state, JobState::Exit);
    assert_eq!(job.exit.unwrap().cause, Cause::HostLost);
}

#[test]
fn a_launch_that_fails_by_the_hosts_fault_goes_back_and_avoids_it() {
    let mut job = pending(false);
    for (host, wait) in [("w1", 1000), ("w2", 2000)] {
        place(&mut job, host);
        let run = job.run;
        let failed = Happened::LaunchFailed {
            text: "spool not writable".into(),
        };
        assert!(hear(&mut job, host, &report(run, 0, failed)));
        assert_eq!(job.state, JobState::Pend);
        assert_eq!(job.not_before, ClusterTime(9 + wait));
    }
    assert_eq!(job.avoid.len(), 2);
}

#[test]
fn commands_by_state() {
    let now = ClusterTime(1);
    let command = |job: &JobRecord, command| decide_command(job, command, now, WallTime(0));
    let mut job = pending(false);
    assert_eq!(
        command(&job, Command::Hold).unwrap(),
        [JobFact::Held { job: job.id }]
    );
    assert_eq!(command(&job, Command::Release).unwrap(), []);
    assert_eq!(command(&job, Command::Requeue).unwrap(), []);
    assert_eq!(
        command(&job, Command::Suspend).unwrap_err().code,
        "wrong_state"
    );
    place(&mut job, "w1");
    assert!(
        command(&job, Command::Hold)
            .unwrap_err()
            .text
            .contains("it is START")
    );
    let stop = command(&job, Command::Requeue).unwrap();
    apply(&mut job, &stop);
    // A kill wins over the requeue, a second kill says nothing new.
    let stop = command(&job, Command::Kill(Cause::TermOwner)).unwrap();
    apply(&mut job, &stop);
    assert_eq!(job.stop.unwrap().then, AfterStop::End);
    assert_eq!(command(&job, Command::Kill(Cause::TermOwner)).unwrap(), []);
    hear(&mut job, "w1", &report(1, 1, ended(Cause::TermOwner, None)));
    assert_eq!(job.state, JobState::Exit);
    // A job that ended runs again on request, as a new run.
    let facts = command(&job, Command::Requeue).unwrap();
    apply(&mut job, &facts);
    place(&mut job, "w1");
    assert_eq!((job.state, job.run), (JobState::Start, 2));
}

#[test]
fn killing_what_waits_ends_it_at_once() {
    let mut job = pending(false);
    let kill = Command::Kill(Cause::TermOwner);
    let facts = decide_command(&job, kill, ClusterTime(1), WallTime(3)).unwrap();
    apply(&mut job, &facts);
    assert_eq!((job.state, job.ended), (JobState::Exit, Some(WallTime(3))));
}

/// A second of being ready shows that something works, unless a probe told at once.
#[test]
fn what_worked_is_told_by_a_probe_or_by_time() {
    let ready = |start| JobFact::Ready {
        job: JobId::single(7),
        run: 1,
        start,
    };
    let restarting = |start| JobFact::Restarting {
        job: JobId::single(7),
        run: 1,
        start,
        exit: Exit::of(Cause::Exited),
        stderr: String::new(),
    };
    // Times at which it becomes ready and fails; then whether it has worked without and with a
    // probe, at 10 s, and the longest time that it was ready.
    type Row = (&'static [(u64, u64)], (bool, bool), u64);
    let rows: [Row; 5] = [
        (&[], (false, false), 0),
        (
            &[(0, 10), (1_000, 1_010), (2_000, 2_999)],
            (false, true),
            999,
        ),
        (&[(0, 1_000), (2_000, 2_010)], (true, true), 1_000),
        (&[(0, 10), (9_000, u64::MAX)], (true, true), 10),
        (&[(0, 10), (9_001, u64::MAX)], (false, true), 10),
    ];
    for (times, expected, longest) in rows {
        let mut worked = Vec::new();
        for probed in [false, true] {
            let mut job = pending(false);
            if probed {
                let probe = Probe {
                    action: ProbeAction::Exec {
                        command: vec!["true".to_owned()],
                    },
                    initial_delay: Millis(0),
                    period: Millis(1),
                    timeout: Millis(1),
                    success_threshold: 1,
                    failure_threshold: 1,
                };
                Arc::make_mut(&mut job.spec).template.probes.startup = Some(Box::new(probe));
            }
            place(&mut job, "w1");
            hear(&mut job, "w1", &report(1, 1, Happened::Started { pid: 3 }));
            for (from, to) in times {
                job.apply(&ready(job.start), ClusterTime(*from), 9);
                if *to < u64::MAX {
                    job.apply(&restarting(job.start), ClusterTime(*to), 9);
                }
                job.check().unwrap();
            }
            assert_eq!(job.ready_longest, Millis(longest), "{times:?}");
            worked.push(job.has_worked(ClusterTime(10_000)));
            // The end does not change it, the next run does.
            hear(&mut job, "w1", &report(1, 1, ended(Cause::Exited, Some(1))));
            let facts = decide_command(&job, Command::Requeue, ClusterTime(9), WallTime(3));
            apply(&mut job, &facts.unwrap());
            place(&mut job, "w1");
            assert!(!job.has_worked(ClusterTime(10_000)));
            assert_eq!(job.ready_longest, Millis(0));
        }
        assert_eq!((worked[0], worked[1]), expected, "{times:?}");
    }
}

/// A run that is running, of which a worker then says something.
fn told(what: &[Happened]) -> JobRecord {
    let mut job = pending(false);
    place(&mut job, "w1");
    hear(&mut job, "w1", &report(1, 1, Happened::Started { pid: 1 }));
    for what in what {
        hear(&mut job, "w1", &report(1, 1, what.clone()));
    }
    job
}

#[test]
fn a_wish_to_restart_is_kept_once_and_taken_back() {
    let wanted = |wish| Happened::RestartWanted {
        wish,
        text: "refused".into(),
    };
    let job = told(&[wanted(1)]);
    assert!(job.has_wish(1) && !job.has_wish(2));
    let again = report(1, 1, wanted(1));
    let verdict = decide_report(Some(&job), "w1", &again, ClusterTime(9));
    assert_eq!(verdict, Verdict::Facts(Vec::new()), "a level");
    let mut job = told(&[wanted(1), wanted(2)]);
    assert!(job.has_wish(2));
    let granted = JobFact::RestartGranted {
        job: job.id,
        run: 1,
        start: 1,
        wish: 2,
    };
    job.apply(&granted, ClusterTime(10), 10);
    assert_eq!(job.open_permit().map(|permit| permit.wish), Some(2));
    let alive = told(&[wanted(1), Happened::RestartUnwanted]);
    assert_eq!((alive.restart_wish, alive.restart_permit), (None, None));
    // The start ended: the permission is in use until the next one is ready.
    let restarting = Happened::Restarting {
        exit: Exit::of(Cause::TermLiveness),
        stderr: String::new(),
    };
    hear(&mut job, "w1", &report(1, 1, restarting));
    assert_eq!((job.open_permit(), &job.restart_wish), (None, &None));
    hear(&mut job, "w1", &report(1, 2, Happened::Started { pid: 2 }));
    assert!(
        job.restart_permit
            .is_some_and(|permit| permit.began.is_some())
    );
    hear(&mut job, "w1", &report(1, 2, Happened::Ready));
    assert_eq!(job.restart_permit, None);
}

#[test]
fn what_gives_trouble_is_said() {
    let cannot = |count: u64, text: &str| Happened::ProbeUnrunnable {
        role: ProbeRole::Readiness,
        count,
        text: text.to_owned(),
    };
    let job = told(&[cannot(1, "no such program"), cannot(2, "no such program")]);
    let said = "readiness probe could not be run, 2 times so far: no such program";
    assert_eq!(job.trouble().as_deref(), Some(said));
    assert!(!job.is_ready());
    let well = told(&[cannot(2, "no such program"), cannot(2, "")]);
    assert_eq!((well.trouble(), well.unrunnable.len()), (None, 1));
    let mut job = told(&[cannot(1, "x")]);
    let text = "7 (dd) in state D, since 01:02:03 UTC".to_owned();
    hear(&mut job, "w1", &report(1, 1, Happened::StopHangs { text }));
    let said = "was killed and does not die: 7 (dd) in state D, since 01:02:03 UTC";
    assert_eq!(job.trouble().as_deref(), Some(said));
}

fn any_happened() -> impl Strategy<Value = Happened> {
    let exit = || Exit {
        code: Some(1),
        signal: None,
        cause: Cause::Exited,
        detail: String::new(),
    };
    prop_oneof![
        Just(Happened::Started { pid: 5 }),
        Just(Happened::Ready),
        Just(Happened::NotReady {
            text: "refused".into()
        }),
        Just(Happened::Restarting {
            exit: exit(),
            stderr: String::new()
        }),
        Just(Happened::Ended {
            exit: exit(),
            stderr: String::new()
        }),
        Just(Happened::LaunchFailed { text: "no".into() }),
        Just(Happened::Suspended),
        Just(Happened::Resumed),
        (0..3u64, any::<bool>()).prop_map(|(count, well)| Happened::ProbeUnrunnable {
            role: ProbeRole::Liveness,
            count,
            text: if well { String::new() } else { "none".into() },
        }),
        (1..3u32).prop_map(|wish| Happened::RestartWanted {
            wish,
            text: "refused".into()
        }),
        Just(Happened::RestartUnwanted),
        Just(Happened::StopHangs { text: "7".into() }),
    ]
}

#[derive(Debug, Clone)]
enum Step {
    Place,
    Hear(u32, u32, Happened),
    Command(Command),
    LoseHost,
}

fn any_step() -> impl Strategy<Value = Step> {
    let command = prop_oneof![
        Just(Command::Kill(Cause::TermOwner)),
        Just(Command::Hold),
        Just(Command::Release),
        Just(Command::Requeue),
        Just(Command::Suspend),
        Just(Command::Resume),
    ];
    prop_oneof![
        2 => Just(Step::Place),
        5 => (0u32..4, 0u32..3, any_happened()).prop_map(|(run, start, what)| Step::Hear(run, start, what)),
        2 => command.prop_map(Step::Command),
        1 => Just(Step::LoseHost),
    ]
}

proptest! {
    /// Whatever happens in whatever order: invariants hold, runs only rise, and an ended job stays
    /// ended until somebody asks for another run.
    #[test]
    fn random_histories_keep_the_invariants(rerunnable: bool, steps in prop::collection::vec(any_step(), 0..60)) {
        let mut job = pending(rerunnable);
        for step in steps {
            let before = job.clone();
            let requeued = matches!(step, Step::Command(Command::Requeue));
            match step {
                Step::Place if job.state == JobState::Pend => place(&mut job, "w1"),
                Step::Place => {}
                Step::Hear(run, start, what) => {
                    hear(&mut job, "w1", &report(run, start, what));
                }
                Step::Command(command) => {
                    if let Ok(facts) = decide_command(&job, command, ClusterTime(1), WallTime(1)) {
                        apply(&mut job, &facts);
                    }
                }
                Step::LoseHost if job.state.holds_host() => {
                    let fact = decide_host_lost(&job, "host w1 is lost", ClusterTime(1), WallTime(1));
                    apply(&mut job, &[fact]);
                }
                Step::LoseHost => {}
            }
            prop_assert!(job.run >= before.run && job.run <= before.run + 1);
            if before.state.is_terminal() && !requeued {
                prop_assert_eq!(job.state, before.state);
            }
        }
    }
}
