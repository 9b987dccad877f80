//! The actor of one run: tells the rules what happens, and does what they say.
//!
//! It finds everything again from the run directory, so a crash of this actor and a start of the
//! worker are the same to it: what the shim's lock and records say, and what is remembered.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use xce_failpoint::Point;
use xce_host::Remnant;
use xce_model::{Cause, Start};
use xce_replica::state::startup_time;
use xce_replica::wire::{Happened, RunSpec};
use xce_runtime::{Context, Crash, Entity, Shards, Task, Timer, Trigger, View};
use xce_shim::{Event, LostReason, Request, RunState, inspect};

use crate::memory::Memory;
use crate::probe::actor::LiveProbe;
use crate::probe::attempt::Surroundings;
use crate::probe::{Role, Verdict};
use crate::restart::wants_restart;
use crate::run_core::{Effect, Input, Phase, RunCore, Turn};
use crate::station::Station;
use crate::turns::{STARTUP_MS, Waiting};
use giving_up::GivingUp;

mod giving_up;
pub mod hanging;
pub mod launch;
pub mod outcome;
mod perform;
pub mod shim;

/// What a run is told.
#[derive(Debug, Clone)]
pub enum RunMessage {
    /// It is to stop; why is in the roster too.
    Stop(Cause),
    /// Nobody sends it work any more: its stop need not drain it longer; noted in the roster too.
    Drained,
    /// Its processes are to stop for a while.
    Suspend,
    /// They are to go on.
    Resume,
    /// Its processes are to be sent a signal.
    Signal(i32),
    /// It is to start anew in place.
    Restart,
    /// The restart that it wanted is granted.
    Granted(Start, u32),
    /// The controller has named every wanted run.
    Resynced,
    /// The lease of strict single copies was extended.
    Lease,
    /// Its shim said something.
    Shim(Start, Box<Event>),
    /// Its shim says nothing more; its last error text.
    Gone(Start, Option<String>),
    /// There was nothing to start, or nothing is left.
    Told(Box<Input>),
    /// A probe came to a verdict.
    Probe(Start, Role, Verdict),
    /// The timer is due.
    Due(Trigger),
}

/// One run.
#[derive(Debug)]
pub struct RunActor {
    spec: Arc<RunSpec>,
    station: Arc<Station>,
    /// Where its probes live.
    probes: Shards,
    /// Whether nothing of it exists yet; true for the first incarnation of a new run only.
    fresh: AtomicBool,
    /// Whether the machine has booted since the run was started.
    rebooted: bool,
}

/// What one incarnation knows.
#[derive(Debug)]
pub struct RunActorState {
    core: RunCore,
    run_dir: PathBuf,
    timer: Timer<RunMessage>,
    /// Start of the current job, milliseconds since boot.
    since_ms: u64,
    /// When the current start began, by the wall clock, where its record says so.
    started_wall_ms: Option<u64>,
    /// When the last start ended, by the wall clock, until it is reported.
    ended_wall_ms: Option<u64>,
    pid: u32,
    probes: Vec<LiveProbe>,
    /// What the agent knows of its turn to restart.
    turn: Turn,
    /// Tasks that belong to this incarnation: the way to an adopted shim, and requests to it.
    tasks: Vec<Task>,
    /// The launch that this incarnation has made last.
    launched: Option<(Start, Arc<GivingUp>)>,
    /// Ending what does not end by itself; one at a time.
    destroying: Option<Task>,
    /// Handing the lease to the shim; one at a time.
    renewing: Option<Task>,
    /// When it was first to be killed, by the wall clock.
    killed_wall_ms: Option<u64>,
    /// How often in a row the shim was there and could not be followed.
    lost_sight: u32,
}

#[derive(Serialize)]
struct RunView<'a> {
    name: &'a str,
    phase: Phase,
    turn: Turn,
    memory: &'a Memory,
    pid: u32,
    since_ms: u64,
    probes: Vec<Role>,
}

impl RunActor {
    /// A run that begins now.
    pub fn new(spec: RunSpec, station: Arc<Station>, probes: Shards) -> Self {
        let fresh = AtomicBool::new(true);
        Self {
            spec: Arc::new(spec),
            station,
            probes,
            fresh,
            rebooted: false,
        }
    }

    /// A run that an earlier worker has begun.
    pub fn found(spec: RunSpec, station: Arc<Station>, probes: Shards) -> Self {
        let rebooted = station.dir.rebooted;
        Self {
            spec: Arc::new(spec),
            station,
            probes,
            fresh: AtomicBool::new(false),
            rebooted,
        }
    }

    /// What it holds of the host, as it is told when its worker joins.
    pub fn holds(&self) -> Remnant {
        let (run, asked) = (self.spec.run, self.spec.template.resources);
        Remnant {
            job: run.job,
            run: run.run,
            ports: self.spec.ports.iter().map(|(_, port)| *port).collect(),
            cpus: asked.cpus,
            memory: asked.memory,
            name: self.spec.name.clone(),
            quarantined: false,
        }
    }

    fn now_ms(&self) -> u64 {
        self.station.clock.monotonic_ms()
    }

    fn feed(&self, context: &Context<RunMessage>, state: &mut RunActorState, input: Input) {
        let effects = state.core.handle(input, self.now_ms());
        for effect in effects {
            self.perform(context, state, effect);
        }
        self.note_turn(state);
        match state.core.deadline() {
            Some(at_ms) if state.timer.armed_for() == Some(at_ms) => {}
            Some(at_ms) => state.timer.arm(at_ms, RunMessage::Due),
            None => state.timer.disarm(),
        }
    }

    /// Lets the agent know whether this run waits for its turn to restart: it gives turns itself
    /// while nobody else can.
    fn note_turn(&self, state: &mut RunActorState) {
        let turn = state.core.turn();
        if state.turn != turn
            && let Some(replica) = &self.spec.replica
        {
            state.turn = turn;
            let startup = startup_time(&self.spec.template).map(|time| time.0);
            let entry = Waiting {
                service: replica.service.clone(),
                turn,
                since_ms: self.now_ms(),
                startup_ms: startup.unwrap_or(STARTUP_MS),
            };
            self.station.turns.note(self.spec.run, entry);
        }
    }

    /// Goes on from what lies in the directory of the current start.
    fn look(&self, context: &Context<RunMessage>, state: &mut RunActorState) {
        let start = state.core.start();
        let dir = launch::start_dir(&state.run_dir, start);
        let found = match inspect(&dir) {
            Ok(found) => found,
            Err(error) => {
                let text = format!("{}: {error}", dir.display());
                return self.feed(context, state, Input::LaunchFailed { start, text });
            }
        };
        match found {
            RunState::NeverStarted if self.rebooted => {
                self.feed(
                    context,
                    state,
                    Input::Lost {
                        start,
                        rebooted: true,
                    },
                );
            }
            RunState::NeverStarted => self.feed(context, state, Input::Begin),
            RunState::Running { run } => {
                match run {
                    Some(run) => self.runs(context, state, start, &run),
                    None => self.feed(context, state, Input::Begin),
                }
                self.attach(context, state, start, dir);
            }
            RunState::Exited(record) => {
                if let Ok(run) = xce_shim::RunRecord::load(&dir) {
                    self.runs(context, state, start, &run);
                }
                state.ended_wall_ms = Some(record.ended_wall_ms);
                let input = outcome::input_of(start, &record);
                let input = match input {
                    Input::Exited { ref exit, .. }
                        if self.rebooted
                            && wants_restart(self.spec.template.restart.mode, exit) =>
                    {
                        Input::Lost {
                            start,
                            rebooted: true,
                        }
                    }
                    input => input,
                };
                self.feed(context, state, input);
            }
            RunState::Lost { reason, .. } => {
                let rebooted = self.rebooted || reason == LostReason::Rebooted;
                self.reclaim(context, state, start, rebooted, false);
            }
        }
    }

    fn runs(
        &self,
        context: &Context<RunMessage>,
        state: &mut RunActorState,
        start: Start,
        run: &xce_shim::RunRecord,
    ) {
        state.since_ms = run.started_boot_ms;
        state.started_wall_ms = Some(run.started_wall_ms);
        state.pid = u32::try_from(run.job.pid).unwrap_or(0);
        let pid = state.pid;
        self.feed(context, state, Input::Started { start, pid });
    }

    fn shim_said(
        &self,
        context: &Context<RunMessage>,
        state: &mut RunActorState,
        start: Start,
        event: Event,
    ) {
        if start != state.core.start() {
            return;
        }
        match event {
            Event::Started(run) => {
                xce_failpoint::hit(Point::RunStartHeard);
                state.lost_sight = 0;
                self.runs(context, state, start, &run);
                self.renew(context, state);
            }
            Event::Exit(record) => {
                xce_failpoint::hit(Point::RunExitHeard);
                state.ended_wall_ms = Some(record.ended_wall_ms);
                self.feed(context, state, outcome::input_of(start, &record));
            }
            Event::Status(_) | Event::Accepted | Event::Error(_) => {}
        }
    }

    /// The shim says nothing more: its records tell what became of it.
    fn gone(
        &self,
        context: &Context<RunMessage>,
        state: &mut RunActorState,
        start: Start,
        error: Option<String>,
    ) {
        let over = matches!(state.core.phase(), Phase::Ended | Phase::Backoff { .. });
        if over || start != state.core.start() {
            return;
        }
        state.lost_sight += 1;
        let dir = launch::start_dir(&state.run_dir, start);
        match inspect(&dir) {
            Ok(RunState::NeverStarted) => {
                let text = error.unwrap_or_else(|| "the shim ended without a word".to_owned());
                self.feed(context, state, Input::LaunchFailed { start, text });
            }
            Ok(RunState::Running { .. }) => self.attach(context, state, start, dir),
            Ok(RunState::Exited(_) | RunState::Lost { .. }) | Err(_) => {
                self.look(context, state);
            }
        }
    }
}

impl Entity for RunActor {
    type Message = RunMessage;
    type State = RunActorState;
    const KIND: &'static str = "run";

    async fn recover(&self, context: &Context<RunMessage>) -> Result<RunActorState, Crash> {
        let run_dir = self.station.dir.run(self.spec.run);
        let fresh = self.fresh.swap(false, Ordering::Relaxed);
        let memory = if fresh {
            Memory::default()
        } else {
            Memory::load(&run_dir).unwrap_or_else(|error| {
                tracing::warn!(run = ?self.spec.run, error = %error, "memory of a run is lost");
                Memory::default()
            })
        };
        let resynced = self.station.resynced.load(Ordering::Acquire);
        let mut state = RunActorState {
            core: RunCore::new(
                &self.spec,
                memory,
                resynced,
                self.station.settings.kill_budget,
            ),
            run_dir,
            timer: Timer::new(context.address().clone(), context.clock().clone()),
            since_ms: 0,
            pid: 0,
            probes: Vec::new(),
            turn: Turn::None,
            tasks: Vec::new(),
            started_wall_ms: None,
            ended_wall_ms: None,
            launched: None,
            destroying: None,
            renewing: None,
            killed_wall_ms: None,
            lost_sight: 0,
        };
        if self.is_strict() {
            let leases = &self.station.leases;
            leases.enter(self.spec.run, context.address().clone());
        }
        if fresh {
            self.feed(context, &mut state, Input::Begin);
        } else if self.station.spool.lock().has_end(self.spec.run) {
            // The end is told; only the mark is missing.
            self.station.put_aside(self.spec.run);
            self.leave(context);
        } else {
            self.look(context, &mut state);
        }
        if let Some((cause, drained)) = self.station.roster.wanted_stop(self.spec.run) {
            self.feed(context, &mut state, Input::Stop(cause));
            if drained {
                self.feed(context, &mut state, Input::Drained);
            }
        }
        Ok(state)
    }

    async fn handle(
        &self,
        context: &Context<RunMessage>,
        message: RunMessage,
        state: &mut RunActorState,
    ) -> Result<(), Crash> {
        match message {
            RunMessage::Stop(cause) => self.feed(context, state, Input::Stop(cause)),
            RunMessage::Drained => self.feed(context, state, Input::Drained),
            RunMessage::Suspend => self.feed(context, state, Input::Suspend),
            RunMessage::Resume => self.feed(context, state, Input::Resume),
            RunMessage::Signal(signal) => self.ask(context, state, Request::Signal(signal)),
            RunMessage::Restart => self.feed(context, state, Input::Restart),
            RunMessage::Granted(start, wish) => {
                self.feed(context, state, Input::Granted { start, wish });
            }
            RunMessage::Resynced => self.feed(context, state, Input::Resynced),
            RunMessage::Lease => self.renew(context, state),
            RunMessage::Shim(start, event) => {
                self.shim_said(context, state, start, *event);
            }
            RunMessage::Gone(start, error) => self.gone(context, state, start, error),
            RunMessage::Told(input) => self.feed(context, state, *input),
            RunMessage::Probe(start, role, verdict) => {
                self.feed(
                    context,
                    state,
                    Input::Probe {
                        start,
                        role,
                        verdict,
                    },
                );
            }
            RunMessage::Due(trigger) if state.timer.accept(trigger) => {
                self.feed(context, state, Input::Tick);
            }
            RunMessage::Due(_) => {}
        }
        Ok(())
    }

    fn view(&self, state: &RunActorState) -> View {
        View::of(&RunView {
            name: &self.spec.name,
            phase: state.core.phase(),
            turn: state.core.turn(),
            memory: state.core.memory(),
            pid: state.pid,
            since_ms: state.since_ms,
            probes: state.probes.iter().map(|probe| probe.role).collect(),
        })
    }
}
