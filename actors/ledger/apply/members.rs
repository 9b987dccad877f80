//! Facts of controllers.

use super::{Fit, Step};
use crate::members::{Epoch, MemberFact};

impl Step<'_> {
    pub(super) fn apply_member(&mut self, fact: &MemberFact) -> Fit {
        match fact {
            MemberFact::Numbered { node } => {
                self.view.last_controller = self.view.last_controller.max(*node);
                Fit::Applied
            }
            MemberFact::BeganAnew { epoch } => self.begin_anew(epoch),
            MemberFact::LevelRaised { level } => {
                if *level <= self.view.level() {
                    return Fit::Ignored;
                }
                self.view.level = *level;
                Fit::Applied
            }
        }
    }

    /// Numbers go on beyond all that may have been given. What was told of the lost time is void: an
    /// operation made then is refused, and whoever read a position of it needs the full state.
    fn begin_anew(&mut self, epoch: &Epoch) -> Fit {
        if epoch.number <= self.view.epoch() {
            return Fit::Ignored;
        }
        let view = &mut *self.view;
        view.last_job = view.last_job.max(epoch.jobs.1);
        view.last_service = view.last_service.max(epoch.services.1);
        view.last_session = view.last_session.max(epoch.sessions.1);
        let founder = epoch.founder.max(epoch.controllers.1);
        view.last_controller = view.last_controller.max(founder);
        view.operations
            .set_floor(view.operations.floor().max(epoch.at));
        view.changes.forget_before(epoch.at);
        let epochs = view.epochs.iter().cloned().chain([epoch.clone()]);
        view.epochs = epochs.collect();
        Fit::Applied
    }
}
