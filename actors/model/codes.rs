//! States, causes and refusals: the words in which XCE gives its reasons.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where a job is in its life.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    Serialize,
    Deserialize,
)]
#[serde(rename_all = "UPPERCASE")]
pub enum JobState {
    /// Waits for resources, a delay or a limit.
    Pend,
    /// Waits until somebody releases it.
    Held,
    /// Given to a host whose worker has not yet confirmed the start.
    Start,
    /// Runs.
    Run,
    /// Runs no more for now: suspended.
    Susp,
    /// Told to stop; its end is not confirmed.
    Stopping,
    /// Ended well.
    Done,
    /// Ended otherwise.
    Exit,
}

impl JobState {
    /// Whether nothing will happen to the job any more.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Done | Self::Exit)
    }

    /// Whether the job holds resources of a host.
    pub const fn holds_host(self) -> bool {
        matches!(self, Self::Start | Self::Run | Self::Susp | Self::Stopping)
    }

    /// The word that users see.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pend => "PEND",
            Self::Held => "HELD",
            Self::Start => "START",
            Self::Run => "RUN",
            Self::Susp => "SUSP",
            Self::Stopping => "STOPPING",
            Self::Done => "DONE",
            Self::Exit => "EXIT",
        }
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// Why a run ended or is being stopped.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    Serialize,
    Deserialize,
)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Cause {
    /// The process ended by itself.
    Exited,
    /// Ran longer than its run limit.
    TermRunlimit,
    /// Used more memory than its limit.
    TermMemlimit,
    /// Its owner killed it.
    TermOwner,
    /// An administrator killed it.
    TermAdmin,
    /// Stopped to be run again.
    TermRequeue,
    /// Its service was scaled down.
    TermScaleDown,
    /// Its service moved to another version.
    TermUpdate,
    /// Its service was deleted.
    TermServiceDeleted,
    /// Its liveness probe failed.
    TermLiveness,
    /// Its host was drained.
    TermDrain,
    /// Its worker was shut down with its jobs.
    TermShutdown,
    /// This run is not the job's current run.
    TermStale,
    /// Its host was lost.
    HostLost,
    /// Its host restarted.
    HostRebooted,
    /// The process that guarded it died.
    ShimLost,
    /// Its worker no longer knows the run.
    RunLost,
    /// The command could not be started: the job's own fault.
    LaunchFailed,
    /// The host could not start it: not the job's fault.
    HostLaunchFailed,
    /// Its restarts in place are used up.
    GaveUp,
}

impl Cause {
    /// The code in machine output.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Exited => "EXITED",
            Self::TermRunlimit => "TERM_RUNLIMIT",
            Self::TermMemlimit => "TERM_MEMLIMIT",
            Self::TermOwner => "TERM_OWNER",
            Self::TermAdmin => "TERM_ADMIN",
            Self::TermRequeue => "TERM_REQUEUE",
            Self::TermScaleDown => "TERM_SCALE_DOWN",
            Self::TermUpdate => "TERM_UPDATE",
            Self::TermServiceDeleted => "TERM_SERVICE_DELETED",
            Self::TermLiveness => "TERM_LIVENESS",
            Self::TermDrain => "TERM_DRAIN",
            Self::TermShutdown => "TERM_SHUTDOWN",
            Self::TermStale => "TERM_STALE",
            Self::HostLost => "HOST_LOST",
            Self::HostRebooted => "HOST_REBOOTED",
            Self::ShimLost => "SHIM_LOST",
            Self::RunLost => "RUN_LOST",
            Self::LaunchFailed => "LAUNCH_FAILED",
            Self::HostLaunchFailed => "HOST_LAUNCH_FAILED",
            Self::GaveUp => "GAVE_UP",
        }
    }

    /// The sentence that users read.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Exited => "ended by itself",
            Self::TermRunlimit => "ran longer than its run limit",
            Self::TermMemlimit => "used more memory than its limit",
            Self::TermOwner => "killed by its owner",
            Self::TermAdmin => "killed by an administrator",
            Self::TermRequeue => "stopped to be run again",
            Self::TermScaleDown => "its service was scaled down",
            Self::TermUpdate => "its service moved to another version",
            Self::TermServiceDeleted => "its service was deleted",
            Self::TermLiveness => "its liveness probe failed",
            Self::TermDrain => "its host was drained",
            Self::TermShutdown => "its worker was shut down with its jobs",
            Self::TermStale => "this run is not the job's current run",
            Self::HostLost => "its host was lost",
            Self::HostRebooted => "its host restarted",
            Self::ShimLost => "the process that guarded it died",
            Self::RunLost => "its worker no longer knows the run",
            Self::LaunchFailed => "its command could not be started",
            Self::HostLaunchFailed => "its host could not start it",
            Self::GaveUp => "its restarts are used up",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.code())
    }
}

/// How a run ended.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    Serialize,
    Deserialize,
)]
pub struct Exit {
    /// Exit code, where the process ended by itself.
    pub code: Option<i32>,
    /// Signal, where one ended it.
    pub signal: Option<i32>,
    /// Why it ended.
    pub cause: Cause,
    /// One line more, such as the error of a failed launch; empty where there is none.
    pub detail: String,
}

impl Exit {
    /// An end that no process reported.
    pub fn of(cause: Cause) -> Self {
        Self {
            code: None,
            signal: None,
            cause,
            detail: String::new(),
        }
    }

    /// Whether the job counts as done.
    pub const fn is_success(&self) -> bool {
        matches!((self.code, self.cause), (Some(0), Cause::Exited))
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exit code {code}")?,
            (None, Some(signal)) => write!(f, "signal {signal}")?,
            (None, None) => write!(f, "no exit status")?,
        }
        if self.cause != Cause::Exited {
            write!(f, ", {}", self.cause.sentence())?;
        }
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        Ok(())
    }
}

/// Kind of a refusal; decides the exit code of the command line.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    Serialize,
    Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum RefusalKind {
    /// The request is wrong, or not possible in the present state.
    Refused,
    /// The words of the request are wrong.
    Usage,
    /// What it names does not exist.
    NotFound,
    /// The caller may not do it.
    NotPermitted,
    /// Cannot be answered now; the same request later may succeed.
    Unavailable,
    /// Nobody knows whether it happened; the same operation again is safe.
    OutcomeUnknown,
}

impl RefusalKind {
    /// Exit code of the command line. Source: design section 13.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Refused => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::NotPermitted => 4,
            Self::Unavailable | Self::OutcomeUnknown => 5,
        }
    }
}

/// A request that is not carried out: nothing was written, nothing changed.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    thiserror::Error,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    Serialize,
    Deserialize,
)]
#[error("{text}")]
pub struct Refusal {
    /// Kind, for exit codes and retries.
    pub kind: RefusalKind,
    /// Stable word for machines, such as `name_in_use`.
    pub code: String,
    /// One sentence that names what was wrong and what is allowed.
    pub text: String,
}

impl Refusal {
    /// A refusal of the given kind.
    pub fn new(kind: RefusalKind, code: &str, text: impl Into<String>) -> Self {
        Self {
            kind,
            code: code.to_owned(),
            text: text.into(),
        }
    }

    /// A request that is wrong or not possible now.
    pub fn refused(code: &str, text: impl Into<String>) -> Self {
        Self::new(RefusalKind::Refused, code, text)
    }

    /// Something that does not exist.
    pub fn not_found(what: &str, name: impl fmt::Display) -> Self {
        Self::new(
            RefusalKind::NotFound,
            "not_found",
            format!("there is no {what} `{name}`"),
        )
    }
}
