//! What a controller is told at its start.

use std::net::SocketAddr;
use std::path::PathBuf;

use xce_host::rules::Patience;
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
    /// How long ended jobs answer by id. Default 24 h.
    pub keep_ended: Millis,
    /// Whether actors may be killed on request.
    pub chaos: bool,
    /// Entries of the log after which a snapshot is written.
    pub snapshot_every: u64,
    /// Bytes of the log after which a snapshot is written.
    pub snapshot_bytes: u64,
}
