//! Several controllers in one process, over a network that cuts, loses, delays and repeats.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use tempfile::TempDir;

use super::book::{Book, Page};
use super::conformance::Tally;
use super::faults::{Faults, FaultyDisk};
use super::model::ModelDisk;
use super::wal::small;
use crate::{
    Lane, Member, MemberChange, MembershipError, OpenError, PeerError, Peers, PersistError, Role,
    Wal, open,
};

/// How long a cluster may take to come to what a test waits for; only a fault comes here.
const SOON: Duration = Duration::from_secs(60);

/// The network between the nodes of one test.
#[derive(Default)]
pub(super) struct Switch {
    nodes: Mutex<BTreeMap<u64, Wal<Book>>>,
    /// Ways that are cut, each from and to.
    cuts: Mutex<BTreeSet<(u64, u64)>>,
    /// Requests or answers lost of a thousand.
    pub(super) lost_permille: Mutex<u64>,
    /// Requests delivered twice of a thousand.
    pub(super) doubled_permille: Mutex<u64>,
    /// Longest delay in milliseconds.
    pub(super) delay_ms: Mutex<u64>,
    dice: Mutex<u64>,
    /// How long a part of a snapshot takes, in milliseconds.
    pub(super) part_ms: Mutex<u64>,
    /// Bytes of parts of snapshots that were delivered.
    pub(super) snapshot_bytes: Mutex<usize>,
    /// Parts of snapshots after which the way is cut, if that is wanted.
    cut_after_parts: Mutex<Option<u32>>,
}

impl Switch {
    pub(super) fn seeded(seed: u64) -> Arc<Self> {
        let switch = Self::default();
        *switch.dice.lock().unwrap() = seed.wrapping_mul(2) | 1;
        Arc::new(switch)
    }

    pub(super) fn below(&self, bound: u64) -> u64 {
        let mut dice = self.dice.lock().unwrap();
        *dice ^= *dice << 13;
        *dice ^= *dice >> 7;
        *dice ^= *dice << 17;
        (*dice >> 11) % bound.max(1)
    }

    fn happens(&self, permille: &Mutex<u64>) -> bool {
        let permille = *permille.lock().unwrap();
        permille > 0 && self.below(1000) < permille
    }

    fn is_cut(&self, from: u64, to: u64) -> bool {
        self.cuts.lock().unwrap().contains(&(from, to))
    }

    /// Cuts one way.
    pub(super) fn cut(&self, from: u64, to: u64) {
        self.cuts.lock().unwrap().insert((from, to));
    }

    /// Cuts a node off, both ways.
    pub(super) fn isolate(&self, node: u64) {
        for other in 1..10 {
            self.cut(node, other);
            self.cut(other, node);
        }
    }

    pub(super) fn heal(&self) {
        self.cuts.lock().unwrap().clear();
        *self.cut_after_parts.lock().unwrap() = None;
    }

    fn note_part(&self, request: &[u8], from: u64, to: u64) {
        *self.snapshot_bytes.lock().unwrap() += request.len();
        let mut parts = self.cut_after_parts.lock().unwrap();
        if let Some(left) = parts.as_mut() {
            *left = left.saturating_sub(1);
            if *left == 0 {
                *parts = None;
                drop(parts);
                self.cut(from, to);
            }
        }
    }
}

/// One node's end of the network.
struct End {
    from: u64,
    switch: Arc<Switch>,
}

impl Peers for End {
    fn call(
        &self,
        to: Member,
        lane: Lane,
        request: Vec<u8>,
        within: Duration,
    ) -> BoxFuture<'static, Result<Vec<u8>, PeerError>> {
        let (from, switch, node) = (self.from, Arc::clone(&self.switch), to.node);
        let lost = move |detail: &str| PeerError::NoAnswer {
            node,
            detail: detail.to_owned(),
        };
        let carried = async move {
            let delay = *switch.delay_ms.lock().unwrap();
            if delay > 0 {
                tokio::time::sleep(Duration::from_millis(switch.below(delay))).await;
            }
            let part = *switch.part_ms.lock().unwrap();
            if lane == Lane::Snapshot && part > 0 {
                tokio::time::sleep(Duration::from_millis(part)).await;
            }
            let there = switch.nodes.lock().unwrap().get(&node).cloned();
            let Some(there) = there else {
                return Err(PeerError::Unreachable {
                    node,
                    detail: "down".to_owned(),
                });
            };
            if switch.is_cut(from, node) || switch.happens(&switch.lost_permille) {
                return Err(lost("request lost"));
            }
            if switch.happens(&switch.doubled_permille) {
                drop(there.answer(&request).await);
            }
            let answer = there.answer(&request).await;
            if lane == Lane::Snapshot {
                switch.note_part(&request, from, node);
            }
            if switch.is_cut(node, from) || switch.happens(&switch.lost_permille) {
                return Err(lost("answer lost"));
            }
            Ok(answer)
        };
        Box::pin(async move {
            tokio::time::timeout(within, carried)
                .await
                .unwrap_or_else(|_| Err(lost("too late")))
        })
    }
}

/// A node that can be stopped and started.
pub(super) struct Seat {
    pub(super) node: u64,
    pub(super) dir: TempDir,
    switch: Arc<Switch>,
    pub(super) wal: Option<Wal<Book>>,
    pub(super) page: Arc<Mutex<Page>>,
    pub(super) snapshot_every_entries: u64,
    /// The disk of the current start.
    pub(super) faults: Arc<Faults>,
    /// A disk that forgets, from the next start on, with this seed.
    pub(super) forgetful: Option<u64>,
    /// The one of the current start.
    pub(super) model: Option<ModelDisk>,
    /// Whether the log of the current start has failed.
    pub(super) failed: Arc<AtomicBool>,
    /// Why it has.
    pub(super) reason: Arc<Mutex<String>>,
    /// It has a number that another one has already, and nobody reaches it.
    pub(super) is_copy: bool,
    /// Its machine is wrong from so many groups on.
    pub(super) wrong_from: Option<usize>,
    pub(super) compare_every: Duration,
}

impl Seat {
    pub(super) fn new(node: u64, switch: &Arc<Switch>) -> Self {
        Self {
            node,
            dir: TempDir::new().unwrap(),
            switch: Arc::clone(switch),
            wal: None,
            page: Arc::default(),
            snapshot_every_entries: 50_000,
            faults: Arc::default(),
            forgetful: None,
            model: None,
            failed: Arc::default(),
            reason: Arc::default(),
            is_copy: false,
            wrong_from: None,
            compare_every: Duration::from_secs(60),
        }
    }

    pub(super) fn member(&self) -> Member {
        Member {
            node: self.node,
            address: format!("node{}:1", self.node),
        }
    }

    pub(super) fn wal(&self) -> &Wal<Book> {
        self.wal.as_ref().unwrap()
    }

    pub(super) async fn start(&mut self) {
        self.try_start().await.unwrap();
    }

    pub(super) async fn try_start(&mut self) -> Result<(), OpenError> {
        let mut config = small(self.dir.path());
        config.node_id = self.node;
        config.join = self.node != 1;
        config.address = self.member().address;
        config.snapshot_every_entries = self.snapshot_every_entries;
        config.rejoin_within = Duration::from_secs(2);
        config.compare_every = self.compare_every;
        config.peers = Arc::new(End {
            from: self.node,
            switch: Arc::clone(&self.switch),
        });
        let (disk, faults) = FaultyDisk::with_faults();
        config.disk = Some(disk);
        self.model = self
            .forgetful
            .map(|seed| ModelDisk::over(self.dir.path(), seed));
        if let Some(model) = &self.model {
            config.disk = Some(Arc::new(model.clone()));
        }
        let failed = Arc::new(AtomicBool::new(false));
        let (tell, reason) = (Arc::clone(&failed), Arc::clone(&self.reason));
        let (mut book, page) = Book::new();
        book.wrong_from = self.wrong_from;
        let wal = open(config, book, move |text| {
            *reason.lock().unwrap() = text;
            tell.store(true, Ordering::SeqCst);
        })
        .await?;
        (self.faults, self.failed) = (faults, failed);
        if !self.is_copy {
            let mut nodes = self.switch.nodes.lock().unwrap();
            nodes.insert(self.node, wal.clone());
        }
        (self.wal, self.page) = (Some(wal), page);
        Ok(())
    }

    pub(super) async fn stop(&mut self) {
        if !self.is_copy {
            self.switch.nodes.lock().unwrap().remove(&self.node);
        }
        if let Some(wal) = self.wal.take() {
            wal.close().await;
        }
    }
}

/// A cluster of so many voters.
pub(super) async fn cluster(count: u64, switch: &Arc<Switch>) -> Vec<Seat> {
    let mut seats = Vec::new();
    for node in 1..=count {
        let mut seat = Seat::new(node, switch);
        seat.start().await;
        seats.push(seat);
    }
    for place in 1..seats.len() {
        take_in(seats[0].wal(), seats[place].member()).await;
    }
    seats
}

/// Whether a node has a vote, as another one knows.
pub(super) fn has_vote(of: &Wal<Book>, node: u64) -> bool {
    let members = of.members();
    let found = members.iter().find(|state| state.member.node == node);
    found.is_some_and(|state| state.voter)
}

async fn take_in(primary: &Wal<Book>, member: Member) {
    let node = member.node;
    primary
        .change_members(MemberChange::AddLearner(member))
        .await
        .unwrap();
    // It gets its vote by itself.
    eventually(|| has_vote(primary, node)).await;
}

#[track_caller]
pub(super) fn eventually(mut is_so: impl FnMut() -> bool) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    async move {
        let deadline = tokio::time::Instant::now() + SOON;
        while !is_so() {
            assert!(
                tokio::time::Instant::now() < deadline,
                "waited in vain at {caller}"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// What the nodes say of themselves, for a test that failed.
pub(super) fn told(seats: &[Seat]) -> String {
    let line = |seat: &Seat| {
        let wal = seat.wal.as_ref();
        let role = wal.map(|wal| wal.role().borrow().clone());
        let members = wal.map(Wal::members);
        let status = wal.map(Wal::status);
        format!("{}: {role:?} {members:?} {status:?}", seat.node)
    };
    seats.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The one that leads, by its place.
pub(super) fn primary(seats: &[Seat]) -> Option<usize> {
    seats.iter().position(|seat| {
        seat.wal
            .as_ref()
            .is_some_and(|wal| wal.role().borrow().primary_term().is_some() && wal.holds_lease())
    })
}

pub(super) async fn wait_for_primary(seats: &[Seat]) -> usize {
    let mut found = None;
    eventually(|| {
        found = primary(seats);
        found.is_some()
    })
    .await;
    found.unwrap()
}

pub(super) async fn equal(seats: &[Seat], groups: usize) {
    eventually(|| {
        let pages: Vec<Page> = seats
            .iter()
            .map(|seat| seat.page.lock().unwrap().clone())
            .collect();
        pages
            .iter()
            .all(|page| page.groups.len() >= groups && page.groups == pages[0].groups)
    })
    .await;
}

fn group(number: u64) -> Vec<u8> {
    format!("group {number}").into_bytes()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_hold_the_same_and_only_the_primary_writes() {
    let switch = Switch::seeded(1);
    let mut seats = cluster(3, &switch).await;
    for number in 0..50 {
        let receipt = seats[0].wal().persist(group(number)).await.unwrap();
        assert_eq!(*receipt.outcome(), number as usize + 1);
    }
    equal(&seats, 50).await;
    assert!(seats[0].wal().holds_lease() && !seats[1].wal().holds_lease());
    let refused = seats[1].wal().persist(group(99)).await.unwrap_err();
    assert!(
        matches!(refused, PersistError::NotPrimary { .. }),
        "{refused}"
    );
    let role = seats[2].wal().role().borrow().clone();
    let Role::Standby { leader, .. } = role else {
        panic!("node 3 leads")
    };
    assert_eq!(leader, Some(seats[0].member()));
    for seat in &mut seats {
        seat.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_isolated_primary_is_replaced_and_its_tail_is_overwritten() {
    let switch = Switch::seeded(2);
    let mut seats = cluster(3, &switch).await;
    for number in 0..20 {
        seats[0].wal().persist(group(number)).await.unwrap();
    }
    switch.isolate(1);
    let lonely = seats[0].wal().clone();
    let unknown = tokio::spawn(async move { lonely.persist(b"never agreed".to_vec()).await });
    eventually(|| primary(&seats[1..]).is_some()).await;
    // Whoever was replaced knows that it may not act before another one can.
    assert!(!seats[0].wal().holds_lease());
    // And says so by itself, since nobody can tell it of the next term.
    let said = seats[0].wal().clone();
    eventually(|| said.role().borrow().primary_term().is_none()).await;
    let next = 1 + primary(&seats[1..]).unwrap();
    for number in 20..40 {
        seats[next].wal().persist(group(number)).await.unwrap();
    }
    switch.heal();
    assert!(unknown.await.unwrap().is_err());
    equal(&seats, 40).await;
    let page = seats[0].page.lock().unwrap().groups.clone();
    assert_eq!(page, (0..40).map(group).collect::<Vec<_>>());
    for seat in &mut seats {
        seat.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_nodes_stop_and_start_in_another_order() {
    let switch = Switch::seeded(3);
    let mut seats = cluster(3, &switch).await;
    for number in 0..30 {
        seats[0].wal().persist(group(number)).await.unwrap();
    }
    for seat in &mut seats {
        seat.stop().await;
    }
    for place in [2, 0, 1] {
        seats[place].start().await;
    }
    let place = wait_for_primary(&seats).await;
    seats[place].wal().persist(group(30)).await.unwrap();
    equal(&seats, 31).await;
    for seat in &mut seats {
        seat.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leadership_is_handed_over() {
    let switch = Switch::seeded(4);
    let mut seats = cluster(3, &switch).await;
    seats[0].wal().persist(group(0)).await.unwrap();
    seats[0].wal().transfer(3).await.unwrap();
    eventually(|| primary(&seats) == Some(2)).await;
    seats[2].wal().persist(group(1)).await.unwrap();
    let refused = seats[2].wal().transfer(9).await.unwrap_err();
    assert!(refused.to_string().contains("no vote"), "{refused}");
    for seat in &mut seats {
        seat.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_come_and_go_one_at_a_time() {
    let switch = Switch::seeded(5);
    let mut seats = cluster(3, &switch).await;
    let first = seats[0].wal().clone();
    let unknown = first.change_members(MemberChange::Remove(7)).await;
    assert!(unknown.unwrap_err().to_string().contains("1, 2, 3"));
    let elsewhere = Member {
        node: 2,
        address: "elsewhere:1".to_owned(),
    };
    let moved = first
        .change_members(MemberChange::AddLearner(elsewhere.clone()))
        .await;
    assert!(matches!(moved, Err(MembershipError::Refused(_))));
    first
        .change_members(MemberChange::SetAddress(elsewhere.clone()))
        .await
        .unwrap();
    assert!(
        first
            .members()
            .iter()
            .any(|state| state.member == elsewhere)
    );
    // A standby changes nothing and says who leads.
    let standby = seats[1].wal().change_members(MemberChange::Remove(3)).await;
    let Err(MembershipError::NotPrimary { leader }) = standby else {
        panic!("{standby:?}")
    };
    assert_eq!(leader.map(|leader| leader.node), Some(1));
    first.change_members(MemberChange::Remove(3)).await.unwrap();
    seats[2].stop().await;
    first.persist(group(1)).await.unwrap();
    first.change_members(MemberChange::Remove(2)).await.unwrap();
    seats[1].stop().await;
    first.persist(group(2)).await.unwrap();
    let last = first.change_members(MemberChange::Remove(1)).await;
    assert!(last.unwrap_err().to_string().contains("last controller"));
    seats[0].stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_node_gets_a_snapshot_in_parts_and_goes_on_where_the_way_broke() {
    let switch = Switch::seeded(6);
    let mut seats = vec![Seat::new(1, &switch), Seat::new(2, &switch)];
    seats[0].start().await;
    let first = seats[0].wal().clone();
    // Noise does not shrink, so that the file has several parts.
    let mut noise = 1_u64;
    for _ in 0..400 {
        let mut bytes = Vec::with_capacity(12_000);
        for _ in 0..1500 {
            noise = noise
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            bytes.extend_from_slice(&noise.to_le_bytes());
        }
        first.persist(bytes).await.unwrap();
    }
    // Two snapshots, so that the log is purged.
    first.snapshot_now().await.unwrap();
    first.persist(group(1)).await.unwrap();
    first.snapshot_now().await.unwrap();
    *switch.cut_after_parts.lock().unwrap() = Some(3);
    seats[1].start().await;
    first
        .change_members(MemberChange::AddLearner(seats[1].member()))
        .await
        .unwrap();
    eventually(|| switch.is_cut(1, 2)).await;
    let before = *switch.snapshot_bytes.lock().unwrap();
    assert!(before > 1 << 20, "{before}");
    switch.heal();
    equal(&seats, 401).await;
    let all = *switch.snapshot_bytes.lock().unwrap();
    let whole = 400 * 12_000;
    assert!(
        all < whole + (2 << 20),
        "{all} of {whole}: parts were sent again"
    );
    // What it was given survives its restart.
    seats[1].stop().await;
    seats[1].start().await;
    let place = wait_for_primary(&seats).await;
    eventually_persisted(&seats, place).await;
    equal(&seats, 402).await;
    for seat in &mut seats {
        seat.stop().await;
    }
}

/// Writers, and what they were told.
pub(super) struct Writers {
    pub(super) acknowledged: Arc<Mutex<Vec<Vec<u8>>>>,
    pub(super) tasks: Vec<tokio::task::JoinHandle<()>>,
    pub(super) stop: tokio::sync::watch::Sender<bool>,
}

pub(super) fn write_on(seats: &[Seat], switch: &Arc<Switch>) -> Writers {
    let acknowledged: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let nodes: Vec<u64> = seats.iter().map(|seat| seat.node).collect();
    let tasks = (0..4_u64)
        .map(|writer| {
            let (acknowledged, stopped) = (Arc::clone(&acknowledged), stopped.clone());
            let (switch, nodes) = (Arc::clone(switch), nodes.clone());
            tokio::spawn(async move {
                let mut number = 0_u64;
                while !*stopped.borrow() {
                    let node = nodes[(number as usize + writer as usize) % nodes.len()];
                    let wal = switch.nodes.lock().unwrap().get(&node).cloned();
                    let bytes = format!("{writer}/{number}").into_bytes();
                    number += 1;
                    let Some(wal) = wal else { continue };
                    let primary = wal.role().borrow().primary_term().is_some();
                    if !primary {
                        tokio::task::yield_now().await;
                        continue;
                    }
                    let persisted = tokio::time::timeout(SOON, wal.persist(bytes.clone())).await;
                    let persisted = persisted.unwrap_or_else(|_| {
                        panic!(
                            "never answered: {:?} {:?}",
                            wal.role().borrow(),
                            wal.status()
                        )
                    });
                    if persisted.is_ok() {
                        acknowledged.lock().unwrap().push(bytes);
                    }
                }
            })
        })
        .collect();
    Writers {
        acknowledged,
        tasks,
        stop,
    }
}

/// From some write on nothing reaches the disk, of that one only a part; then the machine is back.
async fn pull_the_plug(seat: &mut Seat, switch: &Switch) {
    let faults = &seat.faults;
    let soon = faults.writes.load(Ordering::SeqCst) + switch.below(30);
    faults.torn_blocks.store(switch.below(6), Ordering::SeqCst);
    faults.pull_plug.store(soon, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(switch.below(200))).await;
    // One that wrote little meanwhile loses its power now.
    faults.pull_plug.store(0, Ordering::SeqCst);
    seat.stop().await;
    seat.start().await;
}

/// Troubles of one seed, one after another. Source: measured; about five seconds, most of it waiting.
const TROUBLES: u64 = 40;

async fn trouble(seats: &mut [Seat], switch: &Arc<Switch>, rounds: u64) {
    for _ in 0..rounds {
        let count = seats.len() as u64;
        let place = switch.below(count) as usize;
        match switch.below(8) {
            0 => switch.isolate(seats[place].node),
            1 => switch.cut(seats[place].node, 1 + switch.below(count)),
            2 => {
                seats[place].stop().await;
                seats[place].start().await;
            }
            3 => *switch.lost_permille.lock().unwrap() = switch.below(200),
            4 => *switch.delay_ms.lock().unwrap() = switch.below(30),
            5 => pull_the_plug(&mut seats[place], switch).await,
            _ => {
                *switch.doubled_permille.lock().unwrap() = switch.below(300);
                switch.heal();
            }
        }
        tokio::time::sleep(Duration::from_millis(switch.below(250))).await;
    }
    switch.heal();
    for permille in [
        &switch.lost_permille,
        &switch.doubled_permille,
        &switch.delay_ms,
    ] {
        *permille.lock().unwrap() = 0;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_in_a_bad_network_on_bad_disks() {
    let tally = Tally::begin(1);
    let mut troubles = 0;
    for seed in tally.seeds() {
        bad_times(seed).await;
        troubles += TROUBLES;
    }
    tally.report("network and disks at random", troubles);
}

async fn bad_times(seed: u64) {
    let switch = Switch::seeded(seed);
    let mut seats = cluster(3, &switch).await;
    let writers = write_on(&seats, &switch);
    trouble(&mut seats, &switch, TROUBLES).await;
    for seat in &mut seats {
        // A log that failed has ended its process.
        if seat.failed.load(Ordering::SeqCst) {
            seat.stop().await;
            seat.start().await;
        }
    }
    writers.stop.send_replace(true);
    for task in writers.tasks {
        task.await.unwrap();
    }
    let place = wait_for_primary(&seats).await;
    eventually_persisted(&seats, place).await;
    let last = seats[primary(&seats).unwrap_or(place)]
        .page
        .lock()
        .unwrap()
        .groups
        .len();
    equal(&seats, last).await;
    let page = seats[0].page.lock().unwrap().groups.clone();
    let once: BTreeSet<&Vec<u8>> = page.iter().collect();
    assert_eq!(
        once.len(),
        page.len(),
        "seed {seed}: a group was applied twice"
    );
    let acknowledged = writers.acknowledged.lock().unwrap().clone();
    assert!(
        acknowledged.len() > 20,
        "seed {seed}: {} acknowledged",
        acknowledged.len()
    );
    for group in &acknowledged {
        let text = String::from_utf8_lossy(group);
        assert!(once.contains(group), "seed {seed}: {text} is lost");
    }
    for seat in &mut seats {
        seat.stop().await;
    }
}

/// One more group, whoever leads.
pub(super) async fn eventually_persisted(seats: &[Seat], first: usize) {
    let mut place = first;
    let persisted = async {
        while seats[place]
            .wal()
            .persist(b"the last".to_vec())
            .await
            .is_err()
        {
            place = wait_for_primary(seats).await;
        }
    };
    tokio::time::timeout(SOON, persisted)
        .await
        .expect("it was written");
}
