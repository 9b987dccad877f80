//! The worker's facts until the controller has committed them: a file and what waits in it.
//!
//! A fact is in the file before anybody hears of it, and leaves it only when the controller says
//! that it is committed. So no crash of a worker or a controller loses a fact, and by (incarnation,
//! epoch, sequence) none counts twice. A crash of the *host* may lose the last facts unless the
//! spool is synced; then the boot id is another one, and a new epoch begins.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use xce_failpoint::Point;
use xce_model::{Incarnation, Start, WallTime};
use xce_replica::wire::{Happened, Report, ReportsCommitted, RunId};

mod queue;
mod record;
#[cfg(test)]
mod tests;

pub use queue::{Haste, Mark, Queue, is_end};
use record::{HEADER_BYTES, Header, RECORD_HEAD_BYTES};

/// The file is written anew when it is larger than this and less than half of it is needed.
///
/// Source: derived; at 900 jobs a second and 300 bytes a job that is once in some seconds, and
/// takes one write.
const COMPACT_BYTES_MIN: u64 = 1024 * 1024;

/// Largest file that is read at a start, in bytes.
///
/// Source: derived; as many facts as may wait, each of 4 KiB, would be 800 MB; this bounds the
/// memory of a start, and what is beyond it is reported.
const FILE_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// What makes a spool this worker's.
#[derive(Debug, Clone)]
pub struct SpoolIdentity {
    /// The worker's incarnation.
    pub incarnation: Incarnation,
    /// Boot id of the machine.
    pub boot_id: String,
    /// Wall clock in milliseconds, from which a new epoch takes its number, so that no number is
    /// used twice even when the file was removed.
    pub wall_ms: u64,
}

/// The spool.
#[derive(Debug)]
pub struct Spool {
    path: PathBuf,
    identity: SpoolIdentity,
    file: File,
    file_bytes: u64,
    epoch: u64,
    queue: Queue,
    /// Records that the disk did not take; written before the next ones.
    unwritten: Vec<u8>,
    /// Room that live runs hold for their ends.
    reserved: usize,
    facts_max: usize,
    dirty: bool,
}

/// The spool has no room for another run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the spool is full: {waiting} facts wait for the controller")]
pub struct SpoolFull {
    /// Facts that wait.
    pub waiting: usize,
}

impl Spool {
    /// Opens the spool, or makes one; `facts_max` bounds what may wait. Also gives what could not
    /// be restored, one sentence each.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn open(
        path: &Path,
        identity: SpoolIdentity,
        facts_max: usize,
    ) -> io::Result<(Self, Vec<String>)> {
        let mut findings = Vec::new();
        let content = read(path, &mut findings)?;
        let header = content.as_deref().and_then(Header::from_bytes);
        if header.is_none() && content.as_ref().is_some_and(|content| !content.is_empty()) {
            let aside = path.with_extension(format!("damaged-{}", identity.wall_ms));
            fs::rename(path, &aside)?;
            findings.push(format!(
                "the spool was unreadable and lies in {}",
                aside.display()
            ));
        }
        let found = match (&header, &content) {
            (Some(_), Some(content)) => record::scan(content),
            (Some(_) | None, _) => record::Scan::default(),
        };
        for (from, to) in &found.damaged {
            findings.push(format!("bytes {from} to {to} of the spool were damaged"));
        }
        let length = content.map_or(0, |content| content.len());
        if header.is_some() && found.good_bytes < length {
            let torn = length - found.good_bytes;
            findings.push(format!("{torn} bytes at the end of the spool were torn"));
        }
        let committed = header
            .as_ref()
            .map_or(0, |header| header.committed.max(found.committed));
        let epoch = header.as_ref().map_or(0, |header| header.epoch);
        let intact = header.filter(|header| {
            header.incarnation == identity.incarnation
                && header.boot_id == identity.boot_id
                && found.damaged.is_empty()
                && found.good_bytes == length
        });
        let spool = match intact {
            Some(_) => Self::go_on(path, identity, epoch, committed, found, facts_max)?,
            None => {
                let mut facts = found.reports;
                facts.retain(|fact| fact.sequence > committed);
                Self::begin(path, identity, epoch, facts, facts_max)?
            }
        };
        Ok((spool, findings))
    }

    fn go_on(
        path: &Path,
        identity: SpoolIdentity,
        epoch: u64,
        committed: u64,
        found: record::Scan,
        facts_max: usize,
    ) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).open(path)?;
        let file_bytes = u64::try_from(found.good_bytes).unwrap_or(u64::MAX);
        let mut queue = Queue::new(committed);
        for report in found.reports {
            let bytes = approximate_bytes(&report);
            queue.push(report, bytes);
        }
        queue.assume_sent();
        Ok(Self {
            path: path.to_path_buf(),
            identity,
            file,
            file_bytes,
            epoch,
            queue,
            unwritten: Vec::new(),
            reserved: 0,
            facts_max,
            dirty: false,
        })
    }

    /// Begins an epoch above `epoch_before`, with these facts under new numbers.
    fn begin(
        path: &Path,
        identity: SpoolIdentity,
        epoch_before: u64,
        facts: Vec<Report>,
        facts_max: usize,
    ) -> io::Result<Self> {
        let mut queue = Queue::new(0);
        for fact in facts {
            let fact = queue.number(fact.run, fact.start, fact.at, fact.what);
            let bytes = approximate_bytes(&fact);
            queue.push(fact, bytes);
        }
        queue.assume_sent();
        let epoch = epoch_before.saturating_add(1).max(identity.wall_ms);
        let mut spool = Self {
            path: path.to_path_buf(),
            identity,
            file: OpenOptions::new().append(true).create(true).open(path)?,
            file_bytes: 0,
            epoch,
            queue,
            unwritten: Vec::new(),
            reserved: 0,
            facts_max,
            dirty: false,
        };
        spool.rewrite()?;
        Ok(spool)
    }

    /// Epoch of the numbers.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Highest number that is known to be committed.
    pub fn committed(&self) -> u64 {
        self.queue.committed()
    }

    /// Number of facts that wait for the controller.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Length of the file in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Keeps room for the end of one run. Every end gives it back.
    ///
    /// # Errors
    /// [`SpoolFull`] when too much waits; the run must not be started then.
    pub fn reserve(&mut self) -> Result<(), SpoolFull> {
        let waiting = self.queue.len();
        if waiting + self.reserved >= self.facts_max {
            return Err(SpoolFull { waiting });
        }
        self.reserved += 1;
        Ok(())
    }

    /// Adds a fact. Says whether it is in the file: where the disk takes nothing it is kept in
    /// memory, is sent all the same, and is written when the disk takes it.
    ///
    /// # Errors
    /// When the fact itself cannot be kept; the spool is as before.
    pub fn append(
        &mut self,
        run: RunId,
        start: Start,
        at: WallTime,
        what: Happened,
    ) -> Result<bool, record::EncodeError> {
        let ends = is_end(&what);
        let report = self.queue.number(run, start, at, what);
        let before = self.unwritten.len();
        record::encode(&report, &mut self.unwritten)?;
        let bytes = self.unwritten.len() - before;
        self.queue.push(report, bytes);
        if ends {
            self.reserved = self.reserved.saturating_sub(1);
        }
        Ok(self.flush())
    }

    /// Hands what waits in memory to the disk; says whether nothing is left.
    fn flush(&mut self) -> bool {
        if self.unwritten.is_empty() {
            return true;
        }
        let good_bytes = self.file_bytes;
        let written = xce_failpoint::check(Point::SpoolAppendBefore)
            .and_then(|()| self.file.write_all(&self.unwritten));
        match written {
            Ok(()) => {
                xce_failpoint::hit(Point::SpoolAppendWritten);
                let length = u64::try_from(self.unwritten.len()).unwrap_or(u64::MAX);
                self.file_bytes = good_bytes.saturating_add(length);
                self.unwritten.clear();
                self.dirty = true;
                true
            }
            Err(error) => {
                tracing::error!(error = %error, "the spool cannot be written");
                // A part may have been written: without this it would be damage in the middle.
                let _ = self.file.set_len(good_bytes);
                false
            }
        }
    }

    /// Facts after a number, oldest first, within both bounds but at least one.
    pub fn batch(&mut self, after: u64, count_max: usize, bytes_max: usize) -> Vec<Report> {
        self.queue.batch(after, count_max, bytes_max)
    }

    /// How soon the facts after a number are to be sent.
    pub fn haste(&self, after: u64) -> Haste {
        self.queue.haste(after)
    }

    /// The file, when facts were written since it was last asked for: sync it before sending them.
    ///
    /// # Errors
    /// When the handle cannot be copied.
    pub fn take_dirty(&mut self) -> io::Result<Option<File>> {
        if !self.dirty {
            return Ok(None);
        }
        let file = self.file.try_clone()?;
        self.dirty = false;
        Ok(Some(file))
    }

    /// Whether the end of a run waits here.
    pub fn has_end(&self, run: RunId) -> bool {
        self.queue.has_end(run)
    }

    /// Runs whose end waits here.
    pub fn ends(&self) -> HashMap<RunId, Report> {
        let ends = self.queue.iter().filter(|report| is_end(&report.what));
        ends.map(|report| (report.run, report.clone())).collect()
    }

    /// The controller's mark: lets go of what is committed. A mark that this spool cannot know
    /// begins a new epoch, in which everything that waits is sent anew.
    ///
    /// # Errors
    /// When the file cannot be written anew.
    pub fn committed_to(&mut self, mark: &ReportsCommitted) -> io::Result<Mark> {
        if mark.epoch < self.epoch {
            return Ok(Mark::Took(0));
        }
        xce_failpoint::hit(Point::SpoolMarkBefore);
        let outcome = if mark.epoch == self.epoch {
            self.queue.mark(mark.sequence)
        } else {
            Mark::Ahead
        };
        match outcome {
            // Written together with the next fact: until then the controller knows better.
            Mark::Took(0) => {}
            Mark::Took(_) => {
                record::encode_mark(self.queue.committed(), &mut self.unwritten);
                self.compact_if_needed()?;
            }
            Mark::Ahead => {
                let facts = self.queue.iter().cloned().collect();
                let (path, identity) = (self.path.clone(), self.identity.clone());
                let (reserved, facts_max) = (self.reserved, self.facts_max);
                *self = Self::begin(&path, identity, mark.epoch, facts, facts_max)?;
                self.reserved = reserved;
            }
        }
        xce_failpoint::hit(Point::SpoolMarkAfter);
        Ok(outcome)
    }

    fn compact_if_needed(&mut self) -> io::Result<()> {
        let needed = u64::try_from(self.queue.bytes()).unwrap_or(u64::MAX);
        if self.file_bytes < COMPACT_BYTES_MIN || needed.saturating_mul(2) > self.file_bytes {
            return Ok(());
        }
        self.rewrite()
    }

    fn rewrite(&mut self) -> io::Result<()> {
        let header = Header {
            epoch: self.epoch,
            committed: self.queue.committed(),
            incarnation: self.identity.incarnation,
            boot_id: self.identity.boot_id.clone(),
        };
        let mut bytes = Vec::with_capacity(HEADER_BYTES + self.queue.bytes());
        bytes.extend_from_slice(&header.to_bytes());
        for report in self.queue.iter() {
            record::encode(report, &mut bytes).map_err(io::Error::other)?;
        }
        let temporary = self.path.with_extension("new");
        let mut file = File::create(&temporary)?;
        file.write_all(&bytes)?;
        drop(file);
        let file = OpenOptions::new().append(true).open(&temporary)?;
        xce_failpoint::check(Point::SpoolRewriteWritten)?;
        fs::rename(&temporary, &self.path)?;
        xce_failpoint::hit(Point::SpoolRewriteRenamed);
        self.file = file;
        self.file_bytes = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.unwritten.clear();
        self.dirty = true;
        Ok(())
    }
}

fn read(path: &Path, findings: &mut Vec<String>) -> io::Result<Option<Vec<u8>>> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.len() > FILE_BYTES_MAX => {
            findings.push(format!(
                "the spool has {} bytes, more than is read",
                metadata.len()
            ));
            fs::rename(path, path.with_extension("too-large"))?;
            Ok(None)
        }
        Ok(_) => fs::read(path).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Bytes of a record that was read, near enough to decide when to compact.
fn approximate_bytes(report: &Report) -> usize {
    let texts = match &report.what {
        Happened::Started { .. }
        | Happened::Ready
        | Happened::Suspended
        | Happened::Resumed
        | Happened::RestartUnwanted => 0,
        Happened::NotReady { text }
        | Happened::LaunchFailed { text }
        | Happened::ProbeUnrunnable { text, .. }
        | Happened::RestartWanted { text, .. }
        | Happened::StopHangs { text } => text.len(),
        Happened::Restarting { exit, stderr } | Happened::Ended { exit, stderr } => {
            exit.detail.len() + stderr.len()
        }
    };
    RECORD_HEAD_BYTES + size_of::<rkyv::Archived<Report>>() + texts
}
