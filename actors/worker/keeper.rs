//! The actor that removes directories of ended runs, a few at a time, and looks at the disk.

use std::fs;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use serde::Serialize;
use xce_failpoint::Point;
use xce_runtime::{Context, Crash, Entity, Task, Timer, Trigger, View};

use crate::disk::Free;
use crate::station::Station;

/// Directories removed in one go.
///
/// Source: derived; at 50 us each on a quiet disk one go takes 25 ms of its own thread.
const GO_MAX: usize = 500;

/// Time between two looks, in milliseconds.
///
/// Source: derived; with [`GO_MAX`] it removes 2 000 a second, twice what a host can run.
const LOOK_MS: u64 = 250;

/// What it is told.
#[derive(Debug)]
pub enum KeeperMessage {
    /// Time for a look.
    Due(Trigger),
}

/// Removes directories of ended runs.
#[derive(Debug)]
pub struct Keeper {
    /// What all actors share.
    pub station: Arc<Station>,
}

/// What one incarnation knows.
#[derive(Debug)]
pub struct KeeperState {
    timer: Timer<KeeperMessage>,
    removing: Option<Task>,
    removed: u64,
}

#[derive(Serialize)]
struct KeeperView {
    kept: usize,
    removed: u64,
}

/// Reads which runs have ended into the index, oldest first. Blocking.
pub fn list_ended(station: &Station) {
    let Ok(runs) = station.dir.ended_runs() else {
        return;
    };
    let now_ms = i64::try_from(station.clock.monotonic_ms()).unwrap_or(i64::MAX);
    let wall_ms = i128::from(station.clock.wall_ms());
    let mut found: Vec<_> = runs
        .into_iter()
        .map(|run| {
            let modified = fs::metadata(station.dir.ended(run)).and_then(|meta| meta.modified());
            let modified_ms = modified
                .ok()
                .and_then(|time| time.duration_since(UNIX_EPOCH).ok())
                .and_then(|time| i128::try_from(time.as_millis()).ok());
            let age_ms = wall_ms - modified_ms.unwrap_or(wall_ms);
            let age_ms = i64::try_from(age_ms.max(0)).unwrap_or(i64::MAX);
            (now_ms.saturating_sub(age_ms), run)
        })
        .collect();
    found.sort_unstable();
    for (at_ms, run) in found {
        station.ended.add(run, at_ms);
    }
}

impl Keeper {
    /// Looks at the disk; the next beat tells.
    fn look_at_disk(&self) {
        let Ok(free) = Free::at(&self.station.settings.state_dir) else {
            return;
        };
        if self.station.disk.note(free) {
            if self.station.disk.is_full() {
                let bytes = free.bytes;
                tracing::error!(
                    bytes,
                    "the disk of the state directory is full: nothing starts"
                );
            } else {
                tracing::info!("the disk of the state directory has room again");
            }
        }
    }

    fn look(&self, state: &mut KeeperState) {
        if state
            .removing
            .as_ref()
            .is_some_and(|task| !task.is_finished())
        {
            return;
        }
        let settings = &self.station.settings;
        let keep_ms = i64::try_from(settings.keep_ended.0).unwrap_or(i64::MAX);
        let now_ms = i64::try_from(self.station.clock.monotonic_ms()).unwrap_or(i64::MAX);
        let before_ms = now_ms.saturating_sub(keep_ms);
        let spool = self.station.spool.lock();
        let waits = |run| spool.has_end(run);
        let old = self
            .station
            .ended
            .take_old(before_ms, settings.ended_max, GO_MAX, waits);
        drop(spool);
        if old.is_empty() {
            return;
        }
        state.removed += u64::try_from(old.len()).unwrap_or(0);
        let station = self.station.clone();
        state.removing = Some(Task::spawn(async move {
            let work = move || {
                xce_failpoint::hit(Point::StateRemoveBefore);
                for run in old {
                    if let Err(error) = fs::remove_dir_all(station.dir.ended(run)) {
                        tracing::debug!(run = ?run, error = %error, "an ended run stays");
                    }
                    xce_failpoint::hit(Point::StateRemoveAfter);
                }
            };
            // A panic in it would be logged by the runtime; the rest is found at the next start.
            let _ = tokio::task::spawn_blocking(work).await;
        }));
    }

    fn arm(&self, state: &mut KeeperState) {
        let at_ms = self.station.clock.monotonic_ms().saturating_add(LOOK_MS);
        state.timer.arm(at_ms, KeeperMessage::Due);
    }
}

impl Entity for Keeper {
    type Message = KeeperMessage;
    type State = KeeperState;
    const KIND: &'static str = "keeper";

    async fn recover(&self, context: &Context<KeeperMessage>) -> Result<KeeperState, Crash> {
        let timer = Timer::new(context.address().clone(), context.clock().clone());
        let mut state = KeeperState {
            timer,
            removing: None,
            removed: 0,
        };
        self.arm(&mut state);
        Ok(state)
    }

    async fn handle(
        &self,
        _context: &Context<KeeperMessage>,
        message: KeeperMessage,
        state: &mut KeeperState,
    ) -> Result<(), Crash> {
        match message {
            KeeperMessage::Due(trigger) if state.timer.accept(trigger) => {
                self.look_at_disk();
                self.look(state);
                self.arm(state);
            }
            KeeperMessage::Due(_) => {}
        }
        Ok(())
    }

    fn view(&self, state: &KeeperState) -> View {
        View::of(&KeeperView {
            kept: self.station.ended.count(),
            removed: state.removed,
        })
    }
}
