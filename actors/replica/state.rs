//! Committed state of a job.

use std::sync::Arc;

use xce_model::spec::{JobSpec, Template};
use xce_model::{Cause, ClusterTime, Exit, JobId, JobState, Lsn, Run, Start, WallTime};

use crate::facts::{AfterStop, JobFact, ServiceRef};

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
    /// Whether the current run has ever been ready.
    pub was_ready: bool,
    /// What the readiness probe last said; empty when it is well.
    pub probe_text: String,
    /// Restarts in place in all runs.
    pub restarts: u32,
    /// A stop that was asked for and is not confirmed.
    pub stop: Option<StopRequest>,
    /// How the last run or start ended.
    pub exit: Option<Exit>,
    /// Last lines of stderr at that end.
    pub stderr: String,
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
            was_ready: false,
            probe_text: String::new(),
            restarts: 0,
            stop: None,
            exit: None,
            stderr: String::new(),
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
            } => self.place(*run, host, ports),
            JobFact::Started { start, pid, at, .. } => {
                if self.state == JobState::Start {
                    self.state = JobState::Run;
                }
                if self.start == 0 {
                    self.started = Some(*at);
                }
                self.start = *start;
                self.pid = *pid;
                self.running_since = Some(now);
            }
            JobFact::Ready { .. } => {
                self.ready_since = Some(now);
                self.was_ready = true;
                self.probe_text.clear();
            }
            JobFact::NotReady { text, .. } => {
                self.ready_since = None;
                self.probe_text.clone_from(text);
            }
            JobFact::Restarting { exit, stderr, .. } => {
                self.ready_since = None;
                self.running_since = None;
                self.restarts = self.restarts.saturating_add(1);
                self.exit = Some(exit.clone());
                self.stderr.clone_from(stderr);
                self.pid = 0;
            }
            JobFact::StopRequested { cause, then, .. } => {
                self.stop = Some(StopRequest {
                    cause: *cause,
                    then: *then,
                    since: now,
                });
                self.ready_since = None;
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
                ..
            } => {
                self.leave_host();
                self.exit = Some(exit.clone());
                self.not_before = *not_before;
                if let Some(host) = avoid
                    && !self.avoid.iter().any(|known| **known == **host)
                {
                    self.avoid.push(Arc::from(host.as_str()));
                }
                self.state = if *held {
                    JobState::Held
                } else {
                    JobState::Pend
                };
                self.ended = None;
                self.ended_at = None;
            }
            JobFact::Suspended { .. } => {
                self.state = JobState::Susp;
                self.ready_since = None;
            }
            JobFact::Resumed { .. } => self.state = JobState::Run,
        }
    }

    fn place(&mut self, run: Run, host: &str, ports: &[(String, u16)]) {
        self.state = JobState::Start;
        self.run = run;
        self.start = 0;
        self.host = Some(Arc::from(host));
        self.ports = ports.to_vec();
        self.pid = 0;
        self.ready_since = None;
        self.running_since = None;
        self.was_ready = false;
        self.probe_text.clear();
        self.stop = None;
        self.started = None;
        self.ended = None;
    }

    fn leave_host(&mut self) {
        self.ports.clear();
        self.pid = 0;
        self.ready_since = None;
        self.running_since = None;
        self.stop = None;
    }

    fn end(&mut self, exit: &Exit, at: WallTime, stderr: &str, now: ClusterTime) {
        self.state = if exit.is_success() {
            JobState::Done
        } else {
            JobState::Exit
        };
        self.leave_host();
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
        if !self.state.holds_host() && !self.ports.is_empty() {
            return Err(format!("job {} holds ports without a host", self.id));
        }
        Ok(())
    }
}
