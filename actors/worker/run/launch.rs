//! From a run's specification to a started shim. Blocking.
//!
//! ```text
//!   runs/17-1/            directory of the shim of the first start: spec lock sock run exit
//!     order               the run's specification, for a worker that starts again
//!     memory              counts and verdicts, see `memory.rs`
//!     stdout stderr       output of all starts
//!     work/               working directory, where the job names none
//!     start-2/            directory of the shim of the second start; its output files are links
//! ```

use std::ffi::CString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::{Child, Command};
use xce_failpoint::Point;
use xce_model::spec::SingleCopy;
use xce_model::{Cause, Exit, Start};
use xce_replica::wire::RunSpec;
use xce_shim::{Limits, Output, Spec, User};

use super::giving_up::GivingUp;
use super::outcome::{CODE_NOT_EXECUTABLE, launch_failed};
use crate::environment::{Environment, ExpandError};
use crate::run_core::Input;
use crate::station::Station;

/// Mode of run directories: the job's user passes through to its working directory.
const RUN_DIRECTORY_MODE: u32 = 0o711;

const ORDER_FILE: &str = "order";
const WORK_DIRECTORY: &str = "work";
const STDOUT: &str = "stdout";
const STDERR: &str = "stderr";

/// Largest order file read, in bytes.
///
/// Source: derived; environment and command are bounded to 320 KiB, and JSON escapes at most
/// sixfold.
const ORDER_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// What became of a launch.
#[derive(Debug)]
pub enum Launched {
    /// A shim was started.
    Shim(Child),
    /// The directory was claimed before: see what is there.
    Claimed,
    /// There is nothing to start; the run is told why.
    Not(Input),
}

/// Directory of the shim of a start.
pub fn start_dir(run_dir: &Path, start: Start) -> PathBuf {
    if start <= 1 {
        run_dir.to_path_buf()
    } else {
        run_dir.join(format!("start-{start}"))
    }
}

/// Name of the file of an output stream.
pub fn output_name(stderr: bool) -> &'static str {
    if stderr { STDERR } else { STDOUT }
}

/// The working directory of a run before replacement of names, absent for its own.
pub fn own_work_dir(run_dir: &Path) -> PathBuf {
    run_dir.join(WORK_DIRECTORY)
}

/// Whether no shim was ever started for a run: its specification for one is not written, and comes
/// last. What else is there may be broken.
pub fn never_began(run_dir: &Path) -> bool {
    let is_absent = |name: &str| matches!(fs::symlink_metadata(run_dir.join(name)), Err(error) if error.kind() == io::ErrorKind::NotFound);
    ["spec", "lock", "run", "exit"].into_iter().all(is_absent)
}

/// Reads the specification of a run that an earlier worker started.
///
/// # Errors
/// When the file is missing, too large or no specification.
pub fn load_order(run_dir: &Path) -> io::Result<RunSpec> {
    let path = run_dir.join(ORDER_FILE);
    if fs::metadata(&path)?.len() > ORDER_BYTES_MAX {
        return Err(io::Error::other("the order is too large"));
    }
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

/// User and group of the job, where they are not the worker's own.
pub fn other_user(spec: &RunSpec) -> Option<(u32, u32)> {
    let user = &spec.template.user;
    (user.uid != rustix::process::geteuid().as_raw()).then_some((user.uid, user.gid))
}

/// The environment of a start.
pub fn environment(station: &Station, spec: &RunSpec, nonce: &str) -> Environment {
    let home = station
        .home
        .as_deref()
        .filter(|_| other_user(spec).is_none());
    Environment::of(spec, &station.settings.name, nonce, home)
}

/// The working directory of a run.
///
/// # Errors
/// When it names an unknown variable.
pub fn work_dir(
    spec: &RunSpec,
    run_dir: &Path,
    environment: &Environment,
) -> Result<String, ExpandError> {
    match &spec.template.cwd {
        Some(cwd) => environment.expand(cwd),
        None => Ok(own_work_dir(run_dir).to_string_lossy().into_owned()),
    }
}

/// Prepares the directory of a start and starts its shim. Must run within the async runtime, on a
/// thread that may block.
pub fn launch(station: &Station, spec: &RunSpec, start: Start, giving_up: &GivingUp) -> Launched {
    if giving_up.is_given_up() {
        return host_fault(start, "it was given up before it began");
    }
    let run_dir = station.dir.run(spec.run);
    let nonce = station.next_nonce();
    let shim_spec = match shim_spec(station, spec, &run_dir, &nonce) {
        Ok(shim_spec) => shim_spec,
        Err(error) => {
            let exit = launch_failed(CODE_NOT_EXECUTABLE, &error.to_string());
            return Launched::Not(Input::Exited {
                start,
                exit,
                ran_ms: 0,
            });
        }
    };
    let now_ms = station.clock.monotonic_ms();
    if shim_spec.lease_boot_ms.is_some_and(|until| until <= now_ms) {
        return without_lease(start);
    }
    match prepare(spec, &run_dir, start, &shim_spec) {
        Ok(false) => return Launched::Claimed,
        Ok(true) => {}
        Err(error) => return host_fault(start, &format!("{}: {error}", run_dir.display())),
    }
    let shim = &station.settings.shim;
    let mut command = Command::new(shim);
    command
        .arg(start_dir(&run_dir, start))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    match command.spawn() {
        Ok(child) => {
            xce_failpoint::hit(Point::RunShimSpawned);
            Launched::Shim(child)
        }
        Err(error) => host_fault(start, &format!("{}: {error}", shim.display())),
    }
}

/// When the shim of a strict single copy kills it, unless that is extended.
fn lease(station: &Station, spec: &RunSpec) -> Option<u64> {
    let is_strict = spec.template.single_copy == SingleCopy::Strict;
    is_strict.then(|| station.leases.until_ms())
}

/// What becomes of a start whose lease is over before it began: another copy may start soon.
fn without_lease(start: Start) -> Launched {
    let detail = "the lease of its single copy was over before it could start";
    if start <= 1 {
        return host_fault(start, detail);
    }
    let exit = Exit {
        detail: detail.to_owned(),
        ..Exit::of(Cause::HostLost)
    };
    Launched::Not(Input::Exited {
        start,
        exit,
        ran_ms: 0,
    })
}

fn host_fault(start: Start, text: &str) -> Launched {
    Launched::Not(Input::LaunchFailed {
        start,
        text: text.to_owned(),
    })
}

fn shim_spec(
    station: &Station,
    spec: &RunSpec,
    run_dir: &Path,
    nonce: &str,
) -> Result<Spec, ExpandError> {
    let template = &spec.template;
    let environment = environment(station, spec, nonce);
    let argv: Result<Vec<_>, _> = template
        .command
        .iter()
        .map(|word| environment.expand(word))
        .collect();
    let work_dir = work_dir(spec, run_dir, &environment)?;
    let settings = &station.settings;
    let cgroup = settings.cgroup_parent.as_ref();
    let name = crate::state_dir::run_name(spec.run);
    Ok(Spec {
        env: environment.pairs().clone().into_iter().collect(),
        user: other_user(spec).map(|(uid, gid)| shim_user(&template.user.name, uid, gid)),
        stdout: Output::Spool(STDOUT.to_owned()),
        stderr: Output::Spool(STDERR.to_owned()),
        output_bytes_max: settings.output_bytes_max,
        cgroup: cgroup.map(|parent| format!("{parent}/{name}")),
        limits: match cgroup {
            None => Limits::default(),
            Some(_) => Limits {
                memory_bytes: Some(template.resources.memory.0).filter(|bytes| *bytes > 0),
                pids: None,
                cpu_milli: Some(template.resources.cpus.0).filter(|milli| *milli > 0),
            },
        },
        run_limit_ms: template.run_limit.map(|limit| limit.0),
        stop_signal: template.stop.signal,
        stop_grace_ms: template.stop.grace.0,
        lease_boot_ms: lease(station, spec),
        sync_exit: settings.sync,
        ..Spec::new(nonce, argv?, &work_dir)
    })
}

/// The job's user for its shim, which may know no users but those of `/etc/passwd`. A name that is
/// not known here either is left to the shim, which says so.
fn shim_user(name: &str, uid: u32, gid: u32) -> User {
    if name.is_empty() {
        let groups = Vec::new();
        return User::Ids { uid, gid, groups };
    }
    let known = nix::unistd::User::from_name(name).ok().flatten();
    let found = known.and_then(|user| {
        let name = CString::new(name).ok()?;
        let groups = nix::unistd::getgrouplist(&name, user.gid).ok()?;
        Some(User::Ids {
            uid: user.uid.as_raw(),
            gid: user.gid.as_raw(),
            groups: groups.into_iter().map(nix::unistd::Gid::as_raw).collect(),
        })
    });
    found.unwrap_or_else(|| User::Name(name.to_owned()))
}

/// Makes the directory of a start; `false` when a shim has claimed it before.
fn prepare(spec: &RunSpec, run_dir: &Path, start: Start, shim_spec: &Spec) -> io::Result<bool> {
    let dir = start_dir(run_dir, start);
    let is_new = match DirBuilder::new().mode(RUN_DIRECTORY_MODE).create(&dir) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if dir.join("lock").exists() {
                return Ok(false);
            }
            false
        }
        Err(error) => return Err(error),
    };
    xce_failpoint::check(Point::RunDirectoryMade)?;
    if start <= 1 {
        fs::write(dir.join(ORDER_FILE), serde_json::to_vec(spec)?)?;
        xce_failpoint::check(Point::RunOrderWritten)?;
        if spec.template.cwd.is_none() {
            make_work_dir(spec, &own_work_dir(run_dir))?;
        }
    } else {
        for name in [STDOUT, STDERR] {
            share(&run_dir.join(name), &dir.join(name))?;
        }
    }
    if is_new {
        shim_spec.store_first(&dir)?;
    } else {
        // A shim of an earlier worker may be about to read it.
        shim_spec.store(&dir)?;
    }
    xce_failpoint::check(Point::RunSpecWritten)?;
    Ok(true)
}

fn make_work_dir(spec: &RunSpec, path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o755).create(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    match other_user(spec) {
        Some((uid, gid)) => std::os::unix::fs::chown(path, Some(uid), Some(gid)),
        None => Ok(()),
    }
}

/// One output file for all starts. Where the job's first start left none there is none to share.
fn share(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Ok(()) => Ok(()),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound
            ) =>
        {
            Ok(())
        }
        Err(error) => Err(error),
    }
}
