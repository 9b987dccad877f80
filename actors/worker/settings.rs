//! What a worker is told when it starts.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use xce_model::{Bytes, MilliCpu, Millis};

/// First and last port of the range for named ports that nobody fixed.
///
/// Source: chosen; below the kernel's default ephemeral range, which begins at 32 768, and above
/// the ports of well-known services.
pub const PORT_RANGE: (u16, u16) = (20_000, 29_999);

/// Period of beats. Source: design section 8.1.
const BEAT: Millis = Millis(2_000);

/// How long directories of ended runs are kept. Source: chosen; a day to look at output.
const KEEP_ENDED: Millis = Millis::seconds(24 * 3_600);

/// Directories of ended runs kept at most.
///
/// Source: derived; at 8 files each that is 80 000 inodes, and a look over them takes 50 ms.
const ENDED_MAX: usize = 10_000;

/// Facts that may wait for the controller, ends of live runs included.
///
/// Source: derived; at 300 bytes each 60 MB, four minutes of 900 jobs a second.
const FACTS_MAX: usize = 200_000;

/// Time from the kill of a tree to the kill of its shim, and between attempts.
///
/// Source: derived; a killed tree is gone within milliseconds unless a process hangs in the kernel.
const KILL_BUDGET: Millis = Millis::seconds(10);

/// How long a stop with its jobs may take.
///
/// Source: derived; the default grace of 30 s, the kill budget of 10 s, and the spool's rest.
const STOP_WITHIN: Duration = Duration::from_secs(45);

/// Settings of a worker.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Name of the host in the cluster, 1 to 128 bytes of `[a-z0-9][a-z0-9._-]*`.
    pub name: String,
    /// State directory; made when it does not exist.
    pub state_dir: PathBuf,
    /// Addresses of the controllers, tried in this order.
    pub controllers: Vec<SocketAddr>,
    /// Directory of the identity: certificate, key and roots.
    pub identity_dir: PathBuf,
    /// Program `xce-shim`.
    pub shim: PathBuf,
    /// Protocol versions that are offered. Default all that are spoken.
    pub protocol: xce_link::hello::VersionRange,
    /// Control group below which each run gets one of its own, relative to the mount; none uses
    /// sessions and subreapers only. Default none.
    pub cgroup_parent: Option<String>,
    /// Processors offered; what the system has when absent. Default absent.
    pub cpus: Option<MilliCpu>,
    /// Memory offered; what the system has when absent. Default absent.
    pub memory: Option<Bytes>,
    /// Labels of the host. Default none.
    pub labels: Vec<(String, String)>,
    /// Address that services on this host listen on. Default `127.0.0.1`.
    pub address: String,
    /// First and last port for named ports. It must lie outside the kernel's ephemeral range, and
    /// two workers on one machine need ranges that do not overlap. Default 20000 to 29999.
    pub ports: (u16, u16),
    /// Period of beats, 100 ms to 60 s. Default 2 s.
    pub beat: Millis,
    /// How long directories of ended runs are kept for their output. Default 24 h.
    pub keep_ended: Millis,
    /// Directories of ended runs kept at most; the oldest go first. Default 10 000.
    pub ended_max: usize,
    /// Facts that may wait for the controller; beyond that no run is started. Default 200 000.
    pub facts_max: usize,
    /// Output files are rotated when they are larger, bytes; never when absent. Default absent.
    pub output_bytes_max: Option<u64>,
    /// Sync facts and exit records to disk before they are told. Only a crash of the host makes a
    /// difference, and then all runs end anyway. Default false.
    pub sync: bool,
    /// Time from the kill of a job's tree to the kill of its shim, and between attempts.
    /// Default 10 s.
    pub kill_budget: Millis,
    /// How long a stop with its jobs may take. Default 45 s.
    pub stop_within: Duration,
}

impl Settings {
    /// Settings with defaults.
    pub fn new(
        name: &str,
        state_dir: PathBuf,
        controllers: Vec<SocketAddr>,
        identity_dir: PathBuf,
        shim: PathBuf,
    ) -> Self {
        Self {
            name: name.to_owned(),
            state_dir,
            controllers,
            identity_dir,
            shim,
            protocol: xce_link::hello::VERSIONS,
            cgroup_parent: None,
            cpus: None,
            memory: None,
            labels: Vec::new(),
            address: "127.0.0.1".to_owned(),
            ports: PORT_RANGE,
            beat: BEAT,
            keep_ended: KEEP_ENDED,
            ended_max: ENDED_MAX,
            facts_max: FACTS_MAX,
            output_bytes_max: None,
            sync: false,
            kill_budget: KILL_BUDGET,
            stop_within: STOP_WITHIN,
        }
    }
}
