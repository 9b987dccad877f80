//! A copy of the committed state in which a service's rules and the placement go on.

use std::cell::RefCell;
use std::sync::Arc;

use xce_ledger::{Created, Fact, Group, Outcome, View};
use xce_model::{ClusterTime, JobId, Refusal, ServiceId, WallTime};
use xce_placement::{Explainer, Queue};
use xce_replica::JobRecord;
use xce_service::explain::{Explanation, explain};
use xce_service::rules::{
    Answer, Census, Change, Counts, Draining, Effect, Event, Situation, decide,
};
use xce_service::{Replicas, Roster, ServiceFact, ServiceRecord};

use crate::bounds::FACT_WORK;

/// Most placements of one look. Source: derived, more than any service has replicas.
const PLACEMENTS_MAX: usize = 200_000;

/// The state of an imagined run.
pub(crate) struct Imagined<'q> {
    queues: &'q [Queue],
    pub view: View,
    pub service: ServiceId,
    pub now: ClusterTime,
    pub wall: WallTime,
    /// When the service wants to look again.
    pub wake: Option<ClusterTime>,
    /// Work so far, in replicas looked at.
    pub work: u64,
}

/// What a decision comes to.
pub(crate) enum Decided {
    /// Nothing is to be written.
    Nothing(Answer),
    /// This would be written.
    Changes(Vec<Change>),
}

impl<'q> Imagined<'q> {
    pub fn new(view: &View, queues: &'q [Queue], now: ClusterTime, wall: WallTime) -> Self {
        Self {
            queues,
            view: view.clone(),
            service: ServiceId(0),
            now,
            wall,
            wake: None,
            work: 0,
        }
    }

    pub fn record(&self) -> Option<&Arc<ServiceRecord>> {
        self.view.service(self.service)
    }

    /// A replica of the service by its job.
    pub fn replica(&self, id: JobId) -> Option<&Arc<JobRecord>> {
        let own = |job: &&Arc<JobRecord>| job.service.is_some_and(|of| of.service == self.service);
        self.view.job(id).filter(own)
    }

    /// The service's replicas that have not ended.
    pub fn live(&self) -> impl Iterator<Item = &Arc<JobRecord>> {
        self.view.live_replicas(self.service)
    }

    fn roster(&self) -> Option<&Roster> {
        self.view.replicas(self.service)
    }

    fn note_look(&mut self) {
        let count = self.roster().map_or(0, Roster::live_count);
        self.work += count as u64 + 1;
    }

    fn with_situation<T>(&self, seen: impl FnOnce(&Situation<'_>) -> T) -> Option<T> {
        let life = |host: &str| self.view.host(host).map(|host| host.life);
        let draining = |host: &str| self.view.host(host).and_then(|host| Draining::of(host));
        let replicas = match self.roster() {
            Some(roster) => Replicas::Kept(roster),
            None => Replicas::Listed(&[]),
        };
        Some(seen(&Situation {
            service: self.record()?,
            replicas,
            life: &life,
            draining: &draining,
            now: self.now,
            wall: self.wall,
        }))
    }

    /// The service's replicas by what they count as; none where it is gone.
    pub fn counts(&mut self) -> Option<Counts> {
        self.note_look();
        self.with_situation(|situation| Census::take(situation.service, situation).total())
    }

    /// One decision by the real rules.
    pub fn decide(&mut self, event: Event) -> Result<Decided, Refusal> {
        self.note_look();
        let decided = self.with_situation(|situation| decide(situation, event));
        let Some(decision) = decided.transpose()? else {
            return Ok(Decided::Nothing(Answer::Nothing));
        };
        match decision.release_empty() {
            Ok((effects, answer)) => {
                let wakes = effects.into_iter().map(|Effect::WakeAt(time)| time);
                self.wake = wakes.min();
                Ok(Decided::Nothing(answer))
            }
            // Effects and answer wait for a receipt, which does not come.
            Err(decision) => Ok(Decided::Changes(decision.into_facts().0)),
        }
    }

    /// Imagines a group of facts as committed.
    ///
    /// # Errors
    /// Where a condition of the group does not hold.
    pub fn commit(&mut self, group: &Group) -> Result<Vec<Created>, Refusal> {
        self.work += group.facts.len() as u64 * FACT_WORK;
        match self.view.imagine(group) {
            Outcome::Applied(answer) | Outcome::Repeated(answer) => Ok(answer.created),
            Outcome::Refused(unmet) => Err(Refusal::refused(unmet.code, unmet.text)),
            Outcome::Expired => Ok(Vec::new()),
        }
    }

    pub fn group(&self) -> Group {
        Group::new(self.now, self.wall, "plan")
    }

    /// Imagines what the service decided.
    ///
    /// # Errors
    /// As [`Imagined::commit`].
    pub fn commit_changes(&mut self, changes: Vec<Change>) -> Result<(), Refusal> {
        let mut group = self.group();
        group.facts = changes
            .into_iter()
            .map(|change| match change {
                Change::Service(fact) => Fact::from(fact),
                Change::Job(fact) => Fact::from(fact),
            })
            .collect();
        self.commit(&group).map(|_| ())
    }

    /// Places what waits, of any service and queue; gives the service's own replicas among it.
    pub fn place(&mut self) -> Vec<JobId> {
        self.work += self.view.hosts().len() as u64;
        let placements = xce_placement::plan(&self.view, self.queues, self.now, PLACEMENTS_MAX);
        if placements.is_empty() {
            return Vec::new();
        }
        let mut group = self.group();
        group.facts = placements
            .iter()
            .map(|one| Fact::from(one.fact()))
            .collect();
        if self.commit(&group).is_err() {
            return Vec::new();
        }
        let own = placements.iter().map(|one| one.job);
        own.filter(|id| self.replica(*id).is_some()).collect()
    }

    /// When the delay of a waiting job ends next.
    pub fn next_delay(&self) -> Option<ClusterTime> {
        xce_placement::next_wake(&self.view, self.now)
    }

    /// How the service is and what holds it back, with the reasons of replicas that wait.
    pub fn explain(&self) -> Option<Explanation> {
        let explainer = RefCell::new(None);
        let why = |job| {
            let mut explainer = explainer.borrow_mut();
            explainer
                .get_or_insert_with(|| Explainer::new(&self.view, self.queues, self.now))
                .why(job)
                .map(|reason| reason.text)
        };
        self.with_situation(|situation| explain(situation, &why))
    }
}

/// The rollout would be stuck with these changes.
pub(crate) fn is_stuck(changes: &[Change]) -> bool {
    changes
        .iter()
        .any(|change| matches!(change, Change::Service(ServiceFact::RolloutStuck { .. })))
}
