//! The worker's side of the socket, and starting a shim.
//!
//! [`Control`] is blocking. An async caller keeps a [`ControlPath`], connects its own stream to
//! [`ControlPath::path`], and uses [`Request::line`] and [`Event::parse`].

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::protocol::{Event, Request, Status};

const SOCKET_FILE: &str = "sock";

/// Longest event line in bytes.
/// Source: derived from the bound of the records.
pub const EVENT_BYTES_MAX: u64 = 128 * 1024;

/// A short path to the socket of a run directory of any length; valid while this value lives.
///
/// A socket's address has 108 bytes (unix(7)), so the way leads through a directory handle.
#[derive(Debug)]
pub struct ControlPath {
    _directory: File,
    path: PathBuf,
}

impl ControlPath {
    /// Opens the run directory.
    ///
    /// # Errors
    /// When it is not there.
    pub fn open(run_dir: &Path) -> io::Result<Self> {
        let directory = File::open(run_dir)?;
        let path = format!("/proc/self/fd/{}/{SOCKET_FILE}", directory.as_raw_fd());
        Ok(Self {
            _directory: directory,
            path: PathBuf::from(path),
        })
    }

    /// The path to bind or connect to.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Why a request was not answered.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The socket failed; the shim may have ended: inspect the run directory.
    #[error("the shim does not answer")]
    Io(#[from] io::Error),
    /// The shim said no.
    #[error("the shim refused: {0}")]
    Refused(String),
    /// The shim said something this build does not know.
    #[error("the shim said something unknown: {0}")]
    Unknown(String),
}

/// A blocking connection to a living shim.
#[derive(Debug)]
pub struct Control {
    stream: BufReader<UnixStream>,
    kept: std::collections::VecDeque<Event>,
}

impl Control {
    /// Connects to the shim of a run directory.
    ///
    /// # Errors
    /// `NotFound` or `ConnectionRefused` when no shim listens.
    pub fn connect(run_dir: &Path) -> io::Result<Self> {
        let way = ControlPath::open(run_dir)?;
        let stream = UnixStream::connect(way.path())?;
        Ok(Self {
            stream: BufReader::new(stream),
            kept: std::collections::VecDeque::new(),
        })
    }

    /// Bounds each wait for a line; `None` waits for ever (the default).
    ///
    /// # Errors
    /// When the time is zero.
    pub fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.stream.get_ref().set_read_timeout(timeout)?;
        self.stream.get_ref().set_write_timeout(timeout)
    }

    /// The descriptor, to wait for readability.
    pub fn raw_fd(&self) -> RawFd {
        self.stream.get_ref().as_raw_fd()
    }

    /// Sends a request without waiting for its answer.
    ///
    /// # Errors
    /// When the shim is gone.
    pub fn send(&mut self, request: &Request) -> io::Result<()> {
        self.stream.get_mut().write_all(request.line().as_bytes())
    }

    /// Waits for the next event; `None` when the shim has closed.
    ///
    /// # Errors
    /// When the time is over, or the line is unknown or too long.
    pub fn next_event(&mut self) -> Result<Option<Event>, ControlError> {
        match self.kept.pop_front() {
            Some(event) => Ok(Some(event)),
            None => self.read_event(),
        }
    }

    fn read_event(&mut self) -> Result<Option<Event>, ControlError> {
        let mut line = Vec::new();
        let mut bounded = io::Read::take(&mut self.stream, EVENT_BYTES_MAX);
        if bounded.read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(&line);
        match Event::parse(text.trim_end()) {
            Some(event) => Ok(Some(event)),
            None => Err(ControlError::Unknown(text.chars().take(200).collect())),
        }
    }

    /// Sends a request and waits until it is taken. Events that come between are kept for
    /// [`Control::next_event`].
    ///
    /// # Errors
    /// When the shim refuses or is gone.
    pub fn ask(&mut self, request: &Request) -> Result<(), ControlError> {
        self.send(request)?;
        loop {
            match self.read_event()? {
                Some(Event::Accepted) => return Ok(()),
                Some(Event::Error(text)) => return Err(ControlError::Refused(text)),
                Some(event) => self.kept.push_back(event),
                None => return Err(gone()),
            }
        }
    }

    /// Asks for state and usage.
    ///
    /// # Errors
    /// When the shim is gone.
    pub fn status(&mut self) -> Result<Status, ControlError> {
        self.send(&Request::Status)?;
        loop {
            match self.read_event()? {
                Some(Event::Status(status)) => return Ok(status),
                Some(Event::Error(text)) => return Err(ControlError::Refused(text)),
                Some(event) => self.kept.push_back(event),
                None => return Err(gone()),
            }
        }
    }
}

fn gone() -> ControlError {
    ControlError::Io(io::ErrorKind::UnexpectedEof.into())
}

/// Starts a shim on a run directory whose spec is written. Its standard output brings the events
/// `started` and `exit`, or one `error`; then it ends by itself.
///
/// Plain, so that the standard library can start it without copying the caller's address space.
///
/// # Errors
/// When the program cannot be started.
pub fn spawn(shim: &Path, run_dir: &Path) -> io::Result<Child> {
    Command::new(shim)
        .arg(run_dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
}
