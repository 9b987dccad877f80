//! Partial documents of services and jobs: one type for files, profiles and the client protocol.
//!
//! Every field may be absent; what is absent comes from a layer below. The canonical form is JSON
//! with durations and sizes as texts; it goes over the wire and into the ledger.

mod parts;
mod values;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use xce_model::Millis;
use xce_model::spec::SingleCopy;

pub use parts::{
    ExecFile, GrpcFile, HttpFile, PortFile, ProbeFile, ProbesFile, ReplacementFile, ResourcesFile,
    RestartFile, RolloutFile, SpreadFile, SpreadMode, StopFile, TcpFile,
};
pub(crate) use values::DurationSchema;
pub use values::{Elements, PortReference, ReplicaAmount, SignalName};

/// A service as a file, a profile or a request gives it: any part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "XCE service file")]
pub struct ServiceFile {
    /// Name of the service, unique within its project: a-z, 0-9, `.`, `_`, `-`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Wanted number of replicas, 0 to 100000. Default 1; an update without it keeps the count.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100_000))]
    pub replicas: Option<u32>,
    /// Profile of kind `service` that gives defaults. Default `service`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Project that the service belongs to. Default `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Queue that its replicas wait in. Default `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Program and arguments; `${NAME}` is replaced from the job's environment, no shell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// Variables of the environment by name, beside HOME, LOGNAME, PATH and USER.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// Working directory, absolute. Default: the run's own directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Login name that replicas run as. Default: who asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Resources of one replica.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourcesFile>,
    /// Ports by name; the list is one value, a later layer replaces it as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<Vec<PortFile>>,
    /// Probes by role.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probes: Option<ProbesFile>,
    /// Restart in place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart: Option<RestartFile>,
    /// How a replica is stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopFile>,
    /// Placement of the replicas over hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread: Option<SpreadFile>,
    /// Settings of a rollout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutFile>,
    /// Backoff of replacements and crash loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replacement: Option<ReplacementFile>,
    /// Free labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Longest run of a replica. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<values::DurationSchema>")]
    pub run_limit: Option<Millis>,
    /// Labels that a host must have, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constraints: Option<BTreeMap<String, String>>,
    /// `strict`: two copies never run at once, though its host be out of reach. Default none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<values::SingleCopySchema>")]
    pub single_copy: Option<SingleCopy>,
}

/// A batch job as a profile or a request gives it: any part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "XCE job file")]
pub struct JobFile {
    /// Name, not unique: a-z, 0-9, `.`, `_`, `-`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Profile of kind `batch` that gives defaults. Default `batch`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Project that the job belongs to. Default `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Queue that it waits in. Default `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Program and arguments; `${NAME}` is replaced from the job's environment, no shell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// Variables of the environment by name, beside HOME, LOGNAME, PATH and USER.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// Working directory, absolute. Default: the run's own directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Login name that the job runs as. Default: who asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Resources of one run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourcesFile>,
    /// Ports by name; the list is one value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<Vec<PortFile>>,
    /// Restart in place. Default: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart: Option<RestartFile>,
    /// How it is stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopFile>,
    /// Longest run. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<values::DurationSchema>")]
    pub run_limit: Option<Millis>,
    /// Labels that a host must have, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constraints: Option<BTreeMap<String, String>>,
    /// `strict`: two copies never run at once, though its host be out of reach. Default none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<values::SingleCopySchema>")]
    pub single_copy: Option<SingleCopy>,
    /// Elements of an array and, after `%`, how many run at once, such as `1-100%10`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array: Option<Elements>,
    /// Submitted as held. Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<bool>,
    /// Run again when its host is lost. Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rerunnable: Option<bool>,
}
