//! What users and programs see of a service; goes over the wire and becomes JSON as it is.

mod build;
mod endpoints;

pub use build::view;
pub use endpoints::{
    CHANGE_ROWS_MAX, EndpointKey, EndpointSet, EndpointsChange, endpoint_state, endpoints_of,
};

use xce_model::{ClusterTime, JobId, JobState, Lsn, Run, ServiceId, Version};

use crate::facts::VersionReason;
use crate::state::Outcome;

/// A service as shown.
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
pub struct ServiceView {
    /// Name, unique within the project.
    pub name: String,
    /// Identity.
    pub id: ServiceId,
    /// Project.
    pub project: String,
    /// Owner's login name.
    pub owner: String,
    /// Application profile.
    pub profile: String,
    /// Desired count.
    pub desired: u32,
    /// Replicas that have not ended, those that are stopping included.
    pub live: u32,
    /// Replicas that take work.
    pub ready: u32,
    /// Replicas that have taken work for `min_ready` on a reachable host; for at least a second where
    /// no probe tells that they can.
    pub available: u32,
    /// Replicas told to stop whose end is not confirmed.
    pub stopping: u32,
    /// Replicas whose host is lost: not live, and not ended before another one has taken their place.
    pub lost: u32,
    /// Live replicas of the current version that are not stopping.
    pub updated: u32,
    /// Number of the current version.
    pub version: Version,
    /// The first condition that applies, in one word.
    pub condition: Condition,
    /// Why, in a sentence.
    pub reason: String,
    /// All conditions that apply.
    pub conditions: Vec<ConditionView>,
    /// The rollout.
    pub rollout: RolloutView,
    /// Replicas that have not ended, by version and index.
    pub replicas: Vec<ReplicaView>,
    /// Where clients reach it.
    pub endpoints: Vec<EndpointView>,
    /// Versions kept, oldest first.
    pub history: Vec<VersionView>,
    /// Last events, oldest first.
    pub events: Vec<EventView>,
    /// When it was created, by the controller's wall clock; RFC 3339.
    pub created: String,
    /// Position of its last change.
    pub changed: Lsn,
}

/// State of a service in one word, in the order in which the first that applies is shown.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// It ends when all hosts have confirmed.
    Deleting,
    /// A version crashes again and again.
    CrashLoop,
    /// The rollout made no progress before its deadline.
    Stuck,
    /// The mix of versions is frozen.
    Paused,
    /// A version is being rolled out.
    Rolling,
    /// Fewer than desired are available.
    Short,
    /// All is as desired.
    Steady,
}

impl Condition {
    /// The word that users see.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Deleting => "deleting",
            Self::CrashLoop => "crash-loop",
            Self::Stuck => "stuck",
            Self::Paused => "paused",
            Self::Rolling => "rolling",
            Self::Short => "short",
            Self::Steady => "steady",
        }
    }
}

/// A condition that applies.
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
pub struct ConditionView {
    /// Which.
    pub condition: Condition,
    /// Why, in a sentence.
    pub reason: String,
    /// Since when, in cluster time, where that is known.
    pub since: Option<ClusterTime>,
}

/// A rollout as shown.
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
pub struct RolloutView {
    /// `rolling`, `stuck`, `paused` or `complete`.
    pub phase: String,
    /// Live replicas of the current version that are not stopping.
    pub updated: u32,
    /// Available replicas of the current version.
    pub updated_available: u32,
    /// Live replicas of other versions.
    pub old: u32,
    /// Time in milliseconds until it is stuck unless it gets further; absent while no clock runs.
    pub deadline_in_ms: Option<u64>,
    /// What holds the next step back; empty when nothing does.
    pub explain: String,
}

/// A replica as shown.
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
pub struct ReplicaView {
    /// Index within the version.
    pub index: u32,
    /// Job.
    pub job: JobId,
    /// Version.
    pub version: Version,
    /// Number of the run; 0 before the first.
    pub run: Run,
    /// Host; absent before the first placement.
    pub host: Option<String>,
    /// State of the job.
    pub state: JobState,
    /// Whether it takes work.
    pub ready: bool,
    /// Whether it counts as available.
    pub available: bool,
    /// Whether its host answers; true where it has none.
    pub reachable: bool,
    /// Whether its host is lost, so that it is not live.
    pub lost: bool,
    /// Process id; 0 when unknown.
    pub pid: u32,
    /// Restarts in place.
    pub restarts: u32,
    /// Why it is as it is; empty when all is well.
    pub reason: String,
}

/// State of an endpoint.
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
pub enum EndpointState {
    /// Takes work.
    Ready,
    /// Took work when its host was last heard of.
    Suspect,
}

/// Where clients reach one port of one replica.
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
pub struct EndpointView {
    /// Name of the port.
    pub name: String,
    /// Address of the host.
    pub address: String,
    /// Port.
    pub port: u16,
    /// Index of the replica.
    pub replica: u32,
    /// Job of the replica.
    pub job: JobId,
    /// State.
    pub state: EndpointState,
    /// Version of the replica.
    pub version: Version,
    /// Name of its host.
    pub host: String,
}

/// A version as shown.
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
pub struct VersionView {
    /// Number.
    pub number: Version,
    /// Why it was made.
    pub reason: VersionReason,
    /// Who made it; empty where XCE did.
    pub author: String,
    /// When, by the controller's wall clock; RFC 3339.
    pub time: String,
    /// What became of it.
    pub outcome: Outcome,
    /// Wanted count of its replicas.
    pub want: u32,
}

/// An event as shown.
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
pub struct EventView {
    /// When, by the controller's wall clock; RFC 3339.
    pub time: String,
    /// When, in cluster time.
    pub at: ClusterTime,
    /// Position of the fact.
    pub lsn: Lsn,
    /// Kind, a stable word for machines.
    pub kind: String,
    /// A sentence with the cause.
    pub text: String,
}
