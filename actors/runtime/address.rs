//! An address that survives restarts, counts what waits, and refuses what is too much.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use ractor::{ActorId, ActorRef};
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, Semaphore, oneshot};

use crate::inspect::View;
use crate::node::Node;
use crate::probe::Probe;
use crate::refusal::{CallError, NotDelivered, Unknown};
use crate::reply::Reply;
use crate::supervise::WeakSupervisor;

/// What a mailbox holds: a message of the entity, or a question that the wrapper answers.
pub(crate) enum Letter<M> {
    Message(M),
    Inspect(oneshot::Sender<View>),
}

/// One queued letter. Dropping it, handled or not, lowers the depth of the mailbox.
pub(crate) struct Envelope<M: Send + 'static> {
    letter: Letter<M>,
    counted: Counted<M>,
}

struct Counted<M: Send + 'static>(Arc<Slot<M>>);

impl<M: Send + 'static> Drop for Counted<M> {
    fn drop(&mut self) {
        self.0.probe.lower_depth();
    }
}

impl<M: Send + 'static> Envelope<M> {
    /// Takes the letter out; it no longer waits.
    pub(crate) fn open(self) -> Letter<M> {
        drop(self.counted);
        self.letter
    }
}

/// What belongs to an entity and outlives its incarnations.
pub(crate) struct Slot<M: Send + 'static> {
    pub(crate) probe: Probe,
    pub(crate) node: Arc<Node>,
    pub(crate) supervisor: Option<WeakSupervisor>,
    /// One permit: the right to be the incarnation that acts.
    pub(crate) lease: Arc<Semaphore>,
    mailbox_max: u32,
    current: ArcSwapOption<ActorRef<Envelope<M>>>,
    /// Told when an incarnation begins to receive, and when the place is given up.
    changed: Notify,
    last_view: Mutex<Option<View>>,
}

impl<M: Send + 'static> Slot<M> {
    pub(crate) fn new(
        probe: Probe,
        node: Arc<Node>,
        supervisor: Option<WeakSupervisor>,
        mailbox_max: u32,
    ) -> Self {
        Self {
            probe,
            node,
            supervisor,
            lease: Arc::new(Semaphore::new(1)),
            mailbox_max,
            current: ArcSwapOption::empty(),
            changed: Notify::new(),
            last_view: Mutex::new(None),
        }
    }

    /// Makes an incarnation the one that receives.
    pub(crate) fn occupy(&self, incarnation: ActorRef<Envelope<M>>) {
        self.current.store(Some(Arc::new(incarnation)));
        self.changed.notify_waiters();
    }

    /// Forgets an incarnation that has ended, unless a newer one receives already.
    pub(crate) fn vacate(&self, ended: ActorId) {
        let current = self.current.load();
        if current
            .as_ref()
            .is_some_and(|incarnation| incarnation.get_id() == ended)
        {
            self.current.compare_and_swap(&current, None);
        }
    }

    pub(crate) fn remember(&self, view: View) {
        *self
            .last_view
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(view);
    }
}

/// A place in the registry, without the type of its messages.
pub(crate) trait Occupant: Send + Sync + 'static {
    fn probe(&self) -> &Probe;
    fn supervisor(&self) -> Option<&WeakSupervisor>;
    /// Kills the live incarnation; says whether there was one.
    fn kill(&self) -> bool;
    fn ask_view(self: Arc<Self>, answer: oneshot::Sender<View>) -> Result<(), NotDelivered>;
    fn last_view(&self) -> Option<View>;
    /// Tells whoever waits for an incarnation that none will come.
    fn give_up(&self);
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl<M: Send + 'static> Occupant for Slot<M> {
    fn probe(&self) -> &Probe {
        &self.probe
    }

    fn supervisor(&self) -> Option<&WeakSupervisor> {
        self.supervisor.as_ref()
    }

    fn kill(&self) -> bool {
        match self.current.load().as_ref() {
            Some(incarnation) => {
                incarnation.kill();
                true
            }
            None => false,
        }
    }

    fn ask_view(self: Arc<Self>, answer: oneshot::Sender<View>) -> Result<(), NotDelivered> {
        Address(self).post(Letter::Inspect(answer), u64::MAX)
    }

    fn last_view(&self) -> Option<View> {
        self.last_view
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn give_up(&self) {
        self.changed.notify_waiters();
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

/// Where messages to one entity go, whichever incarnation lives.
pub struct Address<M: Send + 'static>(Arc<Slot<M>>);

impl<M: Send + 'static> Clone for Address<M> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<M: Send + 'static> fmt::Debug for Address<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Address({})", self.0.probe.key())
    }
}

impl<M: Send + 'static> Address<M> {
    pub(crate) fn of(slot: Arc<Slot<M>>) -> Self {
        Self(slot)
    }

    /// The entity's counters.
    pub fn probe(&self) -> &Probe {
        &self.0.probe
    }

    /// Ends when an incarnation begins to receive, or when the entity has gone for good, after this
    /// was called. Made before a message is sent, it tells when one that was [`NotDelivered::Down`]
    /// is worth sending again, to an address that is looked up again.
    pub fn change(&self) -> Notified<'_> {
        self.0.changed.notified()
    }

    /// Sends a message without an answer.
    ///
    /// `Ok` means delivered to a mailbox; a crash may still lose it, so casts carry levels, never
    /// edges.
    ///
    /// # Errors
    /// [`NotDelivered`] when nobody lives there or the mailbox is full; the message is dropped.
    pub fn cast(&self, message: M) -> Result<(), NotDelivered> {
        self.post(Letter::Message(message), u64::from(self.0.mailbox_max))
    }

    /// Sends a message past the bound: for timers and orders whose number is bounded otherwise.
    pub(crate) fn cast_unbounded(&self, message: M) -> Result<(), NotDelivered> {
        self.post(Letter::Message(message), u64::MAX)
    }

    /// Sends a request and waits for its answer, at most `within`.
    ///
    /// # Errors
    /// [`CallError::NotDelivered`]: it had no effect. [`CallError::Unknown`]: it may have had one.
    pub async fn call<R: Send + 'static>(
        &self,
        request: impl FnOnce(Reply<R>) -> M,
        within: Duration,
    ) -> Result<R, CallError> {
        let (reply, answer) = Reply::channel();
        self.cast(request(reply))?;
        match tokio::time::timeout(within, answer).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(_dropped)) => Err(Unknown::Ended.into()),
            Err(_elapsed) => Err(Unknown::Late.into()),
        }
    }

    fn post(&self, letter: Letter<M>, waiting_max: u64) -> Result<(), NotDelivered> {
        let current = self.0.current.load();
        let Some(incarnation) = current.as_ref() else {
            return Err(NotDelivered::Down);
        };
        let waiting = self.0.probe.raise_depth();
        let counted = Counted(self.0.clone());
        if waiting >= waiting_max {
            return Err(NotDelivered::Overloaded);
        }
        // Err hands the envelope back: nobody has received it.
        incarnation
            .send_message(Envelope { letter, counted })
            .map_err(|_returned| NotDelivered::Down)
    }
}
