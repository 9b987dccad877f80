//! What users ask for, after defaults were filled in: templates of jobs and services.

mod job;

pub use job::{ArraySpec, JobSpec};

use serde::{Deserialize, Serialize};

use crate::origins::Origin;
use crate::units::{Bytes, MilliCpu, Millis};

/// What one run of a job needs and how it is run; immutable once submitted.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    Serialize,
    Deserialize,
)]
pub struct Template {
    /// Program and arguments; `${NAME}` is replaced from the job's environment, no shell.
    pub command: Vec<String>,
    /// Environment, sorted by name, without the `XCE_` variables that the worker adds.
    pub env: Vec<(String, String)>,
    /// Working directory; the run's own directory when absent.
    pub cwd: Option<String>,
    /// User it runs as.
    pub user: User,
    /// Resources of one run.
    pub resources: Resources,
    /// Ports by name.
    pub ports: Vec<PortSpec>,
    /// Probes by role.
    pub probes: Probes,
    /// Restart in place.
    pub restart: RestartPolicy,
    /// How it is stopped.
    pub stop: StopPolicy,
    /// Longest run; none when absent.
    pub run_limit: Option<Millis>,
    /// Host labels that must match, each `name` and `value`.
    pub constraints: Vec<(String, String)>,
    /// Whether two copies of it may never run at once.
    pub single_copy: SingleCopy,
}

/// Whether two copies of a job may never run at once, though its host be out of reach.
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
    Serialize,
    Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum SingleCopy {
    /// What is left of it on a lost host may run on for a while beside its next run.
    #[default]
    None,
    /// Its processes end before its next run begins, by a lease that their shim holds.
    Strict,
}

/// The user that a job runs as.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    Serialize,
    Deserialize,
)]
pub struct User {
    /// Login name, for display and for supplementary groups.
    pub name: String,
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

/// Resources of one run.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    Serialize,
    Deserialize,
)]
pub struct Resources {
    /// Processors.
    pub cpus: MilliCpu,
    /// Memory.
    pub memory: Bytes,
}

/// A port by name.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    Serialize,
    Deserialize,
)]
pub struct PortSpec {
    /// Name, as in `XCE_PORT_<name>`.
    pub name: String,
    /// Fixed number 1 to 65535, or from the host's range when absent.
    pub port: Option<u16>,
}

/// Probes by role; boxed, since most jobs have none and every job has its template.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    Default,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    Serialize,
    Deserialize,
)]
pub struct Probes {
    /// Must succeed once before the others start.
    pub startup: Option<Box<Probe>>,
    /// Decides whether the replica takes work.
    pub readiness: Option<Box<Probe>>,
    /// Decides whether the replica is restarted.
    pub liveness: Option<Box<Probe>>,
}

/// One probe.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    Serialize,
    Deserialize,
)]
pub struct Probe {
    /// What is tried.
    pub action: ProbeAction,
    /// The first probe is at exactly this time after the start. Default 0 s.
    pub initial_delay: Millis,
    /// Time from one probe's start to the next's. Default 10 s.
    pub period: Millis,
    /// Longest duration of one probe. Default 1 s.
    pub timeout: Millis,
    /// Successes in a row that make it good. Default 1.
    pub success_threshold: u32,
    /// Failures in a row that make it bad. Default 3.
    pub failure_threshold: u32,
}

/// What a probe tries.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    Serialize,
    Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum ProbeAction {
    /// GET; good when the status is within the range.
    Http {
        /// Name of a port of the template, or a number.
        port: String,
        /// Host to connect to. Default 127.0.0.1.
        host: String,
        /// Path, beginning with `/`.
        path: String,
        /// Lowest good status. Default 200.
        status_min: u16,
        /// Highest good status. Default 399.
        status_max: u16,
        /// Request headers.
        headers: Vec<(String, String)>,
    },
    /// Connect; good when it is accepted.
    Tcp {
        /// Name of a port of the template, or a number.
        port: String,
        /// Host to connect to. Default 127.0.0.1.
        host: String,
    },
    /// Run a program in the job's environment; good when it exits 0.
    Exec {
        /// Program and arguments.
        command: Vec<String>,
    },
    /// Ask `grpc.health.v1.Health/Check`, without TLS; good when the answer is `SERVING`.
    Grpc {
        /// Name of a port of the template, or a number.
        port: String,
        /// Host to connect to. Default 127.0.0.1.
        host: String,
        /// The service that is asked for; empty for the server as a whole, which is the default.
        service: String,
    },
}

/// When a run is restarted in place.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    Serialize,
    Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum RestartMode {
    /// Never.
    Never,
    /// When it ended otherwise than with code 0.
    OnFailure,
    /// Always; the default of services.
    Always,
}

/// Restart in place, by the worker alone.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    Serialize,
    Deserialize,
)]
pub struct RestartPolicy {
    /// When.
    pub mode: RestartMode,
    /// First delay; doubles each time. Default 100 ms.
    pub delay: Millis,
    /// Longest delay. Default 60 s.
    pub delay_max: Millis,
    /// Restarts within `window`, after which the replica has given up. Default 5.
    pub max_restarts: u32,
    /// Window of `max_restarts`. Default 10 min.
    pub window: Millis,
    /// A run this long makes the delay start anew. Default 60 s.
    pub stable_after: Millis,
}

/// How a job is stopped.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    Serialize,
    Deserialize,
)]
pub struct StopPolicy {
    /// Wait between taking the endpoint away and the signal. Default 0 s.
    pub drain: Millis,
    /// Signal number. Default 15 (TERM).
    pub signal: i32,
    /// Wait between the signal and killing the tree. Default 30 s.
    pub grace: Millis,
}

/// Placement of a service's replicas over hosts.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    Default,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    Serialize,
    Deserialize,
)]
pub struct Spread {
    /// Most replicas of one version on one host; no limit when absent.
    pub max_per_host: Option<u32>,
    /// Whether the limit may be exceeded rather than leave a replica pending.
    pub best_effort: bool,
    /// Label that replicas are spread over as well.
    pub label: Option<String>,
}

/// A number or a share of the desired count.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    Serialize,
    Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// So many replicas.
    Count(u32),
    /// So many hundredths of desired.
    Percent(u32),
}

/// What happens when a rollout does not get on.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    Serialize,
    Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum OnStuck {
    /// Stay and say so.
    Stop,
    /// Go back to the last completed version.
    Rollback,
}

/// Settings of a rollout. Defaults: design section 6.1.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    Serialize,
    Deserialize,
)]
pub struct RolloutSettings {
    /// Replicas above desired during a rollout. Default 25%.
    pub max_surge: Amount,
    /// Replicas below desired during a rollout. Default 25%.
    pub max_unavailable: Amount,
    /// Time that a replica must be ready to count as available. Default 0 s.
    pub min_ready: Millis,
    /// Longest time without progress. Default 600 s.
    pub progress_deadline: Millis,
    /// What happens then. Default stop.
    pub on_stuck: OnStuck,
    /// Versions kept in the history. Default 10.
    pub history_limit: u32,
}

/// A service as asked for, defaults filled in.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    Serialize,
    Deserialize,
)]
pub struct ServiceSpec {
    /// Name, unique within the project.
    pub name: String,
    /// Project it belongs to.
    pub project: String,
    /// Queue of its replicas.
    pub queue: String,
    /// Application profile.
    pub profile: String,
    /// Desired count; absent in an update that keeps it.
    pub replicas: Option<u32>,
    /// What each replica runs.
    pub template: Template,
    /// Settings that make no version.
    pub settings: ServiceSettings,
    /// Where values came from that are not built in.
    pub origins: Vec<Origin>,
}

/// Settings of a service that make no version when they change.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    Serialize,
    Deserialize,
)]
pub struct ServiceSettings {
    /// Placement over hosts.
    pub spread: Spread,
    /// Rollout.
    pub rollout: RolloutSettings,
    /// Backoff of replacements.
    pub replacement: ReplacementSettings,
    /// Free labels.
    pub labels: Vec<(String, String)>,
}

/// Backoff of replacements, per service and version. Defaults: design section 6.5.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    Serialize,
    Deserialize,
)]
pub struct ReplacementSettings {
    /// A replica ready this long has been stable. Default 60 s.
    pub stable_after: Millis,
    /// Second delay; the first is none where the replica was stable. Default 1 s.
    pub delay: Millis,
    /// Longest delay. Default 300 s.
    pub delay_max: Millis,
    /// Failures of one version within `crash_window` that make a crash loop. Default 5.
    pub crash_limit: u32,
    /// Window of `crash_limit`. Default 10 min.
    pub crash_window: Millis,
}
