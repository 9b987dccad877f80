//! What outlives the incarnations of one supervisor: who is wanted below it, and their places.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ractor::{Actor, ActorCell, ActorId};
use tokio::sync::Semaphore;

use crate::address::{Address, Slot};
use crate::key::Key;
use crate::keyed::Order;
use crate::node::Node;
use crate::policy::{Limits, Policy};
use crate::probe::{Phase, Probe};
use crate::refusal::Refusal;
use crate::reply::Reply;
use crate::supervised::{Crash, Entity, Supervised};
use crate::task::Task;

/// A running or failed start.
pub(crate) type Start = Pin<Box<dyn Future<Output = Result<ActorCell, Crash>> + Send>>;

/// A child without its types: how to start an incarnation, and what outlives it.
pub(crate) trait Place: Send + Sync {
    fn probe(&self) -> &Probe;
    fn policy(&self) -> &Policy;
    fn start(&self, supervisor: Option<ActorCell>) -> Start;
    fn vacate(&self, ended: ActorId);
    /// The lease that an incarnation holds as long as its state lives.
    fn lease(&self) -> Arc<Semaphore>;
}

/// One child with its types.
pub(crate) struct Seat<E: Entity> {
    entity: Arc<E>,
    slot: Arc<Slot<E::Message>>,
    policy: Policy,
}

impl<E: Entity> Seat<E> {
    pub(crate) fn new(entity: E, slot: Arc<Slot<E::Message>>, policy: Policy) -> Arc<Self> {
        Arc::new(Self {
            entity: Arc::new(entity),
            slot,
            policy,
        })
    }

    pub(crate) fn slot(&self) -> &Arc<Slot<E::Message>> {
        &self.slot
    }
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

    fn lease(&self) -> Arc<Semaphore> {
        self.slot.lease.clone()
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

impl Wish {
    fn leave(self, node: &Node) {
        let probe = self.place.probe();
        probe.set_phase(Phase::Stopped);
        node.registry().remove(probe.key());
        if self.leaving {
            self.waiting.into_iter().for_each(|reply| reply.send(()));
        }
    }
}

#[derive(Default)]
struct Wanted {
    closing: bool,
    started: u64,
    wishes: BTreeMap<Key, Wish>,
}

/// What outlives the incarnations of one supervisor.
pub(crate) struct Desk {
    node: Arc<Node>,
    limits: Limits,
    address: Address<Order>,
    wanted: Mutex<Wanted>,
    killed: AtomicUsize,
}

impl Desk {
    pub(crate) fn new(node: Arc<Node>, limits: Limits, address: Address<Order>) -> Arc<Self> {
        Arc::new(Self {
            node,
            limits,
            address,
            wanted: Mutex::default(),
            killed: AtomicUsize::new(0),
        })
    }

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

    pub(crate) fn key(&self) -> &Key {
        self.probe().key()
    }

    pub(crate) fn children(&self) -> usize {
        self.wanted().wishes.len()
    }

    /// How many children the last shutdown had to kill.
    pub(crate) fn killed(&self) -> usize {
        self.killed.load(Ordering::Relaxed)
    }

    /// Sends an order. One that does not arrive is made up for by the next incarnation, which
    /// opens its mailbox before it reads the wanted set.
    pub(crate) fn order(&self, order: Order) {
        let _ = self.address.cast_unbounded(order);
    }

    /// Enters a child, whose start `waiting` is told of.
    pub(crate) fn adopt<E: Entity>(
        &self,
        seat: Arc<Seat<E>>,
        waiting: Option<Reply<()>>,
    ) -> Result<(), Refusal> {
        let key = seat.slot.probe.key().clone();
        {
            let mut wanted = self.wanted();
            if wanted.closing {
                return Err(Refusal::Stopping(self.key().clone()));
            }
            if !self.node.registry().insert(seat.slot.clone()) {
                return Err(Refusal::Exists(key));
            }
            wanted.started += 1;
            let wish = Wish {
                place: seat,
                order: wanted.started,
                leaving: false,
                waiting: waiting.into_iter().collect(),
            };
            wanted.wishes.insert(key.clone(), wish);
        }
        self.order(Order::Start(key));
        Ok(())
    }

    /// Lets a child go for good; `waiting` is told of its end.
    pub(crate) fn leave(&self, key: &Key, waiting: Option<Reply<()>>) -> Result<(), Refusal> {
        {
            let mut wanted = self.wanted();
            let Some(wish) = wanted.wishes.get_mut(key) else {
                return Err(Refusal::Unknown(key.to_string()));
            };
            if !wish.leaving {
                wish.leaving = true;
                // Whoever waited for the start learns that it does not come.
                wish.waiting.clear();
            }
            wish.waiting.extend(waiting);
        }
        self.order(Order::Stop(key.clone()));
        Ok(())
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

    /// Takes an ended child out of the tree and tells whoever waits. A kill is reported before the
    /// state has been dropped; until then the key stays taken, so that no namesake can overlap.
    pub(crate) fn finish(&self, key: &Key) {
        let Some(wish) = self.wanted().wishes.remove(key) else {
            return;
        };
        let node = self.node.clone();
        let lease = wish.place.lease();
        if lease.try_acquire().is_ok() {
            wish.leave(&node);
            return;
        }
        Task::spawn(async move {
            // Err would say that the lease was closed, which nobody does.
            drop(lease.acquire().await);
            wish.leave(&node);
        })
        .detach();
    }

    /// Refuses children from now on.
    pub(crate) fn close(&self) {
        self.wanted().closing = true;
    }

    pub(crate) fn set_killed(&self, killed: usize) {
        self.killed.store(killed, Ordering::Relaxed);
    }
}
