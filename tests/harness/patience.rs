//! How long tests wait: generously, since a slow machine is not a fault, and always woken by
//! something; the only place of the tests that pauses.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Longest wait for anything. Source: chosen; far above what the slowest machine needs.
pub const LONGEST: Duration = Duration::from_secs(60);

/// Longest time until a condition is looked at again when nothing was pushed: processes and actors
/// come and go without a push. Source: chosen; ten looks a second cost little.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Counts what was pushed, and wakes those who wait.
#[derive(Debug, Default)]
pub struct Bell {
    rung: Mutex<u64>,
    woken: Condvar,
}

impl Bell {
    /// Something happened.
    pub fn ring(&self) {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.woken.notify_all();
    }

    /// Waits until a look finds something, and looks again whenever the bell rings.
    ///
    /// # Errors
    /// What the last look said, after [`LONGEST`].
    pub fn until<T>(&self, mut look: impl FnMut() -> Result<T, String>) -> Result<T, String> {
        let deadline = Instant::now() + LONGEST;
        loop {
            let seen = *self.rung.lock().unwrap_or_else(PoisonError::into_inner);
            match look() {
                Ok(found) => return Ok(found),
                Err(text) if Instant::now() >= deadline => return Err(text),
                Err(_) => {}
            }
            let rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
            drop(
                self.woken
                    .wait_timeout_while(rung, LOOK_AGAIN, |rung| *rung == seen),
            );
        }
    }
}

/// Waits for what pushes nothing, such as a process that ends.
///
/// # Panics
/// When it does not come in time.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let look = || if holds() { Ok(()) } else { Err(String::new()) };
    assert!(
        Bell::default().until(look).is_ok(),
        "waited in vain: {what}"
    );
}
