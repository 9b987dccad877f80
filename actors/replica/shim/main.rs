//! `xce-shim RUN_DIR`: runs the job that the spec in the directory names, once, and ends with it.
//!
//! Codes: 0 the outcome is recorded; 2 wrong arguments; 3 the directory was claimed before; 4 the
//! outcome could not be recorded.
//!
//! Linked without shared libraries where that is possible (see `build.rs`), since it starts with each
//! job. Such a shim may know users by name only from `/etc/passwd`, so the worker resolves names.

mod child;
mod clients;
mod deadlines;
mod launch;
mod outputs;
mod supervise;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use xce_failpoint::Point;
use xce_shim::{
    Claim, ClaimError, Event, ExitRecord, HostFaultKind, LaunchFailure, Outcome, RecordError, Spec,
    machine, record,
};

use crate::clients::Clients;
use crate::supervise::Supervisor;

const EXIT_USAGE: u8 = 2;
const EXIT_TAKEN: u8 = 3;
const EXIT_UNRECORDED: u8 = 4;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(run_dir), None) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: xce-shim RUN_DIR");
        return ExitCode::from(EXIT_USAGE);
    };
    if let Err(error) = xce_failpoint::arm() {
        tell(&Event::Error(error.to_string()));
        return ExitCode::from(EXIT_USAGE);
    }
    match run(&PathBuf::from(run_dir)) {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, text)) => {
            tell(&Event::Error(text));
            ExitCode::from(code)
        }
    }
}

fn run(run_dir: &Path) -> Result<(), (u8, String)> {
    let unusable = |text: String| (EXIT_UNRECORDED, text);
    close_inherited();
    // From here all names are short: no path is too long, and the worker's directory is let go.
    let entered = rustix::process::chdir(run_dir);
    entered.map_err(|errno| unusable(format!("run directory {}: {errno}", run_dir.display())))?;
    let here = Path::new(".");
    let _claim = Claim::take(here).map_err(|error| match error {
        ClaimError::Taken => (EXIT_TAKEN, error.to_string()),
        ClaimError::Unwritable(ref source) => unusable(format!("{error}: {source}")),
    })?;
    xce_failpoint::hit(Point::ShimClaimed);
    let signals = become_independent().map_err(|error| unusable(format!("signals: {error}")))?;
    let (spec, failure) = match Spec::load(here) {
        Ok(spec) => (spec, None),
        Err(error) => (Spec::new("", Vec::new(), "/"), Some(spec_failure(&error))),
    };
    let clients = Clients::listen(Path::new("sock"));
    let clients = clients.map_err(|error| unusable(format!("cannot listen: {error}")))?;
    let launched = match failure {
        None => launch::launch(&spec, here),
        Some(failure) => Err(failure),
    };
    match launched {
        Ok(launched) => Supervisor::new(spec, launched, signals, clients).run(here),
        Err(failure) => not_launched(&spec, failure, here, clients),
    }
}

fn not_launched(
    spec: &Spec,
    failure: LaunchFailure,
    run_dir: &Path,
    mut clients: Clients,
) -> Result<(), (u8, String)> {
    let exit = ExitRecord {
        version: record::RECORD_VERSION,
        nonce: spec.nonce.clone(),
        outcome: Outcome::NotLaunched(failure),
        cause: None,
        ended_wall_ms: machine::wall_ms(),
        run_ms: 0,
        user_ms: 0,
        system_ms: 0,
        peak_memory_bytes: 0,
        memory_kills: 0,
    };
    let stored = exit.store(run_dir, spec.sync_exit);
    stored.map_err(|error| (EXIT_UNRECORDED, format!("exit record: {error}")))?;
    let event = Event::Exit(exit);
    clients.accept(&event);
    tell(&event);
    Ok(())
}

fn spec_failure(error: &RecordError) -> LaunchFailure {
    LaunchFailure::host(HostFaultKind::SpecUnreadable, &error.to_string())
}

// What the worker left open by mistake must not live on in the job. Nothing here is open yet, so
// every number above the first three is a stranger's.
fn close_inherited() {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else {
        return;
    };
    let open = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let strangers: Vec<i32> = open.filter(|number| *number > 2).collect();
    for number in strangers {
        // One of them was the listing itself, which is closed already.
        let _ = nix::unistd::close(number);
    }
}

// No signal of the worker's terminal or group arrives, and orphans of the job come back here.
fn become_independent() -> std::io::Result<SignalFd> {
    // Fails only for who leads a group already, and then nothing is to be done.
    let _ = rustix::process::setsid();
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let mut mask = SigSet::empty();
    for signal in [
        Signal::SIGCHLD,
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
    ] {
        mask.add(signal);
    }
    mask.thread_block()?;
    Ok(SignalFd::with_flags(
        &mask,
        SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK,
    )?)
}

/// Tells whoever started the shim; nobody may be there.
fn tell(event: &Event) {
    let mut out = std::io::stdout().lock();
    let _ = out
        .write_all(event.line().as_bytes())
        .and_then(|()| out.flush());
}
