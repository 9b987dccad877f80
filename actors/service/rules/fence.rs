//! Bounds of a rollout: how many replicas above and below desired.

use xce_model::spec::{Amount, RolloutSettings};

/// Bounds of a service in numbers of replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence {
    /// Desired count.
    pub desired: u32,
    /// Most above desired during a rollout.
    pub surge: u32,
    /// Most below desired by the controller's own doing, at most desired.
    pub unavailable: u32,
}

impl Fence {
    /// Bounds of a rollout.
    pub fn of(settings: &RolloutSettings, desired: u32) -> Self {
        let (surge, unavailable) = resolve(settings.max_surge, settings.max_unavailable, desired);
        Self {
            desired,
            surge,
            unavailable: unavailable.min(desired),
        }
    }

    /// Most live replicas during a rollout.
    pub const fn live_max(self) -> u32 {
        self.desired.saturating_add(self.surge)
    }

    /// Fewest available replicas that a rollout leaves.
    pub const fn available_min(self) -> u32 {
        self.desired.saturating_sub(self.unavailable)
    }
}

/// Surge and unavailability in replicas: percentages of surge round up, of unavailability down; two
/// zeros make the second 1, so that a rollout can move.
pub fn resolve(surge: Amount, unavailable: Amount, desired: u32) -> (u32, u32) {
    let surge = match surge {
        Amount::Count(count) => count,
        Amount::Percent(percent) => share(percent, desired, 99),
    };
    let unavailable = match unavailable {
        Amount::Count(count) => count,
        Amount::Percent(percent) => share(percent, desired, 0),
    };
    if surge == 0 && unavailable == 0 {
        (0, 1)
    } else {
        (surge, unavailable)
    }
}

fn share(percent: u32, desired: u32, round: u64) -> u32 {
    let hundredths = u64::from(percent) * u64::from(desired);
    u32::try_from((hundredths + round) / 100).unwrap_or(u32::MAX)
}
