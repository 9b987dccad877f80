//! What befalls a controller: its process dies, its machine loses power, its disk rots or is full, it
//! stands still, its clocks are wrong.

use std::sync::Arc;

use super::{Planted, SeatEvent};
use crate::consensus::{Change, Disk, ELECTION_MS_MAX, ELECTION_MS_MIN, Found, Members, Node};
use crate::controller::Controller;
use crate::log::Log;
use crate::world::World;

impl World {
    /// The process dies, with the power or alone; it starts again after a while, if it is to.
    pub fn end_process(&mut self, seat: usize, power: bool, again: Option<u64>) {
        self.enter(seat);
        if !self.seat_at(seat).is_up() {
            return;
        }
        self.meet(match power {
            true => "a controller that lost its unsynced writes",
            false => "a controller that died",
        });
        self.tell(|| format!("controller {} ends", seat + 1));
        let mut dice = self.dice.clone();
        let now = self.now;
        let one = self.seat_at(seat);
        one.process += 1;
        one.node = None;
        (one.reign, one.begins) = (None, None);
        one.held.clear();
        one.in_flight.clear();
        (one.syncing, one.written, one.tick_at) = (false, 0, u64::MAX);
        (one.lease_missed, one.has_followed) = (None, false);
        let torn = one.disk.end(power, &mut dice);
        if power {
            one.boots += 1;
            one.clock.boot(now);
        }
        self.dice = dice;
        if torn {
            self.meet("writes that a power cut took");
        }
        for link in self.links_at(seat) {
            self.break_link(link);
        }
        self.clients_cut_off(seat);
        self.controller = Controller {
            number: self.controller.number + 1,
            incarnations: self.controller.incarnations,
            ..Controller::default()
        };
        self.log = Log::new();
        self.log.commit_due = false;
        if let Some(wait) = again {
            self.seat_event(seat, wait, SeatEvent::Start);
        }
    }

    /// A process starts from what its disk holds.
    pub fn start_seat(&mut self, seat: usize) {
        self.enter(seat);
        if self.seat_at(seat).is_up() {
            return;
        }
        let cuts = self.house().planted == Planted::CutsDamage;
        let at_once = self.house().planted == Planted::VotesAtOnce;
        let transfers = self.house().planted == Planted::LeaseInTransfer;
        let mut first = Arc::clone(&self.house().first);
        let found = match self.seat_at(seat).disk.recover(cuts) {
            Ok(found) => found,
            Err(_) => {
                self.meet("a damaged log that was set aside");
                self.tell(|| format!("controller {}: its log is damaged", seat + 1));
                first = Arc::new(Members::default());
                self.set_aside(seat)
            }
        };
        if self.seat_at(seat).aside && found.snapshot.is_none() {
            first = Arc::new(Members::default());
        }
        self.tell(|| format!("controller {} starts", seat + 1));
        self.log = Log::new();
        if let Some(snapshot) = &found.snapshot {
            self.log.restore(&snapshot.records, snapshot.last);
        }
        let now = self.mono();
        let spread = self.dice.below(ELECTION_MS_MAX - ELECTION_MS_MIN);
        let wait = now + ELECTION_MS_MAX + ELECTION_MS_MIN + spread;
        let one = self.seat_at(seat);
        one.snapshot_at = found.snapshot.as_ref().map_or(0, |one| one.last.index);
        one.heard = now;
        let mut node = Node::new(one.node_id, found, first, wait);
        node.lease_while_transferring = transfers;
        if !at_once {
            node.respect_former(now);
        }
        one.node = Some(node);
        self.drive(seat);
    }

    /// What is left begins anew, as somebody whom the others do not know.
    fn set_aside(&mut self, seat: usize) -> Found {
        let seats = self.house_mut();
        seats.last_id += 1;
        let id = seats.last_id;
        let one = &mut seats.all[seat];
        one.disk = Disk::default();
        one.aside = true;
        one.former.push(one.node_id);
        one.node_id = id;
        Found::default()
    }

    /// A byte flips on a disk; says whether there was one to flip.
    pub fn rot(&mut self, seat: usize) -> bool {
        let mut dice = self.dice.clone();
        let one = self.seat_at(seat);
        let rots = match dice.chance(30) {
            true => one.disk.rot_snapshot(),
            false => one.disk.rot(&mut dice),
        };
        self.dice = dice;
        if rots {
            self.meet("a byte that flipped on a disk");
        }
        rots
    }

    pub fn pause_seat(&mut self, seat: usize, millis: u64) {
        self.meet("a controller that stood still");
        self.tell(|| format!("controller {} stands still for {millis} ms", seat + 1));
        let until = self.now + millis;
        self.enter(seat);
        self.controller.well_since = self.controller.well_since.max(until);
        self.seat_at(seat).paused_until = until;
    }

    /// The operators take those in again whose logs were set aside, one change at a time.
    pub fn take_in_again(&mut self) {
        let Some(primary) = self.primary() else {
            return;
        };
        let now = self.mono();
        for seat in 0..self.house().count() {
            let one = self.seat_at(seat);
            let (aside, former, id) = (one.aside, one.former.clone(), one.node_id);
            let Some(node) = self.node_mut(primary).filter(|_| aside) else {
                continue;
            };
            // What is not yet committed may still come to nothing.
            let members = node.members_at(node.commit);
            let known = former
                .into_iter()
                .find(|id| members.all().any(|member| member == *id));
            let change = if let Some(former) = known {
                Change::Remove(former)
            } else if !members.all().any(|member| member == id) {
                Change::AddLearner(id)
            } else if members.learners.contains(&id) {
                Change::Promote(id)
            } else {
                self.seat_at(seat).aside = false;
                continue;
            };
            if node.change(change, now).is_some() {
                self.meet("a change of members");
                self.tell(|| format!("members: {change:?}"));
            }
            return self.drive(primary);
        }
    }

    pub fn transfer_to(&mut self, seat: usize) {
        let Some(primary) = self.primary() else {
            return;
        };
        let id = self.seat_at(seat).node_id;
        if primary != seat && self.node_mut(primary).is_some_and(|node| node.transfer(id)) {
            self.meet("a planned transfer");
            self.tell(|| format!("the leadership goes to controller {}", seat + 1));
            self.drive(primary);
        }
    }
}
