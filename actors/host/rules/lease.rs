//! Leases of strict single copies: when a shim kills what it carries, and when another copy may start.
//!
//! ```text
//!   worker   beat sent ──────────── grace - kill budget ─────────────► the shim kills the tree
//!                 │                                                       │ kill budget
//!   controller    └─► heard ─────────────────────── grace ────────────────┴──► lost ── margin ─► next copy
//! ```
//!
//! The worker counts from the sending of a beat that was acknowledged, the controller from its
//! arrival or later, each by its own boot-time clock; no two clocks are compared. A new primary gives
//! a fresh grace, so it waits longer, never shorter. Only a primary that holds its lease acknowledges.

use xce_model::{ClusterTime, Millis, Refusal};

use super::{BEATS_MISSED_MAX, Patience};
use crate::state::{HostLife, HostRecord};

/// How long before the end of the grace a shim kills a strict copy; default of the setting
/// `kill_budget`.
/// Source: derived; a killed tree is gone within milliseconds, some seconds on a machine that swaps.
pub const KILL_BUDGET: Millis = Millis::seconds(5);

/// Time after the loss of a host before another copy of a strict job starts.
/// Source: derived; clocks of two machines that differ by 200 parts in a million are 0.7 s apart
/// after an hour, and the longest sensible grace is shorter than that.
pub const MARGIN: Millis = Millis::seconds(2);

/// How long from the sending of an acknowledged beat a strict copy may run; none where so many missed
/// beats as a host may miss would end it.
pub const fn lease(patience: Patience, kill_budget: Millis) -> Option<Millis> {
    let lease = patience.grace.0.saturating_sub(kill_budget.0);
    if lease > patience.beat.0 * BEATS_MISSED_MAX {
        Some(Millis(lease))
    } else {
        None
    }
}

/// Checks that strict single copies can be promised.
///
/// # Errors
/// `single_copy_impossible` with the settings that do not fit.
pub fn check(patience: Patience, kill_budget: Millis) -> Result<(), Refusal> {
    if lease(patience, kill_budget).is_some() {
        return Ok(());
    }
    let least = Millis(kill_budget.0 + patience.beat.0 * BEATS_MISSED_MAX);
    let text = format!(
        "`single_copy = strict` cannot be kept here: its processes must end {kill_budget} before \
         `host_grace` ({}) is over, and outlast {BEATS_MISSED_MAX} missed beats of {}; set \
         `host_grace` above {least}, or `kill_budget` lower",
        patience.grace, patience.beat
    );
    Err(Refusal::refused("single_copy_impossible", text))
}

/// When strict copies on a host are over, whatever became of it; none while it may renew their lease.
pub fn fenced_at(host: &HostRecord) -> Option<ClusterTime> {
    match host.life {
        // Whoever says that it is dead knows it.
        HostLife::Lost if host.dead.is_some() => Some(ClusterTime(0)),
        HostLife::Lost => Some(host.since.after(MARGIN)),
        HostLife::Up | HostLife::Suspect | HostLife::Away => None,
    }
}
