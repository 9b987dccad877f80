//! How long a service is without a replica: from the exit of one to its restart in place, against a
//! bare wait, fork and exec of the same program; and from the order to kill one to the start of its
//! replacement, against the syncs of the same disk. One JSON line.
//!
//! A replica is a shell that writes its process id into a named pipe as the first thing that it
//! does, so that every start is seen when it happens, by whoever reads the pipe.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use serde_json::json;
use xce_session::policy_wire::ServiceRequest;
use xce_session::wire::{AskService, ServiceName};
use xce_tests::Setup;

use crate::client::{Client, Fault, service};
use crate::wal::RawDisk;

/// Starts measured of each kind. Source: derived; a median needs some tens.
const SAMPLES: usize = 60;
/// How long the disk is measured. Source: derived; some thousands of syncs.
const DISK_FOR: Duration = Duration::from_secs(1);
/// Pause before a replica is ended, so that nothing of the start before it goes on.
/// Source: chosen; fifty times what is measured.
const REST: Duration = Duration::from_millis(100);
/// Syncs that a replacement may take, and milliseconds. Source: the requirement.
const SYNCS: f64 = 6.0;
const BESIDES_MS: f64 = 5.0;

/// Measures and prints.
pub fn run() -> Result<(), Fault> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let cluster = Setup::new("bench-restarts").workers(1).start();
    let client = runtime.block_on(Client::connect(cluster.home(), cluster.address()))?;
    let bare = bare(&Pipe::new(&cluster.folder().join("bare"))?)?;
    eprintln!("restarts: bare {bare} ms");
    let pipe = Pipe::new(&cluster.folder().join("in-place"))?;
    let mut spec = service("in-place", 1);
    spec.template.command = pipe.command.clone();
    runtime.block_on(client.service(AskService::Create(Box::new(ServiceRequest::whole(&spec)))))?;
    let in_place = in_place(&pipe)?;
    eprintln!("restarts: in place {in_place} ms");
    let pipe = Pipe::new(&cluster.folder().join("replaced"))?;
    let mut spec = service("replaced", 1);
    spec.template.command = pipe.command.clone();
    runtime.block_on(client.service(AskService::Create(Box::new(ServiceRequest::whole(&spec)))))?;
    let replaced = replaced(&pipe, || {
        let name = ServiceName {
            project: "default".to_owned(),
            name: "replaced".to_owned(),
        };
        runtime.block_on(client.service(AskService::Kill { name, index: 0 }))
    })?;
    eprintln!("restarts: replaced {replaced} ms");
    let mut waits = Vec::new();
    RawDisk::open(cluster.folder())?.measure(DISK_FOR, &mut waits)?;
    waits.sort_unstable();
    let sync_ms = waits[waits.len() / 2] as f64 / 1000.0;
    println!(
        "{}",
        json!({
            "bench": "restarts",
            "samples": SAMPLES,
            "bare_p50_ms": bare.p50,
            "in_place_p50_ms": in_place.p50,
            "in_place_p99_ms": in_place.p99,
            "in_place_above_bare_ms": round(in_place.p50 - bare.p50),
            "sync_p50_ms": sync_ms,
            "replaced_p50_ms": replaced.p50,
            "replaced_p99_ms": replaced.p99,
            "replaced_allowed_ms": round(SYNCS * sync_ms + BESIDES_MS),
        })
    );
    Ok(())
}

fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// A named pipe, and a program that writes its process id into it and sleeps.
struct Pipe {
    command: Vec<String>,
    reader: std::cell::RefCell<BufReader<File>>,
}

impl Pipe {
    fn new(path: &Path) -> Result<Self, Fault> {
        mkfifo(path, Mode::from_bits_truncate(0o622))?;
        // Opened for writing as well, it never comes to an end.
        let file = File::options().read(true).write(true).open(path)?;
        let script = format!("echo $$ > {}; exec sleep 100000", path.display());
        Ok(Self {
            command: ["/bin/sh", "-c", &script].map(str::to_owned).into(),
            reader: std::cell::RefCell::new(BufReader::new(file)),
        })
    }

    /// Waits for a start; the process that did.
    fn started(&self) -> Result<Pid, Fault> {
        let mut line = String::new();
        self.reader.borrow_mut().read_line(&mut line)?;
        Ok(Pid::from_raw(line.trim().parse()?))
    }
}

/// Milliseconds.
struct Times {
    p50: f64,
    p99: f64,
}

impl std::fmt::Display for Times {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} (p99 {})", self.p50, self.p99)
    }
}

fn measure(mut one: impl FnMut() -> Result<Duration, Fault>) -> Result<Times, Fault> {
    let mut times = Vec::with_capacity(SAMPLES);
    for _ in 0..SAMPLES {
        std::thread::sleep(REST);
        times.push(one()?.as_secs_f64() * 1000.0);
    }
    times.sort_by(f64::total_cmp);
    Ok(Times {
        p50: round(times[SAMPLES / 2]),
        p99: round(times[SAMPLES * 99 / 100]),
    })
}

/// From a kill to the start of the next, by a parent that does nothing else.
fn bare(pipe: &Pipe) -> Result<Times, Fault> {
    let spawn = || -> Result<Child, Fault> {
        let mut command = Command::new(&pipe.command[0]);
        command.args(&pipe.command[1..]).stdin(Stdio::null());
        Ok(command.spawn()?)
    };
    let mut child = spawn()?;
    let mut pid = pipe.started()?;
    let times = measure(|| {
        let begin = Instant::now();
        kill(pid, Signal::SIGKILL)?;
        child.wait()?;
        child = spawn()?;
        pid = pipe.started()?;
        Ok(begin.elapsed())
    });
    child.kill()?;
    child.wait()?;
    times
}

fn in_place(pipe: &Pipe) -> Result<Times, Fault> {
    let mut pid = pipe.started()?;
    measure(|| {
        let begin = Instant::now();
        kill(pid, Signal::SIGKILL)?;
        pid = pipe.started()?;
        Ok(begin.elapsed())
    })
}

fn replaced(pipe: &Pipe, mut kill: impl FnMut() -> Result<(), Fault>) -> Result<Times, Fault> {
    pipe.started()?;
    measure(|| {
        let begin = Instant::now();
        kill()?;
        pipe.started()?;
        Ok(begin.elapsed())
    })
}
