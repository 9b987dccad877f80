//! A family of equal entities, spread over shard supervisors.
//!
//! One global lock guards all links, and a supervisor's end walks its children on a worker thread.
//! So no shard has more than 2 000 children, and shards are made as they are needed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::address::Address;
use crate::key::Key;
use crate::policy::{Limits, Policy, StopOrder};
use crate::refusal::Refusal;
use crate::supervise::Supervisor;
use crate::supervised::Entity;

/// Most children of one shard.
///
/// Source: foundations, section 1: a parent's death stays below a few milliseconds up to this.
pub const SHARD_CHILDREN_MAX: usize = 2_000;

/// Entities of one kind below as many shard supervisors as they need.
#[derive(Debug, Clone)]
pub struct Shards(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: &'static str,
    family: Supervisor,
    policy: Policy,
    limits: Limits,
    shards: Mutex<List>,
}

#[derive(Debug, Default)]
struct List {
    all: Vec<Supervisor>,
    /// The one that had room last.
    last: usize,
}

impl Shards {
    /// A family named `name` below a supervisor. Shards appear as `shard/<name>-<number>` below
    /// `shards/<name>`; `policy` is that of the entities.
    ///
    /// # Errors
    /// [`Refusal::Exists`] when the node has a family of this name, [`Refusal::Stopping`] at the
    /// end.
    pub fn new(above: &Supervisor, name: &'static str, policy: Policy) -> Result<Self, Refusal> {
        let limits = Limits::SHARD;
        let family_limits = Limits {
            stop_order: StopOrder::Together,
            shutdown_within: limits.shutdown_within + Duration::from_secs(2),
            ..Limits::ROOT
        };
        let family = above.spawn_supervisor(Key::new("shards", name), family_limits)?;
        Ok(Self(Arc::new(Inner {
            name,
            family,
            policy,
            limits,
            shards: Mutex::default(),
        })))
    }

    /// Adds an entity below a shard with room; otherwise as [`Supervisor::spawn`].
    ///
    /// # Errors
    /// As [`Supervisor::spawn`].
    pub fn spawn<E: Entity>(
        &self,
        key: Key,
        parent: Option<Key>,
        entity: E,
    ) -> Result<Address<E::Message>, Refusal> {
        let mut shards = self.lock();
        let shard = self.with_room(&mut shards)?;
        shard.spawn(key, parent, entity, self.0.policy)
    }

    /// The address of an entity, which is added where there is none.
    ///
    /// # Errors
    /// As [`Supervisor::spawn`]; [`Refusal::Unknown`] where one went away just now.
    pub fn ensure<E: Entity>(
        &self,
        key: Key,
        entity: impl FnOnce() -> E,
    ) -> Result<Address<E::Message>, Refusal> {
        if let Some(address) = self.address(&key) {
            return Ok(address);
        }
        match self.spawn(key.clone(), None, entity()) {
            Err(Refusal::Exists(_)) => self
                .address(&key)
                .ok_or_else(|| Refusal::Unknown(key.to_string())),
            spawned => spawned,
        }
    }

    /// Adds an entity and waits until its mailbox is open, as [`Supervisor::spawn_started`].
    ///
    /// # Errors
    /// As [`Supervisor::spawn_started`].
    pub async fn spawn_started<E: Entity>(
        &self,
        key: Key,
        parent: Option<Key>,
        entity: E,
        within: Duration,
    ) -> Result<Address<E::Message>, Refusal> {
        let started = {
            let mut shards = self.lock();
            let shard = self.with_room(&mut shards)?;
            shard.place_started(key, parent, entity, self.0.policy)?
        };
        started.wait(within).await
    }

    /// Ends an entity for good, as [`Supervisor::stop`].
    ///
    /// # Errors
    /// [`Refusal::Unknown`] without such an entity.
    pub fn stop(&self, key: &Key) -> Result<(), Refusal> {
        self.supervisor_of(key)?.stop(key)
    }

    /// Ends an entity for good and waits for it, as [`Supervisor::stop_and_wait`].
    ///
    /// # Errors
    /// As [`Supervisor::stop_and_wait`].
    pub async fn stop_and_wait(&self, key: &Key, within: Duration) -> Result<(), Refusal> {
        self.supervisor_of(key)?.stop_and_wait(key, within).await
    }

    /// The address of an entity; `None` when there is none or it takes other messages.
    pub fn address<M: Send + 'static>(&self, key: &Key) -> Option<Address<M>> {
        self.0.family.node().address(key)
    }

    /// How many entities the family has, in any phase.
    pub fn children(&self) -> usize {
        self.lock().all.iter().map(Supervisor::children).sum()
    }

    /// How many shards there are.
    pub fn shards(&self) -> usize {
        self.lock().all.len()
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        self.0.shards.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs under the lock of the list, so that nobody else fills the room it finds. The search
    /// begins at the shard that had room last, so that it is short while a family grows.
    fn with_room<'a>(&self, list: &'a mut List) -> Result<&'a Supervisor, Refusal> {
        let count = list.all.len();
        let room = (0..count)
            .map(|step| (list.last + step) % count)
            .find(|index| list.all[*index].children() < SHARD_CHILDREN_MAX);
        list.last = match room {
            Some(index) => index,
            None => {
                let key = Key::new("shard", format!("{}-{count}", self.0.name));
                list.all
                    .push(self.0.family.spawn_supervisor(key, self.0.limits)?);
                count
            }
        };
        Ok(&list.all[list.last])
    }

    fn supervisor_of(&self, key: &Key) -> Result<Supervisor, Refusal> {
        let occupant = self.0.family.node().registry().get(key);
        occupant
            .and_then(|occupant| occupant.supervisor().and_then(|weak| weak.upgrade()))
            .ok_or_else(|| Refusal::Unknown(key.to_string()))
    }
}
