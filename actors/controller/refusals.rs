//! The journal of refusals: what users wanted and did not get, for whoever asks why.
//!
//! Bounded and beside the log: two files of JSON lines, written by a thread of their own, never
//! synced. It holds nothing up: what it has no room for is counted and dropped, and a disk that is
//! full costs these lines and nothing else.

mod files;

use std::fmt::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use tokio::sync::oneshot;
use xce_model::{OperationId, Refusal, RefusalKind};
use xce_session::journal_wire::RefusalView;
use xce_session::wire::Ask;

use crate::control::Control;
use files::Files;

/// Refusals that wait for the disk. Source: derived; a second of a client that is always refused.
const WAITING_MAX: usize = 1024;
/// Longest sentence that is kept. Source: chosen; far above all that are written.
const TEXT_BYTES_MAX: usize = 2000;
/// Most rows of one answer. Source: derived; some 300 bytes a row stay far below one frame.
pub const ROWS_MAX: u32 = 10_000;

enum Told {
    Keep(Box<RefusalView>),
    Read(usize, oneshot::Sender<Vec<RefusalView>>),
}

/// Where refusals are told; its thread ends with it.
pub struct Refusals {
    thread: SyncSender<Told>,
    dropped: Arc<AtomicU64>,
}

impl Refusals {
    /// Starts its thread.
    ///
    /// # Errors
    /// When the system has no thread.
    pub fn start(state_dir: &Path) -> std::io::Result<Self> {
        let (thread, told) = sync_channel(WAITING_MAX);
        let files = Files::new(state_dir);
        let dropped = Arc::new(AtomicU64::new(0));
        let lost = Arc::clone(&dropped);
        std::thread::Builder::new()
            .name("xce-refusals".into())
            .spawn(move || serve(files, &told, &lost))?;
        Ok(Self { thread, dropped })
    }

    /// Remembers a refusal; one for which there is no room is dropped.
    pub fn keep(&self, refusal: RefusalView) {
        if self.thread.try_send(Told::Keep(Box::new(refusal))).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Refusals that were not written.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// The last refusals, the oldest first.
    ///
    /// # Errors
    /// `overloaded` while too many wait to be written.
    pub async fn last(&self, count: u32) -> Result<Vec<RefusalView>, Refusal> {
        let (reply, answer) = oneshot::channel();
        let count = count.min(ROWS_MAX) as usize;
        let overloaded = || {
            let text = "the journal of refusals cannot be read now; try again";
            Refusal::new(RefusalKind::Unavailable, "overloaded", text)
        };
        self.thread
            .try_send(Told::Read(count, reply))
            .map_err(|_full| overloaded())?;
        answer.await.map_err(|_ended| overloaded())
    }
}

fn serve(mut files: Files, told: &Receiver<Told>, dropped: &AtomicU64) {
    let mut failing = false;
    while let Ok(told) = told.recv() {
        match told {
            Told::Keep(refusal) => match files.append(&refusal) {
                Ok(()) => failing = false,
                Err(error) => {
                    dropped.fetch_add(1, Ordering::Relaxed);
                    if !failing {
                        tracing::warn!(%error, "refusals not written");
                    }
                    failing = true;
                }
            },
            // Who asked may have left.
            Told::Read(count, reply) => drop(reply.send(files.last(count))),
        }
    }
}

/// Remembers that a change was refused.
pub fn keep(
    control: &Control,
    principal: &str,
    (event, operation): (String, OperationId),
    refusal: &Refusal,
) {
    let (now, wall) = control.times();
    let mut text = refusal.text.clone();
    if text.len() > TEXT_BYTES_MAX {
        let end = (0..=TEXT_BYTES_MAX)
            .rev()
            .find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or(0));
    }
    control.refusals.keep(RefusalView {
        time: crate::views::time(wall),
        at_ms: now.0,
        lsn: control.reader.lsn(),
        principal: principal.to_owned(),
        event,
        code: refusal.code.clone(),
        text,
        operation: operation.to_string(),
    });
}

/// What is asked for, in two words such as `service scale`: the names of its variants.
pub fn event(ask: &Ask) -> String {
    let mut words = Words::default();
    // It ends with an error as soon as both words are there.
    let _ = write!(words, "{ask:?}");
    words.text
}

/// Takes the first two words of what is written, and then no more.
#[derive(Default)]
struct Words {
    text: String,
    words: u32,
}

impl fmt::Write for Words {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        for letter in part.chars() {
            if letter.is_ascii_alphanumeric() || letter == '_' {
                self.text.push(letter.to_ascii_lowercase());
                continue;
            }
            self.words += 1;
            if self.words == 2 {
                return Err(fmt::Error);
            }
            self.text.push(' ');
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
