//! A snapshot that comes from the primary in parts; what is here already is not sent again.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use xce_failpoint::Point;

use crate::device::{Device, Disk, write_fully};
use crate::raft::SnapshotName;
use crate::record::{LogPosition, u32_at, u64_at};

/// Version of the note that says what the parts belong to.
const NOTE_VERSION: u8 = 1;
/// Version, term, index, bytes, hash, checksum.
const NOTE_BYTES: usize = 1 + 8 + 8 + 8 + 32 + 4;

/// Takes parts in, one snapshot at a time. Parts outlive a restart of the process; after a power cut
/// some may be missing, which the checksums of the whole find.
pub(crate) struct Incoming {
    disk: Arc<dyn Disk>,
    /// Parts so far, one after another.
    path: PathBuf,
    /// Names the snapshot that they belong to.
    note: PathBuf,
    current: Mutex<Option<Part>>,
}

struct Part {
    name: SnapshotName,
    file: Box<dyn Device>,
    held: u64,
}

impl Incoming {
    /// Nothing yet; parts are kept in `directory`.
    pub(crate) fn new(disk: Arc<dyn Disk>, directory: &Path) -> Self {
        Self {
            disk,
            path: directory.join("incoming.part"),
            note: directory.join("incoming.name"),
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
        let held = if current.is_none() && self.noted() == Some(name) {
            std::fs::metadata(&self.path).map_or(0, |known| known.len().min(name.bytes))
        } else {
            0
        };
        *current = None;
        let file = self.disk.create(&self.path, held > 0)?;
        if held == 0 {
            let mut note = self.disk.create(&self.note, false)?;
            write_fully(note.as_mut(), &note_bytes(name), 0)?;
        }
        *current = Some(Part { name, file, held });
        Ok(held)
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
        write_fully(part.file.as_mut(), data, offset)?;
        xce_failpoint::check(Point::SnapshotPart)?;
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
        let mut part = current.take().expect("just looked at");
        part.file.sync()?;
        xce_failpoint::check(Point::SnapshotWhole)?;
        Ok(self.path.clone())
    }

    /// Forgets what was taken: it is installed, or it is not what it said.
    pub(crate) fn done(&self) {
        let current = self.current();
        if current.is_none() {
            // The note first: parts without one are never gone on with.
            for path in [&self.note, &self.path] {
                if let Err(error) = self.disk.remove(path) {
                    tracing::warn!(path = %path.display(), %error, "parts of a snapshot not removed");
                }
            }
        }
    }

    fn noted(&self) -> Option<SnapshotName> {
        let mut bytes = Vec::new();
        let input = self.disk.read(&self.note).ok()?;
        input
            .take(NOTE_BYTES as u64 + 1)
            .read_to_end(&mut bytes)
            .ok()?;
        name_in(&bytes)
    }

    fn current(&self) -> MutexGuard<'_, Option<Part>> {
        self.current
            .lock()
            .expect("no code panics while it holds this lock")
    }
}

fn note_bytes(name: SnapshotName) -> Vec<u8> {
    let mut out = vec![NOTE_VERSION];
    for number in [name.last.term, name.last.index, name.bytes] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(&name.hash);
    let crc = crc32c::crc32c(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

fn name_in(bytes: &[u8]) -> Option<SnapshotName> {
    let covered = NOTE_BYTES - 4;
    let fits = bytes.len() == NOTE_BYTES
        && bytes[0] == NOTE_VERSION
        && u32_at(bytes, covered) == crc32c::crc32c(&bytes[..covered]);
    fits.then(|| SnapshotName {
        last: LogPosition {
            term: u64_at(bytes, 1),
            index: u64_at(bytes, 9),
        },
        bytes: u64_at(bytes, 17),
        hash: bytes[25..covered].try_into().unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::synced as disk;

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
        let incoming = Incoming::new(disk(), dir.path());
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
        let incoming = Incoming::new(disk(), dir.path());
        incoming.offer(name(6, 1)).unwrap();
        incoming.part(name(6, 1), 0, b"abc").unwrap();
        assert_eq!(incoming.offer(name(2, 2)).unwrap(), 0);
        assert!(incoming.part(name(6, 1), 3, b"def").is_err());
        assert_eq!(incoming.part(name(2, 2), 0, b"xy").unwrap(), 2);
        let path = incoming.take(name(2, 2)).unwrap();
        assert_eq!(std::fs::read(path).unwrap(), b"xy");
    }

    #[test]
    fn parts_outlive_a_restart() {
        let dir = tempfile::TempDir::new().unwrap();
        let wanted = name(6, 1);
        let before = Incoming::new(disk(), dir.path());
        before.offer(wanted).unwrap();
        before.part(wanted, 0, b"abc").unwrap();
        drop(before);
        let after = Incoming::new(disk(), dir.path());
        assert_eq!(after.offer(wanted).unwrap(), 3);
        assert_eq!(after.part(wanted, 3, b"def").unwrap(), 6);
        assert_eq!(
            std::fs::read(after.take(wanted).unwrap()).unwrap(),
            b"abcdef"
        );
        after.done();
        // Another one, or a note that is damaged, begins anew.
        assert_eq!(after.offer(name(6, 2)).unwrap(), 0);
        after.part(name(6, 2), 0, b"ab").unwrap();
        let again = Incoming::new(disk(), dir.path());
        assert_eq!(again.offer(wanted).unwrap(), 0);
        std::fs::write(dir.path().join("incoming.name"), b"?").unwrap();
        let again = Incoming::new(disk(), dir.path());
        assert_eq!(again.offer(wanted).unwrap(), 0);
    }
}
