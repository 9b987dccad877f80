//! A snapshot that comes from the primary in parts; what is here already is not sent again.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

use crate::raft::SnapshotName;

/// Takes parts in, one snapshot at a time.
#[derive(Debug)]
pub(crate) struct Incoming {
    path: PathBuf,
    current: Mutex<Option<Part>>,
}

#[derive(Debug)]
struct Part {
    name: SnapshotName,
    file: File,
    held: u64,
}

impl Incoming {
    /// Nothing yet; parts are kept in `directory`, under a name that a restart removes.
    pub(crate) fn new(directory: &std::path::Path) -> Self {
        Self {
            path: directory.join("incoming.tmp"),
            current: Mutex::new(None),
        }
    }

    /// How much of this snapshot is here; parts of another one are forgotten.
    ///
    /// # Errors
    /// An error of the file system.
    pub(crate) fn offer(&self, name: SnapshotName) -> io::Result<u64> {
        let mut current = self.current();
        if let Some(part) = current.as_ref().filter(|part| part.name == name) {
            return Ok(part.held);
        }
        *current = None;
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&self.path)?;
        *current = Some(Part {
            name,
            file,
            held: 0,
        });
        Ok(0)
    }

    /// Takes a part in where it is the next one; says how much is here.
    ///
    /// # Errors
    /// The snapshot was not offered, is longer than it said, or the file system fails.
    pub(crate) fn part(&self, name: SnapshotName, offset: u64, data: &[u8]) -> io::Result<u64> {
        let mut current = self.current();
        let part = current
            .as_mut()
            .filter(|part| part.name == name)
            .ok_or_else(|| io::Error::other("this snapshot was not offered"))?;
        if offset != part.held {
            return Ok(part.held);
        }
        let end = offset + data.len() as u64;
        if end > name.bytes {
            return Err(io::Error::other("the snapshot is longer than it said"));
        }
        // A part that was written by half is written again.
        part.file.seek(SeekFrom::Start(offset))?;
        part.file.write_all(data)?;
        part.held = end;
        Ok(end)
    }

    /// The file of a snapshot that is here whole, synced; it is the caller's from now on.
    ///
    /// # Errors
    /// It is not whole, or the file system fails.
    pub(crate) fn take(&self, name: SnapshotName) -> io::Result<PathBuf> {
        let mut current = self.current();
        let whole = current
            .as_ref()
            .is_some_and(|part| part.name == name && part.held == name.bytes);
        if !whole {
            return Err(io::Error::other("the snapshot is not here whole"));
        }
        let part = current.take().expect("just looked at");
        part.file.sync_all()?;
        Ok(self.path.clone())
    }

    fn current(&self) -> MutexGuard<'_, Option<Part>> {
        self.current
            .lock()
            .expect("no code panics while it holds this lock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::LogPosition;

    fn name(bytes: u64, mark: u8) -> SnapshotName {
        SnapshotName {
            last: LogPosition { term: 1, index: 9 },
            bytes,
            hash: [mark; 32],
        }
    }

    #[test]
    fn what_is_here_is_not_wanted_again() {
        let dir = tempfile::TempDir::new().unwrap();
        let incoming = Incoming::new(dir.path());
        let wanted = name(6, 1);
        assert_eq!(incoming.offer(wanted).unwrap(), 0);
        assert_eq!(incoming.part(wanted, 0, b"abc").unwrap(), 3);
        // Repeated, too early, and offered again after a lost connection.
        assert_eq!(incoming.part(wanted, 0, b"abc").unwrap(), 3);
        assert_eq!(incoming.part(wanted, 5, b"f").unwrap(), 3);
        assert_eq!(incoming.offer(wanted).unwrap(), 3);
        assert!(incoming.take(wanted).is_err());
        assert!(incoming.part(wanted, 3, b"defg").is_err());
        assert_eq!(incoming.part(wanted, 3, b"def").unwrap(), 6);
        let path = incoming.take(wanted).unwrap();
        assert_eq!(std::fs::read(path).unwrap(), b"abcdef");
    }

    #[test]
    fn another_snapshot_takes_the_place() {
        let dir = tempfile::TempDir::new().unwrap();
        let incoming = Incoming::new(dir.path());
        incoming.offer(name(6, 1)).unwrap();
        incoming.part(name(6, 1), 0, b"abc").unwrap();
        assert_eq!(incoming.offer(name(2, 2)).unwrap(), 0);
        assert!(incoming.part(name(6, 1), 3, b"def").is_err());
        assert_eq!(incoming.part(name(2, 2), 0, b"xy").unwrap(), 2);
        let path = incoming.take(name(2, 2)).unwrap();
        assert_eq!(std::fs::read(path).unwrap(), b"xy");
    }
}
