//! The disk of a simulated controller: one stream of records that is written, and later synced.
//!
//! A power cut loses what was not synced from some record on, and may tear the first one that is lost;
//! a process that dies loses nothing. A record that rots below later ones is damage, never a torn end.

use std::sync::Arc;

use super::{Entry, Found, Record, Snapshot};
use crate::dice::Dice;

#[derive(Debug, Default)]
pub struct Disk {
    records: Vec<(u64, Record)>,
    /// Number of the last record of the present process that is synced.
    pub synced: u64,
    /// Records that were written and not synced.
    unsynced: usize,
    /// The two newest snapshots, oldest first; the newest may have rotted.
    snapshots: Vec<Arc<Snapshot>>,
    rotten_snapshot: bool,
    /// The place of a record that rotted.
    rotten: Option<usize>,
    pub full: bool,
    /// The next sync fails.
    pub fails: bool,
}

/// The log cannot be trusted: it is set aside.
#[derive(Debug)]
pub struct Damaged;

impl Disk {
    pub fn write(&mut self, number: u64, record: Record) {
        if let Record::Install(snapshot) = &record {
            self.keep(Arc::clone(snapshot));
        }
        self.records.push((number, record));
        self.unsynced += 1;
    }

    /// All that was written up to a number is synced.
    pub fn sync(&mut self, upto: u64) {
        self.synced = self.synced.max(upto);
        let later = self.records.iter().rev();
        self.unsynced = later.take_while(|(number, _)| *number > upto).count();
        self.unsynced = self.unsynced.min(self.records.len());
    }

    /// A snapshot is kept with the one before it; the log below the older one may go.
    pub fn keep(&mut self, snapshot: Arc<Snapshot>) -> u64 {
        if self
            .snapshots
            .last()
            .is_none_or(|last| last.last < snapshot.last)
        {
            self.snapshots.push(snapshot);
            // What rotted is replaced sooner or later.
            self.rotten_snapshot = false;
        }
        while self.snapshots.len() > 2 {
            self.snapshots.remove(0);
        }
        self.snapshots.first().map_or(0, |older| older.last.index)
    }

    /// The process ends; a power cut loses what is not synced from some place on.
    pub fn end(&mut self, power: bool, dice: &mut Dice) -> bool {
        let mut lost = 0;
        if power && self.unsynced > 0 {
            lost = dice.place(self.unsynced + 1);
            self.records.truncate(self.records.len() - lost);
        }
        for (number, _) in &mut self.records {
            *number = 0;
        }
        (self.unsynced, self.synced) = (0, 0);
        lost > 0
    }

    /// A byte flips in a record that later ones say was synced.
    pub fn rot(&mut self, dice: &mut Dice) -> bool {
        let synced = self.records.len() - self.unsynced;
        if synced < 2 || self.rotten.is_some() {
            return false;
        }
        self.rotten = Some(dice.place(synced - 1));
        true
    }

    /// A byte flips in the newest snapshot.
    pub fn rot_snapshot(&mut self) -> bool {
        let can = self.snapshots.len() == 2 && !self.rotten_snapshot;
        self.rotten_snapshot |= can;
        can
    }

    /// What a process that starts finds.
    ///
    /// `cuts` is the fault of cutting the log where the damage is.
    pub fn recover(&mut self, cuts: bool) -> Result<Found, Damaged> {
        if let Some(place) = self.rotten {
            if !cuts {
                return Err(Damaged);
            }
            self.records.truncate(place);
            self.rotten = None;
        }
        if self.rotten_snapshot {
            // The older one and the log above it give the same.
            let installed = self.snapshots.last().is_some_and(|newest| {
                self.records.iter().any(
                    |(_, record)| matches!(record, Record::Install(one) if one.last == newest.last),
                )
            });
            if installed {
                return Err(Damaged);
            }
            self.snapshots.pop();
            self.rotten_snapshot = false;
        }
        let mut found = Found::default();
        let mut log: Vec<Arc<Entry>> = Vec::new();
        for (_, record) in &self.records {
            match record {
                Record::Vote(term, voted) => (found.term, found.voted) = (*term, *voted),
                Record::Append(entry) => log.push(Arc::clone(entry)),
                Record::Truncate(from) => log.retain(|entry| entry.id.index < *from),
                Record::Install(snapshot) => {
                    let last = snapshot.last;
                    let goes_on = log.iter().any(|entry| entry.id == last);
                    log.retain(|entry| goes_on && entry.id.index > last.index);
                }
            }
        }
        // A snapshot whose installation was lost stands for nothing that the log does not hold.
        let base = log.first().map(|entry| entry.id.index);
        let fits =
            |snapshot: &&Arc<Snapshot>| base.is_none_or(|base| snapshot.last.index + 1 >= base);
        found.snapshot = self.snapshots.iter().rev().find(fits).map(Arc::clone);
        let from = found.snapshot.as_ref().map_or(0, |one| one.last.index);
        log.retain(|entry| entry.id.index > from);
        found.log = log;
        Ok(found)
    }
}
