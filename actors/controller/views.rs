//! What users see, put together from the ledger's view.

mod draining;

use std::cell::RefCell;
use std::cmp::Ordering;
use std::iter::Peekable;
use std::sync::Arc;

use jiff::Timestamp;
use xce_deciding::schedule::queues;
use xce_host::HostRecord;
use xce_host::view::{HostView, InUse, Surroundings as Seen};
use xce_ledger::{ArrayRecord, View};
use xce_model::{ClusterTime, JobId, JobState, ServiceId, WallTime};
use xce_placement::{Explainer, Reason};
use xce_replica::JobRecord;
use xce_replica::view::{ArrayView, JobView, Surroundings};
use xce_service::rules::{Census, Draining, Situation, Turns, waits_for_turn};
use xce_service::view::ServiceView;

use crate::job::reachable;
use crate::reading::elements_of;

/// A wall-clock time as RFC 3339, in milliseconds.
pub fn time(at: WallTime) -> String {
    match Timestamp::from_millisecond(at.0) {
        Ok(stamp) => format!("{stamp:.3}"),
        Err(_) => at.0.to_string(),
    }
}

/// Cluster time and wall clock of one moment.
pub type Times = (ClusterTime, WallTime);

/// A row of a job listing.
pub enum Entry<'a> {
    /// A job, or an element of an array with a job of its own.
    Job(&'a Arc<JobRecord>),
    /// An array as a whole.
    Array(&'a Arc<ArrayRecord>),
}

impl Entry<'_> {
    fn listed(&self) -> (u64, u64) {
        match self {
            Self::Job(job) => listed(job.id),
            Self::Array(array) => listed(JobId::single(array.number)),
        }
    }
}

/// The place of a job in listings: an array stands before its elements.
pub fn listed(id: JobId) -> (u64, u64) {
    (
        id.number,
        if id.is_element() {
            u64::from(id.element) + 1
        } else {
            0
        },
    )
}

/// Merges two listings, each in order.
pub fn merge<'a>(
    jobs: impl Iterator<Item = Entry<'a>>,
    arrays: impl Iterator<Item = Entry<'a>>,
) -> impl Iterator<Item = Entry<'a>> {
    let (mut jobs, mut arrays) = (jobs.peekable(), arrays.peekable());
    std::iter::from_fn(move || match order(&mut jobs, &mut arrays) {
        Some(Ordering::Greater) | None => arrays.next().or_else(|| jobs.next()),
        Some(Ordering::Less | Ordering::Equal) => jobs.next(),
    })
}

fn order<'a>(
    jobs: &mut Peekable<impl Iterator<Item = Entry<'a>>>,
    arrays: &mut Peekable<impl Iterator<Item = Entry<'a>>>,
) -> Option<Ordering> {
    let job = jobs.peek()?.listed();
    Some(
        arrays
            .peek()
            .map_or(Ordering::Less, |array| job.cmp(&array.listed())),
    )
}

/// Puts views together from one position of the ledger. Reasons of waiting jobs share one plan,
/// which is made when the first one is asked for.
pub struct Seer<'a> {
    view: &'a View,
    times: Times,
    explainer: RefCell<Option<Explainer<'a>>>,
    /// Why nothing is placed at present.
    silence: Option<String>,
}

impl<'a> Seer<'a> {
    /// A seer of one view.
    pub fn new(view: &'a View, times: Times) -> Self {
        Self {
            view,
            times,
            explainer: RefCell::new(None),
            silence: None,
        }
    }

    /// One that knows of a scheduler that does not respond.
    pub fn with_silence(self, silence: Option<String>) -> Self {
        Self { silence, ..self }
    }

    /// What users see of a row.
    pub fn entry(&self, entry: &Entry<'_>) -> JobView {
        match entry {
            Entry::Job(job) => self.job(job),
            Entry::Array(array) => self.array(array),
        }
    }

    fn why(&self, id: JobId) -> Option<Reason> {
        let mut explainer = self.explainer.borrow_mut();
        let reason = explainer
            .get_or_insert_with(|| Explainer::new(self.view, &queues(self.view), self.times.0))
            .why(id)?;
        // What would be placed next is not; whatever waits for something else waits for that too.
        match &self.silence {
            Some(silence) if reason.code == xce_placement::NEXT => Some(Reason {
                code: "scheduler_not_responding",
                text: silence.clone(),
            }),
            Some(_) | None => Some(reason),
        }
    }

    fn waiting(&self, job: &JobRecord) -> Option<(String, String)> {
        if job.state != JobState::Pend {
            return None;
        }
        self.why(job.id)
            .map(|reason| (reason.code.to_owned(), reason.text))
    }

    /// What users see of a job.
    pub fn job(&self, job: &JobRecord) -> JobView {
        let service = job.service.and_then(|part| self.view.service(part.service));
        let around = Surroundings {
            waiting: self.waiting(job),
            reachable: reachable(self.view, job),
            lost: self.view.is_lost(job),
            service: service.map(|service| service.name.clone()),
            turn: self.turn(job),
        };
        xce_replica::view::view(job, around, &time)
    }

    /// Why a replica that is no longer alive is not restarted, where it waits for its turn.
    fn turn(&self, job: &JobRecord) -> Option<String> {
        let service = job.restart_wish.as_ref().and(job.service)?.service;
        self.with_situation(service, |situation| {
            let census = Census::take(situation.service, situation);
            let turns = Turns::of(situation.service, &census, situation.now);
            waits_for_turn(&turns, job)
        })?
    }

    /// What users see of an array as a whole.
    pub fn array(&self, array: &ArrayRecord) -> JobView {
        let at = (array.changed, array.submitted_at, array.submitted);
        let id = JobId::single(array.number);
        let mut whole = JobRecord::submitted(id, Arc::clone(&array.spec), None, at);
        whole.state = array_state(array);
        let around = Surroundings {
            waiting: self.waiting(&whole),
            ..Surroundings::default()
        };
        let mut seen = xce_replica::view::view(&whole, around, &time);
        let elements_ran = || elements_of(self.view, array.number);
        seen.started = elements_ran().filter_map(|job| job.started).min().map(time);
        if whole.state.is_terminal() {
            seen.ended = elements_ran().filter_map(|job| job.ended).max().map(time);
        }
        let counts = array.counts;
        seen.array = Some(ArrayView {
            elements: elements(array),
            slot_limit: array.slot_limit(),
            total: array.size(),
            pending: array.pending.count() + u64::from(counts.pending) + u64::from(counts.held),
            running: u64::from(counts.placed),
            done: array.done.count() + u64::from(counts.done),
            exited: array.exit.count() + u64::from(counts.exit) + array.cancelled.count(),
        });
        if whole.state != JobState::Pend {
            (seen.reason_code, seen.reason) = ("array".to_owned(), summary(&seen));
        }
        seen
    }

    /// What users see of a service; nothing when it does not exist.
    pub fn service(&self, id: ServiceId) -> Option<ServiceView> {
        let address = |host: &str| {
            self.view
                .host(host)
                .map(|host| host.inventory.address.clone())
        };
        let waits = |job| self.why(job).map(|reason| reason.text);
        self.with_situation(id, |situation| {
            xce_service::view::view(situation, &address, &waits, &time)
        })
    }

    /// Why a service is not where it should be: its conditions, and what holds the next step back.
    pub fn explain(&self, id: ServiceId) -> Vec<String> {
        let waits = |job| self.why(job).map(|reason| reason.text);
        let explained = self.with_situation(id, |situation| {
            let explanation = xce_service::explain::explain(situation, &waits);
            let conditions = explanation.conditions.iter();
            let lines =
                conditions.map(|seen| format!("{}: {}", seen.condition.word(), seen.reason));
            let mut lines: Vec<String> = lines.collect();
            let line = explanation.line();
            if !line.is_empty() && !lines.iter().any(|known| known.ends_with(&line)) {
                lines.push(line);
            }
            lines
        });
        explained.unwrap_or_default()
    }

    /// Why replicas of a service do not leave a host that is drained yet.
    fn explain_drain(&self, id: ServiceId, host: &str) -> Option<String> {
        let waits = |job| self.why(job).map(|reason| reason.text);
        self.with_situation(id, |situation| {
            xce_service::explain::explain_drain(situation, host, &waits)
        })?
    }

    fn with_situation<T>(
        &self,
        id: ServiceId,
        seen: impl FnOnce(&Situation<'_>) -> T,
    ) -> Option<T> {
        let service = self.view.service(id)?;
        let life = |host: &str| self.view.host(host).map(|host| host.life);
        let draining = |host: &str| self.view.host(host).and_then(|host| Draining::of(host));
        let (now, wall) = self.times;
        Some(seen(&Situation {
            service,
            replicas: self.view.replicas_of(id),
            life: &life,
            draining: &draining,
            now,
            wall,
        }))
    }
}

/// State of an array as a whole: of its liveliest element.
pub fn array_state(array: &ArrayRecord) -> JobState {
    let counts = array.counts;
    let waiting = !array.pending.is_empty() || counts.pending + counts.held > 0;
    let failed = counts.exit > 0 || !array.exit.is_empty() || !array.cancelled.is_empty();
    match (counts.placed > 0, waiting, array.held) {
        (true, _, _) => JobState::Run,
        (false, true, true) => JobState::Held,
        (false, true, false) => JobState::Pend,
        (false, false, _) if failed => JobState::Exit,
        (false, false, _) => JobState::Done,
    }
}

fn summary(seen: &JobView) -> String {
    let array = seen.array.clone().unwrap_or_default();
    format!(
        "{} of {} elements ended, {} of them not well; {} hold a host, {} wait",
        array.done + array.exited,
        array.total,
        array.exited,
        array.running,
        array.pending
    )
}

fn elements(array: &ArrayRecord) -> String {
    let ranges = array
        .spec
        .array
        .as_ref()
        .map(|array| array.ranges.clone())
        .unwrap_or_default();
    let texts: Vec<String> = ranges
        .iter()
        .map(|(first, last)| {
            if first == last {
                first.to_string()
            } else {
                format!("{first}-{last}")
            }
        })
        .collect();
    texts.join(",")
}

/// An element without a job of its own, as the job that it would be.
pub fn folded_element(array: &ArrayRecord, id: JobId) -> Option<JobRecord> {
    let state = array.folded_state(id.element)?;
    let at = (array.changed, array.submitted_at, array.submitted);
    let mut job = JobRecord::submitted(id, Arc::clone(&array.spec), None, at);
    job.state = state;
    if state == JobState::Exit && array.cancelled.contains(id.element) {
        job.exit.clone_from(&array.cancel);
    }
    Some(job)
}

/// What users see of a host.
pub fn host_view(
    view: &View,
    host: &HostRecord,
    (now, wall): Times,
    doubt: Option<&str>,
) -> HostView {
    let used = view
        .usage(&host.inventory.name)
        .map_or_else(InUse::default, |usage| InUse {
            cpus: usage.cpus,
            memory: usage.memory,
            jobs: u32::try_from(usage.jobs.len()).unwrap_or(u32::MAX),
        });
    let ago = i64::try_from(now.since(host.since).0).unwrap_or(i64::MAX);
    let since = time(WallTime(wall.0.saturating_sub(ago)));
    let around = Seen {
        used,
        since,
        doubt: doubt.map(str::to_owned),
        drain: draining::drain_view(view, host, (now, wall)),
    };
    xce_host::view::view(host, around)
}
