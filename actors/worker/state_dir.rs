//! The worker's state directory.
//!
//! ```text
//!   lock          held by the worker that runs
//!   incarnation   32 hexadecimal digits, made at the first start
//!   cluster       the cluster that this worker belongs to
//!   term          highest term of a primary that was heard
//!   boot          boot id at the last start; another one means that all runs ended
//!   spool         facts that the controller has not committed
//!   runs/<run>    one directory a run that has not ended, `17-1` or `17-3-1` (job, element, run)
//!   ended/<run>   the same after the end; kept for its output
//! ```
//! Moving a directory to `ended` is the mark that the end is in the spool.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use xce_failpoint::Point;
use xce_model::{ClusterId, Incarnation, JobId};
use xce_replica::wire::RunId;

/// Mode of the directories: a job's user may pass through to its own files, and list nothing.
const DIRECTORY_MODE: u32 = 0o711;

/// Longest small file read, in bytes.
///
/// Source: derived; the longest content, a boot id, has 36.
const SMALL_FILE_BYTES_MAX: u64 = 256;

/// Why the state directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateDirError {
    /// Another worker has it.
    #[error("another worker is running on state directory {}", .0.display())]
    InUse(PathBuf),
    /// It belongs to another cluster.
    #[error("state directory {} belongs to cluster {theirs}, not {ours}", path.display())]
    OtherCluster {
        /// The directory.
        path: PathBuf,
        /// Whose it is.
        theirs: String,
        /// The cluster of this worker's identity.
        ours: ClusterId,
    },
    /// It belongs to another user.
    #[error("state directory {} belongs to user {owner}, but this worker runs as {own}", path.display())]
    OtherOwner {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// The worker's user.
        own: u32,
    },
    /// A file or directory cannot be read or written.
    #[error("cannot use {}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The system gave no random bytes for the incarnation.
    #[error("the system gave no random bytes")]
    Entropy(#[source] getrandom::Error),
}

/// An opened and locked state directory.
#[derive(Debug)]
pub struct StateDir {
    path: PathBuf,
    /// Identity of this directory.
    pub incarnation: Incarnation,
    /// Boot id of the machine.
    pub boot_id: String,
    /// Whether the machine has booted since the last start of a worker here.
    pub rebooted: bool,
    /// What could not be restored, one sentence each.
    pub findings: Vec<String>,
    _lock: File,
}

impl StateDir {
    /// Opens the directory for a worker of a cluster; makes it at the first start.
    ///
    /// # Errors
    /// See [`StateDirError`]; nothing that others have made is changed then.
    pub fn open(path: &Path, cluster: ClusterId, boot_id: String) -> Result<Self, StateDirError> {
        make_directory(path)?;
        check_owner(path)?;
        let lock_path = path.join("lock");
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock_path);
        let lock = lock.map_err(io_at(&lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                return Err(StateDirError::InUse(path.to_path_buf()));
            }
            Err(fs::TryLockError::Error(source)) => return Err(io_at(&lock_path)(source)),
        }
        let mut findings = Vec::new();
        check_cluster(path, cluster, &mut findings)?;
        let incarnation = incarnation(path, &mut findings)?;
        let last_boot = read_small(&path.join("boot"))?;
        let rebooted = last_boot
            .as_ref()
            .is_some_and(|last| !last.is_empty() && *last != boot_id);
        if last_boot.as_ref() != Some(&boot_id) {
            write_small(&path.join("boot"), &boot_id)?;
        }
        for part in ["runs", "ended"] {
            make_directory(&path.join(part))?;
        }
        Ok(Self {
            path: path.to_path_buf(),
            incarnation,
            boot_id,
            rebooted,
            findings,
            _lock: lock,
        })
    }

    /// File of the spool.
    pub fn spool(&self) -> PathBuf {
        self.path.join("spool")
    }

    /// Directory of a run that has not ended.
    pub fn run(&self, run: RunId) -> PathBuf {
        self.path.join("runs").join(run_name(run))
    }

    /// Directory of a run that has ended.
    pub fn ended(&self, run: RunId) -> PathBuf {
        self.path.join("ended").join(run_name(run))
    }

    /// Highest term of a primary that this worker or an earlier one has kept; 0 before the first.
    pub fn term(&self) -> u64 {
        let text = read_small(&self.path.join("term")).ok().flatten();
        text.and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// Keeps a term.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn keep_term(&self, term: u64) -> Result<(), StateDirError> {
        write_small(&self.path.join("term"), &term.to_string())
    }

    /// Runs that have not ended, in order. Names that are none are left alone.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn runs(&self) -> io::Result<Vec<RunId>> {
        list(&self.path.join("runs"))
    }

    /// Runs that have ended, in order.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn ended_runs(&self) -> io::Result<Vec<RunId>> {
        list(&self.path.join("ended"))
    }
}

/// Name of a run's directory: `17-1`, or `17-3-1` for an element of an array.
pub fn run_name(run: RunId) -> String {
    let JobId { number, element } = run.job;
    if run.job.is_element() {
        format!("{number}-{element}-{}", run.run)
    } else {
        format!("{number}-{}", run.run)
    }
}

/// Reads a name made by [`run_name`].
pub fn parse_run_name(name: &str) -> Option<RunId> {
    let parts: Vec<&str> = name.split('-').collect();
    let id = match parts[..] {
        [number, run] => RunId {
            job: JobId::single(number.parse().ok()?),
            run: run.parse().ok()?,
        },
        [number, element, run] => RunId {
            job: JobId::element(number.parse().ok()?, element.parse().ok()?),
            run: run.parse().ok()?,
        },
        _ => return None,
    };
    (run_name(id) == name).then_some(id)
}

fn list(directory: &Path) -> io::Result<Vec<RunId>> {
    let mut runs = Vec::new();
    for entry in fs::read_dir(directory)? {
        runs.extend(entry?.file_name().to_str().and_then(parse_run_name));
    }
    runs.sort_unstable();
    Ok(runs)
}

fn io_at(path: &Path) -> impl FnOnce(io::Error) -> StateDirError {
    let path = path.to_path_buf();
    move |source| StateDirError::Io { path, source }
}

fn make_directory(path: &Path) -> Result<(), StateDirError> {
    let made = DirBuilder::new()
        .recursive(true)
        .mode(DIRECTORY_MODE)
        .create(path);
    made.map_err(io_at(path))
}

fn check_owner(path: &Path) -> Result<(), StateDirError> {
    let owner = fs::metadata(path).map_err(io_at(path))?.uid();
    let own = rustix::process::geteuid().as_raw();
    if owner == own {
        return Ok(());
    }
    Err(StateDirError::OtherOwner {
        path: path.to_path_buf(),
        owner,
        own,
    })
}

fn check_cluster(
    path: &Path,
    ours: ClusterId,
    findings: &mut Vec<String>,
) -> Result<(), StateDirError> {
    let file = path.join("cluster");
    let text = read_small(&file)?;
    match text.as_deref().map(str::parse::<ClusterId>) {
        Some(Ok(theirs)) if theirs == ours => return Ok(()),
        Some(Ok(theirs)) => {
            let theirs = theirs.to_string();
            return Err(StateDirError::OtherCluster {
                path: path.to_path_buf(),
                theirs,
                ours,
            });
        }
        Some(Err(_)) => findings.push("file `cluster` was unreadable and is made anew".to_owned()),
        None => {}
    }
    write_small(&file, &ours.to_string())
}

fn incarnation(path: &Path, findings: &mut Vec<String>) -> Result<Incarnation, StateDirError> {
    let file = path.join("incarnation");
    match read_small(&file)?.as_deref().map(str::parse::<Incarnation>) {
        Some(Ok(incarnation)) => return Ok(incarnation),
        Some(Err(_)) => findings.push(
            "file `incarnation` was unreadable; this is a new incarnation of the worker".to_owned(),
        ),
        None => {}
    }
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(StateDirError::Entropy)?;
    let incarnation = Incarnation(bytes);
    write_small(&file, &incarnation.to_string())?;
    Ok(incarnation)
}

fn read_small(path: &Path) -> Result<Option<String>, StateDirError> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.len() > SMALL_FILE_BYTES_MAX => return Ok(Some(String::new())),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_at(path)(error)),
    }
    let bytes = fs::read(path).map_err(io_at(path))?;
    Ok(Some(String::from_utf8_lossy(&bytes).trim().to_owned()))
}

fn write_small(path: &Path, text: &str) -> Result<(), StateDirError> {
    let temporary = path.with_extension("tmp");
    fs::write(&temporary, format!("{text}\n")).map_err(io_at(&temporary))?;
    xce_failpoint::check(Point::StateSmallWritten).map_err(io_at(&temporary))?;
    fs::rename(&temporary, path).map_err(io_at(path))?;
    xce_failpoint::hit(Point::StateSmallRenamed);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: ClusterId = ClusterId([1; 16]);

    fn open(path: &Path, boot: &str) -> Result<StateDir, StateDirError> {
        StateDir::open(path, OURS, boot.to_owned())
    }

    #[test]
    fn names_of_runs_come_back() {
        for (job, name) in [
            (JobId::single(17), "17-1"),
            (JobId::element(17, 3), "17-3-1"),
            (JobId::single(u64::MAX), "18446744073709551615-1"),
        ] {
            let run = RunId { job, run: 1 };
            assert_eq!(run_name(run), name);
            assert_eq!(parse_run_name(name), Some(run));
        }
        for name in [
            "",
            "17",
            "017-1",
            "17-1-2-3",
            "x-1",
            "17-4294967295-1",
            ".tmp",
            "17-+1",
        ] {
            assert_eq!(parse_run_name(name), None, "{name}");
        }
    }

    #[test]
    fn a_second_worker_is_refused_and_the_incarnation_stays() {
        let dir = tempfile::tempdir().unwrap();
        let first = open(dir.path(), "a").unwrap();
        assert!(matches!(
            open(dir.path(), "a"),
            Err(StateDirError::InUse(_))
        ));
        let incarnation = first.incarnation;
        drop(first);
        let second = open(dir.path(), "a").unwrap();
        assert_eq!(second.incarnation, incarnation);
        assert!(!second.rebooted);
        drop(second);
        assert!(open(dir.path(), "b").unwrap().rebooted);
    }

    #[test]
    fn another_cluster_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        drop(open(dir.path(), "a").unwrap());
        let error = StateDir::open(dir.path(), ClusterId([2; 16]), "a".to_owned()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(&OURS.to_string()), "{text}");
    }

    #[test]
    fn emptied_files_never_refuse_a_start() {
        let dir = tempfile::tempdir().unwrap();
        drop(open(dir.path(), "a").unwrap());
        for file in ["incarnation", "cluster", "boot"] {
            fs::write(dir.path().join(file), "").unwrap();
        }
        let opened = open(dir.path(), "a").unwrap();
        assert_eq!(opened.findings.len(), 2, "{:?}", opened.findings);
        assert!(!opened.rebooted);
    }

    #[test]
    fn a_path_that_cannot_be_is_named() {
        let error = open(Path::new("/proc/nothing/here"), "a")
            .unwrap_err()
            .to_string();
        assert!(error.contains("/proc/nothing/here"), "{error}");
    }
}
