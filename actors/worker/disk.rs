//! Whether the disk of the state directory has room: on a full one no exit can be recorded, so
//! nothing more is started there.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Free bytes below which the disk counts as full.
///
/// Source: derived; a thousand orders and exit records of 4 KiB, so that what runs can still end.
const FULL_BELOW: u64 = 4 * 1024 * 1024;

/// Free bytes from which on it has room again.
///
/// Source: derived; four times [`FULL_BELOW`], so that a host does not open and close all the time.
const ROOM_FROM: u64 = 4 * FULL_BELOW;

/// Free entries below which the disk counts as full, and from which on it has room again.
///
/// Source: derived; a run makes ten entries.
const ENTRIES_FULL_BELOW: u64 = 100;
/// See [`ENTRIES_FULL_BELOW`].
const ENTRIES_ROOM_FROM: u64 = 1_000;

/// What is free on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Free {
    /// Bytes that this process may still write.
    pub bytes: u64,
    /// Entries that it may still make; absent where the file system does not count them.
    pub entries: Option<u64>,
}

impl Free {
    /// What is free where `path` lies. Blocking, and short.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn at(path: &Path) -> io::Result<Self> {
        let found = rustix::fs::statvfs(path)?;
        let is_root = rustix::process::geteuid().is_root();
        let blocks = if is_root {
            found.f_bfree
        } else {
            found.f_bavail
        };
        Ok(Self {
            bytes: blocks.saturating_mul(found.f_frsize),
            entries: (found.f_files > 0).then_some(found.f_ffree),
        })
    }
}

/// Whether the disk is full, as last seen.
#[derive(Debug, Default)]
pub struct Disk(AtomicBool);

impl Disk {
    /// Whether it is full.
    pub fn is_full(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Takes a look in; whether that changes anything.
    pub fn note(&self, free: Free) -> bool {
        let was_full = self.is_full();
        let is_full = judge(was_full, free);
        self.0.store(is_full, Ordering::Release);
        is_full != was_full
    }
}

fn judge(was_full: bool, free: Free) -> bool {
    let (bytes, entries) = match was_full {
        true => (ROOM_FROM, ENTRIES_ROOM_FROM),
        false => (FULL_BELOW, ENTRIES_FULL_BELOW),
    };
    free.bytes < bytes || free.entries.is_some_and(|left| left < entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_has_room_again_when_there_is_some_more() {
        const MIB: u64 = 1024 * 1024;
        let table = [
            // was full, bytes, entries, is full
            (false, 100 * MIB, None, false),
            (false, 4 * MIB, None, false),
            (false, 4 * MIB - 1, None, true),
            (true, 4 * MIB, None, true),
            (true, 16 * MIB, None, false),
            (false, 100 * MIB, Some(99), true),
            (false, 100 * MIB, Some(100), false),
            (true, 100 * MIB, Some(999), true),
            (true, 100 * MIB, Some(1_000), false),
        ];
        for (was_full, bytes, entries, expected) in table {
            let free = Free { bytes, entries };
            assert_eq!(judge(was_full, free), expected, "{was_full} {free:?}");
        }
    }

    #[test]
    fn this_machine_says_what_is_free() {
        assert!(Free::at(Path::new("/")).unwrap().bytes > 0);
        assert!(Free::at(Path::new("/no/such/place")).is_err());
    }
}
