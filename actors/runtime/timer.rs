//! One timer of one actor: it triggers once, and never polls.

use crate::address::Address;
use crate::clock::Clock;
use crate::task::Task;

use std::sync::Arc;

/// Which arming of a timer a message stems from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trigger(u64);

/// Sends one message to its actor at a moment of the clock.
///
/// Keep it in the actor's state: it ends with the incarnation. A message of an earlier arming may
/// already wait in the mailbox when the timer is armed again; [`Timer::accept`] tells them apart.
#[derive(Debug)]
pub struct Timer<M: Send + 'static> {
    address: Address<M>,
    clock: Arc<dyn Clock>,
    arming: u64,
    armed: Option<(u64, Task)>,
}

impl<M: Send + 'static> Timer<M> {
    /// A timer at rest that will speak to `address`.
    pub fn new(address: Address<M>, clock: Arc<dyn Clock>) -> Self {
        Self {
            address,
            clock,
            arming: 0,
            armed: None,
        }
    }

    /// Sends one message when the monotonic clock reaches `at_ms`, in place of any earlier arming.
    pub fn arm(&mut self, at_ms: u64, message: impl FnOnce(Trigger) -> M + Send + 'static) {
        self.arming += 1;
        let trigger = Trigger(self.arming);
        let address = self.address.clone();
        let due = self.clock.sleep_until(at_ms);
        let task = Task::spawn(async move {
            due.await;
            // Err says that the actor is down; its next incarnation arms its own timer.
            let _ = address.cast_unbounded(message(trigger));
        });
        self.armed = Some((at_ms, task));
    }

    /// Takes the arming back.
    pub fn disarm(&mut self) {
        self.armed = None;
    }

    /// The moment it is armed for, in milliseconds of the monotonic clock.
    pub fn armed_for(&self) -> Option<u64> {
        self.armed.as_ref().map(|(at_ms, _task)| *at_ms)
    }

    /// Says whether a trigger is the one awaited, and if so lays the timer to rest.
    pub fn accept(&mut self, trigger: Trigger) -> bool {
        let awaited = self.armed.is_some() && trigger.0 == self.arming;
        if awaited {
            self.armed = None;
        }
        awaited
    }
}
