//! What is remembered of a service.

use xce_model::spec::{ServiceSettings, ServiceSpec, Template};
use xce_model::{
    Cause, ClusterTime, Exit, JobId, Lsn, Millis, OperationId, Origin, ServiceId, Version,
};

/// Why a version was made.
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
pub enum VersionReason {
    /// The service was created.
    Create,
    /// Another template was given.
    Update,
    /// The same template, all replicas anew.
    Restart,
    /// A copy of an earlier version, on request.
    RollbackOf(Version),
    /// A copy of an earlier version, because the rollout was stuck.
    AutomaticRollbackOf(Version),
}

impl VersionReason {
    /// The version that this one copies.
    pub const fn copy_of(self) -> Option<Version> {
        match self {
            Self::Create | Self::Update | Self::Restart => None,
            Self::RollbackOf(number) | Self::AutomaticRollbackOf(number) => Some(number),
        }
    }
}

/// Why the wanted number of a version's replicas changed.
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
pub enum TargetReason {
    /// A step of a rollout: more of the new version.
    Grow,
    /// A step of a rollout: fewer of an old one.
    Shrink,
    /// Another count is desired.
    Scale,
}

/// Why the backoff of a version starts anew.
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
pub enum ResetReason {
    /// Its replicas ran long enough without a failure.
    Stable,
    /// An operator asked for it.
    Operator,
}

/// How long replicas of a version took: medians, absent where nothing was seen yet.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct Times {
    /// From the placement to the start of the processes.
    pub start: Option<Millis>,
    /// From that start to being ready.
    pub ready: Option<Millis>,
    /// From the end of the drain to the confirmed end.
    pub stop: Option<Millis>,
}

/// A committed change of a service.
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
pub enum ServiceFact {
    /// It was created; its id is given by the order of the log. Its first version is number 1.
    Created {
        /// What was asked for, with defaults filled in.
        spec: Box<ServiceSpec>,
        /// Login name of who asked.
        author: String,
        /// The operation that asked for it.
        operation: OperationId,
    },
    /// Another count is desired; `Targeted` facts of the same group share it out.
    Scaled {
        /// The service.
        service: ServiceId,
        /// Desired count from now on.
        desired: u32,
        /// Whether an operator set it apart from the service file, so that a file may not undo it.
        by_operator: bool,
        /// Login name of who asked.
        author: String,
        /// The operation that asked for it.
        operation: OperationId,
    },
    /// A version was made, and its rollout begins.
    Versioned {
        /// The service.
        service: ServiceId,
        /// Its number: the highest so far and one.
        number: Version,
        /// Queue of its replicas.
        queue: String,
        /// What each replica runs.
        template: Box<Template>,
        /// Where its values came from that are not built in.
        origins: Vec<Origin>,
        /// Why.
        reason: VersionReason,
        /// Login name of who asked; empty where XCE did.
        author: String,
        /// The operation that asked for it.
        operation: OperationId,
    },
    /// Settings that make no version were replaced.
    SettingsChanged {
        /// The service.
        service: ServiceId,
        /// All settings from now on.
        settings: Box<ServiceSettings>,
        /// Where their values came from that are not built in.
        origins: Vec<Origin>,
        /// Application profile from now on.
        profile: String,
        /// Login name of who asked.
        author: String,
        /// The operation that asked for it.
        operation: OperationId,
    },
    /// So many replicas of a version are wanted.
    Targeted {
        /// The service.
        service: ServiceId,
        /// The version.
        version: Version,
        /// Wanted count.
        want: u32,
        /// Why it changed.
        why: TargetReason,
    },
    /// Replicas of a version failed.
    VersionFailed {
        /// The service.
        service: ServiceId,
        /// The version that is held back by it.
        version: Version,
        /// The failures and what follows from them.
        failure: Box<Failure>,
    },
    /// Replicas were lost with their hosts, which is no failure of theirs.
    ReplicasLost {
        /// The service.
        service: ServiceId,
        /// Their version.
        version: Version,
        /// How many.
        count: u32,
        /// Ends up to this position are accounted for.
        seen: Lsn,
    },
    /// The delay after a failure is over; the version may start replicas again.
    RetryBegan {
        /// The service.
        service: ServiceId,
        /// The version.
        version: Version,
    },
    /// Earlier failures of a version are forgotten.
    BackoffReset {
        /// The service.
        service: ServiceId,
        /// The version.
        version: Version,
        /// Why.
        why: ResetReason,
    },
    /// A replica of a version became ready: it may start any number of them at once.
    VersionProved {
        /// The service.
        service: ServiceId,
        /// The version.
        version: Version,
    },
    /// So many replicas of a version may be dispatched while none has become ready.
    DispatchLimited {
        /// The service.
        service: ServiceId,
        /// The version.
        version: Version,
        /// The limit; none when absent.
        limit: Option<u32>,
    },
    /// Fewer replicas than desired are available.
    FellShort {
        /// The service.
        service: ServiceId,
        /// How many are.
        available: u32,
    },
    /// As many replicas as desired are available.
    BecameFull {
        /// The service.
        service: ServiceId,
    },
    /// The rollout got further, which starts its deadline anew.
    RolloutProgressed {
        /// The service.
        service: ServiceId,
        /// Most replicas of the new version that were available.
        available: u32,
        /// Fewest live replicas of old versions.
        old_live: u32,
    },
    /// The rollout is complete.
    RolloutCompleted {
        /// The service.
        service: ServiceId,
        /// The version that all replicas have.
        version: Version,
        /// Whether no replica is desired, so that the version was never tried.
        untested: bool,
    },
    /// The rollout made no progress before its deadline.
    RolloutStuck {
        /// The service.
        service: ServiceId,
        /// The version that does not get on.
        version: Version,
        /// What holds the next step back.
        reason: String,
    },
    /// The mix of versions is frozen.
    RolloutPaused {
        /// The service.
        service: ServiceId,
        /// Login name of who asked.
        author: String,
        /// The operation that asked for it.
        operation: OperationId,
    },
    /// The rollout goes on.
    RolloutResumed {
        /// The service.
        service: ServiceId,
        /// Login name of who asked.
        author: String,
        /// The operation that asked for it.
        operation: OperationId,
    },
    /// It is to end, with all its replicas.
    DeletionRequested {
        /// The service.
        service: ServiceId,
        /// Login name of who asked.
        author: String,
        /// The operation that asked for it.
        operation: OperationId,
    },
    /// All its replicas ended; the ledger takes it out and its name is free.
    Deleted {
        /// The service.
        service: ServiceId,
    },
    /// Somebody wants a replica killed; facts of the job say what becomes of it.
    KillRequested {
        /// The service.
        service: ServiceId,
        /// Index of the replica.
        index: u32,
        /// Its job.
        job: JobId,
        /// Login name of who asked.
        author: String,
        /// The operation that asked for it.
        operation: OperationId,
    },
    /// Replicas ended because somebody killed them, which is no failure of theirs.
    ReplicasKilled {
        /// The service.
        service: ServiceId,
        /// Their version.
        version: Version,
        /// The last of them.
        job: JobId,
        /// How many.
        count: u32,
        /// Why the last one ended.
        cause: Cause,
        /// Ends up to this position are accounted for.
        seen: Lsn,
    },
    /// The deadline had passed while nobody could see whether the rollout got on: it goes on for a
    /// while, in which what happened is seen.
    DeadlineExtended {
        /// The service.
        service: ServiceId,
        /// What is left of it from now.
        left: Millis,
    },
    /// It was seen how long replicas of a version take, when a rollout was complete.
    VersionTimed {
        /// The service.
        service: ServiceId,
        /// The version that stands for the making.
        version: Version,
        /// All that is known of it from now on.
        times: Times,
    },
}

/// Failures of replicas of one version that make one step of its backoff, or belong to the last.
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
pub struct Failure {
    /// The last job that failed.
    pub job: JobId,
    /// How many failed.
    pub count: u32,
    /// Hosts that they ran on, without repeats, at most [`FAILURE_HOSTS_MAX`].
    pub hosts: Vec<String>,
    /// How the last one ended.
    pub exit: Exit,
    /// Last lines of its stderr.
    pub stderr: String,
    /// Whether any of them had worked: was ready, and long enough to tell.
    pub was_ready: bool,
    /// When the first of them failed.
    pub at: ClusterTime,
    /// Whether this begins a step, rather than belonging to the last one.
    pub new_step: bool,
    /// Number of the step; 0 for the first failure of a stable replica, which costs no delay.
    pub step: u32,
    /// No replica takes their place before this time.
    pub not_before: ClusterTime,
    /// Whether the version is in a crash loop.
    pub crash_loop: bool,
    /// Ends up to this position are accounted for.
    pub seen: Lsn,
}

/// Most hosts that a failure names. Source: derived, what fits a line or two of a report.
pub const FAILURE_HOSTS_MAX: usize = 16;

impl ServiceFact {
    /// The service that it concerns; none for a creation, whose id the ledger gives.
    pub const fn service(&self) -> Option<ServiceId> {
        match self {
            Self::Created { .. } => None,
            Self::Scaled { service, .. }
            | Self::Versioned { service, .. }
            | Self::SettingsChanged { service, .. }
            | Self::Targeted { service, .. }
            | Self::VersionFailed { service, .. }
            | Self::ReplicasLost { service, .. }
            | Self::RetryBegan { service, .. }
            | Self::BackoffReset { service, .. }
            | Self::VersionProved { service, .. }
            | Self::DispatchLimited { service, .. }
            | Self::FellShort { service, .. }
            | Self::BecameFull { service }
            | Self::RolloutProgressed { service, .. }
            | Self::RolloutCompleted { service, .. }
            | Self::RolloutStuck { service, .. }
            | Self::RolloutPaused { service, .. }
            | Self::RolloutResumed { service, .. }
            | Self::DeletionRequested { service, .. }
            | Self::KillRequested { service, .. }
            | Self::ReplicasKilled { service, .. }
            | Self::Deleted { service }
            | Self::DeadlineExtended { service, .. }
            | Self::VersionTimed { service, .. } => Some(*service),
        }
    }

    /// The operation that asked for it; none where XCE itself decided.
    pub const fn operation(&self) -> Option<OperationId> {
        match self {
            Self::Created { operation, .. }
            | Self::Scaled { operation, .. }
            | Self::Versioned { operation, .. }
            | Self::SettingsChanged { operation, .. }
            | Self::RolloutPaused { operation, .. }
            | Self::RolloutResumed { operation, .. }
            | Self::DeletionRequested { operation, .. }
            | Self::KillRequested { operation, .. } => Some(*operation),
            Self::Targeted { .. }
            | Self::VersionFailed { .. }
            | Self::ReplicasLost { .. }
            | Self::ReplicasKilled { .. }
            | Self::RetryBegan { .. }
            | Self::BackoffReset { .. }
            | Self::VersionProved { .. }
            | Self::DispatchLimited { .. }
            | Self::FellShort { .. }
            | Self::BecameFull { .. }
            | Self::RolloutProgressed { .. }
            | Self::RolloutCompleted { .. }
            | Self::RolloutStuck { .. }
            | Self::Deleted { .. }
            | Self::DeadlineExtended { .. }
            | Self::VersionTimed { .. } => None,
        }
    }
}
