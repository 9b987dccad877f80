//! The replicas of a service, kept so that counting them reads one table from front to back.
//!
//! A count of ten thousand replicas that followed a pointer to each job would wait for memory most of
//! the time. So what counting needs of a job stands beside the pointer, in the order of the ids, and
//! is kept up with every change of a job. The ledger's audit builds it anew and compares.

use std::sync::Arc;

use imbl::OrdMap;
use xce_model::{ClusterTime, JobId, JobState, Lsn, Millis, Version};
use xce_replica::state::proof_time;
use xce_replica::{AfterStop, JobRecord};

use crate::rules::is_news;

/// What a job's own record makes it count as, before its host and the time are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Waits for a host.
    Pending,
    /// Has a host and does not run yet.
    Starting,
    /// Is stopped to run again.
    Returning,
    /// Runs.
    Running,
    /// Is stopped for good.
    Stopping,
}

/// What counting needs of a live replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Since when it takes work; absent when it does not.
    pub ready_since: Option<ClusterTime>,
    /// Version that it was submitted as.
    pub version: Version,
    /// Index.
    pub index: u32,
    /// How far it is.
    pub class: Class,
    /// Whether only time tells that it works, since no probe does.
    pub unprobed: bool,
    /// Whether it has worked in its current run, whatever it does now.
    pub worked: bool,
    /// Whether it waits for its turn to restart, or takes it.
    pub restarts: bool,
    /// Whether another replica of its index takes its place.
    pub moving: bool,
}

impl Mark {
    /// The mark of a job; none of one that has ended or is no replica.
    pub fn of(job: &JobRecord) -> Option<Self> {
        let replica = job.service?;
        let class = match job.state {
            JobState::Pend | JobState::Held => Class::Pending,
            JobState::Start => Class::Starting,
            JobState::Run | JobState::Susp => Class::Running,
            JobState::Stopping => match job.stop.map(|stop| stop.then) {
                Some(AfterStop::Requeue | AfterStop::Hold) => Class::Returning,
                Some(AfterStop::End) | None => Class::Stopping,
            },
            JobState::Done | JobState::Exit => return None,
        };
        let proof = proof_time(job.template());
        Some(Self {
            ready_since: job.ready_since,
            version: replica.version,
            index: replica.index,
            class,
            unprobed: proof > Millis(0),
            worked: job.was_ready && job.ready_longest >= proof,
            restarts: job.restart_wish.is_some() || job.restart_permit.is_some(),
            moving: job.moving,
        })
    }

    /// When it counts, or will count, as having worked, while it is ready.
    pub fn works_at(&self) -> Option<ClusterTime> {
        self.mature_at(Millis(0))
    }

    /// When it becomes available, while it is ready: a broken one without a probe must not take the
    /// place of one that works, for the moment that it runs.
    pub fn mature_at(&self, min_ready: Millis) -> Option<ClusterTime> {
        let proof = match self.unprobed {
            true => xce_replica::state::PROOF_TIME,
            false => Millis(0),
        };
        self.ready_since
            .map(|since| since.after(proof.max(min_ready)))
    }

    /// Whether it worked in its current run: was ready, and for long enough to tell.
    pub fn has_worked(&self, now: ClusterTime) -> bool {
        self.worked || self.works_at().is_some_and(|time| time <= now)
    }
}

/// A live replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its job.
    pub job: Arc<JobRecord>,
    /// What counting needs of it.
    pub mark: Mark,
}

/// The replicas of one service; cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Roster {
    live: OrdMap<JobId, Member>,
    ended: OrdMap<(Lsn, JobId), Arc<JobRecord>>,
    /// Of those, the ones whose ends the rules did not ask for.
    news: OrdMap<(Lsn, JobId), Arc<JobRecord>>,
    hosts: OrdMap<Arc<str>, u32>,
    indices: OrdMap<(Version, u32), u32>,
}

impl Roster {
    /// Takes a change of a job in: what it was, and what it is.
    pub fn change(&mut self, before: Option<&JobRecord>, after: Option<&Arc<JobRecord>>) {
        if let Some(job) = before {
            self.forget(job, after.is_some_and(|after| after.id == job.id));
        }
        if let Some(job) = after {
            self.enter(job);
        }
    }

    /// Takes a job out, except from where its next state stands anyway.
    fn forget(&mut self, job: &JobRecord, comes_again: bool) {
        let Some(mark) = Mark::of(job) else {
            let key = (job.changed, job.id);
            self.ended.remove(&key);
            self.news.remove(&key);
            return;
        };
        if !mark.moving {
            less(&mut self.indices, &(mark.version, mark.index));
        }
        if let Some(host) = held_host(job) {
            less(&mut self.hosts, host);
        }
        if !comes_again {
            self.live.remove(&job.id);
        }
    }

    fn enter(&mut self, job: &Arc<JobRecord>) {
        let Some(mark) = Mark::of(job) else {
            self.live.remove(&job.id);
            if job.service.is_some() {
                let key = (job.changed, job.id);
                self.ended.insert(key, Arc::clone(job));
                if ended_unasked(job) {
                    self.news.insert(key, Arc::clone(job));
                }
            }
            return;
        };
        if !mark.moving {
            *self.indices.entry((mark.version, mark.index)).or_default() += 1;
        }
        if let Some(host) = held_host(job) {
            *self.hosts.entry(Arc::clone(host)).or_default() += 1;
        }
        let job = Arc::clone(job);
        self.live.insert(job.id, Member { job, mark });
    }

    /// Whether there is none, live or ended.
    pub fn is_empty(&self) -> bool {
        self.live.is_empty() && self.ended.is_empty()
    }

    /// Number of live replicas.
    pub fn live_count(&self) -> usize {
        self.live.len()
    }

    /// Jobs of the live replicas, by id.
    pub fn live(&self) -> impl Iterator<Item = &Arc<JobRecord>> {
        self.live.values().map(|member| &member.job)
    }

    /// Live replicas with what counting needs of them, by id.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.live.values()
    }

    /// Jobs that ended and were not cleaned up, by their last change.
    pub fn ended(&self) -> impl Iterator<Item = &Arc<JobRecord>> {
        self.ended.values()
    }

    /// As [`Roster::ended`], those that changed after a position and whose ends the rules did not ask
    /// for.
    pub fn news_after(&self, lsn: Lsn) -> impl Iterator<Item = &Arc<JobRecord>> {
        let first = (lsn.saturating_add(1), JobId::element(0, 0));
        self.news.range(first..).map(|(_, job)| job)
    }

    /// Hosts that live replicas hold, by name.
    pub fn hosts(&self) -> impl Iterator<Item = &Arc<str>> {
        self.hosts.keys()
    }

    /// Whether a live replica of a version has an index; one that is moved has left it to another.
    pub fn has_index(&self, version: Version, index: u32) -> bool {
        self.indices.contains_key(&(version, index))
    }
}

/// Whether a job ended for a cause that the rules have to account for.
pub fn ended_unasked(job: &JobRecord) -> bool {
    let exit = job.exit.as_ref();
    job.state.is_terminal() && exit.is_some_and(|exit| is_news(exit.cause))
}

fn held_host(job: &JobRecord) -> Option<&Arc<str>> {
    job.host.as_ref().filter(|_| job.state.holds_host())
}

fn less<Key, Asked>(counts: &mut OrdMap<Key, u32>, key: &Asked)
where
    Key: Ord + Clone + std::borrow::Borrow<Asked>,
    Asked: Ord + ?Sized,
{
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// The replicas that a decision is about, however they are kept. Both give the same decisions.
#[derive(Debug, Clone, Copy)]
pub enum Replicas<'a> {
    /// A list of jobs, live and ended, by id.
    Listed(&'a [Arc<JobRecord>]),
    /// A table that is kept up.
    Kept(&'a Roster),
}

impl<'a> Replicas<'a> {
    /// All jobs; where they are kept in a table, those that ended come last.
    pub fn iter(self) -> impl Iterator<Item = &'a Arc<JobRecord>> {
        let (jobs, roster): (&[Arc<JobRecord>], _) = match self {
            Self::Listed(jobs) => (jobs, None),
            Self::Kept(roster) => (&[], Some(roster)),
        };
        let kept = roster.into_iter().flat_map(|roster| {
            let live = roster.live();
            live.chain(roster.ended())
        });
        jobs.iter().chain(kept)
    }
}

impl<'a> From<&'a [Arc<JobRecord>]> for Replicas<'a> {
    fn from(jobs: &'a [Arc<JobRecord>]) -> Self {
        Self::Listed(jobs)
    }
}

impl<'a> From<&'a Vec<Arc<JobRecord>>> for Replicas<'a> {
    fn from(jobs: &'a Vec<Arc<JobRecord>>) -> Self {
        Self::Listed(jobs)
    }
}

impl<'a> From<&'a Roster> for Replicas<'a> {
    fn from(roster: &'a Roster) -> Self {
        Self::Kept(roster)
    }
}
