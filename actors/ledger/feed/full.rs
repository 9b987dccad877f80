//! The whole state of one view, object by object in the order of the keys.

use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdMap;
use xce_model::{JobId, ServiceId, SessionId};

use super::{Change, Scope, Sight};
use crate::policies::PolicyKey;
use crate::view::{Key, View};

/// Where to go on in each table; nothing in one that is told.
struct Starts {
    jobs: Option<Bound<JobId>>,
    arrays: Option<Bound<u64>>,
    hosts: Option<Bound<Arc<str>>>,
    services: Option<Bound<ServiceId>>,
    sessions: Option<Bound<SessionId>>,
    policies: Option<Bound<PolicyKey>>,
}

/// Tells objects behind a key; the last one told, where there may be more behind it.
pub(super) fn tell(
    view: &View,
    scope: &Scope,
    after: Option<&Key>,
    take: &mut dyn FnMut(Change) -> bool,
) -> Option<Key> {
    let starts = Starts::behind(after);
    let mut teller = Teller { scope, take };
    teller
        .table(&view.jobs, starts.jobs, Change::Job)
        .or_else(|| teller.table(&view.arrays, starts.arrays, Change::Array))
        .or_else(|| teller.table(&view.hosts, starts.hosts, Change::Host))
        .or_else(|| teller.table(&view.services, starts.services, Change::Service))
        .or_else(|| teller.table(&view.sessions, starts.sessions, Change::Session))
        .or_else(|| teller.table(&view.policies, starts.policies, Change::Policy))
}

struct Teller<'a> {
    scope: &'a Scope,
    take: &'a mut dyn FnMut(Change) -> bool,
}

impl Teller<'_> {
    fn table<Id: Ord + Clone, Record: Clone>(
        &mut self,
        table: &OrdMap<Id, Record>,
        start: Option<Bound<Id>>,
        change: fn(Record) -> Change,
    ) -> Option<Key> {
        for (_, record) in table.range((start?, Bound::Unbounded)) {
            let change = change(record.clone());
            if self.scope.sight(&change) != Sight::Seen {
                continue;
            }
            let key = change.key();
            if !(self.take)(change) {
                return Some(key);
            }
        }
        None
    }
}

impl Starts {
    /// Keys of the kinds stand in this order.
    fn behind(key: Option<&Key>) -> Self {
        let all = Self {
            jobs: Some(Bound::Unbounded),
            arrays: Some(Bound::Unbounded),
            hosts: Some(Bound::Unbounded),
            services: Some(Bound::Unbounded),
            sessions: Some(Bound::Unbounded),
            policies: Some(Bound::Unbounded),
        };
        let Some(key) = key else { return all };
        let after_jobs = Self { jobs: None, ..all };
        match key {
            Key::Job(id) => Self {
                jobs: Some(Bound::Excluded(*id)),
                ..after_jobs
            },
            Key::Array(number) => Self {
                arrays: Some(Bound::Excluded(*number)),
                ..after_jobs
            },
            Key::Host(name) => Self {
                arrays: None,
                hosts: Some(Bound::Excluded(Arc::clone(name))),
                ..after_jobs
            },
            Key::Service(id) => Self {
                arrays: None,
                hosts: None,
                services: Some(Bound::Excluded(*id)),
                ..after_jobs
            },
            Key::Session(id) => Self {
                arrays: None,
                hosts: None,
                services: None,
                sessions: Some(Bound::Excluded(*id)),
                ..after_jobs
            },
            Key::Policy(kind, name) => Self {
                arrays: None,
                hosts: None,
                services: None,
                sessions: None,
                policies: Some(Bound::Excluded((*kind, Arc::clone(name)))),
                ..after_jobs
            },
        }
    }
}
