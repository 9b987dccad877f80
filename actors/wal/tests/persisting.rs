//! Three nodes under load; one of them dies, or loses its power, at each step of its device in turn.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use super::cluster::{
    Seat, Switch, cluster, equal, eventually, eventually_persisted, wait_for_primary, write_on,
};
use super::conformance::Tally;
use super::model::Harm;

/// Operations of a device that are tried one after another: beyond some of them a segment is rolled
/// over and a snapshot is written. Source: measured.
const OPERATIONS: u64 = 160;

/// Source: measured; about half a second each.
const STRIDE: u64 = 23;

async fn fall(seat: &mut Seat, operation: u64, harm: Harm) {
    let model = seat.model.clone().unwrap();
    model.harm_after(operation, harm);
    eventually(|| model.harmed().is_some()).await;
    seat.stop().await;
    if harm == Harm::PowerCut {
        model.leave_image();
    }
    seat.start().await;
}

async fn each_step(seed: u64, stride: u64) -> u64 {
    let switch = Switch::seeded(seed);
    let mut seats = cluster(3, &switch).await;
    for (place, seat) in (0..).zip(&mut seats) {
        seat.stop().await;
        seat.forgetful = Some(seed + place);
        seat.snapshot_every_entries = 40;
        seat.start().await;
    }
    wait_for_primary(&seats).await;
    let writers = write_on(&seats, &switch);
    let mut cases = 0;
    for operation in (seed % stride..OPERATIONS).step_by(stride as usize) {
        let place = match operation % 2 {
            0 => wait_for_primary(&seats).await,
            _ => switch.below(3) as usize,
        };
        let harm = if switch.below(2) == 0 {
            Harm::Kill
        } else {
            Harm::PowerCut
        };
        fall(&mut seats[place], operation, harm).await;
        cases += 1;
    }
    writers.stop.send_replace(true);
    for task in writers.tasks {
        task.await.unwrap();
    }
    let place = wait_for_primary(&seats).await;
    eventually_persisted(&seats, place).await;
    let most = seats
        .iter()
        .map(|seat| seat.page.lock().unwrap().groups.len());
    let most = most.max().unwrap();
    equal(&seats, most).await;
    let page = seats[0].page.lock().unwrap().groups.clone();
    let once: BTreeSet<&Vec<u8>> = page.iter().collect();
    assert_eq!(once.len(), page.len(), "seed {seed}: applied twice");
    for group in writers.acknowledged.lock().unwrap().iter() {
        let text = String::from_utf8_lossy(group);
        assert!(once.contains(group), "seed {seed}: {text} is lost");
    }
    for seat in &mut seats {
        assert!(!seat.failed.load(Ordering::SeqCst), "seed {seed}");
        seat.stop().await;
    }
    cases
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_may_fall_at_any_step_of_its_device() {
    let tally = Tally::begin(STRIDE);
    let mut cases = 0;
    for seed in tally.seeds() {
        cases += each_step(seed, tally.stride()).await;
    }
    tally.report("three nodes, restart at each step", cases);
}
