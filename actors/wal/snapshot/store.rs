//! The folder of snapshots: the two newest are kept.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use xce_failpoint::Point;

use super::read::SnapshotReader;
use super::write::write_snapshot;
use super::{FOOTER_BYTES, SnapshotHead};
use crate::device::Disk;
use crate::error::{OpenError, SnapshotError};
use crate::machine::Machine;
use crate::recover::io_error;

/// Source: the design; a broken newest one falls back to the older plus log.
const KEPT: usize = 2;

/// One snapshot on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SnapshotInfo {
    pub(crate) path: PathBuf,
    pub(crate) head: SnapshotHead,
}

impl SnapshotInfo {
    /// LSN that it covers, zero for none.
    pub(crate) fn lsn(&self) -> u64 {
        self.head.last.map_or(0, |last| last.index)
    }
}

/// The snapshots of one state directory.
pub(crate) struct SnapshotStore {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    cluster_id: [u8; 16],
    /// Usable ones, oldest first.
    kept: Mutex<Vec<SnapshotInfo>>,
}

impl SnapshotStore {
    /// A store over `directory`; knows no snapshot before [`SnapshotStore::restore_newest`].
    pub(crate) fn new(disk: Arc<dyn Disk>, directory: PathBuf, cluster_id: [u8; 16]) -> Self {
        Self {
            disk,
            directory,
            cluster_id,
            kept: Mutex::new(Vec::new()),
        }
    }

    /// The folder.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Where it lies.
    pub(crate) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// The newest usable snapshot.
    pub(crate) fn newest(&self) -> Option<SnapshotInfo> {
        self.kept().last().cloned()
    }

    /// Usable snapshots, oldest first.
    pub(crate) fn kept_infos(&self) -> Vec<SnapshotInfo> {
        self.kept().clone()
    }

    /// Up to where the log may be purged: what the older of two kept snapshots covers.
    pub(crate) fn purge_limit(&self) -> Option<u64> {
        let kept = self.kept();
        (kept.len() == KEPT).then(|| kept[0].lsn())
    }

    /// Restores the newest usable snapshot into `machine` and says which one it was.
    ///
    /// # Errors
    /// There are snapshots but none can be used. The caller decides whether the log suffices.
    pub(crate) fn restore_newest<M: Machine>(
        &self,
        machine: &mut M,
    ) -> Result<Option<SnapshotInfo>, OpenError> {
        let mut usable = Vec::new();
        let mut failed = None;
        for path in self.list()?.into_iter().rev() {
            match self.check(&path) {
                Ok(head) => usable.push(SnapshotInfo { path, head }),
                Err(error) => {
                    tracing::error!(error = %crate::error::chain(&error), "snapshot not usable");
                    failed = failed.or(Some(error));
                }
            }
        }
        while let Some(info) = usable.first().cloned() {
            match self.restore(&info.path, machine) {
                Ok(_) => {
                    usable.reverse();
                    *self.kept() = usable;
                    return Ok(Some(info));
                }
                Err(error) => {
                    tracing::error!(error = %crate::error::chain(&error), "snapshot not restored");
                    failed = failed.or(Some(error));
                    usable.remove(0);
                }
            }
        }
        failed.map_or(Ok(None), |error| Err(OpenError::Snapshot(error)))
    }

    /// Replaces the state of `machine` by the snapshot at `path`.
    ///
    /// # Errors
    /// The file is damaged or the machine refuses a record.
    pub(crate) fn restore<M: Machine>(
        &self,
        path: &Path,
        machine: &mut M,
    ) -> Result<SnapshotHead, SnapshotError> {
        let (mut reader, head) = SnapshotReader::open(self.disk.as_ref(), path, self.cluster_id)?;
        machine.restore(&mut reader)?;
        // The footer must have been reached, whether the machine read that far or not.
        match reader.find_map(Result::err) {
            Some(error) => Err(error),
            None => Ok(head),
        }
    }

    /// Writes a snapshot and forgets all but the two newest.
    ///
    /// # Errors
    /// An error of the system; nothing is left behind.
    pub(crate) fn write(
        &self,
        head: SnapshotHead,
        records: &mut dyn Iterator<Item = Vec<u8>>,
    ) -> Result<SnapshotInfo, SnapshotError> {
        let index = head.last.map_or(0, |last| last.index);
        let path = self.directory.join(format!("{index:020}.snap"));
        let written = write_snapshot(self.disk.as_ref(), &path, self.cluster_id, &head, records);
        written.map_err(|source| SnapshotError::Io {
            doing: "write snapshot",
            file: path.clone(),
            source,
        })?;
        let info = SnapshotInfo { path, head };
        self.admit(info.clone());
        Ok(info)
    }

    fn admit(&self, info: SnapshotInfo) {
        let mut kept = self.kept();
        kept.retain(|other| other.path != info.path);
        kept.push(info);
        kept.sort_by_key(SnapshotInfo::lsn);
        while kept.len() > KEPT {
            let oldest = kept.remove(0);
            if let Err(error) = self.disk.remove(&oldest.path) {
                tracing::warn!(path = %oldest.path.display(), %error, "old snapshot not removed");
            }
            xce_failpoint::hit(Point::SnapshotForgotten);
        }
    }

    /// Checks every checksum of the snapshot at `path`, unpacks nothing.
    ///
    /// # Errors
    /// The file is damaged, foreign or not readable.
    pub(crate) fn check(&self, path: &Path) -> Result<SnapshotHead, SnapshotError> {
        let (reader, head) = SnapshotReader::open(self.disk.as_ref(), path, self.cluster_id)?;
        reader.verify()?;
        Ok(head)
    }

    /// Paths of all snapshots, oldest first; removes what an interrupted write left behind.
    fn list(&self) -> Result<Vec<PathBuf>, OpenError> {
        let directory = &self.directory;
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(directory).map_err(io_error("list", directory))? {
            let path = entry.map_err(io_error("list", directory))?.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "snap")
            {
                paths.push(path);
            } else if path.extension().is_some_and(|extension| extension == "tmp") {
                match self.disk.remove(&path) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(io_error("remove", &path)(error)),
                }
            }
        }
        paths.sort();
        Ok(paths)
    }

    fn kept(&self) -> MutexGuard<'_, Vec<SnapshotInfo>> {
        self.kept
            .lock()
            .expect("no code panics while it holds this lock")
    }
}

/// The hash in the footer of a snapshot file: with its length and position it names the content.
///
/// # Errors
/// The file cannot be read, or is too short to be a snapshot.
pub(crate) fn snapshot_hash(file: &File) -> io::Result<[u8; 32]> {
    let end = file.metadata()?.len();
    let start = end
        .checked_sub(FOOTER_BYTES as u64)
        .ok_or_else(|| io::Error::other("the file is too short to be a snapshot"))?;
    let mut bytes = [0; FOOTER_BYTES];
    file.read_exact_at(&mut bytes, start)?;
    let mut hash = [0; 32];
    hash.copy_from_slice(&bytes[28..60]);
    Ok(hash)
}
