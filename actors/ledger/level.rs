//! Feature levels: what a cluster may write follows from what all its controllers can read.
//!
//! The level of a cluster is a committed fact that only rises, once every controller that belongs to
//! it supports the next one. Facts and snapshots are written in the form of the level, so that
//! during an upgrade, host by host, every controller can read what any other writes.

use xce_model::Refusal;

/// Lowest level that this program can take part in. Source: the first one; everything since is read.
pub const LEVEL_MIN: u16 = 1;
/// Highest level that this program can take part in.
///
/// 1: facts of controllers are their numbers. 2: epochs and levels; quarantined runs are stopped by
/// command. Source: counted.
pub const LEVEL_MAX: u16 = 2;

/// Level from which epochs and levels can be written.
pub const LEVEL_OF_EPOCHS: u16 = 2;
/// Level from which an operator may command runs in quarantine.
pub const LEVEL_OF_QUARANTINE: u16 = 2;

/// Refuses what needs a higher level than the cluster has.
///
/// # Errors
/// `feature_level`, which names both levels.
pub fn require(level: u16, needed: u16, feature: &str) -> Result<(), Refusal> {
    if level >= needed {
        return Ok(());
    }
    let text = format!(
        "{feature} needs feature level {needed}, and this cluster is at level {level}: it rises by \
         itself once all controllers support it; `xcecli cluster status` says which one does not"
    );
    Err(Refusal::refused("feature_level", text))
}

/// A group holds what cannot be said in the form of a level.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} cannot be written at feature level {level}")]
pub struct AboveLevel {
    /// What.
    pub what: &'static str,
    /// The level.
    pub level: u16,
}
