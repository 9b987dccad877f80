//! When something is due, by the boot-time clock: it counts time in which the machine slept, which
//! the wait of a poll does not.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use xce_shim::ShimState;

/// What is due when; milliseconds since boot.
#[derive(Debug, Default)]
pub struct Deadlines {
    /// The run limit; stands still while the job is suspended.
    pub run_limit: Option<u64>,
    /// The end of the grace, and then of the patience with a kill.
    pub kill: Option<u64>,
    /// The end of the lease.
    pub lease: Option<u64>,
    /// The next look at the output files.
    pub rotate: Option<u64>,
    /// Since when the job is suspended.
    pub suspended_since: Option<u64>,
}

impl Deadlines {
    /// What is due next in this state.
    pub fn next(&self, state: ShimState) -> Option<u64> {
        let all = [
            self.run_limit.filter(|_| state == ShimState::Running),
            self.kill,
            self.lease.filter(|_| state != ShimState::Killing),
            self.rotate,
        ];
        all.into_iter().flatten().min()
    }

    /// Moves the run limit by the time in suspension, which ends now.
    pub fn resume(&mut self, now: u64) {
        if let Some(since) = self.suspended_since.take() {
            let pause = now.saturating_sub(since);
            self.run_limit = self.run_limit.map(|at| at.saturating_add(pause));
        }
    }
}

/// A timer descriptor, made when it is first needed.
#[derive(Debug, Default)]
pub struct Timer {
    descriptor: Option<OwnedFd>,
    armed_at: Option<u64>,
}

impl Timer {
    /// The descriptor to wait for.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.descriptor.as_ref().map(AsFd::as_fd)
    }

    /// Makes the descriptor ready at this time, milliseconds since boot; `None` is never.
    pub fn arm(&mut self, at: Option<u64>) {
        if at == self.armed_at {
            return;
        }
        if self.descriptor.is_none() {
            let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
            self.descriptor = timerfd_create(TimerfdClockId::Boottime, flags).ok();
        }
        let Some(descriptor) = &self.descriptor else {
            return;
        };
        // Zero would disarm: a deadline in the past is due at once.
        let millis = at.map_or(0, |at| at.max(1));
        let value = Timespec {
            tv_sec: i64::try_from(millis / 1_000).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(millis % 1_000 * 1_000_000).unwrap_or(0),
        };
        let zero = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let spec = Itimerspec {
            it_interval: zero,
            it_value: value,
        };
        if timerfd_settime(descriptor, TimerfdTimerFlags::ABSTIME, &spec).is_ok() {
            self.armed_at = at;
        }
    }

    /// Takes note that it was ready.
    pub fn rang(&mut self) {
        if let Some(descriptor) = &self.descriptor {
            // Empties the count, so that it does not stay ready.
            let _ = rustix::io::read(descriptor, &mut [0; 8]);
        }
        self.armed_at = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_depends_on_the_state() {
        let mut all = Deadlines {
            run_limit: Some(10),
            kill: None,
            lease: Some(20),
            rotate: Some(30),
            suspended_since: Some(4),
        };
        assert_eq!(all.next(ShimState::Running), Some(10));
        assert_eq!(all.next(ShimState::Suspended), Some(20));
        assert_eq!(all.next(ShimState::Killing), Some(30));
        all.kill = Some(15);
        assert_eq!(all.next(ShimState::Stopping), Some(15));
        all.resume(9);
        assert_eq!((all.run_limit, all.suspended_since), (Some(15), None));
        all.resume(99);
        assert_eq!(all.run_limit, Some(15));
    }
}
