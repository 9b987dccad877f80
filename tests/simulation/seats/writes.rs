//! What waits to be written becomes entries, at most two of them under way.

use std::sync::Arc;

use xce_ledger::{Group, Outcome};

use super::{Planted, SeatEvent};
use crate::consensus::Payload;
use crate::controller::ActorKey;
use crate::log::{Proposal, Proposer};
use crate::world::World;

/// Entries that are under way at once. Source: as in the log's actor.
const IN_FLIGHT: usize = 2;
/// How long a write waits for a quorum that has not answered for a while, and how often it is tried.
/// Source: as in the log's own adapter.
const PATIENCE_MS: u64 = 600;
const PAUSE_MS: u64 = 10;

/// Why a group was not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// Nobody knows.
    Unknown,
    /// Certainly not written.
    Refused(&'static str),
}

impl World {
    pub fn push_soon(&mut self, seat: usize) {
        if !self.log.queue.is_empty() && !std::mem::replace(&mut self.log.commit_due, true) {
            self.seat_event(seat, 0, SeatEvent::Push);
        }
    }

    /// Proposes what waits, as much as may be under way.
    pub fn propose_waiting(&mut self) {
        self.log.commit_due = false;
        let seat = self.seat;
        while !self.log.queue.is_empty() && self.seat_at(seat).in_flight.len() < IN_FLIGHT {
            let now = self.mono();
            let Some(node) = &self.seat_at(seat).node else {
                return;
            };
            if !node.is_leader() || node.transferring {
                self.refuse_waiting(seat, "not_primary");
                continue;
            }
            if !self.holds_lease() && !self.waits_for_lease(seat, now) {
                return;
            }
            if self.log.queue.is_empty() {
                return;
            }
            if self.seat_at(seat).disk.full {
                self.meet("a group that found no room");
                self.refuse_waiting(seat, "disk_full");
                continue;
            }
            self.propose_batch(seat, now);
        }
        self.drive(seat);
    }

    /// Whether to go on: without a lease a write waits for a while, and is then refused.
    fn waits_for_lease(&mut self, seat: usize, now: u64) -> bool {
        let alone = self
            .node_mut(seat)
            .is_some_and(|node| node.is_leader() && node.members().voters.len() == 1);
        if alone {
            return true;
        }
        let since = *self.seat_at(seat).lease_missed.get_or_insert(now);
        if now < since + PATIENCE_MS {
            self.log.commit_due = true;
            self.seat_event(seat, PAUSE_MS, SeatEvent::Push);
            return false;
        }
        self.seat_at(seat).lease_missed = None;
        self.meet("a write that found no quorum");
        self.refuse_waiting(seat, "not_primary");
        true
    }

    fn propose_batch(&mut self, seat: usize, now: u64) {
        self.seat_at(seat).lease_missed = None;
        let count = 1 + self.dice.place(self.log.queue.len());
        let mut groups = Vec::with_capacity(count);
        let mut from = Vec::with_capacity(count);
        let mut sum = 0;
        for proposal in self.log.queue.drain(..count) {
            let bytes = proposal.group.encode();
            sum = crc32c::crc32c_append(sum, &bytes);
            let read = Group::decode(&bytes).expect("a group can be read");
            assert_eq!(read, proposal.group, "a group is read as it was written");
            groups.push(read);
            from.push(proposal.from);
        }
        self.house_mut().note(u64::from(sum));
        let payload = Payload::Groups(Arc::new(groups));
        let Some(node) = self.node_mut(seat) else {
            return;
        };
        let Some(id) = node.propose(payload, now) else {
            return self.proposals_unknown(seat, from);
        };
        if self.is_planted(Planted::EarlyAnswer) {
            for one in &mut from {
                self.answer_early(one);
            }
        }
        self.seat_at(seat).in_flight.insert(id.index, (id, from));
    }

    fn refuse_waiting(&mut self, _seat: usize, code: &'static str) {
        let waiting: Vec<Proposal> = self.log.queue.drain(..).collect();
        for proposal in waiting {
            self.proposal_failed(proposal.from, Failure::Refused(code));
        }
    }

    /// An entry that was proposed here is not what is committed there.
    pub fn entry_lost(&mut self, seat: usize, index: u64) {
        if let Some((_, from)) = self.seat_at(seat).in_flight.remove(&index) {
            self.proposals_unknown(seat, from);
        }
    }

    pub fn proposals_unknown(&mut self, seat: usize, from: Vec<Option<Proposer>>) {
        self.meet("an entry that was lost");
        self.enter(seat);
        for from in from {
            self.proposal_failed(from, Failure::Unknown);
        }
    }

    /// Whether any entry of this controller is under way.
    pub fn is_writing(&self) -> bool {
        self.seats
            .as_ref()
            .is_some_and(|seats| !seats.all[self.seat].in_flight.is_empty())
    }

    /// Whether something that an actor proposed is under way.
    pub fn is_in_flight(&self, key: &ActorKey) -> bool {
        let Some(seats) = &self.seats else {
            return false;
        };
        let in_flight = seats.all[self.seat].in_flight.values();
        let mut from = in_flight.flat_map(|(_, from)| from.iter().flatten());
        from.any(|from| from.key == *key)
    }

    pub fn proposal_done(&mut self, from: Option<Proposer>, outcome: &Outcome) {
        let Some(from) = from else { return };
        match from.key {
            ActorKey::Door(ticket) => self.door_committed(ticket, outcome),
            ActorKey::Reign => self.reign_is_tied(from.incarnation),
            key => {
                let current = self
                    .life(&key)
                    .is_some_and(|life| life.up && life.incarnation == from.incarnation);
                if current {
                    self.committed(&key, outcome);
                }
            }
        }
    }

    fn proposal_failed(&mut self, from: Option<Proposer>, failure: Failure) {
        let Some(from) = from else { return };
        match from.key {
            ActorKey::Door(ticket) => return self.door_failed(ticket, failure),
            ActorKey::Reign => return self.reign_is_not_tied(from.incarnation),
            _ => {}
        }
        let key = from.key;
        let current = self
            .life(&key)
            .is_some_and(|life| life.up && life.incarnation == from.incarnation);
        if !current {
            return;
        }
        match failure {
            Failure::Unknown => {
                self.meet("an actor that ended for an unknown outcome");
                let wait = self.some(10);
                self.kill_actor(&key, wait);
            }
            Failure::Refused(code) => self.not_written(&key, code),
        }
    }

    /// A write of an actor was certainly not carried out.
    fn not_written(&mut self, key: &ActorKey, code: &'static str) {
        let (now, seat) = (self.now, self.seat);
        self.seat_at(seat).unwritten = now;
        if let Some(life) = self.life(key) {
            life.busy = false;
        }
        match key {
            ActorKey::Publisher | ActorKey::Janitor | ActorKey::Door(_) | ActorKey::Reign => {}
            ActorKey::Scheduler => self.plan_not_written(),
            ActorKey::Host(place) => self.host_not_written(*place),
            ActorKey::Service(id) => self.service_not_written(*id, code),
        }
        self.wake(key);
    }
}
