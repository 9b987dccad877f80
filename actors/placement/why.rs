//! Why a job waits: always from the current view, never from a note made earlier.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use xce_ledger::{ArrayRecord, View};
use xce_model::{Cause, ClusterTime, JobId, JobState};
use xce_replica::{JobRecord, ServiceRef};

use crate::candidate::{Candidate, Shape};
use crate::gate::Gate;
use crate::plan::{Planner, Queue};
use crate::reason::{self, Reason};

/// Placements looked ahead. Source: derived, more than one plan places; beyond it a job is simply
/// about to be placed.
const AHEAD: usize = 1000;

/// Explains one job; for many jobs of one view make one [`Explainer`].
///
/// Absent when there is no such job, or it does not wait.
pub fn why(view: &View, queues: &[Queue], job: JobId, now: ClusterTime) -> Option<Reason> {
    Explainer::new(view, queues, now).why(job)
}

/// Explains the waiting jobs of one view.
pub struct Explainer<'a> {
    view: &'a View,
    now: ClusterTime,
    planner: Planner<'a>,
    planned: HashSet<JobId>,
    // Jobs of one shape miss the same on every host.
    known: HashMap<Shape<'a>, Option<Reason>>,
}

impl<'a> Explainer<'a> {
    /// Plans once, to know what goes first.
    pub fn new(view: &'a View, queues: &[Queue], now: ClusterTime) -> Self {
        let mut planner = Planner::new(view, now, AHEAD);
        planner.run(queues);
        let planned = planner.placements.iter().map(|one| one.job).collect();
        Self {
            view,
            now,
            planner,
            planned,
            known: HashMap::new(),
        }
    }

    /// The reason of a job, an element of an array, or of an array's pending elements.
    ///
    /// Absent when there is no such job, or it does not wait.
    pub fn why(&mut self, id: JobId) -> Option<Reason> {
        if let Some(job) = self.view.job(id) {
            return match job.state {
                JobState::Held => Some(held()),
                JobState::Pend => Some(self.pending(&Candidate::of_job(job), Some(job))),
                JobState::Start
                | JobState::Run
                | JobState::Susp
                | JobState::Stopping
                | JobState::Done
                | JobState::Exit => None,
            };
        }
        let array: &Arc<ArrayRecord> = self.view.array(id.number)?;
        let element = if id.element == JobId::NO_ELEMENT {
            array.pending.first()?
        } else {
            id.element
        };
        if !array.pending.contains(element) {
            return None;
        }
        if array.held {
            return Some(held());
        }
        Some(self.pending(&Candidate::of_element(array, element), None))
    }

    fn pending(&mut self, candidate: &Candidate<'a>, job: Option<&JobRecord>) -> Reason {
        if self.planned.contains(&candidate.id) {
            return next();
        }
        if let Some(gate) = self.planner.gates.check(candidate) {
            return self.gated(gate, candidate, job);
        }
        if self.planner.pool.slots.is_empty() {
            return reason::no_host(self.view);
        }
        match self.missing(candidate) {
            Some(reason) => reason,
            None => self.ahead(candidate).unwrap_or_else(next),
        }
    }

    /// Why it fits on no host; absent when it fits on one.
    fn missing(&mut self, candidate: &Candidate<'a>) -> Option<Reason> {
        let shape = candidate.shape();
        if let Some(known) = shape.as_ref().and_then(|shape| self.known.get(shape)) {
            return known.clone();
        }
        let misses = self.planner.pool.misses(candidate);
        let fits = misses.len() < self.planner.pool.slots.len();
        let template = &candidate.spec.template;
        let reason = (!fits).then(|| reason::of_misses(&self.planner.pool, template, &misses));
        if let Some(shape) = shape {
            self.known.insert(shape, reason.clone());
        }
        reason
    }

    /// The job that holds back its queue, for one that would fit.
    fn ahead(&self, candidate: &Candidate<'a>) -> Option<Reason> {
        let queue = candidate.spec.queue.as_str();
        let first = *self.planner.blocked.get(queue)?;
        if first.number >= candidate.id.number {
            return None;
        }
        let text = format!("waits behind job {first} in queue {queue}, which waits for more room");
        Some(Reason::new("behind", text))
    }

    fn gated(&self, gate: Gate, candidate: &Candidate<'a>, job: Option<&JobRecord>) -> Reason {
        match gate {
            Gate::Delayed => self.delayed(candidate, job),
            Gate::Slots { limit } => {
                Reason::new("array_slots", format!("array slot limit {limit} reached"))
            }
            Gate::Fence { until } => {
                let left = until.since(self.now);
                let text = format!(
                    "the copy that it replaces, on a lost host, is surely over in {left} (single_copy = strict)"
                );
                Reason::new("single_copy", text)
            }
            Gate::ServiceEnds => Reason::new("service_ends", "its service is being deleted"),
            Gate::Dispatch { limit, dispatched } => match candidate.service {
                Some(replica) => self.dispatch(replica, limit, dispatched),
                None => next(),
            },
        }
    }

    fn delayed(&self, candidate: &Candidate<'a>, job: Option<&JobRecord>) -> Reason {
        let left = candidate.not_before.since(self.now);
        match job.and_then(|job| job.exit.as_ref()) {
            Some(exit) if exit.cause == Cause::HostLaunchFailed => {
                let text = format!(
                    "starts again in {left}: its host could not start it: {}",
                    exit.detail
                );
                Reason::new("launch_backoff", text)
            }
            Some(exit) => Reason::new(
                "backoff",
                format!("starts again in {left}: last run: {exit}"),
            ),
            None => Reason::new("not_before", format!("not before {left} from now")),
        }
    }

    fn dispatch(&self, replica: ServiceRef, limit: u32, dispatched: u32) -> Reason {
        let service = self.view.service(replica.service);
        let version = service.and_then(|service| service.leader(service.root_of(replica.version)));
        if let Some(version) = version.filter(|version| version.backoff.waiting) {
            let backoff = &version.backoff;
            let last = match &backoff.last {
                Some(last) => format!(", the last with {}", last.exit),
                None => String::new(),
            };
            let what = if backoff.crash_loop {
                "crash loop"
            } else {
                "crash backoff"
            };
            let text = format!(
                "starts again in {}: {what} of version {} after {} failures{last}",
                backoff.not_before.since(self.now),
                version.number,
                backoff.failures
            );
            let code = if backoff.crash_loop {
                "crash_loop"
            } else {
                "crash_backoff"
            };
            return Reason::new(code, text);
        }
        let text = format!(
            "slow start: {dispatched} of at most {limit} replicas of version {} are started, none has become ready yet",
            replica.version
        );
        Reason::new("slow_start", text)
    }
}

fn held() -> Reason {
    Reason::new("held", "held by its owner until it is released")
}

/// The word of a job that nothing keeps from being placed.
pub const NEXT: &str = "next";

fn next() -> Reason {
    Reason::new(NEXT, "about to be placed")
}
