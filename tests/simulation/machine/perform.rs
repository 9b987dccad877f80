//! A run on its machine: tells its rules what happens and does what they say.

use std::sync::Arc;

use xce_model::Start;
use xce_replica::state::startup_time;
use xce_replica::wire::RunId;
use xce_worker::probe::Role;
use xce_worker::probe::verdict::ProbeCore;
use xce_worker::probe::{Outcome, Verdict};
use xce_worker::restart::wants_restart;
use xce_worker::run_core::{Effect, Input, Turn};
use xce_worker::turns::{STARTUP_MS, Waiting};

use super::{MachineEvent, Probing, Shim};
use crate::world::{Event, World};

impl World {
    /// Tells the rules of a run something, and does what they say.
    pub fn feed(&mut self, place: usize, run: RunId, input: Input) {
        let now = self.now;
        let Some(live) = self.live(place, run) else {
            return;
        };
        let effects = live.core.handle(input, now);
        for effect in effects {
            self.perform(place, run, effect);
        }
        let Some(live) = self.live(place, run) else {
            return;
        };
        let deadline = live.core.deadline();
        let turn = live.core.turn();
        if live.turn != turn {
            live.turn = turn;
            self.note_turn(place, run, turn);
        }
        let Some(live) = self.live(place, run) else {
            return;
        };
        if live.tick != deadline {
            live.tick = deadline;
            if let Some(at) = deadline {
                self.at(at, Event::Machine(place, MachineEvent::Tick(run, at)));
            }
        }
    }

    /// Whether a run waits for its turn to restart, or takes it, is known to the agent.
    fn note_turn(&mut self, place: usize, run: RunId, turn: Turn) {
        let since_ms = self.now;
        let machine = &mut self.machines[place];
        let (Some(dir), Some(daemon)) = (machine.disk.runs.get(&run), &machine.daemon) else {
            return;
        };
        let service = dir.spec.replica.as_ref();
        let startup = startup_time(&dir.spec.template);
        let waiting = Waiting {
            service: service.map_or_else(String::new, |of| of.service.clone()),
            turn,
            since_ms,
            startup_ms: startup.map_or(STARTUP_MS, |time| time.0),
        };
        daemon.turns.note(run, waiting);
    }

    pub fn run_tick(&mut self, place: usize, run: RunId, at: u64) {
        let Some(live) = self.live(place, run) else {
            return;
        };
        if live.tick == Some(at) {
            live.tick = None;
            self.feed(place, run, Input::Tick);
        }
    }

    fn perform(&mut self, place: usize, run: RunId, effect: Effect) {
        match effect {
            Effect::Launch(start) => self.launch(place, run, start),
            Effect::SendStop {
                grace_ms, cause, ..
            } => self.stop_process(place, run, cause, Some(grace_ms)),
            Effect::Kill(cause) => self.stop_process(place, run, cause, None),
            Effect::Destroy => self.destroy(place, run),
            Effect::Suspend | Effect::Resume => {}
            Effect::StartProbe { role, kept } => self.start_probe(place, run, role, kept),
            Effect::StopProbes => {
                if let Some(live) = self.live(place, run) {
                    live.probes.clear();
                }
            }
            Effect::Report { start, what } => self.report(place, run, start, what),
            Effect::Remember => {
                let memory = self.live(place, run).map(|live| live.core.memory().clone());
                let dir = self.machines[place].disk.runs.get_mut(&run);
                if let (Some(memory), Some(dir)) = (memory, dir) {
                    dir.memory = memory;
                }
            }
            Effect::Finish => {
                let machine = &mut self.machines[place];
                machine.disk.runs.remove(&run);
                machine.disk.ended.insert(run);
                if let Some(daemon) = &mut machine.daemon {
                    daemon.live.remove(&run);
                    daemon.turns.leave(run);
                }
            }
        }
    }

    /// Goes on from what lies in the directory of the current start, as a worker that starts does.
    pub fn look_at_run(&mut self, place: usize, run: RunId) {
        let machine = &mut self.machines[place];
        let rebooted = machine.daemon.as_ref().is_some_and(|d| d.rebooted);
        let daemon = machine.daemon.as_ref();
        let Some(start) = daemon
            .and_then(|d| d.live.get(&run))
            .map(|l| l.core.start())
        else {
            return;
        };
        let shim = machine
            .process(run, start)
            .map(|process| process.shim.clone());
        match shim {
            None if rebooted => self.feed(place, run, Input::Lost { start, rebooted }),
            None | Some(Shim::Launching) => self.feed(place, run, Input::Begin),
            Some(Shim::Running { since_ms, pid }) => {
                self.run_runs(place, run, start, (since_ms, pid));
            }
            Some(Shim::Exited { exit, ran_ms, ran }) => {
                if ran {
                    self.run_runs(place, run, start, (self.now, 0));
                }
                let mode = self.machines[place]
                    .disk
                    .runs
                    .get(&run)
                    .map(|dir| dir.spec.template.restart.mode);
                let again = mode.is_some_and(|mode| wants_restart(mode, &exit));
                let input = if rebooted && again {
                    Input::Lost { start, rebooted }
                } else {
                    Input::Exited {
                        start,
                        exit,
                        ran_ms,
                    }
                };
                self.feed(place, run, input);
            }
            Some(Shim::HostFault(text)) => {
                self.feed(place, run, Input::LaunchFailed { start, text });
            }
            Some(Shim::Lost) => self.feed(place, run, Input::Lost { start, rebooted }),
        }
    }

    /// The process of a start is known to run.
    pub fn run_runs(&mut self, place: usize, run: RunId, start: Start, process: (u64, u32)) {
        let (since_ms, pid) = process;
        if let Some(live) = self.live(place, run) {
            live.since_ms = since_ms;
        }
        self.feed(place, run, Input::Started { start, pid });
    }

    fn start_probe(&mut self, place: usize, run: RunId, role: Role, kept: Option<bool>) {
        let number = self.machines[place].next_number();
        let machine = &mut self.machines[place];
        let Some(spec) = machine.disk.runs.get(&run).map(|dir| Arc::clone(&dir.spec)) else {
            return;
        };
        let probes = &spec.template.probes;
        let probe = match role {
            Role::Startup => &probes.startup,
            Role::Readiness => &probes.readiness,
            Role::Liveness => &probes.liveness,
        };
        let (Some(probe), Some(live)) = (probe, self.live(place, run)) else {
            return;
        };
        let core = ProbeCore::new(probe, role, live.since_ms, kept);
        let at = core.next_ms();
        live.probes.insert(role, Probing { core, number });
        self.at(
            at,
            Event::Machine(place, MachineEvent::Probe(run, role, number)),
        );
    }

    pub fn probe_begins(&mut self, place: usize, run: RunId, role: Role, number: u64) {
        let Some(live) = self.live(place, run) else {
            return;
        };
        let start = live.core.start();
        if live.probes.get(&role).is_none_or(|p| p.number != number) {
            return;
        }
        let probe_ms = self.machines[place]
            .process(run, start)
            .map_or(0, |process| process.behaviour.probe_ms);
        self.meet("a try of a probe");
        let began = self.now;
        if probe_ms == 0 {
            return self.probe_ends(place, run, role, (number, began));
        }
        let event = MachineEvent::Probed(run, role, number, began);
        self.after(probe_ms, Event::Machine(place, event));
    }

    pub fn probe_ends(&mut self, place: usize, run: RunId, role: Role, of: (u64, u64)) {
        let (number, began) = of;
        let now = self.now;
        let flips = self.unready.contains(&run.job.number);
        let Some(live) = self.live(place, run) else {
            return;
        };
        let start = live.core.start();
        if live.probes.get(&role).is_none_or(|p| p.number != number) {
            return;
        }
        let outcome = match self.machines[place].process(run, start) {
            Some(process) if process.is_alive() => {
                let age = match process.shim {
                    Shim::Running { since_ms, .. } => now - since_ms,
                    Shim::Launching | Shim::Exited { .. } | Shim::HostFault(_) | Shim::Lost => 0,
                };
                let well = match role {
                    Role::Startup => process.behaviour.is_ready(age),
                    Role::Readiness => process.behaviour.is_ready(age) && !flips,
                    Role::Liveness => !process.behaviour.is_dead(age),
                };
                match well {
                    true => Outcome::Success,
                    false => Outcome::Failure("not well".to_owned()),
                }
            }
            Some(_) | None => Outcome::Failure("nobody answers".to_owned()),
        };
        let Some(probing) = self
            .live(place, run)
            .and_then(|live| live.probes.get_mut(&role))
        else {
            return;
        };
        let verdicts: Vec<Verdict> = probing.core.tried(outcome, began, now);
        let next = probing.core.next_ms();
        for verdict in verdicts {
            let input = Input::Probe {
                start,
                role,
                verdict,
            };
            self.feed(place, run, input);
        }
        let goes_on = self
            .live(place, run)
            .and_then(|live| live.probes.get(&role))
            .is_some_and(|probing| probing.number == number);
        if goes_on {
            self.at(
                next,
                Event::Machine(place, MachineEvent::Probe(run, role, number)),
            );
        }
    }
}
