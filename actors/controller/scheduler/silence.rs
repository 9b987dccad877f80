//! Since when the scheduler does not respond, as users and operators see it.

use std::sync::{Mutex, PoisonError};

use xce_model::{Millis, WallTime};

use crate::views;

/// A scheduler that does not respond.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Silence {
    /// Since when, by this machine's monotonic clock in milliseconds.
    pub since_ms: u64,
    /// The same by the wall clock, for display.
    pub since: WallTime,
    /// What is known of it, such as that none is connected.
    pub detail: String,
}

impl Silence {
    /// A sentence for whoever waits.
    pub fn text(&self, now_ms: u64) -> String {
        let ago = Millis(now_ms.saturating_sub(self.since_ms) / 1000 * 1000);
        let since = views::time(self.since);
        format!(
            "scheduler not responding since {since} ({ago}): {}",
            self.detail
        )
    }
}

/// What is known of the scheduler outside of its actor.
#[derive(Debug, Default)]
pub struct Scheduling {
    silence: Mutex<Option<Silence>>,
}

impl Scheduling {
    /// The silence, while there is one.
    pub fn silence(&self) -> Option<Silence> {
        let silence = self.silence.lock().unwrap_or_else(PoisonError::into_inner);
        silence.clone()
    }

    /// Notes a silence, or its end.
    pub fn set(&self, silence: Option<Silence>) {
        *self.silence.lock().unwrap_or_else(PoisonError::into_inner) = silence;
    }
}
