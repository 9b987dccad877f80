//! A standby over a slow line: its snapshot arrives although newer ones are made, and no part twice.

use super::book::Book;
use super::cluster::{Seat, Switch, equal, eventually};
use super::conformance::Tally;
use crate::{MemberChange, Wal};

/// Bytes that do not shrink, so that the file has several parts.
fn noise(seed: u64) -> Vec<u8> {
    let mut number = seed | 1;
    let words = (0..1500).flat_map(|_| {
        number = number
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        number.to_le_bytes()
    });
    words.collect()
}

async fn fill(wal: &Wal<Book>, numbers: std::ops::Range<u64>) {
    for number in numbers {
        wal.persist(noise(number)).await.unwrap();
    }
    wal.snapshot_now().await.unwrap();
}

async fn one_slow_standby(seed: u64) {
    let switch = Switch::seeded(seed);
    let mut seats = vec![Seat::new(1, &switch), Seat::new(2, &switch)];
    seats[0].start().await;
    let first = seats[0].wal().clone();
    // Two snapshots, so that the log is purged; the newer one has some five parts.
    fill(&first, 0..200).await;
    fill(&first, 200..400).await;
    *switch.part_ms.lock().unwrap() = 120;
    seats[1].start().await;
    let learner = MemberChange::AddLearner(seats[1].member());
    first.change_members(learner).await.unwrap();
    let sent = || *switch.snapshot_bytes.lock().unwrap();
    eventually(|| sent() > 1 << 20).await;
    // Newer ones take its place, and the log goes on.
    for round in 0..3 {
        fill(&first, 400 + round * 5..405 + round * 5).await;
    }
    if seed % 2 == 1 {
        // The standby is started again in the middle; what it has is kept.
        seats[1].stop().await;
        seats[1].start().await;
    }
    equal(&seats, 415).await;
    let whole = 400 * 12_000;
    let most = if seed % 2 == 1 {
        // The next try is of the newest one.
        3 * whole
    } else {
        whole + (2 << 20)
    };
    assert!(
        sent() < most,
        "{} of {whole}: parts were sent again",
        sent()
    );
    for seat in &mut seats {
        seat.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_standby_gets_its_snapshot_while_newer_ones_are_made() {
    let tally = Tally::begin(1);
    let mut cases = 0;
    for seed in tally.seeds() {
        for turn in [2 * seed, 2 * seed + 1] {
            one_slow_standby(turn).await;
            cases += 1;
        }
    }
    tally.report("snapshot over a slow line", cases);
}
