//! Facts of services.

use std::sync::Arc;

use xce_model::ServiceId;
use xce_model::spec::ServiceSpec;
use xce_service::{ServiceFact, ServiceRecord};

use super::{Fit, Step};
use crate::group::Created;
use crate::view::Key;

impl Step<'_> {
    pub(super) fn apply_service(&mut self, fact: &ServiceFact) -> Fit {
        let Some(id) = fact.service() else {
            // Only a creation names none: its id is given here.
            let ServiceFact::Created { spec, author, .. } = fact else {
                return Fit::Ignored;
            };
            return self.create(spec, author);
        };
        let Some(before) = self.view.services.get(&id).cloned() else {
            return Fit::Ignored;
        };
        match fact {
            ServiceFact::Deleted { .. } => return self.delete(&before),
            ServiceFact::Versioned { number, .. } if *number <= before.current().number => {
                return Fit::Ignored;
            }
            ServiceFact::Created { .. }
            | ServiceFact::Scaled { .. }
            | ServiceFact::Versioned { .. }
            | ServiceFact::SettingsChanged { .. }
            | ServiceFact::Targeted { .. }
            | ServiceFact::VersionFailed { .. }
            | ServiceFact::ReplicasLost { .. }
            | ServiceFact::KillRequested { .. }
            | ServiceFact::ReplicasKilled { .. }
            | ServiceFact::RetryBegan { .. }
            | ServiceFact::BackoffReset { .. }
            | ServiceFact::VersionProved { .. }
            | ServiceFact::DispatchLimited { .. }
            | ServiceFact::FellShort { .. }
            | ServiceFact::BecameFull { .. }
            | ServiceFact::RolloutProgressed { .. }
            | ServiceFact::RolloutCompleted { .. }
            | ServiceFact::RolloutStuck { .. }
            | ServiceFact::RolloutPaused { .. }
            | ServiceFact::RolloutResumed { .. }
            | ServiceFact::DeletionRequested { .. }
            | ServiceFact::DeadlineExtended { .. }
            | ServiceFact::VersionTimed { .. } => {}
        }
        let mut after = (*before).clone();
        after.apply(fact, self.at.now, self.at.lsn, self.at.wall);
        self.view
            .changes
            .services
            .touch(Some(before.changed), after.changed, &id);
        self.view.services.insert(id, Arc::new(after));
        self.touched.push(Key::Service(id));
        Fit::Applied
    }

    fn create(&mut self, spec: &ServiceSpec, author: &str) -> Fit {
        if self.view.service_named(&spec.project, &spec.name).is_some() {
            return Fit::Ignored;
        }
        self.view.last_service += 1;
        let id = ServiceId(self.view.last_service);
        let at = self.at;
        let record = ServiceRecord::created(id, spec, at.lsn, at.now, at.wall, author);
        self.view.add_name(&record);
        self.view.services.insert(id, Arc::new(record));
        self.view.changes.services.touch(None, at.lsn, &id);
        self.created.push(Created::Service(id));
        self.touched.push(Key::Service(id));
        Fit::Applied
    }

    /// A service that still has live replicas stays: their ends come first.
    fn delete(&mut self, before: &ServiceRecord) -> Fit {
        let id: ServiceId = before.id;
        if self
            .view
            .replicas(id)
            .is_some_and(|replicas| replicas.live_count() > 0)
        {
            return Fit::Ignored;
        }
        self.view.drop_name(before);
        self.view.services.remove(&id);
        self.view.endpoints.remove(&id);
        self.view
            .changes
            .services
            .bury(before.changed, self.at.lsn, &id);
        self.touched.push(Key::Service(id));
        Fit::Applied
    }
}
