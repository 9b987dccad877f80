//! Links between workers and the controller: in order, delayed, cut.

use std::collections::{BTreeMap, VecDeque};

use xce_host::Remnant;
use xce_host::facts::Inventory;
use xce_host::wire::{Beat, BeatAck, Join};
use xce_replica::wire::{Orders, Reports, ReportsCommitted};

use crate::seats::End;
use crate::world::{Event, World};

/// Silence after which both ends give a cut link up. Source: as the idle timeout of the real links.
const IDLE_MS: u64 = 6_000;
/// Pause before what did not come through is sent again. Source: chosen, some round trips.
const RESEND_MS: u64 = 150;

/// What a worker says.
#[derive(Debug, Clone)]
pub enum ToController {
    Join(Box<Join>),
    Beat(Beat),
    Reports(Reports),
    Leaving,
}

/// What a worker is told.
#[derive(Debug, Clone)]
pub enum ToWorker {
    Joined(ReportsCommitted),
    Orders(Box<Orders>),
    Committed(ReportsCommitted),
    BeatAck(BeatAck),
    Refused,
    /// The other end closed the link.
    Closed,
    /// The controller is not the primary; which one is, as far as it knows.
    NotPrimary(Option<usize>),
}

/// One connection.
#[derive(Debug)]
pub struct Link {
    pub place: usize,
    /// The controller.
    pub seat: usize,
    /// Since when nothing comes through.
    stalled: Option<u64>,
    pub inventory: Option<Inventory>,
    /// Runs that the worker had when it joined over it.
    pub runs: Vec<Remnant>,
    /// Epoch of the worker's spool when it joined, and how far it knew that to be committed.
    pub epoch: u64,
    pub committed: u64,
    /// Whether the worker's end is open.
    pub worker_open: bool,
    /// Whether the controller's end is open.
    pub controller_open: bool,
    up: VecDeque<ToController>,
    down: VecDeque<ToWorker>,
    last_up: u64,
    last_down: u64,
}

#[derive(Debug, Default)]
pub struct Links {
    pub all: BTreeMap<u64, Link>,
    last: u64,
}

impl World {
    /// A new link from a worker.
    pub fn open_link(&mut self, place: usize, seat: usize) -> u64 {
        self.links.last += 1;
        let id = self.links.last;
        let link = Link {
            place,
            seat,
            stalled: None,
            inventory: None,
            runs: Vec::new(),
            epoch: 0,
            committed: 0,
            worker_open: true,
            controller_open: true,
            up: VecDeque::new(),
            down: VecDeque::new(),
            last_up: self.now,
            last_down: self.now,
        };
        self.links.all.insert(id, link);
        id
    }

    fn delay(&mut self, place: usize) -> u64 {
        let bound = self.settings.network_ms;
        self.some(bound) + self.machines[place].slow_ms
    }

    pub fn send_up(&mut self, id: u64, message: ToController) {
        let Some(place) = self.links.all.get(&id).map(|link| link.place) else {
            return;
        };
        let at = self.now + self.delay(place);
        let cut = self.machines[place].cut;
        let Some(link) = self.links.all.get_mut(&id) else {
            return;
        };
        if !link.worker_open || cut {
            return;
        }
        link.last_up = link.last_up.max(at);
        link.up.push_back(message);
        let at = link.last_up;
        self.at(at, Event::Up(id));
    }

    pub fn send_down(&mut self, id: u64, message: ToWorker) {
        let Some(place) = self.links.all.get(&id).map(|link| link.place) else {
            return;
        };
        let at = self.now + self.delay(place);
        let cut = self.machines[place].cut;
        let Some(link) = self.links.all.get_mut(&id) else {
            return;
        };
        if !link.controller_open || cut {
            return;
        }
        link.last_down = link.last_down.max(at);
        link.down.push_back(message);
        let at = link.last_down;
        self.at(at, Event::Down(id));
    }

    pub fn deliver_up(&mut self, id: u64) {
        if self.stalls(id, true) {
            return self.after(RESEND_MS, Event::Up(id));
        }
        let Some(link) = self.links.all.get_mut(&id) else {
            return;
        };
        let Some(message) = link.up.pop_front() else {
            return;
        };
        link.stalled = None;
        if !link.controller_open {
            return;
        }
        let place = link.place;
        if let ToController::Join(join) = &message {
            link.inventory = Some(join.inventory.clone());
            link.runs.clone_from(&join.runs);
            (link.epoch, link.committed) = (join.epoch, join.committed);
        }
        self.controller_hears(id, place, message);
    }

    pub fn deliver_down(&mut self, id: u64) {
        if self.stalls(id, false) {
            return self.after(RESEND_MS, Event::Down(id));
        }
        let Some(link) = self.links.all.get_mut(&id) else {
            return;
        };
        let Some(message) = link.down.pop_front() else {
            return;
        };
        link.stalled = None;
        if !link.worker_open {
            return;
        }
        let place = link.place;
        self.worker_hears(place, id, message);
    }

    /// The controller closes a link: the worker hears of it after what was sent before.
    pub fn close_by_controller(&mut self, id: u64) {
        self.send_down(id, ToWorker::Closed);
        if let Some(link) = self.links.all.get_mut(&id) {
            link.controller_open = false;
            link.up.clear();
        }
    }

    /// Whether what waits on a link cannot come through now: it is sent again, until both ends give
    /// the link up.
    fn stalls(&mut self, id: u64, up: bool) -> bool {
        let now = self.now;
        let Some(link) = self.links.all.get(&id) else {
            return false;
        };
        let (one, other) = (End::Machine(link.place), End::Seat(link.seat));
        let reaches = match up {
            true => self.reaches(one, other),
            false => self.reaches(other, one),
        };
        let waits = match up {
            true => !link.up.is_empty(),
            false => !link.down.is_empty(),
        };
        let Some(link) = self.links.all.get_mut(&id).filter(|_| !reaches && waits) else {
            // What comes through one way alone is not acknowledged, and counts as nothing.
            return false;
        };
        let since = *link.stalled.get_or_insert(now);
        if now - since >= IDLE_MS {
            self.break_now(id);
            return false;
        }
        true
    }

    /// Links of workers to a controller.
    pub fn links_at(&self, seat: usize) -> Vec<u64> {
        let links = self.links.all.iter();
        links
            .filter(|(_, link)| link.seat == seat && link.controller_open)
            .map(|(id, _)| *id)
            .collect()
    }

    /// The controller has said its last word on a link.
    pub fn close_at_controller(&mut self, id: u64) {
        if let Some(link) = self.links.all.get_mut(&id) {
            link.controller_open = false;
            link.up.clear();
        }
    }

    /// A controller dies without a word: its workers notice by silence.
    pub fn break_link(&mut self, id: u64) {
        self.close_at_controller(id);
        let Some(place) = self.links.all.get(&id).map(|link| link.place) else {
            return;
        };
        let wait = self.some(IDLE_MS);
        let event = crate::machine::MachineEvent::Broken(id);
        self.after(wait, Event::Machine(place, event));
    }

    /// Both ends give a link up.
    pub fn break_now(&mut self, id: u64) {
        let Some(link) = self.links.all.get(&id).filter(|link| link.worker_open) else {
            return;
        };
        let place = link.place;
        self.close_by_worker(id);
        self.worker_disconnected(place, id);
    }

    /// A worker came to a controller that is not the primary.
    pub fn refuse_at_door(&mut self, id: u64) {
        if self.is_seated() {
            let hint = self.hint(self.seat);
            self.send_down(id, ToWorker::NotPrimary(hint));
            self.close_at_controller(id);
        }
    }

    /// The worker closes a link, or dies with it.
    pub fn close_by_worker(&mut self, id: u64) {
        if let Some(link) = self.links.all.get_mut(&id) {
            link.worker_open = false;
            link.controller_open = false;
            link.up.clear();
            link.down.clear();
        }
    }

    /// The network of a machine is cut: what is on its way is lost, and the ends notice later.
    pub fn cut(&mut self, place: usize) {
        self.machines[place].cut = true;
        self.tell(|| format!("the network of h{} is cut", place + 1));
        let links: Vec<u64> = self.links_of(place);
        for id in links {
            if let Some(link) = self.links.all.get_mut(&id) {
                link.up.clear();
                link.down.clear();
            }
            self.after(
                IDLE_MS,
                Event::Machine(place, crate::machine::MachineEvent::Idle(id)),
            );
        }
    }

    pub fn mend(&mut self, place: usize) {
        if !std::mem::replace(&mut self.machines[place].cut, false) {
            return;
        }
        self.tell(|| format!("the network of h{} is mended", place + 1));
        // What was lost on the way is never sent again on the same link.
        for id in self.links_of(place) {
            self.close_by_worker(id);
            self.worker_disconnected(place, id);
        }
    }

    fn links_of(&self, place: usize) -> Vec<u64> {
        let links = self.links.all.iter();
        links
            .filter(|(_, link)| link.place == place && link.worker_open)
            .map(|(id, _)| *id)
            .collect()
    }
}
