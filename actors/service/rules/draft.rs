//! A decision in the making.

use std::borrow::Cow;

use xce_model::ClusterTime;
use xce_model::decision::Decision;
use xce_replica::{JobFact, JobRecord};

use super::{Answer, Census, Change, Effect, ServiceDecision, Situation};
use crate::facts::ServiceFact;
use crate::state::ServiceRecord;

/// Collects facts; those of the service are applied to a copy at once, so that later rules of the
/// same decision see them.
pub struct Draft<'a> {
    situation: &'a Situation<'a>,
    record: Cow<'a, ServiceRecord>,
    changes: Vec<Change>,
    job_step: bool,
    wake: Option<ClusterTime>,
}

impl<'a> Draft<'a> {
    /// Nothing decided yet.
    pub fn new(situation: &'a Situation<'a>) -> Self {
        Self {
            situation,
            record: Cow::Borrowed(situation.service),
            changes: Vec::new(),
            job_step: false,
            wake: None,
        }
    }

    /// What the decision starts from.
    pub fn situation(&self) -> &'a Situation<'a> {
        self.situation
    }

    /// The service with what was decided so far.
    pub fn record(&self) -> &ServiceRecord {
        &self.record
    }

    /// Counts the replicas for the service as decided so far.
    pub fn census(&self) -> Census<'a> {
        Census::take(&self.record, self.situation)
    }

    /// Adds a fact of the service.
    pub fn service(&mut self, fact: ServiceFact) {
        let Situation { now, wall, .. } = *self.situation;
        let lsn = self.situation.service.changed;
        self.record.to_mut().apply(&fact, now, lsn, wall);
        self.changes.push(Change::Service(fact));
    }

    /// Adds a fact of a job. The replicas are not counted again, so it ends the decision.
    pub fn job(&mut self, fact: JobFact) {
        self.changes.push(Change::Job(fact));
        self.job_step = true;
    }

    /// Ends a job for a cause: at once where nothing runs, else by asking its host.
    pub fn stop(&mut self, job: &JobRecord, cause: xce_model::Cause) {
        let command = xce_replica::rules::Command::Kill(cause);
        let Situation { now, wall, .. } = *self.situation;
        if let Ok(facts) = xce_replica::rules::decide_command(job, command, now, wall) {
            facts.into_iter().for_each(|fact| self.job(fact));
        }
    }

    /// Whether a fact of a job was decided.
    pub fn has_job_step(&self) -> bool {
        self.job_step
    }

    /// Asks for another decision at a time, unless an earlier one is asked for.
    pub fn wake_at(&mut self, time: ClusterTime) {
        self.wake = Some(self.wake.map_or(time, |earlier| earlier.min(time)));
    }

    /// The decision.
    pub fn into_decision(self, answer: Answer) -> ServiceDecision {
        let effects = self.wake.map(Effect::WakeAt).into_iter().collect();
        Decision::new(self.changes, effects, answer)
    }
}
