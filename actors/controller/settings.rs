//! What a controller is told at its start.

use std::net::SocketAddr;
use std::path::PathBuf;

use xce_host::rules::{Patience, lease};
use xce_link::hello::VersionRange;
use xce_model::{ClusterId, Millis};

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
    /// How the silence of hosts is judged.
    pub patience: Patience,
    /// Share of the hosts that may go silent within one grace before the controller doubts its own
    /// network, in hundredths. Default 50.
    pub mass_loss: u32,
    /// How long before the grace is over strict single copies are killed. Default 5 s.
    pub kill_budget: Millis,
    /// How long ended jobs answer by id. Default 24 h.
    pub keep_ended: Millis,
    /// How long a scheduler that is a daemon may not respond; absent where it runs in the controller.
    pub scheduler_grace: Option<Millis>,
    /// Whether actors may be killed on request.
    pub chaos: bool,
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
    /// How long strict single copies may run from the sending of an acknowledged beat; none where they
    /// cannot be promised.
    pub fn lease(&self) -> Option<Millis> {
        lease::lease(self.patience, self.kill_budget)
    }
}
