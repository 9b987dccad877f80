//! The loop of one probe: wait, try, judge, tell.

use std::sync::Arc;

use xce_model::spec::Probe;
use xce_runtime::{Clock, Task};

use super::attempt::{Surroundings, attempt};
use super::verdict::ProbeCore;
use super::{Role, Verdict};

/// Starts probing; `tell` is called with each new verdict. Dropping the task ends the probe and
/// whatever program it runs.
pub fn start<T, F>(
    probe: Probe,
    role: Role,
    mut core: ProbeCore,
    around: Arc<Surroundings>,
    clock: Arc<dyn Clock>,
    tell: T,
) -> Task
where
    T: Fn(Role, Verdict) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send,
{
    Task::spawn(async move {
        loop {
            clock.sleep_until(core.next_ms()).await;
            let began_ms = clock.monotonic_ms();
            let outcome = attempt(&probe, &around).await;
            if let Some(verdict) = core.tried(outcome, began_ms, clock.monotonic_ms()) {
                tell(role, verdict).await;
            }
        }
    })
}
