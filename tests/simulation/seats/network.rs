//! The network between controllers, workers and clients: who reaches whom.

use std::collections::BTreeSet;

use crate::consensus::Envelope;
use crate::world::{Event, World};

/// One end of a way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    Seat(usize),
    Machine(usize),
    Client(usize),
}

/// Ways that are cut, each from and to.
#[derive(Debug, Default)]
pub struct Wires {
    cuts: BTreeSet<(End, End)>,
}

impl Wires {
    pub fn cut(&mut self, from: End, to: End) {
        if from != to {
            self.cuts.insert((from, to));
        }
    }

    pub fn cut_both(&mut self, one: End, other: End) {
        self.cut(one, other);
        self.cut(other, one);
    }

    pub fn heal(&mut self) {
        self.cuts.clear();
    }

    pub fn is_cut(&self, from: End, to: End) -> bool {
        !self.cuts.is_empty() && self.cuts.contains(&(from, to))
    }
}

impl World {
    /// A message from one controller to another: it may be lost, late, or come twice.
    pub fn send_packet(&mut self, from: usize, envelope: Envelope) {
        let to = envelope.to;
        let seats = self.house();
        let Some(place) = (0..seats.count()).find(|place| seats.all[*place].node_id == to) else {
            return;
        };
        let (lost, doubled, delay) = (
            seats.weather.lost_permille,
            seats.weather.doubled_permille,
            seats.weather.delay_ms,
        );
        if seats.wires.is_cut(End::Seat(from), End::Seat(place)) {
            return;
        }
        if lost > 0 && self.dice.below(1_000) < lost {
            return self.meet("a message between controllers that was lost");
        }
        let twice = doubled > 0 && self.dice.below(1_000) < doubled;
        if twice {
            let wait = self.some(delay * 4);
            self.meet("a message between controllers that came twice");
            self.after(wait, Event::Packet(place, Box::new(envelope.clone())));
        }
        let wait = self.some(delay);
        self.after(wait, Event::Packet(place, Box::new(envelope)));
    }

    pub fn packet_arrives(&mut self, place: usize, envelope: Envelope) {
        let seats = self.house();
        let known = |id: u64| (0..seats.count()).find(|place| seats.all[*place].node_id == id);
        let Some(from) = known(envelope.from) else {
            return;
        };
        let cut = seats.wires.is_cut(End::Seat(from), End::Seat(place));
        if cut || seats.all[place].node_id != envelope.to {
            return;
        }
        self.enter(place);
        self.node_hears(place, envelope);
    }

    /// Whether what one sends reaches the other now.
    pub fn reaches(&self, from: End, to: End) -> bool {
        self.seats
            .as_ref()
            .is_none_or(|seats| !seats.wires.is_cut(from, to))
    }
}
