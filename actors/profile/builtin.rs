//! The lowest layers: what holds where nobody says anything, and the account of who asks.

use xce_model::spec::{RestartMode, SingleCopy, Spread};

use crate::defaults;
use crate::document::{JobFile, ServiceFile};
use crate::request::RunAs;
use crate::unfold;

/// Built-in values of a service.
pub fn service() -> ServiceFile {
    ServiceFile {
        replicas: Some(defaults::REPLICAS),
        profile: Some(defaults::SERVICE_PROFILE.to_owned()),
        project: Some(defaults::PROJECT.to_owned()),
        queue: Some(defaults::QUEUE.to_owned()),
        resources: Some(unfold::resources(defaults::SERVICE_RESOURCES)),
        restart: Some(unfold::restart(&defaults::restart(RestartMode::Always))),
        stop: Some(unfold::stop(&defaults::STOP)),
        spread: Some(unfold::spread(&Spread::default())),
        rollout: Some(unfold::rollout(&defaults::ROLLOUT)),
        replacement: Some(unfold::replacement(&defaults::REPLACEMENT)),
        single_copy: Some(SingleCopy::None),
        ..ServiceFile::default()
    }
}

/// Built-in values of a batch job.
pub fn job() -> JobFile {
    JobFile {
        profile: Some(defaults::BATCH_PROFILE.to_owned()),
        project: Some(defaults::PROJECT.to_owned()),
        queue: Some(defaults::QUEUE.to_owned()),
        resources: Some(unfold::resources(defaults::JOB_RESOURCES)),
        restart: Some(unfold::restart(&defaults::restart(RestartMode::Never))),
        stop: Some(unfold::stop(&defaults::STOP)),
        held: Some(false),
        rerunnable: Some(false),
        single_copy: Some(SingleCopy::None),
        ..JobFile::default()
    }
}

/// The layer of an account, for a service.
pub fn account_of_service(run_as: &RunAs) -> ServiceFile {
    ServiceFile {
        user: Some(run_as.user.name.clone()),
        env: Some(run_as.env.iter().cloned().collect()),
        cwd: run_as.cwd.clone(),
        ..ServiceFile::default()
    }
}

/// The layer of an account, for a job.
pub fn account_of_job(run_as: &RunAs) -> JobFile {
    JobFile {
        user: Some(run_as.user.name.clone()),
        env: Some(run_as.env.iter().cloned().collect()),
        cwd: run_as.cwd.clone(),
        ..JobFile::default()
    }
}
