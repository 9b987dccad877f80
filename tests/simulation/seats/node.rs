//! A controller's consensus: drives its node, its disk and what it sends.

use std::sync::Arc;

use super::{Planted, SeatEvent};
use crate::consensus::{
    Body, ELECTION_MS_MAX, ELECTION_MS_MIN, Envelope, Node, Output, Record, Snapshot,
};
use crate::world::World;

impl World {
    fn election_wait(&mut self) -> u64 {
        let spread = ELECTION_MS_MAX - ELECTION_MS_MIN;
        ELECTION_MS_MIN + self.some(spread)
    }

    pub fn node_mut(&mut self, seat: usize) -> Option<&mut Node> {
        self.seat_at(seat).node.as_mut()
    }

    pub fn tick_seat(&mut self, seat: usize, at: u64) {
        if self.seat_at(seat).tick_at != at {
            return;
        }
        self.seat_at(seat).tick_at = u64::MAX;
        let (now, wait) = (self.mono(), self.election_wait());
        if let Some(node) = self.node_mut(seat) {
            node.tick(now, wait);
        }
        self.drive(seat);
    }

    pub fn node_hears(&mut self, seat: usize, envelope: Envelope) {
        let full = self.seat_at(seat).disk.full;
        let writes = match &envelope.body {
            Body::Append { entries, .. } => !entries.is_empty(),
            Body::Part { .. } => true,
            _ => false,
        };
        if full && writes {
            return self.meet("an entry that found no room");
        }
        let (now, wait) = (self.mono(), self.election_wait());
        if let Some(node) = self.node_mut(seat) {
            node.receive(envelope, now, wait);
        }
        self.drive(seat);
    }

    /// Does what a node wants, applies what is committed, and sees what became of its role.
    pub fn drive(&mut self, seat: usize) {
        loop {
            self.enter(seat);
            let Some(node) = self.node_mut(seat) else {
                return;
            };
            let outputs = std::mem::take(&mut node.outputs);
            let nothing = outputs.is_empty();
            for output in outputs {
                self.put_out(seat, output);
            }
            self.sync_if_needed(seat);
            let applied = self.apply_committed(seat);
            if nothing && !applied {
                break;
            }
        }
        self.snapshot_if_due(seat);
        self.see_role(seat);
        self.plan_tick(seat);
    }

    fn put_out(&mut self, seat: usize, output: Output) {
        let planted = self.house().planted;
        match output {
            Output::Write(record) => {
                let one = self.seat_at(seat);
                one.written += 1;
                if planted == Planted::ForgetsVotes && matches!(record, Record::Vote(..)) {
                    return;
                }
                let number = one.written;
                one.disk.write(number, record);
            }
            Output::Send(envelope) => self.send_packet(seat, envelope),
            Output::SendDurable(envelope) => {
                let one = self.seat_at(seat);
                if one.disk.synced >= one.written || planted == Planted::NoSync {
                    self.send_packet(seat, envelope);
                } else {
                    let number = one.written;
                    one.held.push((number, envelope));
                }
            }
            Output::Restore(snapshot) => self.restore_from(seat, &snapshot),
        }
    }

    fn sync_if_needed(&mut self, seat: usize) {
        let bound = self.house().weather.sync_ms;
        let one = self.seat_at(seat);
        if one.syncing || one.disk.synced >= one.written {
            return;
        }
        one.syncing = true;
        let upto = one.written;
        let wait = self.some(bound);
        self.seat_event(seat, wait, SeatEvent::Synced(upto));
    }

    pub fn seat_synced(&mut self, seat: usize, upto: u64) {
        let one = self.seat_at(seat);
        one.syncing = false;
        if one.disk.fails {
            one.disk.fails = false;
            self.meet("a sync that failed");
            self.tell(|| format!("controller {}: a sync fails, it ends", seat + 1));
            return self.end_process(seat, true, Some(500));
        }
        one.disk.sync(upto);
        let held = std::mem::take(&mut one.held);
        let (ready, later) = held.into_iter().partition(|(number, _)| *number <= upto);
        one.held = later;
        for (_, envelope) in Vec::<(u64, Envelope)>::from_iter(ready as Vec<_>) {
            self.send_packet(seat, envelope);
        }
        if let Some(node) = self.node_mut(seat) {
            node.synced(upto);
        }
        self.drive(seat);
    }

    fn plan_tick(&mut self, seat: usize) {
        let Some(deadline) = self.node_mut(seat).map(|node| node.deadline()) else {
            return;
        };
        // A later deadline is met by looking once more at the earlier time.
        if self.seat_at(seat).tick_at <= deadline {
            return;
        }
        self.seat_at(seat).tick_at = deadline;
        self.enter(seat);
        let when = self.when(deadline);
        let process = self.seat_at(seat).process;
        let event = crate::world::Event::Seat(seat, process, SeatEvent::Tick(deadline));
        self.at(when.max(self.now + 1), event);
    }

    fn restore_from(&mut self, seat: usize, snapshot: &Arc<Snapshot>) {
        self.enter(seat);
        self.meet("a snapshot that was installed");
        self.tell(|| {
            format!(
                "controller {} installs a snapshot of {:?}",
                seat + 1,
                snapshot.last
            )
        });
        self.log.restore(&snapshot.records, snapshot.last);
        let now = self.mono();
        let one = self.seat_at(seat);
        one.heard = now;
        one.snapshot_at = snapshot.last.index;
        let lost: Vec<u64> = one
            .in_flight
            .range(..=snapshot.last.index)
            .map(|(index, _)| *index)
            .collect();
        for index in lost {
            self.entry_lost(seat, index);
        }
        self.check_digest(seat, snapshot.last.index);
    }

    fn snapshot_if_due(&mut self, seat: usize) {
        let every = self.house().weather.snapshot_every;
        let one = self.seat_at(seat);
        let Some(node) = &one.node else { return };
        let applied = node.applied;
        if applied.index < one.snapshot_at + every {
            return;
        }
        one.snapshot_at = applied.index;
        let members = node.members_at(applied.index);
        self.enter(seat);
        let snapshot = Arc::new(Snapshot {
            last: applied,
            members,
            records: self.log.records(),
        });
        let one = self.seat_at(seat);
        let keep = one.disk.keep(Arc::clone(&snapshot));
        if let Some(node) = &mut one.node {
            node.compact(snapshot, keep);
        }
        self.meet("a snapshot");
    }
}
