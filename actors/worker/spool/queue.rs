//! What waits for the controller: facts in the order of their numbers. Pure.
//!
//! Levels of one run replace each other while they were never sent, so a controller that is away
//! for long makes nothing grow but the number of ends. What was sent once is never taken back:
//! the controller may have it already.

use std::collections::{BTreeMap, HashMap};

use xce_model::{Start, WallTime};
use xce_replica::ProbeRole;
use xce_replica::wire::{Happened, Report, RunId};

/// Facts of one run that say the same kind of thing; a later one makes an unsent one needless.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Level {
    Started,
    Readiness,
    Restarting,
    Suspension,
    Unrunnable(ProbeRole),
    Wish,
    Hanging,
}

impl Level {
    /// The level of a fact; an end has none, since ends never go.
    fn of(what: &Happened) -> Option<Self> {
        match what {
            Happened::Started { .. } => Some(Self::Started),
            Happened::Ready | Happened::NotReady { .. } => Some(Self::Readiness),
            Happened::Restarting { .. } => Some(Self::Restarting),
            Happened::Suspended | Happened::Resumed => Some(Self::Suspension),
            Happened::ProbeUnrunnable { role, .. } => Some(Self::Unrunnable(*role)),
            Happened::RestartWanted { .. } | Happened::RestartUnwanted => Some(Self::Wish),
            Happened::StopHangs { .. } => Some(Self::Hanging),
            Happened::Ended { .. } | Happened::LaunchFailed { .. } => None,
        }
    }
}

/// Whether a fact is the last one of its run.
pub fn is_end(what: &Happened) -> bool {
    Level::of(what).is_none()
}

/// Facts that are not known to be committed.
#[derive(Debug, Default)]
pub struct Queue {
    committed: u64,
    next: u64,
    /// Highest number that was ever handed out to be sent.
    sent: u64,
    waiting: BTreeMap<u64, (Report, usize)>,
    unsent: HashMap<(RunId, Level), u64>,
    ends: HashMap<RunId, u64>,
    bytes: usize,
}

/// What a mark of the controller led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mark {
    /// So many facts have left.
    Took(usize),
    /// The mark is ahead of everything that was ever numbered here.
    Ahead,
}

/// How soon facts are to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Haste {
    /// There are none.
    Nothing,
    /// They only say that runs have started: what follows from that can wait a moment, and the end
    /// of a short run may come along.
    Soon,
    /// Somebody waits for them.
    AtOnce,
}

impl Queue {
    /// A queue whose facts up to `committed` are committed.
    pub fn new(committed: u64) -> Self {
        Self {
            committed,
            next: committed + 1,
            sent: committed,
            ..Self::default()
        }
    }

    /// Highest number that is known to be committed.
    pub fn committed(&self) -> u64 {
        self.committed
    }

    /// Whether no fact waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Number of facts that wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Bytes of the records of the facts that wait.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gives the next fact its number.
    pub fn number(&self, run: RunId, start: Start, at: WallTime, what: Happened) -> Report {
        Report {
            sequence: self.next,
            run,
            start,
            at,
            what,
        }
    }

    /// Takes in a numbered fact whose record has so many bytes. Older numbers are passed over.
    pub fn push(&mut self, report: Report, bytes: usize) {
        if report.sequence < self.next {
            return;
        }
        self.next = report.sequence + 1;
        match Level::of(&report.what) {
            Some(level) => {
                let key = (report.run, level);
                if let Some(replaced) = self.unsent.insert(key, report.sequence)
                    && let Some((_, replaced_bytes)) = self.waiting.remove(&replaced)
                {
                    self.bytes -= replaced_bytes;
                }
            }
            None => {
                self.ends.insert(report.run, report.sequence);
            }
        }
        self.bytes += bytes;
        self.waiting.insert(report.sequence, (report, bytes));
    }

    /// Counts everything as sent: whoever wrote it before may have sent it.
    pub fn assume_sent(&mut self) {
        self.sent = self.next - 1;
        self.unsent.clear();
    }

    /// Facts after a number, oldest first, within both bounds but at least one.
    pub fn batch(&mut self, after: u64, count_max: usize, bytes_max: usize) -> Vec<Report> {
        let mut batch = Vec::new();
        let mut total = 0;
        for (report, bytes) in self.waiting.range(after + 1..).map(|(_, entry)| entry) {
            total += bytes;
            if !batch.is_empty() && (total > bytes_max || batch.len() >= count_max) {
                break;
            }
            batch.push(report.clone());
        }
        for report in batch.iter().filter(|report| report.sequence > self.sent) {
            if let Some(level) = Level::of(&report.what) {
                self.unsent.remove(&(report.run, level));
            }
        }
        if let Some(last) = batch.last() {
            self.sent = self.sent.max(last.sequence);
        }
        batch
    }

    /// How soon the facts after a number are to be sent.
    pub fn haste(&self, after: u64) -> Haste {
        let mut haste = Haste::Nothing;
        for (report, _) in self.waiting.range(after + 1..).map(|(_, entry)| entry) {
            if !matches!(report.what, Happened::Started { .. }) {
                return Haste::AtOnce;
            }
            haste = Haste::Soon;
        }
        haste
    }

    /// Lets go of what is committed. Nothing changes when the mark is ahead.
    pub fn mark(&mut self, sequence: u64) -> Mark {
        if sequence >= self.next {
            return Mark::Ahead;
        }
        let mut took = 0;
        while let Some(entry) = self.waiting.first_entry()
            && *entry.key() <= sequence
        {
            let (number, (report, bytes)) = entry.remove_entry();
            self.bytes -= bytes;
            took += 1;
            match Level::of(&report.what) {
                Some(level) => {
                    let key = (report.run, level);
                    if self.unsent.get(&key) == Some(&number) {
                        self.unsent.remove(&key);
                    }
                }
                None => {
                    if self.ends.get(&report.run) == Some(&number) {
                        self.ends.remove(&report.run);
                    }
                }
            }
        }
        self.committed = self.committed.max(sequence);
        self.sent = self.sent.max(sequence);
        Mark::Took(took)
    }

    /// Whether an end of this run waits.
    pub fn has_end(&self, run: RunId) -> bool {
        self.ends.contains_key(&run)
    }

    /// Facts that wait, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Report> {
        self.waiting.values().map(|(report, _)| report)
    }
}
