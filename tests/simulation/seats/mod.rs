//! Several controllers: each a process on a machine with its own clock and disk, its own ledger, and,
//! while it reigns, its own actors.
//!
//! The actors of one controller are always "entered": [`World::controller`] and [`World::log`] are
//! those of one seat, and every event enters its seat first. Behind the last controller sits the
//! observer, who has no node: his ledger holds everything that any controller has applied, and all
//! invariants are checked there, once.

mod apply;
mod clock;
mod faults;
mod network;
mod node;
mod reign;
mod writes;

use std::collections::BTreeMap;
use std::sync::Arc;

use xce_deciding::Times;
use xce_model::ClusterTime;

use crate::consensus::{Disk, Entry, Envelope, LogId, Members, Node};
use crate::controller::Controller;
use crate::log::{Log, Proposer};
use crate::world::{Event, World};

pub use clock::Clock;
pub use network::{End, Wires};
pub use reign::Reign;
pub use writes::Failure;

/// What happens to one process of a controller.
#[derive(Debug, Clone)]
pub enum SeatEvent {
    /// The node's time has come.
    Tick(u64),
    /// What was written up to a number is synced.
    Synced(u64),
    /// What waits is to be proposed.
    Push,
    /// A reign begins, if it still leads in this term.
    Begin(u64),
    /// The actors of a reign of this term end.
    End(u64),
    /// The process starts.
    Start,
}

/// Faults that are planted to see that they are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planted {
    Nothing,
    /// A group is answered when it is proposed.
    EarlyAnswer,
    /// Orders carry the node's term, not that of the reign.
    TermOfNode,
    /// Workers obey orders of any term.
    NoFence,
    /// The lease is eight times as long as an election may take.
    LongLease,
    /// A voter that starts again votes at once.
    VotesAtOnce,
    /// The lease counts while the leadership is being handed over.
    LeaseInTransfer,
    /// Reads are answered without a lease.
    NoLease,
    /// Refusals are answered without a lease.
    RefusesWithoutLease,
    /// A worker's facts are marked before they are decided.
    MarkApart,
    /// A watch resumes one change too late.
    WatchSkips,
    /// Votes are not written.
    ForgetsVotes,
    /// Followers answer before they have synced.
    NoSync,
    /// A reign that could not begin waits for another term.
    WaitsForRole,
    /// A damaged log is cut where the damage is.
    CutsDamage,
}

/// How unkind disks and networks are.
#[derive(Debug, Clone)]
pub struct Weather {
    /// Most time of a sync.
    pub sync_ms: u64,
    /// Most time of a message.
    pub delay_ms: u64,
    /// Messages between controllers that are lost, and that come twice, of a thousand.
    pub lost_permille: u64,
    pub doubled_permille: u64,
    /// Entries after which a snapshot is taken.
    pub snapshot_every: u64,
    /// Most time in which a deposed primary notices.
    pub depose_ms: u64,
}

pub struct Seat {
    pub(crate) parked: Option<(Controller, Log)>,
    pub clock: Clock,
    /// Absent while the process is down, and of the observer.
    pub node: Option<Node>,
    pub node_id: u64,
    pub disk: Disk,
    /// Number of the process.
    pub process: u64,
    /// Boots of its machine.
    pub boots: u64,
    pub paused_until: u64,
    /// Number of the last record of this process.
    written: u64,
    /// The sync that is under way.
    syncing: bool,
    /// What goes out when a write is synced.
    held: Vec<(u64, Envelope)>,
    tick_at: u64,
    in_flight: BTreeMap<u64, (LogId, Vec<Option<Proposer>>)>,
    /// Since when what waits finds no lease.
    lease_missed: Option<u64>,
    pub reign: Option<Reign>,
    /// The term of which a reign is about to begin.
    begins: Option<u64>,
    /// When something was last not written.
    unwritten: u64,
    /// Whether it followed another since its start.
    has_followed: bool,
    /// When it last published, by its own clock.
    heard: u64,
    snapshot_at: u64,
    /// Whether its log was set aside, and it is to be taken in again.
    pub aside: bool,
    /// What it was called before.
    pub former: Vec<u64>,
}

pub struct Seats {
    /// The controllers, and the observer behind them.
    pub all: Vec<Seat>,
    pub wires: Wires,
    pub weather: Weather,
    pub planted: Planted,
    /// Members when the cluster began.
    first: Arc<Members>,
    last_id: u64,
    /// Every committed entry, from index 1.
    committed: Vec<Arc<Entry>>,
    /// Checksums of the whole state, by position.
    digests: BTreeMap<u64, u32>,
    /// Checksum of everything that happened.
    pub trace: u64,
}

impl Seat {
    fn new(node_id: u64, now: u64) -> Self {
        Self {
            parked: Some((Controller::default(), Log::new())),
            clock: Clock::new(now),
            node: None,
            node_id,
            disk: Disk::default(),
            process: 0,
            boots: 1,
            paused_until: 0,
            written: 0,
            syncing: false,
            held: Vec::new(),
            tick_at: u64::MAX,
            in_flight: BTreeMap::new(),
            lease_missed: None,
            reign: None,
            begins: None,
            unwritten: 0,
            has_followed: false,
            heard: 0,
            snapshot_at: 0,
            aside: false,
            former: Vec::new(),
        }
    }

    pub fn is_up(&self) -> bool {
        self.node.is_some()
    }
}

impl Seats {
    pub fn new(count: usize, now: u64, weather: Weather, planted: Planted) -> Self {
        let ids = 1..=count as u64;
        let mut all: Vec<Seat> = ids.clone().map(|id| Seat::new(id, now)).collect();
        all.push(Seat::new(0, now));
        Self {
            all,
            wires: Wires::default(),
            weather,
            planted,
            first: Arc::new(Members {
                voters: ids.collect(),
                learners: std::collections::BTreeSet::new(),
            }),
            last_id: count as u64,
            committed: Vec::new(),
            digests: BTreeMap::new(),
            trace: 0,
        }
    }

    /// How many controllers there are.
    pub fn count(&self) -> usize {
        self.all.len() - 1
    }

    /// Notes what happens, for the checksum of all.
    pub fn note(&mut self, number: u64) {
        // Source: the multiplier of FNV-1a, which mixes well enough to tell two runs apart.
        self.trace = (self.trace ^ number)
            .wrapping_mul(0x0100_0000_01B3)
            .rotate_left(23);
    }
}

impl World {
    pub fn is_seated(&self) -> bool {
        self.seats.is_some()
    }

    pub fn house(&self) -> &Seats {
        self.seats.as_ref().expect("there are several controllers")
    }

    pub fn house_mut(&mut self) -> &mut Seats {
        self.seats.as_mut().expect("there are several controllers")
    }

    pub fn seat_at(&mut self, seat: usize) -> &mut Seat {
        &mut self.house_mut().all[seat]
    }

    /// The place of the observer.
    pub fn observer(&self) -> usize {
        self.seats.as_ref().map_or(0, |seats| seats.count())
    }

    /// Makes the actors and the ledger of a seat those that are seen.
    pub fn enter(&mut self, seat: usize) {
        if seat == self.seat {
            return;
        }
        let Some(seats) = &mut self.seats else {
            return;
        };
        let (controller, log) = seats.all[seat].parked.take().expect("nobody is in it");
        let controller = std::mem::replace(&mut self.controller, controller);
        let log = std::mem::replace(&mut self.log, log);
        seats.all[self.seat].parked = Some((controller, log));
        self.seat = seat;
    }

    /// Whether this fault is planted.
    pub fn is_planted(&self, fault: Planted) -> bool {
        self.seats
            .as_ref()
            .is_some_and(|seats| seats.planted == fault)
    }

    /// Cluster time and wall clock of the seat that is entered.
    pub fn times(&self) -> Times {
        let Some(seats) = &self.seats else {
            return crate::deciding::times(self.now);
        };
        let seat = &seats.all[self.seat];
        let wall = seat.clock.wall(self.now);
        match &seat.reign {
            Some(reign) => {
                let elapsed = seat
                    .clock
                    .mono(self.now)
                    .saturating_sub(reign.anchor.boot_ms);
                (ClusterTime(reign.anchor.at.0 + elapsed), wall)
            }
            None => (self.log.applied().clock().last, wall),
        }
    }

    /// The monotonic clock of the seat that is entered.
    pub fn mono(&self) -> u64 {
        match &self.seats {
            None => self.now,
            Some(seats) => seats.all[self.seat].clock.mono(self.now),
        }
    }

    /// What the monotonic clock of the seat will show at a cluster time.
    pub fn mono_of(&self, at: ClusterTime) -> u64 {
        let anchor = self
            .seats
            .as_ref()
            .and_then(|seats| seats.all[self.seat].reign.as_ref())
            .map(|reign| &reign.anchor);
        anchor.map_or(at.0, |anchor| {
            anchor.boot_ms + at.0.saturating_sub(anchor.at.0)
        })
    }

    /// When, in the world's time, the monotonic clock of the seat will show a time.
    pub fn when(&self, mono: u64) -> u64 {
        match &self.seats {
            None => mono,
            Some(seats) => seats.all[self.seat].clock.when(mono),
        }
    }

    pub fn seat_event(&mut self, seat: usize, wait: u64, event: SeatEvent) {
        let process = self.seat_at(seat).process;
        self.after(wait, Event::Seat(seat, process, event));
    }

    pub fn seat_happens(&mut self, seat: usize, process: u64, event: &SeatEvent) {
        if self.seat_at(seat).process != process {
            return;
        }
        self.enter(seat);
        match *event {
            SeatEvent::Start => self.start_seat(seat),
            SeatEvent::Tick(at) => self.tick_seat(seat, at),
            SeatEvent::Synced(upto) => self.seat_synced(seat, upto),
            SeatEvent::Push => self.propose_waiting(),
            SeatEvent::Begin(term) => self.begin_reign(seat, term),
            SeatEvent::End(term) => self.end_reign(seat, term),
        }
    }

    /// Whether no other controller can be the primary now, by what this one knows.
    pub fn holds_lease(&self) -> bool {
        let Some(seats) = &self.seats else {
            return true;
        };
        let length = match seats.planted {
            Planted::LongLease => 8 * crate::consensus::ELECTION_MS_MAX,
            _ => reign::LEASE_MS,
        };
        let seat = &seats.all[self.seat];
        let now = seat.clock.mono(self.now);
        seat.node
            .as_ref()
            .is_some_and(|node| node.holds_lease(now, length))
    }

    /// Whether something could not be written a short while ago, and is tried again.
    pub fn has_unwritten(&self) -> bool {
        let unwritten = self
            .seats
            .as_ref()
            .map(|seats| seats.all[self.seat].unwritten);
        unwritten.is_some_and(|at| self.now < at + 3_000)
    }

    /// The term that orders carry.
    pub fn order_term(&self) -> u64 {
        let Some(seats) = &self.seats else {
            return self.log.term;
        };
        let seat = &seats.all[self.seat];
        match (&seat.node, &seat.reign) {
            (Some(node), _) if seats.planted == Planted::TermOfNode => node.term,
            (_, Some(reign)) => reign.term,
            (_, None) => 0,
        }
    }

    /// The controller that reigns and holds its lease, if there is one.
    pub fn primary(&mut self) -> Option<usize> {
        for seat in 0..self.house().count() {
            let ready = self.seat_at(seat).reign.as_ref().is_some_and(|r| r.ready);
            if ready {
                self.enter(seat);
                if self.holds_lease() {
                    return Some(seat);
                }
            }
        }
        None
    }
}
