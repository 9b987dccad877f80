//! What a controller is told at its start.

use std::net::SocketAddr;
use std::path::PathBuf;

use xce_host::rules::{Patience, lease};
use xce_link::hello::VersionRange;
use xce_model::{ClusterId, Millis};

use crate::live::{Live, Reload};

/// Settings of a controller; the daemon fills them from its configuration.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Directory of log, snapshots and secrets.
    pub state_dir: PathBuf,
    /// Directory of the controller's certificate and key.
    pub identity_dir: PathBuf,
    /// Directory of the cluster's authority, which signs for whoever joins.
    pub authority_dir: PathBuf,
    /// Address that it listens on.
    pub listen: SocketAddr,
    /// The cluster.
    pub cluster: ClusterId,
    /// This controller's number among the cluster's, from 1.
    pub node: u64,
    /// Whether an empty state directory may be initialised.
    pub create: bool,
    /// Whether an empty state directory waits for a cluster to take it in, instead of founding one.
    pub join: bool,
    /// Where the other controllers reach this one, `host:port`.
    pub advertise: String,
    /// Period of the beats of hosts. Default 2 s.
    pub beat: Millis,
    /// Silence after which a host is lost. Default 20 s.
    pub grace: Millis,
    /// How long before the grace is over strict single copies are killed. Default 5 s.
    pub kill_budget: Millis,
    /// What may change while it runs.
    pub live: Live,
    /// How the settings are read anew.
    pub reload: Reload,
    /// How long a scheduler that is a daemon may not respond; absent where it runs in the controller.
    pub scheduler_grace: Option<Millis>,
    /// Entries of the log after which a snapshot is written.
    pub snapshot_every: u64,
    /// Bytes of the log after which a snapshot is written.
    pub snapshot_bytes: u64,
    /// Protocol versions that are spoken.
    pub protocol: VersionRange,
    /// Highest feature level that this controller agrees to.
    pub level_max: u16,
}

impl Settings {
    /// How the silence of hosts is judged.
    pub fn patience(&self) -> Patience {
        Patience {
            beat: self.beat,
            grace: self.grace,
            away_max: self.live.get().away_max,
        }
    }

    /// How long strict single copies may run from the sending of an acknowledged beat; none where they
    /// cannot be promised.
    pub fn lease(&self) -> Option<Millis> {
        lease::lease(self.patience(), self.kill_budget)
    }
}
