//! Sends a feed of rows to one reader, a few portions ahead of what it has taken.
//!
//! It holds a position and the names of specifications, never what is to be sent: a reader that takes
//! its time gets the newest state with its next portion. What a resume cost is measured until the
//! reader holds a whole state again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use xce_ledger::{Cursor, RowWriter, Scope, View};
use xce_link::{Peer, SendError};
use xce_model::{ClusterTime, Lsn};
use xce_session::feed_wire::{FeedPortion, ToReader};

use crate::resume::Resume;
use crate::sessions::SessionInfo;

/// Bytes after which a portion has no room for another row. Source: derived; some thousand rows, a
/// millisecond's work on either side, far below a frame.
const PORTION_BYTES: usize = 256 * 1024;
/// Portions and ticks that a reader may be behind. Source: derived; a round trip of work for both
/// sides, and at most 1 MiB that waits for a reader.
const AHEAD_MAX: usize = 4;

/// One reader's feed.
#[derive(Debug)]
pub struct Feeder {
    info: Arc<SessionInfo>,
    peer: Peer,
    subscription: u64,
    cursor: Cursor,
    writer: RowWriter,
    last: u64,
    /// Sent and not taken: number, when, and whether the reader holds a whole state with it.
    under_way: VecDeque<Sent>,
    resume: Option<Resume>,
}

#[derive(Debug, Clone, Copy)]
struct Sent {
    number: u64,
    at_ms: u64,
    is_whole: bool,
}

impl Feeder {
    /// A feed for a reader that holds the state of `after`.
    pub fn new(
        info: Arc<SessionInfo>,
        peer: Peer,
        subscription: u64,
        scope: Scope,
        after: Lsn,
        now_ns: u64,
    ) -> Self {
        Self {
            info,
            peer,
            subscription,
            cursor: Cursor::new(scope, after),
            writer: RowWriter::new(),
            last: 0,
            under_way: VecDeque::new(),
            resume: Some(Resume::new(after, now_ns)),
        }
    }

    /// Sends what has changed, as far as the reader may be behind; whether anything was sent.
    ///
    /// # Errors
    /// The connection is over.
    pub fn send(
        &mut self,
        view: &Arc<View>,
        time: ClusterTime,
        now_ms: u64,
    ) -> Result<bool, SendError> {
        let mut any = false;
        while self.under_way.len() < AHEAD_MAX {
            let mut rows = Vec::new();
            let mut count = 0;
            let writer = &mut self.writer;
            let portion = self.cursor.next(view, |change| {
                writer.put(&mut rows, &change);
                count += 1;
                rows.len() < PORTION_BYTES
            });
            let Some(portion) = portion else { break };
            any = true;
            self.last += 1;
            let message = ToReader::Portion(FeedPortion {
                number: self.last,
                full: portion.full,
                first: portion.first,
                more: portion.more,
                lsn: portion.lsn,
                time,
                rows,
            });
            let bytes = self.push(&message, !portion.more, now_ms)?;
            if let Some(resume) = &mut self.resume {
                resume.add(portion.full, count, bytes);
            }
        }
        Ok(any)
    }

    /// Sends a sign of life that has to be answered, unless something else has to be already.
    ///
    /// # Errors
    /// The connection is over.
    pub fn tick(&mut self, time: ClusterTime, now_ms: u64) -> Result<(), SendError> {
        if !self.under_way.is_empty() {
            return Ok(());
        }
        self.last += 1;
        let message = ToReader::Tick {
            number: self.last,
            lsn: self.cursor.lsn(),
            time,
        };
        let is_whole = self.cursor.lsn() > 0;
        self.push(&message, is_whole, now_ms).map(drop)
    }

    fn push(&mut self, message: &ToReader, is_whole: bool, at_ms: u64) -> Result<usize, SendError> {
        self.under_way.push_back(Sent {
            number: self.last,
            at_ms,
            is_whole,
        });
        self.info.sent.fetch_add(1, Ordering::Relaxed);
        self.peer.push_counted(self.subscription, message)
    }

    /// The reader holds a portion, and whatever was sent before it.
    pub fn taken(&mut self, number: u64, now_ns: u64) {
        let mut is_whole = false;
        while let Some(sent) = self.under_way.front()
            && sent.number <= number
        {
            is_whole |= sent.is_whole;
            self.under_way.pop_front();
        }
        if is_whole && let Some(resume) = self.resume.take() {
            self.info.note_resume(resume.finish(now_ns));
        }
    }

    /// Since when an answer is waited for.
    pub fn waits_since_ms(&self) -> Option<u64> {
        self.under_way.front().map(|sent| sent.at_ms)
    }

    /// Position that the reader was told up to; 0 in the middle of a full state.
    pub fn lsn(&self) -> Lsn {
        self.cursor.lsn()
    }

    /// Portions and ticks that the reader has not taken.
    pub fn behind(&self) -> usize {
        self.under_way.len()
    }

    /// The reader's connection.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// The reader's session.
    pub fn info(&self) -> &Arc<SessionInfo> {
        &self.info
    }

    /// The request that the feed answers.
    pub fn subscription(&self) -> u64 {
        self.subscription
    }
}
