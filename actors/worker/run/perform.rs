//! Doing what the rules of a run say.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use xce_model::spec::SingleCopy;
use xce_replica::wire::RunSpec;
use xce_runtime::{Address, Entity, Key};

use super::giving_up::GivingUp;
use super::launch::Launched;
use super::{
    Cause, Context, Effect, Event, Happened, Input, LiveProbe, Phase, Request, Role, RunActor,
    RunActorState, RunMessage, Start, Station, Surroundings, Task, hanging, launch, outcome, shim,
};
use crate::probe::actor::ProbeActor;
use crate::state_dir;

/// Bytes of stderr that go with a failure.
///
/// Source: derived; some twenty lines, and a spool of 200 000 such facts stays below 1 GB.
const STDERR_TAIL_BYTES: u64 = 2 * 1024;

/// Signals by which a shim freezes and thaws a tree. Source: signal(7), on all of Linux' platforms
/// that Rust's std supports except MIPS.
const STOP: i32 = 19;
const CONTINUE: i32 = 18;

/// Pause before a shim that lives and cannot be followed is tried again, times how often that was.
const SIGHT_PAUSE: Duration = Duration::from_millis(100);

/// Work that is begun where it is called.
type BoxFuture = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

impl RunActor {
    pub(super) fn perform(
        &self,
        context: &Context<RunMessage>,
        state: &mut RunActorState,
        effect: Effect,
    ) {
        match effect {
            Effect::Launch(start) => self.launch(context, state, start),
            Effect::SendStop {
                signal,
                grace_ms,
                cause,
            } => {
                let cause = outcome::shim_cause(cause);
                self.ask(
                    context,
                    state,
                    Request::Stop {
                        signal,
                        grace_ms,
                        cause,
                    },
                );
            }
            Effect::Kill(cause) => {
                let cause = outcome::shim_cause(cause);
                self.ask(context, state, Request::Kill { cause });
                // The shim has killed it long ago: what lives now waits in the kernel.
                let hangs = self.hangs(context, state, true);
                self.keep(state, async move { hangs().await });
            }
            Effect::Destroy => self.destroy(context, state),
            Effect::Suspend => self.ask(context, state, Request::Signal(STOP)),
            Effect::Resume => self.ask(context, state, Request::Signal(CONTINUE)),
            Effect::StartProbe { role, kept } => self.start_probe(context, state, role, kept),
            Effect::StopProbes => state.probes.clear(),
            Effect::Report { start, what } => self.report(state, start, what),
            Effect::Remember => {
                if let Err(error) = state.core.memory().store(&state.run_dir) {
                    tracing::error!(run = ?self.spec.run, error = %error, "a run is not remembered");
                }
            }
            Effect::Finish => self.leave(context),
        }
    }

    fn launch(&self, context: &Context<RunMessage>, state: &mut RunActorState, start: Start) {
        let (station, spec) = (self.station.clone(), self.spec.clone());
        let address = context.address().clone();
        let giving_up = Arc::new(GivingUp::default());
        state.launched = Some((start, giving_up.clone()));
        // Not kept in the state: a shim that was started is followed whatever becomes of the actor.
        let following = Task::spawn(async move {
            let message = follow_launch(station, spec, start, &giving_up, &address).await;
            shim::deliver(&address, message).await;
        });
        following.detach();
    }

    /// Follows a shim through its socket.
    pub(super) fn attach(
        &self,
        context: &Context<RunMessage>,
        state: &mut RunActorState,
        start: Start,
        dir: PathBuf,
    ) {
        let address = context.address().clone();
        let pause = SIGHT_PAUSE * state.lost_sight.min(50);
        self.keep(state, async move {
            tokio::time::sleep(pause).await;
            let said = match shim::connect(&dir).await {
                Ok(stream) => {
                    let tell = |event: Event| {
                        shim::deliver(&address, RunMessage::Shim(start, Box::new(event)))
                    };
                    shim::follow(stream, tell).await
                }
                Err(error) => Some(error.to_string()),
            };
            shim::deliver(&address, RunMessage::Gone(start, said)).await;
        });
    }

    fn keep(&self, state: &mut RunActorState, work: impl Future<Output = ()> + Send + 'static) {
        state.tasks.retain(|task| !task.is_finished());
        state.tasks.push(Task::spawn(work));
    }

    pub(super) fn ask(
        &self,
        context: &Context<RunMessage>,
        state: &mut RunActorState,
        request: Request,
    ) {
        let start = state.core.start();
        let dir = launch::start_dir(&state.run_dir, start);
        let (address, run) = (context.address().clone(), self.spec.run);
        self.keep(state, async move {
            if let Err(error) = shim::ask(&dir, &request).await {
                tracing::debug!(run = ?run, error = %error, "a shim did not take a request");
                // Either it is gone, which its records tell, or a deadline of the rules follows.
                if error.kind() != std::io::ErrorKind::TimedOut {
                    shim::deliver(&address, RunMessage::Gone(start, None)).await;
                }
            }
        });
    }

    pub(super) fn is_strict(&self) -> bool {
        self.spec.template.single_copy == SingleCopy::Strict
    }

    /// Hands the lease to the shim. One that is on its way may be older: the next beat brings more.
    pub(super) fn renew(&self, context: &Context<RunMessage>, state: &mut RunActorState) {
        let until_ms = self.station.leases.until_ms();
        let is_busy = state
            .renewing
            .as_ref()
            .is_some_and(|task| !task.is_finished());
        let runs = matches!(state.core.phase(), Phase::Running | Phase::Stopping { .. });
        if !self.is_strict() || is_busy || !runs || until_ms <= self.now_ms() {
            return;
        }
        let dir = launch::start_dir(&state.run_dir, state.core.start());
        let (address, start) = (context.address().clone(), state.core.start());
        state.renewing = Some(Task::spawn(async move {
            let asked = shim::ask(&dir, &Request::Lease(until_ms)).await;
            if let Err(error) = asked
                && error.kind() != std::io::ErrorKind::TimedOut
            {
                shim::deliver(&address, RunMessage::Gone(start, None)).await;
            }
        }));
    }

    fn destroy(&self, context: &Context<RunMessage>, state: &mut RunActorState) {
        let last = state.destroying.as_ref();
        if last.is_some_and(|task| !task.is_finished()) {
            return;
        }
        let start = state.core.start();
        let launched = state.launched.clone();
        let giving_up = launched.and_then(|(launch, given)| (launch == start).then_some(given));
        let dir = launch::start_dir(&state.run_dir, start);
        let hangs = self.hangs(context, state, false);
        let reclaiming = self.reclaiming(context, state, start, false, true);
        state.destroying = Some(Task::spawn(async move {
            // Its exit record is worth waiting for where the shim does what it can.
            if shim::is_killing(&dir).await {
                return hangs().await;
            }
            shim::kill_shim(&dir);
            match giving_up {
                // Whoever follows it kills it, and tells when it is gone; also a shim that has not
                // even begun, which must never begin after this run has ended.
                Some(giving_up) => giving_up.give_up(),
                None => reclaiming.await,
            }
        }));
    }

    /// Tells the rules what of the current start was killed and lives.
    fn hangs(
        &self,
        context: &Context<RunMessage>,
        state: &mut RunActorState,
        only_stuck: bool,
    ) -> impl Fn() -> BoxFuture + Send + use<> {
        let start = state.core.start();
        let dir = launch::start_dir(&state.run_dir, start);
        let now_ms = || self.station.clock.wall_ms();
        let since_ms = *state.killed_wall_ms.get_or_insert_with(now_ms);
        let address = context.address().clone();
        move || {
            let (dir, address) = (dir.clone(), address.clone());
            Box::pin(async move {
                let looking = move || hanging::look(&dir, only_stuck, since_ms);
                let looked = tokio::task::spawn_blocking(looking).await;
                if let Ok(Some(text)) = looked {
                    let input = Input::Hangs { start, text };
                    shim::deliver(&address, RunMessage::Told(Box::new(input))).await;
                }
            })
        }
    }

    /// Ends what a dead shim left, then tells the rules that the start is lost.
    pub(super) fn reclaim(
        &self,
        context: &Context<RunMessage>,
        state: &mut RunActorState,
        start: Start,
        rebooted: bool,
        kill: bool,
    ) {
        let reclaiming = self.reclaiming(context, state, start, rebooted, kill);
        self.keep(state, reclaiming);
    }

    fn reclaiming(
        &self,
        context: &Context<RunMessage>,
        state: &mut RunActorState,
        start: Start,
        rebooted: bool,
        kill: bool,
    ) -> impl Future<Output = ()> + Send + use<> {
        let dir = launch::start_dir(&state.run_dir, start);
        let (address, run) = (context.address().clone(), self.spec.run);
        let hangs = self.hangs(context, state, false);
        async move {
            let lasts = || Task::spawn(hangs()).detach();
            if let Err(error) = shim::reclaim_all(&dir, kill, lasts).await {
                tracing::error!(run = ?run, error = %error, "what a run left cannot be found");
            }
            let still_alive = matches!(
                xce_shim::inspect(&dir),
                Ok(xce_shim::RunState::Running { .. } | xce_shim::RunState::Exited(_))
            );
            let message = if still_alive {
                RunMessage::Gone(start, None)
            } else {
                RunMessage::Told(Box::new(Input::Lost { start, rebooted }))
            };
            shim::deliver(&address, message).await;
        }
    }

    fn start_probe(
        &self,
        context: &Context<RunMessage>,
        state: &mut RunActorState,
        role: Role,
        kept: Option<bool>,
    ) {
        let probes = &self.spec.template.probes;
        let probe = match role {
            Role::Startup => &probes.startup,
            Role::Readiness => &probes.readiness,
            Role::Liveness => &probes.liveness,
        };
        let Some(probe) = probe.as_deref().cloned() else {
            return;
        };
        let environment = launch::environment(&self.station, &self.spec, "");
        let work_dir = launch::work_dir(&self.spec, &state.run_dir, &environment);
        let around = Arc::new(Surroundings {
            environment,
            work_dir: work_dir.unwrap_or_default(),
            ports: self.spec.ports.clone(),
            user: launch::other_user(&self.spec),
        });
        let actor = ProbeActor {
            probe,
            role,
            start: state.core.start(),
            since_ms: state.since_ms,
            kept: Mutex::new(kept),
            around,
            run: context.address().clone(),
        };
        let run = state_dir::run_name(self.spec.run);
        // An earlier one of the same role may be about to end.
        let name = format!("{run}.{}.{}", role.word(), self.station.next_number());
        let key = Key::new(ProbeActor::KIND, name);
        match LiveProbe::start(&self.probes, key, Key::new(Self::KIND, run), actor) {
            Ok(probe) => state.probes.push(probe),
            // The worker is at its end; the next one starts the probe.
            Err(refusal) => tracing::warn!(run = ?self.spec.run, %refusal, "a run has no probe"),
        }
    }

    fn report(&self, state: &mut RunActorState, start: Start, mut what: Happened) {
        if let Happened::Ended { exit, stderr } | Happened::Restarting { exit, stderr } = &mut what
            && !exit.is_success()
            && matches!(
                exit.cause,
                Cause::Exited | Cause::GaveUp | Cause::TermMemlimit
            )
        {
            *stderr = tail(&state.run_dir.join(launch::output_name(true)));
        }
        // What happened while no worker looked is told with the time of the record.
        let at = match &what {
            Happened::Started { .. } => state.started_wall_ms,
            Happened::Ended { .. } | Happened::Restarting { .. } => state.ended_wall_ms.take(),
            Happened::Ready
            | Happened::NotReady { .. }
            | Happened::LaunchFailed { .. }
            | Happened::Suspended
            | Happened::Resumed
            | Happened::ProbeUnrunnable { .. }
            | Happened::RestartWanted { .. }
            | Happened::RestartUnwanted
            | Happened::StopHangs { .. } => None,
        };
        self.station.report_at(self.spec.run, start, what, at);
    }

    /// Leaves: the end is told, and the directory put aside.
    pub(super) fn leave(&self, context: &Context<RunMessage>) {
        let run = self.spec.run;
        let now_ms = i64::try_from(self.now_ms()).unwrap_or(i64::MAX);
        self.station.ended.add(run, now_ms);
        self.station.roster.leave(run);
        self.station.turns.leave(run);
        self.station.leases.leave(run);
        context.stop();
    }
}

/// Starts a shim and follows it to its end; what the run is to be told then.
async fn follow_launch(
    station: Arc<Station>,
    spec: Arc<RunSpec>,
    start: Start,
    giving_up: &Arc<GivingUp>,
    address: &Address<RunMessage>,
) -> RunMessage {
    let failed = |text: String| RunMessage::Told(Box::new(Input::LaunchFailed { start, text }));
    let permit = match station.launches.clone().acquire_owned().await {
        Ok(permit) => permit,
        Err(error) => return failed(error.to_string()),
    };
    let given_up = giving_up.clone();
    let launching = tokio::task::spawn_blocking(move || {
        let launched = launch::launch(&station, &spec, start, &given_up);
        drop(permit);
        launched
    });
    let mut child = match launching.await {
        Ok(Launched::Shim(child)) => child,
        Ok(Launched::Claimed) => return RunMessage::Gone(start, None),
        Ok(Launched::Not(input)) => return RunMessage::Told(Box::new(input)),
        Err(error) => return failed(error.to_string()),
    };
    let mut said = None;
    if let Some(events) = child.stdout.take() {
        let tell = |event| shim::deliver(address, RunMessage::Shim(start, Box::new(event)));
        tokio::select! {
            last = shim::follow(events, tell) => said = last,
            () = giving_up.given_up() => {}
        }
    }
    if giving_up.is_given_up() {
        // An error says that it has ended by itself.
        let _ = child.start_kill();
    }
    // Reaped here; how it ended is in its records.
    let _ = child.wait().await;
    RunMessage::Gone(start, said)
}

/// The last lines of a file; empty where there is nothing to read.
fn tail(path: &Path) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = fs::File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(STDERR_TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(STDERR_TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    if u64::try_from(bytes.len()).unwrap_or(0) < STDERR_TAIL_BYTES {
        return text.into_owned();
    }
    // The first line is cut somewhere.
    text.split_once('\n')
        .map_or_else(|| text.to_string(), |(_, rest)| rest.to_owned())
}
