//! The log as the consensus library sees it: entries cached in memory, changes sent to the log
//! thread in order.
//!
//! Votes and truncations are durable when they return, purges in the order of the log. Entries are readable before `append`
//! returns and durable when its callback is called, always on the log thread, always in order.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::sync::{Arc, Mutex, MutexGuard};

use openraft::storage::{IOFlushed, LogState, RaftLogReader, RaftLogStorage};
use openraft::{EntryPayload, OptionalSend};
use xce_failpoint::Point;

use super::encoding::{entry, log_id, position, stored_entry, stored_vote, vote};
use super::types::{Entry, LogId, Types, Vote};
use crate::record::{LogMarks, LogPosition, Record, StoredEntry};
use crate::writer::LogWriter;

/// Source: chosen; bounds one batch to a peer or to the machine.
const READ_ENTRIES_MAX: u64 = 1024;

/// Most bytes of one batch. Source: derived; half of the largest frame between daemons, so that an
/// entry more of the largest size fits as well.
const READ_BYTES_MAX: usize = 4 << 20;

fn payload_bytes(entry: &Entry) -> usize {
    match &entry.payload {
        EntryPayload::Normal(groups) => groups.bytes.len(),
        EntryPayload::Blank | EntryPayload::Membership(_) => 0,
    }
}

#[derive(Default)]
struct Cache {
    entries: VecDeque<Entry>,
    marks: LogMarks,
}

/// The log; clones share it.
#[derive(Clone)]
pub(crate) struct LogStore {
    cache: Arc<Mutex<Cache>>,
    writer: LogWriter,
}

/// A look at the log for whoever exports it; it keeps nothing alive and changes nothing.
#[derive(Clone)]
pub(crate) struct LogView {
    cache: Arc<Mutex<Cache>>,
}

impl LogView {
    /// The last index that is purged; 0 for none.
    pub(crate) fn purged(&self) -> u64 {
        self.cache().marks.purged.map_or(0, |purged| purged.index)
    }

    /// Up to where the log may be purged when no more than these are to be kept.
    pub(crate) fn beyond(&self, entries_max: u64, bytes_max: usize) -> u64 {
        let cache = self.cache();
        let (mut entries, mut bytes) = (0, 0);
        for entry in cache.entries.iter().rev() {
            entries += 1;
            bytes += payload_bytes(entry);
            if entries > entries_max || bytes > bytes_max {
                return entry.log_id.index();
            }
        }
        0
    }

    /// The end of the log, or its purge point.
    pub(crate) fn last(&self) -> Option<LogPosition> {
        self.cache().marks.last
    }

    /// At least one entry after `after` up to `upto`, further ones while they have less than
    /// `bytes_max` bytes; nothing when the next one is not kept.
    pub(crate) fn entries_after(
        &self,
        after: u64,
        upto: u64,
        bytes_max: usize,
    ) -> Option<Vec<StoredEntry>> {
        let cache = self.cache();
        let first = cache.entries.front()?.log_id.index();
        let start = usize::try_from((after + 1).checked_sub(first)?).ok()?;
        if start >= cache.entries.len() {
            return None;
        }
        let (mut bytes, mut found) = (0, Vec::new());
        for entry in cache.entries.range(start..) {
            if entry.log_id.index() > upto || bytes >= bytes_max {
                break;
            }
            let entry = stored_entry(entry);
            bytes += entry.payload.len();
            found.push(entry);
        }
        (!found.is_empty()).then_some(found)
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache
            .lock()
            .expect("no code panics while it holds this lock")
    }
}

impl LogStore {
    /// A look at it.
    pub(crate) fn look(&self) -> LogView {
        LogView {
            cache: Arc::clone(&self.cache),
        }
    }

    /// A log that goes on from what was recovered.
    ///
    /// # Errors
    /// An entry cannot be read; it says which.
    pub(crate) fn new(
        writer: LogWriter,
        marks: LogMarks,
        stored: &VecDeque<StoredEntry>,
    ) -> Result<Self, String> {
        let mut entries = VecDeque::with_capacity(stored.len());
        for one in stored {
            let read =
                entry(one).map_err(|detail| format!("entry {}: {detail}", one.position.index))?;
            entries.push_back(read);
        }
        Ok(Self {
            cache: Arc::new(Mutex::new(Cache { entries, marks })),
            writer,
        })
    }

    /// Index of the last entry, zero for none.
    pub(crate) fn last_index(&self) -> u64 {
        self.cache().marks.last.map_or(0, |last| last.index)
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache
            .lock()
            .expect("no code panics while it holds this lock")
    }
}

impl RaftLogReader<Types> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry>, io::Error> {
        let cache = self.cache();
        let Some(first) = cache.entries.front().map(|entry| entry.log_id.index()) else {
            return Ok(Vec::new());
        };
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(before) => before + 1,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(last) => last + 1,
            Bound::Excluded(end) => *end,
            Bound::Unbounded => u64::MAX,
        };
        let len = cache.entries.len() as u64;
        let (start, end) = (
            start.max(first) - first,
            end.min(first + len).saturating_sub(first),
        );
        if start >= end {
            return Ok(Vec::new());
        }
        // Both are at most the length of the cache.
        Ok(cache
            .entries
            .range(start as usize..end as usize)
            .cloned()
            .collect())
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, io::Error> {
        Ok(self.cache().marks.vote.map(vote))
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> Result<Vec<Entry>, io::Error> {
        let most = end.min(start.saturating_add(READ_ENTRIES_MAX));
        let mut entries = self.try_get_log_entries(start..most).await?;
        let mut bytes = 0;
        let fitting = entries.iter().take_while(|entry| {
            bytes += payload_bytes(entry);
            bytes <= READ_BYTES_MAX
        });
        // One entry always goes, however large.
        let count = fitting.count().max(1);
        entries.truncate(count);
        Ok(entries)
    }
}

impl RaftLogStorage<Types> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<Types>, io::Error> {
        let marks = self.cache().marks;
        Ok(LogState {
            last_purged_log_id: marks.purged.map(log_id),
            last_log_id: marks.last.map(log_id),
        })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), io::Error> {
        let record = Record::Vote(stored_vote(vote));
        xce_failpoint::hit(Point::WalVoteBefore);
        self.writer.write_one(record.clone()).await?;
        xce_failpoint::hit(Point::WalVoteAfter);
        self.cache().marks.follow(&record);
        Ok(())
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), io::Error> {
        if let Some(at) = committed.as_ref().map(position) {
            self.cache().marks.committed = Some(at);
            self.writer.committed(at);
        }
        Ok(())
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, io::Error> {
        Ok(self.cache().marks.committed.map(log_id))
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Types>) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut records = Vec::new();
        let mut cache = self.cache();
        for entry in entries {
            let record = Record::Entry(stored_entry(&entry));
            cache.marks.follow(&record);
            cache.entries.push_back(entry);
            records.push(record);
        }
        self.writer.write(
            records,
            Box::new(move |result| callback.io_completed(result)),
        );
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> Result<(), io::Error> {
        let record = Record::Truncate(last.as_ref().map(position));
        {
            let mut cache = self.cache();
            let after = last.as_ref().map(LogId::index);
            if after >= cache.marks.last.map(|last| last.index) {
                return Ok(());
            }
            let keep = last.as_ref().map_or(0, |last| last.index() + 1);
            while cache
                .entries
                .back()
                .is_some_and(|entry| entry.log_id.index() >= keep)
            {
                cache.entries.pop_back();
            }
            cache.marks.follow(&record);
        }
        xce_failpoint::hit(Point::WalTruncateBefore);
        let written = self.writer.write_one(record).await;
        xce_failpoint::hit(Point::WalTruncateAfter);
        written
    }

    async fn purge(&mut self, upto: LogId) -> Result<(), io::Error> {
        let record = Record::Purged(position(&upto));
        {
            let mut cache = self.cache();
            while cache
                .entries
                .front()
                .is_some_and(|entry| entry.log_id.index() <= upto.index())
            {
                cache.entries.pop_front();
            }
            cache.marks.follow(&record);
        }
        xce_failpoint::hit(Point::WalPurgeBefore);
        // Not waited for: more of the log than is needed does no harm after a crash, and a disk that
        // hangs must not hold up beats. A failure is told by the thread.
        self.writer.write(vec![record], Box::new(drop));
        xce_failpoint::hit(Point::WalPurgeAfter);
        Ok(())
    }
}
