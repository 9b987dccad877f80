//! The scheduler: plans from a view, proposes each placement as a group of its own, and plans again
//! what is refused.

use xce_deciding::schedule::{self, PLACEMENTS_MAX};
use xce_ledger::{GroupEvent, Outcome};

use super::{ActorKey, Life};
use crate::deciding;
use crate::world::World;

/// Pause before what could not be written is planned again. Source: as in the shell.
const UNWRITTEN_MS: u64 = 1_000;

#[derive(Debug, Default)]
pub struct SchedulerActor {
    pub life: Life,
    pub told: bool,
    waiting: usize,
    again: bool,
    unwritten: bool,
}

impl SchedulerActor {
    pub fn forget(&mut self) {
        self.told = false;
        self.waiting = 0;
        self.again = false;
        self.unwritten = false;
    }
}

impl World {
    pub fn scheduler_acts(&mut self) {
        if !std::mem::take(&mut self.controller.scheduler.told) {
            return;
        }
        let view = self.view();
        let placements = schedule::plan(&view, self.times().0);
        self.controller.scheduler.waiting = placements.len();
        self.controller.scheduler.again = placements.len() >= PLACEMENTS_MAX;
        if placements.is_empty() {
            return self.scheduler_rests();
        }
        for (nth, placement) in (0..).zip(placements) {
            let event = GroupEvent::Planned { nth };
            let decided = schedule::placement(&placement);
            let group = deciding::group("place", (&view, self.times()), event, decided);
            self.propose(&ActorKey::Scheduler, group);
        }
    }

    pub fn scheduler_committed(&mut self, outcome: &Outcome) {
        let scheduler = &mut self.controller.scheduler;
        scheduler.waiting = scheduler.waiting.saturating_sub(1);
        scheduler.again |= matches!(outcome, Outcome::Refused(_));
        self.plan_goes_on();
    }

    /// A placement was certainly not written.
    pub fn plan_not_written(&mut self) {
        let scheduler = &mut self.controller.scheduler;
        scheduler.waiting = scheduler.waiting.saturating_sub(1);
        scheduler.unwritten = true;
        self.plan_goes_on();
    }

    fn plan_goes_on(&mut self) {
        let scheduler = &mut self.controller.scheduler;
        if scheduler.waiting > 0 {
            scheduler.life.busy = true;
            return;
        }
        if std::mem::take(&mut scheduler.again) {
            scheduler.told = true;
        }
        if std::mem::take(&mut scheduler.unwritten) {
            let again = self.mono() + UNWRITTEN_MS;
            return self.arm(&ActorKey::Scheduler, Some(again));
        }
        self.scheduler_rests();
    }

    fn scheduler_rests(&mut self) {
        let next = xce_placement::next_wake(&self.view(), self.times().0);
        self.arm_for(&ActorKey::Scheduler, next);
    }
}
