//! The committed log and what it adds up to; what is proposed and not yet committed.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use xce_ledger::{Group, Key, Ledger, Outcome, View};
use xce_wal::{Machine, Position};

use crate::consensus::LogId;
use crate::controller::ActorKey;

/// Who waits for a group: an actor in one of its incarnations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposer {
    pub key: ActorKey,
    pub incarnation: u64,
}

/// A group on its way to the disk.
#[derive(Debug)]
pub struct Proposal {
    pub group: Group,
    pub from: Option<Proposer>,
}

/// A group that was committed, and what became of it.
#[derive(Debug)]
pub struct Entry {
    pub at: Position,
    pub group: Group,
    pub applied: bool,
}

type Touched = Arc<Mutex<Vec<Key>>>;

pub struct Log {
    ledger: Ledger,
    touched: Touched,
    pub queue: VecDeque<Proposal>,
    /// Whether what waits is about to be taken.
    pub commit_due: bool,
    pub entries: Vec<Entry>,
    pub lsn: u64,
    pub term: u64,
    /// A snapshot with the number of entries that it holds.
    snapshot: (Vec<Vec<u8>>, usize),
}

impl Log {
    pub fn new() -> Self {
        let (ledger, touched) = empty();
        Self {
            ledger,
            touched,
            queue: VecDeque::new(),
            commit_due: false,
            entries: Vec::new(),
            lsn: 0,
            term: 1,
            snapshot: (Vec::new(), 0),
        }
    }

    /// The state as published: what actors read.
    pub fn view(&self) -> Arc<View> {
        self.ledger.reader().view()
    }

    /// The state with all that was applied.
    pub fn applied(&self) -> &View {
        self.ledger.view()
    }

    /// Begins the entry of a place in the log of several controllers.
    pub fn begin_at(&mut self, id: LogId) {
        (self.lsn, self.term) = (id.index, id.term);
    }

    /// Applies one group of the entry, and keeps no record of it.
    pub fn apply_quietly(&mut self, sub: u32, group: &Group) -> Outcome {
        let at = Position {
            term: self.term,
            lsn: self.lsn,
            sub,
        };
        self.ledger.commit(at, group)
    }

    /// The state as the records of a snapshot.
    pub fn records(&self) -> Vec<Vec<u8>> {
        self.ledger.snapshot().collect()
    }

    /// Checksum of the whole state.
    pub fn digest(&self) -> u32 {
        let records = self.ledger.snapshot();
        records.fold(0, |sum, record| crc32c::crc32c_append(sum, &record))
    }

    /// The state becomes that of a snapshot.
    pub fn restore(&mut self, records: &[Vec<u8>], last: LogId) {
        let mut records = records.iter().cloned().map(Ok);
        self.ledger
            .restore(&mut records)
            .expect("a snapshot can be read");
        self.begin_at(last);
        // Nobody is told: whoever begins to reign looks at everything.
        drop(self.publish());
    }

    /// Begins the next entry.
    pub fn begin_entry(&mut self) {
        self.lsn += 1;
    }

    /// Applies one group of the entry.
    pub fn apply(&mut self, sub: u32, group: Group) -> Outcome {
        let at = Position {
            term: self.term,
            lsn: self.lsn,
            sub,
        };
        let outcome = self.ledger.commit(at, &group);
        let applied = matches!(outcome, Outcome::Applied(_));
        self.entries.push(Entry { at, group, applied });
        outcome
    }

    /// Publishes the entry and gives the keys that changed.
    pub fn publish(&mut self) -> Vec<Key> {
        self.ledger.publish(self.lsn, self.term);
        std::mem::take(&mut *self.touched.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Checksum of the bytes of all groups.
    pub fn checksum(&self) -> u32 {
        let mut sum = 0;
        for entry in &self.entries {
            sum = crc32c::crc32c_append(sum, &entry.group.encode());
        }
        sum
    }

    /// Takes a snapshot of what is published.
    pub fn take_snapshot(&mut self) {
        self.snapshot = (self.ledger.snapshot().collect(), self.entries.len());
    }

    /// What a controller that starts finds: the snapshot and the groups after it, as bytes. It must
    /// be what was there before.
    pub fn restart(&mut self) {
        let (mut ledger, touched) = empty();
        let (records, from) = &self.snapshot;
        if !records.is_empty() {
            let mut records = records.iter().cloned().map(Ok);
            ledger
                .restore(&mut records)
                .expect("a snapshot can be read");
        }
        for entry in &self.entries[*from..] {
            let outcome = ledger.apply(entry.at, &entry.group.encode());
            let applied = matches!(outcome, Outcome::Applied(_));
            assert_eq!(applied, entry.applied, "a restart decides otherwise");
            ledger.publish(entry.at.lsn, entry.at.term);
        }
        ledger.publish(self.lsn, self.ledger.view().term());
        let difference = differs(&self.ledger, &ledger);
        assert!(
            difference.is_none(),
            "a restart gives another state: {difference:?}"
        );
        touched
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
        (self.ledger, self.touched) = (ledger, touched);
        self.term += 1;
    }
}

fn empty() -> (Ledger, Touched) {
    let touched = Touched::default();
    let told = Arc::clone(&touched);
    let ledger = Ledger::new(Box::new(move |_, keys| {
        let mut all = told.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend_from_slice(keys);
    }));
    (ledger, touched)
}

/// What of two states differs first, for a message.
fn differs(before: &Ledger, after: &Ledger) -> Option<String> {
    let (one, other) = (before.view(), after.view());
    for (id, job) in one.jobs() {
        if other.job(*id) != Some(job) {
            return Some(format!("{job:?} and {:?}", other.job(*id)));
        }
    }
    for (id, service) in one.services() {
        if other.service(*id) != Some(service) {
            return Some(format!("{service:?} and {:?}", other.service(*id)));
        }
    }
    for (name, host) in one.hosts() {
        if other.host(name) != Some(host) {
            return Some(format!("{host:?} and {:?}", other.host(name)));
        }
    }
    if one.clock() != other.clock() || one.ignored() != other.ignored() {
        return Some(format!(
            "{:?} {} and {:?} {}",
            one.clock(),
            one.ignored(),
            other.clock(),
            other.ignored()
        ));
    }
    let (one, other): (Vec<_>, Vec<_>) = (before.snapshot().collect(), after.snapshot().collect());
    let place = one.iter().zip(&other).position(|(one, other)| one != other);
    match (place, one.len() == other.len()) {
        (None, true) => None,
        (place, _) => Some(format!(
            "record {place:?} of {} and {}: {:?}, {:?}",
            one.len(),
            other.len(),
            place.map(|place| &one[place]),
            place.map(|place| &other[place])
        )),
    }
}
