//! Caps: highest values that a project or a queue allows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use xce_model::spec::{JobSpec, ServiceSpec, Template};
use xce_model::{Bytes, MilliCpu, Millis, Refusal};

use crate::document::{DurationSchema, ResourcesFile};

/// Highest values; what is absent has no cap.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CapsFile {
    /// Most replicas of one service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// Most elements of one array.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elements: Option<u64>,
    /// Most ports of one replica or job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<u32>,
    /// Resources of one replica or run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourcesFile>,
    /// Longest run; no limit at all is above it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationSchema>")]
    pub run_limit: Option<Millis>,
    /// How a job is stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopCaps>,
    /// Rollouts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutCaps>,
}

/// Caps of stopping.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StopCaps {
    /// Longest wait between taking the endpoint away and the signal.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationSchema>")]
    pub drain: Option<Millis>,
    /// Longest wait between the signal and killing the tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationSchema>")]
    pub grace: Option<Millis>,
}

/// Caps of rollouts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RolloutCaps {
    /// Longest time without progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationSchema>")]
    pub progress_deadline: Option<Millis>,
    /// Longest time that a replica must be ready to count as available.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationSchema>")]
    pub min_ready: Option<Millis>,
    /// Most versions kept in the history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history_limit: Option<u32>,
}

/// A set of caps, and whose it is, such as `queue batch`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedCaps {
    /// Whose.
    pub owner: String,
    /// The caps.
    pub caps: CapsFile,
}

/// Collects what is above a cap.
struct Above<'c> {
    owner: &'c str,
    texts: Vec<String>,
}

impl Above<'_> {
    fn check<T: PartialOrd + std::fmt::Display>(&mut self, path: &str, value: T, cap: Option<T>) {
        if let Some(cap) = cap.filter(|cap| value > *cap) {
            let owner = self.owner;
            self.texts.push(format!(
                "`{path}`: {value} is above {cap}, the cap of {owner}"
            ));
        }
    }

    fn template(&mut self, template: &Template, caps: &CapsFile) {
        let resources = caps.resources.clone().unwrap_or_default();
        let asked = template.resources;
        self.check::<MilliCpu>("resources.cpus", asked.cpus, resources.cpus);
        self.check::<Bytes>("resources.memory", asked.memory, resources.memory);
        let ports = u32::try_from(template.ports.len()).unwrap_or(u32::MAX);
        self.check("ports", ports, caps.ports);
        match (template.run_limit, caps.run_limit) {
            (None, Some(cap)) => self.texts.push(format!(
                "`run_limit`: there is none, which is above {cap}, the cap of {}; set it",
                self.owner
            )),
            (Some(limit), cap) => self.check("run_limit", limit, cap),
            (None, None) => {}
        }
        let stop = caps.stop.clone().unwrap_or_default();
        self.check("stop.drain", template.stop.drain, stop.drain);
        self.check("stop.grace", template.stop.grace, stop.grace);
    }
}

/// Checks a service against caps; equal passes.
///
/// # Errors
/// `above_cap`: each field with its value, the cap, and whose cap it is.
pub fn check_service(spec: &ServiceSpec, sets: &[OwnedCaps]) -> Result<(), Refusal> {
    check(sets, |above, caps| {
        if let Some(replicas) = spec.replicas {
            above.check("replicas", replicas, caps.replicas);
        }
        above.template(&spec.template, caps);
        let rollout = caps.rollout.clone().unwrap_or_default();
        let settings = &spec.settings.rollout;
        above.check(
            "rollout.progress_deadline",
            settings.progress_deadline,
            rollout.progress_deadline,
        );
        above.check("rollout.min_ready", settings.min_ready, rollout.min_ready);
        above.check(
            "rollout.history_limit",
            settings.history_limit,
            rollout.history_limit,
        );
    })
}

/// Checks a job against caps; equal passes.
///
/// # Errors
/// As for [`check_service`].
pub fn check_job(spec: &JobSpec, sets: &[OwnedCaps]) -> Result<(), Refusal> {
    check(sets, |above, caps| {
        if let Some(array) = &spec.array {
            above.check("array", array.count(), caps.elements);
        }
        above.template(&spec.template, caps);
    })
}

/// Checks a count of replicas against caps; equal passes.
///
/// # Errors
/// As for [`check_service`].
pub fn check_count(replicas: u32, sets: &[OwnedCaps]) -> Result<(), Refusal> {
    check(sets, |above, caps| {
        above.check("replicas", replicas, caps.replicas);
    })
}

fn check(
    sets: &[OwnedCaps],
    mut each: impl FnMut(&mut Above<'_>, &CapsFile),
) -> Result<(), Refusal> {
    let mut texts = Vec::new();
    for set in sets {
        let mut above = Above {
            owner: &set.owner,
            texts: Vec::new(),
        };
        each(&mut above, &set.caps);
        texts.append(&mut above.texts);
    }
    if texts.is_empty() {
        return Ok(());
    }
    Err(Refusal::refused("above_cap", texts.join("\n")))
}
