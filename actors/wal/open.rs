//! Opens a state directory: lock, snapshot, log, consensus, then the actor.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{mpsc, oneshot, watch};

use crate::actor::{Actor, ActorParts, Limits, footprint};
use crate::batch::BLOCK_BYTES;
use crate::config::WalConfig;
use crate::device::{Disk, FileDisk};
use crate::directory::StateDirectory;
use crate::error::{Damage, OpenError};
use crate::handle::{DiskWal, Wal};
use crate::machine::Machine;
use crate::raft::{LogStore, RaftNode, StateMachine, Waiters};
use crate::recover::{Recovered, io_error, recover, remove_leftovers};
use crate::segment_log::{LogFigures, LogParts, SegmentLog};
use crate::snapshot::{SnapshotInfo, SnapshotStore};
use crate::spare::{SpareOptions, SpareStatus, Spares};
use crate::status::Shared;
use crate::writer::{LogThread, OnFatal};

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

type Fatal = Box<dyn Fn(String) + Send + Sync>;

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
    let foundation = Foundation::lay(config, machine, on_fatal);
    let started = foundation.and_then(|foundation| {
        let (base, parts) = foundation;
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

/// What must end after consensus has ended, in this order.
struct Foundation {
    _thread: LogThread,
    _directory: StateDirectory,
    closing: Arc<AtomicBool>,
    fatal: OnFatal,
    shared: Arc<Shared>,
}

/// What consensus and the actor start from.
struct Parts<M: Machine> {
    log: LogStore,
    machine: StateMachine<M>,
    waiters: Arc<Waiters<M::Outcome>>,
    snapshots: Arc<SnapshotStore>,
    figures: Arc<LogFigures>,
    spare: watch::Receiver<SpareStatus>,
    disk: Arc<dyn Disk>,
    bytes_since_snapshot: u64,
}

impl Foundation {
    /// Recovers everything and starts the log thread.
    fn lay<M: Machine>(
        config: &WalConfig,
        mut machine: M,
        on_fatal: Fatal,
    ) -> Result<(Self, Parts<M>), OpenError> {
        let directory = StateDirectory::open(config)?;
        let recovered = recover_log(&directory, config)?;
        let snapshots = Arc::new(SnapshotStore::new(directory.snapshots(), config.cluster_id));
        let restored = restore(&snapshots, &recovered, &directory, &mut machine)?;
        let disk = match &config.disk {
            Some(disk) => Arc::clone(disk),
            None => Arc::new(FileDisk::probe(&config.dir).map_err(io_error("probe", &config.dir))?),
        };
        let Recovered {
            marks,
            entries,
            segments,
            tail,
            ..
        } = recovered;
        let spares = Spares::start(SpareOptions {
            directory: directory.log(),
            disk: Arc::clone(&disk),
            segment_bytes: config.segment_bytes,
            retry: config.space_retry,
        })
        .map_err(io_error("start a thread for", &config.dir))?;
        let spare = spares.watch();
        let parts = LogParts {
            directory: directory.log(),
            cluster_id: config.cluster_id,
            node_id: config.node_id,
            disk: Arc::clone(&disk),
            spares,
            marks,
            segments,
            segment_bytes: config.segment_bytes,
        };
        let log =
            SegmentLog::open(parts, tail).map_err(io_error("open the log in", &config.dir))?;
        if !directory.is_known() {
            directory.write_identity(config)?;
        }
        let figures = log.figures();
        let shared = Arc::new(Shared::default());
        let closing = Arc::new(AtomicBool::new(false));
        let fatal = once(on_fatal, &shared, &closing);
        let (thread, writer) = LogThread::start(log, config.watermark_after, Arc::clone(&fatal))
            .map_err(io_error("start a thread for", &config.dir))?;
        let damaged = |detail| Damage {
            file: directory.log(),
            offset: 0,
            detail,
        };
        let waiters = Arc::new(Waiters::default());
        let parts = Parts {
            log: LogStore::new(writer, marks, &entries).map_err(damaged)?,
            machine: StateMachine::new(
                machine,
                restored.as_ref(),
                Arc::clone(&waiters),
                Arc::clone(&snapshots),
                Arc::clone(&shared),
            )
            .map_err(damaged)?,
            waiters,
            snapshots,
            figures,
            spare,
            disk,
            bytes_since_snapshot: entries
                .iter()
                .map(|entry| footprint(entry.payload.len()))
                .sum(),
        };
        let base = Self {
            _thread: thread,
            _directory: directory,
            closing,
            fatal,
            shared,
        };
        Ok((base, parts))
    }
}

/// Lets only the first error through, and none that comes from closing.
fn once(on_fatal: Fatal, shared: &Arc<Shared>, closing: &Arc<AtomicBool>) -> OnFatal {
    let (shared, closing) = (Arc::clone(shared), Arc::clone(closing));
    Arc::new(move |text: String| {
        if !closing.load(Ordering::Acquire) && shared.fail(&text) {
            tracing::error!(reason = text, "write-ahead log failed");
            on_fatal(text);
        }
    })
}

fn recover_log(directory: &StateDirectory, config: &WalConfig) -> Result<Recovered, OpenError> {
    let log = directory.log();
    let recovered = recover(&log, config.cluster_id, config.node_id)?;
    let damage = |detail: &str| Damage {
        file: log.clone(),
        offset: 0,
        detail: detail.to_owned(),
    };
    if directory.is_known() && recovered.tail.is_none() {
        return Err(damage("the log segments are missing").into());
    }
    if !directory.is_known() && !recovered.is_blank() {
        return Err(damage("it holds entries although the file IDENTITY is missing").into());
    }
    if let Some((path, offset)) = &recovered.torn {
        tracing::warn!(path = %path.display(), offset, "torn batch at the end of the log dropped");
    }
    remove_leftovers(&log)?;
    Ok(recovered)
}

/// Restores the newest usable snapshot and checks that the log goes on from it.
fn restore<M: Machine>(
    snapshots: &SnapshotStore,
    recovered: &Recovered,
    directory: &StateDirectory,
    machine: &mut M,
) -> Result<Option<SnapshotInfo>, OpenError> {
    let purged = recovered.marks.purged.map_or(0, |purged| purged.index);
    let restored = match snapshots.restore_newest(machine) {
        Ok(restored) => restored,
        Err(error) if purged > 0 => return Err(error),
        Err(_) => {
            // The whole log is there: start from nothing, whatever a broken snapshot left behind.
            machine
                .restore(&mut std::iter::empty())
                .map_err(OpenError::Snapshot)?;
            None
        }
    };
    let covered = restored.as_ref().map_or(0, SnapshotInfo::lsn);
    let last = recovered.marks.last.map_or(0, |last| last.index);
    let damage = |file: &Path, detail| Damage {
        file: file.to_path_buf(),
        offset: 0,
        detail,
    };
    if covered < purged {
        let detail = format!(
            "the log was purged up to {purged}, but the newest usable snapshot covers only {covered}"
        );
        return Err(damage(&directory.snapshots(), detail).into());
    }
    if covered > last {
        let detail = format!("the log ends at {last}, but a snapshot covers {covered}");
        return Err(damage(&directory.log(), detail).into());
    }
    Ok(restored)
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
        let starting = RaftNode::start(
            config.node_id,
            parts.log,
            parts.machine,
            Arc::clone(&shared),
        );
        let node = tokio::select! {
            biased;
            started = starting => started,
            alarm = no_room_to_start(parts.spare.clone(), &parts.figures) => Err(alarm),
        };
        let node = node.map_err(|detail| OpenError::Consensus { detail })?;
        let (requests, queue) = mpsc::channel(config.queue_groups);
        let actor = Actor::new(ActorParts {
            requests: queue,
            node: node.clone(),
            waiters: parts.waiters,
            snapshots: parts.snapshots,
            shared: Arc::clone(&shared),
            figures: Arc::clone(&parts.figures),
            spare: parts.spare.clone(),
            limits: Limits {
                entry_bytes: config.entry_bytes,
                entry_groups: config.entry_groups,
                snapshot_every_entries: config.snapshot_every_entries,
                snapshot_every_bytes: config.snapshot_every_bytes,
                log_keep_entries: config.log_keep_entries,
            },
            bytes_since_snapshot: parts.bytes_since_snapshot,
        });
        tokio::spawn(follow_space(parts.spare, Arc::clone(&shared)));
        let wal = Wal::on_disk(DiskWal {
            requests,
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
