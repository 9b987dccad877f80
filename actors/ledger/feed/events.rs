//! An event feed: every event by itself, never coalesced, kept for a bounded while.

use std::collections::VecDeque;

use xce_model::Lsn;

/// Events that were told once and are kept for readers that come back.
#[derive(Debug)]
pub struct EventLog<Event> {
    kept: VecDeque<(Lsn, usize, Event)>,
    bytes: usize,
    bytes_max: usize,
    events_max: usize,
    /// Up to here events may be missing.
    floor: Lsn,
}

/// Positions whose events are not held any more: those above `from`, up to and with `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// What the reader has.
    pub from: Lsn,
    /// Where events are held again.
    pub to: Lsn,
}

/// What a reader is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Events<Event> {
    /// What it missed for good, before the events.
    pub gap: Option<Gap>,
    /// In the order in which they were committed.
    pub events: Vec<(Lsn, Event)>,
    /// Position from which it goes on.
    pub lsn: Lsn,
}

impl<Event: Clone> EventLog<Event> {
    /// An empty one that holds at most so many events and bytes; nothing up to `floor` is known.
    pub fn new(events_max: usize, bytes_max: usize, floor: Lsn) -> Self {
        Self {
            kept: VecDeque::new(),
            bytes: 0,
            bytes_max,
            events_max,
            floor,
        }
    }

    /// Adds the next event; old ones are forgotten, all of one position together.
    pub fn push(&mut self, lsn: Lsn, bytes: usize, event: Event) {
        self.bytes += bytes;
        self.kept.push_back((lsn, bytes, event));
        while self.kept.len() > self.events_max || self.bytes > self.bytes_max {
            let Some((oldest, ..)) = self.kept.front() else {
                return;
            };
            let oldest = *oldest;
            self.floor = self.floor.max(oldest);
            while let Some((lsn, bytes, _)) = self.kept.front()
                && *lsn == oldest
            {
                self.bytes -= *bytes;
                self.kept.pop_front();
            }
        }
    }

    /// Forgets everything: what was committed up to a position was not told here.
    pub fn restart(&mut self, floor: Lsn) {
        self.kept.clear();
        self.bytes = 0;
        self.floor = self.floor.max(floor);
    }

    /// Bytes that are held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Oldest position from which nothing is missing.
    pub fn floor(&self) -> Lsn {
        self.floor
    }

    /// What follows a position: at most `max` events, but never a part of a position.
    pub fn since(&self, after: Lsn, max: usize) -> Events<Event> {
        let gap = (after < self.floor).then_some(Gap {
            from: after,
            to: self.floor,
        });
        let from = after.max(self.floor);
        let first = self.kept.partition_point(|(lsn, ..)| *lsn <= from);
        let mut events: Vec<(Lsn, Event)> = Vec::new();
        for (lsn, _, event) in self.kept.range(first..) {
            let is_next = events.last().is_some_and(|(last, _)| last != lsn);
            if events.len() >= max && is_next {
                break;
            }
            events.push((*lsn, event.clone()));
        }
        let lsn = events.last().map_or(from, |(lsn, _)| *lsn);
        Events { gap, events, lsn }
    }
}
