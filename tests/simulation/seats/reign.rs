//! The time in which a controller is the primary, in the order of the shell: cluster time is tied to
//! its machine by a commit, then the actors start; in the end the connections close, then the actors
//! are gone.

use xce_ledger::{Anchor, ClockFact, Group, Here};
use xce_model::{ClusterTime, Millis, WallTime};

use super::{End, Planted, SeatEvent};
use crate::consensus::ELECTION_MS_MAX;
use crate::controller::ActorKey;
use crate::log::{Proposal, Proposer};
use crate::network::ToWorker;
use crate::world::World;

/// How long the answers of a quorum keep others from leading. Source: as in the log's own adapter.
pub const LEASE_MS: u64 = ELECTION_MS_MAX;
/// After how long without an answer of a quorum a primary no longer calls itself one.
/// Source: as in the log's own adapter.
const CUT_OFF_MS: u64 = 5 * ELECTION_MS_MAX;
/// Pause before a reign that could not begin is tried again. Source: as in the shell.
const AGAIN_MS: u64 = 100;

#[derive(Debug, Clone)]
pub struct Reign {
    pub term: u64,
    pub anchor: Anchor,
    /// Whether cluster time is tied and the actors have started.
    pub ready: bool,
    ending: bool,
}

impl World {
    /// Sees whether a reign begins or ends by the node's role.
    pub fn see_role(&mut self, seat: usize) {
        let now = self.now;
        let one = self.seat_at(seat);
        let Some(node) = &one.node else { return };
        one.has_followed |= !node.is_leader() && node.leader.is_some();
        let mono = one.clock.mono(now);
        let leads = node.is_primary() && node.unanswered(mono).is_some_and(|t| t < CUT_OFF_MS);
        let term = leads.then_some(node.term);
        match (&mut one.reign, term) {
            // Where it cannot begin, it tries again by itself.
            (None, Some(term)) if one.begins != Some(term) => {
                one.begins = Some(term);
                self.seat_event(seat, 0, SeatEvent::Begin(term));
            }
            (None, None) => one.begins = None,
            (Some(reign), term) if term != Some(reign.term) && !reign.ending => {
                reign.ending = true;
                let term = reign.term;
                let bound = self.house().weather.depose_ms;
                let wait = self.some(bound);
                self.seat_event(seat, wait, SeatEvent::End(term));
            }
            (None | Some(_), None | Some(_)) => {}
        }
    }

    /// Ties cluster time to this machine's clocks, by a commit.
    pub fn begin_reign(&mut self, seat: usize, term: u64) {
        let (mono, wall) = (self.mono(), self.times().1);
        let boot_id = format!("seat-{seat}-{}", self.seat_at(seat).boots);
        let clock = self.view().clock().clone();
        let one = self.seat_at(seat);
        let leads = one
            .node
            .as_ref()
            .is_some_and(|node| node.is_primary() && node.term == term);
        if !leads || one.reign.is_some() {
            return;
        }
        let here = Here {
            boot_id: boot_id.clone(),
            boot_ms: mono,
            wall,
        };
        let at = match one.has_followed {
            true => clock.last.after(Millis(mono.saturating_sub(one.heard))),
            false => clock.resume(&here),
        };
        one.reign = Some(Reign {
            term,
            anchor: Anchor {
                at,
                boot_id: boot_id.clone(),
                boot_ms: mono,
                wall,
            },
            ready: false,
            ending: false,
        });
        self.meet("a reign");
        self.tell(|| format!("controller {} is the primary of term {term}", seat + 1));
        let group = anchored(at, &here);
        let from = Some(Proposer {
            key: ActorKey::Reign,
            incarnation: term,
        });
        self.enqueue(Proposal { group, from });
    }

    /// The actors start.
    pub fn reign_is_tied(&mut self, term: u64) {
        let seat = self.seat;
        let Some(reign) = &mut self.seat_at(seat).reign else {
            return;
        };
        if reign.term != term || reign.ending {
            return;
        }
        reign.ready = true;
        self.start_actors();
    }

    pub fn reign_is_not_tied(&mut self, term: u64) {
        let seat = self.seat;
        let again = self.house().planted != Planted::WaitsForRole;
        let one = self.seat_at(seat);
        if one
            .reign
            .as_ref()
            .is_none_or(|reign| reign.term != term || reign.ready)
        {
            return;
        }
        one.reign = None;
        self.meet("a reign that could not begin");
        if again {
            self.seat_event(seat, AGAIN_MS, SeatEvent::Begin(term));
        }
    }

    /// Another term began: nobody is told any more, the connections close, the actors end.
    pub fn end_reign(&mut self, seat: usize, term: u64) {
        let one = self.seat_at(seat);
        if one.reign.as_ref().is_none_or(|reign| reign.term != term) {
            return;
        }
        self.tell(|| format!("controller {} is no longer the primary", seat + 1));
        let hint = self.hint(seat);
        for link in self.links_at(seat) {
            self.send_down(link, ToWorker::NotPrimary(hint));
            self.close_at_controller(link);
        }
        self.clients_cut_off(seat);
        self.actors_end();
        let one = self.seat_at(seat);
        (one.reign, one.begins) = (None, None);
        self.see_role(seat);
    }

    /// Where the primary is, as far as a controller knows.
    pub fn hint(&mut self, seat: usize) -> Option<usize> {
        let seats = self.house();
        let leader = seats.all[seat].node.as_ref().and_then(|node| node.leader)?;
        (0..seats.count()).find(|place| *place != seat && seats.all[*place].node_id == leader)
    }

    pub fn can_talk(&self, one: End, other: End) -> bool {
        self.reaches(one, other) && self.reaches(other, one)
    }
}

fn anchored(at: ClusterTime, here: &Here) -> Group {
    let fact = ClockFact::Anchored {
        boot_id: here.boot_id.clone(),
        boot_ms: here.boot_ms,
        wall: here.wall,
    };
    let wall: WallTime = here.wall;
    Group::new(at, wall, "start").with(fact)
}
