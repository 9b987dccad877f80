//! Reads the log back and tells a torn tail from damage.
//!
//! * A segment that has a successor must be whole up to the end that the successor's header names.
//! * A sealed segment must have a successor.
//! * In the last segment a bad batch is *damage* when any later batch says that more than its
//!   offset was durable; otherwise it is a torn tail and is zeroed.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::aligned::AlignedBuffer;
use crate::batch::{self, BLOCK_BYTES, BatchFault};
use crate::device::{Disk, write_fully};
use crate::error::{Damage, OpenError};
use crate::record::{LogMarks, LogPosition, Record, StoredEntry};
use crate::segment::{self, FIRST_BATCH, SegmentHeader};
use crate::segment_log::{SegmentInfo, Tail, is_leftover};

/// What the log held.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) marks: LogMarks,
    /// All entries after the purge point.
    pub(crate) entries: VecDeque<StoredEntry>,
    pub(crate) segments: VecDeque<SegmentInfo>,
    /// `None` when there is no segment at all.
    pub(crate) tail: Option<Tail>,
    /// Where a torn batch was dropped.
    pub(crate) torn: Option<(PathBuf, u64)>,
}

impl Recovered {
    /// Whether nothing was ever acknowledged.
    pub(crate) fn is_blank(&self) -> bool {
        self.marks == LogMarks::default() && self.entries.is_empty()
    }
}

/// Reads all segments of `directory`, zeroes a torn tail and removes interrupted preallocations.
///
/// # Errors
/// Damage, a foreign or newer segment, or an error of the system. Nothing is changed then.
pub(crate) fn recover(
    disk: &dyn Disk,
    directory: &Path,
    cluster_id: [u8; 16],
    node_id: u64,
) -> Result<Recovered, OpenError> {
    let paths = list(directory)?;
    let mut replay = Replay::default();
    let mut tail = None;
    for (place, (sequence, path)) in paths.iter().enumerate() {
        let bytes = read_up_to(disk, path, u64::MAX)?;
        let header = SegmentHeader::decode(&bytes, path)?;
        check_owner(&header, path, cluster_id, node_id)?;
        let expected = paths[0].0 + place as u64;
        if header.sequence != *sequence || *sequence != expected {
            let detail = format!(
                "segment {} where segment {expected} was expected: a segment is missing",
                header.sequence
            );
            return Err(Damage {
                file: path.clone(),
                offset: 0,
                detail,
            }
            .into());
        }
        replay.start_segment(*sequence);
        let end = replay.segment(&bytes, path, header.salt)?;
        match paths.get(place + 1) {
            Some((_, successor)) => check_whole(disk, path, end, successor)?,
            None => {
                replay.check_tail(&bytes, path, header.salt, end)?;
                let segment_bytes = bytes.len() as u64;
                tail = Some(Tail {
                    salt: header.salt,
                    offset: end,
                    segment_bytes,
                });
            }
        }
    }
    let recovered = replay.finish(tail, &paths)?;
    if let Some((path, offset)) = &recovered.torn {
        zero_from(disk, path, *offset).map_err(io_error("zero the torn tail of", path))?;
    }
    Ok(recovered)
}

/// Removes what an interrupted preallocation left behind.
pub(crate) fn remove_leftovers(disk: &dyn Disk, directory: &Path) -> Result<(), OpenError> {
    for entry in std::fs::read_dir(directory).map_err(io_error("list", directory))? {
        let path = entry.map_err(io_error("list", directory))?.path();
        if is_leftover(&path) {
            disk.remove(&path).map_err(io_error("remove", &path))?;
        }
    }
    Ok(())
}

pub(crate) fn io_error(
    doing: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> OpenError + use<> {
    let path = path.to_path_buf();
    move |source| OpenError::Io {
        doing,
        path,
        source,
    }
}

fn list(directory: &Path) -> Result<Vec<(u64, PathBuf)>, OpenError> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(io_error("list", directory))? {
        let path = entry.map_err(io_error("list", directory))?.path();
        if let Some(sequence) = segment::sequence_of(&path) {
            paths.push((sequence, path));
        }
    }
    paths.sort();
    Ok(paths)
}

fn check_owner(
    header: &SegmentHeader,
    path: &Path,
    cluster_id: [u8; 16],
    node_id: u64,
) -> Result<(), OpenError> {
    let foreign = |what, found: String, wanted: String| {
        Err(OpenError::Foreign {
            directory: path.to_path_buf(),
            what,
            found,
            wanted,
        })
    };
    if header.cluster_id != cluster_id {
        return foreign("cluster", hex(&header.cluster_id), hex(&cluster_id));
    }
    if header.node_id != node_id {
        return foreign("node", header.node_id.to_string(), node_id.to_string());
    }
    Ok(())
}

/// Sixteen bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(*bytes))
}

fn read_up_to(disk: &dyn Disk, path: &Path, most: u64) -> Result<Vec<u8>, OpenError> {
    let mut bytes = Vec::new();
    let read = disk
        .read(path)
        .and_then(|file| file.take(most).read_to_end(&mut bytes));
    read.map_err(io_error("read", path))?;
    Ok(bytes)
}

fn check_whole(disk: &dyn Disk, path: &Path, end: u64, successor: &Path) -> Result<(), OpenError> {
    let block = read_up_to(disk, successor, FIRST_BATCH)?;
    let wanted = SegmentHeader::decode(&block, successor)?.previous_end;
    if end == wanted {
        return Ok(());
    }
    let detail = format!("no valid batch here, but the segment was written up to {wanted}");
    Err(Damage {
        file: path.to_path_buf(),
        offset: end,
        detail,
    }
    .into())
}

fn zero_from(disk: &dyn Disk, path: &Path, offset: u64) -> io::Result<()> {
    // Whole blocks, as direct writes demand.
    let len = std::fs::metadata(path)?.len();
    let len = len.next_multiple_of(BLOCK_BYTES as u64);
    let mut zeros = AlignedBuffer::with_capacity(ZERO_BYTES);
    zeros.extend(&[0]);
    zeros.pad(ZERO_BYTES);
    let mut file = disk.open(path)?;
    let mut at = offset;
    while at < len {
        let now = usize::try_from(len - at).map_or(ZERO_BYTES, |left| left.min(ZERO_BYTES));
        write_fully(file.as_mut(), &zeros.bytes()[..now], at)?;
        at += now as u64;
    }
    file.sync()
}

/// Source: chosen; one zeroing write, large enough to stream and small against a segment.
const ZERO_BYTES: usize = 1 << 20;

#[derive(Default)]
struct Replay {
    marks: LogMarks,
    entries: VecDeque<StoredEntry>,
    segments: VecDeque<SegmentInfo>,
    /// The last entry before the first segment that is still there.
    before: Option<LogPosition>,
    started: bool,
    /// Whether the last segment read says that another one follows.
    sealed: bool,
    torn: Option<(PathBuf, u64)>,
}

impl Replay {
    fn start_segment(&mut self, sequence: u64) {
        self.segments.push_back(SegmentInfo {
            sequence,
            index_max: 0,
        });
    }

    /// Follows all valid batches and says where they end.
    fn segment(&mut self, bytes: &[u8], path: &Path, salt: u32) -> Result<u64, OpenError> {
        let mut at = FIRST_BATCH;
        self.sealed = false;
        while let Some(header) = batch::header_at(bytes, at, salt) {
            match batch::records_at(bytes, at, salt, header) {
                Ok(records) if records == [Record::Sealed] => {
                    self.sealed = true;
                    return Ok(at);
                }
                Ok(records) => {
                    for record in records {
                        self.record(record).map_err(|detail| Damage {
                            file: path.to_path_buf(),
                            offset: at,
                            detail,
                        })?;
                    }
                }
                Err(BatchFault::Checksum) => break,
                Err(BatchFault::Content(detail)) => {
                    return Err(Damage {
                        file: path.to_path_buf(),
                        offset: at,
                        detail,
                    }
                    .into());
                }
            }
            at += header.bytes;
        }
        Ok(at)
    }

    /// Decides whether what follows the last valid batch was ever acknowledged.
    fn check_tail(
        &mut self,
        bytes: &[u8],
        path: &Path,
        salt: u32,
        end: u64,
    ) -> Result<(), OpenError> {
        if self.sealed {
            let detail = "the segment is sealed, but the one after it is missing".into();
            return Err(Damage {
                file: path.to_path_buf(),
                offset: end,
                detail,
            }
            .into());
        }
        let rest = usize::try_from(end)
            .ok()
            .and_then(|end| bytes.get(end..))
            .unwrap_or(&[]);
        if rest.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        let mut at = end;
        while at < bytes.len() as u64 {
            if let Some(later) = batch::header_at(bytes, at, salt)
                && later.synced_upto > end
            {
                let detail = format!(
                    "no valid batch here, but the batch at {at} says that everything up to {} \
                     was durable",
                    later.synced_upto
                );
                return Err(Damage {
                    file: path.to_path_buf(),
                    offset: end,
                    detail,
                }
                .into());
            }
            at += BLOCK_BYTES as u64;
        }
        self.torn = Some((path.to_path_buf(), end));
        Ok(())
    }

    fn record(&mut self, record: Record) -> Result<(), String> {
        match &record {
            Record::Marks(marks) if !self.started => self.before = marks.last,
            Record::Marks(marks) => {
                if marks.last != self.marks.last {
                    return Err(format!(
                        "the segment starts after {:?}, but the log before ends at {:?}",
                        marks.last, self.marks.last
                    ));
                }
            }
            Record::Entry(entry) => self.entry(entry)?,
            Record::Truncate(last) => {
                let keep = last.map_or(0, |last| last.index + 1);
                while self
                    .entries
                    .back()
                    .is_some_and(|entry| entry.position.index >= keep)
                {
                    self.entries.pop_back();
                }
            }
            Record::Purged(at) => {
                while self
                    .entries
                    .front()
                    .is_some_and(|entry| entry.position.index <= at.index)
                {
                    self.entries.pop_front();
                }
            }
            Record::Sealed => return Err("a seal stands among other records".into()),
            Record::Vote(_) | Record::Committed(_) => {}
        }
        self.started = true;
        self.marks.follow(&record);
        Ok(())
    }

    fn entry(&mut self, entry: &StoredEntry) -> Result<(), String> {
        let index = entry.position.index;
        if let Some(last) = self.marks.last
            && index != last.index + 1
        {
            return Err(format!("entry {index} follows entry {}", last.index));
        }
        if let Some(active) = self.segments.back_mut() {
            active.index_max = active.index_max.max(index);
        }
        self.entries.push_back(entry.clone());
        Ok(())
    }

    fn finish(
        mut self,
        tail: Option<Tail>,
        paths: &[(u64, PathBuf)],
    ) -> Result<Recovered, OpenError> {
        let purged = self.marks.purged.map(|purged| purged.index);
        if let (Some(before), Some((_, first))) = (self.before, paths.first())
            && purged.is_none_or(|purged| purged < before.index)
        {
            let detail = format!(
                "the log starts after entry {}: segments are missing",
                before.index
            );
            return Err(Damage {
                file: first.clone(),
                offset: 0,
                detail,
            }
            .into());
        }
        while self
            .entries
            .front()
            .is_some_and(|entry| Some(entry.position.index) <= purged)
        {
            self.entries.pop_front();
        }
        Ok(Recovered {
            marks: self.marks,
            entries: self.entries,
            segments: self.segments,
            tail,
            torn: self.torn,
        })
    }
}
