//! Zero-fills the next segment ahead of need and removes old ones, on a thread of its own.
//!
//! A full disk is met here and nowhere else: the log only ever overwrites allocated blocks.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::watch;

use xce_failpoint::Point;

use crate::device::Disk;

/// Whether the next segment is at hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SpareStatus {
    /// It is being filled.
    Preparing,
    /// It is there.
    Ready,
    /// It could not be made; it is tried again from time to time.
    Failed {
        /// A sentence for operators.
        alarm: String,
    },
}

struct State {
    ready: Option<PathBuf>,
    /// Why the last try failed, until the next one succeeds.
    failed: Option<(io::ErrorKind, String)>,
    discard: Vec<PathBuf>,
    stopped: bool,
    /// Nobody waits any more for a disk that is full.
    closing: bool,
    made: u64,
}

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    status: watch::Sender<SpareStatus>,
}

/// The thread that keeps one spare segment.
pub(crate) struct Spares {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread needs to know.
pub(crate) struct SpareOptions {
    pub(crate) directory: PathBuf,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) segment_bytes: u64,
    pub(crate) retry: Duration,
}

impl Spares {
    /// Starts the thread; it makes the first spare at once.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(options: SpareOptions) -> io::Result<Self> {
        let state = State {
            ready: None,
            failed: None,
            discard: Vec::new(),
            stopped: false,
            closing: false,
            made: 0,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            wake: Condvar::new(),
            status: watch::Sender::new(SpareStatus::Preparing),
        });
        let inner = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("xce-spare".into())
            .spawn(move || inner.keep_one(&options))?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Follows whether a spare is at hand.
    pub(crate) fn watch(&self) -> watch::Receiver<SpareStatus> {
        self.shared.status.subscribe()
    }

    /// Takes the spare, waiting for it as long as it takes; `None` once stopped, or when the disk is
    /// full and the log closes.
    pub(crate) fn take(&self) -> Option<PathBuf> {
        let mut state = self.shared.lock();
        loop {
            if let Some(path) = state.ready.take() {
                self.shared.status.send_replace(SpareStatus::Preparing);
                self.shared.wake.notify_all();
                return Some(path);
            }
            let is_hopeless = state.closing && state.failed.is_some();
            if state.stopped || is_hopeless {
                return None;
            }
            state = self.shared.wake.wait(state).expect(NOT_POISONED);
        }
    }

    /// Takes the first spare of a new log; there is nothing yet that could wait for space.
    ///
    /// # Errors
    /// It could not be made.
    pub(crate) fn take_first(&self) -> io::Result<PathBuf> {
        let state = self.shared.lock();
        let not_decided = |state: &mut State| state.ready.is_none() && state.failed.is_none();
        let mut state = self
            .shared
            .wake
            .wait_while(state, not_decided)
            .expect(NOT_POISONED);
        if let Some((kind, alarm)) = state.failed.take() {
            return Err(io::Error::new(kind, alarm));
        }
        drop(state);
        self.take()
            .ok_or_else(|| io::Error::other("the log is stopped"))
    }

    /// Removes files in the background, in the given order.
    pub(crate) fn discard(&self, paths: Vec<PathBuf>) {
        self.shared.lock().discard.extend(paths);
        self.shared.wake.notify_all();
    }

    /// A handle that unblocks a waiting [`Spares::take`].
    pub(crate) fn stopper(&self) -> SpareStopper {
        SpareStopper(Arc::clone(&self.shared))
    }
}

impl Drop for Spares {
    fn drop(&mut self) {
        self.stopper().stop();
        if let Some(thread) = self.thread.take() {
            // A panic of that thread has nothing left to say here.
            drop(thread.join());
        }
    }
}

/// Ends the thread and whoever waits for it.
#[derive(Clone)]
pub(crate) struct SpareStopper(Arc<Shared>);

impl SpareStopper {
    pub(crate) fn stop(&self) {
        self.0.lock().stopped = true;
        self.0.wake.notify_all();
    }

    /// What is in the queue of the log is still written, unless the disk is full.
    pub(crate) fn close(&self) {
        self.0.lock().closing = true;
        self.0.wake.notify_all();
    }
}

const NOT_POISONED: &str = "no code panics while it holds this lock";

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(NOT_POISONED)
    }

    fn keep_one(&self, options: &SpareOptions) {
        let mut state = self.lock();
        while !state.stopped {
            if !state.discard.is_empty() {
                let paths = std::mem::take(&mut state.discard);
                drop(state);
                xce_failpoint::hit(Point::WalDiscardBefore);
                remove(options.disk.as_ref(), &paths);
                xce_failpoint::hit(Point::WalDiscardAfter);
                state = self.lock();
            } else if state.ready.is_none() {
                state.made += 1;
                let path = options.directory.join(format!("spare-{}.tmp", state.made));
                drop(state);
                let made = prepare(options, &path);
                state = self.lock();
                state = self.settle(state, path, made, options.retry);
            } else {
                state = self.wake.wait(state).expect(NOT_POISONED);
            }
        }
    }

    fn settle<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        path: PathBuf,
        made: io::Result<()>,
        retry: Duration,
    ) -> MutexGuard<'a, State> {
        match made {
            Ok(()) => {
                state.ready = Some(path);
                state.failed = None;
                self.status.send_replace(SpareStatus::Ready);
                self.wake.notify_all();
                state
            }
            Err(error) => {
                let alarm = format!("cannot prepare log segment {}: {error}", path.display());
                tracing::warn!(alarm, "log segment not prepared");
                state.failed = Some((error.kind(), alarm.clone()));
                self.status.send_replace(SpareStatus::Failed { alarm });
                self.wake.notify_all();
                self.wake.wait_timeout(state, retry).expect(NOT_POISONED).0
            }
        }
    }
}

fn prepare(options: &SpareOptions, path: &Path) -> io::Result<()> {
    options
        .disk
        .preallocate(path, options.segment_bytes)
        .inspect_err(|_| {
            remove(options.disk.as_ref(), &[path.to_path_buf()]);
        })
}

fn remove(disk: &dyn Disk, paths: &[PathBuf]) {
    for path in paths {
        match disk.remove(path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "old log file not removed");
            }
        }
    }
}
