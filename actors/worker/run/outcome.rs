//! What a shim's exit record means for the run.

use xce_model::{Cause, Exit, Start};
use xce_shim::{ExitRecord, JobFaultKind, LaunchFailure, Outcome};

use crate::run_core::Input;

/// Exit code of a command that was not found, and of one that cannot be executed.
///
/// Source: POSIX, the shell's exit status.
pub const CODE_NOT_FOUND: i32 = 127;
/// See [`CODE_NOT_FOUND`].
pub const CODE_NOT_EXECUTABLE: i32 = 126;

/// What a run is told of the end of a start.
pub fn input_of(start: Start, record: &ExitRecord) -> Input {
    let cause = record.cause.as_ref().map(|cause| cause_of(cause.as_str()));
    let (code, signal) = match &record.outcome {
        Outcome::Code(code) => (Some(*code), None),
        Outcome::Signal(signal) => (None, Some(*signal)),
        Outcome::NotLaunched(LaunchFailure::Host(fault)) => {
            return Input::LaunchFailed {
                start,
                text: fault.text.clone(),
            };
        }
        Outcome::NotLaunched(LaunchFailure::Job(fault)) => {
            let code = match fault.kind {
                JobFaultKind::CommandNotFound => CODE_NOT_FOUND,
                JobFaultKind::NotExecutable
                | JobFaultKind::WorkDir
                | JobFaultKind::Output
                | JobFaultKind::TooLong
                | JobFaultKind::Spec => CODE_NOT_EXECUTABLE,
            };
            let exit = launch_failed(code, &fault.text);
            return Input::Exited {
                start,
                exit,
                ran_ms: 0,
            };
        }
    };
    let (cause, detail) = match cause {
        // The kernel chose another process of the tree than the first one.
        None if record.memory_kills > 0 => (Cause::TermMemlimit, memory_detail(record)),
        Some(Ok(Cause::TermMemlimit)) => (Cause::TermMemlimit, memory_detail(record)),
        None => (Cause::Exited, String::new()),
        Some(Ok(cause)) => (cause, String::new()),
        Some(Err(text)) => (Cause::ShimLost, text),
    };
    let exit = Exit {
        code,
        signal,
        cause,
        detail,
    };
    Input::Exited {
        start,
        exit,
        ran_ms: record.run_ms,
    }
}

fn memory_detail(record: &ExitRecord) -> String {
    let kills = record.memory_kills;
    let peak = xce_model::Bytes(record.peak_memory_bytes).rounded();
    format!("{kills} of its processes were killed, it used {peak}")
}

/// The end of a job whose command could not be started.
pub fn launch_failed(code: i32, text: &str) -> Exit {
    Exit {
        code: Some(code),
        signal: None,
        cause: Cause::LaunchFailed,
        detail: text.to_owned(),
    }
}

/// Causes that a worker gives to a shim, or a shim gives by itself.
const CAUSES: [Cause; 20] = [
    Cause::Exited,
    Cause::TermRunlimit,
    Cause::TermMemlimit,
    Cause::TermOwner,
    Cause::TermAdmin,
    Cause::TermRequeue,
    Cause::TermScaleDown,
    Cause::TermUpdate,
    Cause::TermServiceDeleted,
    Cause::TermLiveness,
    Cause::TermDrain,
    Cause::TermShutdown,
    Cause::TermStale,
    Cause::HostLost,
    Cause::HostRebooted,
    Cause::ShimLost,
    Cause::RunLost,
    Cause::LaunchFailed,
    Cause::HostLaunchFailed,
    Cause::GaveUp,
];

fn cause_of(text: &str) -> Result<Cause, String> {
    if text == xce_shim::Cause::LEASE {
        return Ok(Cause::HostLost);
    }
    let known = CAUSES.into_iter().find(|cause| cause.code() == text);
    known.ok_or_else(|| format!("its shim was told to end it: {text}"))
}

/// The cause as a shim takes it.
///
/// # Panics
/// Never: codes of causes are what a shim takes, which a test holds.
pub fn shim_cause(cause: Cause) -> xce_shim::Cause {
    xce_shim::Cause::new(cause.code()).expect("codes of causes are capitals and underscores")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_survives_the_way_through_a_shim() {
        for cause in CAUSES {
            assert_eq!(cause_of(shim_cause(cause).as_str()), Ok(cause));
        }
        assert_eq!(cause_of("TERM_LEASE"), Ok(Cause::HostLost));
        assert!(cause_of("TERM_SHIM").unwrap_err().contains("TERM_SHIM"));
    }
}
