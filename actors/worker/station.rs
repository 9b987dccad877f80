//! What all actors of one worker share, and what outlives each of them.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, Semaphore};
use xce_failpoint::Point;
use xce_host::Remnant;
use xce_host::facts::Inventory;
use xce_model::{Cause, Start, WallTime};
use xce_replica::wire::{Happened, ReportsCommitted, RunId};
use xce_runtime::{Address, Clock};

use crate::disk::Disk;
use crate::leases::Leases;
use crate::run::RunMessage;
use crate::settings::Settings;
use crate::spool::{Mark, Spool, is_end};
use crate::state_dir::StateDir;
use crate::turns::Turns;

/// Launches at once: each blocks a thread until its shim has been executed.
///
/// Source: foundations section 4; 32 at once start no more processes a second than 16.
const LAUNCHES_MAX: usize = 16;

/// What all actors of one worker share.
#[derive(Debug)]
pub struct Station {
    /// Settings.
    pub settings: Settings,
    /// State directory.
    pub dir: StateDir,
    /// What the machine offers.
    pub inventory: Inventory,
    /// Clock.
    pub clock: Arc<dyn Clock>,
    /// Facts for the controller.
    pub spool: SpoolDesk,
    /// Runs that have not ended.
    pub roster: Roster,
    /// Runs that have ended and whose directory is kept.
    pub ended: EndedRuns,
    /// Whether the disk of the state directory has room.
    pub disk: Disk,
    /// Runs that wait for their turn to restart.
    pub turns: Turns,
    /// How long strict single copies may live.
    pub leases: Leases,
    /// Bounds launches.
    pub launches: Arc<Semaphore>,
    /// Whether the controller has named every wanted run since the worker started.
    pub resynced: AtomicBool,
    /// Whether the worker is stopping: nothing is started any more.
    pub leaving: AtomicBool,
    /// Home directory of the worker's own user.
    pub home: Option<String>,
    nonce: String,
    nonces: AtomicU64,
}

impl Station {
    /// Puts the parts together. `nonce` is drawn for this process.
    pub fn new(
        settings: Settings,
        dir: StateDir,
        inventory: Inventory,
        clock: Arc<dyn Clock>,
        spool: Spool,
        nonce: String,
    ) -> Self {
        let home = std::env::home_dir().and_then(|home| home.to_str().map(str::to_owned));
        Self {
            settings,
            dir,
            inventory,
            clock,
            spool: SpoolDesk::new(spool),
            roster: Roster::default(),
            ended: EndedRuns::default(),
            disk: Disk::default(),
            turns: Turns::default(),
            leases: Leases::default(),
            launches: Arc::new(Semaphore::new(LAUNCHES_MAX)),
            resynced: AtomicBool::new(false),
            leaving: AtomicBool::new(false),
            home,
            nonce,
            nonces: AtomicU64::new(0),
        }
    }

    /// A text that no other start of any run has.
    pub fn next_nonce(&self) -> String {
        format!("{}-{}", self.nonce, self.next_number())
    }

    /// A number that nothing else of this process has.
    pub fn next_number(&self) -> u64 {
        self.nonces.fetch_add(1, Ordering::Relaxed)
    }

    /// Puts a fact into the spool and wakes the sender. An end also puts the run's directory
    /// aside, before anybody can send it: a directory that still stands among the live ones after
    /// a crash has its end in the spool, or was never told.
    pub fn report(&self, run: RunId, start: Start, what: Happened) {
        self.report_at(run, start, what, None);
    }

    /// As [`Station::report`], of something that happened at `wall_ms`; now when absent.
    pub fn report_at(&self, run: RunId, start: Start, what: Happened, wall_ms: Option<u64>) {
        let wall_ms = wall_ms.unwrap_or_else(|| self.clock.wall_ms());
        let at = WallTime(i64::try_from(wall_ms).unwrap_or(i64::MAX));
        let ends = is_end(&what);
        {
            let mut spool = self.spool.lock();
            match spool.append(run, start, at, what) {
                Ok(true) if ends => self.put_aside(run),
                // Where the disk took nothing the directory is what is left of the end.
                Ok(_) => {}
                Err(error) => tracing::error!(error = %error, "a fact was dropped"),
            }
        }
        self.spool.changed.notify_one();
    }

    /// Moves the directory of a run to the ended ones.
    pub fn put_aside(&self, run: RunId) {
        let moved = xce_failpoint::check(Point::StateAsideBefore)
            .and_then(|()| fs::rename(self.dir.run(run), self.dir.ended(run)));
        match moved {
            Ok(()) => xce_failpoint::hit(Point::StateAsideAfter),
            // It never came to be.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::error!(run = ?run, error = %error, "a run cannot be put aside");
            }
        }
    }
}

/// The spool, and who waits for it. Its lock is held for one small write at most.
#[derive(Debug)]
pub struct SpoolDesk {
    spool: Mutex<Spool>,
    /// Wakes the sender.
    pub changed: Notify,
    /// Wakes whoever waits until everything is committed.
    pub taken: Notify,
}

impl SpoolDesk {
    fn new(spool: Spool) -> Self {
        Self {
            spool: Mutex::new(spool),
            changed: Notify::new(),
            taken: Notify::new(),
        }
    }

    /// The spool. A panic while it was held leaves it usable: every change is one step.
    pub fn lock(&self) -> MutexGuard<'_, Spool> {
        self.spool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the controller's mark.
    ///
    /// # Errors
    /// When the file cannot be written anew.
    pub fn committed(&self, mark: &ReportsCommitted) -> io::Result<Mark> {
        let outcome = self.lock().committed_to(mark);
        self.taken.notify_waiters();
        outcome
    }
}

/// A live run as others know it.
#[derive(Debug, Clone)]
pub struct LiveRun {
    /// Its actor.
    pub address: Address<RunMessage>,
    /// What it holds of the host.
    pub holds: Remnant,
    /// Whether and why it is to stop; kept here since an order in a mailbox dies with its actor.
    pub stop: Option<Cause>,
    /// Whether nobody sends it work any more, so that it is not drained longer.
    pub drained: bool,
}

/// Runs that have not ended.
#[derive(Debug, Default)]
pub struct Roster {
    live: Mutex<HashMap<RunId, LiveRun>>,
    /// Wakes whoever waits for runs to end.
    pub ended: Notify,
}

impl Roster {
    fn lock(&self) -> MutexGuard<'_, HashMap<RunId, LiveRun>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a run whose actor `spawn` starts; a run that ends at once leaves only after that.
    ///
    /// # Errors
    /// What `spawn` says; nothing is entered then.
    pub fn enter<E>(
        &self,
        run: RunId,
        holds: Remnant,
        spawn: impl FnOnce() -> Result<Address<RunMessage>, E>,
    ) -> Result<(), E> {
        let mut live = self.lock();
        let address = spawn()?;
        live.insert(
            run,
            LiveRun {
                address,
                holds,
                stop: None,
                drained: false,
            },
        );
        Ok(())
    }

    /// Takes a run out.
    pub fn leave(&self, run: RunId) {
        self.lock().remove(&run);
        self.ended.notify_waiters();
    }

    /// The actor of a run.
    pub fn address(&self, run: RunId) -> Option<Address<RunMessage>> {
        self.lock().get(&run).map(|live| live.address.clone())
    }

    /// Notes that a run is to stop, and whether it is drained; gives its actor. The first cause stays,
    /// and what is drained stays so.
    pub fn stop(&self, run: RunId, cause: Cause, drained: bool) -> Option<Address<RunMessage>> {
        let mut live = self.lock();
        let entry = live.get_mut(&run)?;
        entry.stop.get_or_insert(cause);
        entry.drained |= drained;
        Some(entry.address.clone())
    }

    /// Whether and why a run is to stop, and whether it is drained.
    pub fn wanted_stop(&self, run: RunId) -> Option<(Cause, bool)> {
        let live = self.lock();
        let entry = live.get(&run)?;
        entry.stop.map(|cause| (cause, entry.drained))
    }

    /// What all live runs hold of the host, in the order of the runs.
    pub fn held(&self) -> Vec<Remnant> {
        let mut held: Vec<_> = self
            .lock()
            .values()
            .map(|live| live.holds.clone())
            .collect();
        held.sort_unstable_by_key(|one| (one.job, one.run));
        held
    }

    /// All live runs, in order.
    pub fn runs(&self) -> Vec<RunId> {
        let mut runs: Vec<_> = self.lock().keys().copied().collect();
        runs.sort_unstable();
        runs
    }

    /// All actors of live runs.
    pub fn addresses(&self) -> Vec<Address<RunMessage>> {
        self.lock()
            .values()
            .map(|live| live.address.clone())
            .collect()
    }

    /// Number of live runs.
    pub fn count(&self) -> usize {
        self.lock().len()
    }
}

/// Runs that have ended and whose directory is kept, oldest first.
#[derive(Debug, Default)]
pub struct EndedRuns(Mutex<EndedIndex>);

#[derive(Debug, Default)]
struct EndedIndex {
    order: VecDeque<(i64, RunId)>,
    known: HashSet<RunId>,
}

impl EndedRuns {
    fn lock(&self) -> MutexGuard<'_, EndedIndex> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a run that ended at `at_ms`, milliseconds since boot; negative before it.
    pub fn add(&self, run: RunId, at_ms: i64) {
        let mut index = self.lock();
        if index.known.insert(run) {
            index.order.push_back((at_ms, run));
        }
    }

    /// Whether a run has ended here.
    pub fn contains(&self, run: RunId) -> bool {
        self.lock().known.contains(&run)
    }

    /// Number of runs.
    pub fn count(&self) -> usize {
        self.lock().known.len()
    }

    /// Takes the oldest runs that ended before `before_ms`, and those beyond `kept_max`; at most
    /// `most`, and none that `keep` wants to stay.
    pub fn take_old(
        &self,
        before_ms: i64,
        kept_max: usize,
        most: usize,
        keep: impl Fn(RunId) -> bool,
    ) -> Vec<RunId> {
        let mut index = self.lock();
        let mut taken = Vec::new();
        while taken.len() < most
            && let Some((at_ms, run)) = index.order.front().copied()
            && (at_ms < before_ms || index.order.len() > kept_max)
            && !keep(run)
        {
            index.order.pop_front();
            index.known.remove(&run);
            taken.push(run);
        }
        taken
    }
}
