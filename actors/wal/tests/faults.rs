//! A disk that fails on request: short writes, errors, lost unsynced writes, no space, a pulled plug.

use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use crate::batch::BLOCK_BYTES;
use crate::{Device, Disk, DiskMode, FileDisk};

const NEVER: u64 = u64::MAX;

/// What goes wrong, and what has happened so far.
#[derive(Debug)]
pub(super) struct Faults {
    pub(super) writes: AtomicU64,
    pub(super) syncs: AtomicU64,
    /// The write with this number fails.
    pub(super) fail_write: AtomicU64,
    /// The sync with this number fails.
    pub(super) fail_sync: AtomicU64,
    /// From the write with this number on nothing reaches the disk; of that one only some blocks.
    pub(super) pull_plug: AtomicU64,
    /// How many blocks of the write during which the plug is pulled still arrive.
    pub(super) torn_blocks: AtomicU64,
    /// Each write takes one block only.
    pub(super) short_writes: AtomicBool,
    /// Preallocation finds no space.
    pub(super) full: AtomicBool,
    held: Mutex<bool>,
    release: Condvar,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            writes: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
            fail_write: AtomicU64::new(NEVER),
            fail_sync: AtomicU64::new(NEVER),
            pull_plug: AtomicU64::new(NEVER),
            torn_blocks: AtomicU64::new(0),
            short_writes: AtomicBool::new(false),
            full: AtomicBool::new(false),
            held: Mutex::new(false),
            release: Condvar::new(),
        }
    }
}

impl Faults {
    /// Lets writes wait until [`Faults::let_go`].
    pub(super) fn hold(&self) {
        *self.held.lock().unwrap() = true;
    }

    pub(super) fn let_go(&self) {
        *self.held.lock().unwrap() = false;
        self.release.notify_all();
    }

    fn wait(&self) {
        let held = self.held.lock().unwrap();
        drop(self.release.wait_while(held, |held| *held).unwrap());
    }
}

/// A disk whose unsynced writes are lost when a segment is closed.
pub(super) struct FaultyDisk {
    inner: FileDisk,
    pub(super) faults: Arc<Faults>,
}

impl FaultyDisk {
    pub(super) fn with_faults() -> (Arc<dyn Disk>, Arc<Faults>) {
        let faults = Arc::new(Faults::default());
        let inner = FileDisk::with_mode(DiskMode::Synced);
        (
            Arc::new(Self {
                inner,
                faults: Arc::clone(&faults),
            }),
            faults,
        )
    }
}

impl Disk for FaultyDisk {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Device>> {
        let inner = self.inner.open(path)?;
        Ok(Box::new(FaultyDevice {
            inner,
            faults: Arc::clone(&self.faults),
            pending: Vec::new(),
        }))
    }

    fn preallocate(&self, path: &Path, bytes: u64) -> io::Result<()> {
        if self.faults.full.load(Ordering::SeqCst) {
            // What a full disk leaves behind: the file, but not all of it.
            std::fs::write(path, [0; 100])?;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.inner.preallocate(path, bytes)
    }

    fn create(&self, path: &Path, keep: bool) -> io::Result<Box<dyn Device>> {
        self.inner.create(path, keep)
    }

    fn read(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        self.inner.read(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.inner.sync_directory(path)
    }

    fn mode(&self) -> DiskMode {
        DiskMode::Synced
    }
}

struct FaultyDevice {
    inner: Box<dyn Device>,
    faults: Arc<Faults>,
    pending: Vec<(u64, Vec<u8>)>,
}

impl Device for FaultyDevice {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.faults.wait();
        let number = self.faults.writes.fetch_add(1, Ordering::SeqCst);
        if number == self.faults.fail_write.load(Ordering::SeqCst) {
            return Err(io::Error::other("injected write error"));
        }
        let plug = self.faults.pull_plug.load(Ordering::SeqCst);
        if number >= plug {
            let blocks = self.faults.torn_blocks.load(Ordering::SeqCst) as usize;
            let torn = bytes.len().min(blocks * BLOCK_BYTES);
            if number == plug && torn > 0 {
                self.inner.write_at(&bytes[..torn], offset)?;
            }
            return Err(io::Error::other("the plug was pulled"));
        }
        let short = self.faults.short_writes.load(Ordering::SeqCst);
        let taken = if short { BLOCK_BYTES } else { bytes.len() };
        self.pending.push((offset, bytes[..taken].to_vec()));
        Ok(taken)
    }

    fn sync(&mut self) -> io::Result<()> {
        let number = self.faults.syncs.fetch_add(1, Ordering::SeqCst);
        if number == self.faults.fail_sync.load(Ordering::SeqCst) {
            return Err(io::Error::other("injected sync error"));
        }
        for (offset, bytes) in self.pending.drain(..) {
            assert_eq!(self.inner.write_at(&bytes, offset)?, bytes.len());
        }
        self.inner.sync()
    }
}
