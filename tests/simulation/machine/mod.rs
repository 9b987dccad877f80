//! A machine: its worker, what that keeps on disk, and the processes with their shims.

mod daemon;
mod perform;
mod processes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use xce_host::Remnant;
use xce_host::facts::Inventory;
use xce_model::{Bytes, Cause, Exit, Incarnation, MilliCpu, Start};
use xce_replica::wire::{RunId, RunSpec};
use xce_worker::memory::Memory;
use xce_worker::probe::Role;
use xce_worker::probe::verdict::ProbeCore;
use xce_worker::run_core::{RunCore, Turn};
use xce_worker::spool::Queue;
use xce_worker::turns::Turns;

use crate::behaviour::Behaviour;

/// What happens on a machine.
#[derive(Debug, Clone)]
pub enum MachineEvent {
    /// The worker connects.
    Connect(u64),
    /// Time for a beat of this daemon.
    Beat(u64),
    /// A link was silent for too long.
    Idle(u64),
    /// A link's other end died without a word.
    Broken(u64),
    /// Facts are to be sent.
    Send(u64),
    /// The deadline of a run.
    Tick(RunId, u64),
    /// A try of a probe begins.
    Probe(RunId, Role, u64),
    /// A try of a probe that began then ends.
    Probed(RunId, Role, u64, u64),
    /// A launch gets as far as the process.
    Launched(RunId, Start),
    /// A process ends by itself, or because it was told to.
    Ends(RunId, Start, u64),
    /// The worker starts.
    StartDaemon(u64),
}

/// Where a start of a run is, by the records of its shim.
#[derive(Debug, Clone)]
pub enum Shim {
    Launching,
    Running {
        since_ms: u64,
        pid: u32,
    },
    Exited {
        exit: Exit,
        ran_ms: u64,
        ran: bool,
    },
    /// The host could not start it.
    HostFault(String),
    /// Gone without a word.
    Lost,
}

/// One start of a run.
#[derive(Debug, Clone)]
pub struct Process {
    pub behaviour: Behaviour,
    pub shim: Shim,
    /// Why it was told to stop.
    pub cause: Option<Cause>,
    /// Number of what ends it; a later stop may come earlier.
    pub ends: u64,
}

impl Process {
    pub fn is_alive(&self) -> bool {
        matches!(self.shim, Shim::Running { .. })
    }
}

/// The directory of a run.
#[derive(Debug, Clone)]
pub struct RunDir {
    pub spec: Arc<RunSpec>,
    pub memory: Memory,
    pub starts: BTreeMap<Start, Process>,
}

/// What a power cut leaves.
#[derive(Debug, Default)]
pub struct Disk {
    pub runs: BTreeMap<RunId, RunDir>,
    pub ended: BTreeSet<RunId>,
    pub spool: Queue,
    pub epoch: u64,
    pub term: u64,
}

/// A probe of a run that lives here.
#[derive(Debug)]
pub struct Probing {
    pub core: ProbeCore,
    pub number: u64,
}

/// A run as the worker knows it.
#[derive(Debug)]
pub struct Live {
    pub core: RunCore,
    pub since_ms: u64,
    pub probes: BTreeMap<Role, Probing>,
    pub tick: Option<u64>,
    pub stop: Option<Cause>,
    pub turn: Turn,
}

/// The worker while it runs.
#[derive(Debug, Default)]
pub struct Daemon {
    pub number: u64,
    pub rebooted: bool,
    pub link: Option<u64>,
    pub joined: bool,
    pub resynced: bool,
    pub leaving: bool,
    pub beats: u64,
    /// The last beat that was answered on this link.
    pub answered: u64,
    /// Where the primary is said to be.
    pub hint: Option<usize>,
    /// The controller that was tried last.
    pub tried: usize,
    /// Highest fact that was sent on this link, and in which epoch.
    pub cursor: u64,
    pub cursor_epoch: u64,
    pub send_due: bool,
    pub live: BTreeMap<RunId, Live>,
    /// When the controller was last heard.
    pub heard: u64,
    pub turns: Turns,
}

#[derive(Debug)]
pub struct Machine {
    pub place: usize,
    pub name: Arc<str>,
    pub inventory: Inventory,
    pub boots: u64,
    pub powered: bool,
    pub cut: bool,
    pub slow_ms: u64,
    pub disk: Disk,
    pub daemon: Option<Daemon>,
    /// Number of the last daemon, probe, and end of a process.
    pub numbers: u64,
    pub pids: u32,
}

impl Machine {
    /// What its live runs hold of it.
    pub fn held(&self) -> Vec<Remnant> {
        let live = self.daemon.iter().flat_map(|daemon| daemon.live.keys());
        let specs = live.filter_map(|run| self.disk.runs.get(run));
        specs
            .map(|dir| Remnant {
                job: dir.spec.run.job,
                run: dir.spec.run.run,
                ports: dir.spec.ports.iter().map(|(_, port)| *port).collect(),
                cpus: dir.spec.template.resources.cpus,
                memory: dir.spec.template.resources.memory,
                name: dir.spec.name.clone(),
                quarantined: false,
            })
            .collect()
    }

    pub fn new(place: usize, milli_cpus: u64) -> Self {
        let name = format!("h{}", place + 1);
        let byte = u8::try_from(place + 1).expect("few machines");
        Self {
            place,
            name: Arc::from(name.as_str()),
            inventory: Inventory {
                name,
                incarnation: Incarnation([byte; 16]),
                boot_id: "boot-1".to_owned(),
                address: format!("10.0.0.{byte}"),
                cpus: MilliCpu(milli_cpus),
                memory: Bytes(1 << 40),
                port_first: 20_000,
                port_last: 20_999,
                labels: Vec::new(),
                not_enforced: Vec::new(),
            },
            boots: 1,
            powered: true,
            cut: false,
            slow_ms: 0,
            disk: Disk {
                spool: Queue::new(0),
                epoch: 1,
                ..Disk::default()
            },
            daemon: None,
            numbers: 0,
            pids: 100,
        }
    }

    pub fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    pub fn process(&mut self, run: RunId, start: Start) -> Option<&mut Process> {
        self.disk.runs.get_mut(&run)?.starts.get_mut(&start)
    }

    /// Starts of runs whose process is alive.
    pub fn alive(&self) -> impl Iterator<Item = (RunId, Start, &RunDir)> {
        self.disk.runs.iter().flat_map(|(run, dir)| {
            let starts = dir.starts.iter();
            starts
                .filter(|(_, process)| process.is_alive())
                .map(move |(start, _)| (*run, *start, dir))
        })
    }
}
