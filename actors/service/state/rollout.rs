//! The rollout of a version, its deadline, and pauses.

use xce_model::spec::RolloutSettings;
use xce_model::{ClusterTime, Millis, Version};

/// Where a rollout is.
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
pub enum Phase {
    /// Steps are taken.
    Rolling,
    /// No progress before the deadline; nothing available is removed.
    Stuck {
        /// What held the next step back.
        reason: String,
    },
    /// All replicas have the version.
    Complete,
}

/// A rollout: the current one, or the last.
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
pub struct Rollout {
    /// The version that all replicas shall have.
    pub version: Version,
    /// Where it is.
    pub phase: Phase,
    /// When it began.
    pub started: ClusterTime,
    /// When its deadline's clock began; meaningless while paused.
    pub clock_from: ClusterTime,
    /// Most replicas of the version that were available.
    pub available_mark: u32,
    /// Fewest live replicas of other versions.
    pub old_mark: u32,
}

/// A pause.
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
pub struct Pause {
    /// Since when.
    pub since: ClusterTime,
    /// What the clock of the deadline showed then.
    pub elapsed: Millis,
}

impl Rollout {
    /// The rollout of a version that was just made.
    pub(super) fn begin(version: Version, old_mark: u32, now: ClusterTime) -> Self {
        Self {
            version,
            phase: Phase::Rolling,
            started: now,
            clock_from: now,
            available_mark: 0,
            old_mark,
        }
    }

    /// Whether it is not complete.
    pub fn is_active(&self) -> bool {
        match self.phase {
            Phase::Rolling | Phase::Stuck { .. } => true,
            Phase::Complete => false,
        }
    }

    /// Whether it made no progress before its deadline.
    pub fn is_stuck(&self) -> bool {
        matches!(self.phase, Phase::Stuck { .. })
    }

    /// When it will be stuck unless it gets further; not while paused.
    pub fn deadline(&self, settings: &RolloutSettings) -> ClusterTime {
        self.clock_from.after(settings.progress_deadline)
    }
}
