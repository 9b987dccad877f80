//! A service's actor: decides whenever something that concerns it was committed, and on commands.

use std::sync::Arc;

use xce_deciding::{ServiceStep, Times};
use xce_ledger::{Group, Operation};
use xce_model::{ClusterTime, Lsn, OperationId, Refusal, RefusalKind, ServiceId};
use xce_runtime::{
    Address, Context, Crash, Entity, Key, Refusal as Absent, Reply, Timer, Trigger, View,
};
use xce_service::rules::{Answer, Author, Effect, Event};
use xce_session::wire::Accepted;

use crate::control::{CommitError, Control, outcome_unknown};
use crate::job::DECISIONS_MAX;
use crate::reach;

/// Most decisions in a row without looking into the mailbox.
/// Source: derived; a rollout step a decision, far above what one event leads to.
const STEPS_MAX: u32 = 64;

/// The actor.
pub struct Service {
    /// Shared parts.
    pub control: Arc<Control>,
    /// Which service.
    pub id: ServiceId,
}

/// What it is told.
pub enum Message {
    /// Something that concerns it was committed.
    Look,
    /// A delay ended.
    Due(Trigger),
    /// A command of a user.
    Command(Box<Asked>),
}

/// A command with who gave it.
pub struct Asked {
    /// What is wanted.
    pub command: xce_service::rules::Command,
    /// Name of the event, for journal and audit trail.
    pub cause: &'static str,
    /// Who wants it.
    pub principal: String,
    /// Its name for ever.
    pub operation: Option<Operation>,
    /// Where the answer goes.
    pub reply: Reply<Result<Accepted, Refusal>>,
}

/// What one incarnation knows.
pub struct State {
    timer: Timer<Message>,
    decisions: u64,
}

impl Entity for Service {
    type Message = Message;
    type State = State;
    const KIND: &'static str = "service";

    async fn recover(&self, context: &Context<Message>) -> Result<State, Crash> {
        self.control.settled().await?;
        let timer = Timer::new(context.address().clone(), Arc::clone(context.clock()));
        let mut state = State {
            timer,
            decisions: 0,
        };
        self.settle(&mut state, Event::Changed).await?;
        Ok(state)
    }

    async fn handle(
        &self,
        _context: &Context<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), Crash> {
        match message {
            Message::Look => self.settle(state, Event::Changed).await,
            Message::Due(trigger) if state.timer.accept(trigger) => {
                self.settle(state, Event::Timer).await
            }
            Message::Due(_) => Ok(()),
            Message::Command(asked) => {
                self.command(*asked).await?;
                self.settle(state, Event::Changed).await
            }
        }
    }

    fn view(&self, state: &State) -> View {
        let view = self.control.view();
        match self.control.seer(&view).service(self.id) {
            Some(seen) => View::of(&Seen {
                decisions: state.decisions,
                service: seen,
                readers: self.control.readers.views(self.id),
            }),
            None => View::empty(),
        }
    }
}

#[derive(serde::Serialize)]
struct Seen {
    decisions: u64,
    service: xce_service::view::ServiceView,
    /// Who reads its endpoints.
    readers: Vec<xce_session::endpoints_wire::ReaderView>,
}

enum Step {
    Committed(Accepted),
    Nothing(Accepted),
    Stale,
    Refused(Refusal),
}

impl Service {
    /// Decides until nothing comes out any more.
    async fn settle(&self, state: &mut State, first: Event) -> Result<(), Crash> {
        if self.control.view().service(self.id).is_none() {
            // It was deleted; the publisher lets this actor go.
            return Ok(());
        }
        let mut event = first;
        for _ in 0..STEPS_MAX {
            let wake = &mut None;
            let step = self.step(event.clone(), OWN, wake).await?;
            if let Some(at) = wake.take() {
                state.timer.arm(self.control.monotonic_of(at), Message::Due);
            }
            match step {
                Step::Committed(_) => state.decisions += 1,
                Step::Stale => {}
                Step::Nothing(_) => return Ok(()),
                Step::Refused(_) if self.control.view().service(self.id).is_none() => {
                    // It was deleted meanwhile; the publisher lets this actor go.
                    return Ok(());
                }
                Step::Refused(refusal) => {
                    tracing::warn!(service = %self.id, code = %refusal.code, "decision not written");
                    // Written again when there is space or the load is gone: look once more then.
                    let retry = self.control.monotonic_ms() + 1000;
                    state.timer.arm(retry, Message::Due);
                    return Ok(());
                }
            }
            event = Event::Changed;
        }
        look(&self.control, self.id);
        Ok(())
    }

    async fn command(&self, asked: Asked) -> Result<(), Crash> {
        let Asked {
            command,
            cause,
            principal,
            operation,
            reply,
        } = asked;
        for _ in 0..DECISIONS_MAX {
            let author = Author {
                user: principal.clone(),
                operation: operation.map_or_else(OperationId::default, |operation| operation.id),
            };
            let event = Event::Command(Box::new(command.clone()), author);
            let by = Behalf {
                cause,
                principal: &principal,
                operation,
            };
            match self.step(event, by, &mut None).await {
                Ok(Step::Committed(accepted) | Step::Nothing(accepted)) => {
                    reply.send(Ok(accepted));
                    return Ok(());
                }
                Ok(Step::Refused(refusal)) => {
                    reply.send(Err(refusal));
                    return Ok(());
                }
                Ok(Step::Stale) => {}
                Err(crash) => {
                    reply.send(Err(outcome_unknown()));
                    return Err(crash);
                }
            }
        }
        let text = "the service changed faster than the command could be decided; try again";
        reply.send(Err(Refusal::new(RefusalKind::Unavailable, "busy", text)));
        Ok(())
    }

    /// Decides once and persists what was decided.
    async fn step(
        &self,
        event: Event,
        by: Behalf<'_>,
        wake: &mut Option<ClusterTime>,
    ) -> Result<Step, Crash> {
        let view = self.control.view();
        let times = self.control.times();
        let recorded = xce_deciding::event_of(self.id, &event);
        let (decided, pending) = match xce_deciding::service(&view, self.id, event, times) {
            Ok(ServiceStep::Decided(decided, pending)) => (decided, pending),
            Ok(ServiceStep::Nothing(effects, answer)) => {
                take_wake(effects, wake);
                return self.nothing(view.lsn(), by, times, answer).await;
            }
            Err(refusal) => return Ok(Step::Refused(refusal)),
        };
        let group = Group::new(times.0, times.1, by.cause)
            .on_behalf(by.principal, by.operation)
            .decided_on(view.lsn(), recorded);
        let committed = match self.control.commit(&decided.into_group(group)).await {
            Ok(committed) => committed,
            Err(CommitError::Stale(_)) => return Ok(Step::Stale),
            Err(CommitError::Refused(refusal)) => return Ok(Step::Refused(refusal)),
            Err(CommitError::Unknown) => return Err(CommitError::Unknown.into()),
        };
        let (effects, answer) = pending.release(&committed.receipt);
        take_wake(effects, wake);
        Ok(Step::Committed(self.accepted(committed.answer.lsn, answer)))
    }

    /// A command that finds all as it wants it is remembered all the same: its repeat must not have an
    /// effect when it is no longer so.
    async fn nothing(
        &self,
        lsn: Lsn,
        by: Behalf<'_>,
        times: Times,
        answer: Answer,
    ) -> Result<Step, Crash> {
        if by.operation.is_none() {
            return Ok(Step::Nothing(self.accepted(lsn, answer)));
        }
        let group = Group::new(times.0, times.1, by.cause).on_behalf(by.principal, by.operation);
        match self.control.commit(&group).await {
            Ok(committed) => Ok(Step::Nothing(self.accepted(committed.answer.lsn, answer))),
            Err(CommitError::Stale(_)) => Ok(Step::Stale),
            Err(CommitError::Refused(refusal)) => Ok(Step::Refused(refusal)),
            Err(CommitError::Unknown) => Err(CommitError::Unknown.into()),
        }
    }

    fn accepted(&self, lsn: Lsn, answer: Answer) -> Accepted {
        let text = match answer {
            Answer::Nothing => String::new(),
            Answer::NoChange { text } | Answer::Accepted { text } => text,
        };
        Accepted {
            lsn,
            ids: vec![self.id.to_string()],
            text,
        }
    }
}

/// On whose behalf something is decided, and why.
#[derive(Clone, Copy)]
struct Behalf<'a> {
    cause: &'static str,
    principal: &'a str,
    operation: Option<Operation>,
}

/// The service's own care for its replicas.
const OWN: Behalf<'static> = Behalf {
    cause: "changed",
    principal: "",
    operation: None,
};

fn take_wake(effects: Vec<Effect>, wake: &mut Option<ClusterTime>) {
    for effect in effects {
        match effect {
            Effect::WakeAt(at) => *wake = Some(at),
        }
    }
}

/// The key of a service's actor.
pub fn key(id: ServiceId) -> Key {
    Key::numbered(Service::KIND, id.0)
}

fn ensure(control: &Arc<Control>, id: ServiceId) -> Result<Address<Message>, Absent> {
    control.services.ensure(key(id), || Service {
        control: Arc::clone(control),
        id,
    })
}

/// Tells a service's actor to look; it is started where need be, and let go when it is deleted.
pub fn look(control: &Arc<Control>, id: ServiceId) {
    if control.view().service(id).is_none() {
        // One that does not exist needs nothing.
        drop(control.services.stop(&key(id)));
        return;
    }
    match control.services.address::<Message>(&key(id)) {
        // One that is down looks when it starts; a full mailbox holds a look already.
        Some(address) => drop(address.cast(Message::Look)),
        None => drop(ensure(control, id)),
    }
}

/// Gives a command to a service's actor.
///
/// # Errors
/// The command's refusal; `outcome_unknown` where the actor died with it.
pub async fn command(
    control: &Arc<Control>,
    id: ServiceId,
    command: xce_service::rules::Command,
    cause: &'static str,
    principal: &str,
    operation: Option<Operation>,
) -> Result<Accepted, Refusal> {
    let answer = reach::ask(
        || ensure(control, id),
        |reply| {
            Message::Command(Box::new(Asked {
                command: command.clone(),
                cause,
                principal: principal.to_owned(),
                operation,
                reply,
            }))
        },
    );
    let answer = answer.await.flatten();
    if control.view().service(id).is_none() {
        drop(control.services.stop(&key(id)));
    }
    answer
}
