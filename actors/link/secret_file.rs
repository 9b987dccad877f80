//! Small files that hold secrets: written whole or not at all, readable by their owner only.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Largest secret file that is read, in bytes.
///
/// Source: derived; a key ring of eight keys is under 1 KiB and a chain of four certificates under
/// 4 KiB, so 64 KiB is ample and a wrong path cannot fill the memory.
pub const SECRET_FILE_BYTES_MAX: u64 = 64 * 1024;

/// Mode of every file written here: read and write for the owner, nothing for others.
///
/// Source: derived; the same rule as ssh applies to private keys.
const OWNER_ONLY: u32 = 0o600;

/// Bits that no file with a secret may have: any access of group or others.
///
/// Source: derived from [`OWNER_ONLY`].
const OTHERS: u32 = 0o077;

/// A secret file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FileFault {
    /// The operating system refused.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was attempted: "read", "write".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Others than the owner have access to it.
    #[error("{} has mode {mode:04o}: others can read this secret; run chmod 600 on it", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It is longer than any file of this kind.
    #[error("{} is longer than {SECRET_FILE_BYTES_MAX} bytes", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
    },
}

/// Replaces a file atomically, with mode 0600, synced together with its directory.
///
/// # Errors
/// [`FileFault::Io`] when any step fails; the old content then stays.
pub fn replace(path: &Path, content: &[u8]) -> Result<(), FileFault> {
    let fault = |source| FileFault::Io {
        action: "write",
        path: path.to_path_buf(),
        source,
    };
    let draft = write_draft(path, content).map_err(fault)?;
    if let Err(source) = fs::rename(&draft, path) {
        let _ = fs::remove_file(&draft);
        return Err(fault(source));
    }
    sync_directory(path).map_err(fault)
}

/// Creates a file atomically, with mode 0600; returns false and changes nothing if it exists.
///
/// # Errors
/// [`FileFault::Io`] when any step fails.
pub fn create(path: &Path, content: &[u8]) -> Result<bool, FileFault> {
    let fault = |source| FileFault::Io {
        action: "write",
        path: path.to_path_buf(),
        source,
    };
    let draft = write_draft(path, content).map_err(fault)?;
    let linked = fs::hard_link(&draft, path);
    fs::remove_file(&draft).map_err(fault)?;
    match linked {
        Ok(()) => sync_directory(path).map_err(fault).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(fault(error)),
    }
}

/// Reads a file that must not be accessible to others; `None` if there is none.
///
/// # Errors
/// [`FileFault::Exposed`] when group or others have any access, [`FileFault::TooLong`] when it is
/// longer than [`SECRET_FILE_BYTES_MAX`], [`FileFault::Io`] when reading fails.
pub fn read(path: &Path) -> Result<Option<Vec<u8>>, FileFault> {
    let Some((content, mode)) = read_open(path)? else {
        return Ok(None);
    };
    if mode & OTHERS != 0 {
        return Err(FileFault::Exposed {
            path: path.to_path_buf(),
            mode,
        });
    }
    Ok(Some(content))
}

/// Reads a bounded file that is no secret, such as a certificate; `None` if there is none.
///
/// # Errors
/// As [`read`], except [`FileFault::Exposed`].
pub fn read_public(path: &Path) -> Result<Option<Vec<u8>>, FileFault> {
    Ok(read_open(path)?.map(|(content, _)| content))
}

fn read_open(path: &Path) -> Result<Option<(Vec<u8>, u32)>, FileFault> {
    let fault = |source| FileFault::Io {
        action: "read",
        path: path.to_path_buf(),
        source,
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(fault(error)),
    };
    let mode = file.metadata().map_err(fault)?.permissions().mode() & 0o7777;
    let mut content = Vec::new();
    file.take(SECRET_FILE_BYTES_MAX + 1)
        .read_to_end(&mut content)
        .map_err(fault)?;
    if content.len() as u64 > SECRET_FILE_BYTES_MAX {
        return Err(FileFault::TooLong {
            path: path.to_path_buf(),
        });
    }
    Ok(Some((content, mode)))
}

fn write_draft(path: &Path, content: &[u8]) -> io::Result<PathBuf> {
    let mut nonce = [0_u8; 8];
    getrandom::fill(&mut nonce).map_err(io::Error::other)?;
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{:016x}.draft", u64::from_le_bytes(nonce)));
    let draft = path.with_file_name(name);
    let write = || -> io::Result<()> {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(OWNER_ONLY)
            .open(&draft)?;
        file.write_all(content)?;
        file.sync_all()
    };
    match write() {
        Ok(()) => Ok(draft),
        Err(error) => {
            let _ = fs::remove_file(&draft);
            Err(error)
        }
    }
}

fn sync_directory(path: &Path) -> io::Result<()> {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}
