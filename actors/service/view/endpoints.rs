//! Where clients reach a service: the set at one generation, and what differs between two of them.
//!
//! A replica that is ready serves. One that was ready when its host was last heard of may still: it is
//! `suspect`, and whoever balances load prefers the others.

use std::collections::BTreeMap;

use xce_host::HostLife;
use xce_model::{JobId, JobState, Lsn};
use xce_replica::JobRecord;

use super::{EndpointState, EndpointView};

/// State of a replica's endpoints; nothing while it takes no work. A life that is absent means that the
/// host was removed.
pub fn endpoint_state(job: &JobRecord, life: Option<HostLife>) -> Option<EndpointState> {
    if job.ready_since.is_none() || job.state != JobState::Run {
        return None;
    }
    match life {
        Some(HostLife::Up) => Some(EndpointState::Ready),
        Some(HostLife::Suspect | HostLife::Away) => Some(EndpointState::Suspect),
        Some(HostLife::Lost) | None => None,
    }
}

/// One endpoint for each port of a replica that is in a state, at the address of its host.
pub fn endpoints_of<'a>(
    job: &'a JobRecord,
    state: EndpointState,
    address: &'a str,
) -> impl Iterator<Item = EndpointView> + 'a {
    let (version, replica) = job
        .service
        .map_or((0, 0), |part| (part.version, part.index));
    job.ports.iter().map(move |(name, port)| EndpointView {
        name: name.clone(),
        address: address.to_owned(),
        port: *port,
        replica,
        job: job.id,
        state,
        version,
        host: job.host.as_deref().unwrap_or_default().to_owned(),
    })
}

/// The endpoints of a service at one generation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EndpointSet {
    /// Position at which the set became as it is; rises with every change, also over a restart of the
    /// controller.
    pub generation: Lsn,
    rows: BTreeMap<EndpointKey, EndpointView>,
}

/// Names an endpoint within a service: the replica's job and the port's name.
pub type EndpointKey = (JobId, String);

/// What makes one set of endpoints into a later one; goes over the wire.
#[derive(
    Debug, Clone, PartialEq, Eq, Default, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize,
)]
pub struct EndpointsChange {
    /// Generation of the set that comes out.
    pub generation: Lsn,
    /// Whether what is not named here is gone.
    pub full: bool,
    /// Whether more of the same generation follows.
    pub more: bool,
    /// Whether the service is gone, and nothing follows.
    pub deleted: bool,
    /// Endpoints that are new or other than before.
    pub changed: Vec<EndpointView>,
    /// Endpoints that are gone.
    pub gone: Vec<EndpointKey>,
}

/// Rows of one change. Source: derived; some 150 bytes a row, far below one frame.
pub const CHANGE_ROWS_MAX: usize = 10_000;

impl EndpointSet {
    /// A set of a generation.
    pub fn new(generation: Lsn, rows: impl IntoIterator<Item = EndpointView>) -> Self {
        let rows = rows.into_iter().map(|row| (key_of(&row), row)).collect();
        Self { generation, rows }
    }

    /// The endpoints, by job and name of the port.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &EndpointView> {
        self.rows.values()
    }

    /// Whether a replica is in it.
    pub fn has(&self, job: JobId) -> bool {
        let first = (job, String::new());
        self.rows
            .range(first..)
            .next()
            .is_some_and(|((found, _), _)| *found == job)
    }

    /// What makes `before` into this set, in parts of bounded size; all of it where there is none.
    pub fn since(&self, before: Option<&Self>) -> Vec<EndpointsChange> {
        let known = |key: &EndpointKey| before.and_then(|before| before.rows.get(key));
        let mut changed: Vec<EndpointView> = self
            .rows
            .iter()
            .filter(|(key, row)| known(key) != Some(row))
            .map(|(_, row)| row.clone())
            .collect();
        let mut gone: Vec<EndpointKey> = before
            .into_iter()
            .flat_map(|before| before.rows.keys())
            .filter(|key| !self.rows.contains_key(*key))
            .cloned()
            .collect();
        let mut parts = Vec::new();
        loop {
            let rest = changed.split_off(changed.len().min(CHANGE_ROWS_MAX));
            let rest_gone = gone.split_off(gone.len().min(CHANGE_ROWS_MAX));
            let more = !rest.is_empty() || !rest_gone.is_empty();
            parts.push(EndpointsChange {
                generation: self.generation,
                full: before.is_none() && parts.is_empty(),
                more,
                deleted: false,
                changed,
                gone,
            });
            if !more {
                return parts;
            }
            (changed, gone) = (rest, rest_gone);
        }
    }

    /// Takes a change in; the set is whole again after one that says that no more follows.
    pub fn apply(&mut self, change: EndpointsChange) {
        if change.full || change.deleted {
            self.rows.clear();
        }
        self.generation = change.generation;
        for key in &change.gone {
            self.rows.remove(key);
        }
        let rows = change.changed.into_iter().map(|row| (key_of(&row), row));
        self.rows.extend(rows);
    }
}

fn key_of(row: &EndpointView) -> EndpointKey {
    (row.job, row.name.clone())
}
