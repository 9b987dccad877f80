use xce_model::JobId;
use xce_wal::{Machine, SnapshotError};

use super::builders::*;
use crate::envelope;
use crate::snapshot::SPEC;
use crate::{Ledger, audit};

pub(super) fn records(ledger: &Ledger) -> Vec<Vec<u8>> {
    Machine::snapshot(ledger).collect()
}

pub(super) fn restored(records: &[Vec<u8>]) -> Result<Ledger, SnapshotError> {
    let mut ledger = Ledger::new(Box::new(|_, _| {}));
    ledger.restore(&mut records.iter().cloned().map(Ok))?;
    Ok(ledger)
}

fn kinds(records: &[Vec<u8>]) -> Vec<u16> {
    let kind = |record: &Vec<u8>| envelope::take(&mut record.as_slice()).unwrap().kind;
    records.iter().map(kind).collect()
}

fn filled() -> Bench {
    let mut bench = Bench::new();
    bench.host("w1", 8);
    let service = bench.service("web", 2);
    bench.apply([replicas(service, 1, &[0, 1])]);
    bench.submit(array(&[(0, 9)], Some(3)));
    bench.place(JobId::single(1), 1, "w1");
    bench.place(JobId::element(3, 4), 1, "w1");
    bench
}

#[test]
fn equal_specifications_are_written_once() {
    let mut bench = filled();
    for _ in 0..600 {
        bench.submit(job("same"));
    }
    bench.submit(job("other"));
    bench.submit(job("same"));
    let records = records(&bench.ledger);
    let specs = kinds(&records)
        .iter()
        .filter(|kind| **kind == SPEC.kind)
        .count();
    assert_eq!(specs, 4, "of web, array, same, other");
    let ledger = restored(&records).unwrap();
    assert_eq!(ledger.view(), bench.view());
    assert_eq!(audit(ledger.view()), []);
}

#[test]
fn a_snapshot_is_written_in_the_form_of_the_level() {
    let mut bench = filled();
    let version = |records: &[Vec<u8>]| records[0][2];
    let old = records(&bench.ledger);
    assert_eq!(version(&old), 1);
    assert_eq!(restored(&old).unwrap().view(), bench.view());
    bench.apply([crate::MemberFact::LevelRaised { level: 2 }.into()]);
    let epoch = super::samples::epoch();
    bench.apply([crate::MemberFact::BeganAnew {
        epoch: epoch.clone(),
    }
    .into()]);
    let new = records(&bench.ledger);
    assert_eq!(version(&new), 2);
    let ledger = restored(&new).unwrap();
    assert_eq!(ledger.view(), bench.view());
    assert_eq!(
        (ledger.view().level(), ledger.view().epochs()),
        (2, &[epoch][..])
    );
}

#[test]
fn numbers_and_positions_of_the_lost_time_are_never_given_again() {
    let mut bench = filled();
    let before = bench.view().clone();
    let mut epoch = super::samples::epoch();
    epoch.at = before.lsn() + 1000;
    epoch.jobs = (before.last_job, before.last_job + 500);
    epoch.services = (before.last_service, before.last_service + 50);
    bench.apply([crate::MemberFact::BeganAnew {
        epoch: epoch.clone(),
    }
    .into()]);
    let job = bench.submit(job("after"));
    assert_eq!(job, JobId::single(before.last_job + 501));
    assert_eq!(bench.service("after", 0).0, before.last_service + 51);
    // Whoever read a position of the lost time reads everything.
    let changes = &bench.view().changes().jobs;
    assert!(changes.since(epoch.at - 1).is_err());
    assert!(changes.since(epoch.at).is_ok());
    assert!(epoch.may_have_lost_job(before.last_job + 500));
    assert!(!epoch.may_have_lost_job(before.last_job + 501));
    assert!(!epoch.may_have_lost_job(before.last_job));
    // The same beginning again changes nothing.
    let ignored = bench.view().ignored();
    bench.apply([crate::MemberFact::BeganAnew { epoch }.into()]);
    assert_eq!(bench.view().ignored(), ignored + 1);
}

#[test]
fn the_snapshot_is_of_the_moment_it_was_made() {
    let mut bench = filled();
    let before = records(&bench.ledger);
    let made = Machine::snapshot(&bench.ledger);
    bench.submit(job("later"));
    assert_eq!(made.collect::<Vec<_>>(), before);
}

#[test]
fn a_cleared_ledger_is_as_a_new_one() {
    let mut bench = filled();
    Machine::clear(&mut bench.ledger);
    let new = Ledger::new(Box::new(|_, _| {}));
    assert_eq!(bench.view(), new.view());
    assert_eq!(*bench.ledger.reader().view(), *new.view());
}

#[test]
fn damaged_snapshots_are_refused_by_name_and_change_nothing() {
    let bench = filled();
    let good = records(&bench.ledger);
    let mut target = Bench::new();
    target.host("w9", 1);
    let before = target.view().clone();
    let mut try_restore = |records: Vec<Vec<u8>>, expected: &str| {
        let result = target.ledger.restore(&mut records.into_iter().map(Ok));
        let text = result.unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
        assert_eq!(*target.ledger.view(), before);
    };
    try_restore(Vec::new(), "it announces None");
    try_restore(good[1..].to_vec(), "stands where snapshot head is due");
    try_restore(good[..good.len() - 3].to_vec(), "it announces");
    let mut newer = good.clone();
    newer[1][2] = 9;
    try_restore(
        newer,
        "specification has version 9, this program reads up to 1",
    );
    let mut unknown = good.clone();
    unknown[1][0] = 200;
    try_restore(unknown, "record kind 200 version 1 is unknown");
    let mut flipped = good.clone();
    flipped[1][40] ^= 1;
    try_restore(flipped, "checksum differs");
    let mut short = good.clone();
    short[1].truncate(20);
    try_restore(short, "a record ends after");
    let mut layout = good.clone();
    layout[1][5] ^= 1;
    try_restore(layout, "built from other sources");
    let without_spec = good
        .iter()
        .zip(kinds(&good))
        .filter(|(_, kind)| *kind != SPEC.kind);
    try_restore(
        without_spec.map(|(record, _)| record.clone()).collect(),
        "did not come before it",
    );
}
