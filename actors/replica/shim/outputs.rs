//! The output files in the run directory, and their rotation.
//!
//! The job writes straight into the file, so no shim stands between (a pipe would end the job with
//! the shim, and cost a wake-up a line). Rotation therefore cannot rename: it copies the file to
//! `<name>.1` and takes what was copied off its front. Where the file system can collapse a range
//! (ext4, xfs) nothing is lost, else the file is truncated, and what the job wrote between copy
//! and truncation is lost. Looked at once in [`ROTATE_PERIOD_MS`], so a file can be larger by what
//! is written in that time.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};

/// Milliseconds between two looks at the size of output files.
/// Source: derived; at 100 MB/s a file grows by 100 MB between two looks, and a look is two
/// system calls.
pub const ROTATE_PERIOD_MS: u64 = 1_000;

/// One output file that is rotated.
#[derive(Debug)]
pub struct RotatedFile {
    file: File,
    older: PathBuf,
    bytes_max: u64,
}

/// Opens an output file of the run directory for appending.
///
/// # Errors
/// When it cannot be made.
pub fn open(run_dir: &Path, name: &str) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(run_dir.join(name))
}

impl RotatedFile {
    /// Watches an output file of the run directory.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn new(run_dir: &Path, name: &str, bytes_max: u64) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(run_dir.join(name))?;
        Ok(Self {
            file,
            older: run_dir.join(format!("{name}.1")),
            bytes_max,
        })
    }

    /// Rotates the file if it is larger than allowed; returns whether it did.
    ///
    /// # Errors
    /// When the copy cannot be made; the file is then as before.
    pub fn rotate(&mut self) -> io::Result<bool> {
        let meta = self.file.metadata()?;
        if meta.len() <= self.bytes_max {
            return Ok(false);
        }
        let block = meta.blksize().max(1);
        // A collapse takes whole blocks and must leave something.
        let front = (meta.len() - 1) / block * block;
        if front > 0 && self.copy(front).is_ok() {
            let collapsed = fallocate(&self.file, FallocateFlags::COLLAPSE_RANGE, 0, front);
            if collapsed.is_ok() {
                return Ok(true);
            }
        }
        self.copy(u64::MAX)?;
        self.file.set_len(0)?;
        Ok(true)
    }

    fn copy(&mut self, bytes: u64) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(0))?;
        let temporary = self.older.with_extension("1.tmp");
        let copied = File::create(&temporary)
            .and_then(|mut older| io::copy(&mut (&self.file).take(bytes), &mut older));
        match copied {
            Ok(_) => fs::rename(&temporary, &self.older),
            Err(error) => {
                let _ = fs::remove_file(&temporary);
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn nothing_written_is_lost_or_doubled() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = open(dir.path(), "out").unwrap();
        let mut rotated = RotatedFile::new(dir.path(), "out", 10_000).unwrap();
        writer.write_all(&[b'a'; 10_000]).unwrap();
        assert!(!rotated.rotate().unwrap());
        writer.write_all(b"b").unwrap();
        assert!(rotated.rotate().unwrap());
        writer.write_all(b"c").unwrap();
        let mut whole = fs::read(dir.path().join("out.1")).unwrap();
        whole.extend(fs::read(dir.path().join("out")).unwrap());
        let mut expected = vec![b'a'; 10_000];
        expected.extend(b"bc");
        assert_eq!(whole, expected);
        assert!(!rotated.rotate().unwrap());
    }
}
