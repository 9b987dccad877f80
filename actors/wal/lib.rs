//! The write-ahead log: bytes in, receipt out. Knows no entity.
//!
//! ```text
//!  persist(group) ──► queue ──► actor ──► Raft entry ──► log thread ──► segment (write + sync)
//!   Receipt ◄── publish ◄── Machine::apply ◄── committed ◄──────────────────┘
//! ```
//!
//! A *group* is what one caller wants committed atomically; the actor packs many groups into one
//! log entry, so one sync serves all of them. The LSN of a group is the Raft index of its entry; the
//! place inside the entry is `sub`.
//!
//! Invariants:
//! * A [`Receipt`] exists only for a group that is durable, applied and published.
//! * Every [`PersistError`] but `Unknown` means that the group was certainly not written.
//! * The first error of a write or a sync is final: it is reported once and never retried.
//! * Acknowledged bytes are never dropped silently: damage stops `open` with file and offset.
//!
//! Supervised by the process root. Two threads of its own: `xce-raft` runs consensus, the actor and
//! the machine; `xce-log` writes. A third, `xce-spare`, zero-fills segments ahead of need.

mod config;
mod error;
mod machine;
mod peers;
mod receipt;

mod aligned;
mod batch;
mod device;
mod digests;
mod directory;
mod groups;
mod record;
mod recover;
mod segment;
mod segment_log;
mod spare;
mod writer;

mod journal;
mod snapshot;

mod actor;
mod anew;
mod foundation;
mod handle;
mod memory;
mod notes;
mod open;
mod raft;
mod rejoining;
mod request;
mod snapshot_job;
mod status;

#[cfg(test)]
mod tests;

pub use anew::{Beginning, Remains, begin_anew, finish as finish_anew, remains_of};
pub use config::WalConfig;
pub use device::{Device, Disk, DiskMode, FileDisk};
pub use error::{Damage, OpenError, PersistError, SnapshotError};
pub use handle::Wal;
pub use journal::{
    JournalCursor, JournalEntry, JournalError, JournalHead, JournalPage, JournalReader,
};
pub use machine::{Machine, Position, SnapshotSource};
pub use memory::MemoryWal;
pub use open::open;
pub use peers::{
    Lane, Member, MemberChange, MemberState, MembershipError, NoPeers, PeerError, Peers, Role,
    SNAPSHOT_PART_BYTES,
};
pub use receipt::Receipt;
pub use status::WalStatus;
