//! Feeds: whichever way a reader is served, it ends in the same state.

use std::sync::Arc;

use proptest::prelude::*;
use xce_host::HostRecord;
use xce_model::{ClusterTime, JobId, WallTime};
use xce_replica::JobFact;
use xce_wal::Machine;

use super::builders::*;
use super::histories::random_step;
use super::snapshots::{records, restored};
use crate::{
    Change, Cursor, EventLog, Fact, Gap, Key, Mirror, Portion, RowReader, RowWriter, Scope, View,
};

/// What a reader of a scope sees of a state, as rows: equal states give equal rows.
fn seen(view: &View, scope: &Scope) -> Vec<(Key, Change)> {
    let view = Arc::new(view.clone());
    let mut changes = Vec::new();
    let mut cursor = Cursor::new(scope.clone(), 0);
    while let Some(portion) = cursor.next(&view, |change| {
        changes.push(change);
        true
    }) {
        assert!(portion.full && !portion.more);
    }
    changes
        .into_iter()
        .map(|change| (change.key(), plain(change)))
        .collect()
}

/// Without what is no part of a feed, or is counted from what else is seen.
fn plain(change: Change) -> Change {
    match change {
        Change::Array(record) => {
            let mut record = (*record).clone();
            record.counts = Default::default();
            Change::Array(Arc::new(record))
        }
        Change::Host(record) => Change::Host(Arc::new(HostRecord {
            epoch: 0,
            sequence: 0,
            ..(*record).clone()
        })),
        Change::Job(_)
        | Change::Service(_)
        | Change::Session(_)
        | Change::Policy(_)
        | Change::Gone { .. } => change,
    }
}

/// The derived tables that placement reads, beside the rows.
fn assert_derived(mirror: &View, ledger: &View, scope: &Scope) {
    assert_eq!(mirror.pending(), ledger.pending());
    assert_eq!(mirror.requests(), ledger.requests());
    assert_eq!(mirror.delays(), ledger.delays());
    assert_eq!(mirror.usage, ledger.usage);
    for (number, array) in mirror.arrays() {
        let placed = ledger.array(*number).unwrap().counts.placed;
        assert_eq!(array.counts.placed, placed);
    }
    if *scope == Scope::All {
        assert_eq!(mirror.ended, ledger.ended);
        assert_eq!(mirror.replicas, ledger.replicas);
        assert_eq!(mirror.names, ledger.names);
        assert_eq!(mirror.arrays, ledger.arrays);
        assert_eq!(mirror.job_count, ledger.job_count);
    }
}

/// A reader that keeps a mirror, over bytes or over the records themselves.
struct Reader {
    scope: Scope,
    cursor: Cursor,
    mirror: Mirror,
    writer: RowWriter,
    reader: RowReader,
    encoded: bool,
    in_full: bool,
    told: usize,
}

impl Reader {
    fn new(scope: Scope, encoded: bool) -> Self {
        Self {
            cursor: Cursor::new(scope.clone(), 0),
            scope,
            mirror: Mirror::new(),
            writer: RowWriter::new(),
            reader: RowReader::new(),
            encoded,
            in_full: false,
            told: 0,
        }
    }

    /// The connection is lost: what the cursor knew goes with it.
    fn reconnect(&mut self) {
        self.cursor = Cursor::new(self.scope.clone(), self.mirror.lsn());
        self.writer = RowWriter::new();
        self.reader.begin();
    }

    /// Takes one portion of at most so many changes; whether there was one.
    fn step(&mut self, view: &Arc<View>, most: usize, is_lost: bool) -> bool {
        let mut changes = Vec::new();
        let told = self.cursor.next(view, |change| {
            changes.push(change);
            changes.len() < most
        });
        let Some(portion) = told else { return false };
        let Portion { full, first, .. } = portion;
        assert!(full || !first);
        self.in_full = full && portion.more;
        if is_lost {
            self.reconnect();
            return true;
        }
        if self.encoded {
            let mut bytes = Vec::new();
            for change in &changes {
                self.writer.put(&mut bytes, change);
            }
            let read = self.reader.read(&bytes).unwrap();
            let plained = changes.into_iter().map(plain);
            assert!(read.iter().cloned().map(plain).eq(plained));
            changes = read;
        }
        self.told += changes.len();
        self.mirror.take(&portion, changes);
        true
    }

    fn follow(&mut self, view: &Arc<View>, dice: &mut Dice) {
        let most = 1 + dice.roll(5) as usize;
        while self.step(view, most, dice.roll(12) == 0) {}
    }

    fn assert_equal(&self, view: &View) {
        let mirrored = self.mirror.view().expect("all portions were taken");
        assert_eq!(seen(mirrored, &self.scope), seen(view, &self.scope));
        assert_derived(mirrored, view, &self.scope);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// The equality property: readers that come and go at random, lose connections in the middle, are
    /// served deltas or full states, over a primary that is now and then another one from a snapshot,
    /// end in the state of the ledger, as one that read everything.
    #[test]
    fn every_reader_ends_in_the_state_of_the_ledger(seed: u64, steps in 1_usize..90) {
        let mut dice = Dice(seed);
        let mut bench = Bench::new();
        let mut readers = [
            Reader::new(Scope::Scheduler, false),
            Reader::new(Scope::Scheduler, true),
            Reader::new(Scope::All, true),
            Reader::new(Scope::All, false),
        ];
        let mut faithful = Reader::new(Scope::All, true);
        let mut adopted: Option<Mirror> = None;
        for step in 0..steps {
            random_step(&mut bench, &mut dice);
            if dice.roll(15) == 0 {
                let log = std::mem::take(&mut bench.log);
                bench.ledger = restored(&records(&bench.ledger)).unwrap();
                bench.log = log;
            }
            if dice.roll(20) == 0 {
                // As when history has gone.
                bench.ledger.view.changes.jobs.set_floor(bench.lsn);
            }
            let view = Arc::new(bench.view().clone());
            while faithful.step(&view, usize::MAX, false) {}
            for reader in &mut readers {
                match dice.roll(6) {
                    0 => reader.follow(&view, &mut dice),
                    // A portion now, and the rest from later views.
                    1 | 2 => {
                        let most = 1 + dice.roll(3) as usize;
                        reader.step(&view, most, dice.roll(12) == 0);
                    }
                    3 => reader.reconnect(),
                    _ => {}
                }
            }
            if step == steps / 2 {
                adopted = Some(Mirror::adopt(&view));
            }
        }
        let view = Arc::new(bench.view().clone());
        for reader in readers.iter_mut().chain([&mut faithful]) {
            let mut quiet = Dice(seed);
            reader.follow(&view, &mut quiet);
            prop_assert_eq!(reader.cursor.lsn(), view.lsn());
            reader.assert_equal(&view);
        }
        if let Some(mirror) = adopted {
            let mut shared = Reader::new(Scope::Scheduler, false);
            shared.mirror = mirror;
            shared.reconnect();
            while shared.step(&view, 3, false) {}
            shared.assert_equal(&view);
        }
    }
}

/// All changes and the portion that a reader behind a position is told at once.
fn told(view: &View, scope: Scope, after: u64) -> (Option<Portion>, Vec<Change>) {
    let mut changes = Vec::new();
    let portion = Cursor::new(scope, after).next(&Arc::new(view.clone()), |change| {
        changes.push(change);
        true
    });
    (portion, changes)
}

#[test]
fn a_delta_names_each_object_once_in_the_order_of_its_last_change() {
    let mut bench = Bench::new();
    bench.host("w1", 8);
    let first = bench.submit(job("a"));
    let second = bench.submit(job("b"));
    let after = bench.lsn;
    for run in 1..=5 {
        bench.place(first, run, "w1");
        bench.apply([Fact::Job(JobFact::Requeued {
            job: first,
            run,
            exit: exit(1),
            at: WallTime(7),
            not_before: ClusterTime(0),
            avoid: None,
            held: false,
        })]);
    }
    bench.place(second, 1, "w1");
    let (portion, changes) = told(bench.view(), Scope::Scheduler, after);
    let portion = portion.unwrap();
    assert!(!portion.full && !portion.more);
    assert_eq!(portion.lsn, bench.lsn);
    let keys: Vec<Key> = changes.iter().map(Change::key).collect();
    assert_eq!(keys, [Key::Job(first), Key::Job(second)]);
    assert!(changes[0].lsn() < changes[1].lsn());
    assert_eq!(told(bench.view(), Scope::Scheduler, bench.lsn).0, None);
}

#[test]
fn what_a_reader_does_not_see_any_more_is_gone_for_it() {
    let mut bench = Bench::new();
    bench.host("w1", 8);
    let id = bench.submit(job("a"));
    bench.place(id, 1, "w1");
    let after = bench.lsn;
    bench.apply([ended(id, 1, 0)]);
    let gone = Change::Gone {
        key: Key::Job(id),
        lsn: bench.lsn,
    };
    assert_eq!(told(bench.view(), Scope::Scheduler, after).1, [gone]);
    let other = Scope::Project(Arc::from("other"));
    assert_eq!(told(bench.view(), other, after).1, []);
    let own = Scope::Project(Arc::from("default"));
    assert_eq!(told(bench.view(), own, after).1.len(), 1);
}

#[test]
fn a_portion_may_end_within_one_position() {
    let mut bench = Bench::new();
    bench.host("w1", 8);
    let after = bench.lsn;
    let facts: Vec<_> = (0..10).map(|_| submitted(job("same"))).collect();
    bench.apply(facts);
    let view = Arc::new(bench.view().clone());
    let mut cursor = Cursor::new(Scope::All, after);
    let mut known = Vec::new();
    for _ in 0..4 {
        let mut some = Vec::new();
        let portion = cursor
            .next(&view, |change| {
                some.push(change.key());
                some.len() < 3
            })
            .unwrap();
        known.extend(some);
        // From there nothing is missed; at worst it is told again.
        assert_eq!(
            portion.lsn,
            if portion.more {
                bench.lsn - 1
            } else {
                bench.lsn
            }
        );
    }
    let all: Vec<Key> = (1..=10)
        .map(|number| Key::Job(JobId::single(number)))
        .collect();
    assert_eq!(known, all);
    assert_eq!(cursor.next(&view, |_| true), None);
}

#[test]
fn readers_from_elsewhere_get_the_full_state() {
    let mut bench = Bench::new();
    bench.host("w1", 8);
    bench.submit(job("a"));
    let ahead = told(bench.view(), Scope::All, bench.lsn + 1).0.unwrap();
    assert!(ahead.full && ahead.first && !ahead.more);
    bench.ledger.view.changes.hosts.set_floor(bench.lsn);
    let behind = told(bench.view(), Scope::All, bench.lsn - 1).0.unwrap();
    assert!(behind.full);
}

#[test]
fn many_specifications_are_forgotten_on_both_sides() {
    let mut bench = Bench::new();
    for group in 0..10 {
        let name = |number| format!("j{group}-{number}");
        bench.apply((0..500).map(|number| submitted(job(&name(number)))));
    }
    let mut reader = Reader::new(Scope::All, true);
    let view = Arc::new(bench.view().clone());
    while reader.step(&view, 700, false) {}
    reader.assert_equal(&view);
}

#[test]
fn rows_of_newer_programs_stop_the_reader_by_name() {
    let mut bench = Bench::new();
    bench.submit(job("a"));
    let (_, changes) = told(bench.view(), Scope::All, 0);
    let mut bytes = Vec::new();
    RowWriter::new().put(&mut bytes, &changes[0]);
    assert_eq!(RowReader::new().read(&bytes).unwrap(), changes);
    let mut newer = bytes.clone();
    newer[2] = 9;
    let error = RowReader::new().read(&newer).unwrap_err().to_string();
    assert!(error.contains("version 9"), "{error}");
    for length in 1..bytes.len() {
        assert!(RowReader::new().read(&bytes[..length]).is_err() || length % 16 == 0);
    }
}

#[test]
fn events_are_never_coalesced_and_a_gap_is_said() {
    let mut log = EventLog::new(5, 1000, 10);
    assert_eq!(log.since(4, 9).gap, Some(Gap { from: 4, to: 10 }));
    for lsn in 11..=14 {
        log.push(lsn, 10, format!("a{lsn}"));
        log.push(lsn, 10, format!("b{lsn}"));
    }
    // Five are kept, and a position is forgotten as a whole.
    assert_eq!(log.floor(), 12);
    assert_eq!(log.bytes(), 40);
    let all = log.since(10, 99);
    assert_eq!(all.gap, Some(Gap { from: 10, to: 12 }));
    let texts: Vec<&str> = all.events.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts, ["a13", "b13", "a14", "b14"]);
    assert_eq!(all.lsn, 14);
    // Never a part of a position.
    let some = log.since(12, 1);
    assert_eq!((some.events.len(), some.lsn, some.gap), (2, 13, None));
    assert_eq!(log.since(14, 9).events, []);
    log.push(15, 2000, "large".to_owned());
    assert_eq!((log.floor(), log.bytes()), (15, 0));
    log.restart(20);
    assert_eq!(log.since(15, 9).gap, Some(Gap { from: 15, to: 20 }));
}

#[test]
fn a_mirror_in_the_middle_of_something_shows_nothing() {
    let mut bench = Bench::new();
    bench.host("w1", 8);
    bench.submit(job("a"));
    let mut reader = Reader::new(Scope::Scheduler, true);
    let view = Arc::new(bench.view().clone());
    assert!(reader.step(&view, 1, false));
    assert!(reader.in_full);
    assert!(reader.mirror.view().is_none());
    assert_eq!(reader.mirror.lsn(), 0);
    while reader.step(&view, 1, false) {}
    assert_eq!(reader.mirror.view().unwrap().lsn(), view.lsn());
    // A snapshot later.
    let later = Machine::snapshot(&bench.ledger).count();
    assert!(later > 0);
}
