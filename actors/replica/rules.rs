//! Decisions about one job: commands of users, reports of workers, losses of hosts.
//!
//! Never reads a clock. A report of another run than the job's current one changes nothing.

mod lost;

use lost::host_ended_it;
pub use lost::{decide_confirmed_dead, decide_host_lost, decide_without_worker};

use xce_model::{Cause, ClusterTime, Exit, JobState, Millis, Refusal, WallTime};

use crate::facts::{AfterStop, JobFact};
use crate::state::JobRecord;
use crate::wire::{Happened, Report};

/// First wait after a launch that failed by the host's fault; doubles with each host tried.
/// Source: as the first delay of a service's replacement, design section 6.5.
const LAUNCH_BACKOFF: Millis = Millis::seconds(1);
/// Longest such wait. Source: as the cap of a service's replacement, design section 6.5.
const LAUNCH_BACKOFF_MAX: Millis = Millis::seconds(300);

/// What a user may want of a job.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Stop it for good.
    Kill(Cause),
    /// Keep it from being placed.
    Hold,
    /// Let it be placed.
    Release,
    /// Stop its run if there is one, and start a new one.
    Requeue,
    /// Stop its processes for a while.
    Suspend,
    /// Let them go on.
    Resume,
    /// Its run is known to be dead, although nobody confirms it.
    ConfirmDead,
}

impl Command {
    /// The verb that users type.
    pub const fn verb(self) -> &'static str {
        match self {
            Self::Kill(_) => "kill",
            Self::Hold => "hold",
            Self::Release => "release",
            Self::Requeue => "requeue",
            Self::Suspend => "suspend",
            Self::Resume => "resume",
            Self::ConfirmDead => "confirm-dead",
        }
    }
}

/// Decides a command; no facts where the job is already as wanted.
///
/// # Errors
/// `wrong_state` where the command makes no sense in the job's state, with what is allowed.
pub fn decide_command(
    job: &JobRecord,
    command: Command,
    now: ClusterTime,
    wall: WallTime,
) -> Result<Vec<JobFact>, Refusal> {
    match command {
        Command::Kill(cause) => Ok(kill(job, cause, wall)),
        Command::Hold => hold(job),
        Command::Release => release(job),
        Command::Requeue => requeue(job, now, wall),
        Command::ConfirmDead => decide_confirmed_dead(job, true, now, wall),
        // The processes are the worker's: the order is an effect, its report the fact.
        Command::Suspend => match job.state {
            JobState::Run | JobState::Susp => Ok(Vec::new()),
            JobState::Pend
            | JobState::Held
            | JobState::Start
            | JobState::Stopping
            | JobState::Done
            | JobState::Exit => Err(wrong_state(job, command, "a running job")),
        },
        Command::Resume => match job.state {
            JobState::Run | JobState::Susp => Ok(Vec::new()),
            JobState::Pend
            | JobState::Held
            | JobState::Start
            | JobState::Stopping
            | JobState::Done
            | JobState::Exit => Err(wrong_state(job, command, "a suspended job")),
        },
    }
}

fn wrong_state(job: &JobRecord, command: Command, allowed: &str) -> Refusal {
    let text = format!(
        "cannot {} job {}: it is {}, needed is {allowed}",
        command.verb(),
        job.id,
        job.state
    );
    Refusal::refused("wrong_state", text)
}

fn kill(job: &JobRecord, cause: Cause, wall: WallTime) -> Vec<JobFact> {
    match job.state {
        JobState::Pend | JobState::Held => vec![JobFact::Ended {
            job: job.id,
            run: job.run,
            exit: Exit::of(cause),
            at: wall,
            stderr: String::new(),
        }],
        JobState::Start | JobState::Run | JobState::Susp => vec![stop(job, cause, AfterStop::End)],
        // A kill wins over a requeue that is under way.
        JobState::Stopping if job.stop.is_some_and(|stop| stop.then != AfterStop::End) => {
            vec![stop(job, cause, AfterStop::End)]
        }
        JobState::Stopping | JobState::Done | JobState::Exit => Vec::new(),
    }
}

fn stop(job: &JobRecord, cause: Cause, then: AfterStop) -> JobFact {
    JobFact::StopRequested {
        job: job.id,
        run: job.run,
        cause,
        then,
    }
}

fn hold(job: &JobRecord) -> Result<Vec<JobFact>, Refusal> {
    match job.state {
        JobState::Pend => Ok(vec![JobFact::Held { job: job.id }]),
        JobState::Held => Ok(Vec::new()),
        JobState::Start
        | JobState::Run
        | JobState::Susp
        | JobState::Stopping
        | JobState::Done
        | JobState::Exit => Err(wrong_state(job, Command::Hold, "a pending job")),
    }
}

fn release(job: &JobRecord) -> Result<Vec<JobFact>, Refusal> {
    match job.state {
        JobState::Held => Ok(vec![JobFact::Released { job: job.id }]),
        JobState::Pend => Ok(Vec::new()),
        JobState::Start
        | JobState::Run
        | JobState::Susp
        | JobState::Stopping
        | JobState::Done
        | JobState::Exit => Err(wrong_state(job, Command::Release, "a held job")),
    }
}

/// Stops the run if there is one, and lets the next one follow; also of a job that has ended. What its
/// service ends or has ended stays so: the service decides how many there are.
fn requeue(job: &JobRecord, now: ClusterTime, wall: WallTime) -> Result<Vec<JobFact>, Refusal> {
    let ends = job.stop.is_some_and(|stop| stop.then == AfterStop::End);
    if job.service.is_some() && (ends || job.moving || job.state.is_terminal()) {
        let what = match (ends, job.moving) {
            (true, _) => "is being stopped",
            (false, true) => "is moved off its host",
            (false, false) => "has ended",
        };
        let text = format!(
            "cannot requeue job {}: it is a replica that {what}, and its service decides whether \
             another takes its place",
            job.id
        );
        return Err(Refusal::refused("wrong_state", text));
    }
    let facts = match job.state {
        JobState::Held => {
            return Err(wrong_state(
                job,
                Command::Requeue,
                "one that is not held: release it",
            ));
        }
        JobState::Pend => Vec::new(),
        JobState::Start | JobState::Run | JobState::Susp => {
            vec![stop(job, Cause::TermRequeue, AfterStop::Requeue)]
        }
        JobState::Stopping => match job.stop {
            Some(request) if request.then == AfterStop::End => {
                vec![stop(job, request.cause, AfterStop::Requeue)]
            }
            Some(_) | None => Vec::new(),
        },
        JobState::Done | JobState::Exit => {
            let exit = job.exit.clone().unwrap_or_else(|| Exit::of(Cause::Exited));
            let at = job.ended.unwrap_or(wall);
            vec![again(job, (exit, at), now, None, false)]
        }
    };
    Ok(facts)
}

fn again(
    job: &JobRecord,
    (exit, at): (Exit, WallTime),
    not_before: ClusterTime,
    avoid: Option<String>,
    held: bool,
) -> JobFact {
    JobFact::Requeued {
        job: job.id,
        run: job.run,
        exit,
        not_before,
        avoid,
        held,
        at,
    }
}

/// Decides what becomes of a batch job on a host that is drained, when the deadline has passed: it runs
/// again elsewhere where it may, and else it ends. A replica is its service's to move.
pub fn decide_drained(job: &JobRecord) -> Option<JobFact> {
    let then = match job.spec.rerunnable {
        true => AfterStop::Requeue,
        false => AfterStop::End,
    };
    let runs = matches!(job.state, JobState::Start | JobState::Run | JobState::Susp);
    (runs && job.service.is_none()).then(|| stop(job, Cause::TermDrain, then))
}

/// What a worker's report means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Facts of the job; none where the report says what is known already.
    Facts(Vec<JobFact>),
    /// The report is of a run that is not the job's current one on that host: acknowledged, counted
    /// and dropped.
    Stale,
}

/// Decides a report that `host` sent about `job`; an unknown job is always stale.
pub fn decide_report(
    job: Option<&JobRecord>,
    host: &str,
    report: &Report,
    now: ClusterTime,
) -> Verdict {
    let Some(job) = job else {
        return Verdict::Stale;
    };
    let current =
        job.run == report.run.run && job.state.holds_host() && job.host.as_deref() == Some(host);
    if !current || report.start < job.start {
        return Verdict::Stale;
    }
    let (id, run, start) = (job.id, job.run, report.start);
    let running = job.state == JobState::Run && start == job.start;
    let facts = match &report.what {
        Happened::Started { pid } if start > job.start => {
            vec![JobFact::Started {
                job: id,
                run,
                start,
                pid: *pid,
                at: report.at,
            }]
        }
        Happened::Started { .. } => Vec::new(),
        Happened::Ready if running && job.ready_since.is_none() => {
            vec![JobFact::Ready {
                job: id,
                run,
                start,
            }]
        }
        Happened::Ready => Vec::new(),
        Happened::NotReady { text } if running && *text != job.probe_text => {
            vec![JobFact::NotReady {
                job: id,
                run,
                start,
                text: text.clone(),
            }]
        }
        Happened::NotReady { .. } => Vec::new(),
        // Sent again in a new epoch of the spool, when its commit was not heard of any more.
        Happened::Restarting { .. } if start == job.start && job.running_since.is_none() => {
            Vec::new()
        }
        Happened::Restarting { exit, stderr } => vec![JobFact::Restarting {
            job: id,
            run,
            start,
            exit: exit.clone(),
            stderr: stderr.clone(),
        }],
        Happened::Ended { exit, stderr } => vec![ended(job, exit, stderr, report.at, now)],
        Happened::LaunchFailed { text } => vec![launch_failed(job, host, text, report.at, now)],
        Happened::Suspended if job.state == JobState::Run => {
            vec![JobFact::Suspended { job: id, run }]
        }
        Happened::Resumed if job.state == JobState::Susp => vec![JobFact::Resumed { job: id, run }],
        Happened::Suspended | Happened::Resumed => Vec::new(),
        Happened::ProbeUnrunnable { .. }
        | Happened::RestartWanted { .. }
        | Happened::RestartUnwanted
        | Happened::StopHangs { .. } => trouble(job, report),
    };
    Verdict::Facts(facts)
}

/// What a probe or a stop that gives trouble means.
fn trouble(job: &JobRecord, report: &Report) -> Vec<JobFact> {
    let (id, run, start) = (job.id, job.run, report.start);
    let same_start = start == job.start;
    let running = job.state == JobState::Run && same_start;
    let fact = match &report.what {
        Happened::ProbeUnrunnable { role, count, text } if running => JobFact::ProbeUnrunnable {
            job: id,
            run,
            start,
            role: *role,
            count: *count,
            text: text.clone(),
        },
        Happened::RestartWanted { wish, text } if running && !job.has_wish(*wish) => {
            JobFact::RestartWanted {
                job: id,
                run,
                start,
                wish: *wish,
                text: text.clone(),
            }
        }
        Happened::RestartUnwanted if same_start && job.restart_wish.is_some() => {
            JobFact::RestartUnwanted {
                job: id,
                run,
                start,
            }
        }
        Happened::StopHangs { text } if *text != job.hanging => JobFact::StopHangs {
            job: id,
            run,
            start,
            text: text.clone(),
        },
        Happened::ProbeUnrunnable { .. }
        | Happened::RestartWanted { .. }
        | Happened::RestartUnwanted
        | Happened::StopHangs { .. }
        | Happened::Started { .. }
        | Happened::Ready
        | Happened::NotReady { .. }
        | Happened::Restarting { .. }
        | Happened::Ended { .. }
        | Happened::LaunchFailed { .. }
        | Happened::Suspended
        | Happened::Resumed => return Vec::new(),
    };
    vec![fact]
}

/// An end while a stop is under way is the stop's doing, also where the process was quicker than the
/// signal: for a replica, whose service counts failures. A batch job keeps what it said itself.
fn attributed(job: &JobRecord, exit: &Exit) -> Exit {
    match job.stop {
        Some(stop) if job.service.is_some() && exit.cause == Cause::Exited => Exit {
            cause: stop.cause,
            ..exit.clone()
        },
        Some(_) | None => exit.clone(),
    }
}

fn ended(job: &JobRecord, exit: &Exit, stderr: &str, at: WallTime, now: ClusterTime) -> JobFact {
    let exit = &attributed(job, exit);
    let end = || JobFact::Ended {
        job: job.id,
        run: job.run,
        exit: exit.clone(),
        at,
        stderr: stderr.to_owned(),
    };
    match job.stop.map(|stop| stop.then) {
        Some(AfterStop::Requeue) => again(job, (exit.clone(), at), now, None, false),
        Some(AfterStop::Hold) => again(job, (exit.clone(), at), now, None, true),
        Some(AfterStop::End) => end(),
        None if job.spec.rerunnable && ends_its_shims(job, exit.cause) => {
            let mut exit = exit.clone();
            exit.detail = format!(
                "its shim ended before it in {SHIMS_LOST_MAX} runs, so that it does not run again"
            );
            JobFact::Ended {
                job: job.id,
                run: job.run,
                exit,
                at,
                stderr: stderr.to_owned(),
            }
        }
        None if host_ended_it(exit.cause) && job.spec.rerunnable => {
            again(job, (exit.clone(), at), now, None, false)
        }
        None => end(),
    }
}

/// Runs whose shim ended before the job, after which the job is to blame.
/// Source: as the failed launches that close a host, design section 7.4.
pub const SHIMS_LOST_MAX: u32 = 3;

/// Whether a job ends the shims that carry it, again and again.
const fn ends_its_shims(job: &JobRecord, cause: Cause) -> bool {
    matches!(cause, Cause::ShimLost) && job.shims_lost + 1 >= SHIMS_LOST_MAX
}

/// A launch that fails by the host's fault is never the job's: it goes back and avoids the host.
fn launch_failed(
    job: &JobRecord,
    host: &str,
    text: &str,
    at: WallTime,
    now: ClusterTime,
) -> JobFact {
    let exit = Exit {
        code: None,
        signal: None,
        cause: Cause::HostLaunchFailed,
        detail: format!("{host}: {text}"),
    };
    // Another one has the index of a replica that is moved: it does not come back.
    let then = job.stop.map(|stop| stop.then);
    let (then, exit) = match job.moving {
        true => (
            Some(AfterStop::End),
            Exit {
                cause: Cause::TermDrain,
                ..exit
            },
        ),
        false => (then, exit),
    };
    match then {
        Some(AfterStop::End) => JobFact::Ended {
            job: job.id,
            run: job.run,
            exit,
            at,
            stderr: String::new(),
        },
        then @ (Some(AfterStop::Requeue | AfterStop::Hold) | None) => {
            let doublings = u32::try_from(job.avoid.len()).unwrap_or(u32::MAX).min(16);
            let wait = LAUNCH_BACKOFF
                .0
                .saturating_mul(1 << doublings)
                .min(LAUNCH_BACKOFF_MAX.0);
            let held = then == Some(AfterStop::Hold);
            again(
                job,
                (exit, at),
                now.after(Millis(wait)),
                Some(host.to_owned()),
                held,
            )
        }
    }
}
