//! What an entity writes, and the thin actor around it.
//!
//! The wrapper holds the rules that every entity needs: `pre_start` does nothing that can fail;
//! recovery runs in the actor's own task, where it can be killed and its failure reaches the
//! supervisor; and an incarnation acts only while it holds the lease, which its predecessor gives
//! back after its state has been dropped.

use std::error::Error;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, SupervisionEvent};
use thiserror::Error;
use tokio::sync::OwnedSemaphorePermit;

use crate::address::{Address, Envelope, Letter, Slot};
use crate::clock::Clock;
use crate::inspect::View;
use crate::node::Node;
use crate::probe::{Phase, Probe};

/// Why an incarnation ends: its supervisor starts the next one from committed state.
pub type Crash = Box<dyn Error + Send + Sync + 'static>;

/// The crash of a recovery whose dependency is not there yet.
///
/// The supervisor tries again, but does not count it towards quarantine.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("waits for {0}")]
pub struct NotYet(pub String);

/// An actor as its author writes it. The value itself is shared by all incarnations and holds
/// what never changes: its id and the addresses it talks to. All else is [`Entity::State`].
pub trait Entity: Send + Sync + Sized + 'static {
    /// What it is told.
    type Message: Send + 'static;
    /// What one incarnation knows; a cache of committed facts.
    type State: Send + 'static;
    /// The kind of its key, such as `job`.
    const KIND: &'static str;

    /// Builds the state from what is committed, read through the WAL's mailbox. Messages queue
    /// meanwhile. Returns [`NotYet`] when something it needs is away.
    fn recover(
        &self,
        context: &Context<Self::Message>,
    ) -> impl Future<Output = Result<Self::State, Crash>> + Send;

    /// Handles one message. An error ends this incarnation: return it when the outcome of a write
    /// is unknown. It must not block, nor compute for more than 10 ms.
    fn handle(
        &self,
        context: &Context<Self::Message>,
        message: Self::Message,
        state: &mut Self::State,
    ) -> impl Future<Output = Result<(), Crash>> + Send;

    /// Runs before an orderly end; never after a kill, a panic or an error.
    fn stopping(
        &self,
        context: &Context<Self::Message>,
        state: &mut Self::State,
    ) -> impl Future<Output = ()> + Send {
        let _ = (context, state);
        async {}
    }

    /// What operators see of the state; no secrets.
    fn view(&self, state: &Self::State) -> View {
        let _ = state;
        View::empty()
    }

    /// Told when an actor that runs below this one has ended; only supervisors care.
    #[doc(hidden)]
    fn child_ended(
        &self,
        context: &Context<Self::Message>,
        ended: ChildEnded,
        state: &mut Self::State,
    ) -> impl Future<Output = Result<(), Crash>> + Send {
        let _ = (context, ended, state);
        async { Ok(()) }
    }
}

/// How a child ended.
#[derive(Debug)]
pub struct ChildEnded {
    pub(crate) cell: ActorCell,
    /// `None` for an orderly end.
    pub(crate) crash: Option<Crash>,
}

/// What an entity may use of its surroundings.
#[derive(Debug)]
pub struct Context<M: Send + 'static> {
    address: Address<M>,
    cell: ActorCell,
    node: Arc<Node>,
}

impl<M: Send + 'static> Context<M> {
    /// The entity's own address.
    pub fn address(&self) -> &Address<M> {
        &self.address
    }

    /// The node this actor lives in.
    pub fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// The node's clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        self.node.clock()
    }

    /// Ends this entity in order after the current message; whether it starts again is up to the
    /// restart rule.
    pub fn stop(&self) {
        self.cell.stop(None);
    }

    pub(crate) fn cell(&self) -> &ActorCell {
        &self.cell
    }
}

/// State and lease of an incarnation. The order of the fields matters: the state is dropped before
/// the lease is given back.
pub(crate) struct Held<E: Entity> {
    state: E::State,
    context: Context<E::Message>,
    _lease: OwnedSemaphorePermit,
}

/// The actor that runs an entity.
pub(crate) struct Supervised<E: Entity> {
    pub(crate) entity: Arc<E>,
    pub(crate) slot: Arc<Slot<E::Message>>,
}

/// Measures one handler or recovery, also when a kill drops it or a panic unwinds through it.
struct Busy<'a> {
    probe: &'a Probe,
    node: &'a Node,
    since_ns: u64,
    messages: u64,
}

impl<'a> Busy<'a> {
    /// `messages` is how many are handled: one, or none during recovery.
    fn start(probe: &'a Probe, node: &'a Node, messages: u64) -> Self {
        let since_ns = node.clock().monotonic_ns();
        probe.enter_handler(since_ns);
        Self {
            probe,
            node,
            since_ns,
            messages,
        }
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let now_ns = self.node.clock().monotonic_ns();
        self.probe
            .leave_handler(self.messages, now_ns.saturating_sub(self.since_ns));
    }
}

impl<E: Entity> Supervised<E> {
    fn answer_view(&self, state: &E::State) -> View {
        // The state is only read, so what a panic leaves behind is what was there before.
        let view = catch_unwind(AssertUnwindSafe(|| self.entity.view(state)))
            .unwrap_or_else(|_panic| View::failed());
        self.slot.remember(view.clone());
        view
    }
}

impl<E: Entity> Actor for Supervised<E> {
    type Msg = Envelope<E::Message>;
    type State = Option<Held<E>>;
    type Arguments = ();

    /// Runs in the supervisor's task and outside of its care: it only publishes the new mailbox.
    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        (): (),
    ) -> Result<Self::State, ActorProcessingErr> {
        self.slot.occupy(myself);
        Ok(None)
    }

    async fn post_start(
        &self,
        myself: ActorRef<Self::Msg>,
        held: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let probe = &self.slot.probe;
        let lease = match self.slot.lease.clone().try_acquire_owned() {
            Ok(lease) => lease,
            Err(_taken) => {
                probe.set_phase(Phase::Succeeding);
                self.slot.lease.clone().acquire_owned().await?
            }
        };
        probe.set_phase(Phase::Recovering);
        let context = Context {
            address: Address::of(self.slot.clone()),
            cell: myself.get_cell(),
            node: self.slot.node.clone(),
        };
        let busy = Busy::start(probe, &self.slot.node, 0);
        let state = self.entity.recover(&context).await?;
        drop(busy);
        *held = Some(Held {
            state,
            context,
            _lease: lease,
        });
        probe.set_started(self.slot.node.clock().monotonic_ns());
        probe.set_phase(Phase::Running);
        Ok(())
    }

    async fn handle(
        &self,
        _myself: ActorRef<Self::Msg>,
        envelope: Self::Msg,
        held: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let held = held.as_mut().ok_or("a message came before the recovery")?;
        match envelope.open() {
            Letter::Message(message) => {
                let _busy = Busy::start(&self.slot.probe, &self.slot.node, 1);
                self.entity
                    .handle(&held.context, message, &mut held.state)
                    .await
            }
            Letter::Inspect(answer) => {
                // Err only says that whoever asked no longer waits.
                drop(answer.send(self.answer_view(&held.state)));
                Ok(())
            }
        }
    }

    /// Replaces the default, which would stop this actor when a child ends.
    async fn handle_supervisor_evt(
        &self,
        _myself: ActorRef<Self::Msg>,
        event: SupervisionEvent,
        held: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let ended = match event {
            // A panic and an error arrive alike.
            SupervisionEvent::ActorFailed(cell, crash) => ChildEnded {
                cell,
                crash: Some(crash),
            },
            // A kill arrives as a termination, told apart by its reason alone. The state inside may
            // be half updated, so it is dropped here and never used again.
            SupervisionEvent::ActorTerminated(cell, _state, reason) => ChildEnded {
                cell,
                crash: reason
                    .filter(|reason| reason == "killed" || reason == "actor_task_cancelled")
                    .map(Crash::from),
            },
            _ => return Ok(()),
        };
        let held = held.as_mut().ok_or("a child ended before the recovery")?;
        self.entity
            .child_ended(&held.context, ended, &mut held.state)
            .await
    }

    /// Drops the state in this task, so that the lease never waits for the supervisor to read its
    /// events.
    async fn post_stop(
        &self,
        _myself: ActorRef<Self::Msg>,
        held: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        if let Some(mut held) = held.take() {
            self.entity.stopping(&held.context, &mut held.state).await;
        }
        Ok(())
    }
}
