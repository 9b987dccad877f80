//! Workers that do as they are told, each in the time that was measured or assumed.

use std::collections::BTreeSet;

use xce_host::HostLife;
use xce_ledger::Fact;
use xce_model::{Cause, ClusterTime, Exit, JobId, JobState, Millis, Run, Version};
use xce_replica::{AfterStop, JobFact, JobRecord};
use xce_session::plan::PlanTimes;

use crate::imagined::Imagined;
use crate::times::Estimates;

/// Time beyond twice what is usual after which a replica that runs is taken to stay as it is.
/// Source: chosen, above the noise of a busy host.
const PATIENCE: Millis = Millis::seconds(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Happens {
    Start,
    Ready,
    Stopped,
}

/// What the workers will do, and when.
pub(crate) struct Workers {
    estimates: Estimates,
    queue: BTreeSet<(ClusterTime, JobId, Run, Happens)>,
    /// Replicas that have run for long without being ready, or are not ready any more.
    pub dull: u32,
    /// Replicas on hosts that do not answer.
    pub silent: u32,
}

impl Workers {
    /// Takes over the replicas that are under way.
    pub fn of(world: &Imagined<'_>) -> Self {
        let mut workers = Self {
            estimates: Estimates::of(world),
            queue: BTreeSet::new(),
            dull: 0,
            silent: 0,
        };
        for job in world.live() {
            workers.take_over(world, job);
        }
        workers
    }

    /// The times that a version's replicas are taken to need.
    pub fn times(&self, version: Version) -> PlanTimes {
        self.estimates.times(version)
    }

    fn times_of(&self, job: &JobRecord) -> PlanTimes {
        self.times(job.service.map_or(0, |of| of.version))
    }

    fn take_over(&mut self, world: &Imagined<'_>, job: &JobRecord) {
        if !job.state.holds_host() {
            return;
        }
        if !answers(world, job) {
            self.silent += 1;
            return;
        }
        let now = world.now;
        let times = self.times_of(job);
        let (what, at) = match job.state {
            JobState::Start => {
                let placed = job.placed_at.unwrap_or(now);
                (Happens::Start, placed.after(times.start.takes))
            }
            JobState::Run if job.ready_since.is_none() => {
                let usual = times.ready.takes;
                let running = job.running_since.unwrap_or(now);
                let most = Millis(usual.0.saturating_mul(2).saturating_add(PATIENCE.0));
                if job.was_ready || now.since(running) > most {
                    self.dull += 1;
                    return;
                }
                (Happens::Ready, running.after(usual))
            }
            JobState::Stopping => {
                let since = job.stop.map_or(now, |stop| stop.since);
                (Happens::Stopped, since.after(times.stop.takes))
            }
            JobState::Run
            | JobState::Susp
            | JobState::Pend
            | JobState::Held
            | JobState::Done
            | JobState::Exit => return,
        };
        self.queue.insert((at.max(now), job.id, job.run, what));
    }

    /// A replica was placed.
    pub fn placed(&mut self, job: &JobRecord, now: ClusterTime) {
        let at = now.after(self.times_of(job).start.takes);
        self.queue.insert((at, job.id, job.run, Happens::Start));
    }

    /// A replica was told to stop.
    pub fn told_to_stop(&mut self, world: &Imagined<'_>, job: &JobRecord) {
        if job.state == JobState::Stopping && answers(world, job) {
            let at = world.now.after(self.times_of(job).stop.takes);
            self.queue.insert((at, job.id, job.run, Happens::Stopped));
        }
    }

    /// When something happens next.
    pub fn next(&self) -> Option<ClusterTime> {
        self.queue.first().map(|first| first.0)
    }

    /// What is due now, as facts; what follows from it is due later, if only in the next look.
    pub fn act(&mut self, world: &Imagined<'_>) -> Vec<Fact> {
        let after = (
            world.now.after(Millis(1)),
            JobId::element(0, 0),
            0,
            Happens::Start,
        );
        let later = self.queue.split_off(&after);
        let due = std::mem::replace(&mut self.queue, later);
        let mut facts = Vec::with_capacity(due.len());
        for (_, id, run, what) in due {
            if let Some(job) = world.replica(id)
                && job.run == run
                && let Some(fact) = self.one(world, job, what)
            {
                facts.push(Fact::from(fact));
            }
        }
        facts
    }

    fn one(&mut self, world: &Imagined<'_>, job: &JobRecord, what: Happens) -> Option<JobFact> {
        let (id, run, at) = (job.id, job.run, world.wall);
        match what {
            Happens::Start if job.state == JobState::Start => {
                let due = world.now.after(self.times_of(job).ready.takes);
                self.queue.insert((due, id, run, Happens::Ready));
                Some(JobFact::Started {
                    job: id,
                    run,
                    start: 1,
                    pid: 0,
                    at,
                })
            }
            Happens::Ready if job.state == JobState::Run && job.ready_since.is_none() => {
                Some(JobFact::Ready {
                    job: id,
                    run,
                    start: job.start,
                })
            }
            Happens::Stopped if job.state == JobState::Stopping => Some(ended(job, world)),
            Happens::Start | Happens::Ready | Happens::Stopped => None,
        }
    }
}

fn ended(job: &JobRecord, world: &Imagined<'_>) -> JobFact {
    let (id, run) = (job.id, job.run);
    let exit = Exit::of(job.stop.map_or(Cause::Exited, |stop| stop.cause));
    let then = job.stop.map_or(AfterStop::End, |stop| stop.then);
    let requeued = |held| JobFact::Requeued {
        job: id,
        run,
        exit: exit.clone(),
        not_before: world.now,
        avoid: None,
        held,
        at: world.wall,
    };
    match then {
        AfterStop::Requeue => requeued(false),
        AfterStop::Hold => requeued(true),
        AfterStop::End => JobFact::Ended {
            job: id,
            run,
            exit,
            at: world.wall,
            stderr: String::new(),
        },
    }
}

/// Whether the host of a replica answers.
fn answers(world: &Imagined<'_>, job: &JobRecord) -> bool {
    let host = job.host.as_deref().and_then(|host| world.view.host(host));
    host.is_some_and(|host| host.life == HostLife::Up)
}
