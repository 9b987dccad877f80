//! The lock that says a shim is alive, and that a run directory is used once.
//!
//! The lock file is made under another name, locked, and only then linked to `lock`: it appears
//! already locked, so a reader never sees a shim that seems dead before it was born, and a second
//! shim finds the name taken without ever waiting for the lock.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

const LOCK_FILE: &str = "lock";

/// Held by a shim for its whole life.
#[derive(Debug)]
pub struct Claim {
    _lock: File,
}

/// Why a shim did not get the run directory.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// Another shim has or had it.
    #[error("the run directory has been claimed before")]
    Taken,
    /// The directory cannot be written.
    #[error("cannot make the lock file")]
    Unwritable(#[source] io::Error),
}

/// What the lock file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// No shim ever claimed the directory.
    Never,
    /// A shim lives.
    Yes,
    /// A shim claimed it and is gone.
    NoLonger,
}

impl Claim {
    /// Takes the run directory for this process.
    ///
    /// # Errors
    /// [`ClaimError::Taken`] when any shim ever claimed it, [`ClaimError::Unwritable`] when the
    /// directory cannot be written.
    pub fn take(run_dir: &Path) -> Result<Self, ClaimError> {
        let temporary = run_dir.join(format!(".lock.{}", std::process::id()));
        let lock = File::create(&temporary).map_err(ClaimError::Unwritable)?;
        let locked = flock(&lock, FlockOperation::NonBlockingLockExclusive);
        locked.map_err(|error| ClaimError::Unwritable(error.into()))?;
        let linked = fs::hard_link(&temporary, run_dir.join(LOCK_FILE));
        // A leftover under the temporary name harms nobody.
        let _ = fs::remove_file(&temporary);
        match linked {
            Ok(()) => Ok(Self { _lock: lock }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(ClaimError::Taken),
            Err(error) => Err(ClaimError::Unwritable(error)),
        }
    }
}

/// Asks whether a shim lives, without disturbing it.
///
/// # Errors
/// When the lock file cannot be opened or asked.
pub fn held(run_dir: &Path) -> io::Result<Held> {
    let lock = match File::open(run_dir.join(LOCK_FILE)) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Held::Never),
        Err(error) => return Err(error),
    };
    match flock(&lock, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(Held::NoLonger),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(Held::Yes),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_claimed_once_in_its_life() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(held(dir.path()).unwrap(), Held::Never);
        let claim = Claim::take(dir.path()).unwrap();
        assert_eq!(held(dir.path()).unwrap(), Held::Yes);
        assert!(matches!(Claim::take(dir.path()), Err(ClaimError::Taken)));
        drop(claim);
        assert_eq!(held(dir.path()).unwrap(), Held::NoLonger);
        assert!(matches!(Claim::take(dir.path()), Err(ClaimError::Taken)));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_directory_that_is_not_there_is_unwritable() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing");
        assert!(matches!(
            Claim::take(&missing),
            Err(ClaimError::Unwritable(_))
        ));
    }
}
