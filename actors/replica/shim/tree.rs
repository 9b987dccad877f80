//! Finding and ending the processes of a job where no control group does it.
//!
//! A shim is a subreaper: whatever the job forks stays its descendant, also after `setsid` and a
//! double fork. A walk misses what is forked during it, so a walk is repeated until it finds
//! nothing new; what still slips through makes its dying parent a child of the shim, whose signal
//! starts the next walk.

use std::collections::{BTreeMap, BTreeSet};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::machine::{self, ProcessStat};

/// Most walks of one pass; the next child signal starts another pass.
/// Source: derived; each walk at least halves what a fork bomb that was signalled can still add.
const WALKS_MAX: usize = 64;

/// All living descendants of a process.
pub fn descendants(root: i32) -> Vec<ProcessStat> {
    let mut children: BTreeMap<i32, Vec<ProcessStat>> = BTreeMap::new();
    for stat in machine::processes() {
        children.entry(stat.parent).or_default().push(stat);
    }
    let mut found = Vec::new();
    let mut next = vec![root];
    while let Some(parent) = next.pop() {
        for stat in children.remove(&parent).unwrap_or_default() {
            next.push(stat.pid);
            found.push(stat);
        }
    }
    found.retain(ProcessStat::is_alive);
    found
}

/// Sends a signal to every descendant, repeating the walk until it finds nothing new.
pub fn signal_descendants(root: i32, signal: Signal) -> usize {
    let mut done = BTreeSet::new();
    for _ in 0..WALKS_MAX {
        let known = done.len();
        for stat in descendants(root) {
            if done.insert((stat.pid, stat.start_ticks)) {
                signal_one(&stat, signal);
            }
        }
        if done.len() == known {
            break;
        }
    }
    done.len()
}

/// Sends a signal to exactly this process: its handle is taken first, then its start is compared,
/// so a pid that was given again is never hit. Returns whether the process was there.
pub fn signal_one(stat: &ProcessStat, signal: Signal) -> bool {
    let Some(pid) = Pid::from_raw(stat.pid) else {
        return false;
    };
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else {
        return false;
    };
    let same = machine::start_ticks(stat.pid) == stat.start_ticks;
    same && pidfd_send_signal(&handle, signal).is_ok()
}
