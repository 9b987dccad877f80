//! One version of a service, and the backoff of its replicas.

use std::sync::Arc;

use xce_model::spec::JobSpec;
use xce_model::{ClusterTime, Exit, JobId, Origin, Version, WallTime};

use crate::facts::{Failure, ServiceFact, Times, VersionReason};

/// What became of a version.
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
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Its rollout is not decided yet.
    Rolling,
    /// All replicas had it.
    Completed,
    /// All replicas had it, of which there were none: never a target of an automatic rollback.
    Untested,
    /// Another version came before it was complete.
    Superseded,
    /// It made no progress before its deadline.
    Stuck,
    /// It was given up for an earlier one.
    RolledBack,
}

/// A version of a service's template.
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
pub struct VersionRecord {
    /// Number, from 1, never reused.
    pub number: Version,
    /// First version of the same making: a rollback shares the one it copies, and its replicas.
    pub root: Version,
    /// What each replica is submitted as.
    pub spec: Arc<JobSpec>,
    /// Where its values came from that are not built in.
    pub origins: Vec<Origin>,
    /// Login name of who made it; empty where XCE did.
    pub author: String,
    /// When, by the controller's wall clock.
    pub time: WallTime,
    /// Why.
    pub reason: VersionReason,
    /// What became of it.
    pub outcome: Outcome,
    /// Wanted count of its replicas.
    pub want: u32,
    /// Most replicas that may be dispatched while none has become ready; none when absent.
    pub dispatch_limit: Option<u32>,
    /// Since when the limit is as it is.
    pub limit_since: ClusterTime,
    /// Whether a replica became ready and no crash loop came after.
    pub proved: bool,
    /// Failures and delays.
    pub backoff: Backoff,
    /// How long its replicas took, for estimates.
    pub times: Times,
}

/// Failures of a version and the delay that they cost.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    Default,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct Backoff {
    /// Failed replicas since the last reset.
    pub failures: u32,
    /// Steps with a delay since the last reset.
    pub step: u32,
    /// End of the current or last delay.
    pub not_before: ClusterTime,
    /// Whether that delay is still to be waited for.
    pub waiting: bool,
    /// Failed replicas that the wait is for.
    pub owed: u32,
    /// Beginnings of the steps since a replica was last seen ready, oldest first, at most
    /// [`STEP_TIMES_MAX`].
    pub step_times: Vec<ClusterTime>,
    /// Whether the version crashes again and again.
    pub crash_loop: bool,
    /// The last failure.
    pub last: Option<LastFailure>,
    /// Hosts that failed replicas ran on, at most [`crate::facts::FAILURE_HOSTS_MAX`].
    pub hosts: Vec<String>,
}

/// The last failure of a version, as evidence.
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
pub struct LastFailure {
    /// The job.
    pub job: JobId,
    /// When it failed.
    pub at: ClusterTime,
    /// How.
    pub exit: Exit,
    /// Last lines of its stderr.
    pub stderr: String,
}

/// Most step times kept. Source: derived, the highest `crash_limit` that has any effect.
pub const STEP_TIMES_MAX: usize = 100;

/// Dispatch limit of a version that nothing is known of. Source: design section 6.4.
pub const FIRST_DISPATCH: u32 = 1;

impl VersionRecord {
    /// Applies a fact of this version; others change nothing here.
    pub(super) fn apply(&mut self, fact: &ServiceFact, now: ClusterTime) {
        match fact {
            ServiceFact::VersionFailed { failure, .. } => self.fail(failure),
            ServiceFact::RetryBegan { .. } => self.retry(),
            ServiceFact::BackoffReset { .. } => self.backoff = Backoff::default(),
            ServiceFact::VersionProved { .. } => self.prove(),
            ServiceFact::DispatchLimited { limit, .. } => {
                self.dispatch_limit = *limit;
                self.limit_since = now;
            }
            ServiceFact::VersionTimed { times, .. } => self.times = *times,
            ServiceFact::Created { .. }
            | ServiceFact::Scaled { .. }
            | ServiceFact::Versioned { .. }
            | ServiceFact::SettingsChanged { .. }
            | ServiceFact::Targeted { .. }
            | ServiceFact::ReplicasLost { .. }
            | ServiceFact::KillRequested { .. }
            | ServiceFact::ReplicasKilled { .. }
            | ServiceFact::FellShort { .. }
            | ServiceFact::BecameFull { .. }
            | ServiceFact::RolloutProgressed { .. }
            | ServiceFact::RolloutCompleted { .. }
            | ServiceFact::RolloutStuck { .. }
            | ServiceFact::RolloutPaused { .. }
            | ServiceFact::RolloutResumed { .. }
            | ServiceFact::DeadlineExtended { .. }
            | ServiceFact::DeletionRequested { .. }
            | ServiceFact::Deleted { .. } => {}
        }
    }

    /// Most replicas that may be dispatched now; none when there is no limit. Zero while a version
    /// that never worked waits for its next try.
    pub fn dispatch_limit_now(&self) -> Option<u32> {
        if self.backoff.waiting && !self.proved {
            Some(0)
        } else {
            self.dispatch_limit
        }
    }

    /// Whether replicas of it failed on a host since its failures were last forgotten.
    pub fn failed_on(&self, host: &str) -> bool {
        self.backoff.hosts.iter().any(|known| known == host)
    }

    /// Takes in failures.
    pub(super) fn fail(&mut self, failure: &Failure) {
        let backoff = &mut self.backoff;
        backoff.failures = backoff.failures.saturating_add(failure.count);
        backoff.owed = backoff.owed.saturating_add(failure.count);
        if failure.was_ready {
            backoff.step_times.clear();
        }
        if failure.new_step {
            backoff.step = failure.step;
            backoff.not_before = failure.not_before;
            backoff.waiting = failure.not_before > failure.at;
            if backoff.step_times.len() >= STEP_TIMES_MAX {
                backoff.step_times.remove(0);
            }
            backoff.step_times.push(failure.at);
        }
        if !backoff.waiting {
            backoff.owed = 0;
        }
        backoff.crash_loop = failure.crash_loop;
        backoff.last = Some(LastFailure {
            job: failure.job,
            at: failure.at,
            exit: failure.exit.clone(),
            stderr: failure.stderr.clone(),
        });
        for host in &failure.hosts {
            if backoff.hosts.len() < crate::facts::FAILURE_HOSTS_MAX
                && !backoff.hosts.contains(host)
            {
                backoff.hosts.push(host.clone());
            }
        }
        if failure.crash_loop {
            self.proved = false;
        }
        if !self.proved {
            self.dispatch_limit = Some(FIRST_DISPATCH);
            self.limit_since = failure.not_before;
        }
    }

    pub(super) fn prove(&mut self) {
        self.proved = true;
        self.dispatch_limit = None;
        self.backoff.crash_loop = false;
        self.backoff.step_times.clear();
    }

    pub(super) fn retry(&mut self) {
        self.backoff.waiting = false;
        self.backoff.owed = 0;
    }
}
