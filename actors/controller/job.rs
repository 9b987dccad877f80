//! A job's actor: carries out commands on one job, or on one array and its elements.
//!
//! It lives while its job holds a host, and while a command needs it.

use std::sync::Arc;

use xce_host::HostLife;
use xce_ledger::{Fact, Group, GroupEvent, Operation, View as LedgerView};
use xce_model::{JobId, JobState, Lsn, Refusal};
use xce_replica::rules::Command;
use xce_replica::wire::{Order, RunId, Want};
use xce_replica::{JobFact, JobRecord};
use xce_runtime::{Context, Crash, Entity, Key, Reply, View};
use xce_session::wire::Accepted;

use crate::control::{CommitError, Control, outcome_unknown};
use crate::{host, reach};

/// How often a decision is made again when the state moved under it.
/// Source: derived; each time another actor made progress, so a handful is already rare.
pub const DECISIONS_MAX: u32 = 16;

/// The actor.
pub struct Job {
    /// Shared parts.
    pub control: Arc<Control>,
    /// Which job.
    pub id: JobId,
}

/// What it is told.
pub enum Message {
    /// A command of a user.
    Command(Box<Asked>),
}

/// A command with who gave it.
pub struct Asked {
    /// What is wanted.
    pub command: Command,
    /// Who wants it.
    pub principal: String,
    /// Its name for ever.
    pub operation: Option<Operation>,
    /// Where the answer goes.
    pub reply: Reply<Result<Accepted, Refusal>>,
}

#[derive(serde::Serialize)]
struct Seen {
    id: String,
    state: Option<JobState>,
    run: Option<u32>,
    host: Option<String>,
    commands: u64,
    changed_lsn: Lsn,
}

/// What one incarnation knows.
#[derive(Default)]
pub struct State {
    commands: u64,
}

impl Entity for Job {
    type Message = Message;
    type State = State;
    const KIND: &'static str = "job";

    async fn recover(&self, _context: &Context<Message>) -> Result<State, Crash> {
        // Decisions are checked in log order at their commit, so a stale read does no harm.
        Ok(State::default())
    }

    async fn handle(
        &self,
        _context: &Context<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), Crash> {
        match message {
            Message::Command(asked) => {
                state.commands += 1;
                self.command(*asked).await
            }
        }
    }

    fn view(&self, state: &State) -> View {
        let view = self.control.view();
        let job = view.job(self.id);
        View::of(&Seen {
            id: self.id.to_string(),
            state: job.map(|job| job.state),
            run: job.map(|job| job.run),
            host: job.and_then(|job| job.host.as_deref().map(str::to_owned)),
            commands: state.commands,
            changed_lsn: job.map_or(0, |job| job.changed),
        })
    }
}

impl Job {
    async fn command(&self, asked: Asked) -> Result<(), Crash> {
        let Asked {
            command,
            principal,
            operation,
            reply,
        } = asked;
        for _ in 0..DECISIONS_MAX {
            let view = self.control.view();
            let times = self.control.times();
            let decided = match xce_deciding::job(&view, self.id, command, times) {
                Ok(decided) => decided,
                Err(refusal) => {
                    reply.send(Err(refusal));
                    return Ok(());
                }
            };
            if decided.facts.is_empty() {
                reply.send(self.order(&view, command).map(|text| Accepted {
                    lsn: view.lsn(),
                    ids: vec![self.id.to_string()],
                    text,
                }));
                return Ok(());
            }
            let ended = decided
                .facts
                .iter()
                .any(|fact| matches!(fact, Fact::Job(JobFact::Ended { .. })));
            let done = if ended { "ended" } else { past(command) };
            let event = GroupEvent::JobCommand {
                job: self.id,
                command,
            };
            let group = Group::new(times.0, times.1, command.verb())
                .on_behalf(&principal, operation)
                .decided_on(view.lsn(), event);
            match self.control.commit(&decided.into_group(group)).await {
                Ok(committed) => {
                    reply.send(Ok(Accepted {
                        lsn: committed.answer.lsn,
                        ids: vec![self.id.to_string()],
                        text: format!("job {}: {}", self.id, done),
                    }));
                    return Ok(());
                }
                Err(CommitError::Stale(_)) => {}
                Err(CommitError::Refused(refusal)) => {
                    reply.send(Err(refusal));
                    return Ok(());
                }
                Err(CommitError::Unknown) => {
                    reply.send(Err(outcome_unknown()));
                    return Err(CommitError::Unknown.into());
                }
            }
        }
        reply.send(Err(Refusal::new(
            xce_model::RefusalKind::Unavailable,
            "busy",
            format!(
                "job {} changed faster than the command could be decided; try again",
                self.id
            ),
        )));
        Ok(())
    }

    /// Commands whose facts come from the worker are orders to it.
    fn order(&self, view: &LedgerView, command: Command) -> Result<String, Refusal> {
        let want = match command {
            Command::Suspend => Want::Suspend,
            Command::Resume => Want::Resume,
            Command::Kill(_)
            | Command::Hold
            | Command::Release
            | Command::Requeue
            | Command::ConfirmDead => {
                return Ok(format!("job {}: nothing to do", self.id));
            }
        };
        let job = view.job(self.id);
        let Some((job, host)) = job.and_then(|job| Some((job, job.host.clone()?))) else {
            return Err(Refusal::not_found("running job", self.id));
        };
        let order = Order {
            run: RunId {
                job: job.id,
                run: job.run,
            },
            want,
        };
        host::send_order(&self.control, &host, order)?;
        Ok(format!("job {}: asked its worker on {host}", self.id))
    }
}

const fn past(command: Command) -> &'static str {
    match command {
        Command::Kill(_) => "is being stopped",
        Command::Hold => "held",
        Command::Release => "released",
        Command::Requeue => "will run again",
        Command::Suspend => "is being suspended",
        Command::Resume => "goes on",
        Command::ConfirmDead => "counts as dead",
    }
}

/// Whether the worker has to be told of the job's state.
pub fn needs_order(job: &JobRecord) -> bool {
    matches!(job.state, JobState::Start | JobState::Stopping) || job.open_permit().is_some()
}

/// Whether the host of a job answers; absent where it holds none.
pub fn reachable(view: &LedgerView, job: &JobRecord) -> Option<bool> {
    if !job.state.holds_host() {
        return None;
    }
    let host = view.host(job.host.as_deref()?)?;
    Some(matches!(host.life, HostLife::Up))
}

fn key(id: JobId) -> Key {
    Key::new(Job::KIND, id.to_string())
}

/// Makes sure that a job's actor lives.
pub fn ensure(control: &Arc<Control>, id: JobId) {
    if control.jobs.address::<Message>(&key(id)).is_some() {
        return;
    }
    let job = Job {
        control: Arc::clone(control),
        id,
    };
    let view = control.view();
    let service = view
        .job(id)
        .and_then(|job| job.service)
        .map(|part| part.service);
    let parent = service.map(crate::service::key);
    // One that exists is what is wanted; at the end of the node nothing is.
    drop(control.jobs.spawn(key(id), parent, job));
}

/// Lets a job's actor go.
pub fn release(control: &Control, id: JobId) {
    // One that does not exist needs nothing.
    drop(control.jobs.stop(&key(id)));
}

/// Gives a command to a job's actor, which is started for it where need be.
///
/// # Errors
/// The command's refusal; `outcome_unknown` where the actor died with it.
pub async fn command(
    control: &Arc<Control>,
    id: JobId,
    command: Command,
    principal: &str,
    operation: Option<Operation>,
) -> Result<Accepted, Refusal> {
    let view = control.view();
    let known = view.job(id).is_some() || view.array(id.number).is_some();
    if !known {
        return Err(Refusal::not_found("job", id));
    }
    drop(view);
    let actor = || {
        let control = Arc::clone(control);
        control.jobs.ensure(key(id), || Job {
            control: Arc::clone(&control),
            id,
        })
    };
    let answer = reach::ask(actor, |reply| {
        Message::Command(Box::new(Asked {
            command,
            principal: principal.to_owned(),
            operation,
            reply,
        }))
    });
    let answer = answer.await.flatten();
    release_idle(control, id);
    answer
}

fn release_idle(control: &Control, id: JobId) {
    let holds = control
        .view()
        .job(id)
        .is_some_and(|job| job.state.holds_host());
    if !holds {
        release(control, id);
    }
}
