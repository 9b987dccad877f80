//! The lines on the socket: one request or event each, ended by a newline.

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::outcome::Cause;
use crate::record::{ExitRecord, RunRecord};

/// Longest request line in bytes, without its newline.
/// Source: derived; the longest request, a stop, has at most 5 + 4 + 21 + 65.
pub const REQUEST_BYTES_MAX: usize = 128;

/// Longest grace of a stop in milliseconds: a year, so that sums cannot overflow.
/// Source: derived.
pub const GRACE_MS_MAX: u64 = 366 * 24 * 3_600 * 1_000;

/// What a client asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// `status`: state, run record and usage.
    Status,
    /// `stop <signal> <grace_ms> <cause>`: signal now, kill after the grace.
    Stop {
        /// Signal number.
        signal: i32,
        /// Milliseconds from the signal to the kill.
        grace_ms: u64,
        /// Goes into the exit record.
        cause: Cause,
    },
    /// `kill <cause>`: kill the tree now.
    Kill {
        /// Goes into the exit record.
        cause: Cause,
    },
    /// `signal <number>`: STOP and CONT suspend and resume the tree; others go to the group of
    /// the first process.
    Signal(i32),
    /// `lease <boot_ms>`: kill the tree at this boot time; replaces the earlier one, 0 ends it.
    Lease(u64),
}

impl Request {
    /// Reads one line without its newline.
    ///
    /// # Errors
    /// A fixed text that says what is wrong, safe to send back.
    pub fn parse(line: &str) -> Result<Self, &'static str> {
        let mut words = line.split(' ');
        let request = match words.next() {
            Some("status") => Self::Status,
            Some("stop") => Self::Stop {
                signal: signal(words.next())?,
                grace_ms: number(words.next())?.min(GRACE_MS_MAX),
                cause: cause(words.next())?,
            },
            Some("kill") => Self::Kill {
                cause: cause(words.next())?,
            },
            Some("signal") => Self::Signal(signal(words.next())?),
            Some("lease") => Self::Lease(number(words.next())?),
            Some(_) | None => return Err("unknown request"),
        };
        match words.next() {
            None => Ok(request),
            Some(_) => Err("too many words"),
        }
    }

    /// The line, with its newline.
    pub fn line(&self) -> String {
        match self {
            Self::Status => "status\n".to_owned(),
            Self::Stop {
                signal,
                grace_ms,
                cause,
            } => {
                format!("stop {signal} {grace_ms} {}\n", cause.as_str())
            }
            Self::Kill { cause } => format!("kill {}\n", cause.as_str()),
            Self::Signal(number) => format!("signal {number}\n"),
            Self::Lease(boot_ms) => format!("lease {boot_ms}\n"),
        }
    }
}

fn signal(word: Option<&str>) -> Result<i32, &'static str> {
    let number = word
        .and_then(|word| word.parse().ok())
        .ok_or("a signal number is missing")?;
    Signal::from_named_raw(number).ok_or("the signal is unknown")?;
    Ok(number)
}

fn number(word: Option<&str>) -> Result<u64, &'static str> {
    word.and_then(|word| word.parse().ok())
        .ok_or("a number of milliseconds is missing")
}

fn cause(word: Option<&str>) -> Result<Cause, &'static str> {
    word.and_then(Cause::new)
        .ok_or("a cause is missing: capitals, digits and underscores")
}

/// What a shim says: to each client, and on its own standard output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// `started {…}`: first line to each client, also to one that comes later.
    Started(RunRecord),
    /// `exit {…}`: last line; nothing of the job is left and the record is written.
    Exit(ExitRecord),
    /// `status {…}`: answer to a status request.
    Status(Status),
    /// `ok`: a request was taken.
    Accepted,
    /// `error …`: a request was refused, or (on standard output) the shim could not do its work.
    Error(String),
}

/// The state of a run, as the shim sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// What it is doing.
    pub state: ShimState,
    /// What the job's tree uses.
    pub usage: Usage,
}

/// What a shim is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShimState {
    /// The job runs.
    Running,
    /// The job's tree is frozen.
    Suspended,
    /// The stop signal is sent, the grace runs.
    Stopping,
    /// The tree is being killed; it stays here while a process hangs in the kernel.
    Killing,
}

/// What the job's tree uses at this moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Memory in bytes: of the control group where it is counted, else the sum of resident sizes.
    pub memory_bytes: u64,
    /// CPU time in milliseconds: of the control group, else of the living processes.
    pub cpu_ms: u64,
    /// Living processes.
    pub processes: u64,
}

impl Event {
    /// The line, with its newline.
    pub fn line(&self) -> String {
        match self {
            Self::Started(run) => tagged("started", run),
            Self::Exit(exit) => tagged("exit", exit),
            Self::Status(status) => tagged("status", status),
            Self::Accepted => "ok\n".to_owned(),
            Self::Error(text) => format!("error {}\n", text.replace('\n', " ")),
        }
    }

    /// Reads one line without its newline; `None` when it is not an event.
    pub fn parse(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "started" => serde_json::from_str(rest).ok().map(Self::Started),
            "exit" => serde_json::from_str(rest).ok().map(Self::Exit),
            "status" => serde_json::from_str(rest).ok().map(Self::Status),
            "ok" => Some(Self::Accepted),
            "error" => Some(Self::Error(rest.to_owned())),
            _ => None,
        }
    }
}

fn tagged<T: Serialize>(word: &str, record: &T) -> String {
    match serde_json::to_string(record) {
        Ok(json) => format!("{word} {json}\n"),
        Err(error) => format!("error cannot encode {word}: {error}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_come_back_as_sent() {
        let cause = Cause::new("TERM_OWNER").unwrap();
        let requests = [
            Request::Status,
            Request::Stop {
                signal: 15,
                grace_ms: 10,
                cause: cause.clone(),
            },
            Request::Kill { cause },
            Request::Signal(19),
            Request::Lease(7),
        ];
        for request in requests {
            assert_eq!(Request::parse(request.line().trim_end()), Ok(request));
        }
    }

    #[test]
    fn junk_is_refused_with_a_reason() {
        let junk = [
            "",
            "stop",
            "stop 15",
            "stop 15 1",
            "stop 15 1 lower",
            "stop 999 1 A",
            "kill",
            "kill A B",
            "signal x",
            "signal 0",
            "lease",
            "lease -1",
            "status now",
            "\u{0}\u{1}",
        ];
        for line in junk {
            assert!(Request::parse(line).is_err(), "{line:?}");
        }
    }

    #[test]
    fn an_endless_grace_is_cut() {
        let request = Request::parse(&format!("stop 15 {} A", u64::MAX)).unwrap();
        assert!(matches!(
            request,
            Request::Stop {
                grace_ms: GRACE_MS_MAX,
                ..
            }
        ));
    }
}
