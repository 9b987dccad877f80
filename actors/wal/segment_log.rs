//! The log on disk: appends batches to the active segment and rolls over to the next.
//!
//! Used by one thread. Knows records, not what they mean to consensus.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use xce_failpoint::Point;

use crate::aligned::AlignedBuffer;
use crate::batch::{self, BATCH_HEADER_BYTES, BLOCK_BYTES};
use crate::device::{Device, Disk, write_fully};
use crate::record::{LogMarks, Record};
use crate::segment::{self, FIRST_BATCH, SegmentHeader};
use crate::spare::Spares;

/// Room in a segment that groups never take: votes, marks and watermarks always fit.
///
/// Source: derived; 32 one-block batches, far more than consensus writes while the disk is full.
pub(crate) const RESERVE_BYTES: u64 = 32 * BLOCK_BYTES as u64;

/// A segment that holds records, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SegmentInfo {
    pub(crate) sequence: u64,
    /// Highest entry index that was ever written to it; zero for none.
    pub(crate) index_max: u64,
}

/// Where appending goes on.
#[derive(Debug)]
pub(crate) struct Tail {
    pub(crate) salt: u32,
    pub(crate) offset: u64,
    /// Size of the active segment's file.
    pub(crate) segment_bytes: u64,
}

/// Figures that other threads read.
#[derive(Debug, Default)]
pub(crate) struct LogFigures {
    /// Free bytes in the active segment.
    pub(crate) remaining: AtomicU64,
    /// Syncs since the start.
    pub(crate) syncs: AtomicU64,
}

/// Everything a log is opened with.
pub(crate) struct LogParts {
    pub(crate) directory: PathBuf,
    pub(crate) cluster_id: [u8; 16],
    pub(crate) node_id: u64,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) spares: Spares,
    pub(crate) marks: LogMarks,
    pub(crate) segments: VecDeque<SegmentInfo>,
    pub(crate) segment_bytes: u64,
}

/// The log.
pub(crate) struct SegmentLog {
    parts: LogParts,
    device: Box<dyn Device>,
    tail: Tail,
    buffer: AlignedBuffer,
    poisoned: Option<String>,
    figures: Arc<LogFigures>,
}

impl SegmentLog {
    /// Goes on after `tail`, or makes the very first segment.
    ///
    /// # Errors
    /// The active segment cannot be opened or made.
    pub(crate) fn open(parts: LogParts, tail: Option<Tail>) -> io::Result<Self> {
        let buffer = AlignedBuffer::with_capacity(BUFFER_BYTES);
        let figures = Arc::default();
        let mut log = match (tail, parts.segments.back()) {
            (Some(tail), Some(active)) => {
                let path = segment::path(&parts.directory, active.sequence);
                let device = parts.disk.open(&path)?;
                Self {
                    parts,
                    device,
                    tail,
                    buffer,
                    poisoned: None,
                    figures,
                }
            }
            (None, _) | (_, None) => {
                let mut buffer = buffer;
                let (device, tail) = next_segment(&parts, 0, &mut buffer)?;
                Self {
                    parts,
                    device,
                    tail,
                    buffer,
                    poisoned: None,
                    figures,
                }
            }
        };
        log.note_remaining();
        if log.parts.segments.is_empty() {
            log.parts.segments.push_back(SegmentInfo {
                sequence: 1,
                index_max: 0,
            });
        }
        if log.tail.offset == FIRST_BATCH {
            log.append(&[Record::Marks(log.parts.marks)])?;
        }
        Ok(log)
    }

    pub(crate) fn figures(&self) -> Arc<LogFigures> {
        Arc::clone(&self.figures)
    }

    pub(crate) fn spares(&self) -> &Spares {
        &self.parts.spares
    }

    /// Makes records durable, in order, as one batch or as several when a segment ends.
    ///
    /// # Errors
    /// The first error is final: the log is poisoned and answers it again for ever.
    pub(crate) fn append(&mut self, records: &[Record]) -> io::Result<()> {
        if let Some(reason) = &self.poisoned {
            return Err(io::Error::other(reason.clone()));
        }
        let result = self.append_batches(records);
        if let Err(error) = &result {
            let path = self.active_path();
            self.poisoned = Some(format!(
                "log {} failed at {}: {error}",
                path.display(),
                self.tail.offset
            ));
        }
        result
    }

    /// Why the log is poisoned, if it is.
    pub(crate) fn poisoned(&self) -> Option<&str> {
        self.poisoned.as_deref()
    }

    fn append_batches(&mut self, records: &[Record]) -> io::Result<()> {
        batch::begin(&mut self.buffer);
        let mut count = 0;
        for record in records {
            let end = self.buffer.len() + record.encoded_bytes();
            if (end.next_multiple_of(BLOCK_BYTES)) as u64 > self.remaining() {
                if count > 0 {
                    self.write(count)?;
                }
                self.roll()?;
                batch::begin(&mut self.buffer);
                count = 0;
            }
            record.encode(&mut self.buffer);
            count += 1;
            self.follow(record);
        }
        if self.remaining() < BLOCK_BYTES as u64 {
            // Only a batch without records comes here: there is always room for it after a roll.
            self.roll()?;
            batch::begin(&mut self.buffer);
        }
        self.write(count)?;
        self.discard_purged();
        Ok(())
    }

    fn follow(&mut self, record: &Record) {
        self.parts.marks.follow(record);
        if let (Record::Entry(entry), Some(active)) = (record, self.parts.segments.back_mut()) {
            active.index_max = active.index_max.max(entry.position.index);
        }
    }

    /// Writes the buffered batch and syncs it.
    fn write(&mut self, records: u32) -> io::Result<()> {
        // One batch is in flight at a time, so all before it is durable.
        let synced_upto = self.tail.offset;
        batch::finish(
            &mut self.buffer,
            self.tail.salt,
            self.tail.offset,
            synced_upto,
            records,
        );
        xce_failpoint::check(Point::WalAppendBefore)?;
        write_fully(self.device.as_mut(), self.buffer.bytes(), self.tail.offset)?;
        xce_failpoint::check(Point::WalAppendWritten)?;
        self.device.sync()?;
        xce_failpoint::hit(Point::WalAppendSynced);
        self.tail.offset += self.buffer.len() as u64;
        self.figures.syncs.fetch_add(1, Ordering::Relaxed);
        self.note_remaining();
        Ok(())
    }

    /// Goes over to the next segment, which starts with the marks so far.
    fn roll(&mut self) -> io::Result<()> {
        let end = self.tail.offset;
        let (device, tail) = next_segment(&self.parts, end, &mut self.buffer)?;
        batch::begin(&mut self.buffer);
        Record::Sealed.encode(&mut self.buffer);
        batch::finish(&mut self.buffer, self.tail.salt, end, end, 1);
        write_fully(self.device.as_mut(), self.buffer.bytes(), end)?;
        self.device.sync()?;
        xce_failpoint::hit(Point::WalRollSealed);
        let sequence = self
            .parts
            .segments
            .back()
            .map_or(1, |active| active.sequence + 1);
        self.parts.segments.push_back(SegmentInfo {
            sequence,
            index_max: 0,
        });
        self.device = device;
        self.tail = tail;
        batch::begin(&mut self.buffer);
        Record::Marks(self.parts.marks).encode(&mut self.buffer);
        self.write(1)
    }

    /// Hands segments whose entries are all purged to the background thread, oldest first.
    fn discard_purged(&mut self) {
        let Some(purged) = self.parts.marks.purged else {
            return;
        };
        let mut paths = Vec::new();
        while self.parts.segments.len() > 1 && self.parts.segments[0].index_max <= purged.index {
            paths.push(segment::path(
                &self.parts.directory,
                self.parts.segments[0].sequence,
            ));
            self.parts.segments.pop_front();
        }
        if !paths.is_empty() {
            self.parts.spares.discard(paths);
        }
    }

    fn active_path(&self) -> PathBuf {
        let sequence = self
            .parts
            .segments
            .back()
            .map_or(1, |active| active.sequence);
        segment::path(&self.parts.directory, sequence)
    }

    /// Free bytes of the active segment, without the block that will seal it.
    fn remaining(&self) -> u64 {
        self.tail
            .segment_bytes
            .saturating_sub(self.tail.offset + BLOCK_BYTES as u64)
    }

    fn note_remaining(&self) {
        self.figures
            .remaining
            .store(self.remaining(), Ordering::Release);
    }
}

/// Source: derived; a full default entry with its headers, so the buffer rarely grows.
const BUFFER_BYTES: usize = (1 << 20) + (1 << 16);

const _: () = assert!(BATCH_HEADER_BYTES < BLOCK_BYTES);

/// Turns the spare into the next segment.
fn next_segment(
    parts: &LogParts,
    previous_end: u64,
    buffer: &mut AlignedBuffer,
) -> io::Result<(Box<dyn Device>, Tail)> {
    let spare = if parts.segments.is_empty() {
        parts.spares.take_first()?
    } else {
        let spare = parts.spares.take();
        spare.ok_or_else(|| io::Error::other("the log is stopped"))?
    };
    let sequence = parts
        .segments
        .back()
        .map_or(1, |active| active.sequence + 1);
    let header = SegmentHeader {
        cluster_id: parts.cluster_id,
        node_id: parts.node_id,
        sequence,
        salt: random_salt()?,
        previous_end,
    };
    header.encode(buffer);
    let mut device = parts.disk.open(&spare)?;
    write_fully(device.as_mut(), buffer.bytes(), 0)?;
    device.sync()?;
    xce_failpoint::check(Point::WalRollHeader)?;
    parts
        .disk
        .rename(&spare, &segment::path(&parts.directory, sequence))?;
    xce_failpoint::check(Point::WalRollRenamed)?;
    parts.disk.sync_directory(&parts.directory)?;
    xce_failpoint::hit(Point::WalRollDirectory);
    let tail = Tail {
        salt: header.salt,
        offset: FIRST_BATCH,
        segment_bytes: parts.segment_bytes,
    };
    Ok((device, tail))
}

fn random_salt() -> io::Result<u32> {
    let mut bytes = [0; 4];
    rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())?;
    Ok(u32::from_le_bytes(bytes))
}

/// Whether `path` is a left-over of an interrupted preallocation.
pub(crate) fn is_leftover(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "tmp")
}
