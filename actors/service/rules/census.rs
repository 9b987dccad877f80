//! Counting the replicas of a service.

use std::collections::HashMap;
use std::sync::Arc;

use xce_host::HostLife;
use xce_model::{ClusterTime, Millis, Version};
use xce_replica::JobRecord;

use super::{Draining, Situation};
use crate::roster::{Class, Mark, Replicas, ended_unasked};
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
    /// The drain of its host, where it holds one that is drained.
    pub draining: Option<Draining>,
}

impl Replica<'_> {
    /// Whether another one takes its place: it is there, and not counted among those that stay.
    pub fn leaves(&self) -> bool {
        self.job.moving && self.draining.is_some()
    }
}

/// Replicas by what they count as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    by: [u32; STANDINGS],
    leaving: u32,
}

impl Counts {
    /// Replicas of one standing.
    pub const fn of(&self, standing: Standing) -> u32 {
        self.by[standing as usize]
    }

    /// Replicas whose place another one takes, since their host is drained.
    pub const fn leaving(&self) -> u32 {
        self.leaving
    }

    /// Replicas that have not ended; lost ones are not live.
    pub fn live(&self) -> u32 {
        self.by.iter().sum::<u32>() - self.of(Standing::Lost)
    }

    /// Live replicas that are neither stopping nor leaving.
    pub fn staying(&self) -> u32 {
        self.live() - self.of(Standing::Stopping) - self.leaving
    }

    /// As [`Counts::staying`], with those that are leaving and have no replacement yet, of so many
    /// that are wanted.
    pub fn held_of(&self, want: u32) -> u32 {
        let staying = self.staying();
        staying.max(want.min(staying + self.leaving))
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
        for (mine, theirs) in self.by.iter_mut().zip(other.by) {
            *mine += theirs;
        }
        self.leaving += other.leaving;
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
    fn note_work(&mut self, mark: Mark, now: ClusterTime) {
        if self.has_worked {
            return;
        }
        if mark.has_worked(now) {
            self.has_worked = true;
        } else if let Some(time) = mark.works_at() {
            self.works_at = earlier(self.works_at, time);
        }
    }
}

/// The replicas of a service at one moment.
pub struct Census<'a> {
    /// Replicas that have not ended, in the order of the ledger.
    pub replicas: Vec<Replica<'a>>,
    /// Places of those that wait for their turn to restart, or take it.
    pub restarting: Vec<usize>,
    /// Places of those that hold a host that is drained, or were to leave one that no longer is.
    pub drained: Vec<usize>,
    /// Groups of the versions that are kept, and of older ones that still have replicas.
    pub groups: Vec<Group>,
    /// Place of the current version's group.
    pub current: usize,
    /// Replicas that ended without being asked to and are not accounted for.
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
            replicas: Vec::new(),
            restarting: Vec::new(),
            drained: Vec::new(),
            groups,
            current,
            ended: Vec::new(),
            next_available: None,
        };
        let mut counting = Counting {
            lives: Lives::of(situation),
            min_ready: record.settings.rollout.min_ready,
            now: situation.now,
            last: (0, 0),
        };
        match situation.replicas {
            Replicas::Kept(roster) => {
                census.replicas.reserve_exact(roster.live_count());
                for member in roster.members() {
                    census.count(record, &mut counting, &member.job, member.mark);
                }
                census.ended.extend(roster.news_after(record.accounted));
            }
            Replicas::Listed(jobs) => {
                census.replicas.reserve_exact(jobs.len());
                for job in jobs {
                    if let Some(mark) = Mark::of(job) {
                        census.count(record, &mut counting, job, mark);
                    } else if job.changed > record.accounted && ended_unasked(job) {
                        census.ended.push(job);
                    }
                }
            }
        }
        census
    }

    fn count(
        &mut self,
        record: &ServiceRecord,
        counting: &mut Counting<'a>,
        job: &'a Arc<JobRecord>,
        mark: Mark,
    ) {
        if counting.last.0 != mark.version {
            counting.last = (mark.version, self.place(record, mark.version));
        }
        let mature = mark.mature_at(counting.min_ready);
        let (life, draining) = counting.lives.of_job(job, mark.class);
        let standing = standing(mark, life, mature, counting.now);
        let goes_on = standing < Standing::Stopping && mark.class != Class::Returning;
        let draining = draining.filter(|_| goes_on);
        if let (Standing::Ready, Some(time)) = (standing, mature) {
            self.next_available = earlier(self.next_available, time);
        }
        let group = &mut self.groups[counting.last.1];
        group.counts.by[standing as usize] += 1;
        group.counts.leaving += u32::from(mark.moving && draining.is_some());
        if standing < Standing::Stopping && standing != Standing::Pending {
            group.note_work(mark, counting.now);
        }
        if mark.restarts {
            self.restarting.push(self.replicas.len());
        }
        if goes_on && (draining.is_some() || mark.moving) {
            self.drained.push(self.replicas.len());
        }
        self.replicas.push(Replica {
            job,
            version: mark.version,
            index: mark.index,
            group: counting.last.1,
            standing,
            draining,
        });
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

    /// Replicas that wait for their turn to restart, or take it.
    pub fn restarting(&self) -> impl Iterator<Item = &Replica<'a>> {
        self.restarting.iter().map(|place| &self.replicas[*place])
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

/// What is needed on the way through the replicas.
struct Counting<'a> {
    lives: Lives<'a>,
    min_ready: Millis,
    now: ClusterTime,
    /// The version seen last and the place of its group.
    last: (Version, usize),
}

/// What counts of a host: where it is in its life, and whether it is drained.
type HostSeen = (Option<HostLife>, Option<Draining>);

/// How the hosts of replicas are; asked once a host.
struct Lives<'a> {
    life: &'a dyn Fn(&str) -> Option<HostLife>,
    draining: &'a dyn Fn(&str) -> Option<Draining>,
    known: HashMap<&'a str, HostSeen>,
    /// Whether every host is up and none is drained, so that no replica's host has to be looked at.
    all_up: bool,
}

impl<'a> Lives<'a> {
    fn of(situation: &Situation<'a>) -> Self {
        let mut lives = Self {
            life: situation.life,
            draining: situation.draining,
            known: HashMap::new(),
            all_up: false,
        };
        if let Replicas::Kept(roster) = situation.replicas {
            lives.all_up = true;
            for host in roster.hosts() {
                let seen = ((situation.life)(host), (situation.draining)(host));
                lives.all_up &= seen == (Some(HostLife::Up), None);
                lives.known.insert(host, seen);
            }
        }
        lives
    }

    /// How a job's host is; one without a host counts as one whose host is up.
    fn of_job(&mut self, job: &'a JobRecord, class: Class) -> HostSeen {
        let up = (Some(HostLife::Up), None);
        if self.all_up || class == Class::Pending {
            return up;
        }
        let Some(host) = job.host.as_deref() else {
            return up;
        };
        let look = || ((self.life)(host), (self.draining)(host));
        *self.known.entry(host).or_insert_with(look)
    }
}

/// What a replica counts as. A life that is absent means that the host was removed.
fn standing(
    mark: Mark,
    life: Option<HostLife>,
    mature: Option<ClusterTime>,
    now: ClusterTime,
) -> Standing {
    match life {
        None | Some(HostLife::Lost) => return Standing::Lost,
        Some(HostLife::Up | HostLife::Suspect | HostLife::Away) => {}
    }
    let unreachable = life != Some(HostLife::Up);
    match mark.class {
        Class::Pending => Standing::Pending,
        Class::Stopping => Standing::Stopping,
        // One that is stopped to run again does not go away.
        Class::Returning => Standing::Starting,
        Class::Starting | Class::Running if unreachable => Standing::Unreachable,
        Class::Starting => Standing::Starting,
        Class::Running => match mature {
            Some(time) if time <= now => Standing::Available,
            Some(_) => Standing::Ready,
            None if mark.has_worked(now) => Standing::Unready,
            None => Standing::Running,
        },
    }
}
