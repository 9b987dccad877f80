//! Damaged, outdated, emptied and copied directories: none of them votes, and with a quorum elsewhere
//! their controllers come in again by themselves.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt;
use tempfile::TempDir;

use super::cluster::{
    Seat, Switch, cluster, equal, eventually, has_vote, primary, told, wait_for_primary,
};
use super::conformance::Tally;
use crate::OpenError;
use crate::error::chain;

fn group(number: u64) -> Vec<u8> {
    format!("group {number}").into_bytes()
}

async fn write(seat: &Seat, numbers: std::ops::Range<u64>) {
    for number in numbers {
        seat.wal().persist(group(number)).await.unwrap();
    }
}

/// The oldest segment of a node.
fn segment(directory: &Path) -> PathBuf {
    let entries = std::fs::read_dir(directory.join("log")).unwrap();
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "seg"))
        .collect();
    paths.sort();
    paths.remove(0)
}

/// Changes a bit in the middle of what is acknowledged.
fn damage(directory: &Path) -> PathBuf {
    let path = segment(directory);
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    let mut byte = [0];
    let offset = 10 * 4096 + 99;
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 4], offset).unwrap();
    path
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Puts a directory in the place of another one.
fn put_back(from: &Path, to: &Path) {
    std::fs::remove_dir_all(to).unwrap();
    copy(from, to);
}

async fn end(seats: &mut [Seat]) {
    for seat in seats {
        seat.stop().await;
    }
}

/// It is as before, and the first of these directories was kept.
async fn is_back(seats: &[Seat], place: usize, groups: usize) {
    let leader = wait_for_primary(seats).await;
    let node = seats[place].node;
    let voting = eventually(|| has_vote(seats[leader].wal(), node));
    let voting = std::panic::AssertUnwindSafe(voting).catch_unwind().await;
    assert!(voting.is_ok(), "no vote:\n{}", told(seats));
    equal(seats, groups).await;
    let aside = seats[place].dir.path().join("set-aside-1");
    assert!(aside.join("IDENTITY").exists(), "the old one is kept");
    let marker = seats[place].dir.path().join("REJOIN");
    assert!(!marker.exists(), "it is over");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_log_is_set_aside_and_its_controller_comes_in_again() {
    let tally = Tally::begin(1);
    let mut cases = 0;
    for seed in tally.seeds() {
        let switch = Switch::seeded(seed + 1);
        let mut seats = cluster(3, &switch).await;
        write(&seats[0], 0..60).await;
        let mut written = 60;
        // A standby, then the one that leads.
        for place in [2, 0] {
            seats[place].stop().await;
            damage(seats[place].dir.path());
            // The others have a new primary, and write on.
            let leader = wait_for_primary(&seats).await;
            write(&seats[leader], written..written + 20).await;
            written += 20;
            seats[place].start().await;
            is_back(&seats, place, written as usize).await;
            cases += 1;
        }
        // It counts as any other: without one of the others there is a quorum with it.
        let leader = wait_for_primary(&seats).await;
        let gone = (0..3)
            .find(|place| *place != leader && *place != 0)
            .unwrap();
        seats[gone].stop().await;
        let leader = wait_for_primary(&seats).await;
        write(&seats[leader], written..written + 5).await;
        end(&mut seats).await;
    }
    tally.report("rejoin after damage", cases);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_on_a_majority_is_refused_and_nothing_is_touched() {
    let switch = Switch::seeded(11);
    let mut seats = cluster(3, &switch).await;
    write(&seats[0], 0..60).await;
    let mut paths = Vec::new();
    for place in [0, 1] {
        seats[place].stop().await;
        paths.push(damage(seats[place].dir.path()));
    }
    for place in [0, 1] {
        let error = seats[place].try_start().await.unwrap_err();
        let text = chain(&error);
        assert!(matches!(error, OpenError::NotTakenIn { .. }), "{text}");
        let file = paths[place].display().to_string();
        assert!(
            text.contains(&file) && text.contains("offset 40960"),
            "{text}"
        );
        assert!(!seats[place].dir.path().join("set-aside-1").exists());
    }
    end(&mut seats).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_directory_does_not_vote_and_comes_in_again() {
    let switch = Switch::seeded(12);
    let mut seats = cluster(3, &switch).await;
    write(&seats[0], 0..30).await;
    equal(&seats, 30).await;
    seats[1].stop().await;
    let older = TempDir::new().unwrap();
    copy(seats[1].dir.path(), older.path());
    seats[1].start().await;
    write(&seats[0], 30..60).await;
    equal(&seats, 60).await;
    seats[1].stop().await;
    put_back(older.path(), seats[1].dir.path());
    // The third is down: the first and this one would be a quorum.
    seats[1].start().await;
    eventually(|| seats[1].failed.load(Ordering::SeqCst)).await;
    let reason = seats[1].reason.lock().unwrap().clone();
    assert!(reason.contains("has seen it up to"), "{reason}");
    assert!(reason.contains("Start it again"), "{reason}");
    seats[1].stop().await;
    seats[1].start().await;
    is_back(&seats, 1, 60).await;
    end(&mut seats).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_seen_of_an_older_directory_outlives_the_primary() {
    let switch = Switch::seeded(13);
    let mut seats = cluster(3, &switch).await;
    write(&seats[0], 0..10).await;
    equal(&seats, 10).await;
    seats[1].stop().await;
    let older = TempDir::new().unwrap();
    copy(seats[1].dir.path(), older.path());
    seats[1].start().await;
    write(&seats[0], 10..40).await;
    equal(&seats, 40).await;
    // Until the primary has noted how far it is.
    let notes = seats[0].dir.path().join("MEMBERS");
    let last = seats[0].wal().status().last_lsn;
    eventually(|| {
        let text = std::fs::read_to_string(&notes).unwrap_or_default();
        text.contains(&format!(" {last} node2:1"))
    })
    .await;
    end(&mut seats).await;
    put_back(older.path(), seats[1].dir.path());
    // All start as from nothing; one knows from its notes alone. The third stays down.
    seats[0].start().await;
    seats[1].start().await;
    eventually(|| seats[1].failed.load(Ordering::SeqCst)).await;
    let reason = seats[1].reason.lock().unwrap().clone();
    assert!(
        reason.contains("controller 1 has seen it up to"),
        "{reason}"
    );
    assert_eq!(primary(&seats), None, "no quorum by a vote that forgot");
    seats[1].stop().await;
    seats[2].start().await;
    seats[1].start().await;
    is_back(&seats, 1, 40).await;
    end(&mut seats).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emptied_log_comes_in_again_and_founds_nothing() {
    let switch = Switch::seeded(14);
    let mut seats = cluster(3, &switch).await;
    write(&seats[0], 0..20).await;
    // The founder: what it has is an empty log, and it must not found another cluster on it.
    seats[0].stop().await;
    std::fs::remove_dir_all(seats[0].dir.path().join("log")).unwrap();
    std::fs::remove_dir_all(seats[0].dir.path().join("snapshots")).unwrap();
    seats[0].start().await;
    // Cut off at once, and started again with what it has so far.
    switch.isolate(1);
    seats[0].stop().await;
    seats[0].start().await;
    assert_eq!(primary(&seats[..1]), None);
    switch.heal();
    is_back(&seats, 0, 20).await;
    end(&mut seats).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_of_a_directory_is_refused_while_the_first_runs() {
    let switch = Switch::seeded(15);
    let mut seats = cluster(3, &switch).await;
    write(&seats[0], 0..20).await;
    equal(&seats, 20).await;
    let mut second = Seat::new(3, &switch);
    copy(seats[2].dir.path(), second.dir.path());
    second.is_copy = true;
    second.start().await;
    eventually(|| second.failed.load(Ordering::SeqCst)).await;
    let reason = second.reason.lock().unwrap().clone();
    assert!(
        reason.contains("another process runs as controller 3 at node3:1"),
        "{reason}"
    );
    second.stop().await;
    // The first one was not disturbed.
    write(&seats[0], 20..30).await;
    equal(&seats, 30).await;
    end(&mut seats).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_whose_disk_fails_ends_and_another_one_leads() {
    let switch = Switch::seeded(16);
    let mut seats = cluster(3, &switch).await;
    write(&seats[0], 0..10).await;
    let faults = Arc::clone(&seats[0].faults);
    faults
        .fail_sync
        .store(faults.syncs.load(Ordering::SeqCst), Ordering::SeqCst);
    // A quorum may still have agreed; then it is there, else nobody was told so.
    let last = seats[0].wal().persist(group(10)).await;
    eventually(|| seats[0].failed.load(Ordering::SeqCst)).await;
    let reason = seats[0].reason.lock().unwrap().clone();
    assert!(reason.contains("injected sync error"), "{reason}");
    let next = 1 + {
        let mut found = None;
        eventually(|| {
            found = primary(&seats[1..]);
            found.is_some()
        })
        .await;
        found.unwrap()
    };
    write(&seats[next], 11..20).await;
    let page = seats[next].page.lock().unwrap().groups.clone();
    assert!(last.is_err() || page.contains(&group(10)));
    seats[0].stop().await;
    seats[0].start().await;
    let most = seats[next].page.lock().unwrap().groups.len();
    equal(&seats, most).await;
    end(&mut seats).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_hangs_for_seconds_holds_up_no_beats_and_no_elections() {
    let switch = Switch::seeded(17);
    let mut seats = cluster(3, &switch).await;
    write(&seats[0], 0..10).await;
    let term = seats[0].wal().status().term;
    let mut written = 10;
    for place in [0, 1] {
        let faults = Arc::clone(&seats[place].faults);
        faults.hold();
        // Several elections long; the two others agree meanwhile.
        let until = tokio::time::Instant::now() + Duration::from_secs(2);
        while tokio::time::Instant::now() < until {
            write(&seats[0], written..written + 1).await;
            written += 1;
        }
        assert_eq!(primary(&seats), Some(0), "disk {place} hangs");
        faults.let_go();
    }
    assert_eq!(seats[0].wal().status().term, term, "nobody was elected");
    equal(&seats, written as usize).await;
    end(&mut seats).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_that_differs_from_the_others_stops_its_node_which_begins_again() {
    let tally = Tally::begin(1);
    let mut cases = 0;
    for seed in tally.seeds() {
        let switch = Switch::seeded(seed + 18);
        let mut seats = cluster(3, &switch).await;
        write(&seats[0], 0..10).await;
        equal(&seats, 10).await;
        for seat in &mut seats {
            seat.stop().await;
            seat.compare_every = Duration::from_millis(100);
        }
        // One after another is wrong, also whoever leads.
        let place = (seed % 3) as usize;
        seats[place].wrong_from = Some(12);
        for seat in &mut seats {
            seat.start().await;
        }
        let leader = wait_for_primary(&seats).await;
        write(&seats[leader], 10..20).await;
        eventually(|| seats[place].failed.load(Ordering::SeqCst)).await;
        let reason = seats[place].reason.lock().unwrap().clone();
        assert!(
            reason.contains("differs from that of the others"),
            "{reason}"
        );
        seats[place].stop().await;
        seats[place].wrong_from = None;
        seats[place].start().await;
        is_back(&seats, place, 20).await;
        for other in (0..3).filter(|other| *other != place) {
            assert!(!seats[other].failed.load(Ordering::SeqCst));
        }
        end(&mut seats).await;
        cases += 1;
    }
    tally.report("differing states", cases);
}
