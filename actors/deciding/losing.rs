//! What the loss of a host means for the jobs that hold it, and its return for those that took the
//! place of its replicas.

use std::collections::HashMap;
use std::sync::Arc;

use xce_host::rules::lease;
use xce_ledger::{Fact, Precondition, View};
use xce_model::{Cause, ClusterTime, Exit, JobState, ServiceId, Version};
use xce_replica::rules::decide_host_lost;
use xce_replica::{AfterStop, JobFact, JobRecord};

use crate::Times;
use crate::fence;
use crate::reading::jobs_on;

/// Jobs of a lost host that one group takes.
/// Source: derived; some 200 bytes each, half of what one log entry holds.
const LOST_MAX: usize = 2000;

/// Why jobs leave a host without their worker's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// It was silent for the whole grace, or away for too long: it may come back.
    Silent,
    /// Another worker took its name over: what the first one had is out of reach.
    Superseded,
    /// An operator knows that the machine is off, or took it out.
    Final,
    /// It is away, and the leases of its strict single copies are over.
    Fenced,
}

impl Loss {
    fn sentence(self, host: &str) -> String {
        match self {
            Self::Silent => format!("host {host} was silent for the whole grace"),
            Self::Superseded => format!("another worker took the name of host {host} over"),
            Self::Final => format!("an operator knows that host {host} is off"),
            Self::Fenced => {
                format!("host {host} is away, and the lease of its single copy is over")
            }
        }
    }

    /// Whether a job stays as it is, though its host is lost: a replica is lost with it, until
    /// another one has taken its place or the host is back.
    fn spares(self, job: &JobRecord) -> bool {
        let ends = job.stop.is_some_and(|stop| stop.then == AfterStop::End);
        match self {
            Self::Silent => job.service.is_some() && !ends,
            Self::Superseded | Self::Final => false,
            Self::Fenced => !fence::is_strict(job),
        }
    }

    /// When what is left of a strict single copy is over.
    fn fenced_at(self, now: ClusterTime) -> ClusterTime {
        match self {
            Self::Silent | Self::Superseded => now.after(lease::MARGIN),
            Self::Final | Self::Fenced => now,
        }
    }
}

/// What becomes of the jobs of a host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LostJobs {
    /// Under which conditions.
    pub conditions: Vec<Precondition>,
    /// What becomes of them.
    pub facts: Vec<Fact>,
    /// Whether there are more than one group takes.
    pub more: bool,
}

impl LostJobs {
    /// Adds a fact about a job; false where no more fits.
    fn add(&mut self, job: &JobRecord, fact: JobFact) -> bool {
        if self.facts.len() == LOST_MAX {
            self.more = true;
            return false;
        }
        self.conditions.push(Precondition::JobUnchanged {
            job: job.id,
            lsn: job.changed,
        });
        self.facts.push(fact.into());
        true
    }
}

/// Decides what the loss of a host means for the jobs that hold it, as many as one group takes.
pub fn lose_jobs(host: &str, view: &View, loss: Loss, times: Times) -> LostJobs {
    let why = loss.sentence(host);
    let mut lost = LostJobs::default();
    for job in jobs_on(view, host).filter(|job| !loss.spares(job)) {
        let mut fact = decide_host_lost(job, &why, times.0, times.1);
        fence::hold_back(job, &mut fact, loss.fenced_at(times.0));
        if !lost.add(job, fact) {
            break;
        }
    }
    lost
}

/// Which place in a service a replica has: its service, the first version of its making, its index.
type Place = (ServiceId, Version, u32);

/// Decides what the return of a lost host means for its replicas: one that nobody has replaced yet is
/// kept, and what was to replace it goes; one whose replacement was dispatched ends.
pub fn take_back(host: &str, view: &View, times: Times) -> LostJobs {
    let mut back = LostJobs::default();
    let mut others: HashMap<ServiceId, HashMap<Place, Vec<&Arc<JobRecord>>>> = HashMap::new();
    for job in jobs_on(view, host).filter(|job| !job.moving) {
        let Some(place) = place_of(view, job) else {
            continue;
        };
        let others = others
            .entry(place.0)
            .or_insert_with(|| by_place(view, place.0));
        let others = others.get(&place).map_or(&[][..], Vec::as_slice);
        let successor = others.iter().find(|other| other.state.holds_host());
        if let Some(successor) = successor {
            let why = format!("host {host} was lost; job {} took its place", successor.id);
            if !back.add(job, decide_host_lost(job, &why, times.0, times.1)) {
                break;
            }
            continue;
        }
        for other in others {
            let exit = Exit {
                detail: format!("job {} is back, which it was to replace", job.id),
                ..Exit::of(Cause::TermScaleDown)
            };
            let fact = JobFact::Ended {
                job: other.id,
                run: other.run,
                exit,
                at: times.1,
                stderr: String::new(),
            };
            if !back.add(other, fact) {
                return back;
            }
        }
    }
    back
}

fn place_of(view: &View, job: &JobRecord) -> Option<Place> {
    let replica = job.service?;
    let service = view.service(replica.service)?;
    Some((
        replica.service,
        service.root_of(replica.version),
        replica.index,
    ))
}

/// Live replicas of a service that stay and are not lost, by their place.
fn by_place(view: &View, service: ServiceId) -> HashMap<Place, Vec<&Arc<JobRecord>>> {
    let mut places: HashMap<Place, Vec<&Arc<JobRecord>>> = HashMap::new();
    let stays = |job: &&Arc<JobRecord>| {
        let ends = job.stop.is_some_and(|stop| stop.then == AfterStop::End);
        !(view.is_lost(job) || job.moving || job.state == JobState::Stopping && ends)
    };
    for job in view.live_replicas(service).filter(stays) {
        if let Some(place) = place_of(view, job) {
            places.entry(place).or_default().push(job);
        }
    }
    places
}
