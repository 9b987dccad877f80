//! Ending what a dead shim left behind.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use crate::cgroup;
use crate::claim::{self, Held};
use crate::inspect::has_records;
use crate::machine::{self, ProcessStat};
use crate::record::RunRecord;
use crate::spec::Spec;
use crate::tree;

/// Name of a variable that, when the worker sets it to the run's nonce in the job's environment,
/// lets [`reclaim`] also find processes that left the session on a host without control groups.
/// Every process with it is taken for one of the run, so a nonce must never be used twice.
pub const NONCE_VARIABLE: &str = "XCE_NONCE";

/// What is left of a run whose shim is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reclaim {
    /// Nothing; its control groups are removed.
    Gone,
    /// So many processes have been killed and are still dying: call again.
    Dying(usize),
    /// The shim lives: nothing was done.
    ShimAlive,
}

/// Kills a shim that does not answer, if it is the process that its run record names; its job dies
/// with it, and [`reclaim`] ends the rest. Returns whether a signal was sent.
///
/// # Errors
/// When the run directory cannot be read.
pub fn kill_shim(run_dir: &Path) -> io::Result<bool> {
    if claim::held(run_dir)? != Held::Yes {
        return Ok(false);
    }
    let Ok(run) = RunRecord::load(run_dir) else {
        return Ok(false);
    };
    let shim = machine::process_stat(run.shim.pid);
    let same = shim.filter(|stat| stat.start_ticks == run.shim.start_ticks);
    Ok(same.is_some_and(|stat| tree::signal_one(&stat, Signal::KILL)))
}

/// Kills what a dead shim left behind: everything in its control group, its first process and the
/// session of that, if the boot is the same. Never blocks; call it until it says [`Reclaim::Gone`].
///
/// # Errors
/// When the run directory cannot be read.
pub fn reclaim(run_dir: &Path) -> io::Result<Reclaim> {
    match claim::held(run_dir)? {
        Held::Yes => return Ok(Reclaim::ShimAlive),
        Held::Never if !has_records(run_dir) => return Ok(Reclaim::Gone),
        Held::Never | Held::NoLonger => {}
    }
    let run = RunRecord::load(run_dir).ok();
    let spec = Spec::load(run_dir).ok();
    let same_boot = match &run {
        Some(run) => run.boot_id == machine::boot_id()?,
        None => true,
    };
    let groups = directories(run.as_ref(), spec.as_ref());
    let mut left = 0;
    if same_boot {
        // One whose lock was removed may live; it does not where the lock is free.
        let shim = run.as_ref().and_then(|run| {
            let stat = machine::process_stat(run.shim.pid)?;
            (stat.start_ticks == run.shim.start_ticks && stat.is_alive()).then_some(stat)
        });
        if shim.is_some_and(|stat| tree::signal_one(&stat, Signal::KILL)) {
            left += 1;
        }
        for group in &groups {
            left += kill_group(group);
        }
        let nonce = run.as_ref().map(|run| &run.nonce);
        let nonce = nonce.or(spec.as_ref().map(|spec| &spec.nonce));
        left += kill_found(run.as_ref(), nonce.map(String::as_str));
    }
    if left > 0 {
        return Ok(Reclaim::Dying(left));
    }
    for group in &groups {
        cgroup::remove(group);
    }
    Ok(Reclaim::Gone)
}

/// What still lives of a run, the shim itself left out; nothing is signalled.
///
/// # Errors
/// When the boot id cannot be read.
pub fn left(run_dir: &Path) -> io::Result<Vec<ProcessStat>> {
    let run = RunRecord::load(run_dir).ok();
    let spec = Spec::load(run_dir).ok();
    if let Some(run) = &run
        && run.boot_id != machine::boot_id()?
    {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for group in directories(run.as_ref(), spec.as_ref()) {
        found.extend(
            cgroup::members(&group)
                .into_iter()
                .filter_map(machine::process_stat),
        );
    }
    if let Some(run) = &run {
        let shim = machine::process_stat(run.shim.pid);
        if shim.is_some_and(|stat| stat.start_ticks == run.shim.start_ticks) {
            found.extend(tree::descendants(run.shim.pid));
        }
    }
    let nonce = run.as_ref().map(|run| &run.nonce);
    let nonce = nonce.or(spec.as_ref().map(|spec| &spec.nonce));
    found.extend(found_alone(run.as_ref(), nonce.map(String::as_str)));
    let shim = run.as_ref().map(|run| run.shim.pid);
    found.retain(|stat| stat.is_alive() && Some(stat.pid) != shim);
    found.sort_unstable_by_key(|stat| stat.pid);
    found.dedup_by_key(|stat| stat.pid);
    Ok(found)
}

// A shim that died before it wrote its run record left the group that its spec names.
fn directories(run: Option<&RunRecord>, spec: Option<&Spec>) -> Vec<PathBuf> {
    if let Some(run) = run {
        return run.cgroups.iter().map(PathBuf::from).collect();
    }
    let path = spec
        .filter(|spec| spec.check().is_ok())
        .and_then(|spec| spec.cgroup.as_ref());
    match (cgroup::v2_mount(), path) {
        (Some(mount), Some(path)) => vec![mount.join(path)],
        (Some(_) | None, None) | (None, Some(_)) => Vec::new(),
    }
}

fn kill_group(group: &Path) -> usize {
    if cgroup::kill(group).is_ok() {
        return usize::from(cgroup::is_populated(group));
    }
    let members = cgroup::members(group);
    let found = members.into_iter().filter_map(machine::process_stat);
    found
        .filter(|stat| stat.is_alive() && tree::signal_one(stat, Signal::KILL))
        .count()
}

fn kill_found(run: Option<&RunRecord>, nonce: Option<&str>) -> usize {
    let found = found_alone(run, nonce).into_iter();
    found
        .filter(|stat| tree::signal_one(stat, Signal::KILL))
        .count()
}

fn found_alone(run: Option<&RunRecord>, nonce: Option<&str>) -> Vec<ProcessStat> {
    // A process of the run is younger than its first process; an older one of the same session
    // number is another session.
    let in_session = |stat: &ProcessStat| {
        run.is_some_and(|run| {
            let first = run.job;
            let is_first = stat.pid == first.pid && stat.start_ticks == first.start_ticks;
            let leader = machine::process_stat(first.pid);
            let same_session = leader.is_none_or(|leader| leader.start_ticks == first.start_ticks)
                && stat.session == first.pid
                && stat.start_ticks >= first.start_ticks;
            is_first || (first.pid > 0 && same_session)
        })
    };
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let found = machine::processes().into_iter().filter(|stat| {
        stat.pid != own
            && stat.is_alive()
            && (in_session(stat) || nonce.is_some_and(|nonce| carries_nonce(stat.pid, nonce)))
    });
    found.collect()
}

fn carries_nonce(pid: i32, nonce: &str) -> bool {
    if nonce.is_empty() {
        return false;
    }
    let wanted = format!("{NONCE_VARIABLE}={nonce}");
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment
        .split(|byte| *byte == 0)
        .any(|entry| entry == wanted.as_bytes())
}
