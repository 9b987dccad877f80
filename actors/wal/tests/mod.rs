//! Tests of the whole crate.

pub(crate) mod book;
mod cluster;
pub(crate) mod conformance;
mod crash;
mod faults;
mod formats;
mod journal;
pub(crate) mod log;
mod model;
mod persisting;
mod rejoin;
mod slow;
mod snapshots;
mod steps;
mod wal;

use std::sync::Arc;

use crate::{Disk, DiskMode, FileDisk};

/// A disk that works, through the page cache: temporary folders may be in memory.
pub(crate) fn synced() -> Arc<dyn Disk> {
    Arc::new(FileDisk::with_mode(DiskMode::Synced))
}
