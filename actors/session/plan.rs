//! A dry run of a change, as shown: steps, bounds, time, and what would hold it back.

use xce_model::{Lsn, Millis, Version};

/// What would become of a change, if workers did as they are told and nothing else happened.
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
pub struct PlanView {
    /// Name of the service.
    pub service: String,
    /// The change, such as `update`.
    pub change: String,
    /// How it would end.
    pub outcome: PlanOutcome,
    /// One sentence about the change itself.
    pub text: String,
    /// Number of the version that would be current.
    pub version: Version,
    /// Desired count.
    pub desired: u32,
    /// The steps; neighbours are folded into one row where there are very many.
    pub steps: Vec<PlanStep>,
    /// How many steps there would be, folded or not.
    pub steps_total: u32,
    /// Time from the change to the end, to the blocker, or to the bound, in milliseconds.
    pub takes_ms: u64,
    /// Time of the whole, in milliseconds, where only its beginning was imagined.
    pub extrapolated_ms: Option<u64>,
    /// Fewest replicas that would take work at any moment.
    pub ready_min: u32,
    /// Fewest replicas that would count as available at any moment.
    pub available_min: u32,
    /// Fewest available replicas that the rollout's settings leave.
    pub available_bound: u32,
    /// Most replicas that would be live at any moment, those that are stopping included.
    pub live_max: u32,
    /// Most live replicas that the rollout's settings allow.
    pub live_bound: u32,
    /// What would hold it back for good; empty where nothing would.
    pub blocker: String,
    /// What would follow from that; empty where nothing would.
    pub then: String,
    /// Which bound ended the imagined run early; empty where none did.
    pub bound: String,
    /// Durations that the times rest on.
    pub times: Vec<PlanTimes>,
    /// What else was assumed.
    pub notes: Vec<String>,
    /// Position of the state that it was made from.
    pub as_of: Lsn,
}

/// How an imagined run ends.
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
pub enum PlanOutcome {
    /// It would be carried out whole.
    Completes,
    /// It is so already; nothing would be written.
    NoChange,
    /// It would come to a halt.
    Blocked,
    /// It gets on, and was not imagined to its end.
    Bounded,
}

/// One step, or neighbours folded into one row.
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
pub struct PlanStep {
    /// When, in milliseconds after the change.
    pub at_ms: u64,
    /// Steps in this row.
    pub steps: u32,
    /// Replicas that are started and stopped, the newest version first.
    pub changes: Vec<PlanChange>,
    /// Live replicas after it, those that are stopping included.
    pub live: u32,
    /// Replicas that take work after it.
    pub ready: u32,
    /// Replicas that count as available after it.
    pub available: u32,
}

/// Replicas of one version in a step.
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
pub struct PlanChange {
    /// The version.
    pub version: Version,
    /// Replicas that are submitted.
    pub started: u32,
    /// Replicas that are told to stop, or end without ever having had a host.
    pub stopped: u32,
}

/// How long replicas of one version are taken to need.
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
pub struct PlanTimes {
    /// The version.
    pub version: Version,
    /// From the placement to the start of the processes.
    pub start: PlanTime,
    /// From that start to being ready.
    pub ready: PlanTime,
    /// From the request to stop to the confirmed end, the drain included.
    pub stop: PlanTime,
}

/// A duration and where it comes from.
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
pub struct PlanTime {
    /// The duration.
    pub takes: Millis,
    /// Version that it was measured on; assumed where absent.
    pub measured_on: Option<Version>,
}
