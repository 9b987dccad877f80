//! The disk under the log, as a trait, so that tests can make it fail.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
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

/// One open file.
pub trait Device: Send {
    /// Writes some of `bytes` at `offset` and says how many; both are multiples of 4096 in a file that
    /// was opened as a segment.
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

/// Where segments and snapshots live.
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

    /// Opens a file to be written through the page cache; an existing one is kept when `keep` says so
    /// and emptied otherwise.
    ///
    /// # Errors
    /// Whatever the file system says.
    fn create(&self, path: &Path, keep: bool) -> io::Result<Box<dyn Device>>;

    /// Opens a file for reading from its start.
    ///
    /// # Errors
    /// Whatever the file system says.
    fn read(&self, path: &Path) -> io::Result<Box<dyn Read + Send>>;

    /// Gives a file another name, in the place of whatever had it.
    ///
    /// # Errors
    /// Whatever the file system says.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// Whatever the file system says.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable.
    ///
    /// # Errors
    /// Whatever the file system says.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;

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

    fn create(&self, path: &Path, keep: bool) -> io::Result<Box<dyn Device>> {
        let file = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(!keep)
            .open(path)?;
        Ok(Box::new(FileDevice {
            file,
            mode: DiskMode::Synced,
        }))
    }

    fn read(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(File::open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        sync_directory(path)
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

/// Writes all of `bytes`, however little the device takes at a time.
pub(crate) fn write_fully(device: &mut dyn Device, bytes: &[u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        let now = device.write_at(&bytes[done..], offset + done as u64)?;
        if now == 0 || now > bytes.len() - done {
            return Err(io::Error::new(
                io::ErrorKind::WriteZero,
                "the device took no bytes",
            ));
        }
        done += now;
    }
    Ok(())
}

/// Writes a file from its start to its end.
pub(crate) struct Onward {
    device: Box<dyn Device>,
    offset: u64,
}

impl Onward {
    pub(crate) fn new(device: Box<dyn Device>) -> Self {
        Self { device, offset: 0 }
    }

    /// Makes all of it durable.
    pub(crate) fn sync(mut self) -> io::Result<()> {
        self.device.sync()
    }
}

impl io::Write for Onward {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let now = self.device.write_at(bytes, self.offset)?;
        self.offset += now as u64;
        Ok(now)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
