//! What users may want of a service.

mod scale;
mod update;

use xce_model::spec::ServiceSpec;
use xce_model::{Cause, JobId, OperationId, Refusal, Version};

use super::draft::Draft;
use super::{Answer, Census, Replica, Standing};
use crate::facts::{ResetReason, ServiceFact};
use crate::state::ServiceRecord;

/// Names a replica.
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
pub enum Which {
    /// By its job.
    Job(JobId),
    /// By its index; of the newest version that has one of this index.
    Index(u32),
}

/// Who wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Author {
    /// Login name.
    pub user: String,
    /// The operation; its facts carry it, so that a repeat finds them.
    pub operation: OperationId,
}

/// What somebody wants of a service.
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
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Another count.
    Scale {
        /// Desired count.
        desired: u32,
        /// Replicas that go first; at most as many as the count shrinks by.
        remove: Vec<JobId>,
    },
    /// Kill a replica; it is replaced, which costs no delay.
    Kill {
        /// Which.
        which: Which,
        /// [`Cause::TermOwner`] or [`Cause::TermAdmin`].
        cause: Cause,
    },
    /// End the service.
    Delete,
    /// Another template, count or settings.
    Update {
        /// What is wanted; a count that is absent is kept.
        spec: Box<ServiceSpec>,
        /// Whether its count wins over one that an operator set.
        take_count: bool,
    },
    /// Freeze the mix of versions.
    Pause,
    /// Go on, after a pause or a crash loop or when stuck.
    Resume,
    /// A new version that copies an earlier one.
    Rollback {
        /// The earlier one; when absent the last completed one that differs from the current one.
        to: Option<Version>,
    },
    /// A new version of the same template.
    Restart,
    /// Single values on top of what it is.
    Amend {
        /// What it is then.
        spec: Box<ServiceSpec>,
        /// What it was made of.
        base: Base,
        /// Whether its count wins over one that an operator set.
        take_count: bool,
    },
}

/// What single values were put on top of.
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
pub struct Base {
    /// The current version.
    pub version: Version,
    /// Number of the settings.
    pub settings: u32,
}

impl Base {
    /// The base that a service is now.
    pub fn of(record: &ServiceRecord) -> Self {
        Self {
            version: record.current().number,
            settings: record.settings_generation,
        }
    }
}

/// Decides a command.
///
/// # Errors
/// A refusal with its code; nothing is decided then.
pub fn decide(draft: &mut Draft<'_>, command: Command, author: &Author) -> Result<Answer, Refusal> {
    if draft.record().is_deleting() {
        return match command {
            Command::Delete => Ok(no_change("it is being deleted already")),
            Command::Scale { .. }
            | Command::Kill { .. }
            | Command::Update { .. }
            | Command::Pause
            | Command::Resume
            | Command::Rollback { .. }
            | Command::Restart
            | Command::Amend { .. } => {
                let text = format!("service `{}` is being deleted", draft.record().name);
                Err(Refusal::refused("deleting", text))
            }
        };
    }
    match command {
        Command::Scale { desired, remove } => scale::scale(draft, desired, &remove, author),
        Command::Kill { which, cause } => kill(draft, which, cause, author),
        Command::Delete => Ok(delete(draft, author)),
        Command::Update { spec, take_count } => update::update(draft, &spec, take_count, author),
        Command::Pause => Ok(pause(draft, author)),
        Command::Resume => Ok(resume(draft, author)),
        Command::Rollback { to } => update::rollback(draft, to, author),
        Command::Restart => Ok(update::restart(draft, author)),
        Command::Amend {
            spec,
            base,
            take_count,
        } => update::amend(draft, (&spec, base), take_count, author),
    }
}

fn no_change(text: impl Into<String>) -> Answer {
    Answer::NoChange { text: text.into() }
}

fn accepted(text: impl Into<String>) -> Answer {
    Answer::Accepted { text: text.into() }
}

fn kill(
    draft: &mut Draft<'_>,
    which: Which,
    cause: Cause,
    author: &Author,
) -> Result<Answer, Refusal> {
    let census = draft.census();
    let wanted = match which {
        Which::Job(job) => census.replicas.iter().find(|replica| replica.job.id == job),
        Which::Index(index) => newest_with(&census, index),
    };
    let Some(replica) = wanted else {
        return Err(match which {
            Which::Job(job) => Refusal::not_found("live replica of the service with job", job),
            Which::Index(index) => {
                Refusal::not_found("live replica of the service with index", index)
            }
        });
    };
    let job = replica.job;
    if replica.standing == Standing::Stopping {
        return Ok(no_change(format!("job {} is stopping already", job.id)));
    }
    let fact = ServiceFact::KillRequested {
        service: draft.record().id,
        index: replica.index,
        job: job.id,
        author: author.user.clone(),
        operation: author.operation,
    };
    draft.service(fact);
    draft.stop(job, cause);
    Ok(accepted(format!(
        "replica {} (job {}) is killed and will be replaced",
        replica.index, job.id
    )))
}

/// The replica of an index, one that stays before one that stops, the newest version first.
fn newest_with<'c, 'a>(census: &'c Census<'a>, index: u32) -> Option<&'c Replica<'a>> {
    census
        .replicas
        .iter()
        .filter(|replica| replica.index == index)
        .max_by_key(|replica| {
            let stays = replica.standing < Standing::Stopping;
            (stays, replica.version, replica.job.id)
        })
}

fn delete(draft: &mut Draft<'_>, author: &Author) -> Answer {
    let service = draft.record().id;
    draft.service(ServiceFact::DeletionRequested {
        service,
        author: author.user.clone(),
        operation: author.operation,
    });
    accepted("it ends when every host has confirmed that its replicas ended")
}

fn pause(draft: &mut Draft<'_>, author: &Author) -> Answer {
    if draft.record().paused.is_some() {
        return no_change("it is paused already");
    }
    let service = draft.record().id;
    draft.service(ServiceFact::RolloutPaused {
        service,
        author: author.user.clone(),
        operation: author.operation,
    });
    accepted("paused: replacement and scaling go on, versions stay as they are")
}

fn resume(draft: &mut Draft<'_>, author: &Author) -> Answer {
    let record = draft.record();
    let held = record.paused.is_some() || record.rollout.is_stuck();
    let failing: Vec<Version> = record
        .versions
        .iter()
        .filter(|version| version.backoff.failures > 0)
        .map(|version| version.number)
        .collect();
    if !held && failing.is_empty() {
        return no_change("it is not paused, stuck or held back by failures");
    }
    let service = record.id;
    draft.service(ServiceFact::RolloutResumed {
        service,
        author: author.user.clone(),
        operation: author.operation,
    });
    for version in failing {
        draft.service(ServiceFact::BackoffReset {
            service,
            version,
            why: ResetReason::Operator,
        });
    }
    accepted("it goes on")
}
