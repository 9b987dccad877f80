//! How far a run is imagined.

use xce_model::Millis;

/// Most work of one run, in replicas looked at; a fact counts as [`FACT_WORK`] of them.
/// Source: measured on one 3 GHz processor, 20 ns a replica in a decision; well below 2 s.
const WORK_MAX: u64 = 20_000_000;
/// What a fact costs, in replicas looked at. Source: measured, some 4 µs.
pub(crate) const FACT_WORK: u64 = 150;
/// Longest imagined time. Source: chosen, a rollout that takes longer is not planned by the second.
const TIME_MAX: Millis = Millis::seconds(30 * 86_400);
/// Most rows of an answer. Source: chosen, some screens.
const ROWS_MAX: usize = 200;

/// Bounds of one imagined run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Most work, in replicas looked at. Default 20 million.
    pub work: u64,
    /// Longest imagined time. Default 30 days.
    pub time: Millis,
    /// Most rows; more steps are folded. Default 200, at least 1.
    pub rows: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            work: WORK_MAX,
            time: TIME_MAX,
            rows: ROWS_MAX,
        }
    }
}
