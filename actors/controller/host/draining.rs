//! The deadline of a host's drain.

use xce_deciding::draining;
use xce_ledger::GroupEvent;
use xce_runtime::Crash;

use super::{Host, Message, State};

/// Pause before stops that could not be written are decided again. Source: chosen, as for placements.
const AGAIN_MS: u64 = 1000;

impl Host {
    /// Asks to be woken at the deadline of the drain, where there is one and batch jobs are left.
    pub(super) fn drain_later(&self, state: &mut State) {
        let view = self.control.view();
        let until = view
            .host(&self.name)
            .and_then(|host| host.drain.as_ref()?.until);
        let Some(until) = until else {
            return state.drain.disarm();
        };
        if until > self.control.now() {
            let at = self.control.monotonic_of(until);
            return state.drain.arm(at, Message::DrainDue);
        }
        match draining::due(&view, &self.name, self.control.times()) {
            Some(_) => state
                .drain
                .arm(self.control.monotonic_ms(), Message::DrainDue),
            None => state.drain.disarm(),
        }
    }

    /// The deadline of the drain has passed: batch jobs are stopped.
    pub(super) async fn drain_due(&self, state: &mut State) -> Result<(), Crash> {
        let (view, times) = (self.control.view(), self.control.times());
        let Some(step) = draining::due(&view, &self.name, times) else {
            self.drain_later(state);
            return Ok(());
        };
        let host = self.name.clone();
        let on = (view.lsn(), GroupEvent::HostDrainDue { host });
        let jobs = step.jobs;
        let wait = match self
            .commit_decided("drain due", on, times, step.decided)
            .await?
        {
            true => {
                tracing::info!(host = %self.name, jobs, "batch jobs of a drained host are stopped");
                0
            }
            false => AGAIN_MS,
        };
        let at = self.control.monotonic_ms() + wait;
        state.drain.arm(at, Message::DrainDue);
        Ok(())
    }
}
