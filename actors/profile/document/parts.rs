//! Parts of a document.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use xce_model::spec::{OnStuck, RestartMode};
use xce_model::{Bytes, MilliCpu, Millis};

use super::values::{
    CpuSchema, DurationSchema, OnStuckSchema, PortReference, ReplicaAmount, RestartModeSchema,
    SignalName, SizeSchema,
};

/// Whether a limit of replicas on a host may be exceeded rather than leave a replica pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum SpreadMode {
    /// It is kept.
    Strict,
    /// It may be exceeded.
    BestEffort,
}

/// Resources of one run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ResourcesFile {
    /// Processors. Default 0.1 for services, 1 for batch jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<CpuSchema>")]
    pub cpus: Option<MilliCpu>,
    /// Memory. Default 128MiB for services, 256MiB for batch jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<SizeSchema>")]
    pub memory: Option<Bytes>,
}

/// A port by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PortFile {
    /// Name, as in `XCE_PORT_<name>`.
    pub name: String,
    /// Fixed number 1 to 65535. Default: one of the host's range.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub port: Option<u16>,
}

/// Probes by role.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProbesFile {
    /// Must succeed once before the others start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub startup: Option<ProbeFile>,
    /// Decides whether the replica takes work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readiness: Option<ProbeFile>,
    /// Decides whether the replica is restarted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub liveness: Option<ProbeFile>,
}

/// One probe, with one of `http`, `tcp`, `exec` and `grpc`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProbeFile {
    /// GET; good when the status is within the range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpFile>,
    /// Connect; good when it is accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpFile>,
    /// Run a program in the job's environment; good when it exits 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exec: Option<ExecFile>,
    /// The gRPC health check; good when the answer is SERVING.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc: Option<GrpcFile>,
    /// The first probe is this long after the start. Default 0s.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationSchema>")]
    pub initial_delay: Option<Millis>,
    /// Time from one probe's start to the next's. Default 10s.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationSchema>")]
    pub period: Option<Millis>,
    /// Longest duration of one probe. Default 1s.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationSchema>")]
    pub timeout: Option<Millis>,
    /// Successes in a row that make it good; above 1 for readiness only. Default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub success_threshold: Option<u32>,
    /// Failures in a row that make it bad. Default 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub failure_threshold: Option<u32>,
}

/// A probe by HTTP.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HttpFile {
    /// Port to connect to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<PortReference>,
    /// Host to connect to. Default 127.0.0.1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Path, beginning with `/`. Default `/`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Lowest good status. Default 200.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 599))]
    pub status_min: Option<u16>,
    /// Highest good status. Default 399.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 599))]
    pub status_max: Option<u16>,
    /// Request headers by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
}

/// A probe by TCP.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TcpFile {
    /// Port to connect to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<PortReference>,
    /// Host to connect to. Default 127.0.0.1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// A probe by a program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ExecFile {
    /// Program and arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
}

/// A probe by the gRPC health protocol.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GrpcFile {
    /// Port to connect to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<PortReference>,
    /// Host to connect to. Default 127.0.0.1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Service that is asked about. Default: the server as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
}

/// Restart in place, by the worker alone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RestartFile {
    /// When: `always`, `on_failure` or `never`. Default always, for batch jobs never.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<RestartModeSchema>")]
    pub mode: Option<RestartMode>,
    /// First delay; doubles each time. Default 100ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationSchema>")]
    pub delay: Option<Millis>,
    /// Longest delay. Default 60s.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationSchema>")]
    pub delay_max: Option<Millis>,
    /// Restarts within `window`, after which the replica has given up. Default 5.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub max_restarts: Option<u32>,
    /// Window of `max_restarts`. Default 10m.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationSchema>")]
    pub window: Option<Millis>,
    /// A run this long makes the delay start anew. Default 60s.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationSchema>")]
    pub stable_after: Option<Millis>,
}

/// How a job is stopped.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StopFile {
    /// Wait between taking the endpoint away and the signal. Default 0s.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationSchema>")]
    pub drain: Option<Millis>,
    /// Signal. Default TERM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<SignalName>,
    /// Wait between the signal and killing the tree. Default 30s.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationSchema>")]
    pub grace: Option<Millis>,
}

/// Placement of replicas over hosts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SpreadFile {
    /// Most replicas of one version on one host. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub max_per_host: Option<u32>,
    /// Whether the limit is strict. Default strict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<SpreadMode>,
    /// Host label that replicas are spread over as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// Settings of a rollout.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RolloutFile {
    /// Replicas above the wanted number during a rollout. Default 25%.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_surge: Option<ReplicaAmount>,
    /// Replicas below the wanted number during a rollout. Default 25%.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<ReplicaAmount>,
    /// Time that a replica must be ready to count as available. Default 0s.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationSchema>")]
    pub min_ready: Option<Millis>,
    /// Longest time without progress. Default 10m.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationSchema>")]
    pub progress_deadline: Option<Millis>,
    /// What happens then: `stop` or `rollback`. Default stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<OnStuckSchema>")]
    pub on_stuck: Option<OnStuck>,
    /// Versions kept in the history. Default 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub history_limit: Option<u32>,
}

/// Backoff of replacements, per service and version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReplacementFile {
    /// A replica ready this long has been stable. Default 60s.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationSchema>")]
    pub stable_after: Option<Millis>,
    /// Second delay; the first is none where the replica was stable. Default 1s.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationSchema>")]
    pub delay: Option<Millis>,
    /// Longest delay. Default 5m.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationSchema>")]
    pub delay_max: Option<Millis>,
    /// Failures of one version within `crash_window` that make a crash loop. Default 5.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub crash_limit: Option<u32>,
    /// Window of `crash_limit`. Default 10m.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationSchema>")]
    pub crash_window: Option<Millis>,
}
