//! Giving up a launch: told to whoever makes it, wherever it is by then.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Whether a launch was given up. Once it was, no shim may be started for it, and one that was
/// started must be killed.
#[derive(Debug, Default)]
pub struct GivingUp {
    given_up: AtomicBool,
    told: Notify,
}

impl GivingUp {
    /// Gives the launch up.
    pub fn give_up(&self) {
        self.given_up.store(true, Ordering::Release);
        self.told.notify_one();
    }

    /// Whether it was given up.
    pub fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
    }

    /// Waits until it is; for one who waits.
    pub async fn given_up(&self) {
        while !self.is_given_up() {
            self.told.notified().await;
        }
    }
}
