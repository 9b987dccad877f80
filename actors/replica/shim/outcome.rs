//! How a run ended, why it was ended, and, if it never ran, whose fault that is.

use serde::{Deserialize, Serialize};

/// Longest text of a launch failure in bytes.
/// Source: derived; two paths of `PATH_MAX` would not fit a message anybody reads.
pub const FAILURE_TEXT_BYTES_MAX: usize = 1_024;

/// Longest cause in bytes.
/// Source: derived; the longest cause in use has 14.
pub const CAUSE_BYTES_MAX: usize = 64;

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The first process ended with this code.
    Code(i32),
    /// A signal ended the first process.
    Signal(i32),
    /// It never ran.
    NotLaunched(LaunchFailure),
}

/// Why it never ran, and whose fault that is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaunchFailure {
    /// The job would fail on any host like this.
    Job(JobFault),
    /// Another host may run it.
    Host(HostFault),
}

/// A fault of the job, with the text to show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobFault {
    /// Which.
    pub kind: JobFaultKind,
    /// For people; at most [`FAILURE_TEXT_BYTES_MAX`].
    pub text: String,
}

/// A fault of the host, with the text to show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFault {
    /// Which.
    pub kind: HostFaultKind,
    /// For people; at most [`FAILURE_TEXT_BYTES_MAX`].
    pub text: String,
}

/// Kinds of faults of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobFaultKind {
    /// No such program; a shell would say 127.
    CommandNotFound,
    /// There, but cannot be executed; a shell would say 126.
    NotExecutable,
    /// The working directory is missing or closed to the user.
    WorkDir,
    /// An output file cannot be opened by the user.
    Output,
    /// Arguments and environment are larger than the kernel takes.
    TooLong,
    /// The spec holds something no host can run.
    Spec,
}

/// Kinds of faults of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostFaultKind {
    /// The spec is missing, corrupt, or of a newer version.
    SpecUnreadable,
    /// The run directory or its disk takes no files.
    Spool,
    /// The user is not known here.
    UserUnknown,
    /// The shim may not become that user.
    UserForbidden,
    /// The control group is required and could not be made.
    NoCgroup,
    /// No process could be made: out of processes, memory or files.
    NoProcess,
    /// Anything else the kernel refused.
    Other,
}

impl LaunchFailure {
    /// A fault of the job; the text is cut to its bound.
    pub fn job(kind: JobFaultKind, text: &str) -> Self {
        Self::Job(JobFault {
            kind,
            text: cut(text),
        })
    }

    /// A fault of the host; the text is cut to its bound.
    pub fn host(kind: HostFaultKind, text: &str) -> Self {
        Self::Host(HostFault {
            kind,
            text: cut(text),
        })
    }
}

pub(crate) fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(FAILURE_TEXT_BYTES_MAX)].to_owned()
}

/// Why a run was ended: capitals, digits and underscores, such as `TERM_OWNER`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cause(String);

impl Cause {
    /// The run limit was reached.
    pub const RUN_LIMIT: &str = "TERM_RUNLIMIT";
    /// The kernel killed for the memory limit.
    pub const MEMORY_LIMIT: &str = "TERM_MEMLIMIT";
    /// The lease of a strict single copy ended.
    pub const LEASE: &str = "TERM_LEASE";
    /// Somebody sent TERM to the shim itself.
    pub const SHIM: &str = "TERM_SHIM";

    /// Takes a cause; `None` when it is empty, too long, or has other characters.
    pub fn new(text: &str) -> Option<Self> {
        let fits = !text.is_empty() && text.len() <= CAUSE_BYTES_MAX;
        let plain = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
        (fits && text.bytes().all(plain)).then(|| Self(text.to_owned()))
    }

    pub(crate) fn known(text: &'static str) -> Self {
        Self(text.to_owned())
    }

    /// The cause of a run limit.
    pub fn run_limit() -> Self {
        Self::known(Self::RUN_LIMIT)
    }

    /// The cause of a memory limit.
    pub fn memory_limit() -> Self {
        Self::known(Self::MEMORY_LIMIT)
    }

    /// The cause of an ended lease.
    pub fn lease() -> Self {
        Self::known(Self::LEASE)
    }

    /// The cause of a TERM to the shim.
    pub fn shim() -> Self {
        Self::known(Self::SHIM)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Cause {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::new(&text).ok_or("a cause has 1 to 64 capitals, digits and underscores")
    }
}

impl From<Cause> for String {
    fn from(cause: Cause) -> Self {
        cause.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_plain_tokens() {
        assert!(Cause::new("TERM_OWNER").is_some());
        for bad in ["", "term", "A B", "A\n", &"A".repeat(65)] {
            assert_eq!(Cause::new(bad), None, "{bad:?}");
        }
    }
}
