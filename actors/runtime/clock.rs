//! Time as an argument: what actors read instead of the system's clocks.
//!
//! Monotonic time is time since boot and goes on while the machine sleeps, so that deadlines are
//! met after a suspend. Wall time is for display only; two hosts' clocks are never compared.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio::sync::watch;

/// A future that ends at a moment of a clock.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Longest single wait before the clock is read again, in milliseconds.
///
/// Source: derived; a timer of the kernel stands still while the machine sleeps, so a deadline of
/// boot time is found at most this much late after a wake-up.
const SLEEP_MS_MAX: u64 = 5_000;

/// Where a node reads time.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// Nanoseconds since boot; never decreases.
    fn monotonic_ns(&self) -> u64;

    /// Milliseconds of the wall clock since 1970; may jump; for display only.
    fn wall_ms(&self) -> u64;

    /// Ends when [`Clock::monotonic_ms`] has reached `at_ms`; at once if it has already.
    fn sleep_until(&self, at_ms: u64) -> Sleep;

    /// Milliseconds since boot; never decreases.
    fn monotonic_ms(&self) -> u64 {
        self.monotonic_ns() / 1_000_000
    }
}

/// The clocks of this machine: `CLOCK_BOOTTIME` and `CLOCK_REALTIME`.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealClock;

impl Clock for RealClock {
    fn monotonic_ns(&self) -> u64 {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        nanoseconds(time.tv_sec, time.tv_nsec)
    }

    fn wall_ms(&self) -> u64 {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        nanoseconds(time.tv_sec, time.tv_nsec) / 1_000_000
    }

    fn sleep_until(&self, at_ms: u64) -> Sleep {
        Box::pin(async move {
            loop {
                let left_ms = at_ms.saturating_sub(RealClock.monotonic_ms());
                if left_ms == 0 {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(left_ms.min(SLEEP_MS_MAX))).await;
            }
        })
    }
}

fn nanoseconds(seconds: i64, nanoseconds: i64) -> u64 {
    let whole = u64::try_from(seconds).unwrap_or(0);
    whole
        .saturating_mul(1_000_000_000)
        .saturating_add(u64::try_from(nanoseconds).unwrap_or(0))
}

/// A clock for tests that moves only when it is told to.
#[derive(Debug)]
pub struct ManualClock {
    now_ns: watch::Sender<u64>,
    wall_offset_ms: u64,
}

impl ManualClock {
    /// A clock that shows `monotonic_ms` since boot, `wall_offset_ms` later on the wall.
    pub fn new(monotonic_ms: u64, wall_offset_ms: u64) -> Self {
        Self {
            now_ns: watch::Sender::new(monotonic_ms.saturating_mul(1_000_000)),
            wall_offset_ms,
        }
    }

    /// Moves the clock forward and wakes whoever waited for a moment that has come.
    pub fn advance(&self, by: Duration) {
        let by_ns = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        self.now_ns
            .send_modify(|now_ns| *now_ns = now_ns.saturating_add(by_ns));
    }
}

impl Clock for ManualClock {
    fn monotonic_ns(&self) -> u64 {
        *self.now_ns.borrow()
    }

    fn wall_ms(&self) -> u64 {
        self.monotonic_ms().saturating_add(self.wall_offset_ms)
    }

    fn sleep_until(&self, at_ms: u64) -> Sleep {
        let mut now = self.now_ns.subscribe();
        Box::pin(async move {
            // An error means that the clock is gone: nothing will ever be due.
            if now
                .wait_for(|now_ns| *now_ns / 1_000_000 >= at_ms)
                .await
                .is_err()
            {
                std::future::pending::<()>().await;
            }
        })
    }
}
