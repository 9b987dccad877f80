//! Live connections of workers, kept outside their host actors, so that one that starts again finds
//! the connection its predecessor had.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use xce_host::wire::Join;
use xce_link::Peer;
use xce_model::SessionId;

/// A connection of a worker that has joined or is about to.
#[derive(Debug)]
pub struct Connection {
    /// The session that it belongs to.
    pub session: SessionId,
    /// Sends to the worker.
    pub peer: Peer,
    /// What the worker said when it joined.
    pub join: Join,
}

/// Connections by host name.
#[derive(Debug, Default)]
pub struct Connections(Mutex<BTreeMap<String, Arc<Connection>>>);

impl Connections {
    /// The connection of a host.
    pub fn get(&self, host: &str) -> Option<Arc<Connection>> {
        let found = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(host)
            .cloned();
        found.filter(|connection| connection.peer.closed_now().is_none())
    }

    /// Puts a connection in place of any earlier one of its host, which is returned.
    pub fn put(&self, connection: Arc<Connection>) -> Option<Arc<Connection>> {
        let name = connection.join.inventory.name.clone();
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name, connection)
    }

    /// Takes a connection away, unless a newer one took its place.
    pub fn take(&self, host: &str, session: SessionId) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all
            .get(host)
            .is_some_and(|connection| connection.session == session)
        {
            all.remove(host);
        }
    }
}

impl Connections {
    /// All connections.
    pub fn all(&self) -> Vec<Arc<Connection>> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .cloned()
            .collect()
    }
}
