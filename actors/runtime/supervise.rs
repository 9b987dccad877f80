//! The handle of a supervisor: who is wanted below it, whichever of its incarnations lives.
//!
//! State belongs to whoever outlives the crash: the set of wanted children lives here, not in the
//! supervisor's actor, so a supervisor that starts again starts exactly these. Orders to the actor
//! carry keys only and may be lost; the wanted set is the truth.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use ractor::{Actor, ActorCell, ActorId};
use tokio::sync::oneshot;

use crate::address::{Address, Occupant, Slot};
use crate::key::Key;
use crate::keyed::{Keyed, Order};
use crate::node::Node;
use crate::policy::{Limits, Policy, SHUTDOWN_MARGIN};
use crate::probe::Probe;
use crate::refusal::Refusal;
use crate::reply::Reply;
use crate::supervised::{Crash, Entity, Supervised};

/// A running or failed start.
pub(crate) type Start = Pin<Box<dyn Future<Output = Result<ActorCell, Crash>> + Send>>;

/// A child without its types: how to start an incarnation, and what outlives it.
pub(crate) trait Place: Send + Sync {
    fn probe(&self) -> &Probe;
    fn policy(&self) -> &Policy;
    fn start(&self, supervisor: Option<ActorCell>) -> Start;
    fn vacate(&self, ended: ActorId);
}

/// One child with its types.
struct Seat<E: Entity> {
    entity: Arc<E>,
    slot: Arc<Slot<E::Message>>,
    policy: Policy,
}

impl<E: Entity> Place for Seat<E> {
    fn probe(&self) -> &Probe {
        &self.slot.probe
    }

    fn policy(&self) -> &Policy {
        &self.policy
    }

    fn start(&self, supervisor: Option<ActorCell>) -> Start {
        let actor = Supervised {
            entity: self.entity.clone(),
            slot: self.slot.clone(),
        };
        Box::pin(async move {
            let (actor, _task) = match supervisor {
                Some(supervisor) => Actor::spawn_linked(None, actor, (), supervisor).await?,
                None => Actor::spawn(None, actor, ()).await?,
            };
            Ok(actor.get_cell())
        })
    }

    fn vacate(&self, ended: ActorId) {
        self.slot.vacate(ended);
    }
}

/// A child that is to live, or to end.
struct Wish {
    place: Arc<dyn Place>,
    order: u64,
    leaving: bool,
    /// Who waits for its start, or, when it is leaving, for its end.
    waiting: Vec<Reply<()>>,
}

#[derive(Default)]
struct Wanted {
    closing: bool,
    started: u64,
    wishes: BTreeMap<Key, Wish>,
}

/// What outlives the incarnations of one supervisor.
pub(crate) struct Desk {
    key: Key,
    node: Arc<Node>,
    limits: Limits,
    address: Address<Order>,
    wanted: Mutex<Wanted>,
    killed: AtomicUsize,
}

impl Desk {
    fn wanted(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.node
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn probe(&self) -> &Probe {
        self.address.probe()
    }

    /// All wanted children, in the order in which they came, and whether each is leaving.
    pub(crate) fn wishes(&self) -> Vec<(Arc<dyn Place>, bool)> {
        let wanted = self.wanted();
        let mut wishes: Vec<&Wish> = wanted.wishes.values().collect();
        wishes.sort_unstable_by_key(|wish| wish.order);
        wishes
            .into_iter()
            .map(|wish| (wish.place.clone(), wish.leaving))
            .collect()
    }

    /// The child, if it is to live.
    pub(crate) fn wants(&self, key: &Key) -> Option<Arc<dyn Place>> {
        let wanted = self.wanted();
        let wish = wanted.wishes.get(key)?;
        (!wish.leaving && !wanted.closing).then(|| wish.place.clone())
    }

    /// Tells whoever waits that the child's mailbox is open.
    pub(crate) fn started(&self, key: &Key) {
        let waiting = match self.wanted().wishes.get_mut(key) {
            Some(wish) if !wish.leaving => std::mem::take(&mut wish.waiting),
            Some(_) | None => return,
        };
        waiting.into_iter().for_each(|reply| reply.send(()));
    }

    /// Takes an ended child out of the tree and tells whoever waits.
    pub(crate) fn finish(&self, key: &Key) {
        let Some(wish) = self.wanted().wishes.remove(key) else {
            return;
        };
        wish.place.probe().set_phase(crate::probe::Phase::Stopped);
        self.node.registry().remove(key);
        if wish.leaving {
            wish.waiting.into_iter().for_each(|reply| reply.send(()));
        }
    }

    /// Refuses children from now on.
    pub(crate) fn close(&self) {
        self.wanted().closing = true;
    }

    pub(crate) fn set_killed(&self, killed: usize) {
        self.killed.store(killed, Ordering::Relaxed);
    }
}

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
        write!(formatter, "Supervisor({})", self.0.key)
    }
}

/// An actor to be, built but not started.
struct Built<E: Entity> {
    seat: Arc<Seat<E>>,
    supervisor: Supervisor,
}

fn build_supervisor(
    node: &Arc<Node>,
    above: Option<&Supervisor>,
    key: Key,
    limits: Limits,
) -> Built<Keyed> {
    let policy = Policy::supervisor(&limits);
    let parent = above.map(|supervisor| supervisor.0.key.clone());
    let probe = Probe::new(key.clone(), parent, node.clock().monotonic_ns());
    let weak = above.map(|supervisor| WeakSupervisor(Arc::downgrade(&supervisor.0)));
    let slot = Arc::new(Slot::new(probe, node.clone(), weak, policy.mailbox_max));
    let desk = Arc::new(Desk {
        key,
        node: node.clone(),
        limits,
        address: Address::of(slot.clone()),
        wanted: Mutex::default(),
        killed: AtomicUsize::new(0),
    });
    let seat = Arc::new(Seat {
        entity: Arc::new(Keyed::new(desk.clone())),
        slot,
        policy,
    });
    Built {
        seat,
        supervisor: Supervisor(desk),
    }
}

impl Supervisor {
    /// Its own key.
    pub fn key(&self) -> &Key {
        &self.0.key
    }

    /// The node it lives in.
    pub fn node(&self) -> &Arc<Node> {
        &self.0.node
    }

    /// How many children it has, in any phase.
    pub fn children(&self) -> usize {
        self.0.wanted().wishes.len()
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
        let built = build_supervisor(&self.0.node, Some(self), key, limits);
        self.adopt(built.seat, None)?;
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
        let parent = parent.unwrap_or_else(|| self.0.key.clone());
        let probe = Probe::new(key, Some(parent), self.0.node.clock().monotonic_ns());
        let weak = WeakSupervisor(Arc::downgrade(&self.0));
        let node = self.0.node.clone();
        let slot = Arc::new(Slot::new(probe, node, Some(weak), policy.mailbox_max));
        let seat = Arc::new(Seat {
            entity: Arc::new(entity),
            slot: slot.clone(),
            policy,
        });
        self.adopt(seat, started)?;
        Ok(Address::of(slot))
    }

    fn adopt<E: Entity>(
        &self,
        seat: Arc<Seat<E>>,
        started: Option<Reply<()>>,
    ) -> Result<(), Refusal> {
        let key = seat.slot.probe.key().clone();
        {
            let mut wanted = self.0.wanted();
            if wanted.closing {
                return Err(Refusal::Stopping(self.0.key.clone()));
            }
            let occupant: Arc<dyn Occupant> = seat.slot.clone();
            if !self.0.node.registry().insert(occupant) {
                return Err(Refusal::Exists(key));
            }
            wanted.started += 1;
            let wish = Wish {
                place: seat,
                order: wanted.started,
                leaving: false,
                waiting: started.into_iter().collect(),
            };
            wanted.wishes.insert(key.clone(), wish);
        }
        self.order(Order::Start(key));
        Ok(())
    }

    /// Sends an order. One that does not arrive is made up for by the next incarnation, which
    /// opens its mailbox before it reads the wanted set.
    fn order(&self, order: Order) {
        let _ = self.0.address.cast_unbounded(order);
    }

    /// Ends a child for good, in order if it can within its policy's time, else by a kill.
    ///
    /// # Errors
    /// [`Refusal::Unknown`] when this supervisor has no such child.
    pub fn stop(&self, key: &Key) -> Result<(), Refusal> {
        self.leave(key, None)
    }

    /// Ends a child for good and waits for it, at most `within`.
    ///
    /// # Errors
    /// As [`Supervisor::stop`]; [`Refusal::Late`] when it has not ended yet, which it still will.
    pub async fn stop_and_wait(&self, key: &Key, within: Duration) -> Result<(), Refusal> {
        let (reply, ended) = Reply::channel();
        self.leave(key, Some(reply))?;
        wait_for(key.clone(), ended, within).await
    }

    fn leave(&self, key: &Key, ended: Option<Reply<()>>) -> Result<(), Refusal> {
        {
            let mut wanted = self.0.wanted();
            let Some(wish) = wanted.wishes.get_mut(key) else {
                return Err(Refusal::Unknown(key.to_string()));
            };
            if !wish.leaving {
                wish.leaving = true;
                // Whoever waited for the start learns that it does not come.
                wish.waiting.clear();
            }
            wish.waiting.extend(ended);
        }
        self.order(Order::Stop(key.clone()));
        Ok(())
    }

    pub(crate) fn retry(&self, key: Key) -> Result<(), Refusal> {
        self.order(Order::Retry(key));
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

/// The top of a node's tree. Nobody starts it again: its end is the end of the node.
#[derive(Debug)]
pub struct Root {
    supervisor: Supervisor,
    cell: ActorCell,
}

impl Root {
    /// Starts the top supervisor of a node, with the key `root`.
    ///
    /// # Errors
    /// [`Refusal::Exists`] when the node has one.
    pub async fn start(node: &Arc<Node>, limits: Limits) -> Result<Self, Refusal> {
        let key = Key::single("root");
        let built = build_supervisor(node, None, key.clone(), limits);
        if !node.registry().insert(built.seat.slot.clone()) {
            return Err(Refusal::Exists(key));
        }
        match built.seat.start(None).await {
            Ok(cell) => Ok(Self {
                supervisor: built.supervisor,
                cell,
            }),
            Err(_killed) => Err(Refusal::Stopping(key)),
        }
    }

    /// The top supervisor.
    pub fn supervisor(&self) -> &Supervisor {
        &self.supervisor
    }

    /// Waits until the tree has ended; the text says why, `None` after an orderly end.
    pub async fn ended(&self) -> Option<String> {
        // Without a bound there is no timeout that could be reported.
        drop(self.cell.wait(None).await);
        let error = self.supervisor.0.probe().last_error();
        error.map(|error| error.text)
    }

    /// Ends the tree in order, within the limits' bound. Returns how many children of the root had
    /// to be killed.
    pub async fn shutdown(&self) -> usize {
        self.cell.stop(None);
        let within = self.supervisor.0.limits.shutdown_within + SHUTDOWN_MARGIN;
        let late = self.cell.wait(Some(within)).await.is_err();
        if late {
            self.cell.kill();
        }
        self.supervisor
            .0
            .node
            .registry()
            .remove(self.supervisor.key());
        self.supervisor.0.killed.load(Ordering::Relaxed) + usize::from(late)
    }
}
