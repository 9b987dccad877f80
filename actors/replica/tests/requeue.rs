//! `jobs requeue`, and the deadline of a drained host.

use xce_model::{Cause, ClusterTime, Exit, JobState, ServiceId, WallTime};

use super::{apply, ended, hear, pending, place, report};
use crate::facts::{AfterStop, JobFact, ServiceRef};
use crate::rules::{Command, decide_command, decide_drained};
use crate::state::{JobRecord, PAST_RUNS_MAX};
use crate::wire::Happened;

fn requeue(job: &JobRecord) -> Result<Vec<JobFact>, String> {
    decide_command(job, Command::Requeue, ClusterTime(50), WallTime(60))
        .map_err(|refusal| format!("{}: {}", refusal.code, refusal.text))
}

fn replica() -> JobRecord {
    let mut job = pending(false);
    job.service = Some(ServiceRef {
        service: ServiceId(3),
        version: 1,
        index: 0,
    });
    job
}

fn running(mut job: JobRecord) -> JobRecord {
    place(&mut job, "w1");
    let run = job.run;
    assert!(hear(
        &mut job,
        "w1",
        &report(run, 1, Happened::Started { pid: 42 })
    ));
    job
}

#[test]
fn every_state_of_a_batch_job_has_its_answer() {
    let mut job = running(pending(false));
    let facts = requeue(&job).unwrap();
    assert!(matches!(
        facts[..],
        [JobFact::StopRequested {
            cause: Cause::TermRequeue,
            then: AfterStop::Requeue,
            run: 1,
            ..
        }]
    ));
    apply(&mut job, &facts);
    assert_eq!(requeue(&job), Ok(Vec::new()), "it is under way");
    let resources = job.spec.template.resources;
    hear(
        &mut job,
        "w1",
        &report(1, 1, ended(Cause::TermRequeue, None)),
    );
    assert_eq!(
        (job.state, job.run, job.host.as_deref()),
        (JobState::Pend, 1, Some("w1"))
    );
    assert_eq!(job.spec.template.resources, resources);
    assert_eq!(requeue(&job), Ok(Vec::new()), "it waits already");
    // The kept run, and the next one.
    assert_eq!((job.past[0].run, job.past[0].ended), (1, WallTime(5)));
    assert_eq!(job.past[0].exit.cause, Cause::TermRequeue);
    let mut job = running(job);
    assert_eq!(job.run, 2);
    // One that ended well runs again too; how it ended is kept.
    hear(&mut job, "w1", &report(2, 1, ended(Cause::Exited, Some(0))));
    assert_eq!(job.state, JobState::Done);
    let facts = requeue(&job).unwrap();
    apply(&mut job, &facts);
    let past: Vec<_> = job
        .past
        .iter()
        .map(|run| (run.run, run.exit.code))
        .collect();
    assert_eq!(
        (job.state, past),
        (JobState::Pend, vec![(1, None), (2, Some(0))])
    );
    // One that was killed while it is being stopped comes back after all.
    let mut job = running(job);
    let kill = decide_command(
        &job,
        Command::Kill(Cause::TermOwner),
        ClusterTime(1),
        WallTime(1),
    );
    apply(&mut job, &kill.unwrap());
    let facts = requeue(&job).unwrap();
    apply(&mut job, &facts);
    assert_eq!(job.stop.map(|stop| stop.then), Some(AfterStop::Requeue));
    // A held one is refused.
    let mut held = pending(false);
    held.state = JobState::Held;
    assert!(requeue(&held).unwrap_err().contains("release it"));
}

#[test]
fn one_that_never_ran_runs_again_without_a_past() {
    let mut job = pending(false);
    let kill = decide_command(
        &job,
        Command::Kill(Cause::TermOwner),
        ClusterTime(1),
        WallTime(1),
    );
    apply(&mut job, &kill.unwrap());
    let facts = requeue(&job).unwrap();
    apply(&mut job, &facts);
    assert_eq!((job.state, job.run, job.past.len()), (JobState::Pend, 0, 0));
    assert_eq!(running(job).run, 1);
}

#[test]
fn what_is_remembered_of_runs_is_bounded() {
    let mut job = pending(false);
    for _ in 0..PAST_RUNS_MAX + 5 {
        job = running(job);
        let run = job.run;
        hear(
            &mut job,
            "w1",
            &report(run, 1, ended(Cause::Exited, Some(1))),
        );
        let facts = requeue(&job).unwrap();
        apply(&mut job, &facts);
    }
    let runs: Vec<u32> = job.past.iter().map(|run| run.run).collect();
    assert_eq!(runs, (6..16).collect::<Vec<u32>>());
}

#[test]
fn a_replica_that_its_service_ends_does_not_come_back() {
    for cause in [
        Cause::TermScaleDown,
        Cause::TermUpdate,
        Cause::TermDrain,
        Cause::TermOwner,
    ] {
        let mut job = running(replica());
        let kill = decide_command(&job, Command::Kill(cause), ClusterTime(1), WallTime(1));
        apply(&mut job, &kill.unwrap());
        let refused = requeue(&job).unwrap_err();
        assert!(
            refused.contains("is being stopped, and its service decides"),
            "{refused}"
        );
        hear(&mut job, "w1", &report(1, 1, ended(cause, None)));
        let refused = requeue(&job).unwrap_err();
        assert!(refused.contains("has ended"), "{refused}");
    }
    // One that goes on runs again; the service may still end it.
    let mut job = running(replica());
    let facts = requeue(&job).unwrap();
    apply(&mut job, &facts);
    let kill = decide_command(
        &job,
        Command::Kill(Cause::TermUpdate),
        ClusterTime(1),
        WallTime(1),
    );
    apply(&mut job, &kill.unwrap());
    hear(
        &mut job,
        "w1",
        &report(1, 1, ended(Cause::TermUpdate, None)),
    );
    assert_eq!(job.state, JobState::Exit);
}

#[test]
fn a_replica_that_is_moved_is_not_requeued_and_ends_with_a_failed_launch() {
    let mut job = replica();
    place(&mut job, "w1");
    let moved = JobFact::MoveBegan {
        job: job.id,
        run: 1,
    };
    apply(&mut job, &[moved]);
    let refused = requeue(&job).unwrap_err();
    assert!(refused.contains("is moved off its host"), "{refused}");
    let text = "no such user".to_owned();
    hear(
        &mut job,
        "w1",
        &report(1, 0, Happened::LaunchFailed { text }),
    );
    let cause = job.exit.as_ref().map(|exit: &Exit| exit.cause);
    assert_eq!((job.state, cause), (JobState::Exit, Some(Cause::TermDrain)));
}

#[test]
fn at_the_deadline_of_a_drain_batch_jobs_run_again_where_they_may() {
    for (rerunnable, then) in [(true, AfterStop::Requeue), (false, AfterStop::End)] {
        let mut job = pending(rerunnable);
        assert_eq!(decide_drained(&job), None, "it holds no host");
        place(&mut job, "w1");
        let starting = decide_drained(&job).expect("it is stopped");
        let mut job = running(pending(rerunnable));
        let fact = decide_drained(&job).expect("it is stopped");
        assert_eq!(fact, starting);
        let JobFact::StopRequested {
            cause, then: what, ..
        } = fact
        else {
            panic!("{fact:?}");
        };
        assert_eq!((cause, what), (Cause::TermDrain, then));
        apply(&mut job, &[fact]);
        assert_eq!(decide_drained(&job), None, "once");
        hear(&mut job, "w1", &report(1, 1, ended(Cause::TermDrain, None)));
        let state = if rerunnable {
            JobState::Pend
        } else {
            JobState::Exit
        };
        assert_eq!(job.state, state);
    }
    assert_eq!(
        decide_drained(&running(replica())),
        None,
        "its service moves it"
    );
}
