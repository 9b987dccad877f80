//! The rollout: its progress and its end, and its steps.

mod blocker;
mod timing;

pub use blocker::Blocker;
pub(crate) use blocker::{blocker, draining};
pub use timing::measure;

use xce_model::spec::{OnStuck, Template};
use xce_model::{Cause, Millis, OperationId, Origin, Version};

use super::draft::Draft;
use super::fence::Fence;
use super::moving::Newcomers;
use super::{Census, Replica, Standing, settle, victims};
use crate::facts::{ServiceFact, TargetReason, VersionReason};
use crate::state::{Outcome, ServiceRecord, VersionRecord};

/// Notes availability, progress, completion and the deadline; true where a stuck rollout was
/// replaced by a rollback.
pub fn observe(draft: &mut Draft<'_>, census: &Census<'_>) -> bool {
    if let Some(time) = census.next_available {
        draft.wake_at(time);
    }
    observe_availability(draft, census);
    if !draft.record().rollout.is_active() {
        complete_untested(draft, census);
        return false;
    }
    if is_complete(draft.record(), census) {
        let (service, version) = (draft.record().id, draft.record().rollout.version);
        let untested = draft.record().desired == 0;
        draft.service(ServiceFact::RolloutCompleted {
            service,
            version,
            untested,
        });
        timing::note(draft, census);
        return false;
    }
    if draft.record().paused.is_some() {
        return false;
    }
    observe_progress(draft, census);
    observe_deadline(draft, census)
}

fn observe_availability(draft: &mut Draft<'_>, census: &Census<'_>) {
    let record = draft.record();
    let (service, available) = (record.id, census.total().available());
    let short = available < record.desired;
    if short && record.short_since.is_none() {
        draft.service(ServiceFact::FellShort { service, available });
    } else if !short && record.short_since.is_some() {
        draft.service(ServiceFact::BecameFull { service });
    }
}

/// A version that was complete with no replica has been tried once as many as are wanted are available.
fn complete_untested(draft: &mut Draft<'_>, census: &Census<'_>) {
    let record = draft.record();
    let untested = record.current().outcome == Outcome::Untested && record.desired > 0;
    if untested && is_complete(record, census) {
        let (service, version) = (record.id, record.rollout.version);
        draft.service(ServiceFact::RolloutCompleted {
            service,
            version,
            untested: false,
        });
        timing::note(draft, census);
    }
}

/// Whether every replica that is wanted is there, available and of the version, and no other is.
fn is_complete(record: &ServiceRecord, census: &Census<'_>) -> bool {
    let counts = census.current().counts;
    // What is moved off a drained host works as well as its replacement will.
    counts.live() - counts.leaving() == record.desired
        && counts.available() >= record.desired
        && record.want(record.current_root()) == record.desired
        && census.old().live() == 0
        && census
            .old_places()
            .iter()
            .all(|&place| record.want(census.groups[place].root) == 0)
}

fn observe_progress(draft: &mut Draft<'_>, census: &Census<'_>) {
    let rollout = &draft.record().rollout;
    let available = census.current().counts.available();
    let old = census.old();
    // A lost replica counts until its loss is accounted for, so that the loss is no progress.
    let old_live = old.live() + old.of(Standing::Lost);
    if available > rollout.available_mark || old_live < rollout.old_mark {
        let fact = ServiceFact::RolloutProgressed {
            service: draft.record().id,
            available: available.max(rollout.available_mark),
            old_live: old_live.min(rollout.old_mark),
        };
        draft.service(fact);
    }
}

/// Lateness beyond which a deadline was missed by whoever watches, not by the rollout.
/// Source: chosen; a timer of a busy controller is late by some milliseconds.
const LATE_MAX: Millis = Millis::seconds(2);

/// What such a rollout has at most. Source: chosen; workers report within a second of coming back.
const EXTENSION: Millis = Millis::seconds(10);

fn observe_deadline(draft: &mut Draft<'_>, census: &Census<'_>) -> bool {
    let record = draft.record();
    if record.rollout.is_stuck() {
        return false;
    }
    let deadline = record.rollout.deadline(&record.settings.rollout);
    if deadline > draft.situation().now {
        draft.wake_at(deadline);
        return false;
    }
    if draft.situation().now.since(deadline) > LATE_MAX {
        // The timer rings on time: nobody was there to see what happened meanwhile.
        let left = record.settings.rollout.progress_deadline.min(EXTENSION);
        let service = record.id;
        draft.service(ServiceFact::DeadlineExtended { service, left });
        let deadline = draft
            .record()
            .rollout
            .deadline(&draft.record().settings.rollout);
        draft.wake_at(deadline);
        return false;
    }
    let version = record.rollout.version;
    let back = rollback_target(record);
    let mut reason = blocker(record, census, draft.situation())
        .map_or_else(String::new, |blocker| blocker.to_string());
    if back == Err(NoRollback::NothingCompleted) {
        reason.push_str("; no completed version to go back to");
    }
    let service = record.id;
    draft.service(ServiceFact::RolloutStuck {
        service,
        version,
        reason,
    });
    let Ok(back) = back else { return false };
    let Some(making) = making_of(draft.record(), back) else {
        return false;
    };
    let number = draft.record().current().number + 1;
    draft.service(ServiceFact::Versioned {
        service,
        number,
        queue: making.queue,
        template: Box::new(making.template),
        origins: making.origins,
        reason: VersionReason::AutomaticRollbackOf(back),
        author: String::new(),
        operation: OperationId::default(),
    });
    true
}

/// Why a stuck rollout is not rolled back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NoRollback {
    /// It is not asked for, or the version is a rollback itself.
    NotWanted,
    /// No other version was ever complete.
    NothingCompleted,
}

fn rollback_target(record: &ServiceRecord) -> Result<Version, NoRollback> {
    let wanted = match record.settings.rollout.on_stuck {
        OnStuck::Stop => false,
        OnStuck::Rollback => record.current().reason.copy_of().is_none(),
    };
    if !wanted {
        return Err(NoRollback::NotWanted);
    }
    record
        .last_completed_other()
        .map(|version| version.number)
        .ok_or(NoRollback::NothingCompleted)
}

/// What makes a version: where its replicas wait, and what they run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Making {
    /// Queue.
    pub queue: String,
    /// What each replica runs.
    pub template: Template,
    /// Where its values came from that are not built in.
    pub origins: Vec<Origin>,
}

/// The making of a version that is kept.
pub fn making_of(record: &ServiceRecord, number: Version) -> Option<Making> {
    record.version(number).map(Making::of)
}

impl Making {
    /// That of a version.
    pub fn of(version: &VersionRecord) -> Self {
        Self {
            queue: version.spec.queue.clone(),
            template: version.spec.template.clone(),
            origins: version.origins.clone(),
        }
    }
}

/// The next step, if there is one: grow the new version, else shrink old ones.
pub fn step(draft: &mut Draft<'_>, census: &Census<'_>) {
    let record = draft.record();
    if !record.rollout.is_active() || record.paused.is_some() {
        return;
    }
    let fence = Fence::of(&record.settings.rollout, record.desired);
    if grow(draft, census, fence) {
        settle::submit(draft, census);
        return;
    }
    let newcomers = Newcomers::of(census);
    let cuts = cuts(draft.record(), census, draft.situation(), &newcomers);
    for cut in cuts {
        let service = draft.record().id;
        draft.service(ServiceFact::Targeted {
            service,
            version: cut.version,
            want: cut.want,
            why: TargetReason::Shrink,
        });
        for victim in cut.victims {
            draft.stop(victim.job, Cause::TermUpdate);
            if let Some(newcomer) = newcomers.of_old(&victim) {
                draft.stop(newcomer.job, Cause::TermUpdate);
            }
        }
    }
}

/// Wants more, or fewer, of the new version, as far as the bounds allow; true where it did.
fn grow(draft: &mut Draft<'_>, census: &Census<'_>, fence: Fence) -> bool {
    let record = draft.record();
    let root = record.current_root();
    let want = record.want(root);
    let room = fence.live_max().saturating_sub(reserved(record, census));
    let next = if want > fence.desired {
        fence.desired
    } else {
        want + room.min(fence.desired - want)
    };
    if next == want {
        return false;
    }
    let fact = ServiceFact::Targeted {
        service: record.id,
        version: record.current().number,
        want: next,
        why: TargetReason::Grow,
    };
    draft.service(fact);
    true
}

/// Replicas that are there or to come.
fn reserved(record: &ServiceRecord, census: &Census<'_>) -> u32 {
    let stopping = census.total().of(Standing::Stopping);
    let others = census.groups.iter().map(|group| {
        let staying = group.counts.staying();
        record.want(group.root).max(staying) + group.counts.leaving()
    });
    stopping + others.sum::<u32>()
}

/// How an old version shrinks in a step.
pub struct Cut<'a> {
    /// The version.
    pub version: Version,
    /// Its wanted count then.
    pub want: u32,
    /// The replicas that go.
    pub victims: Vec<Replica<'a>>,
}

/// Replicas of old versions that may go now, the oldest version first.
pub fn cuts<'a>(
    record: &ServiceRecord,
    census: &Census<'a>,
    situation: &super::Situation<'a>,
    newcomers: &Newcomers<'a>,
) -> Vec<Cut<'a>> {
    let fence = Fence::of(&record.settings.rollout, record.desired);
    let places = census.old_places();
    let mut plans: Vec<Plan<'a>> = places
        .iter()
        .map(|&place| Plan::of(record, census, place, newcomers))
        .collect();
    // What never worked goes whatever else; the rest of what does not work, within this budget.
    let dropped: u32 = plans.iter().map(Plan::freely).sum();
    let new = census.current();
    let new_missing = record
        .want(new.root)
        .max(new.counts.staying())
        .saturating_sub(new.counts.available());
    let kept = new.counts.held_of(record.want(new.root))
        + plans
            .iter()
            .map(|plan| plan.staying + plan.missing)
            .sum::<u32>();
    let mut budget = i64::from(kept)
        - i64::from(dropped)
        - i64::from(fence.available_min())
        - i64::from(new_missing);
    for plan in &mut plans {
        budget -= plan.drop_idle(budget);
    }
    let available = census.total().available();
    let mut spare = match record.rollout.is_stuck() {
        true => 0,
        false => available.saturating_sub(fence.available_min()),
    };
    for plan in &mut plans {
        spare -= plan.drop_available(spare, situation);
    }
    plans.into_iter().filter_map(Plan::cut).collect()
}

/// What may go of one old version.
struct Plan<'a> {
    version: Version,
    want_before: u32,
    /// Replicas that are there; one that is moved and its replacement are one.
    staying: u32,
    /// Wanted replicas that are missing and would be submitted again.
    missing: u32,
    /// Wanted replicas that are missing and give way to the new version.
    forgone: u32,
    never_ready: Vec<Replica<'a>>,
    idle: Vec<Replica<'a>>,
    available: Vec<Replica<'a>>,
    victims: Vec<Replica<'a>>,
    missing_dropped: u32,
}

impl<'a> Plan<'a> {
    fn of(
        record: &ServiceRecord,
        census: &Census<'a>,
        place: usize,
        newcomers: &Newcomers<'a>,
    ) -> Self {
        let group = &census.groups[place];
        let leader = record.version(group.version);
        let want = leader.map_or(0, |version| version.want);
        let works = leader.is_some_and(|version| version.proved);
        let staying = group.counts.held_of(want);
        let gap = want.saturating_sub(staying);
        let (missing, forgone) = if works { (gap, 0) } else { (0, gap) };
        let mut plan = Self {
            version: group.version,
            want_before: want,
            staying,
            missing,
            forgone,
            never_ready: Vec::new(),
            idle: Vec::new(),
            available: Vec::new(),
            victims: Vec::new(),
            missing_dropped: 0,
        };
        // What is moved stands for its replacement too.
        let counted = census.of_group(place).filter(|one| !newcomers.has(one));
        for replica in counted {
            // A replacement of a version that works came to keep replicas available.
            let keeps = works && replica.job.submitted_at >= record.rollout.started;
            match replica.standing {
                Standing::Pending | Standing::Starting | Standing::Running if keeps => {
                    plan.idle.push(*replica);
                }
                Standing::Pending | Standing::Starting | Standing::Running => {
                    plan.never_ready.push(*replica);
                }
                Standing::Unready | Standing::Ready => plan.idle.push(*replica),
                Standing::Available => plan.available.push(*replica),
                Standing::Unreachable | Standing::Stopping | Standing::Lost => {}
            }
        }
        plan
    }

    /// Replicas there are that go whatever else.
    fn freely(&self) -> u32 {
        u32::try_from(self.never_ready.len()).unwrap_or(u32::MAX)
    }

    /// Lets those go that are not available, within a budget; how many that were.
    fn drop_idle(&mut self, budget: i64) -> i64 {
        self.victims.append(&mut self.never_ready);
        let budget = u32::try_from(budget.max(0)).unwrap_or(u32::MAX);
        self.missing_dropped = self.missing.min(budget);
        let rest = usize::try_from(budget - self.missing_dropped).unwrap_or(usize::MAX);
        self.idle.sort_by_key(|replica| replica.standing);
        let count = self.idle.len().min(rest);
        self.victims.extend(self.idle.drain(..count));
        i64::from(self.missing_dropped) + i64::try_from(count).unwrap_or(i64::MAX)
    }

    /// Lets available ones go, up to `spare`; how many that were.
    fn drop_available(&mut self, spare: u32, situation: &super::Situation<'_>) -> u32 {
        if spare == 0 {
            return 0;
        }
        let count = usize::try_from(spare).unwrap_or(usize::MAX);
        let victims = victims::choose(self.available.drain(..), count, situation);
        let count = u32::try_from(victims.len()).unwrap_or(spare);
        self.victims.extend(victims);
        count
    }

    fn cut(self) -> Option<Cut<'a>> {
        let gone = u32::try_from(self.victims.len()).unwrap_or(u32::MAX);
        let want = self
            .want_before
            .max(self.staying)
            .saturating_sub(gone)
            .saturating_sub(self.missing_dropped)
            .saturating_sub(self.forgone);
        (want != self.want_before).then_some(Cut {
            version: self.version,
            want,
            victims: self.victims,
        })
    }
}
