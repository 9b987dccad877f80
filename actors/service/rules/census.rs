//! Counting the replicas of a service.

use std::collections::HashMap;
use std::sync::Arc;

use xce_host::HostLife;
use xce_model::{ClusterTime, JobState, Millis, Version};
use xce_replica::{AfterStop, JobRecord};

use super::Situation;
use crate::state::ServiceRecord;

/// What a replica counts as. The order is that of victims of a scale-down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Waits for a host.
    Pending,
    /// Has a host and does not run yet, or will run again.
    Starting,
    /// Its host does not answer and is not lost.
    Unreachable,
    /// Runs and never worked in this run.
    Running,
    /// Worked in this run and is not ready now.
    Unready,
    /// Is ready, and has to be for longer before it counts.
    Ready,
    /// Has been ready for `min_ready`, and for as long as it takes to see that it works.
    Available,
    /// Told to stop; its end is not confirmed.
    Stopping,
    /// Its host is lost; not live, not ended.
    Lost,
}

/// Number of standings. Source: derived, the variants of [`Standing`].
const STANDINGS: usize = 9;

/// A replica that has not ended.
#[derive(Debug, Clone, Copy)]
pub struct Replica<'a> {
    /// Its job.
    pub job: &'a Arc<JobRecord>,
    /// Version that it was submitted as.
    pub version: Version,
    /// Index.
    pub index: u32,
    /// Place of its group in the census.
    pub group: usize,
    /// What it counts as.
    pub standing: Standing,
}

/// Replicas by what they count as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts([u32; STANDINGS]);

impl Counts {
    /// Replicas of one standing.
    pub const fn of(&self, standing: Standing) -> u32 {
        self.0[standing as usize]
    }

    /// Replicas that have not ended; lost ones are not live.
    pub fn live(&self) -> u32 {
        self.0.iter().sum::<u32>() - self.of(Standing::Lost)
    }

    /// Live replicas that are not stopping.
    pub fn staying(&self) -> u32 {
        self.live() - self.of(Standing::Stopping)
    }

    /// Replicas that take work.
    pub const fn ready(&self) -> u32 {
        self.of(Standing::Ready) + self.of(Standing::Available)
    }

    /// Replicas that have been ready for `min_ready`.
    pub const fn available(&self) -> u32 {
        self.of(Standing::Available)
    }

    fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }
}

/// All replicas of one making: of a version and its copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// First version of the making.
    pub root: Version,
    /// The version that stands for it.
    pub version: Version,
    /// Its replicas.
    pub counts: Counts,
    /// Whether a replica of it works, or did in its current run.
    pub has_worked: bool,
    /// When the next one of those that are ready will have worked.
    pub works_at: Option<ClusterTime>,
}

impl Group {
    fn note_work(&mut self, job: &JobRecord, now: ClusterTime) {
        if job.has_worked(now) {
            self.has_worked = true;
        } else if let Some(time) = job.works_at() {
            self.works_at = earlier(self.works_at, time);
        }
    }
}

/// The replicas of a service at one moment.
pub struct Census<'a> {
    /// Replicas that have not ended, in the order of the ledger.
    pub replicas: Vec<Replica<'a>>,
    /// Groups of the versions that are kept, and of older ones that still have replicas.
    pub groups: Vec<Group>,
    /// Place of the current version's group.
    pub current: usize,
    /// Replicas that ended and are not accounted for.
    pub ended: Vec<&'a Arc<JobRecord>>,
    /// When the next ready replica becomes available.
    pub next_available: Option<ClusterTime>,
}

impl<'a> Census<'a> {
    /// Counts.
    pub fn take(record: &ServiceRecord, situation: &Situation<'a>) -> Self {
        let groups = groups(record);
        // The last version leads its group, so its group is the last one.
        let current = groups.len().saturating_sub(1);
        let mut census = Self {
            replicas: Vec::with_capacity(situation.replicas.len()),
            groups,
            current,
            ended: Vec::new(),
            next_available: None,
        };
        let mut lives: HashMap<&str, Option<HostLife>> = HashMap::new();
        let min_ready = record.settings.rollout.min_ready;
        let mut last = (0, 0);
        for job in situation.replicas {
            let Some(of) = job.service else { continue };
            if job.state.is_terminal() {
                if job.changed > record.accounted {
                    census.ended.push(job);
                }
                continue;
            }
            if last.0 != of.version {
                last = (of.version, census.place(record, of.version));
            }
            let life = match job.host.as_deref() {
                Some(host) if job.state.holds_host() => {
                    *lives.entry(host).or_insert_with(|| (situation.life)(host))
                }
                Some(_) | None => Some(HostLife::Up),
            };
            let mature = mature_at(job, min_ready);
            let standing = standing(job, life, mature, situation.now);
            if let (Standing::Ready, Some(time)) = (standing, mature) {
                census.next_available = earlier(census.next_available, time);
            }
            let group = &mut census.groups[last.1];
            group.counts.0[standing as usize] += 1;
            if standing < Standing::Stopping && standing != Standing::Pending {
                group.note_work(job, situation.now);
            }
            census.replicas.push(Replica {
                job,
                version: of.version,
                index: of.index,
                group: last.1,
                standing,
            });
        }
        census
    }

    /// Place of a version's group; one of a version that is kept no longer is made.
    fn place(&mut self, record: &ServiceRecord, version: Version) -> usize {
        let root = record.root_of(version);
        let known = self.groups.iter().position(|group| group.root == root);
        known.unwrap_or_else(|| {
            self.groups.push(Group {
                root,
                version,
                counts: Counts::default(),
                has_worked: false,
                works_at: None,
            });
            self.groups.len() - 1
        })
    }

    /// The current version's replicas.
    pub fn current(&self) -> &Group {
        &self.groups[self.current]
    }

    /// Places of the groups of other versions, oldest first.
    pub fn old_places(&self) -> Vec<usize> {
        let mut places: Vec<usize> = (0..self.groups.len())
            .filter(|&place| place != self.current)
            .collect();
        places.sort_by_key(|&place| self.groups[place].version);
        places
    }

    /// Replicas of all versions.
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        for group in &self.groups {
            total.add(&group.counts);
        }
        total
    }

    /// Replicas of all versions but the current one.
    pub fn old(&self) -> Counts {
        let mut total = Counts::default();
        for place in self.old_places() {
            total.add(&self.groups[place].counts);
        }
        total
    }

    /// Replicas of one group.
    pub fn of_group(&self, place: usize) -> impl Iterator<Item = &Replica<'a>> {
        self.replicas
            .iter()
            .filter(move |replica| replica.group == place)
    }
}

/// Groups of the versions that are kept, by the version that stands for each.
fn groups(record: &ServiceRecord) -> Vec<Group> {
    record
        .versions
        .iter()
        .filter(|version| record.leads(version))
        .map(|version| Group {
            root: version.root,
            version: version.number,
            counts: Counts::default(),
            has_worked: false,
            works_at: None,
        })
        .collect()
}

fn earlier(known: Option<ClusterTime>, time: ClusterTime) -> Option<ClusterTime> {
    Some(known.map_or(time, |known| known.min(time)))
}

/// When a replica that is ready becomes available: a broken one without a probe must not take the
/// place of one that works, for the moment that it runs.
fn mature_at(job: &JobRecord, min_ready: Millis) -> Option<ClusterTime> {
    let since = job.ready_since?;
    job.works_at().max(Some(since.after(min_ready)))
}

/// What a replica counts as. A life that is absent means that the host was removed.
fn standing(
    job: &JobRecord,
    life: Option<HostLife>,
    mature: Option<ClusterTime>,
    now: ClusterTime,
) -> Standing {
    match life {
        None | Some(HostLife::Lost) => return Standing::Lost,
        Some(HostLife::Up | HostLife::Suspect | HostLife::Away) => {}
    }
    let unreachable = life != Some(HostLife::Up);
    match job.state {
        JobState::Pend | JobState::Held => Standing::Pending,
        // One that is stopped to run again does not go away.
        JobState::Stopping => match job.stop.map(|stop| stop.then) {
            Some(AfterStop::Requeue | AfterStop::Hold) => Standing::Starting,
            Some(AfterStop::End) | None => Standing::Stopping,
        },
        JobState::Start | JobState::Run | JobState::Susp if unreachable => Standing::Unreachable,
        JobState::Start => Standing::Starting,
        JobState::Run | JobState::Susp => match mature {
            Some(time) if time <= now => Standing::Available,
            Some(_) => Standing::Ready,
            None if job.has_worked(now) => Standing::Unready,
            None => Standing::Running,
        },
        // Ended ones are not counted; the caller has put them aside.
        JobState::Done | JobState::Exit => Standing::Lost,
    }
}
