//! Why a command failed, and the exit code that says so to scripts.

use std::fmt;

use xce_model::{Refusal, RefusalKind};

/// Exit code of wrong words. Source: design section 13.
pub const USAGE: u8 = 2;
/// Exit code of a wait that took too long. Source: design section 13.
const TIMED_OUT: u8 = 6;

/// Shown at the end of the help. Source: design section 13.
pub const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  refused: not possible in the present state
  2  usage: wrong words, or a file with faults
  3  not found
  4  not permitted
  5  unavailable, or nobody knows whether it happened; the same command again is safe with --token
  6  timed out waiting

Results are on stdout, everything else on stderr. Times are local in tables, RFC 3339 in JSON.";

/// Why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// The cluster, or the way to it, refused.
    Refused(Refusal),
    /// The words or a file of the user are wrong.
    Usage(String),
    /// A wait took too long; says what was waited for and how far it is.
    TimedOut(String),
    /// What was waited for will not come; says why.
    Unmet(String),
    /// This machine failed: a file, a socket, the output.
    Local(String),
}

impl Failure {
    /// Exit code of the command line.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Refused(refusal) => refusal.kind.exit_code(),
            Self::Usage(_) => USAGE,
            Self::TimedOut(_) => TIMED_OUT,
            Self::Local(_) | Self::Unmet(_) => RefusalKind::Refused.exit_code(),
        }
    }

    /// Whether something that was named does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.kind == RefusalKind::NotFound)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => write!(out, "{refusal}"),
            Self::Usage(text) | Self::TimedOut(text) | Self::Unmet(text) | Self::Local(text) => {
                out.write_str(text)
            }
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// An answer of another kind than the question asks for.
pub fn unexpected(answer: &str) -> Failure {
    Failure::Refused(Refusal::new(
        RefusalKind::OutcomeUnknown,
        "unexpected_answer",
        format!("the controller answered with {answer}, which does not fit the question"),
    ))
}
