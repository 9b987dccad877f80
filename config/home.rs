//! Where a cluster of one machine keeps its state and clients find it: `XCE_HOME`.
//!
//! ```text
//!   ~/.xce/                 XCE_HOME
//!     authority/            the cluster's certificate authority
//!     controller/           state of the controller, with identity/
//!     w1/  w2/  ...         state of the workers, with identity/
//!     scheduler/            identity of a scheduler that is a daemon
//!     client/               identity of the local user, and client.toml
//! ```

use std::path::{Path, PathBuf};

/// The directory of a cluster of one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    path: PathBuf,
}

impl Home {
    /// A home at a path.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The home that is given, else that of `XCE_HOME`, else `.xce` in the user's home directory.
    ///
    /// `variable` gives environment variables; empty ones count as absent. `None` when nothing
    /// names a directory.
    pub fn find(given: Option<&Path>, variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let named = |name: &str| variable(name).filter(|value| !value.is_empty());
        given
            .map(Path::to_path_buf)
            .or_else(|| named("XCE_HOME").map(PathBuf::from))
            .or_else(|| named("HOME").map(|home| Path::new(&home).join(".xce")))
            .map(Self::new)
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The cluster's certificate authority.
    pub fn authority(&self) -> PathBuf {
        self.path.join("authority")
    }

    /// State of the controller.
    pub fn controller(&self) -> PathBuf {
        self.path.join("controller")
    }

    /// State of the worker of a name.
    pub fn worker(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Directory of a scheduler that is a daemon.
    pub fn scheduler(&self) -> PathBuf {
        self.path.join("scheduler")
    }

    /// Identity of the local user.
    pub fn client(&self) -> PathBuf {
        self.path.join("client")
    }

    /// Settings of the local user's client.
    pub fn client_file(&self) -> PathBuf {
        self.client().join("client.toml")
    }
}

/// Identity of a daemon within its state directory.
pub fn identity_dir(state_dir: &Path) -> PathBuf {
    state_dir.join("identity")
}
