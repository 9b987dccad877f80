//! Tells actors to look when something that concerns them was committed, in the order of the shell.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use xce_deciding::reading::services_on;
use xce_ledger::Key;
use xce_model::{JobId, JobState, ServiceId};
use xce_replica::JobRecord;

use super::{ActorKey, HostActor, Life, ServiceActor};
use crate::world::World;

#[derive(Debug, Default)]
pub struct PublisherActor {
    pub life: Life,
    pub touched: BTreeSet<Key>,
}

impl PublisherActor {
    pub fn forget(&mut self) {
        self.touched.clear();
    }
}

/// Jobs that workers have to be told of, by host.
type Orders = BTreeMap<Arc<str>, Vec<JobId>>;

fn note_order(orders: &mut Orders, job: &JobRecord) {
    if let Some(host) = &job.host
        && (matches!(job.state, JobState::Start | JobState::Stopping)
            || job.open_permit().is_some())
    {
        orders.entry(Arc::clone(host)).or_default().push(job.id);
    }
}

impl World {
    pub fn place_of(&self, host: &str) -> Option<usize> {
        self.machines
            .iter()
            .position(|machine| *machine.name == *host)
    }

    pub fn publisher_acts(&mut self) {
        let keys = std::mem::take(&mut self.controller.publisher.touched);
        let view = self.view();
        let mut services: BTreeSet<ServiceId> = BTreeSet::new();
        let mut orders = Orders::new();
        for key in keys {
            if let Key::Job(id) = key {
                let Some(record) = view.job(id) else {
                    continue;
                };
                services.extend(record.service.map(|part| part.service));
                note_order(&mut orders, record);
            } else if let Key::Host(name) = key {
                self.ensure_host(&name);
                services.extend(services_on(&view, &name));
            } else if let Key::Service(id) = key {
                services.insert(id);
            }
        }
        self.give_orders(orders);
        for id in services {
            self.look(id);
        }
        self.tell_scheduler();
    }

    /// At the start of a controller, and after the publisher's own death.
    pub fn tell_everybody(&mut self) {
        let view = self.view();
        for name in view.hosts().keys() {
            self.ensure_host(name);
        }
        for id in view.services().keys() {
            self.look(*id);
        }
        let mut orders = Orders::new();
        for job in view.jobs().values().filter(|job| job.state.holds_host()) {
            note_order(&mut orders, job);
        }
        self.give_orders(orders);
        self.tell_scheduler();
    }

    fn give_orders(&mut self, orders: Orders) {
        for (host, jobs) in orders {
            if let Some(place) = self.place_of(&host) {
                self.order_host(place, jobs);
            }
        }
    }

    pub fn tell_scheduler(&mut self) {
        self.controller.scheduler.told = true;
        self.wake(&ActorKey::Scheduler);
    }

    pub fn ensure_host(&mut self, name: &str) {
        let Some(place) = self.place_of(name) else {
            return;
        };
        if self.controller.hosts.contains_key(&place) {
            return;
        }
        let life = self.new_life();
        self.controller.hosts.insert(place, HostActor::new(life));
        self.host_recovers(place);
        self.wake(&ActorKey::Host(place));
    }

    /// Tells the actor of a service to look; it is started where need be, and let go when the service
    /// is deleted.
    pub fn look(&mut self, id: ServiceId) {
        if self.view().service(id).is_none() {
            if let Some(mut actor) = self.controller.services.remove(&id) {
                self.answers_unknown(actor.forget());
            }
            return;
        }
        if !self.controller.services.contains_key(&id) {
            let life = self.new_life();
            self.controller.services.insert(id, ServiceActor::new(life));
        }
        if let Some(actor) = self.controller.services.get_mut(&id) {
            actor.told = true;
        }
        self.wake(&ActorKey::Service(id));
    }
}
