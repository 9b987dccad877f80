//! Tells actors to look when something that concerns them was committed.
//!
//! The ledger hands over the keys it touched, in the WAL's own thread, so nothing here waits. What is
//! told is a level ("look"), never an edge: many changes before an actor looks are one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use xce_ledger::{Key as LedgerKey, View};
use xce_model::{JobId, Lsn, ServiceId};
use xce_replica::JobRecord;
use xce_runtime::{Address, Context, Crash, Entity, Key};

use crate::control::Control;
use crate::reading::services_on;
use crate::{endpoints, host, job, service};

/// Keys that were touched and not yet told; bounded by the number of objects.
#[derive(Debug)]
pub struct Touched {
    keys: Mutex<BTreeSet<LedgerKey>>,
    /// Of the present reign, or of the last one.
    publisher: Mutex<Option<Address<Message>>>,
    lsn: watch::Sender<Lsn>,
    /// When the last change was published here.
    heard: Mutex<Instant>,
}

impl Touched {
    /// Nothing touched, and where the published position is watched.
    pub fn new() -> (Arc<Self>, watch::Receiver<Lsn>) {
        let (lsn, published) = watch::channel(0);
        let touched = Self {
            keys: Mutex::default(),
            publisher: Mutex::default(),
            lsn,
            heard: Mutex::new(Instant::now()),
        };
        (Arc::new(touched), published)
    }

    /// Takes keys in; called by the ledger after each publish.
    pub fn add(&self, view: &View, keys: &[LedgerKey]) {
        let publisher = self
            .publisher
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // A standby has none, and keeps nothing: the first publisher of a reign tells everybody.
        if let Some(publisher) = publisher.as_ref().filter(|_| !keys.is_empty()) {
            let mut all = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
            let told = !all.is_empty();
            all.extend(keys.iter().cloned());
            drop(all);
            if !told {
                // One that is down tells everybody when it starts.
                let _ = publisher.cast(Message::Look);
            }
        }
        drop(publisher);
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.lsn.send_replace(view.lsn());
    }

    /// How long ago the last change was published here, by this machine's monotonic clock.
    pub fn heard_ago(&self) -> Duration {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.elapsed()
    }

    /// Tells this publisher from now on; one of an earlier reign hears nothing more.
    fn tell_from_now_on(&self, publisher: Address<Message>) {
        *self
            .publisher
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(publisher);
    }

    /// The reign is over: nobody is told any more.
    pub fn tell_nobody(&self) {
        *self
            .publisher
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = None;
        drop(self.take());
    }

    fn take(&self) -> BTreeSet<LedgerKey> {
        std::mem::take(&mut *self.keys.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The actor that tells.
pub struct Publisher {
    /// Shared parts.
    pub control: Arc<Control>,
    /// What was touched.
    pub touched: Arc<Touched>,
}

/// What the publisher is told.
pub enum Message {
    /// Some keys were touched.
    Look,
}

impl Entity for Publisher {
    type Message = Message;
    type State = ();
    const KIND: &'static str = "publisher";

    /// A crash may have lost keys that were taken and not told, so everybody looks once.
    async fn recover(&self, context: &Context<Message>) -> Result<(), Crash> {
        // The address first: what is touched before the keys are taken is told here with all else,
        // and what is touched later finds no keys and says so itself.
        self.touched.tell_from_now_on(context.address().clone());
        drop(self.touched.take());
        tell_everybody(&self.control);
        Ok(())
    }

    async fn handle(
        &self,
        _context: &Context<Message>,
        message: Message,
        _state: &mut (),
    ) -> Result<(), Crash> {
        match message {
            Message::Look => {
                let keys = self.touched.take();
                tell(&self.control, keys);
            }
        }
        Ok(())
    }
}

/// Tells everybody to look: at the start of a primary, and after the publisher's own crash.
fn tell_everybody(control: &Arc<Control>) {
    let view = control.view();
    for host in view.hosts().values() {
        // At the end of the node none is wanted.
        drop(host::ensure(control, &host.inventory.name));
    }
    for service in view.services().values() {
        service::look(control, service.id);
        endpoints::look(control, service.id);
    }
    let mut orders = Orders::new();
    for job in view.jobs().values().filter(|job| job.state.holds_host()) {
        job::ensure(control, job.id);
        note_order(&mut orders, job);
    }
    give(control, orders);
    control.tell_scheduler();
}

fn tell(control: &Arc<Control>, keys: BTreeSet<LedgerKey>) {
    let view = control.view();
    let mut services: BTreeSet<ServiceId> = BTreeSet::new();
    let mut orders = Orders::new();
    let mut schedule = false;
    for key in keys {
        match key {
            LedgerKey::Job(id) => {
                schedule = true;
                let Some(record) = view.job(id) else {
                    job::release(control, id);
                    continue;
                };
                if let Some(part) = record.service {
                    services.insert(part.service);
                }
                if record.state.holds_host() {
                    job::ensure(control, id);
                } else {
                    job::release(control, id);
                }
                note_order(&mut orders, record);
            }
            LedgerKey::Array(_) => schedule = true,
            LedgerKey::Host(name) => {
                schedule = true;
                match view.host(&name) {
                    Some(_) => drop(host::ensure(control, &name)),
                    None => host::release(control, &name),
                }
                services.extend(services_on(&view, &name));
            }
            LedgerKey::Service(id) => {
                schedule = true;
                services.insert(id);
            }
            LedgerKey::Session(_) => {}
            // Another priority may change what is placed next.
            LedgerKey::Policy(..) => schedule = true,
        }
    }
    // Readers first: whoever sends work waits for these.
    for id in &services {
        endpoints::look(control, *id);
    }
    give(control, orders);
    for id in services {
        service::look(control, id);
    }
    if schedule {
        control.tell_scheduler();
    }
}

/// Jobs that workers have to be told of, by host.
type Orders = BTreeMap<Arc<str>, Vec<JobId>>;

fn note_order(orders: &mut Orders, job: &JobRecord) {
    if let Some(host) = &job.host
        && job::needs_order(job)
    {
        orders.entry(Arc::clone(host)).or_default().push(job.id);
    }
}

fn give(control: &Control, orders: Orders) {
    for (host, jobs) in orders {
        host::order(control, &host, jobs);
    }
}

/// Its key.
pub fn key() -> Key {
    Key::single("publisher")
}
