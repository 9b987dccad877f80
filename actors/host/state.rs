//! Committed state of a host.

use xce_model::{Bytes, ClusterTime, JobId, Lsn, MilliCpu, Millis, Run, ServiceId};

use crate::facts::{HostFact, Inventory, Remnant};

/// Where a host is in its life.
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
#[serde(rename_all = "lowercase")]
pub enum HostLife {
    /// Answers.
    Up,
    /// Missed beats; its jobs keep their state.
    Suspect,
    /// Silent for the whole grace: its batch jobs were recovered, its replicas are replaced.
    Lost,
    /// Its worker was stopped cleanly.
    Away,
}

impl HostLife {
    /// The word that users see.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Suspect => "suspect",
            Self::Lost => "lost",
            Self::Away => "away",
        }
    }
}

/// Why a host takes no new jobs.
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
pub struct Closure {
    /// A sentence.
    pub reason: String,
    /// Who closed it; empty where XCE did.
    pub by: String,
}

/// A drain: what runs on the host is to leave it.
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
pub struct Drain {
    /// Since when.
    pub since: ClusterTime,
    /// From then on batch jobs are stopped, and replicas within what their service may miss; never
    /// when absent.
    pub until: Option<ClusterTime>,
    /// Why, in a sentence.
    pub reason: String,
    /// Who wants it.
    pub by: String,
}

impl Drain {
    /// Whether its deadline has passed.
    pub fn is_due(&self, now: ClusterTime) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

/// Failures of one service's replicas on a host, of those that had not run there for long.
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
pub struct ReplicaFailures {
    /// The service.
    pub service: ServiceId,
    /// How many in a row, each within [`FAILURES_WINDOW`] of the one before.
    pub count: u32,
    /// The last one.
    pub last: ClusterTime,
}

/// When a host that is closed by its own fault is tried.
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
pub struct Trial {
    /// How often in a row it was closed so, from 1.
    pub step: u32,
    /// From then on one job at a time is let onto it.
    pub not_before: ClusterTime,
}

/// A host as committed.
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
pub struct HostRecord {
    /// What it offers.
    pub inventory: Inventory,
    /// Where it is in its life.
    pub life: HostLife,
    /// Since when.
    pub since: ClusterTime,
    /// Why it takes no new jobs, where it does not.
    pub closed: Option<Closure>,
    /// The drain that is under way, or done.
    pub drain: Option<Drain>,
    /// Launches that failed in a row by the host's fault.
    pub launch_failures: u32,
    /// Text of the last such failure; empty before the first.
    pub launch_error: String,
    /// Services whose replicas failed on it of late, at most [`FAILING_MAX`], by the last failure.
    pub failing: Vec<ReplicaFailures>,
    /// When it is tried, where it is closed by its own fault.
    pub trial: Option<Trial>,
    /// Epoch of the worker's spool that `sequence` belongs to.
    pub epoch: u64,
    /// Last sequence number of the worker's facts that is committed.
    pub sequence: u64,
    /// Runs that are not counted any more and may still live there, by job and run.
    pub remnants: Vec<Remnant>,
    /// Who said that the machine is off; until its worker joins again.
    pub dead: Option<String>,
    /// Position of the last change other than of the mark.
    pub changed: Lsn,
}

/// Launches that fail in a row by a host's fault before it is closed. Source: design section 7.4.
pub const LAUNCH_FAIL_LIMIT: u32 = 3;

/// How long a failure of a replica speaks against its host. Source: as the default `crash_window` of
/// a service, design section 6.5.
pub const FAILURES_WINDOW: Millis = Millis::seconds(600);

/// Services that a host remembers failures of. Source: derived; far more than are needed to blame it.
pub const FAILING_MAX: usize = 32;

impl HostRecord {
    /// A host that just joined.
    pub fn joined(inventory: Inventory, now: ClusterTime, lsn: Lsn) -> Self {
        Self {
            inventory,
            life: HostLife::Up,
            since: now,
            closed: None,
            drain: None,
            launch_failures: 0,
            launch_error: String::new(),
            failing: Vec::new(),
            trial: None,
            epoch: 0,
            sequence: 0,
            remnants: Vec::new(),
            dead: None,
            changed: lsn,
        }
    }

    /// Applies a fact of this host; the ledger handles joining of unknown hosts and removal.
    pub fn apply(&mut self, fact: &HostFact, now: ClusterTime, lsn: Lsn) {
        match fact {
            HostFact::Joined {
                inventory,
                stale,
                gone,
            } => {
                self.join(inventory, stale, gone);
                self.enter(HostLife::Up, now);
            }
            HostFact::Suspected { .. } => self.enter(HostLife::Suspect, now),
            HostFact::Recovered { .. } => self.enter(HostLife::Up, now),
            HostFact::Lost { .. } => self.enter(HostLife::Lost, now),
            HostFact::Left { .. } => self.enter(HostLife::Away, now),
            HostFact::Closed { reason, by, .. } => self.close(reason, by, None),
            HostFact::Opened { .. } => {
                self.closed = None;
                self.trial = None;
                self.launch_failures = 0;
                self.failing.clear();
            }
            HostFact::ReplicaFailed { service, .. } => self.note_failure(*service, now),
            HostFact::Blamed {
                reason,
                step,
                not_before,
                ..
            } => {
                let (step, not_before) = (*step, *not_before);
                self.close(reason, "", Some(Trial { step, not_before }));
            }
            HostFact::LaunchFailed { text, .. } => self.note_launch_failure(text),
            HostFact::LaunchSucceeded { .. } => self.launch_failures = 0,
            HostFact::Marked {
                epoch, sequence, ..
            } => {
                self.epoch = *epoch;
                self.sequence = *sequence;
                return;
            }
            HostFact::DrainBegan {
                patience,
                reason,
                by,
                ..
            } => {
                let since = self.drain.as_ref().map_or(now, |drain| drain.since);
                self.drain = Some(Drain {
                    since,
                    until: patience.map(|patience| now.after(patience)),
                    reason: reason.clone(),
                    by: by.clone(),
                });
            }
            HostFact::DrainEnded { .. } => self.drain = None,
            HostFact::RunGone { job, run, .. } => self.forget(*job, *run),
            HostFact::QuarantineEnded { job, run, .. } => {
                if let Ok(place) = self.place_of((*job, *run)) {
                    self.remnants[place].quarantined = false;
                }
            }
            HostFact::ConfirmedDead { by, .. } => {
                self.remnants.clear();
                self.dead = Some(by.clone());
                self.enter(HostLife::Lost, now);
            }
            HostFact::Removed { .. } => {}
        }
        self.changed = lsn;
    }

    fn note_launch_failure(&mut self, text: &str) {
        self.launch_failures = self.launch_failures.saturating_add(1);
        text.clone_into(&mut self.launch_error);
    }

    fn close(&mut self, reason: &str, by: &str, trial: Option<Trial>) {
        self.closed = Some(Closure {
            reason: reason.to_owned(),
            by: by.to_owned(),
        });
        self.trial = trial;
    }

    fn join(&mut self, inventory: &Inventory, stale: &[Remnant], gone: &[(JobId, Run)]) {
        if inventory.boot_id != self.inventory.boot_id {
            // Nothing outlives the machine.
            self.remnants.clear();
        }
        if inventory.incarnation != self.inventory.incarnation {
            self.epoch = 0;
            self.sequence = 0;
            // What an earlier worker left its successor does not know of, and cannot stop. It holds
            // its ports, so that nobody else is given them; what it asks for may long be free.
            for remnant in &mut self.remnants {
                (remnant.cpus, remnant.memory) = (MilliCpu(0), Bytes(0));
            }
        }
        for (job, run) in gone {
            self.forget(*job, *run);
        }
        for remnant in stale {
            self.leave_behind(remnant.clone());
        }
        self.inventory = inventory.clone();
        self.dead = None;
    }

    /// Notes a run that is not counted any more and may still live.
    pub fn leave_behind(&mut self, remnant: Remnant) {
        let key = (remnant.job, remnant.run);
        if let Err(place) = self.place_of(key) {
            self.remnants.insert(place, remnant);
        }
    }

    fn forget(&mut self, job: JobId, run: Run) {
        if let Ok(place) = self.place_of((job, run)) {
            self.remnants.remove(place);
        }
    }

    fn place_of(&self, key: (JobId, Run)) -> Result<usize, usize> {
        self.remnants
            .binary_search_by_key(&key, |remnant| (remnant.job, remnant.run))
    }

    /// Runs that are left alone, since the ledger never knew their jobs.
    pub fn quarantined(&self) -> impl Iterator<Item = &Remnant> {
        self.remnants.iter().filter(|one| one.quarantined)
    }

    /// The run of a job that is not counted any more and may still live there.
    pub fn remnant(&self, job: JobId, run: Run) -> Option<&Remnant> {
        let place = self.place_of((job, run)).ok()?;
        self.remnants.get(place)
    }

    fn note_failure(&mut self, service: ServiceId, now: ClusterTime) {
        let recent = |one: &ReplicaFailures| now.since(one.last) < FAILURES_WINDOW;
        self.failing.retain(recent);
        let known = self.failing.iter().position(|one| one.service == service);
        let before = known.map_or(0, |place| self.failing.remove(place).count);
        if self.failing.len() >= FAILING_MAX {
            self.failing.remove(0);
        }
        self.failing.push(ReplicaFailures {
            service,
            count: before.saturating_add(1),
            last: now,
        });
    }

    fn enter(&mut self, life: HostLife, now: ClusterTime) {
        if self.life != life {
            self.life = life;
            self.since = now;
        }
    }

    /// Whether new jobs may be placed on it.
    pub fn takes_jobs(&self) -> bool {
        self.life == HostLife::Up && self.closed.is_none() && self.drain.is_none()
    }

    /// Whether one job may be placed on it to try it, where none is there for that yet.
    pub fn takes_trial(&self, now: ClusterTime) -> bool {
        let due = self.trial.is_some_and(|trial| trial.not_before <= now);
        self.life == HostLife::Up && due && self.drain.is_none()
    }

    /// Whether a job that was placed at some time is there to try it.
    pub fn is_trial(&self, placed_at: Option<ClusterTime>) -> bool {
        self.trial
            .is_some_and(|trial| placed_at.is_some_and(|at| at >= trial.not_before))
    }

    /// Whether it answers.
    pub fn is_reachable(&self) -> bool {
        self.life == HostLife::Up
    }
}
