//! The disk under the log, as a trait, so that tests can make it fail.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use crate::aligned::AlignedBuffer;
use crate::batch::BLOCK_BYTES;

/// How writes are made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskMode {
    /// Direct synchronous writes: each write is durable when it returns.
    Direct,
    /// Writes through the page cache, then fdatasync.
    Synced,
}

impl DiskMode {
    /// A word for operators.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Synced => "synced",
        }
    }
}

/// One open segment.
pub trait Device: Send {
    /// Writes some of `bytes` at `offset` and says how many; both are multiples of 4096.
    ///
    /// # Errors
    /// Whatever the device says; the log never retries.
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Makes everything written durable.
    ///
    /// # Errors
    /// Whatever the device says; the log never retries.
    fn sync(&mut self) -> io::Result<()>;
}

/// Where segments live.
pub trait Disk: Send + Sync {
    /// Opens an existing file for log writes.
    ///
    /// # Errors
    /// Whatever the file system says.
    fn open(&self, path: &Path) -> io::Result<Box<dyn Device>>;

    /// Creates a file of zeros, allocated and durable.
    ///
    /// # Errors
    /// `StorageFull` when there is no space; the caller removes what is left and tries again later.
    fn preallocate(&self, path: &Path, bytes: u64) -> io::Result<()>;

    /// How this disk makes writes durable.
    fn mode(&self) -> DiskMode;
}

/// The file system of a directory.
pub struct FileDisk {
    mode: DiskMode,
}

impl FileDisk {
    /// Finds out whether the file system of `directory` takes direct synchronous writes.
    ///
    /// # Errors
    /// The directory cannot be written to.
    pub fn probe(directory: &Path) -> io::Result<Self> {
        let path = directory.join("probe.tmp");
        File::create(&path)?.write_all_at(&[0; BLOCK_BYTES], 0)?;
        let mut block = AlignedBuffer::with_capacity(BLOCK_BYTES);
        block.extend(&[0]);
        block.pad(BLOCK_BYTES);
        let direct = open_direct(&path).and_then(|file| file.write_at(block.bytes(), 0));
        std::fs::remove_file(&path)?;
        let mode = match direct {
            Ok(BLOCK_BYTES) => DiskMode::Direct,
            Ok(_) | Err(_) => DiskMode::Synced,
        };
        Ok(Self { mode })
    }

    /// A disk with a fixed mode.
    pub const fn with_mode(mode: DiskMode) -> Self {
        Self { mode }
    }
}

fn open_direct(path: &Path) -> io::Result<File> {
    let flags = OFlags::DIRECT | OFlags::DSYNC;
    OpenOptions::new()
        .write(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
}

impl Disk for FileDisk {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Device>> {
        let file = match self.mode {
            DiskMode::Direct => open_direct(path)?,
            DiskMode::Synced => OpenOptions::new().write(true).open(path)?,
        };
        Ok(Box::new(FileDevice {
            file,
            mode: self.mode,
        }))
    }

    fn preallocate(&self, path: &Path, bytes: u64) -> io::Result<()> {
        let file = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(true)
            .open(path)?;
        // Zeros are really written: an extent that is only reserved halves the rate of syncs.
        let zeros = vec![0; ZERO_BYTES];
        let mut at = 0;
        while at < bytes {
            let now = ZERO_BYTES.min(usize::try_from(bytes - at).unwrap_or(ZERO_BYTES));
            file.write_all_at(&zeros[..now], at)?;
            at += now as u64;
        }
        file.sync_all()
    }

    fn mode(&self) -> DiskMode {
        self.mode
    }
}

/// Source: chosen; one zeroing write, large enough to stream and small against a segment.
const ZERO_BYTES: usize = 1 << 20;

struct FileDevice {
    file: File,
    mode: DiskMode,
}

impl Device for FileDevice {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(bytes, offset)
    }

    fn sync(&mut self) -> io::Result<()> {
        match self.mode {
            DiskMode::Direct => Ok(()),
            DiskMode::Synced => self.file.sync_data(),
        }
    }
}

/// Makes the entries of a directory durable.
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
