//! The log thread: takes commands in order, writes them together, calls back in order.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::record::{LogPosition, Record};
use crate::segment_log::SegmentLog;
use crate::spare::SpareStopper;

/// Called on the log thread once the records are durable, or once they never will be.
pub(crate) type Done = Box<dyn FnOnce(io::Result<()>) + Send>;
/// Called once with the first error of the log.
pub(crate) type OnFatal = Arc<dyn Fn(String) + Send + Sync>;

enum Command {
    Write { records: Vec<Record>, done: Done },
    Committed(LogPosition),
    Stop,
}

/// Source: chosen; bounds how many callbacks wait for one sync.
const COMMANDS_MAX: usize = 1024;

/// Where commands for the log thread go in.
#[derive(Clone)]
pub(crate) struct LogWriter {
    commands: Sender<Command>,
}

impl LogWriter {
    /// Makes records durable and then calls `done`.
    pub(crate) fn write(&self, records: Vec<Record>, done: Done) {
        if let Err(refused) = self.commands.send(Command::Write { records, done })
            && let Command::Write { done, .. } = refused.0
        {
            done(Err(stopped()));
        }
    }

    /// Makes one record durable.
    pub(crate) async fn write_one(&self, record: Record) -> io::Result<()> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let done = Box::new(move |result| {
            // The waiter may be gone; the record is written all the same.
            drop(sender.send(result));
        });
        self.write(vec![record], done);
        receiver.await.unwrap_or_else(|_| Err(stopped()))
    }

    /// Remembers the commit point; it becomes durable with the next batch or on idle.
    pub(crate) fn committed(&self, at: LogPosition) {
        // Losing it is harmless: it is found again by an election.
        drop(self.commands.send(Command::Committed(at)));
    }
}

fn stopped() -> io::Error {
    io::Error::other("the log thread has stopped")
}

/// Ends the log thread when dropped, after all commands so far and a last watermark.
pub(crate) struct LogThread {
    commands: Sender<Command>,
    spares: SpareStopper,
    thread: Option<JoinHandle<()>>,
}

impl LogThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(
        log: SegmentLog,
        watermark_after: Duration,
        on_fatal: OnFatal,
    ) -> io::Result<(Self, LogWriter)> {
        let (commands, receiver) = channel();
        let spares = log.spares().stopper();
        let writer = LogWriter {
            commands: commands.clone(),
        };
        let run = Run {
            log,
            receiver,
            committed: None,
            dirty: false,
            on_fatal,
        };
        let thread = std::thread::Builder::new()
            .name("xce-log".into())
            .spawn(move || run.until_stopped(watermark_after))?;
        Ok((
            Self {
                commands,
                spares,
                thread: Some(thread),
            },
            writer,
        ))
    }
}

impl Drop for LogThread {
    fn drop(&mut self) {
        drop(self.commands.send(Command::Stop));
        self.spares.close();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

struct Run {
    log: SegmentLog,
    receiver: Receiver<Command>,
    committed: Option<LogPosition>,
    /// Whether the last batch is not yet vouched for by a later one.
    dirty: bool,
    on_fatal: OnFatal,
}

impl Run {
    fn until_stopped(mut self, watermark_after: Duration) {
        let mut running = true;
        while running {
            let first = if self.dirty || self.committed.is_some() {
                self.receiver.recv_timeout(watermark_after)
            } else {
                self.receiver
                    .recv()
                    .map_err(|_| RecvTimeoutError::Disconnected)
            };
            match first {
                Ok(first) => running = self.serve(first),
                Err(RecvTimeoutError::Timeout) => self.confirm(),
                Err(RecvTimeoutError::Disconnected) => running = false,
            }
        }
        if self.dirty || self.committed.is_some() {
            self.confirm();
        }
    }

    /// Writes `first` and all that wait with it; false once stopped.
    fn serve(&mut self, first: Command) -> bool {
        let mut records = Vec::new();
        let mut waiters = Vec::new();
        let mut running = true;
        let mut next = Some(first);
        while let Some(command) = next.take() {
            match command {
                Command::Write {
                    records: more,
                    done,
                } => {
                    records.extend(more);
                    waiters.push(done);
                }
                Command::Committed(at) => self.committed = Some(at),
                Command::Stop => running = false,
            }
            if running && waiters.len() < COMMANDS_MAX {
                next = self.receiver.try_recv().ok();
            }
        }
        if !waiters.is_empty() {
            self.write(records, waiters);
        }
        running
    }

    fn write(&mut self, mut records: Vec<Record>, waiters: Vec<Done>) {
        records.extend(self.committed.take().map(Record::Committed));
        let result = self.append(&records);
        self.dirty = result.is_ok();
        for done in waiters {
            done(copy(&result));
        }
    }

    /// Vouches for the last batch, so that from now on its loss would be seen as damage.
    fn confirm(&mut self) {
        let records: Vec<_> = self
            .committed
            .take()
            .map(Record::Committed)
            .into_iter()
            .collect();
        // An error is reported by `append`; nobody waits for a watermark.
        drop(self.append(&records));
        self.dirty = false;
    }

    fn append(&mut self, records: &[Record]) -> io::Result<()> {
        let healthy = self.log.poisoned().is_none();
        let result = self.log.append(records);
        if healthy && let Some(reason) = self.log.poisoned() {
            (self.on_fatal)(reason.to_owned());
        }
        result
    }
}

fn copy(result: &io::Result<()>) -> io::Result<()> {
    match result {
        Ok(()) => Ok(()),
        Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
    }
}
