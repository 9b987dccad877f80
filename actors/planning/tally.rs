//! The steps of an imagined run, and its least and most.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use xce_model::{ClusterTime, Version};
use xce_replica::JobFact;
use xce_service::rules::{Change, Counts};
use xce_session::plan::{PlanChange, PlanStep};

use crate::imagined::Imagined;

/// What is noted of a run.
#[derive(Default)]
pub(crate) struct Tally {
    pub steps: Vec<PlanStep>,
    pub ready_min: Option<u32>,
    pub available_min: Option<u32>,
    pub live_max: u32,
}

impl Tally {
    /// Takes in how many replicas there are.
    pub fn observe(&mut self, counts: &Counts) {
        let least =
            |known: Option<u32>, seen: u32| Some(known.map_or(seen, |known| known.min(seen)));
        self.ready_min = least(self.ready_min, counts.ready());
        self.available_min = least(self.available_min, counts.available());
        self.live_max = self.live_max.max(counts.live());
    }

    /// Takes in a step, if replicas were started or stopped.
    pub fn step(&mut self, since: ClusterTime, now: ClusterTime, moved: Moved, counts: &Counts) {
        if moved.0.is_empty() {
            return;
        }
        self.steps.push(PlanStep {
            at_ms: now.since(since).0,
            steps: 1,
            changes: moved.changes(),
            live: counts.live(),
            ready: counts.ready(),
            available: counts.available(),
        });
    }

    /// At most so many rows; neighbours are folded into one where there are more steps.
    pub fn rows(steps: Vec<PlanStep>, most: usize) -> Vec<PlanStep> {
        let most = most.max(1);
        if steps.len() <= most {
            return steps;
        }
        let size = steps.len().div_ceil(most);
        steps.chunks(size).filter_map(fold).collect()
    }
}

fn fold(steps: &[PlanStep]) -> Option<PlanStep> {
    let (first, last) = (steps.first()?, steps.last()?);
    let mut moved = Moved::default();
    for change in steps.iter().flat_map(|step| &step.changes) {
        moved.add(change.version, change.started, change.stopped);
    }
    Some(PlanStep {
        at_ms: first.at_ms,
        steps: steps.iter().map(|step| step.steps).sum(),
        changes: moved.changes(),
        live: last.live,
        ready: last.ready,
        available: last.available,
    })
}

/// Replicas that a decision starts and stops, by version.
#[derive(Default)]
pub(crate) struct Moved(BTreeMap<Reverse<Version>, (u32, u32)>);

impl Moved {
    /// Of a decision that is not applied yet.
    pub fn of(world: &Imagined<'_>, changes: &[Change]) -> Self {
        let mut moved = Self::default();
        for change in changes {
            let Change::Job(fact) = change else { continue };
            if let JobFact::ReplicasSubmitted {
                version, indices, ..
            } = fact
            {
                let count = u32::try_from(indices.len()).unwrap_or(u32::MAX);
                moved.add(*version, count, 0);
            }
            if let JobFact::StopRequested { job, .. } | JobFact::Ended { job, .. } = fact
                && let Some(of) = world.replica(*job).and_then(|job| job.service)
            {
                moved.add(of.version, 0, 1);
            }
        }
        moved
    }

    /// Whether none is started or stopped.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn add(&mut self, version: Version, started: u32, stopped: u32) {
        let sums = self.0.entry(Reverse(version)).or_default();
        sums.0 += started;
        sums.1 += stopped;
    }

    fn changes(&self) -> Vec<PlanChange> {
        let change = |(version, sums): (&Reverse<Version>, &(u32, u32))| PlanChange {
            version: version.0,
            started: sums.0,
            stopped: sums.1,
        };
        self.0.iter().map(change).collect()
    }
}
