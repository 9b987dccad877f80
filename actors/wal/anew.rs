//! Begins a cluster anew: a state directory for one controller alone, from a machine's state.
//!
//! ```text
//!  a backup, or what is left of a state directory ─► machine ─► snapshot at a position that was
//!  never reached ─► a log that goes on from there, with this controller as its only voter
//! ```
//!
//! Nothing here is a part of a running log: it is done while no controller uses the directory.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use crate::config::WalConfig;
use crate::device::sync_directory;
use crate::directory::StateDirectory;
use crate::error::{Damage, OpenError};
use crate::foundation::{open_log, plain_disk, recover_log, restore};
use crate::groups;
use crate::machine::{Machine, Position};
use crate::peers::Member;
use crate::raft::{alone, voters_in, voters_of};
use crate::record::{EntryKind, LogMarks, LogPosition, StoredEntry, StoredVote};
use crate::recover::io_error;
use crate::snapshot::{SnapshotHead, SnapshotInfo, SnapshotStore};

/// Folder of a state directory in which a new beginning is made ready.
const ANEW: &str = "anew";

/// Where a cluster begins anew, and with whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beginning {
    /// A term above all that were ever seen.
    pub term: u64,
    /// A position above all that were ever given.
    pub lsn: u64,
    /// The only controller.
    pub member: Member,
}

/// Makes the state directory of `config` begin with a machine's state.
///
/// # Errors
/// The directory is in use or holds a log already, or the system fails.
pub fn begin_anew<M: Machine>(
    config: &WalConfig,
    machine: &M,
    beginning: &Beginning,
) -> Result<(), OpenError> {
    let config = WalConfig {
        create: true,
        ..config.clone()
    };
    config.check()?;
    let directory = StateDirectory::open(&config)?;
    let log = directory.log();
    let mut held = std::fs::read_dir(&log).map_err(io_error("list", &log))?;
    if directory.is_known() || held.next().is_some() {
        return Err(OpenError::Setting {
            setting: "state_dir",
            detail: format!("{} holds a log already", config.dir.display()),
        });
    }
    let at = LogPosition {
        term: beginning.term,
        index: beginning.lsn,
    };
    let membership = alone(at, &beginning.member);
    let head = SnapshotHead {
        last: Some(at),
        membership: membership.map_err(|detail| OpenError::Consensus { detail })?,
        installed: false,
    };
    let store = SnapshotStore::new(
        plain_disk(&config),
        directory.snapshots(),
        config.cluster_id,
    );
    let written = store.write(head, &mut machine.snapshot());
    written.map_err(OpenError::Snapshot)?;
    let marks = LogMarks {
        vote: Some(StoredVote {
            term: at.term,
            node: beginning.member.node,
            committed: false,
        }),
        committed: Some(at),
        purged: Some(at),
        last: Some(at),
    };
    // The file that marks the directory as made is written last.
    open_log(&config, &directory, marks, VecDeque::new(), None)?;
    Ok(())
}

/// What one controller's state directory holds, with nobody using it.
pub struct Remains<M: Machine> {
    /// The state: the newest snapshot and every entry of the log, also those that this controller
    /// does not know to be committed. Any of them may have been acknowledged.
    pub machine: M,
    /// Highest term that it saw.
    pub term: u64,
    /// Position of the last entry.
    pub last: u64,
    /// Position up to which it knew that a quorum agreed.
    pub committed: u64,
    /// The controllers with a vote.
    pub voters: Vec<Member>,
    config: WalConfig,
    _directory: StateDirectory,
}

/// Reads what is left in a state directory and keeps it locked.
///
/// # Errors
/// As [`open`](crate::open): in use, foreign, damaged, or not initialised.
pub fn remains_of<M: Machine>(config: &WalConfig, mut machine: M) -> Result<Remains<M>, OpenError> {
    let directory = StateDirectory::open(config)?;
    let recovered = recover_log(&directory, config)?;
    let snapshots =
        SnapshotStore::new(plain_disk(config), directory.snapshots(), config.cluster_id);
    let restored = restore(&snapshots, &recovered, &directory, &mut machine)?;
    let covered = restored.as_ref().map_or(0, SnapshotInfo::lsn);
    let damaged = |detail| Damage {
        file: directory.log(),
        offset: 0,
        detail,
    };
    let mut voters = match &restored {
        Some(info) => voters_of(&info.head.membership).map_err(damaged)?,
        None => Vec::new(),
    };
    for entry in recovered
        .entries
        .iter()
        .filter(|entry| entry.position.index > covered)
    {
        if let Some(changed) = take(entry, &mut machine).map_err(damaged)? {
            voters = changed;
        }
    }
    let marks = recovered.marks;
    let last = marks.last.unwrap_or(LogPosition { term: 0, index: 0 });
    Ok(Remains {
        machine,
        term: marks.vote.map_or(0, |vote| vote.term).max(last.term),
        last: last.index.max(covered),
        committed: marks.committed.map_or(0, |at| at.index).max(covered),
        voters,
        config: config.clone(),
        _directory: directory,
    })
}

/// Applies one entry; the controllers with a vote are given back where it changes them.
fn take<M: Machine>(entry: &StoredEntry, machine: &mut M) -> Result<Option<Vec<Member>>, String> {
    let at = entry.position;
    let changed = match entry.kind {
        EntryKind::Blank => None,
        EntryKind::Membership => voters_in(entry)?,
        EntryKind::Groups => {
            for (sub, group) in (0..).zip(groups::unpack(&entry.payload)?) {
                let place = Position {
                    term: at.term,
                    lsn: at.index,
                    sub,
                };
                machine.apply(place, group);
            }
            None
        }
    };
    machine.publish(at.index, at.term);
    Ok(changed)
}

impl<M: Machine> Remains<M> {
    /// Puts a beginning anew in place of what the directory held, which is kept in the folder
    /// `aside` within it. After a crash in the middle [`finish`] completes it.
    ///
    /// # Errors
    /// An error of the system.
    pub fn begin_anew(self, beginning: &Beginning, aside: &str) -> Result<(), OpenError> {
        let root = self.config.dir.clone();
        let making = root.join(format!("{ANEW}.tmp"));
        if making.exists() {
            std::fs::remove_dir_all(&making).map_err(io_error("remove", &making))?;
        }
        let config = WalConfig {
            dir: making.clone(),
            ..self.config.clone()
        };
        begin_anew(&config, &self.machine, beginning)?;
        let ready = root.join(ANEW);
        rename(&making, &ready)?;
        sync_directory(&root).map_err(io_error("sync", &root))?;
        finish(&root, aside).map(drop)
    }
}

/// Completes a beginning anew that a crash interrupted; says whether there was one.
///
/// # Errors
/// An error of the system.
pub fn finish(root: &Path, aside: &str) -> Result<bool, OpenError> {
    let ready = root.join(ANEW);
    if !ready.join("IDENTITY").exists() {
        return Ok(false);
    }
    let aside = root.join(aside);
    std::fs::create_dir_all(&aside).map_err(io_error("create", &aside))?;
    // Without the first the directory is no state that anybody goes on with; it comes back last.
    for part in ["IDENTITY", "MEMBERS", "log", "snapshots"] {
        let (old, kept) = (root.join(part), aside.join(part));
        if old.exists() && !kept.exists() {
            rename(&old, &kept)?;
        }
    }
    sync_directory(root).map_err(io_error("sync", root))?;
    for part in ["log", "snapshots", "MEMBERS", "IDENTITY"] {
        let (new, place) = (ready.join(part), root.join(part));
        if new.exists() {
            rename(&new, &place)?;
            sync_directory(root).map_err(io_error("sync", root))?;
        }
    }
    std::fs::remove_dir_all(&ready).map_err(io_error("remove", &ready))?;
    sync_directory(root).map_err(io_error("sync", root))?;
    Ok(true)
}

fn rename(from: &Path, to: &PathBuf) -> Result<(), OpenError> {
    std::fs::rename(from, to).map_err(io_error("rename", from))
}
