//! Committed entries become state: first with the observer, who checks, then with the controller.

use std::sync::Arc;

use xce_model::Lsn;

use crate::consensus::{Entry, Payload};
use crate::world::World;

/// One in so many positions the whole state of every controller is compared.
/// Source: measured, a comparison costs as much as some dozen groups.
const DIGEST_EVERY: u64 = 64;

impl World {
    /// Applies what is committed; says whether anything was.
    pub fn apply_committed(&mut self, seat: usize) -> bool {
        let mut any = false;
        while let Some(entry) = self.node_mut(seat).and_then(|node| node.next_to_apply()) {
            self.apply_to_seat(seat, &entry);
            any = true;
        }
        any
    }

    fn apply_to_seat(&mut self, seat: usize, entry: &Arc<Entry>) {
        self.observe(entry);
        self.enter(seat);
        self.log.begin_at(entry.id);
        let mut outcomes = Vec::new();
        if let Payload::Groups(groups) = &entry.payload {
            for (sub, group) in (0..).zip(groups.iter()) {
                outcomes.push(self.log.apply_quietly(sub, group));
            }
        }
        let keys = self.log.publish();
        let now = self.mono();
        self.seat_at(seat).heard = now;
        self.publisher_told(keys);
        if self.controller.up {
            self.serve_watches(seat);
        }
        if entry.id.index.is_multiple_of(DIGEST_EVERY) {
            self.check_digest(seat, entry.id.index);
        }
        if let Some((id, from)) = self.seat_at(seat).in_flight.remove(&entry.id.index) {
            if id == entry.id {
                for (from, outcome) in from.into_iter().zip(&outcomes) {
                    self.proposal_done(from, outcome);
                }
                self.push_soon(seat);
            } else {
                self.proposals_unknown(seat, from);
            }
        }
        if matches!(entry.payload, Payload::Members(_))
            && let Some(node) = self.node_mut(seat)
        {
            node.step_down();
        }
    }

    /// The observer applies an entry the first time that anybody does.
    fn observe(&mut self, entry: &Arc<Entry>) {
        let known = self.house().committed.len() as u64;
        let index = entry.id.index;
        if index <= known {
            let place = usize::try_from(index - 1).expect("a short log");
            if !Arc::ptr_eq(&self.house().committed[place], entry) {
                self.fail(&format!(
                    "two controllers have applied different entries at {index}"
                ));
            }
            return;
        }
        if index != known + 1 {
            self.fail(&format!("entry {index} is applied after {known}"));
        }
        let observer = self.observer();
        self.enter(observer);
        self.log.begin_at(entry.id);
        if let Payload::Groups(groups) = &entry.payload {
            for (sub, group) in (0..).zip(groups.iter()) {
                let before = self.log.applied().clone();
                let outcome = self.log.apply(sub, group.clone());
                self.tell_entry(&outcome);
                self.check_group(&before, &outcome);
                self.note_committed(index, group, &outcome);
            }
        }
        self.log.publish();
        self.after_publish();
        self.note_state(index);
        self.house_mut().committed.push(Arc::clone(entry));
    }

    /// Equal positions are equal states, byte for byte.
    pub fn check_digest(&mut self, seat: usize, lsn: Lsn) {
        self.enter(seat);
        let digest = self.log.digest();
        let known = *self.house_mut().digests.entry(lsn).or_insert(digest);
        if known != digest {
            self.fail(&format!(
                "controller {} has another state at position {lsn} than another had",
                seat + 1
            ));
        }
    }

    /// The position of a controller's state.
    pub fn position_of(&self, seat: usize) -> Lsn {
        let parked = self.house().all[seat].parked.as_ref();
        let log = parked.map_or(&self.log, |(_, log)| log);
        log.view().lsn()
    }

    /// The state of all that was ever applied.
    pub fn see_all(&mut self) {
        let observer = self.observer();
        self.enter(observer);
    }
}
