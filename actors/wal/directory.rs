//! The state directory: one owner at a time, one cluster for ever.
//!
//! ```text
//!  LOCK       held while the directory is in use
//!  IDENTITY   format, cluster, node; written last when a directory is made
//!  log/       segments
//!  snapshots/ snapshots
//! ```

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use xce_failpoint::Point;

use crate::config::WalConfig;
use crate::device::sync_directory;
use crate::error::{Damage, OpenError};
use crate::recover::{hex, io_error};

/// Highest format of a state directory that this program reads, and the one that it writes.
const FORMAT: u32 = 1;

/// A locked state directory; the lock ends with the value.
#[derive(Debug)]
pub(crate) struct StateDirectory {
    root: PathBuf,
    known: bool,
    birth: u64,
    joins: bool,
    _lock: File,
}

impl StateDirectory {
    /// Locks the directory and checks whose it is.
    ///
    /// # Errors
    /// In use, foreign, newer, or absent without a wish to create it.
    pub(crate) fn open(config: &WalConfig) -> Result<Self, OpenError> {
        let root = config.dir.clone();
        if !root.is_dir() {
            if !config.create {
                return Err(OpenError::NotInitialised { directory: root });
            }
            std::fs::create_dir_all(&root).map_err(io_error("create", &root))?;
        }
        let identity = root.join("IDENTITY");
        if !identity.exists() && !config.create {
            return Err(OpenError::NotInitialised { directory: root });
        }
        let lock = lock(&root)?;
        // Asked only under the lock: another process may have initialised it just now.
        let known = identity.exists();
        let (birth, joins) = if known {
            check_identity(&identity, config)?
        } else {
            let birth = random().map_err(io_error("name", &root))?;
            (birth, config.join)
        };
        for part in ["log", "snapshots"] {
            let path = root.join(part);
            std::fs::create_dir_all(&path).map_err(io_error("create", &path))?;
        }
        sync_directory(&root).map_err(io_error("sync", &root))?;
        Ok(Self {
            root,
            known,
            birth,
            joins,
            _lock: lock,
        })
    }

    /// Whether the directory had been initialised before.
    pub(crate) fn is_known(&self) -> bool {
        self.known
    }

    /// Which directory this is; a copy of it has the same.
    pub(crate) fn birth(&self) -> u64 {
        self.birth
    }

    /// Whether it waits for a cluster to take it in as long as its log is empty.
    pub(crate) fn joins(&self) -> bool {
        self.joins
    }

    /// Locks a directory without looking at what it holds.
    ///
    /// # Errors
    /// In use, or an error of the system.
    pub(crate) fn lock(root: &Path) -> Result<File, OpenError> {
        lock(root)
    }

    /// Where segments live.
    pub(crate) fn log(&self) -> PathBuf {
        self.root.join("log")
    }

    /// Where snapshots live.
    pub(crate) fn snapshots(&self) -> PathBuf {
        self.root.join("snapshots")
    }

    /// Marks the directory as initialised.
    ///
    /// # Errors
    /// An error of the system.
    pub(crate) fn write_identity(&self, config: &WalConfig) -> Result<(), OpenError> {
        let path = self.root.join("IDENTITY");
        let cluster = hex(&config.cluster_id);
        let text = format!(
            "format {FORMAT}\ncluster {cluster}\nnode {}\nbirth {:016x}\njoins {}\n",
            config.node_id, self.birth, self.joins
        );
        replace_file(&path, text.as_bytes()).map_err(io_error("write", &path))
    }
}

fn lock(root: &Path) -> Result<File, OpenError> {
    let path = root.join("LOCK");
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(io_error("open", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked {
            directory: root.to_path_buf(),
            lock: path,
        }),
        Err(TryLockError::Error(source)) => Err(OpenError::Io {
            doing: "lock",
            path,
            source,
        }),
    }
}

/// Which directory it is, and whether it joins.
fn check_identity(path: &Path, config: &WalConfig) -> Result<(u64, bool), OpenError> {
    let text = std::fs::read_to_string(path).map_err(io_error("read", path))?;
    let damaged = || Damage {
        file: path.to_path_buf(),
        offset: 0,
        detail: "it does not name a format, a cluster and a node".into(),
    };
    let field = |name: &str| {
        text.lines()
            .filter_map(|line| line.split_once(' '))
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value.to_owned())
            .ok_or_else(damaged)
    };
    let found = field("format")?.parse().map_err(|_| damaged())?;
    if found > FORMAT {
        return Err(OpenError::Newer {
            file: path.to_path_buf(),
            found,
            known: FORMAT,
        });
    }
    let wanted = [
        ("cluster", hex(&config.cluster_id)),
        ("node", config.node_id.to_string()),
    ];
    for (what, wanted) in wanted {
        let found = field(what)?;
        if found != wanted {
            let directory = config.dir.clone();
            return Err(OpenError::Foreign {
                directory,
                what,
                found,
                wanted,
            });
        }
    }
    let birth = u64::from_str_radix(&field("birth")?, 16).map_err(|_| damaged())?;
    let joins = field("joins")?.parse().map_err(|_| damaged())?;
    Ok((birth, joins))
}

/// A number that nobody else has.
pub(crate) fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_le_bytes(bytes))
}

/// Replaces a file so that a crash leaves either the old or the new one.
fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    let mut file = File::create(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    xce_failpoint::check(Point::WalIdentityWritten)?;
    std::fs::rename(&temporary, path)?;
    xce_failpoint::hit(Point::WalIdentityRenamed);
    path.parent().map_or(Ok(()), sync_directory)
}
