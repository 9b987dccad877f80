//! When a crashed child starts again: pure arithmetic over times that are given.

use std::collections::VecDeque;
use std::time::Duration;

/// Shape of the delays and the limit after which a child is set aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// Ceiling of the second delay; the first restart is immediate, each further one doubles.
    pub first: Duration,
    /// No delay is longer.
    pub longest: Duration,
    /// This many crashes within the window set the child aside.
    pub crashes_max: u32,
    /// How far back crashes count.
    pub window: Duration,
}

/// What follows from a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Start again after this delay; zero means at once.
    Again(Duration),
    /// Too many crashes within the window.
    SetAside,
}

/// Recent crashes of one child; at most `crashes_max` moments are kept.
#[derive(Debug, Default)]
pub struct Crashes {
    moments: VecDeque<Duration>,
    waits: u32,
}

impl Crashes {
    /// Counts a crash at `now`, the time since any fixed start; `random` is any 64 random bits.
    pub fn crashed(&mut self, shape: &Backoff, now: Duration, random: u64) -> Verdict {
        while self
            .moments
            .front()
            .is_some_and(|moment| now.saturating_sub(*moment) > shape.window)
        {
            self.moments.pop_front();
        }
        self.moments.push_back(now);
        self.waits = 0;
        let count = u32::try_from(self.moments.len()).unwrap_or(u32::MAX);
        if count >= shape.crashes_max {
            // Whoever tries again later starts with a clean slate, or is set aside at once again.
            self.moments.pop_front();
            return Verdict::SetAside;
        }
        if count == 1 {
            return Verdict::Again(Duration::ZERO);
        }
        Verdict::Again(jittered(shape, count - 2, random))
    }

    /// The delay before a child is tried again whose dependency is not there. Such attempts never
    /// count as crashes: a slow neighbour must not set aside everybody who waits for it.
    pub fn waits(&mut self, shape: &Backoff, random: u64) -> Duration {
        let delay = jittered(shape, self.waits, random);
        self.waits = self.waits.saturating_add(1).min(WAIT_DOUBLINGS_MAX);
        delay
    }

    /// Forgets everything, as an operator's retry does.
    pub fn clear(&mut self) {
        self.moments.clear();
        self.waits = 0;
    }
}

/// Most doublings of the delay while a dependency is away.
///
/// Source: derived; 10 ms doubled seven times is 1.3 s, short against the fail-over of a WAL, so
/// that waiting children are back soon after it.
const WAIT_DOUBLINGS_MAX: u32 = 7;

/// Between half of the ceiling and the ceiling, so that children of one cause spread out.
fn jittered(shape: &Backoff, doublings: u32, random: u64) -> Duration {
    let factor = 1_u32.checked_shl(doublings.min(31)).unwrap_or(u32::MAX);
    let ceiling = shape.first.saturating_mul(factor).min(shape.longest);
    let half_ns = u64::try_from(ceiling.as_nanos() / 2).unwrap_or(u64::MAX / 2);
    Duration::from_nanos(half_ns + random % (half_ns + 1))
}

/// How often something happened recently; at most `count_max + 1` moments are kept.
#[derive(Debug, Default)]
pub struct Storm {
    moments: VecDeque<Duration>,
}

impl Storm {
    /// Counts one event at `now`; says whether there were more than `count_max` within `window`.
    pub fn count(&mut self, now: Duration, count_max: usize, window: Duration) -> bool {
        while self
            .moments
            .front()
            .is_some_and(|moment| now.saturating_sub(*moment) > window)
        {
            self.moments.pop_front();
        }
        self.moments.push_back(now);
        if self.moments.len() > count_max {
            self.moments.pop_front();
            return true;
        }
        false
    }
}
