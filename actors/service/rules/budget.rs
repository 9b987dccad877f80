//! Turns to restart in place after a failed liveness probe: an overload must not restart every
//! replica together.
//!
//! A replica that wants to be restarted waits until its service lets it. At most a quarter of the
//! desired count, and at least one, has a permission at once. It is given back when the replica is
//! ready again, ends, is alive again before it was restarted, or has had the time to start.

use xce_model::ClusterTime;
use xce_replica::state::startup_time;
use xce_replica::{JobFact, JobRecord};

use super::draft::Draft;
use super::{Census, Replica, Standing};
use crate::state::ServiceRecord;

/// Share of the desired count that may restart at once. Source: design section 7.3.
const PERCENT: u32 = 25;

/// Turns of a service at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turns {
    /// Replicas that have a permission.
    pub taken: u32,
    /// Most that may have one.
    pub most: u32,
    /// When the first of those that start anew has had the time to; none where none starts anew.
    pub frees_at: Option<ClusterTime>,
}

impl Turns {
    /// Counts the permissions of a service.
    pub fn of(record: &ServiceRecord, census: &Census<'_>, now: ClusterTime) -> Self {
        let mut turns = Self {
            taken: 0,
            most: most_restarts(record.desired),
            frees_at: None,
        };
        for replica in census.restarting().filter(|replica| lives(replica)) {
            match held(record, replica.job, now) {
                Held::No => {}
                Held::Yes => turns.taken += 1,
                Held::Until(time) => {
                    turns.taken += 1;
                    turns.frees_at = Some(turns.frees_at.map_or(time, |known| known.min(time)));
                }
            }
        }
        turns
    }

    /// What a replica that waits is told.
    pub fn sentence(&self, probe: &str) -> String {
        let Self { taken, most, .. } = self;
        format!("liveness failed: {probe}; waits for its turn: {taken} of {most} restarting")
    }
}

/// Most replicas that restart at once.
pub fn most_restarts(desired: u32) -> u32 {
    let share = u64::from(desired) * u64::from(PERCENT) / 100;
    u32::try_from(share).unwrap_or(u32::MAX).max(1)
}

enum Held {
    No,
    Yes,
    Until(ClusterTime),
}

fn held(record: &ServiceRecord, job: &JobRecord, now: ClusterTime) -> Held {
    let Some(permit) = job.restart_permit else {
        return Held::No;
    };
    let Some(began) = permit.began else {
        return Held::Yes;
    };
    let time = startup_time(job.template());
    let until = began.after(time.unwrap_or(record.settings.rollout.progress_deadline));
    if until <= now {
        Held::No
    } else {
        Held::Until(until)
    }
}

fn lives(replica: &Replica<'_>) -> bool {
    match replica.standing {
        Standing::Pending | Standing::Stopping | Standing::Lost => false,
        Standing::Starting
        | Standing::Unreachable
        | Standing::Running
        | Standing::Unready
        | Standing::Ready
        | Standing::Available => true,
    }
}

/// Why a replica that wants to be restarted is not, in a sentence; none where it does not wait.
pub fn waits_for_turn(turns: &Turns, job: &JobRecord) -> Option<String> {
    let wish = job.restart_wish.as_ref()?;
    job.open_permit()
        .is_none()
        .then(|| turns.sentence(&wish.text))
}

/// Whether it waits for a turn that it can be told of.
fn waits(replica: &Replica<'_>) -> bool {
    let reachable = lives(replica) && replica.standing != Standing::Unreachable;
    reachable && replica.job.restart_wish.is_some() && replica.job.open_permit().is_none()
}

/// Lets as many replicas restart as there are turns, those that have waited longest first.
pub fn step(draft: &mut Draft<'_>, census: &Census<'_>) {
    let mut waiting: Vec<_> = census.restarting().filter(|one| waits(one)).collect();
    if waiting.is_empty() {
        return;
    }
    let now = draft.situation().now;
    let turns = Turns::of(draft.record(), census, now);
    let free = usize::try_from(turns.most.saturating_sub(turns.taken)).unwrap_or(usize::MAX);
    if let Some(time) = turns.frees_at
        && waiting.len() > free
    {
        draft.wake_at(time);
    }
    waiting.sort_by_key(|one| {
        (
            one.job.restart_wish.as_ref().map(|wish| wish.since),
            one.job.id,
        )
    });
    for replica in waiting.into_iter().take(free) {
        let job = replica.job;
        if let Some(wish) = &job.restart_wish {
            draft.job(JobFact::RestartGranted {
                job: job.id,
                run: job.run,
                start: job.start,
                wish: wish.number,
            });
        }
    }
}
