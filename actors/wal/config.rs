//! Settings of a WAL.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::batch::BLOCK_BYTES;
use crate::device::Disk;
use crate::error::OpenError;
use crate::peers::{NoPeers, Peers};
use crate::segment_log::RESERVE_BYTES;

/// Settings of a WAL; [`WalConfig::new`] fills in the defaults.
#[derive(Clone)]
pub struct WalConfig {
    /// The state directory.
    pub dir: PathBuf,
    /// Identity of the cluster; a directory of another cluster is refused.
    pub cluster_id: [u8; 16],
    /// Identity of this controller, from 1.
    pub node_id: u64,
    /// Whether an empty or missing directory is initialised. Default false.
    pub create: bool,
    /// Size of a log segment in bytes, a multiple of 4096. Default 16 MiB; at least four entries.
    pub segment_bytes: u64,
    /// Most bytes of groups in one entry, and the largest group. Default 1 MiB.
    pub entry_bytes: usize,
    /// Most groups in one entry. Default 512.
    pub entry_groups: usize,
    /// Most groups that wait; more are refused as overloaded. Default 8192.
    pub queue_groups: usize,
    /// Most bytes that wait; more are refused as overloaded. Default 64 MiB.
    pub queue_bytes: usize,
    /// Entries after which a snapshot is taken. Default 50 000.
    pub snapshot_every_entries: u64,
    /// Bytes of the log after which a snapshot is taken. Default 64 MiB.
    pub snapshot_every_bytes: u64,
    /// Entries kept in the log beyond what recovery needs. Default 0, for a single controller.
    pub log_keep_entries: u64,
    /// How long the log waits idle before it confirms the last batch by a watermark. Default 50 ms.
    pub watermark_after: Duration,
    /// How long to wait before a failed preallocation is tried again. Default 1 s.
    pub space_retry: Duration,
    /// Where the other controllers reach this one, `host:port`; empty for one that is alone.
    pub address: String,
    /// Whether a new directory waits until a cluster takes it in, instead of founding one. Default
    /// false.
    pub join: bool,
    /// The way to the other controllers. Default none.
    pub peers: Arc<dyn Peers>,
    /// How often the states of the controllers are compared, when something was written meanwhile.
    /// Default 1 min; less often where comparing takes more than a hundredth of the time.
    pub compare_every: Duration,
    /// How long one whose log cannot be used asks the others to take it in again. Default 30 s.
    pub rejoin_within: Duration,
    /// The disk to write segments to; `None` is the file system of `dir`. Tests inject faults here.
    pub disk: Option<Arc<dyn Disk>>,
}

impl WalConfig {
    /// Settings with all defaults.
    pub fn new(dir: impl Into<PathBuf>, cluster_id: [u8; 16], node_id: u64) -> Self {
        Self {
            dir: dir.into(),
            cluster_id,
            node_id,
            create: false,
            // Source: chosen; 4 000 synced single writes or one second of full load a segment.
            segment_bytes: 16 << 20,
            // Source: measured in the foundations; larger entries gain nothing.
            entry_bytes: 1 << 20,
            // Source: measured in the foundations; 512 groups saturate two cores.
            entry_groups: 512,
            // Source: derived; 16 entries of 512 groups, about 0.1 s of full load.
            queue_groups: 8192,
            // Source: derived; 64 full entries.
            queue_bytes: 64 << 20,
            // Source: derived; replay of 50 000 entries takes well under 0.3 s.
            snapshot_every_entries: 50_000,
            // Source: derived; a start reads at most about twice this, well under 0.3 s.
            snapshot_every_bytes: 64 << 20,
            log_keep_entries: 0,
            watermark_after: Duration::from_millis(50),
            space_retry: Duration::from_secs(1),
            address: String::new(),
            join: false,
            peers: Arc::new(NoPeers),
            // Source: chosen; a hash of a million jobs takes a second of one processor.
            compare_every: Duration::from_secs(60),
            // Source: chosen; an election and two changes of the membership on a slow machine.
            rejoin_within: Duration::from_secs(30),
            disk: None,
        }
    }

    /// Refuses settings that cannot work together.
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        let refuse = |setting, detail: String| Err(OpenError::Setting { setting, detail });
        if self.node_id == 0 {
            return refuse("node_id", "it starts from 1".into());
        }
        if self.entry_bytes == 0 || self.entry_bytes > ENTRY_BYTES_MAX {
            return refuse("entry_bytes", format!("1 to {ENTRY_BYTES_MAX}"));
        }
        if self.entry_groups == 0 || self.entry_groups > ENTRY_GROUPS_MAX {
            return refuse("entry_groups", format!("1 to {ENTRY_GROUPS_MAX}"));
        }
        if self.queue_groups == 0 || self.queue_bytes < self.entry_bytes {
            return refuse("queue_groups, queue_bytes", "at least one entry".into());
        }
        let least = 4 * self.entry_footprint() + RESERVE_BYTES + BLOCK_BYTES as u64;
        let whole = self.segment_bytes.is_multiple_of(BLOCK_BYTES as u64);
        if self.segment_bytes < least || self.segment_bytes > SEGMENT_BYTES_MAX || !whole {
            let detail = format!("a multiple of 4096 from {least} to {SEGMENT_BYTES_MAX}");
            return refuse("segment_bytes", detail);
        }
        Ok(())
    }

    /// Most bytes that one full entry takes in a segment.
    pub(crate) fn entry_footprint(&self) -> u64 {
        let groups = self.entry_bytes as u64 + self.entry_groups as u64 * 20 + 32;
        groups + 2 * BLOCK_BYTES as u64
    }
}

/// Source: chosen; an entry must stay far below a segment and below a network frame.
const ENTRY_BYTES_MAX: usize = 64 << 20;

/// Source: chosen; bounds the table of lengths at the head of an entry.
const ENTRY_GROUPS_MAX: usize = 65_536;

/// Source: chosen; recovery reads a whole segment into memory.
const SEGMENT_BYTES_MAX: u64 = 1 << 30;
