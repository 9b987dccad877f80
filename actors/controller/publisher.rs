//! Tells actors to look when something that concerns them was committed.
//!
//! The ledger hands over the keys it touched, in the WAL's own thread, so nothing here waits. What is
//! told is a level ("look"), never an edge: many changes before an actor looks are one.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, watch};
use xce_ledger::{Key as LedgerKey, View};
use xce_model::{JobId, Lsn, ServiceId};
use xce_runtime::{Context, Crash, Entity, Key, Policy, Restart, Task};

use crate::control::Control;
use crate::reading::services_on;
use crate::{host, job, service};

/// Keys that were touched and not yet told; bounded by the number of objects.
#[derive(Debug)]
pub struct Touched {
    keys: Mutex<BTreeSet<LedgerKey>>,
    ready: Notify,
    lsn: watch::Sender<Lsn>,
}

impl Touched {
    /// Nothing touched, and where the published position is watched.
    pub fn new() -> (Arc<Self>, watch::Receiver<Lsn>) {
        let (lsn, published) = watch::channel(0);
        let touched = Self {
            keys: Mutex::default(),
            ready: Notify::new(),
            lsn,
        };
        (Arc::new(touched), published)
    }

    /// Takes keys in; called by the ledger after each publish.
    pub fn add(&self, view: &View, keys: &[LedgerKey]) {
        if !keys.is_empty() {
            let mut all = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
            all.extend(keys.iter().cloned());
            drop(all);
            self.ready.notify_one();
        }
        self.lsn.send_replace(view.lsn());
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
    type State = Task;
    const KIND: &'static str = "publisher";

    /// A crash may have lost keys that were taken and not told, so everybody looks once.
    async fn recover(&self, context: &Context<Message>) -> Result<Task, Crash> {
        tell_everybody(&self.control);
        let touched = Arc::clone(&self.touched);
        let address = context.address().clone();
        Ok(Task::spawn(async move {
            loop {
                touched.ready.notified().await;
                // A full mailbox holds a look already; one that is down looks when it starts.
                let _ = address.cast(Message::Look);
            }
        }))
    }

    async fn handle(
        &self,
        _context: &Context<Message>,
        message: Message,
        _state: &mut Task,
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
        host::ensure(control, &host.inventory.name);
    }
    for service in view.services().values() {
        service::look(control, service.id);
    }
    for job in view.jobs().values().filter(|job| job.state.holds_host()) {
        job::ensure(control, job.id);
    }
    control.tell_scheduler();
}

fn tell(control: &Arc<Control>, keys: BTreeSet<LedgerKey>) {
    let view = control.view();
    let mut services: BTreeSet<ServiceId> = BTreeSet::new();
    let mut orders: std::collections::BTreeMap<Arc<str>, Vec<JobId>> =
        std::collections::BTreeMap::new();
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
                if let Some(host) = &record.host
                    && job::needs_order(record)
                {
                    orders.entry(Arc::clone(host)).or_default().push(id);
                }
            }
            LedgerKey::Array(_) => schedule = true,
            LedgerKey::Host(name) => {
                schedule = true;
                match view.host(&name) {
                    Some(_) => host::ensure(control, &name),
                    None => host::release(control, &name),
                }
                services.extend(services_on(&view, &name));
            }
            LedgerKey::Service(id) => {
                schedule = true;
                services.insert(id);
            }
            LedgerKey::Session(_) => {}
        }
    }
    for (host, jobs) in orders {
        host::order(control, &host, jobs);
    }
    for id in services {
        service::look(control, id);
    }
    if schedule {
        control.tell_scheduler();
    }
}

/// How the publisher is supervised.
pub const POLICY: Policy = Policy {
    restart: Restart::Always,
    ..Policy::ENTITY
};

/// Its key.
pub fn key() -> Key {
    Key::single("publisher")
}
