//! The worker's agent: starts, connects, beats, takes orders, sends facts.

use std::collections::HashSet;
use std::sync::Arc;

use xce_host::wire::{Beat, Join};
use xce_model::{Cause, Millis, Start};
use xce_replica::wire::{Happened, Orders, Reports, ReportsCommitted, RunId};
use xce_worker::agent::orders::{Action, Known, decide, stale};
use xce_worker::memory::Memory;
use xce_worker::run_core::{Input, RunCore, Turn};
use xce_worker::spool::{Haste, Mark, Queue, is_end};

use super::{Daemon, Live, MachineEvent, RunDir};
use crate::deciding::wall;
use crate::network::{ToController, ToWorker};
use crate::seats::{End, Planted};
use crate::world::{Event, World};

/// Most facts of one message; small, so that batches part.
const BATCH_MAX: usize = 64;
/// Wait of facts that only say that runs have started. Source: as in the worker.
const SOON_MS: u64 = 5;
/// Beats without an answer after which a worker is cut off. Source: as in the worker.
const UNANSWERED_MAX: u64 = 3;
/// Longest pause before a connection is tried again. Source: as in the worker.
const RETRY_MS: u64 = 2_000;
/// How long a join may take. Source: as in the worker.
const JOIN_MS: u64 = 10_000;
/// A shim that does nothing is killed after this. Source: the worker's default.
pub const KILL_BUDGET: Millis = Millis::seconds(10);

impl World {
    fn machine_after(&mut self, wait: u64, place: usize, event: MachineEvent) {
        self.after(wait, Event::Machine(place, event));
    }

    pub fn machine_event(&mut self, place: usize, event: MachineEvent) {
        let number = self.machines[place]
            .daemon
            .as_ref()
            .map(|daemon| daemon.number);
        match event {
            MachineEvent::StartDaemon(boots) => {
                let machine = &self.machines[place];
                if machine.boots == boots && machine.powered && machine.daemon.is_none() {
                    self.start_daemon(place);
                }
            }
            MachineEvent::Connect(of) if number == Some(of) => self.connect(place),
            MachineEvent::Beat(of) if number == Some(of) => self.beat(place),
            MachineEvent::Send(of) if number == Some(of) => self.send_facts(place),
            MachineEvent::Connect(_) | MachineEvent::Beat(_) | MachineEvent::Send(_) => {}
            MachineEvent::Broken(link) => self.break_now(link),
            MachineEvent::Idle(link) => {
                if self.machines[place].cut {
                    self.close_by_worker(link);
                    self.worker_disconnected(place, link);
                }
            }
            MachineEvent::Tick(run, at) => self.run_tick(place, run, at),
            MachineEvent::Probe(run, role, number) => self.probe_begins(place, run, role, number),
            MachineEvent::Probed(run, role, number, began) => {
                self.probe_ends(place, run, role, (number, began));
            }
            MachineEvent::Launched(run, start) => self.launched(place, run, start),
            MachineEvent::Ends(run, start, number) => self.process_ends(place, run, start, number),
        }
    }

    /// The worker starts and takes over what an earlier one left.
    pub fn start_daemon(&mut self, place: usize) {
        let name = Arc::clone(&self.machines[place].name);
        self.tell(|| format!("worker of {name} starts"));
        let machine = &mut self.machines[place];
        let number = machine.next_number();
        let boot_id = format!("boot-{}", machine.boots);
        let rebooted = machine.inventory.boot_id != boot_id;
        if rebooted {
            machine.inventory.boot_id = boot_id;
            // Another boot begins an epoch in which what waits is sent anew.
            begin_epoch(machine, machine.disk.epoch);
        }
        machine.disk.spool.assume_sent();
        machine.daemon = Some(Daemon {
            number,
            rebooted,
            heard: self.now,
            ..Daemon::default()
        });
        let runs: Vec<RunId> = machine.disk.runs.keys().copied().collect();
        for run in runs {
            let machine = &mut self.machines[place];
            if machine.disk.spool.has_end(run) {
                put_aside(machine, run);
                continue;
            }
            let Some(dir) = machine.disk.runs.get(&run) else {
                continue;
            };
            let core = RunCore::new(&dir.spec, dir.memory.clone(), false, KILL_BUDGET);
            enlist(machine, run, core);
            self.look_at_run(place, run);
        }
        self.machine_after(0, place, MachineEvent::Connect(number));
        let beat = self.settings.patience.beat.0;
        self.machine_after(beat, place, MachineEvent::Beat(number));
    }

    fn connect(&mut self, place: usize) {
        let machine = &self.machines[place];
        let Some(daemon) = &machine.daemon else {
            return;
        };
        let number = daemon.number;
        if daemon.link.is_some() {
            return;
        }
        let Some(seat) = self.dials(place) else {
            let wait = 50 + self.some(RETRY_MS);
            return self.machine_after(wait, place, MachineEvent::Connect(number));
        };
        let link = self.open_link(place, seat);
        let machine = &mut self.machines[place];
        let join = Join {
            inventory: machine.inventory.clone(),
            epoch: machine.disk.epoch,
            committed: machine.disk.spool.committed(),
            runs: machine.held(),
        };
        if let Some(daemon) = &mut machine.daemon {
            daemon.link = Some(link);
            daemon.joined = false;
        }
        self.send_up(link, ToController::Join(Box::new(join)));
        self.machine_after(JOIN_MS, place, MachineEvent::Connect(number));
    }

    /// The controller that it connects to now, if that answers at all.
    fn dials(&mut self, place: usize) -> Option<usize> {
        let machine = &mut self.machines[place];
        let Some(seats) = &self.seats else {
            return (!machine.cut && self.controller.up).then_some(0);
        };
        let daemon = machine.daemon.as_mut()?;
        daemon.tried = (daemon.tried + 1) % seats.count();
        let seat = daemon.hint.take().unwrap_or(daemon.tried);
        let up = seats.all[seat].is_up();
        let (one, other) = (End::Machine(place), End::Seat(seat));
        (up && self.can_talk(one, other)).then_some(seat)
    }

    pub fn worker_disconnected(&mut self, place: usize, link: u64) {
        let Some(daemon) = &mut self.machines[place].daemon else {
            return;
        };
        if daemon.link != Some(link) {
            return;
        }
        daemon.link = None;
        daemon.joined = false;
        let number = daemon.number;
        let wait = 50 + self.some(RETRY_MS);
        self.machine_after(wait, place, MachineEvent::Connect(number));
    }

    fn beat(&mut self, place: usize) {
        let Some(daemon) = &mut self.machines[place].daemon else {
            return;
        };
        let number = daemon.number;
        let unanswered = daemon.beats.saturating_sub(daemon.answered) >= UNANSWERED_MAX;
        if let Some(link) = daemon.link.filter(|_| daemon.joined && unanswered)
            && self.is_seated()
        {
            self.meet("beats that nobody answered");
            self.break_now(link);
        }
        let Some(daemon) = &mut self.machines[place].daemon else {
            return;
        };
        if let (Some(link), true, false) = (daemon.link, daemon.joined, daemon.leaving) {
            daemon.beats += 1;
            let beat = Beat {
                number: daemon.beats,
                disk_full: false,
            };
            self.send_up(link, ToController::Beat(beat));
        }
        self.give_turns(place);
        let wait = self.settings.patience.beat.0;
        self.machine_after(wait, place, MachineEvent::Beat(number));
    }

    /// While it is cut off, the worker gives turns to restart itself: one per service at a time.
    fn give_turns(&mut self, place: usize) {
        let (now, beat) = (self.now, self.settings.patience.beat.0);
        let Some(daemon) = &self.machines[place].daemon else {
            return;
        };
        if now < daemon.heard + UNANSWERED_MAX * beat {
            return;
        }
        for (run, start, wish) in daemon.turns.next(now) {
            self.meet("a turn that the worker gave itself");
            self.act_on(place, Action::Grant(run, start, wish));
        }
    }

    pub fn worker_hears(&mut self, place: usize, link: u64, message: ToWorker) {
        let machine = &mut self.machines[place];
        let current = machine
            .daemon
            .as_ref()
            .is_some_and(|daemon| daemon.link == Some(link));
        if !current {
            return;
        }
        if let Some(daemon) = &mut self.machines[place].daemon {
            daemon.heard = self.now;
        }
        match message {
            ToWorker::Joined(mark) => self.worker_joined(place, &mark),
            ToWorker::Orders(orders) => self.ordered(place, *orders),
            ToWorker::Committed(mark) => self.facts_committed(place, &mark),
            ToWorker::BeatAck(ack) => {
                let machine = &mut self.machines[place];
                if ack.term >= machine.disk.term {
                    machine.disk.term = ack.term;
                    if let Some(daemon) = &mut machine.daemon {
                        daemon.answered = daemon.answered.max(ack.number);
                    }
                }
            }
            ToWorker::NotPrimary(hint) => {
                self.close_by_worker(link);
                self.worker_disconnected(place, link);
                self.led_elsewhere(place, hint);
            }
            ToWorker::Refused | ToWorker::Closed => {
                self.close_by_worker(link);
                self.worker_disconnected(place, link);
            }
        }
    }

    /// A standby said where the primary is: that is tried at once.
    fn led_elsewhere(&mut self, place: usize, hint: Option<usize>) {
        let Some(daemon) = &mut self.machines[place].daemon else {
            return;
        };
        daemon.hint = hint;
        let number = daemon.number;
        if hint.is_some() {
            let wait = 1 + self.some(20);
            self.machine_after(wait, place, MachineEvent::Connect(number));
        }
    }

    fn worker_joined(&mut self, place: usize, mark: &ReportsCommitted) {
        self.facts_committed(place, mark);
        let machine = &mut self.machines[place];
        let (committed, epoch) = (machine.disk.spool.committed(), machine.disk.epoch);
        let Some(daemon) = &mut machine.daemon else {
            return;
        };
        daemon.joined = true;
        (daemon.beats, daemon.answered) = (0, 0);
        daemon.cursor = committed;
        daemon.cursor_epoch = epoch;
        self.send_soon(place);
        // A beat at once.
        let daemon = self.machines[place].daemon.as_mut();
        if let Some((link, beats)) = daemon.and_then(|daemon| {
            daemon.beats += 1;
            Some((daemon.link?, daemon.beats))
        }) {
            self.send_up(
                link,
                ToController::Beat(Beat {
                    number: beats,
                    disk_full: false,
                }),
            );
        }
    }

    fn facts_committed(&mut self, place: usize, mark: &ReportsCommitted) {
        let machine = &mut self.machines[place];
        if mark.epoch < machine.disk.epoch {
            return;
        }
        let outcome = if mark.epoch == machine.disk.epoch {
            machine.disk.spool.mark(mark.sequence)
        } else {
            Mark::Ahead
        };
        if outcome == Mark::Ahead {
            begin_epoch(machine, mark.epoch);
            self.meet("a spool that was behind");
        }
        self.send_soon(place);
    }

    fn ordered(&mut self, place: usize, orders: Orders) {
        let fenceless = self.is_planted(Planted::NoFence);
        let machine = &mut self.machines[place];
        if orders.term < machine.disk.term && !fenceless {
            return self.meet("orders of a former primary");
        }
        machine.disk.term = machine.disk.term.max(orders.term);
        let named: HashSet<RunId> = orders.orders.iter().map(|order| order.run).collect();
        let complete = orders.complete;
        for order in orders.orders {
            let known = self.known(place, order.run);
            let leaving = self.machines[place]
                .daemon
                .as_ref()
                .is_some_and(|daemon| daemon.leaving);
            self.act_on(place, decide(order, known, leaving));
        }
        if !complete {
            return;
        }
        let live = |world: &Self| -> Vec<RunId> {
            let daemon = world.machines[place].daemon.as_ref();
            daemon.map_or_else(Vec::new, |daemon| daemon.live.keys().copied().collect())
        };
        for run in stale(live(self), &named) {
            self.meet("a stale run");
            self.act_on(place, Action::Stop(run, Cause::TermStale, false));
        }
        let daemon = self.machines[place].daemon.as_mut();
        let first = daemon.is_some_and(|daemon| !std::mem::replace(&mut daemon.resynced, true));
        if first {
            for run in live(self) {
                self.feed(place, run, Input::Resynced);
            }
        }
    }

    fn known(&self, place: usize, run: RunId) -> Known {
        let machine = &self.machines[place];
        let live = machine
            .daemon
            .as_ref()
            .is_some_and(|daemon| daemon.live.contains_key(&run));
        if live {
            Known::Live
        } else if machine.disk.spool.has_end(run) {
            Known::EndWaits
        } else if machine.disk.ended.contains(&run) {
            Known::Ended
        } else {
            Known::Unknown
        }
    }

    fn act_on(&mut self, place: usize, action: Action) {
        match action {
            Action::Nothing => {}
            Action::Start(spec) => {
                let run = spec.run;
                self.check_run_spec(place, &spec);
                let machine = &mut self.machines[place];
                let resynced = machine.daemon.as_ref().is_some_and(|d| d.resynced);
                let core = RunCore::new(&spec, Memory::default(), resynced, KILL_BUDGET);
                let dir = RunDir {
                    spec: Arc::new(*spec),
                    memory: Memory::default(),
                    starts: std::collections::BTreeMap::new(),
                };
                machine.disk.runs.insert(run, dir);
                enlist(machine, run, core);
                self.feed(place, run, Input::Begin);
            }
            Action::Stop(run, cause, drained) => {
                if let Some(live) = self.live(place, run) {
                    live.stop.get_or_insert(cause);
                }
                self.feed(place, run, Input::Stop(cause));
                if drained {
                    self.feed(place, run, Input::Drained);
                }
            }
            Action::Grant(run, start, wish) => {
                self.feed(place, run, Input::Granted { start, wish });
            }
            Action::Suspend(run) => self.feed(place, run, Input::Suspend),
            Action::Resume(run) => self.feed(place, run, Input::Resume),
            Action::Signal(..) => {}
            Action::Restart(run) => self.feed(place, run, Input::Restart),
            Action::Report(run, what) => self.report(place, run, 1, what),
        }
    }

    pub fn live(&mut self, place: usize, run: RunId) -> Option<&mut Live> {
        self.machines[place].daemon.as_mut()?.live.get_mut(&run)
    }

    /// Puts a fact into the spool.
    pub fn report(&mut self, place: usize, run: RunId, start: Start, what: Happened) {
        let now = self.now;
        let name = Arc::clone(&self.machines[place].name);
        self.tell(|| format!("{name}: run {}/{} {what:?}", run.job, run.run));
        let machine = &mut self.machines[place];
        let ends = is_end(&what);
        let report = machine.disk.spool.number(run, start, wall(now), what);
        machine.disk.spool.push(report, 1);
        if ends {
            self.check_end(place, run);
            put_aside(&mut self.machines[place], run);
        }
        self.send_soon(place);
    }

    fn send_soon(&mut self, place: usize) {
        let machine = &mut self.machines[place];
        let Some(daemon) = &mut machine.daemon else {
            return;
        };
        if !daemon.joined || daemon.send_due {
            return;
        }
        let after = if daemon.cursor_epoch == machine.disk.epoch {
            daemon.cursor
        } else {
            0
        };
        let wait = match machine.disk.spool.haste(after) {
            Haste::Nothing => return,
            Haste::AtOnce => 0,
            Haste::Soon => SOON_MS,
        };
        daemon.send_due = true;
        let number = daemon.number;
        self.machine_after(wait, place, MachineEvent::Send(number));
    }

    fn send_facts(&mut self, place: usize) {
        let machine = &mut self.machines[place];
        let epoch = machine.disk.epoch;
        let Some(daemon) = &mut machine.daemon else {
            return;
        };
        daemon.send_due = false;
        let (Some(link), true) = (daemon.link, daemon.joined) else {
            return;
        };
        if daemon.cursor_epoch != epoch {
            (daemon.cursor_epoch, daemon.cursor) = (epoch, 0);
        }
        let after = daemon.cursor;
        let reports = machine
            .disk
            .spool
            .batch(daemon.cursor, BATCH_MAX, usize::MAX);
        let Some(last) = reports.last().map(|report| report.sequence) else {
            return;
        };
        daemon.cursor = last;
        self.send_up(
            link,
            ToController::Reports(Reports {
                epoch,
                after,
                reports,
            }),
        );
        self.send_soon(place);
    }

    /// The worker dies; shims and processes go on.
    pub fn kill_daemon(&mut self, place: usize) {
        let name = Arc::clone(&self.machines[place].name);
        self.tell(|| format!("worker of {name} dies"));
        if let Some(daemon) = self.machines[place].daemon.take()
            && let Some(link) = daemon.link
        {
            self.close_by_worker(link);
        }
    }

    /// The worker starts again after a while.
    pub fn restart_daemon_in(&mut self, place: usize, wait: u64) {
        let boots = self.machines[place].boots;
        self.machine_after(wait, place, MachineEvent::StartDaemon(boots));
    }

    /// The worker says goodbye and ends; its jobs go on.
    pub fn stop_daemon(&mut self, place: usize) {
        let daemon = self.machines[place].daemon.as_mut();
        let Some(link) = daemon.and_then(|daemon| {
            daemon.leaving = true;
            daemon.link.filter(|_| daemon.joined)
        }) else {
            return self.kill_daemon(place);
        };
        self.send_up(link, ToController::Leaving);
        self.run_for(100);
        self.kill_daemon(place);
    }

    /// The machine loses power, with everything that runs on it.
    pub fn power_off(&mut self, place: usize) {
        let name = Arc::clone(&self.machines[place].name);
        self.tell(|| format!("{name} loses power"));
        self.kill_daemon(place);
        let machine = &mut self.machines[place];
        machine.powered = false;
        machine.boots += 1;
        for dir in machine.disk.runs.values_mut() {
            for process in dir.starts.values_mut() {
                if matches!(
                    process.shim,
                    super::Shim::Running { .. } | super::Shim::Launching
                ) {
                    process.shim = super::Shim::Lost;
                }
            }
        }
    }

    pub fn power_on(&mut self, place: usize) {
        if std::mem::replace(&mut self.machines[place].powered, true) {
            return;
        }
        self.restart_daemon_in(place, 0);
    }
}

fn enlist(machine: &mut super::Machine, run: RunId, core: RunCore) {
    if let Some(daemon) = &mut machine.daemon {
        let live = Live {
            core,
            since_ms: 0,
            probes: std::collections::BTreeMap::new(),
            tick: None,
            stop: None,
            turn: Turn::None,
        };
        daemon.live.insert(run, live);
    }
}

fn put_aside(machine: &mut super::Machine, run: RunId) {
    machine.disk.runs.remove(&run);
    machine.disk.ended.insert(run);
}

fn begin_epoch(machine: &mut super::Machine, above: u64) {
    let facts: Vec<_> = machine.disk.spool.iter().cloned().collect();
    let mut queue = Queue::new(0);
    for fact in facts {
        let fact = queue.number(fact.run, fact.start, fact.at, fact.what);
        queue.push(fact, 1);
    }
    queue.assume_sent();
    machine.disk.spool = queue;
    machine.disk.epoch = machine.disk.epoch.max(above) + 1;
}
