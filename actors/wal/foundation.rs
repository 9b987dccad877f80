//! What consensus stands on: the locked directory, the recovered log, the restored machine.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

use crate::config::WalConfig;
use crate::device::{Disk, DiskMode, FileDisk};
use crate::directory::{StateDirectory, random};
use crate::error::{Damage, OpenError};
use crate::machine::Machine;
use crate::notes::Notes;
use crate::raft::{LogStore, Origin, StateMachine, Waiters};
use crate::record::{LogMarks, Record, StoredEntry};
use crate::recover::{Recovered, io_error, recover, remove_leftovers};
use crate::rejoining;
use crate::request::footprint;
use crate::segment_log::{LogFigures, LogParts, SegmentInfo, SegmentLog, Tail};
use crate::snapshot::{SnapshotInfo, SnapshotStore};
use crate::spare::{SpareOptions, SpareStatus, Spares};
use crate::status::Shared;
use crate::writer::{LogThread, OnFatal};

/// Called with the first error.
pub(crate) type Fatal = Box<dyn Fn(String) + Send + Sync>;

/// What must end after consensus has ended, in this order.
pub(crate) struct Foundation {
    _thread: LogThread,
    _directory: StateDirectory,
    pub(crate) closing: Arc<AtomicBool>,
    pub(crate) fatal: OnFatal,
    pub(crate) shared: Arc<Shared>,
}

/// What consensus and the actor start from.
pub(crate) struct Parts<M: Machine> {
    pub(crate) log: LogStore,
    pub(crate) machine: StateMachine<M>,
    pub(crate) waiters: Arc<Waiters<M::Outcome>>,
    pub(crate) snapshots: Arc<SnapshotStore>,
    pub(crate) figures: Arc<LogFigures>,
    pub(crate) spare: watch::Receiver<SpareStatus>,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) bytes_since_snapshot: u64,
    /// Whether an empty log waits for a cluster to take it in.
    pub(crate) joins: bool,
    pub(crate) origin: Origin,
    pub(crate) notes: Arc<Notes>,
}

/// What a state directory holds, read and found whole.
pub(crate) struct Ground {
    directory: StateDirectory,
    recovered: Recovered,
    snapshots: Arc<SnapshotStore>,
    restored: Option<SnapshotInfo>,
}

impl Ground {
    /// Locks a directory, reads its log, and restores its newest usable snapshot.
    pub(crate) fn survey<M: Machine>(
        config: &WalConfig,
        machine: &mut M,
    ) -> Result<Self, OpenError> {
        if let Some(outdated) = rejoining::marked(&config.dir) {
            return Err(outdated);
        }
        Self::read(config, machine)
    }

    /// The same for a directory that was set aside, and waits for a cluster to take it in.
    pub(crate) fn begin_again<M: Machine>(
        config: &WalConfig,
        machine: &mut M,
    ) -> Result<Self, OpenError> {
        let config = WalConfig {
            create: true,
            join: true,
            ..config.clone()
        };
        Self::read(&config, machine)
    }

    fn read<M: Machine>(config: &WalConfig, machine: &mut M) -> Result<Self, OpenError> {
        let directory = StateDirectory::open(config)?;
        let recovered = recover_log(&directory, config)?;
        let snapshots = Arc::new(SnapshotStore::new(
            plain_disk(config),
            directory.snapshots(),
            config.cluster_id,
        ));
        let restored = restore(&snapshots, &recovered, &directory, machine)?;
        Ok(Self {
            directory,
            recovered,
            snapshots,
            restored,
        })
    }
}

impl Foundation {
    /// Starts the log thread on what was found.
    pub(crate) fn lay<M: Machine>(
        config: &WalConfig,
        ground: Ground,
        machine: M,
        on_fatal: Fatal,
    ) -> Result<(Self, Parts<M>), OpenError> {
        let Ground {
            directory,
            recovered,
            snapshots,
            restored,
        } = ground;
        let start = random().map_err(io_error("name a start of", &config.dir))?;
        let Recovered {
            mut marks,
            mut entries,
            segments,
            tail,
            ..
        } = recovered;
        let (mut log, disk) = open_log(config, &directory, marks, segments, tail)?;
        if let Some(purged) = purge_after_install(restored.as_ref(), marks) {
            log.append(std::slice::from_ref(&purged))
                .map_err(io_error("write the log in", &config.dir))?;
            marks.follow(&purged);
            entries.clear();
        }
        let spare = log.spares().watch();
        let figures = log.figures();
        let shared = Arc::new(Shared::default());
        let closing = Arc::new(AtomicBool::new(false));
        let fatal = once(on_fatal, &shared, &closing);
        let (thread, writer) = LogThread::start(log, config.watermark_after, Arc::clone(&fatal))
            .map_err(io_error("start a thread for", &config.dir))?;
        let file = directory.log();
        let damaged = |detail| damage_in(&file, detail);
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
            joins: directory.joins(),
            origin: Origin {
                birth: directory.birth(),
                start,
            },
            notes: Arc::new(Notes::of(&config.dir)),
            bytes_since_snapshot: bytes_after(&entries, restored.as_ref()),
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

fn damage_in(file: &Path, detail: String) -> Damage {
    Damage {
        file: file.to_path_buf(),
        offset: 0,
        detail,
    }
}

/// Bytes of the log that the snapshot does not cover.
fn bytes_after(entries: &VecDeque<StoredEntry>, restored: Option<&SnapshotInfo>) -> u64 {
    let covered = restored.map_or(0, SnapshotInfo::lsn);
    let after = entries
        .iter()
        .filter(|entry| entry.position.index > covered);
    after.map(|entry| footprint(entry.payload.len())).sum()
}

/// What is missing in a log whose node stopped after a snapshot of the primary was installed and before
/// the log was purged up to there.
fn purge_after_install(restored: Option<&SnapshotInfo>, marks: LogMarks) -> Option<Record> {
    let head = &restored?.head;
    let covered = head.last?;
    let missing = head.installed && marks.last.is_none_or(|last| last.index < covered.index);
    missing.then_some(Record::Purged(covered))
}

/// The disk for what is not the log: nothing there is written directly.
pub(crate) fn plain_disk(config: &WalConfig) -> Arc<dyn Disk> {
    let plain = || Arc::new(FileDisk::with_mode(DiskMode::Synced)) as Arc<dyn Disk>;
    config.disk.as_ref().map_or_else(plain, Arc::clone)
}

/// Goes on with the recovered log, or makes a new one and then the file that marks it as made.
pub(crate) fn open_log(
    config: &WalConfig,
    directory: &StateDirectory,
    marks: LogMarks,
    segments: VecDeque<SegmentInfo>,
    tail: Option<Tail>,
) -> Result<(SegmentLog, Arc<dyn Disk>), OpenError> {
    let disk = match &config.disk {
        Some(disk) => Arc::clone(disk),
        None => Arc::new(FileDisk::probe(&config.dir).map_err(io_error("probe", &config.dir))?),
    };
    let spares = Spares::start(SpareOptions {
        directory: directory.log(),
        disk: Arc::clone(&disk),
        segment_bytes: config.segment_bytes,
        retry: config.space_retry,
    })
    .map_err(io_error("start a thread for", &config.dir))?;
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
    let log = SegmentLog::open(parts, tail).map_err(io_error("open the log in", &config.dir))?;
    if !directory.is_known() {
        directory.write_identity(config)?;
    }
    Ok((log, disk))
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

pub(crate) fn recover_log(
    directory: &StateDirectory,
    config: &WalConfig,
) -> Result<Recovered, OpenError> {
    let log = directory.log();
    let disk = plain_disk(config);
    let recovered = recover(disk.as_ref(), &log, config.cluster_id, config.node_id)?;
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
    remove_leftovers(disk.as_ref(), &log)?;
    Ok(recovered)
}

/// Restores the newest usable snapshot and checks that the log goes on from it.
pub(crate) fn restore<M: Machine>(
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
            machine.clear();
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
    let installed = restored.as_ref().is_some_and(|info| info.head.installed);
    if covered > last && !installed {
        let detail = format!("the log ends at {last}, but a snapshot covers {covered}");
        return Err(damage(&directory.log(), detail).into());
    }
    Ok(restored)
}
