//! The handle of a supervisor: who is wanted below it, whichever of its incarnations lives.
//!
//! State belongs to whoever outlives the crash: the set of wanted children lives at the
//! desk, not in the supervisor's actor, so a supervisor that starts again starts exactly these.
//! Orders to the actor carry keys only and may be lost; the wanted set is the truth.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::address::{Address, Slot};
use crate::desk::{Desk, Seat};
use crate::key::Key;
use crate::keyed::{Keyed, Order};
use crate::node::Node;
use crate::policy::{Limits, Policy};
use crate::probe::Probe;
use crate::refusal::Refusal;
use crate::reply::Reply;
use crate::supervised::Entity;

/// A supervisor of children with keys, one for one: a crash concerns the child alone.
#[derive(Clone)]
pub struct Supervisor(Arc<Desk>);

/// A supervisor as its children know it, without keeping it.
#[derive(Clone)]
pub(crate) struct WeakSupervisor(Weak<Desk>);

impl WeakSupervisor {
    pub(crate) fn upgrade(&self) -> Option<Supervisor> {
        self.0.upgrade().map(Supervisor)
    }
}

impl fmt::Debug for Supervisor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Supervisor({})", self.0.key())
    }
}

/// An actor to be, built but not started.
pub(crate) struct Built {
    pub(crate) seat: Arc<Seat<Keyed>>,
    pub(crate) supervisor: Supervisor,
}

pub(crate) fn build_supervisor(
    node: &Arc<Node>,
    above: Option<&Supervisor>,
    key: Key,
    limits: Limits,
) -> Built {
    let policy = Policy::supervisor(&limits);
    let parent = above.map(|supervisor| supervisor.0.key().clone());
    let probe = Probe::new(key, parent, node.clock().monotonic_ns());
    let weak = above.map(|supervisor| WeakSupervisor(Arc::downgrade(&supervisor.0)));
    let slot = Arc::new(Slot::new(probe, node.clone(), weak, policy.mailbox_max));
    let desk = Desk::new(node.clone(), limits, Address::of(slot.clone()));
    let seat = Seat::new(Keyed::new(desk.clone()), slot, policy);
    Built {
        seat,
        supervisor: Supervisor(desk),
    }
}

impl Supervisor {
    /// Its own key.
    pub fn key(&self) -> &Key {
        self.0.key()
    }

    /// The node it lives in.
    pub fn node(&self) -> &Arc<Node> {
        self.0.node()
    }

    /// How many children it has, in any phase.
    pub fn children(&self) -> usize {
        self.0.children()
    }

    /// Adds a child and returns its address at once; the child starts soon after, and until then
    /// messages are refused as [`NotDelivered::Down`](crate::NotDelivered::Down). `parent` is the
    /// logical parent to show in the tree; `None` means this supervisor.
    ///
    /// # Errors
    /// [`Refusal::Exists`] when the key is taken in this node, [`Refusal::Stopping`] at the end.
    pub fn spawn<E: Entity>(
        &self,
        key: Key,
        parent: Option<Key>,
        entity: E,
        policy: Policy,
    ) -> Result<Address<E::Message>, Refusal> {
        self.place(key, parent, entity, policy, None)
    }

    /// Adds a child and waits until its mailbox is open, at most `within`; it may still recover.
    /// Not for handlers of actors: they wait for the WAL only.
    ///
    /// # Errors
    /// As [`Supervisor::spawn`]; [`Refusal::Late`] when it was added but has not started in time.
    pub async fn spawn_started<E: Entity>(
        &self,
        key: Key,
        parent: Option<Key>,
        entity: E,
        policy: Policy,
        within: Duration,
    ) -> Result<Address<E::Message>, Refusal> {
        let starting = self.place_started(key, parent, entity, policy)?;
        starting.wait(within).await
    }

    pub(crate) fn place_started<E: Entity>(
        &self,
        key: Key,
        parent: Option<Key>,
        entity: E,
        policy: Policy,
    ) -> Result<Starting<E::Message>, Refusal> {
        let (reply, started) = Reply::channel();
        let address = self.place(key, parent, entity, policy, Some(reply))?;
        Ok(Starting { address, started })
    }

    /// Adds a supervisor below this one.
    ///
    /// # Errors
    /// As [`Supervisor::spawn`].
    pub fn spawn_supervisor(&self, key: Key, limits: Limits) -> Result<Supervisor, Refusal> {
        let built = build_supervisor(self.0.node(), Some(self), key, limits);
        self.0.adopt(built.seat, None)?;
        Ok(built.supervisor)
    }

    fn place<E: Entity>(
        &self,
        key: Key,
        parent: Option<Key>,
        entity: E,
        policy: Policy,
        started: Option<Reply<()>>,
    ) -> Result<Address<E::Message>, Refusal> {
        let parent = parent.unwrap_or_else(|| self.0.key().clone());
        let probe = Probe::new(key, Some(parent), self.0.node().clock().monotonic_ns());
        let weak = WeakSupervisor(Arc::downgrade(&self.0));
        let node = self.0.node().clone();
        let slot = Arc::new(Slot::new(probe, node, Some(weak), policy.mailbox_max));
        let seat = Seat::new(entity, slot.clone(), policy);
        self.0.adopt(seat, started)?;
        Ok(Address::of(slot))
    }

    /// Ends a child for good, in order if it can within its policy's time, else by a kill.
    ///
    /// # Errors
    /// [`Refusal::Unknown`] when this supervisor has no such child.
    pub fn stop(&self, key: &Key) -> Result<(), Refusal> {
        self.0.leave(key, None)
    }

    /// Ends a child for good and waits for it, at most `within`.
    ///
    /// # Errors
    /// As [`Supervisor::stop`]; [`Refusal::Late`] when it has not ended yet, which it still will.
    pub async fn stop_and_wait(&self, key: &Key, within: Duration) -> Result<(), Refusal> {
        let (reply, ended) = Reply::channel();
        self.0.leave(key, Some(reply))?;
        wait_for(key.clone(), ended, within).await
    }

    pub(crate) fn desk(&self) -> &Desk {
        &self.0
    }

    pub(crate) fn retry(&self, key: Key) -> Result<(), Refusal> {
        self.0.order(Order::Retry(key));
        Ok(())
    }
}

/// A child that was added and is about to start.
pub(crate) struct Starting<M: Send + 'static> {
    address: Address<M>,
    started: oneshot::Receiver<()>,
}

impl<M: Send + 'static> Starting<M> {
    pub(crate) async fn wait(self, within: Duration) -> Result<Address<M>, Refusal> {
        wait_for(self.address.probe().key().clone(), self.started, within).await?;
        Ok(self.address)
    }
}

async fn wait_for(key: Key, done: oneshot::Receiver<()>, within: Duration) -> Result<(), Refusal> {
    match tokio::time::timeout(within, done).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_dropped)) => Err(Refusal::Stopping(key)),
        Err(_elapsed) => Err(Refusal::Late(key)),
    }
}
