//! The last events of a service, in words.

use xce_model::{Cause, ClusterTime, JobId, Lsn, WallTime};

use crate::facts::{ResetReason, ServiceFact, TargetReason, VersionReason};

/// Something that happened to a service.
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
pub struct ServiceEvent {
    /// When, by the controller's wall clock.
    pub time: WallTime,
    /// When, in cluster time.
    pub at: ClusterTime,
    /// Position of the fact.
    pub lsn: Lsn,
    /// Kind, a stable word for machines.
    pub kind: String,
    /// A sentence with the cause.
    pub text: String,
}

/// Events kept. Source: design section 6.7.
pub const EVENTS_MAX: usize = 50;

/// Kind and sentence of a fact; none for facts that are no news to a user.
pub(super) fn describe(fact: &ServiceFact) -> Option<(&'static str, String)> {
    match fact {
        ServiceFact::Created { author, .. } => Some(("created", format!("created by {author}"))),
        ServiceFact::Scaled {
            desired, author, ..
        } => Some(("scaled", format!("{desired} replicas desired by {author}"))),
        ServiceFact::Versioned {
            number,
            reason,
            author,
            ..
        } => Some(("version", version_text(*number, *reason, author))),
        ServiceFact::SettingsChanged { author, .. } => {
            Some(("settings", format!("settings changed by {author}")))
        }
        ServiceFact::Targeted {
            version, want, why, ..
        } => Some(("step", target_text(*version, *want, *why))),
        ServiceFact::VersionFailed {
            version, failure, ..
        } => Some(failure_text(*version, failure)),
        ServiceFact::ReplicasLost { version, count, .. } => Some((
            "lost",
            format!("{count} replicas of version {version} were lost with their hosts"),
        )),
        ServiceFact::KillRequested {
            index, job, author, ..
        } => Some((
            "kill",
            format!("{author} wants replica {index} (job {job}) killed"),
        )),
        ServiceFact::ReplicasKilled {
            version,
            job,
            count,
            cause,
            ..
        } => Some(("killed", killed_text(*version, *job, *count, *cause))),
        ServiceFact::BackoffReset { version, why, .. } => {
            Some(("reset", reset_text(*version, *why)))
        }
        ServiceFact::VersionProved { version, .. } => Some((
            "proved",
            format!("the first replica of version {version} is ready"),
        )),
        ServiceFact::FellShort { available, .. } => {
            Some(("short", format!("only {available} replicas are available")))
        }
        ServiceFact::BecameFull { .. } => {
            Some(("full", "all desired replicas are available".to_owned()))
        }
        ServiceFact::RolloutCompleted { .. }
        | ServiceFact::RolloutStuck { .. }
        | ServiceFact::RolloutPaused { .. }
        | ServiceFact::RolloutResumed { .. }
        | ServiceFact::DeadlineExtended { .. }
        | ServiceFact::RolloutProgressed { .. } => rollout_text(fact),
        ServiceFact::DeletionRequested { author, .. } => {
            Some(("deleting", format!("deletion asked for by {author}")))
        }
        ServiceFact::RetryBegan { .. }
        | ServiceFact::DispatchLimited { .. }
        | ServiceFact::Deleted { .. }
        | ServiceFact::VersionTimed { .. } => None,
    }
}

/// What became of a rollout; its progress is no news.
fn rollout_text(fact: &ServiceFact) -> Option<(&'static str, String)> {
    match fact {
        ServiceFact::RolloutCompleted {
            version, untested, ..
        } => {
            let untested = if *untested { ", untested" } else { "" };
            Some((
                "completed",
                format!("version {version} is complete{untested}"),
            ))
        }
        ServiceFact::RolloutStuck {
            version, reason, ..
        } => Some(("stuck", format!("version {version} is stuck: {reason}"))),
        ServiceFact::RolloutPaused { author, .. } => {
            Some(("paused", format!("paused by {author}")))
        }
        ServiceFact::RolloutResumed { author, .. } => {
            Some(("resumed", format!("resumed by {author}")))
        }
        ServiceFact::DeadlineExtended { left, .. } => Some((
            "extended",
            format!("nobody saw for a while whether it got on: it has another {left}"),
        )),
        ServiceFact::Created { .. }
        | ServiceFact::Scaled { .. }
        | ServiceFact::Versioned { .. }
        | ServiceFact::SettingsChanged { .. }
        | ServiceFact::Targeted { .. }
        | ServiceFact::VersionFailed { .. }
        | ServiceFact::ReplicasLost { .. }
        | ServiceFact::KillRequested { .. }
        | ServiceFact::ReplicasKilled { .. }
        | ServiceFact::RetryBegan { .. }
        | ServiceFact::BackoffReset { .. }
        | ServiceFact::VersionProved { .. }
        | ServiceFact::DispatchLimited { .. }
        | ServiceFact::FellShort { .. }
        | ServiceFact::BecameFull { .. }
        | ServiceFact::RolloutProgressed { .. }
        | ServiceFact::DeletionRequested { .. }
        | ServiceFact::Deleted { .. }
        | ServiceFact::VersionTimed { .. } => None,
    }
}

fn killed_text(version: u32, job: JobId, count: u32, cause: Cause) -> String {
    let why = cause.sentence();
    match count {
        1 => format!("job {job} of version {version} ended: {why}"),
        more => format!("{more} replicas of version {version} ended, the last job {job}: {why}"),
    }
}

fn version_text(number: u32, reason: VersionReason, author: &str) -> String {
    match reason {
        VersionReason::Create => format!("version {number} by {author}"),
        VersionReason::Update => format!("version {number}: update by {author}"),
        VersionReason::Restart => format!("version {number}: restart by {author}"),
        VersionReason::RollbackOf(copy) => {
            format!("version {number}: rollback by {author}, copy of {copy}")
        }
        VersionReason::AutomaticRollbackOf(copy) => {
            format!("version {number}: automatic rollback, copy of {copy}")
        }
    }
}

fn target_text(version: u32, want: u32, why: TargetReason) -> String {
    let why = match why {
        TargetReason::Grow | TargetReason::Shrink => "rollout",
        TargetReason::Scale => "scaling",
    };
    format!("{want} replicas of version {version} wanted ({why})")
}

fn reset_text(version: u32, why: ResetReason) -> String {
    let why = match why {
        ResetReason::Stable => "its replicas are stable",
        ResetReason::Operator => "an operator asked for it",
    };
    format!("failures of version {version} are forgotten: {why}")
}

fn failure_text(version: u32, failure: &crate::facts::Failure) -> (&'static str, String) {
    let delay = failure.not_before.since(failure.at);
    let what = format!(
        "{} failed, last job {}: {}",
        failure.count, failure.job, failure.exit
    );
    if failure.crash_loop {
        let text = format!("version {version} is in a crash loop, next try after {delay}: {what}");
        ("crash-loop", text)
    } else {
        let text = format!("version {version}, next try after {delay}: {what}");
        ("failed", text)
    }
}
