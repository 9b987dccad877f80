//! Opens a state directory: lock, snapshot, log, consensus, then the actor.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::{mpsc, oneshot, watch};

use crate::actor::{Actor, ActorParts};
use crate::batch::BLOCK_BYTES;
use crate::config::WalConfig;
use crate::error::OpenError;
use crate::foundation::{Fatal, Foundation, Ground, Parts};
use crate::handle::{DiskWal, Wal};
use crate::journal::JournalSource;
use crate::machine::Machine;
use crate::peers::Member;
use crate::raft::{Begin, RaftNode, Unfit};
use crate::recover::io_error;
use crate::rejoining;
use crate::request::Limits;
use crate::segment_log::LogFigures;
use crate::spare::SpareStatus;
use crate::status::Shared;
use crate::writer::OnFatal;

/// Opens the WAL in `config.dir`, restores `machine` from snapshot and log, and becomes leader.
///
/// `on_fatal` is called at most once, from any thread, with the first error of the disk or of
/// consensus; after that nothing is ever written again and the process should end.
///
/// # Errors
/// The directory is in use, foreign, newer, damaged or not initialised, or the system fails.
pub async fn open<M: Machine>(
    config: WalConfig,
    machine: M,
    on_fatal: impl Fn(String) + Send + Sync + 'static,
) -> Result<Wal<M>, OpenError> {
    config.check()?;
    let (ready, opened) = oneshot::channel();
    let dir = config.dir.clone();
    std::thread::Builder::new()
        .name("xce-raft".into())
        .spawn(move || live(&config, machine, Box::new(on_fatal), ready))
        .map_err(io_error("start a thread for", &dir))?;
    let lost = || OpenError::Consensus {
        detail: "its thread ended".into(),
    };
    opened.await.unwrap_or_else(|_| Err(lost()))
}

/// The life of the consensus thread.
fn live<M: Machine>(
    config: &WalConfig,
    machine: M,
    on_fatal: Fatal,
    ready: oneshot::Sender<Result<Wal<M>, OpenError>>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(io_error("start consensus for", &config.dir));
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return drop(ready.send(Err(error))),
    };
    // Ends last: whoever waits for it may open the directory again.
    let (end, ended) = watch::channel(());
    let mut machine = machine;
    let surveyed = runtime.block_on(survey(config, &mut machine));
    let started = surveyed.and_then(|ground| {
        let (base, parts) = Foundation::lay(config, ground, machine, on_fatal)?;
        rejoining::finish(&config.dir)?;
        runtime.block_on(Running::start(config, base, parts, ended))
    });
    match started {
        Ok((running, wal)) => {
            // When the opener has left, the actor finds its queue closed and ends.
            drop(ready.send(Ok(wal)));
            let base = runtime.block_on(running.serve());
            drop(runtime);
            drop(base);
            drop(end);
        }
        Err(error) => {
            drop(runtime);
            drop(end);
            drop(ready.send(Err(error)));
        }
    }
}

/// Reads a directory; one that cannot be used is begun again when others take this controller in.
async fn survey<M: Machine>(config: &WalConfig, machine: &mut M) -> Result<Ground, OpenError> {
    let error = match Ground::survey(config, machine) {
        Err(error) if rejoining::is_curable(&error) => error,
        surveyed => return surveyed,
    };
    rejoining::rejoin(config, error).await?;
    // Whatever a broken snapshot left behind.
    machine.clear();
    Ground::begin_again(config, machine)
}

/// Consensus and actor, running.
struct Running<M: Machine> {
    node: RaftNode<M>,
    actor: Actor<M>,
    base: Foundation,
}

impl<M: Machine> Running<M> {
    async fn start(
        config: &WalConfig,
        base: Foundation,
        parts: Parts<M>,
        ended: watch::Receiver<()>,
    ) -> Result<(Self, Wal<M>), OpenError> {
        let shared = Arc::clone(&base.shared);
        let journal = JournalSource {
            cluster_id: config.cluster_id,
            log: parts.log.look(),
            snapshots: Arc::clone(&parts.snapshots),
            shared: Arc::clone(&shared),
        };
        let starting = RaftNode::start(Begin {
            me: Member {
                node: config.node_id,
                address: config.address.clone(),
            },
            found: !config.join && !parts.joins,
            log: parts.log,
            machine: parts.machine,
            shared: Arc::clone(&shared),
            snapshots: Arc::clone(&parts.snapshots),
            peers: Arc::clone(&config.peers),
            notes: parts.notes,
            origin: parts.origin,
            root: config.dir.clone(),
            fatal: Arc::clone(&base.fatal),
        });
        let node = tokio::select! {
            biased;
            started = starting => started,
            alarm = no_room_to_start(parts.spare.clone(), &parts.figures) => Err(alarm),
        };
        let node = node.map_err(|detail| OpenError::Consensus { detail })?;
        let (requests, queue) = mpsc::channel(config.queue_groups);
        let (closing, closed) = watch::channel(false);
        let actor = Actor::new(ActorParts {
            requests: queue,
            closing: closed,
            node: node.clone(),
            waiters: parts.waiters,
            snapshots: parts.snapshots,
            shared: Arc::clone(&shared),
            figures: Arc::clone(&parts.figures),
            spare: parts.spare.clone(),
            limits: Limits::of(config),
            bytes_since_snapshot: parts.bytes_since_snapshot,
        });
        tokio::spawn(follow_space(parts.spare, Arc::clone(&shared)));
        attend(&node, config, &base.fatal);
        let wal = Wal::on_disk(DiskWal {
            requests,
            closing,
            node: node.clone(),
            journal,
            shared,
            figures: parts.figures,
            mode: parts.disk.mode(),
            entry_bytes: config.entry_bytes,
            queue_bytes: config.queue_bytes,
            ended,
        });
        Ok((Self { node, actor, base }, wal))
    }

    /// Serves until closed and gives back what must end last.
    async fn serve(self) -> Foundation {
        let Self { node, actor, base } = self;
        let fatal = Arc::clone(&base.fatal);
        let watch = node.clone().watch();
        tokio::spawn(async move { fatal(watch.await) });
        actor.run().await;
        base.closing.store(true, Ordering::Release);
        base.shared.stopped.store(true, Ordering::Release);
        node.shutdown().await;
        base
    }
}

/// Starts what goes on beside consensus for as long as it runs.
fn attend<M: Machine>(node: &RaftNode<M>, config: &WalConfig, fatal: &OnFatal) {
    tokio::spawn(node.clone().take_notes());
    tokio::spawn(node.clone().promote_learners());
    tokio::spawn(node.clone().compare(config.compare_every));
    let greeting = greet(node.clone(), config.dir.clone(), Arc::clone(fatal));
    tokio::spawn(greeting);
}

/// Ends the log when this node must not take part.
async fn greet<M: Machine>(node: RaftNode<M>, root: PathBuf, fatal: OnFatal) {
    if node.votes() {
        return;
    }
    match node.greet().await {
        // A busy machine may have answered too late.
        None => fatal(node.runs_twice().await),
        Some(Unfit::Running(text)) => fatal(text),
        Some(Unfit::Shorter(text)) => {
            if let Err(error) = rejoining::mark(&root, &text) {
                tracing::error!(%error, "cannot note that this directory is outdated");
            }
            fatal(format!(
                "{text}. Start it again: it then gets all of its state from the others"
            ));
        }
    }
}

/// Ends with the reason when the disk is so full that not even an election can be written.
async fn no_room_to_start(mut spare: watch::Receiver<SpareStatus>, figures: &LogFigures) -> String {
    loop {
        let status = spare.borrow_and_update().clone();
        if let SpareStatus::Failed { alarm } = status
            && figures.remaining.load(Ordering::Acquire) < START_BYTES
        {
            return alarm;
        }
        if spare.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Source: derived; an election writes two votes, an entry and two marks, a block each.
const START_BYTES: u64 = 8 * BLOCK_BYTES as u64;

/// Shows a full disk as an alarm for as long as it lasts.
async fn follow_space(mut spare: watch::Receiver<SpareStatus>, shared: Arc<Shared>) {
    loop {
        let status = spare.borrow_and_update().clone();
        match status {
            SpareStatus::Ready => shared.space_alarm(None),
            // Neither good nor bad news: the last alarm stays until a spare is ready.
            SpareStatus::Preparing => {}
            SpareStatus::Failed { alarm } => shared.space_alarm(Some(alarm)),
        }
        if spare.changed().await.is_err() {
            return;
        }
    }
}
