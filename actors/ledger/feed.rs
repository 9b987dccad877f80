//! State feeds: what one reader may see of the committed state, as an ordered stream of changes.
//!
//! ```text
//!   view ─► Cursor ─► changes of a portion ─► rows (bytes) or the records themselves ─► Mirror
//!            │ after n: what changed since, each object once, in the order of the last changes
//!            └ history too short: everything as of m in portions, then on from m
//! ```
//!
//! A cursor holds a position and, while it hands out a full state, the view that this is of; never a
//! queue. A reader that is slow is therefore coalesced by itself: the next portion is taken from the
//! newest view. Whichever way it is served, a reader that has taken the portions up to a whole one
//! holds the state at that position: the equality that `tests/feeds.rs` shows on random histories.
//!
//! Two things are no part of a feed, because they have no place in the change index: how far a
//! worker's facts are committed, and the generations of endpoints.

mod cursor;
mod delta;
mod events;
mod full;
mod mirror;
mod rows;

pub use cursor::{Cursor, Portion};
pub use events::{EventLog, Events, Gap};
pub use mirror::Mirror;
#[cfg(test)]
pub(crate) use rows::{FORGET, ForgetV1, GONE, GoneKeyV1, GoneV1};
pub use rows::{RowReader, RowWriter};

use std::sync::Arc;

use xce_host::HostRecord;
use xce_model::{JobState, Lsn};
use xce_profile::PolicyKind;
use xce_replica::JobRecord;
use xce_service::ServiceRecord;

use crate::arrays::ArrayRecord;
use crate::policies::PolicyRecord;
use crate::sessions::SessionRecord;
use crate::view::{Key, View};

/// What a reader may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// What placement reads: jobs that wait or hold a host, arrays that have not ended, hosts,
    /// services, queues.
    Scheduler,
    /// Everything.
    All,
    /// Hosts, and the jobs, arrays and services of one project.
    Project(Arc<str>),
}

/// What became of one object: its record as of its last change, or that it is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A job.
    Job(Arc<JobRecord>),
    /// An array.
    Array(Arc<ArrayRecord>),
    /// A host.
    Host(Arc<HostRecord>),
    /// A service.
    Service(Arc<ServiceRecord>),
    /// A session.
    Session(Arc<SessionRecord>),
    /// A profile, a project or a queue.
    Policy(Arc<PolicyRecord>),
    /// It does not exist any more, or the reader does not see it any more; it may never have known it.
    Gone {
        /// What.
        key: Key,
        /// Position at which it went.
        lsn: Lsn,
    },
}

impl Change {
    /// Position of the change.
    pub fn lsn(&self) -> Lsn {
        match self {
            Self::Job(record) => record.changed,
            Self::Array(record) => record.changed,
            Self::Host(record) => record.changed,
            Self::Service(record) => record.changed,
            Self::Session(record) => record.changed,
            Self::Policy(record) => record.changed,
            Self::Gone { lsn, .. } => *lsn,
        }
    }

    /// Whose change it is.
    pub fn key(&self) -> Key {
        match self {
            Self::Job(record) => Key::Job(record.id),
            Self::Array(record) => Key::Array(record.number),
            Self::Host(record) => Key::Host(Arc::from(record.inventory.name.as_str())),
            Self::Service(record) => Key::Service(record.id),
            Self::Session(record) => Key::Session(record.id),
            Self::Policy(record) => Key::Policy(record.kind, Arc::from(record.name.as_str())),
            Self::Gone { key, .. } => key.clone(),
        }
    }
}

/// Whether a reader sees an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sight {
    /// It sees it.
    Seen,
    /// It does not, and never did.
    Never,
    /// It does not, and may have seen it before.
    NoMore,
}

impl Scope {
    /// What of an object is told to the reader; nothing where it never sees it.
    fn change(&self, view: &View, key: &Key, lsn: Lsn) -> Option<Change> {
        let gone = || {
            Some(Change::Gone {
                key: key.clone(),
                lsn,
            })
        };
        let Some(change) = current(view, key) else {
            return gone();
        };
        match self.sight(&change) {
            Sight::Seen => Some(change),
            Sight::Never => None,
            Sight::NoMore => gone(),
        }
    }

    fn sight(&self, change: &Change) -> Sight {
        let seen = |seen| if seen { Sight::Seen } else { Sight::Never };
        match self {
            Self::All => Sight::Seen,
            Self::Project(project) => match change {
                Change::Job(job) => seen(*job.spec.project == **project),
                Change::Array(array) => seen(*array.spec.project == **project),
                Change::Service(service) => seen(*service.project == **project),
                Change::Host(_) | Change::Gone { .. } => Sight::Seen,
                Change::Session(_) | Change::Policy(_) => Sight::Never,
            },
            Self::Scheduler => match change {
                Change::Job(job) => in_plan(job.state == JobState::Pend || job.state.holds_host()),
                Change::Array(array) => in_plan(array.ended_at.is_none()),
                Change::Policy(policy) => seen(policy.kind == PolicyKind::Queue),
                Change::Host(_) | Change::Service(_) | Change::Gone { .. } => Sight::Seen,
                Change::Session(_) => Sight::Never,
            },
        }
    }

    /// Whether objects of the kind of a key are ever told.
    fn has(&self, key: &Key) -> bool {
        match (self, key) {
            (Self::All, _) => true,
            (_, Key::Job(_) | Key::Array(_) | Key::Host(_) | Key::Service(_)) => true,
            (Self::Scheduler, Key::Policy(..)) => true,
            (Self::Scheduler | Self::Project(_), Key::Session(_)) => false,
            (Self::Project(_), Key::Policy(..)) => false,
        }
    }
}

fn in_plan(is: bool) -> Sight {
    if is { Sight::Seen } else { Sight::NoMore }
}

/// The record of an object now.
fn current(view: &View, key: &Key) -> Option<Change> {
    Some(match key {
        Key::Job(id) => Change::Job(view.jobs.get(id)?.clone()),
        Key::Array(number) => Change::Array(view.arrays.get(number)?.clone()),
        Key::Host(name) => Change::Host(view.hosts.get(name)?.clone()),
        Key::Service(id) => Change::Service(view.services.get(id)?.clone()),
        Key::Session(id) => Change::Session(view.sessions.get(id)?.clone()),
        Key::Policy(kind, name) => {
            Change::Policy(view.policies.get(&(*kind, name.clone()))?.clone())
        }
    })
}
