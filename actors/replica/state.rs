//! Committed state of a job.

use std::sync::Arc;

use xce_model::spec::{JobSpec, Template};
use xce_model::{Cause, ClusterTime, Exit, JobId, JobState, Lsn, Millis, Run, Start, WallTime};

use crate::facts::{AfterStop, JobFact, ServiceRef};

mod trouble;

pub use trouble::{ProbeTrouble, RestartPermit, RestartWish, startup_time};

/// Time that a replica must be ready before it counts as having worked, where no probe tells.
/// Source: as the time of a step of the slow start, design section 6.4.
pub const PROOF_TIME: Millis = Millis::seconds(1);

/// Time that a replica must be ready before it counts as having worked: none where a probe tells
/// when it is ready. Without one every process is ready as soon as it runs, also one that fails at
/// once, so that only time tells.
pub fn proof_time(template: &Template) -> Millis {
    let probes = &template.probes;
    if probes.readiness.is_some() || probes.startup.is_some() {
        Millis(0)
    } else {
        PROOF_TIME
    }
}

/// A stop that was asked for.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct StopRequest {
    /// Why.
    pub cause: Cause,
    /// What becomes of the job then.
    pub then: AfterStop,
    /// Since when.
    pub since: ClusterTime,
    /// Whether nobody uses its endpoints any more, so that its drain is over.
    pub drained: bool,
}

/// Earlier runs that a job remembers. Source: chosen, as the history of versions of a service.
pub const PAST_RUNS_MAX: usize = 10;

/// A run that ended and was followed by another.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct PastRun {
    /// Its number.
    pub run: Run,
    /// Where it ran.
    pub host: String,
    /// When it started, by the host's wall clock; absent when it never did.
    pub started: Option<WallTime>,
    /// When it ended, by the host's wall clock.
    pub ended: WallTime,
    /// How it ended.
    pub exit: Exit,
}

/// A job as committed. Shared parts stand behind `Arc`, so that many jobs of one shape are small.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRecord {
    /// Identity.
    pub id: JobId,
    /// What was asked for; shared by the elements of an array and the replicas of a version.
    pub spec: Arc<JobSpec>,
    /// Owner's login name.
    pub owner: Arc<str>,
    /// Service that it is a replica of.
    pub service: Option<ServiceRef>,
    /// State.
    pub state: JobState,
    /// Number of the last run; 0 before the first.
    pub run: Run,
    /// Number of the last start within the run; 0 before the first.
    pub start: Start,
    /// Host of the current or last run.
    pub host: Option<Arc<str>>,
    /// Ports of the current run, by name.
    pub ports: Vec<(String, u16)>,
    /// Process id, for display; 0 when unknown.
    pub pid: u32,
    /// Since when it takes work; absent when it does not.
    pub ready_since: Option<ClusterTime>,
    /// Since when the current start runs; absent while none does.
    pub running_since: Option<ClusterTime>,
    /// When the current or last run was given to its host.
    pub placed_at: Option<ClusterTime>,
    /// How long the last stop that was asked for took until its end was confirmed.
    pub stop_took: Option<Millis>,
    /// Whether the current run has ever been ready.
    pub was_ready: bool,
    /// Longest time without a break that the current or last run was ready, of those that are over.
    pub ready_longest: Millis,
    /// What the readiness probe last said; empty when it is well.
    pub probe_text: String,
    /// Probes of the current start that could not be run.
    pub unrunnable: Vec<ProbeTrouble>,
    /// The wish to be restarted because the liveness probe failed.
    pub restart_wish: Option<RestartWish>,
    /// The permission to do so.
    pub restart_permit: Option<RestartPermit>,
    /// Processes that do not die although they were killed; empty when there are none.
    pub hanging: String,
    /// Shims that it lost, in all runs.
    pub shims_lost: u32,
    /// Restarts in place in all runs.
    pub restarts: u32,
    /// Whether another replica takes its place, since its host is drained.
    pub moving: bool,
    /// A stop that was asked for and is not confirmed.
    pub stop: Option<StopRequest>,
    /// How the last run or start ended.
    pub exit: Option<Exit>,
    /// Last lines of stderr at that end.
    pub stderr: String,
    /// Earlier runs, the oldest first, at most [`PAST_RUNS_MAX`].
    pub past: Vec<PastRun>,
    /// Not placed before this time.
    pub not_before: ClusterTime,
    /// Hosts that could not start it.
    pub avoid: Vec<Arc<str>>,
    /// When it was submitted, by the controller's wall clock.
    pub submitted: WallTime,
    /// When the current or last run started, by the host's wall clock.
    pub started: Option<WallTime>,
    /// When it ended, by the host's wall clock.
    pub ended: Option<WallTime>,
    /// When it was submitted, in cluster time.
    pub submitted_at: ClusterTime,
    /// When it ended, in cluster time.
    pub ended_at: Option<ClusterTime>,
    /// Position of its last change.
    pub changed: Lsn,
}

impl JobRecord {
    /// A job as it begins.
    pub fn submitted(
        id: JobId,
        spec: Arc<JobSpec>,
        service: Option<ServiceRef>,
        at: (Lsn, ClusterTime, WallTime),
    ) -> Self {
        let (lsn, now, wall) = at;
        Self {
            id,
            owner: Arc::from(spec.template.user.name.as_str()),
            state: if spec.held {
                JobState::Held
            } else {
                JobState::Pend
            },
            spec,
            service,
            run: 0,
            start: 0,
            host: None,
            ports: Vec::new(),
            pid: 0,
            ready_since: None,
            running_since: None,
            placed_at: None,
            stop_took: None,
            was_ready: false,
            ready_longest: Millis(0),
            probe_text: String::new(),
            unrunnable: Vec::new(),
            restart_wish: None,
            restart_permit: None,
            hanging: String::new(),
            shims_lost: 0,
            restarts: 0,
            moving: false,
            stop: None,
            exit: None,
            stderr: String::new(),
            past: Vec::new(),
            not_before: ClusterTime(0),
            avoid: Vec::new(),
            submitted: wall,
            started: None,
            ended: None,
            submitted_at: now,
            ended_at: None,
            changed: lsn,
        }
    }

    /// What it runs.
    pub fn template(&self) -> &Template {
        &self.spec.template
    }

    /// Whether it takes work now.
    pub fn is_ready(&self) -> bool {
        self.ready_since.is_some() && self.state == JobState::Run
    }

    /// When it counts, or will count, as having worked, while it is ready.
    pub fn works_at(&self) -> Option<ClusterTime> {
        let proof = proof_time(self.template());
        self.ready_since.map(|since| since.after(proof))
    }

    /// Whether it worked in its current or last run: was ready, and for [`proof_time`].
    pub fn has_worked(&self, now: ClusterTime) -> bool {
        self.was_ready
            && (self.ready_longest >= proof_time(self.template())
                || self.works_at().is_some_and(|time| time <= now))
    }

    /// Applies a fact of this job. Submission and clean-up are the ledger's.
    pub fn apply(&mut self, fact: &JobFact, now: ClusterTime, lsn: Lsn) {
        self.changed = lsn;
        match fact {
            JobFact::Submitted { .. }
            | JobFact::ReplicasSubmitted { .. }
            | JobFact::CleanedUp { .. } => {}
            JobFact::Held { .. } => self.state = JobState::Held,
            JobFact::Released { .. } => self.state = JobState::Pend,
            JobFact::Placed {
                run, host, ports, ..
            } => self.place(*run, host, ports, now),
            JobFact::Started { start, pid, at, .. } => self.begin(*start, *pid, *at, now),
            JobFact::Ready { .. } => self.become_ready(now),
            JobFact::NotReady { text, .. } => {
                self.leave_ready(now);
                self.probe_text.clone_from(text);
            }
            JobFact::Restarting { exit, stderr, .. } => self.fall(exit, stderr, now),
            JobFact::StopRequested { cause, then, .. } => {
                self.stop = Some(StopRequest {
                    cause: *cause,
                    then: *then,
                    since: now,
                    drained: self.stop.is_some_and(|stop| stop.drained),
                });
                self.leave_ready(now);
                self.forget_restart();
                self.state = JobState::Stopping;
            }
            JobFact::Ended {
                exit, at, stderr, ..
            } => self.end(exit, *at, stderr, now),
            JobFact::Requeued {
                exit,
                not_before,
                avoid,
                held,
                at,
                ..
            } => {
                self.remember_run(exit, *at);
                self.requeue(exit, *not_before, avoid.as_deref(), now);
                self.state = if *held {
                    JobState::Held
                } else {
                    JobState::Pend
                };
            }
            JobFact::Suspended { .. } => {
                self.state = JobState::Susp;
                self.leave_ready(now);
            }
            JobFact::Resumed { .. } => self.state = JobState::Run,
            JobFact::ProbeUnrunnable {
                role, count, text, ..
            } => self.note_unrunnable(*role, *count, text),
            JobFact::RestartWanted { wish, text, .. } => self.want_restart(*wish, text, now),
            JobFact::RestartUnwanted { start, .. } => self.unwant_restart(*start),
            JobFact::RestartGranted { start, wish, .. } => self.grant_restart(*start, *wish, now),
            JobFact::StopHangs { text, .. } => self.hanging.clone_from(text),
            JobFact::MoveBegan { .. } => self.moving = true,
            JobFact::MoveEnded { .. } => self.moving = false,
            JobFact::Drained { .. } => {
                if let Some(stop) = &mut self.stop {
                    stop.drained = true;
                }
            }
        }
    }

    fn become_ready(&mut self, now: ClusterTime) {
        self.ready_since = Some(now);
        self.was_ready = true;
        self.probe_text.clear();
        let start = self.start;
        self.restart_permit.take_if(|permit| permit.start < start);
    }

    fn place(&mut self, run: Run, host: &str, ports: &[(String, u16)], now: ClusterTime) {
        self.state = JobState::Start;
        self.run = run;
        self.start = 0;
        self.host = Some(Arc::from(host));
        self.ports = ports.to_vec();
        self.pid = 0;
        self.ready_since = None;
        self.running_since = None;
        self.placed_at = Some(now);
        self.stop_took = None;
        self.was_ready = false;
        self.ready_longest = Millis(0);
        self.probe_text.clear();
        self.unrunnable.clear();
        self.forget_restart();
        self.hanging.clear();
        self.moving = false;
        self.stop = None;
        self.exit = None;
        self.stderr.clear();
        self.started = None;
        self.ended = None;
    }

    fn begin(&mut self, start: Start, pid: u32, at: WallTime, now: ClusterTime) {
        if self.state == JobState::Start {
            self.state = JobState::Run;
        }
        if self.start == 0 {
            self.started = Some(at);
        }
        self.start = start;
        self.pid = pid;
        self.running_since = Some(now);
        self.unrunnable.clear();
        self.restart_wish = None;
        if let Some(permit) = &mut self.restart_permit
            && permit.start < start
        {
            permit.began.get_or_insert(now);
        }
    }

    /// One start ended and another will follow in the same run.
    fn fall(&mut self, exit: &Exit, stderr: &str, now: ClusterTime) {
        self.leave_ready(now);
        self.running_since = None;
        self.restart_wish = None;
        self.hanging.clear();
        self.restarts = self.restarts.saturating_add(1);
        self.exit = Some(exit.clone());
        stderr.clone_into(&mut self.stderr);
        self.pid = 0;
    }

    /// Keeps how the last run ended, before another one follows.
    fn remember_run(&mut self, exit: &Exit, at: WallTime) {
        let Some(host) = self.host.as_deref().filter(|_| self.run > 0) else {
            return;
        };
        if self.past.len() >= PAST_RUNS_MAX {
            self.past.remove(0);
        }
        self.past.push(PastRun {
            run: self.run,
            host: host.to_owned(),
            started: self.started,
            ended: at,
            exit: exit.clone(),
        });
    }

    fn requeue(
        &mut self,
        exit: &Exit,
        not_before: ClusterTime,
        avoid: Option<&str>,
        now: ClusterTime,
    ) {
        self.leave_host(now);
        self.shims_lost += u32::from(exit.cause == Cause::ShimLost);
        self.exit = Some(exit.clone());
        self.not_before = not_before;
        if let Some(host) = avoid
            && !self.avoid.iter().any(|known| **known == *host)
        {
            self.avoid.push(Arc::from(host));
        }
        self.ended = None;
        self.ended_at = None;
    }

    fn leave_ready(&mut self, now: ClusterTime) {
        if let Some(since) = self.ready_since.take() {
            self.ready_longest = self.ready_longest.max(now.since(since));
        }
    }

    fn leave_host(&mut self, now: ClusterTime) {
        self.ports.clear();
        self.pid = 0;
        self.leave_ready(now);
        self.running_since = None;
        self.forget_restart();
        self.hanging.clear();
        self.unrunnable.clear();
        self.moving = false;
        self.stop_took = self.stop.map(|stop| now.since(stop.since));
        self.stop = None;
    }

    fn end(&mut self, exit: &Exit, at: WallTime, stderr: &str, now: ClusterTime) {
        self.state = if exit.is_success() {
            JobState::Done
        } else {
            JobState::Exit
        };
        self.leave_host(now);
        self.exit = Some(exit.clone());
        self.ended = Some(at);
        self.ended_at = Some(now);
        stderr.clone_into(&mut self.stderr);
    }

    /// Checks what must hold of any job; the text names what does not.
    ///
    /// # Errors
    /// One sentence about the first invariant that is broken.
    pub fn check(&self) -> Result<(), String> {
        if self.state.holds_host() && (self.run == 0 || self.host.is_none()) {
            return Err(format!(
                "job {} is {} without a run or host",
                self.id, self.state
            ));
        }
        if self.state.is_terminal() && (self.exit.is_none() || self.ended_at.is_none()) {
            return Err(format!("job {} is {} without an exit", self.id, self.state));
        }
        if self.stop.is_some() != (self.state == JobState::Stopping) {
            return Err(format!(
                "job {} is {} but its stop request differs",
                self.id, self.state
            ));
        }
        if self.ready_since.is_some() && self.state != JobState::Run {
            return Err(format!("job {} is {} and yet ready", self.id, self.state));
        }
        if self.ready_longest > Millis(0) && !self.was_ready {
            return Err(format!("job {} was ready for long and never", self.id));
        }
        let restarts = self.restart_wish.is_some() || self.restart_permit.is_some();
        if restarts && (!self.state.holds_host() || self.state == JobState::Stopping) {
            return Err(format!("job {} is {} and restarts", self.id, self.state));
        }
        if self.moving && (!self.state.holds_host() || self.service.is_none()) {
            return Err(format!("job {} is {} and moves", self.id, self.state));
        }
        if !self.state.holds_host() && !self.ports.is_empty() {
            return Err(format!("job {} holds ports without a host", self.id));
        }
        Ok(())
    }
}
