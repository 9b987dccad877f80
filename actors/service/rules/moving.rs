//! Replicas on hosts that are drained are moved: another one starts elsewhere, and when it works the
//! old one stops, so that a service never has fewer by it.
//!
//! ```text
//!            ┌─ never worked, and enough others do ─────────────────────────► stopped, replaced
//! on a drained host
//!            └─ MoveBegan: its index is free for another ─► that one works ─► stopped
//!                           └─ the drain is called off ─► MoveEnded, or the newcomer goes
//! at the deadline: stopped without waiting, as far as the service may miss replicas
//! ```
//!
//! A move takes room above desired, as much as an update may, and at least one. In a rollout old
//! replicas are not moved: they are replaced anyway, those on drained hosts first.

use std::collections::{HashMap, HashSet};

use xce_model::{Cause, ClusterTime};
use xce_replica::JobFact;

use super::draft::Draft;
use super::fence::Fence;
use super::{Census, Replica, Situation, Standing};
use crate::state::ServiceRecord;

/// What is done with a replica on a drained host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// Another one is to take its place.
    Begin,
    /// It stays, since its host is not drained any more.
    Stay,
    /// It goes.
    Stop,
    /// It waits.
    Wait(Hold),
}

/// Why a replica on a drained host does not go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// The rollout replaces it.
    Rollout,
    /// Its replacement would be one too many.
    Live {
        /// Live replicas, with those that are to come.
        live: u32,
        /// Most that may be.
        maximum: u32,
    },
    /// Its replacement does not work yet.
    Replacement,
    /// The deadline has passed, and too few would be available without it.
    Available {
        /// Available replicas.
        available: u32,
        /// Fewest that must remain.
        minimum: u32,
    },
    /// Its host does not answer.
    Unreachable,
}

/// A replica that does not go, and what holds it.
#[derive(Debug, Clone, Copy)]
pub struct Held<'a> {
    /// The replica.
    pub replica: Replica<'a>,
    /// What holds it.
    pub hold: Hold,
    /// The replica that takes its place, where there is one.
    pub newcomer: Option<Replica<'a>>,
}

/// Most live replicas while some are moved.
pub const fn live_max(fence: Fence) -> u32 {
    let surge = if fence.surge > 1 { fence.surge } else { 1 };
    fence.desired.saturating_add(surge)
}

/// Begins moves, ends those whose replacement works, and takes back those that are called off.
pub fn step(draft: &mut Draft<'_>, census: &Census<'_>) {
    if census.drained.is_empty() {
        return;
    }
    let (now, record) = (draft.situation().now, draft.record().clone());
    for (replica, deed) in deeds(&record, census, draft.situation()) {
        let (job, run) = (replica.job.id, replica.job.run);
        match deed {
            Deed::Begin => draft.job(JobFact::MoveBegan { job, run }),
            Deed::Stay => draft.job(JobFact::MoveEnded { job, run }),
            Deed::Stop => draft.stop(replica.job, Cause::TermDrain),
            Deed::Wait(_) => {
                let until = replica.draining.and_then(|draining| draining.until);
                if let Some(until) = until.filter(|until| *until > now) {
                    draft.wake_at(until);
                }
            }
        }
    }
}

/// The replicas on a drained host, or on any, that do not go yet.
pub fn held<'a>(
    record: &ServiceRecord,
    census: &Census<'a>,
    situation: &Situation<'a>,
    host: Option<&str>,
) -> Vec<Held<'a>> {
    let newcomers = Newcomers::of(census);
    let on =
        |replica: &Replica<'a>| host.is_none_or(|host| replica.job.host.as_deref() == Some(host));
    let mut held = Vec::new();
    for (replica, deed) in deeds(record, census, situation) {
        if let Deed::Wait(hold) = deed
            && on(&replica)
        {
            held.push(Held {
                replica,
                hold,
                newcomer: newcomers.of_old(&replica),
            });
        }
    }
    held
}

/// What is done with each replica on a drained host now; of those that wait for a replacement, those
/// that work last.
fn deeds<'a>(
    record: &ServiceRecord,
    census: &Census<'a>,
    situation: &Situation<'a>,
) -> Vec<(Replica<'a>, Deed)> {
    let mut drained: Vec<Replica<'a>> = census
        .drained
        .iter()
        .map(|place| census.replicas[*place])
        .collect();
    let newcomers = Newcomers::of(census);
    // Those whose replacement works come first: what it adds is theirs to take.
    drained.sort_by_key(|old| {
        let swaps = newcomers
            .of_old(old)
            .is_some_and(|newcomer| replaces(newcomer.standing, old.standing));
        (!swaps, old.standing, old.job.id)
    });
    let mut tally = Tally::of(record, census, &drained, &newcomers);
    drained
        .into_iter()
        .map(|replica| {
            let newcomer = newcomers.of_old(&replica);
            let deed = tally.decide((record, census), &replica, newcomer, situation.now);
            (replica, deed)
        })
        .collect()
}

/// The replicas that take the place of those that are moved, by group and index.
pub struct Newcomers<'a>(HashMap<(usize, u32), Replica<'a>>);

impl<'a> Newcomers<'a> {
    /// Looks for them.
    pub fn of(census: &Census<'a>) -> Self {
        let moved = census.drained.iter().map(|place| &census.replicas[*place]);
        let wanted: HashSet<(usize, u32)> = moved
            .filter(|replica| replica.leaves())
            .map(|replica| (replica.group, replica.index))
            .collect();
        if wanted.is_empty() {
            return Self(HashMap::new());
        }
        let comes = |replica: &&Replica<'a>| {
            !replica.job.moving
                && replica.standing < Standing::Stopping
                && wanted.contains(&(replica.group, replica.index))
        };
        let newcomers = census.replicas.iter().filter(comes);
        Self(
            newcomers
                .map(|replica| ((replica.group, replica.index), *replica))
                .collect(),
        )
    }

    /// Whether a replica is one.
    pub fn has(&self, replica: &Replica<'a>) -> bool {
        let known = self.0.get(&(replica.group, replica.index));
        known.is_some_and(|known| known.job.id == replica.job.id)
    }

    /// That of a replica that is moved.
    pub fn of_old(&self, replica: &Replica<'a>) -> Option<Replica<'a>> {
        let key = (replica.group, replica.index);
        self.0.get(&key).filter(|_| replica.job.moving).copied()
    }
}

/// Whether another replica that has not ended has its index.
fn shares_index(census: &Census<'_>, replica: &Replica<'_>) -> bool {
    let mut others = census.of_group(replica.group);
    others.any(|other| other.index == replica.index && !other.job.moving)
}

/// Whether a replacement is as good as what it replaces.
fn replaces(newcomer: Standing, old: Standing) -> bool {
    match old {
        Standing::Available => newcomer == Standing::Available,
        Standing::Ready => matches!(newcomer, Standing::Ready | Standing::Available),
        Standing::Starting | Standing::Running | Standing::Unready => match newcomer {
            Standing::Starting
            | Standing::Running
            | Standing::Unready
            | Standing::Ready
            | Standing::Available => true,
            Standing::Pending | Standing::Unreachable | Standing::Stopping | Standing::Lost => {
                false
            }
        },
        Standing::Unreachable => newcomer == Standing::Available,
        Standing::Pending | Standing::Stopping | Standing::Lost => false,
    }
}

/// Counts as they will be when what is decided so far has come about.
struct Tally {
    fence: Fence,
    available: u32,
    /// Replicas that hold a host and stay there.
    placed: u32,
    live: u32,
    /// By group: replicas that are moved, have no replacement, and need none.
    surplus: Vec<u32>,
}

impl Tally {
    fn of<'a>(
        record: &ServiceRecord,
        census: &Census<'a>,
        drained: &[Replica<'a>],
        newcomers: &Newcomers<'a>,
    ) -> Self {
        let total = census.total();
        let mut alone = vec![0_u32; census.groups.len()];
        for replica in drained.iter().filter(|one| one.leaves()) {
            alone[replica.group] += u32::from(newcomers.of_old(replica).is_none());
        }
        let live = total.live() + alone.iter().sum::<u32>();
        let surplus = census.groups.iter().zip(alone).map(|(group, alone)| {
            let missing = record
                .want(group.root)
                .saturating_sub(group.counts.staying());
            alone.saturating_sub(missing)
        });
        Self {
            fence: Fence::of(&record.settings.rollout, record.desired),
            available: total.available(),
            placed: total
                .live()
                .saturating_sub(total.of(Standing::Pending) + total.of(Standing::Stopping)),
            live,
            surplus: surplus.collect(),
        }
    }

    fn decide(
        &mut self,
        (record, census): (&ServiceRecord, &Census<'_>),
        replica: &Replica<'_>,
        newcomer: Option<Replica<'_>>,
        now: ClusterTime,
    ) -> Deed {
        let Some(draining) = replica.draining else {
            // What is one too many goes as any that is; its index is free when that one has ended.
            return match shares_index(census, replica) {
                true => Deed::Wait(Hold::Replacement),
                false => Deed::Stay,
            };
        };
        let due = draining.until.is_some_and(|until| until <= now);
        if self.goes(replica, newcomer.as_ref(), due) {
            self.available -= u32::from(replica.standing == Standing::Available);
            self.placed = self.placed.saturating_sub(1);
            return Deed::Stop;
        }
        let minimum = self.fence.available_min();
        let due_hold = Hold::Available {
            available: self.available,
            minimum,
        };
        if replica.job.moving {
            return Deed::Wait(match (replica.standing, due) {
                (Standing::Unreachable, _) => Hold::Unreachable,
                (_, true) => due_hold,
                (_, false) => Hold::Replacement,
            });
        }
        if !is_moved(record, census, replica) {
            return Deed::Wait(if due { due_hold } else { Hold::Rollout });
        }
        let maximum = live_max(self.fence);
        if self.live >= maximum {
            let live = self.live;
            return Deed::Wait(Hold::Live { live, maximum });
        }
        self.live += 1;
        Deed::Begin
    }

    /// Whether it goes now.
    fn goes(&mut self, old: &Replica<'_>, newcomer: Option<&Replica<'_>>, due: bool) -> bool {
        if newcomer.is_some_and(|one| old.job.moving && replaces(one.standing, old.standing)) {
            return true;
        }
        let minimum = self.fence.available_min();
        let is_available = old.standing == Standing::Available;
        let enough = self.available.saturating_sub(u32::from(is_available)) >= minimum;
        if let Some(left) = self.surplus.get_mut(old.group)
            && old.job.moving
            && newcomer.is_none()
            && *left > 0
            && (enough || !is_available)
        {
            *left -= 1;
            return true;
        }
        match old.standing {
            Standing::Starting | Standing::Running if enough => true,
            Standing::Available => due && enough,
            Standing::Starting | Standing::Running | Standing::Unready | Standing::Ready => {
                due && self.placed > minimum
            }
            Standing::Unreachable | Standing::Pending | Standing::Stopping | Standing::Lost => {
                false
            }
        }
    }
}

/// Whether a replica is moved rather than replaced by the rollout that is under way.
fn is_moved(record: &ServiceRecord, census: &Census<'_>, replica: &Replica<'_>) -> bool {
    if replica.group == census.current || !record.rollout.is_active() {
        return true;
    }
    let version = record.version(census.groups[replica.group].version);
    let works = version.is_some_and(|version| version.proved);
    record.paused.is_some() || (record.rollout.is_stuck() && works)
}
