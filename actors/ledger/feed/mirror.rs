//! A reader's copy of the state, filled by a feed alone.

use std::sync::Arc;

use xce_host::HostRecord;
use xce_model::{JobId, Lsn};
use xce_service::ServiceRecord;

use super::{Change, Portion};
use crate::arrays::{ArrayRecord, ElementCounts};
use crate::view::{Key, View};

/// The state as far as its reader was told, with the tables that are derived from it.
#[derive(Debug, Default)]
pub struct Mirror {
    view: View,
    lsn: Lsn,
    is_whole: bool,
}

impl Mirror {
    /// One that holds nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// One that holds what a view holds, and shares it: the full state of a reader in this process.
    pub fn adopt(view: &View) -> Self {
        // What no feed tells would only keep old parts of the tables alive.
        let view = View {
            operations: Default::default(),
            changes: Default::default(),
            endpoints: Default::default(),
            ..view.clone()
        };
        Self {
            lsn: view.lsn(),
            view,
            is_whole: true,
        }
    }

    /// Position from which the feed goes on; 0 when all of it is needed again.
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// The state at [`Mirror::lsn`]; nothing in the middle of what belongs together.
    pub fn view(&self) -> Option<&View> {
        self.is_whole.then_some(&self.view)
    }

    /// Takes a portion in.
    pub fn take(&mut self, portion: &Portion, changes: impl IntoIterator<Item = Change>) {
        if portion.first {
            self.view = View::default();
        }
        for change in changes {
            self.apply(change);
        }
        self.lsn = portion.lsn;
        self.is_whole = !portion.more;
        if self.is_whole {
            self.view.lsn = portion.lsn;
        }
    }

    /// Nothing that the reader sees has changed up to a position.
    pub fn pass(&mut self, lsn: Lsn) {
        if self.is_whole && lsn > self.lsn {
            self.lsn = lsn;
            self.view.lsn = lsn;
        }
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Job(record) => {
                self.view.set_job(&record);
            }
            Change::Array(record) => self.set_array(&record),
            Change::Host(record) => self.set_host(record),
            Change::Service(record) => self.set_service(record),
            Change::Session(record) => {
                self.view.sessions.insert(record.id, record);
            }
            Change::Policy(record) => {
                self.view.policies.insert(record.key(), record);
            }
            Change::Gone { key, .. } => self.remove(&key),
        }
    }

    /// Its elements with a job of their own are counted here: the reader may not see all of them.
    fn set_array(&mut self, record: &ArrayRecord) {
        let counts = match self.view.arrays.get(&record.number) {
            Some(known) => known.counts,
            None => self.count(record.number),
        };
        let record = ArrayRecord {
            counts,
            ..record.clone()
        };
        self.view.set_array(Arc::new(record));
    }

    fn count(&self, number: u64) -> ElementCounts {
        let mut counts = ElementCounts::default();
        let elements = JobId::element(number, 0)..JobId::single(number);
        for (_, job) in self.view.jobs.range(elements) {
            *counts.slot(job.state) += 1;
        }
        counts
    }

    fn set_host(&mut self, record: Arc<HostRecord>) {
        let known = self
            .view
            .hosts
            .get_key_value(record.inventory.name.as_str());
        let name: Arc<str> = match known {
            Some((name, _)) => Arc::clone(name),
            None => Arc::from(record.inventory.name.as_str()),
        };
        self.view.set_host(&name, &record);
    }

    fn set_service(&mut self, record: Arc<ServiceRecord>) {
        self.view.add_name(&record);
        self.view.services.insert(record.id, record);
    }

    fn remove(&mut self, key: &Key) {
        match key {
            Key::Job(id) => {
                self.view.unset_job(*id);
            }
            Key::Array(number) => {
                self.view.unset_array(*number);
            }
            Key::Host(name) => {
                self.view.unset_host(name);
            }
            Key::Service(id) => {
                if let Some(record) = self.view.services.remove(id) {
                    self.view.drop_name(&record);
                    self.view.endpoints.remove(id);
                }
            }
            Key::Session(id) => {
                self.view.sessions.remove(id);
            }
            Key::Policy(kind, name) => {
                self.view.policies.remove(&(*kind, Arc::clone(name)));
            }
        }
    }
}
