use proptest::prelude::*;
use xce_model::{Cause, Exit, JobId};

use super::*;

fn identity() -> SpoolIdentity {
    SpoolIdentity {
        incarnation: Incarnation([7; 16]),
        boot_id: "boot".to_owned(),
        wall_ms: 1_000,
    }
}

fn open(path: &Path) -> (Spool, Vec<String>) {
    Spool::open(path, identity(), 1_000).unwrap()
}

fn run(number: u64) -> RunId {
    RunId {
        job: JobId::single(number),
        run: 1,
    }
}

fn ended() -> Happened {
    Happened::Ended {
        exit: Exit::of(Cause::Exited),
        stderr: String::new(),
    }
}

fn put(spool: &mut Spool, number: u64, what: Happened) {
    assert!(spool.append(run(number), 1, WallTime(0), what).unwrap());
}

fn sequences(spool: &mut Spool) -> Vec<u64> {
    spool
        .batch(0, 1_000, usize::MAX)
        .iter()
        .map(|report| report.sequence)
        .collect()
}

fn mark(spool: &Spool, sequence: u64) -> ReportsCommitted {
    ReportsCommitted {
        epoch: spool.epoch(),
        sequence,
    }
}

#[test]
fn only_starts_may_wait_a_moment() {
    let dir = tempfile::tempdir().unwrap();
    let (mut spool, _) = open(&dir.path().join("spool"));
    assert_eq!(spool.haste(0), Haste::Nothing);
    put(&mut spool, 1, Happened::Started { pid: 7 });
    put(&mut spool, 2, Happened::Started { pid: 8 });
    assert_eq!(spool.haste(0), Haste::Soon);
    assert_eq!(spool.haste(2), Haste::Nothing);
    put(&mut spool, 1, ended());
    for (sent, haste) in [(0, Haste::AtOnce), (2, Haste::AtOnce), (3, Haste::Nothing)] {
        assert_eq!(spool.haste(sent), haste, "after {sent}");
    }
    put(&mut spool, 3, Happened::Started { pid: 9 });
    assert_eq!(spool.haste(3), Haste::Soon);
}

#[test]
fn facts_come_back_and_leave_when_committed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("spool");
    let (mut spool, findings) = open(&path);
    assert!(findings.is_empty());
    for number in 1..=3 {
        put(&mut spool, number, ended());
    }
    let epoch = spool.epoch();
    let to = mark(&spool, 2);
    assert_eq!(spool.committed_to(&to).unwrap(), Mark::Took(2));
    put(&mut spool, 4, ended());
    drop(spool);
    let (mut spool, findings) = open(&path);
    assert!(findings.is_empty(), "{findings:?}");
    assert_eq!((spool.epoch(), spool.committed()), (epoch, 2));
    assert_eq!(sequences(&mut spool), [3, 4]);
    assert!(spool.has_end(run(4)) && !spool.has_end(run(1)));
}

#[test]
fn unsent_levels_replace_each_other_and_ends_never_go() {
    let dir = tempfile::tempdir().unwrap();
    let (mut spool, _) = open(&dir.path().join("spool"));
    put(&mut spool, 1, Happened::Started { pid: 1 });
    for _ in 0..50 {
        put(&mut spool, 1, Happened::Ready);
        put(
            &mut spool,
            1,
            Happened::NotReady {
                text: "x".to_owned(),
            },
        );
    }
    put(&mut spool, 2, Happened::Ready);
    put(&mut spool, 1, ended());
    assert_eq!(spool.waiting(), 4);
    // Handed out once: what comes now stands beside it.
    assert_eq!(sequences(&mut spool).len(), 4);
    put(
        &mut spool,
        2,
        Happened::NotReady {
            text: "x".to_owned(),
        },
    );
    put(&mut spool, 2, Happened::Ready);
    assert_eq!(spool.waiting(), 5);
}

#[test]
fn room_is_kept_for_ends() {
    let dir = tempfile::tempdir().unwrap();
    let (mut spool, _) = Spool::open(&dir.path().join("spool"), identity(), 3).unwrap();
    for _ in 0..3 {
        spool.reserve().unwrap();
    }
    assert_eq!(spool.reserve(), Err(SpoolFull { waiting: 0 }));
    put(&mut spool, 1, ended());
    assert_eq!(spool.reserve(), Err(SpoolFull { waiting: 1 }));
    let to = mark(&spool, 1);
    spool.committed_to(&to).unwrap();
    spool.reserve().unwrap();
}

#[test]
fn a_mark_from_the_future_begins_a_new_epoch_and_sends_all_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("spool");
    let (mut spool, _) = open(&path);
    put(&mut spool, 1, ended());
    let epoch = spool.epoch();
    let ahead = ReportsCommitted { epoch, sequence: 9 };
    assert_eq!(spool.committed_to(&ahead).unwrap(), Mark::Ahead);
    assert!(spool.epoch() > epoch);
    assert_eq!(sequences(&mut spool), [1]);
    let later = ReportsCommitted {
        epoch: spool.epoch() + 5,
        sequence: 0,
    };
    assert_eq!(spool.committed_to(&later).unwrap(), Mark::Ahead);
    assert!(spool.epoch() > later.epoch);
    let old = ReportsCommitted { epoch, sequence: 1 };
    assert_eq!(spool.committed_to(&old).unwrap(), Mark::Took(0));
    assert_eq!(spool.waiting(), 1);
    drop(spool);
    assert!(open(&path).1.is_empty());
}

#[test]
fn another_boot_or_incarnation_begins_a_new_epoch() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("spool");
    let (mut spool, _) = open(&path);
    put(&mut spool, 1, ended());
    put(&mut spool, 2, ended());
    let to = mark(&spool, 1);
    spool.committed_to(&to).unwrap();
    put(&mut spool, 3, ended());
    let epoch = spool.epoch();
    drop(spool);
    let rebooted = SpoolIdentity {
        boot_id: "other".to_owned(),
        ..identity()
    };
    let (mut spool, findings) = Spool::open(&path, rebooted, 1_000).unwrap();
    assert!(findings.is_empty());
    assert!(spool.epoch() > epoch);
    let runs: Vec<_> = spool
        .batch(0, 10, usize::MAX)
        .iter()
        .map(|report| report.run)
        .collect();
    assert_eq!(runs, [run(2), run(3)]);
}

#[test]
fn it_stays_small_while_the_controller_keeps_up() {
    let dir = tempfile::tempdir().unwrap();
    let (mut spool, _) = open(&dir.path().join("spool"));
    for number in 1..=20_000 {
        put(&mut spool, number, ended());
        let to = mark(&spool, number);
        spool.committed_to(&to).unwrap();
    }
    assert!(
        spool.file_bytes() < 2 * COMPACT_BYTES_MIN,
        "{}",
        spool.file_bytes()
    );
    assert_eq!(spool.waiting(), 0);
}

#[test]
fn damage_in_the_middle_is_named_and_the_rest_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("spool");
    let (mut spool, _) = open(&path);
    let mut ends = Vec::new();
    for number in 1..=5 {
        put(&mut spool, number, ended());
        ends.push(usize::try_from(spool.file_bytes()).unwrap());
    }
    let epoch = spool.epoch();
    drop(spool);
    let mut bytes = fs::read(&path).unwrap();
    bytes[ends[1] + 20] ^= 0x40;
    fs::write(&path, &bytes).unwrap();
    let (mut spool, findings) = open(&path);
    assert_eq!(findings.len(), 1);
    assert!(
        findings[0].contains(&format!("bytes {} to {}", ends[1], ends[2])),
        "{findings:?}"
    );
    let runs: Vec<_> = spool
        .batch(0, 10, usize::MAX)
        .iter()
        .map(|report| report.run)
        .collect();
    assert_eq!(runs, [run(1), run(2), run(4), run(5)]);
    assert!(spool.epoch() > epoch);
}

#[test]
fn an_unreadable_file_is_put_aside() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("spool");
    for junk in [&b"junk"[..], &[0; 500], &[0xff; 88]] {
        fs::write(&path, junk).unwrap();
        let (spool, findings) = open(&path);
        assert_eq!((spool.waiting(), findings.len()), (0, 1), "{findings:?}");
    }
    fs::write(&path, "").unwrap();
    assert!(open(&path).1.is_empty());
}

#[test]
fn a_full_disk_loses_nothing_that_was_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("spool");
    let (mut spool, _) = open(&path);
    put(&mut spool, 1, ended());
    // A handle that takes no writes stands for a disk that does not.
    let writable = std::mem::replace(&mut spool.file, File::open(&path).unwrap());
    for number in [2, 3] {
        assert!(!spool.append(run(number), 1, WallTime(0), ended()).unwrap());
    }
    assert_eq!(sequences(&mut spool), [1, 2, 3]);
    spool.file = writable;
    put(&mut spool, 4, ended());
    drop(spool);
    let (mut spool, findings) = open(&path);
    assert!(findings.is_empty(), "{findings:?}");
    assert_eq!(sequences(&mut spool), [1, 2, 3, 4]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However the file is cut, what was whole is kept, nothing is invented, and no number of the
    /// old epoch is used again.
    #[test]
    fn a_torn_tail_loses_only_itself(count in 1_u64..20, cut in 0.0_f64..1.0) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("spool");
        let (mut spool, _) = open(&path);
        let mut ends = Vec::new();
        for number in 1..=count {
            put(&mut spool, number, ended());
            ends.push(spool.file_bytes());
        }
        let epoch = spool.epoch();
        drop(spool);
        let whole = fs::metadata(&path).unwrap().len();
        let length = HEADER_BYTES as u64 + ((whole - HEADER_BYTES as u64) as f64 * cut) as u64;
        File::options().write(true).open(&path).unwrap().set_len(length).unwrap();
        let kept = ends.iter().filter(|end| **end <= length).count();
        let (mut spool, findings) = open(&path);
        let torn = length != HEADER_BYTES as u64 && !ends.contains(&length);
        prop_assert_eq!(findings.len(), usize::from(torn));
        let runs: Vec<_> = spool.batch(0, 100, usize::MAX).iter().map(|r| r.run).collect();
        prop_assert_eq!(runs, (1..=count).map(run).take(kept).collect::<Vec<_>>());
        prop_assert_eq!(spool.epoch() > epoch, torn);
    }

    /// A model controller that may lose any connection and sees any crash of the worker: it gets
    /// every end exactly once, and the last level of each run.
    #[test]
    fn every_end_counts_once(steps in prop::collection::vec((0_u8..6, 1_u64..6), 1..120)) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("spool");
        let (mut spool, _) = open(&path);
        let mut controller = Controller::default();
        let mut cursor = 0;
        let (mut next_run, mut written) = (100, Vec::new());
        for (step, amount) in steps {
            match step {
                0 => {
                    for _ in 0..amount {
                        next_run += 1;
                        written.push(run(next_run));
                        put(&mut spool, next_run, Happened::Started { pid: 1 });
                        put(&mut spool, next_run, ended());
                    }
                }
                1 => put(&mut spool, amount, Happened::Ready),
                2 => {
                    let batch = spool.batch(cursor, 4, usize::MAX);
                    cursor = batch.last().map_or(cursor, |last| last.sequence);
                    controller.receive(spool.epoch(), batch);
                }
                // The acknowledgement arrives, or is lost with the connection.
                3 => drop(spool.committed_to(&controller.mark).unwrap()),
                4 => cursor = controller.join(&mut spool),
                _ => {
                    drop(spool);
                    spool = open(&path).0;
                    cursor = controller.join(&mut spool);
                }
            }
        }
        cursor = controller.join(&mut spool);
        let batch = spool.batch(cursor, usize::MAX, usize::MAX);
        controller.receive(spool.epoch(), batch);
        spool.committed_to(&controller.mark).unwrap();
        prop_assert_eq!(spool.waiting(), 0);
        prop_assert_eq!(controller.ends, written);
    }
}

#[derive(Debug)]
struct Controller {
    mark: ReportsCommitted,
    ends: Vec<RunId>,
}

impl Default for Controller {
    fn default() -> Self {
        Self {
            mark: ReportsCommitted {
                epoch: 0,
                sequence: 0,
            },
            ends: Vec::new(),
        }
    }
}

impl Controller {
    fn receive(&mut self, epoch: u64, batch: Vec<Report>) {
        assert!(epoch >= self.mark.epoch);
        if epoch > self.mark.epoch {
            self.mark = ReportsCommitted { epoch, sequence: 0 };
        }
        for report in batch {
            if report.sequence <= self.mark.sequence {
                continue;
            }
            self.mark.sequence = report.sequence;
            if is_end(&report.what) {
                self.ends.push(report.run);
            }
        }
    }

    fn join(&self, spool: &mut Spool) -> u64 {
        spool.committed_to(&self.mark).unwrap();
        spool.committed()
    }
}
