//! The segment log by itself: round trips, torn tails, damage, device errors.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tempfile::TempDir;

use super::conformance::Tally;
use super::faults::FaultyDisk;
use super::synced;
use crate::batch::BLOCK_BYTES;
use crate::record::{EntryKind, LogPosition, Record, StoredEntry, StoredVote};
use crate::recover::{Recovered, recover, remove_leftovers};
use crate::segment_log::{LogParts, SegmentLog};
use crate::spare::{SpareOptions, Spares};
use crate::{Disk, DiskMode, FileDisk, OpenError};

const CLUSTER: [u8; 16] = [3; 16];
const SEGMENT: u64 = 16 * BLOCK_BYTES as u64;

fn read(dir: &Path) -> Result<Recovered, OpenError> {
    recover(synced().as_ref(), dir, CLUSTER, 1)
}

pub(crate) fn open_log(dir: &Path, disk: Arc<dyn Disk>) -> (SegmentLog, Recovered) {
    let recovered = read(dir).unwrap();
    remove_leftovers(disk.as_ref(), dir).unwrap();
    let spares = Spares::start(SpareOptions {
        directory: dir.to_path_buf(),
        disk: Arc::clone(&disk),
        segment_bytes: SEGMENT,
        retry: Duration::from_millis(1),
    })
    .unwrap();
    let again = read(dir).unwrap();
    let parts = LogParts {
        directory: dir.to_path_buf(),
        cluster_id: CLUSTER,
        node_id: 1,
        disk,
        spares,
        marks: again.marks,
        segments: again.segments,
        segment_bytes: SEGMENT,
    };
    (SegmentLog::open(parts, again.tail).unwrap(), recovered)
}

fn at(term: u64, index: u64) -> LogPosition {
    LogPosition { term, index }
}

fn entry(index: u64, bytes: usize) -> Record {
    let payload = vec![index as u8; bytes].into();
    Record::Entry(StoredEntry {
        position: at(1, index),
        kind: EntryKind::Groups,
        payload,
    })
}

fn indexes(recovered: &Recovered) -> Vec<u64> {
    recovered
        .entries
        .iter()
        .map(|entry| entry.position.index)
        .collect()
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "seg"))
        .collect();
    paths.sort();
    paths
}

/// One entry a batch, sizes from one to three blocks.
fn fill(dir: &Path, entries: std::ops::Range<u64>) {
    let (mut log, _) = open_log(dir, synced());
    for index in entries {
        log.append(&[entry(index, 100 + (index as usize % 3) * BLOCK_BYTES)])
            .unwrap();
    }
}

#[test]
fn records_come_back_in_order_over_many_segments() {
    for mode in [DiskMode::Synced, DiskMode::Direct] {
        let dir = TempDir::new().unwrap();
        let probed = FileDisk::probe(dir.path()).unwrap().mode();
        let mode = if probed == DiskMode::Direct {
            mode
        } else {
            probed
        };
        let disk: Arc<dyn Disk> = Arc::new(FileDisk::with_mode(mode));
        for round in 0..4 {
            let (mut log, recovered) = open_log(dir.path(), Arc::clone(&disk));
            assert_eq!(indexes(&recovered), (1..=round * 50).collect::<Vec<_>>());
            for index in round * 50 + 1..=(round + 1) * 50 {
                log.append(&[entry(index, index as usize * 37 % 9000)])
                    .unwrap();
            }
        }
        let recovered = read(dir.path()).unwrap();
        assert!(recovered.segments.len() > 5, "{:?}", recovered.segments);
        for stored in &recovered.entries {
            let index = stored.position.index;
            assert_eq!(
                *stored.payload,
                vec![index as u8; index as usize * 37 % 9000]
            );
        }
        assert_eq!(recovered.torn, None);
    }
}

#[test]
fn marks_survive_in_one_ordered_stream() {
    let dir = TempDir::new().unwrap();
    let vote = StoredVote {
        term: 4,
        node: 2,
        committed: true,
    };
    {
        let (mut log, _) = open_log(dir.path(), synced());
        log.append(&(1..=20).map(|index| entry(index, 10)).collect::<Vec<_>>())
            .unwrap();
        log.append(&[Record::Vote(vote), Record::Truncate(Some(at(1, 15)))])
            .unwrap();
        log.append(&[entry(16, 10), entry(17, 10), Record::Committed(at(1, 16))])
            .unwrap();
        log.append(&[Record::Purged(at(1, 5))]).unwrap();
    }
    let recovered = read(dir.path()).unwrap();
    assert_eq!(indexes(&recovered), (6..=17).collect::<Vec<_>>());
    assert_eq!(recovered.marks.vote, Some(vote));
    assert_eq!(recovered.marks.committed, Some(at(1, 16)));
    assert_eq!(recovered.marks.purged, Some(at(1, 5)));
    assert_eq!(recovered.marks.last, Some(at(1, 17)));
}

#[test]
fn purged_segments_are_removed_and_the_rest_stands_alone() {
    let dir = TempDir::new().unwrap();
    let vote = StoredVote {
        term: 9,
        node: 1,
        committed: false,
    };
    {
        let (mut log, _) = open_log(dir.path(), synced());
        log.append(&[Record::Vote(vote)]).unwrap();
        for index in 1..=100 {
            log.append(&[entry(index, 100)]).unwrap();
        }
        log.append(&[Record::Purged(at(1, 90))]).unwrap();
        for index in 101..=110 {
            log.append(&[entry(index, 100)]).unwrap();
        }
    }
    let recovered = read(dir.path()).unwrap();
    assert_eq!(indexes(&recovered), (91..=110).collect::<Vec<_>>());
    assert_eq!(
        (recovered.marks.vote, recovered.marks.purged),
        (Some(vote), Some(at(1, 90)))
    );
    // Removal is in the background and need not have come to an end, but it starts with the oldest.
    drop(open_log(dir.path(), synced()));
    assert!(
        segments(dir.path()).len() < 12,
        "{:?}",
        segments(dir.path())
    );
}

#[test]
fn a_torn_tail_is_dropped_at_every_cut() {
    let dir = TempDir::new().unwrap();
    fill(dir.path(), 1..5);
    let path = segments(dir.path()).remove(0);
    let start = read(dir.path()).unwrap().tail.unwrap().offset;
    fill(dir.path(), 5..6);
    let end = read(dir.path()).unwrap().tail.unwrap().offset;
    assert_eq!(end - start, 3 * BLOCK_BYTES as u64);
    let whole = std::fs::read(&path).unwrap();
    let used = start + 64 + 24 + 100 + 2 * BLOCK_BYTES as u64;
    for cut in (start..end).filter(|cut| cut % 61 == 0 || cut - start < 200) {
        for filler in [0, 0xAA] {
            let mut bytes = whole.clone();
            bytes[cut as usize..end as usize].fill(filler);
            std::fs::write(&path, &bytes).unwrap();
            let recovered = read(dir.path()).unwrap();
            let kept = cut >= used && filler == 0;
            let last = if kept { 5 } else { 4 };
            assert_eq!(
                indexes(&recovered),
                (1..=last).collect::<Vec<_>>(),
                "{cut} {filler}"
            );
            let torn = bytes[start as usize..].iter().any(|byte| *byte != 0) && !kept;
            assert_eq!(recovered.torn.is_some(), torn, "cut at {cut} with {filler}");
            let again = read(dir.path()).unwrap();
            assert_eq!((again.entries, again.torn), (recovered.entries, None));
        }
    }
    fill(dir.path(), 5..9);
    assert_eq!(
        indexes(&read(dir.path()).unwrap()),
        (1..9).collect::<Vec<_>>()
    );
}

#[test]
fn blocks_of_the_last_batch_may_arrive_in_any_order() {
    let dir = TempDir::new().unwrap();
    fill(dir.path(), 1..6);
    let path = segments(dir.path()).remove(0);
    let end = read(dir.path()).unwrap().tail.unwrap().offset as usize;
    let whole = std::fs::read(&path).unwrap();
    for missing in 1..8_usize {
        let mut bytes = whole.clone();
        for block in (0..3).filter(|block| missing >> block & 1 == 1) {
            let from = end - (3 - block) * BLOCK_BYTES;
            bytes[from..from + BLOCK_BYTES].fill(0);
        }
        let changed = bytes != whole;
        std::fs::write(&path, &bytes).unwrap();
        let expected = if changed { 5 } else { 6 };
        assert_eq!(
            indexes(&read(dir.path()).unwrap()),
            (1..expected).collect::<Vec<_>>()
        );
    }
}

/// Flips a bit of every `step`th byte of `path` below `end`; what is read then must be either a
/// refusal that names file and offset or everything that was written.
/// One bit of each byte, which one depends on the turn: eight turns flip all.
fn flip_bits(
    dir: &Path,
    path: &Path,
    end: u64,
    (step, turn): (u64, u64),
    expected: u64,
) -> (u32, u32) {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let (mut refused, mut harmless) = (0, 0);
    for offset in (0..end).step_by(step as usize) {
        let mut byte = [0];
        file.read_exact_at(&mut byte, offset).unwrap();
        let flipped = [byte[0] ^ 1 << ((offset + turn) % 8)];
        file.write_all_at(&flipped, offset).unwrap();
        match read(dir) {
            Ok(recovered) => {
                assert_eq!(
                    indexes(&recovered),
                    (1..=expected).collect::<Vec<_>>(),
                    "{offset}"
                );
                harmless += 1;
            }
            Err(OpenError::Damage(damage)) => {
                assert_eq!(damage.file, path, "{damage}");
                assert!(damage.offset <= offset, "{damage}, flipped at {offset}");
                assert!(
                    offset - damage.offset < 3 * BLOCK_BYTES as u64,
                    "{damage} at {offset}"
                );
                refused += 1;
            }
            Err(other) => panic!("flip at {offset}: {other}"),
        }
        file.write_all_at(&byte, offset).unwrap();
    }
    (refused, harmless)
}

#[test]
fn a_flipped_bit_in_the_acknowledged_part_never_loses_anything_silently() {
    let dir = TempDir::new().unwrap();
    fill(dir.path(), 1..5);
    let (mut log, _) = open_log(dir.path(), synced());
    log.append(&[]).unwrap();
    drop(log);
    let path = segments(dir.path()).remove(0);
    let end = read(dir.path()).unwrap().tail.unwrap().offset;
    let watermark = BLOCK_BYTES as u64;
    let tally = Tally::begin(1);
    let mut cases = 0;
    for turn in tally.seeds() {
        let (refused, harmless) = flip_bits(dir.path(), &path, end - watermark, (1, turn), 4);
        // Only the unused rest of the segment's header block is not covered by a checksum.
        assert!(
            harmless <= BLOCK_BYTES as u32,
            "{harmless} harmless, {refused} refused"
        );
        let acknowledged = (end - watermark) as u32;
        assert_eq!(refused + harmless, acknowledged);
        cases += u64::from(acknowledged);
    }
    tally.report("bit flips, log", cases);
}

#[test]
fn a_flipped_bit_in_an_older_segment_is_refused_by_name() {
    let dir = TempDir::new().unwrap();
    fill(dir.path(), 1..20);
    let paths = segments(dir.path());
    assert!(paths.len() > 2);
    let end = SEGMENT;
    let tally = Tally::begin(7);
    let mut cases = 0;
    for turn in tally.seeds() {
        let (refused, harmless) = flip_bits(dir.path(), &paths[1], end, (tally.stride(), turn), 19);
        assert!(refused > 1000, "{refused}");
        cases += u64::from(refused + harmless);
    }
    tally.report("bit flips, older segment", cases);
}

#[test]
fn a_missing_segment_is_noticed_wherever_it_was() {
    for lost in 0..3 {
        let dir = TempDir::new().unwrap();
        fill(dir.path(), 1..16);
        let paths = segments(dir.path());
        assert_eq!(paths.len(), 3, "{paths:?}");
        std::fs::remove_file(&paths[lost]).unwrap();
        let error = read(dir.path()).unwrap_err();
        assert!(matches!(error, OpenError::Damage(_)), "{error}");
        assert!(error.to_string().contains("missing"), "{error}");
    }
}

#[test]
fn a_segment_that_is_cut_short_is_refused() {
    let dir = TempDir::new().unwrap();
    fill(dir.path(), 1..16);
    for len in [0, 50, 5 * BLOCK_BYTES as u64] {
        let path = &segments(dir.path())[1];
        let whole = std::fs::read(path).unwrap();
        File::options()
            .write(true)
            .open(path)
            .unwrap()
            .set_len(len)
            .unwrap();
        let error = read(dir.path()).unwrap_err();
        assert!(
            matches!(&error, OpenError::Damage(damage) if damage.file == *path),
            "{error}"
        );
        std::fs::write(path, whole).unwrap();
    }
}

#[test]
fn the_first_error_poisons_the_log() {
    for sync in [false, true] {
        let dir = TempDir::new().unwrap();
        let (disk, faults) = FaultyDisk::with_faults();
        let (mut log, _) = open_log(dir.path(), disk);
        log.append(&[entry(1, 10)]).unwrap();
        let nth = if sync {
            &faults.fail_sync
        } else {
            &faults.fail_write
        };
        let done = if sync { &faults.syncs } else { &faults.writes };
        nth.store(done.load(Ordering::SeqCst), Ordering::SeqCst);
        assert!(log.append(&[entry(2, 10)]).is_err());
        let calls = (
            faults.writes.load(Ordering::SeqCst),
            faults.syncs.load(Ordering::SeqCst),
        );
        let error = log.append(&[entry(2, 10)]).unwrap_err().to_string();
        assert!(
            error.contains("injected") && error.contains(".seg failed at"),
            "{error}"
        );
        let after = (
            faults.writes.load(Ordering::SeqCst),
            faults.syncs.load(Ordering::SeqCst),
        );
        assert_eq!(calls, after, "nothing is retried");
        drop(log);
        assert_eq!(indexes(&read(dir.path()).unwrap()), [1]);
    }
}

#[test]
fn short_writes_are_continued() {
    let dir = TempDir::new().unwrap();
    let (disk, faults) = FaultyDisk::with_faults();
    faults.short_writes.store(true, Ordering::SeqCst);
    let (mut log, _) = open_log(dir.path(), disk);
    for index in 1..=10 {
        log.append(&[entry(index, 3 * BLOCK_BYTES)]).unwrap();
    }
    drop(log);
    assert_eq!(
        indexes(&read(dir.path()).unwrap()),
        (1..=10).collect::<Vec<_>>()
    );
}

#[test]
fn a_newer_segment_format_is_refused_by_name() {
    let dir = TempDir::new().unwrap();
    fill(dir.path(), 1..2);
    let path = segments(dir.path()).remove(0);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[8] = 2;
    let crc = crc32c::crc32c(&bytes[..68]);
    bytes[68..72].copy_from_slice(&crc.to_le_bytes());
    std::fs::write(&path, bytes).unwrap();
    let error = read(dir.path()).unwrap_err();
    assert!(
        matches!(
            error,
            OpenError::Newer {
                found: 2,
                known: 1,
                ..
            }
        ),
        "{error}"
    );
}
