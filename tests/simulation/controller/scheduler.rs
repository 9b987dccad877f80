//! The scheduler: plans from a view, proposes each placement as a group of its own, and plans again
//! what is refused.

use xce_deciding::schedule::{self, PLACEMENTS_MAX};
use xce_ledger::{GroupEvent, Outcome};
use xce_model::ClusterTime;

use super::{ActorKey, Life};
use crate::deciding;
use crate::world::World;

#[derive(Debug, Default)]
pub struct SchedulerActor {
    pub life: Life,
    pub told: bool,
    waiting: usize,
    again: bool,
}

impl SchedulerActor {
    pub fn forget(&mut self) {
        self.told = false;
        self.waiting = 0;
        self.again = false;
    }
}

impl World {
    pub fn scheduler_acts(&mut self) {
        if !std::mem::take(&mut self.controller.scheduler.told) {
            return;
        }
        let view = self.view();
        let placements = schedule::plan(&view, ClusterTime(self.now));
        self.controller.scheduler.waiting = placements.len();
        self.controller.scheduler.again = placements.len() >= PLACEMENTS_MAX;
        if placements.is_empty() {
            return self.scheduler_rests();
        }
        for (nth, placement) in (0..).zip(placements) {
            let event = GroupEvent::Planned { nth };
            let decided = schedule::placement(&placement);
            let group = deciding::group("place", (&view, self.now), event, decided);
            self.propose(&ActorKey::Scheduler, group);
        }
    }

    pub fn scheduler_committed(&mut self, outcome: &Outcome) {
        let scheduler = &mut self.controller.scheduler;
        scheduler.waiting = scheduler.waiting.saturating_sub(1);
        scheduler.again |= matches!(outcome, Outcome::Refused(_));
        if scheduler.waiting > 0 {
            scheduler.life.busy = true;
            return;
        }
        if std::mem::take(&mut scheduler.again) {
            scheduler.told = true;
        }
        self.scheduler_rests();
    }

    fn scheduler_rests(&mut self) {
        let next = xce_placement::next_wake(&self.view(), ClusterTime(self.now));
        self.arm(&ActorKey::Scheduler, next.map(|at| at.0));
    }
}
