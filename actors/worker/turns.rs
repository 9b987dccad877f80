//! Turns to restart, given by the worker itself while it is cut off from the controller: one per
//! service at a time.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use xce_model::Start;
use xce_replica::wire::RunId;

use crate::run_core::Turn;

/// How long a replica whose startup nobody times may take to be ready again before the next one has
/// its turn, in milliseconds.
///
/// Source: as the progress deadline of a rollout, design section 6.1.
pub const STARTUP_MS: u64 = 600_000;

/// A run that waits for its turn, or takes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Name of its service.
    pub service: String,
    /// Which of both.
    pub turn: Turn,
    /// Since when, milliseconds since boot.
    pub since_ms: u64,
    /// How long it may take to start, in milliseconds.
    pub startup_ms: u64,
}

/// The runs of one worker that wait for their turn, or take it.
#[derive(Debug, Default)]
pub struct Turns(Mutex<HashMap<RunId, Waiting>>);

impl Turns {
    fn lock(&self) -> MutexGuard<'_, HashMap<RunId, Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes where a run is.
    pub fn note(&self, run: RunId, waiting: Waiting) {
        if waiting.turn == Turn::None {
            self.lock().remove(&run);
        } else {
            self.lock().insert(run, waiting);
        }
    }

    /// Forgets a run.
    pub fn leave(&self, run: RunId) {
        self.lock().remove(&run);
    }

    /// Whose turn it is at `now_ms`, milliseconds since boot: of each service of which none takes
    /// its turn, the one that has waited longest.
    pub fn next(&self, now_ms: u64) -> Vec<(RunId, Start, u32)> {
        let runs = self.lock();
        let busy: HashSet<&str> = runs
            .values()
            .filter(|run| run.turn == Turn::Taken)
            .filter(|run| now_ms < run.since_ms.saturating_add(run.startup_ms))
            .map(|run| run.service.as_str())
            .collect();
        let mut first: BTreeMap<&str, (u64, RunId, Start, u32)> = BTreeMap::new();
        for (run, waiting) in runs.iter() {
            let Turn::Waits { start, wish } = waiting.turn else {
                continue;
            };
            let candidate = (waiting.since_ms, *run, start, wish);
            let best = first.entry(&waiting.service).or_insert(candidate);
            *best = (*best).min(candidate);
        }
        first
            .into_iter()
            .filter(|(service, _)| !busy.contains(service))
            .map(|(_, (_, run, start, wish))| (run, start, wish))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xce_model::JobId;

    fn run(number: u64) -> RunId {
        RunId {
            job: JobId::single(number),
            run: 1,
        }
    }

    fn waiting(service: &str, turn: Turn, since_ms: u64) -> Waiting {
        Waiting {
            service: service.to_owned(),
            turn,
            since_ms,
            startup_ms: 100,
        }
    }

    #[test]
    fn one_per_service_has_its_turn_and_the_longest_waiting_first() {
        let turns = Turns::default();
        let waits = |start| Turn::Waits { start, wish: 7 };
        turns.note(run(1), waiting("a", waits(3), 20));
        turns.note(run(2), waiting("a", waits(2), 10));
        turns.note(run(3), waiting("b", waits(1), 30));
        assert_eq!(turns.next(50), [(run(2), 2, 7), (run(3), 1, 7)]);
        turns.note(run(2), waiting("a", Turn::Taken, 60));
        assert_eq!(turns.next(70), [(run(3), 1, 7)]);
        // Its time to start is over: the next one may go.
        assert_eq!(turns.next(160), [(run(1), 3, 7), (run(3), 1, 7)]);
        turns.note(run(2), waiting("a", Turn::None, 70));
        turns.leave(run(3));
        assert_eq!(turns.next(70), [(run(1), 3, 7)]);
    }
}
