//! Fake shims and processes: they live whatever becomes of the worker.

use xce_model::{Cause, Exit, Start};
use xce_replica::wire::RunId;
use xce_worker::run::outcome::launch_failed;
use xce_worker::run_core::Input;

use super::{MachineEvent, Process, Shim};
use crate::behaviour::Launch;
use crate::world::{Event, World};

/// Signal of a stop, and of a kill.
const TERM: i32 = 15;
const KILL: i32 = 9;

impl World {
    /// A shim is started, unless one was before.
    pub fn launch(&mut self, place: usize, run: RunId, start: Start) {
        let Some(dir) = self.machines[place].disk.runs.get(&run) else {
            return;
        };
        if dir.starts.contains_key(&start) {
            return self.meet("a launch that was claimed before");
        }
        self.check_launch(place, run);
        let command = &self.machines[place].disk.runs[&run].spec.template.command[0];
        let behaviour = self.behaviour(place, command);
        let wait = behaviour.launch_ms;
        let process = Process {
            behaviour,
            shim: Shim::Launching,
            cause: None,
            ends: 0,
        };
        if let Some(dir) = self.machines[place].disk.runs.get_mut(&run) {
            dir.starts.insert(start, process);
        }
        self.after(
            wait,
            Event::Machine(place, MachineEvent::Launched(run, start)),
        );
    }

    pub fn launched(&mut self, place: usize, run: RunId, start: Start) {
        let now = self.now;
        let machine = &mut self.machines[place];
        machine.pids += 1;
        let pid = machine.pids;
        let Some(process) = machine.process(run, start) else {
            return;
        };
        if !matches!(process.shim, Shim::Launching) {
            return;
        }
        match process.behaviour.launch {
            Launch::Fine => {
                process.shim = Shim::Running { since_ms: now, pid };
                let crash = process.behaviour.crash_ms;
                if let Some(wait) = crash {
                    self.after(
                        wait,
                        Event::Machine(place, MachineEvent::Ends(run, start, 0)),
                    );
                }
                self.run_runs(place, run, start, (now, pid));
            }
            Launch::NotFound => {
                let exit = launch_failed(127, "v: no such program");
                process.shim = Shim::Exited {
                    exit: exit.clone(),
                    ran_ms: 0,
                    ran: false,
                };
                let ran_ms = 0;
                self.feed(
                    place,
                    run,
                    Input::Exited {
                        start,
                        exit,
                        ran_ms,
                    },
                );
            }
            Launch::HostFails => {
                let text = "no room for its directory".to_owned();
                process.shim = Shim::HostFault(text.clone());
                self.feed(place, run, Input::LaunchFailed { start, text });
            }
        }
    }

    /// The shim is told to stop the process: with a grace, or at once.
    pub fn stop_process(&mut self, place: usize, run: RunId, cause: Cause, grace_ms: Option<u64>) {
        let Some(start) = self.live(place, run).map(|live| live.core.start()) else {
            return;
        };
        let number = self.machines[place].next_number();
        let Some(process) = self.machines[place].process(run, start) else {
            return;
        };
        if !process.is_alive() {
            return;
        }
        process.cause.get_or_insert(cause);
        if process.behaviour.undying {
            return;
        }
        let wait = match (grace_ms, process.behaviour.ignores_term) {
            (None, _) => 0,
            (Some(grace), true) => grace,
            (Some(grace), false) => process.behaviour.stop_ms.min(grace),
        };
        process.ends = number;
        self.after(
            wait,
            Event::Machine(place, MachineEvent::Ends(run, start, number)),
        );
    }

    pub fn process_ends(&mut self, place: usize, run: RunId, start: Start, number: u64) {
        let now = self.now;
        let Some(process) = self.machines[place].process(run, start) else {
            return;
        };
        let Shim::Running { since_ms, .. } = process.shim else {
            return;
        };
        // What ends it may have been called off, or come earlier by another way.
        let due = match (number, process.behaviour.crash_ms) {
            (0, Some(crash_ms)) => now - since_ms >= crash_ms,
            (0, None) => false,
            (number, _) => process.ends == number,
        };
        if !due {
            return;
        }
        let exit = match process.cause {
            None => Exit {
                code: Some(process.behaviour.code),
                ..Exit::of(Cause::Exited)
            },
            Some(cause) => Exit {
                signal: Some(if process.behaviour.ignores_term {
                    KILL
                } else {
                    TERM
                }),
                ..Exit::of(cause)
            },
        };
        let ran_ms = now - since_ms;
        process.shim = Shim::Exited {
            exit: exit.clone(),
            ran_ms,
            ran: true,
        };
        self.feed(
            place,
            run,
            Input::Exited {
                start,
                exit,
                ran_ms,
            },
        );
    }

    /// The shim is killed with what it guards.
    pub fn destroy(&mut self, place: usize, run: RunId) {
        let Some(start) = self.live(place, run).map(|live| live.core.start()) else {
            return;
        };
        let Some(process) = self.machines[place].process(run, start) else {
            return;
        };
        if process.behaviour.undying {
            return;
        }
        process.shim = Shim::Lost;
        let rebooted = false;
        self.feed(place, run, Input::Lost { start, rebooted });
    }

    /// A shim is killed by somebody: its process goes with it, and nobody knows how.
    pub fn kill_shim(&mut self, place: usize, run: RunId) {
        let Some(dir) = self.machines[place].disk.runs.get_mut(&run) else {
            return;
        };
        let Some((start, process)) = dir.starts.iter_mut().next_back() else {
            return;
        };
        if !process.is_alive() {
            return;
        }
        process.shim = Shim::Lost;
        let start = *start;
        self.meet("a shim that was killed");
        let rebooted = false;
        self.feed(place, run, Input::Lost { start, rebooted });
    }

    /// A process ends by itself now.
    pub fn crash_process(&mut self, place: usize, run: RunId) {
        let Some(dir) = self.machines[place].disk.runs.get_mut(&run) else {
            return;
        };
        let Some((start, process)) = dir.starts.iter_mut().next_back() else {
            return;
        };
        process.behaviour.crash_ms = Some(0);
        let start = *start;
        self.process_ends(place, run, start, 0);
    }
}
