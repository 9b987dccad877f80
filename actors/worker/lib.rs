//! The worker's half: the daemon part of one host.
//!
//! ```text
//!   controller ◄──QUIC──► agent ──────► runs: run/17-1 ──► xce-shim ──► the job
//!                           │             │    ├─ probes: readiness, liveness, startup
//!                           │             │    └─ memory, records in runs/17-1/
//!                           └── spool ◄───┘ facts: started, ready, restarting, ended …
//! ```
//! Orders come down as levels and are obeyed once; facts go up through the spool and leave it when
//! they are committed. Every part can be killed at any time: jobs live on under their shims, and
//! what is left to do is found again in the state directory.
//!
//! Invariants
//! * A run's end is in the spool before its directory moves to `ended`, and its actor goes only
//!   after that: so each end is told once.
//! * After a start of the worker nothing starts in place before the controller has named every run
//!   that it wants; a run that it does not name is stopped.
//! * Orders of a primary are refused once a later one was heard.
//! * What waits for the controller is bounded, and room is kept for the end of each live run.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use xce_failpoint::Point;
use xce_link::{CloseCode, Dialer, Identity, IdentityError, Role};
use xce_model::{Cause, Refusal};
use xce_runtime::{
    Address, Clock, Entity, Key, Limits, Node, Policy, RealClock, Restart, Root, Shards,
};

pub mod agent;
pub mod disk;
pub mod environment;
pub mod inventory;
pub mod keeper;
pub mod leases;
pub mod memory;
pub mod output;
pub mod probe;
pub mod restart;
pub mod run;
pub mod run_core;
pub mod settings;
pub mod spool;
pub mod state_dir;
pub mod station;
pub mod turns;

pub use settings::Settings;
pub use state_dir::StateDirError;

use agent::{AgentMessage, HostAgent, Leave, enlist};
use keeper::{Keeper, list_ended};
use probe::actor::ProbeActor;
use run::{RunActor, RunMessage, launch};
use spool::{Spool, SpoolIdentity};
use state_dir::StateDir;
use station::Station;

/// How long the last facts may take to be committed when the worker stops.
///
/// Source: chosen; a commit takes milliseconds, and what is not committed stays in the spool.
const LAST_FACTS_WITHIN: Duration = Duration::from_secs(3);

/// How long the agent may take to answer when the worker stops.
///
/// Source: derived; it never waits for anybody.
const AGENT_WITHIN: Duration = Duration::from_secs(2);

/// How long a start waits for the end of a run that cannot be taken over.
///
/// Source: derived; a killed tree is gone within milliseconds unless a process hangs in the kernel.
const ABANDON_WITHIN: Duration = Duration::from_secs(5);

/// Runs leave the tree when they end, and start again when they crash.
const RUN_POLICY: Policy = Policy {
    restart: Restart::OnFailure,
    ..Policy::ENTITY
};

/// Why a worker does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting cannot be.
    #[error("{0}")]
    Settings(Refusal),
    /// The state directory cannot be used.
    #[error(transparent)]
    StateDir(#[from] StateDirError),
    /// The identity cannot be used.
    #[error("cannot use the identity of this worker")]
    Identity(#[from] IdentityError),
    /// The identity is not that of a worker.
    #[error("the identity is that of a {0}, not of a worker")]
    NotAWorker(Role),
    /// The spool or the list of runs cannot be read.
    #[error("cannot read the state of this worker")]
    State(#[source] std::io::Error),
    /// The actor tree cannot be started.
    #[error("cannot start the actors of this worker")]
    Actors(#[from] xce_runtime::Refusal),
}

/// A running worker. Dropping it leaves the jobs running and says goodbye to nobody, like a kill.
#[derive(Debug)]
pub struct Worker {
    station: Arc<Station>,
    node: Arc<Node>,
    root: Root,
    agent: Address<AgentMessage>,
}

/// Starts a worker: takes over what an earlier one left, then joins the cluster for ever.
///
/// Must be called within a tokio runtime of two threads or more, with time and IO.
///
/// # Errors
/// See [`StartError`]; nothing runs then.
pub async fn start(settings: Settings) -> Result<Worker, StartError> {
    let clock: Arc<dyn Clock> = Arc::new(RealClock);
    let identity = Identity::load(&settings.identity_dir)?;
    let principal = identity.principal().clone();
    if principal.role != Role::Worker {
        return Err(StartError::NotAWorker(principal.role));
    }
    let boot_id = xce_shim::machine::boot_id().map_err(StartError::State)?;
    let dir = StateDir::open(&settings.state_dir, principal.cluster, boot_id)?;
    let inventory = inventory::take(&settings, &dir).map_err(StartError::Settings)?;
    let identity_of_spool = SpoolIdentity {
        incarnation: dir.incarnation,
        boot_id: dir.boot_id.clone(),
        wall_ms: clock.wall_ms(),
    };
    let opened = Spool::open(&dir.spool(), identity_of_spool, settings.facts_max);
    let (spool, findings) = opened.map_err(StartError::State)?;
    for finding in dir.findings.iter().chain(&findings) {
        tracing::warn!(finding = %finding, "a part of the state was not restored");
    }
    let mut nonce = [0; 8];
    getrandom::fill(&mut nonce).map_err(StateDirError::Entropy)?;
    let nonce = format!("{:016x}", u64::from_le_bytes(nonce));
    let station = Station::new(settings, dir, inventory, clock.clone(), spool, nonce);
    let station = Arc::new(station);
    let node = Node::new(clock, fastrand::u64(..));
    let root = Root::start(&node, Limits::ROOT).await?;
    let runs = Shards::new(root.supervisor(), RunActor::KIND, RUN_POLICY)?;
    let listing = station.clone();
    let listed = tokio::task::spawn_blocking(move || list_ended(&listing)).await;
    listed.map_err(|error| StartError::State(std::io::Error::other(error)))?;
    let probes = Shards::new(root.supervisor(), ProbeActor::KIND, Policy::ENTITY)?;
    adopt(&station, &runs, &probes).await?;
    let keeper = Keeper {
        station: station.clone(),
    };
    let supervisor = root.supervisor();
    supervisor.spawn(Key::single("keeper"), None, keeper, Policy::ENTITY)?;
    let dialer = Dialer::new(identity, link_settings());
    let agent = HostAgent::new(station.clone(), runs, probes, dialer);
    let agent = supervisor.spawn(Key::single("agent"), None, agent, Policy::ENTITY)?;
    Ok(Worker {
        station,
        node,
        root,
        agent,
    })
}

/// A controller that is gone or frozen says nothing any more, and another one is dialled. The beats of
/// the agent judge whether a controller works; this is only whether it is there.
///
/// Source: derived; four signs of life. Those of 5 000 hosts cost a controller a tenth of a processor
/// (foundations section 3).
fn link_settings() -> xce_link::Settings {
    xce_link::Settings {
        keep_alive: Some(Duration::from_secs(1)),
        idle_timeout: Duration::from_secs(4),
        ..xce_link::Settings::default()
    }
}

/// Starts the actors of the runs that an earlier worker left.
async fn adopt(station: &Arc<Station>, runs: &Shards, probes: &Shards) -> Result<(), StartError> {
    for run in station.dir.runs().map_err(StartError::State)? {
        xce_failpoint::hit(Point::RunAdoptBefore);
        if station.spool.lock().has_end(run) {
            // Told, and killed before the directory was put aside.
            station.put_aside(run);
            let now_ms = i64::try_from(station.clock.monotonic_ms()).unwrap_or(i64::MAX);
            station.ended.add(run, now_ms);
            continue;
        }
        match launch::load_order(&station.dir.run(run)) {
            Ok(spec) if spec.run == run => {
                // A run that lives cannot be refused its room.
                let _ = station.spool.lock().reserve();
                let actor = RunActor::found(spec, station.clone(), probes.clone());
                enlist(station, runs, run, actor);
                xce_failpoint::hit(Point::RunAdoptAfter);
            }
            Ok(_) => tracing::warn!(run = ?run, "the directory of a run holds another run"),
            Err(error) => {
                let dir = station.dir.run(run);
                if launch::never_began(&dir) && std::fs::remove_dir_all(&dir).is_ok() {
                    // It is ordered again.
                    tracing::info!(run = ?run, "a run that never began is forgotten");
                    continue;
                }
                tracing::warn!(run = ?run, error = %error, "the order of a run is lost");
                abandon(station, run).await;
            }
        }
    }
    Ok(())
}

/// Ends a run whose order cannot be read, and tells so: before the worker joins where that is
/// possible, so that no order meets what is left of it.
async fn abandon(station: &Arc<Station>, run: xce_replica::wire::RunId) {
    let station = station.clone();
    let work = async move {
        let dir = station.dir.run(run);
        if let Err(error) = run::shim::reclaim_all(&dir, true, || ()).await {
            tracing::error!(run = ?run, error = %error, "what a run left cannot be found");
        }
        if !station.spool.lock().has_end(run) {
            let exit = xce_model::Exit {
                detail: "its directory could not be read after a start of the worker".to_owned(),
                ..xce_model::Exit::of(Cause::RunLost)
            };
            let what = xce_replica::wire::Happened::Ended {
                exit,
                stderr: String::new(),
            };
            station.report(run, 1, what);
        }
        station.put_aside(run);
    };
    let (done, waiting) = tokio::sync::oneshot::channel();
    let whole = async move {
        work.await;
        // An error says that nobody waits any more.
        let _ = done.send(());
    };
    xce_runtime::Task::spawn(whole).detach();
    let _ = tokio::time::timeout(ABANDON_WITHIN, waiting).await;
}

impl Worker {
    /// The actors of this worker, for inspection.
    pub fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// Identity of the worker's state directory.
    pub fn incarnation(&self) -> xce_model::Incarnation {
        self.station.inventory.incarnation
    }

    /// Runs that have not ended.
    pub fn live_runs(&self) -> usize {
        self.station.roster.count()
    }

    /// Waits until the tree of actors has ended; the text says why, none after a stop.
    pub async fn ended(&self) -> Option<String> {
        self.root.ended().await
    }

    /// Stops the worker. Its jobs go on without it, or are stopped first, within the bound of the
    /// settings; what has not ended by then is still being stopped by its shim.
    pub async fn stop(self, keep_jobs: bool) {
        self.station.leaving.store(true, Ordering::Release);
        let peer = self
            .agent
            .call(
                |reply| {
                    let said = Arc::new(Mutex::new(Some(reply)));
                    AgentMessage::Leave(Leave {
                        keeps_jobs: keep_jobs,
                        said,
                    })
                },
                AGENT_WITHIN,
            )
            .await;
        if !keep_jobs {
            self.stop_jobs().await;
        }
        if let Ok(Some(peer)) = peer {
            let _ = tokio::time::timeout(LAST_FACTS_WITHIN, self.all_committed()).await;
            let _ = tokio::time::timeout(AGENT_WITHIN, peer.finish()).await;
            peer.close(CloseCode::Done, "the worker stops");
        }
        let killed = self.root.shutdown().await;
        if killed > 0 {
            tracing::warn!(killed, "some actors did not end in order");
        }
    }

    async fn stop_jobs(&self) {
        let ending = async {
            for run in self.station.roster.runs() {
                if let Some(address) = self.station.roster.stop(run, Cause::TermShutdown, false) {
                    // One that is down finds it in the roster.
                    let _ = address.cast(RunMessage::Stop(Cause::TermShutdown));
                }
            }
            loop {
                let ended = self.station.roster.ended.notified();
                tokio::pin!(ended);
                ended.as_mut().enable();
                if self.station.roster.count() == 0 {
                    return;
                }
                ended.await;
            }
        };
        if tokio::time::timeout(self.station.settings.stop_within, ending)
            .await
            .is_err()
        {
            let left = self.station.roster.count();
            tracing::warn!(left, "some runs did not end in time");
        }
    }

    async fn all_committed(&self) {
        loop {
            let taken = self.station.spool.taken.notified();
            tokio::pin!(taken);
            taken.as_mut().enable();
            if self.station.spool.lock().waiting() == 0 {
                return;
            }
            taken.await;
        }
    }
}
