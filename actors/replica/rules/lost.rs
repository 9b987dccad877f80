//! Runs whose end no worker confirms: their host is lost, or an operator knows that they are dead.

use xce_model::{Cause, ClusterTime, Exit, JobState, Refusal, WallTime};

use super::{Command, again, ended, wrong_state};
use crate::facts::{AfterStop, JobFact};
use crate::state::JobRecord;

/// Decides what becomes of a job that leaves its host without its worker's word, and why, in a
/// sentence.
///
/// A batch job runs again where it may, else it ends; a replica ends, and its service replaces it.
pub fn decide_host_lost(job: &JobRecord, why: &str, now: ClusterTime, wall: WallTime) -> JobFact {
    let exit = Exit {
        detail: why.to_owned(),
        ..Exit::of(Cause::HostLost)
    };
    ended(job, &exit, "", wall, now)
}

/// Decides what a stop means for a job whose host is lost: nobody there confirms it, so that it is at
/// once what comes after it.
pub fn decide_without_worker(
    job: &JobRecord,
    fact: JobFact,
    now: ClusterTime,
    wall: WallTime,
) -> JobFact {
    let JobFact::StopRequested { cause, then, .. } = &fact else {
        return fact;
    };
    let exit = Exit {
        detail: format!("host {} is lost", job.host.as_deref().unwrap_or_default()),
        ..Exit::of(*cause)
    };
    match then {
        AfterStop::End => JobFact::Ended {
            job: job.id,
            run: job.run,
            exit,
            at: wall,
            stderr: String::new(),
        },
        AfterStop::Requeue => again(job, (exit, wall), now, None, false),
        AfterStop::Hold => again(job, (exit, wall), now, None, true),
    }
}

/// Decides what it means that an operator knows a run to be dead.
///
/// # Errors
/// `wrong_state` where the job holds no host, or its host answers and was not told to stop it.
pub fn decide_confirmed_dead(
    job: &JobRecord,
    host_answers: bool,
    now: ClusterTime,
    wall: WallTime,
) -> Result<Vec<JobFact>, Refusal> {
    let command = Command::ConfirmDead;
    if !job.state.holds_host() {
        return Err(wrong_state(job, command, "one that holds a host"));
    }
    if host_answers && job.state != JobState::Stopping {
        let text = format!(
            "cannot {} job {}: its host {} answers; kill the job, and confirm its death only where \
             that cannot end it",
            command.verb(),
            job.id,
            job.host.as_deref().unwrap_or_default()
        );
        return Err(Refusal::refused("wrong_state", text));
    }
    let why = "an operator knows that it is dead";
    Ok(vec![decide_host_lost(job, why, now, wall)])
}

/// Ends that are no doing of the job: one that may run again does.
pub(super) fn host_ended_it(cause: Cause) -> bool {
    match cause {
        Cause::HostLost
        | Cause::HostRebooted
        | Cause::ShimLost
        | Cause::RunLost
        | Cause::TermDrain
        | Cause::TermShutdown => true,
        Cause::Exited
        | Cause::TermRunlimit
        | Cause::TermMemlimit
        | Cause::TermOwner
        | Cause::TermAdmin
        | Cause::TermRequeue
        | Cause::TermScaleDown
        | Cause::TermUpdate
        | Cause::TermServiceDeleted
        | Cause::TermLiveness
        | Cause::TermStale
        | Cause::LaunchFailed
        | Cause::HostLaunchFailed
        | Cause::GaveUp => false,
    }
}
