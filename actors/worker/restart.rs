//! When a start that ended is followed by another one in place: arithmetic over given times.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use xce_model::Exit;
use xce_model::spec::{RestartMode, RestartPolicy};

/// Most moments kept, whatever the policy says.
///
/// Source: derived; a window with more restarts than this is a crash loop by any policy, and the
/// memory of a run stays below 24 KiB.
const MOMENTS_MAX: usize = 1_000;

/// Most doublings of the first delay.
///
/// Source: derived; 1 ms doubled so often is longer than any delay that can be given.
const DOUBLINGS_MAX: u32 = 42;

/// Restarts of one run so far; kept in the run directory, so that a worker that starts again goes
/// on counting. Times are milliseconds since boot.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RestartHistory {
    /// Counted restarts, oldest first.
    pub moments_ms: VecDeque<u64>,
    /// Restarts since the last start that was stable.
    pub streak: u32,
}

/// What follows the end of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterExit {
    /// The run ends.
    End,
    /// It starts again after this many milliseconds.
    Again {
        /// Delay in milliseconds; zero is at once.
        delay_ms: u64,
    },
    /// It would start again, but has done so too often.
    GiveUp,
}

/// Whether the policy wants another start after this exit, counts aside.
pub fn wants_restart(mode: RestartMode, exit: &Exit) -> bool {
    match mode {
        RestartMode::Never => false,
        RestartMode::OnFailure => !exit.is_success(),
        RestartMode::Always => true,
    }
}

impl RestartHistory {
    /// Decides and counts, for a start that ran `ran_ms` and ended at `now_ms`.
    pub fn after_exit(&mut self, policy: &RestartPolicy, ran_ms: u64, now_ms: u64) -> AfterExit {
        let window = policy.window.0;
        while self
            .moments_ms
            .front()
            .is_some_and(|moment| now_ms.saturating_sub(*moment) >= window)
        {
            self.moments_ms.pop_front();
        }
        if ran_ms >= policy.stable_after.0 {
            self.streak = 0;
        }
        let restarts_max = usize::try_from(policy.max_restarts).unwrap_or(usize::MAX);
        if self.moments_ms.len() >= restarts_max {
            return AfterExit::GiveUp;
        }
        let factor = 1_u64 << self.streak.min(DOUBLINGS_MAX);
        let delay_ms = policy
            .delay
            .0
            .saturating_mul(factor)
            .min(policy.delay_max.0);
        self.streak = self.streak.saturating_add(1);
        self.moments_ms.push_back(now_ms);
        if self.moments_ms.len() > MOMENTS_MAX {
            self.moments_ms.pop_front();
        }
        AfterExit::Again { delay_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xce_model::{Cause, Millis};

    fn policy() -> RestartPolicy {
        RestartPolicy {
            mode: RestartMode::Always,
            delay: Millis(100),
            delay_max: Millis(1_000),
            max_restarts: 5,
            window: Millis(600_000),
            stable_after: Millis(60_000),
        }
    }

    #[test]
    fn delays_double_to_their_bound_and_then_it_gives_up() {
        let mut history = RestartHistory::default();
        let delays: Vec<_> = (0..6)
            .map(|at| history.after_exit(&policy(), 1, at))
            .collect();
        let again = |delay_ms| AfterExit::Again { delay_ms };
        let expected = [again(100), again(200), again(400), again(800), again(1_000)];
        assert_eq!(delays[..5], expected);
        assert_eq!(delays[5], AfterExit::GiveUp);
    }

    #[test]
    fn a_stable_start_makes_the_delay_begin_anew_but_still_counts() {
        let mut history = RestartHistory::default();
        history.after_exit(&policy(), 1, 0);
        history.after_exit(&policy(), 1, 0);
        let after = history.after_exit(&policy(), 60_000, 60_000);
        assert_eq!(after, AfterExit::Again { delay_ms: 100 });
        assert_eq!(history.moments_ms.len(), 3);
    }

    #[test]
    fn what_left_the_window_counts_no_more() {
        let mut history = RestartHistory::default();
        for at in 0..5 {
            history.after_exit(&policy(), 1, at);
        }
        assert_eq!(history.after_exit(&policy(), 1, 599_999), AfterExit::GiveUp);
        assert!(matches!(
            history.after_exit(&policy(), 1, 600_001),
            AfterExit::Again { .. }
        ));
    }

    #[test]
    fn p43_the_window_slides() {
        let policy = RestartPolicy {
            max_restarts: 3,
            window: Millis(60_000),
            ..policy()
        };
        let again = |times: &[u64]| -> Vec<bool> {
            let mut history = RestartHistory::default();
            let mut follows = |at: &u64| history.after_exit(&policy, 1, at * 1_000);
            let again = times.iter().map(&mut follows);
            again
                .map(|after| matches!(after, AfterExit::Again { .. }))
                .collect()
        };
        assert_eq!(again(&[0, 20, 40, 59]), [true, true, true, false]);
        assert_eq!(again(&[0, 20, 61]), [true, true, true]);
        assert_eq!(again(&[0, 20, 40, 60, 79]), [true, true, true, true, false]);
    }

    #[test]
    fn nothing_overflows() {
        let mut history = RestartHistory {
            streak: u32::MAX,
            ..RestartHistory::default()
        };
        let policy = RestartPolicy {
            delay: Millis(u64::MAX),
            delay_max: Millis(u64::MAX),
            max_restarts: u32::MAX,
            ..policy()
        };
        for at in 0..2_000 {
            history.after_exit(&policy, 0, at);
        }
        assert_eq!(history.moments_ms.len(), MOMENTS_MAX);
    }

    #[test]
    fn the_mode_decides_by_the_exit() {
        let good = Exit {
            code: Some(0),
            ..Exit::of(Cause::Exited)
        };
        let bad = Exit {
            code: Some(1),
            ..Exit::of(Cause::Exited)
        };
        for (mode, on_good, on_bad) in [
            (RestartMode::Never, false, false),
            (RestartMode::OnFailure, false, true),
            (RestartMode::Always, true, true),
        ] {
            assert_eq!(wants_restart(mode, &good), on_good, "{mode:?}");
            assert_eq!(wants_restart(mode, &bad), on_bad, "{mode:?}");
        }
    }
}
