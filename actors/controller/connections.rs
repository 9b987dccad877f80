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
type ByHost = Mutex<BTreeMap<String, Arc<Connection>>>;

/// Connections of workers that have joined, and of those that are about to.
#[derive(Debug, Default)]
pub struct Connections {
    joined: ByHost,
    waiting: ByHost,
}

impl Connections {
    /// The connection of a host.
    pub fn get(&self, host: &str) -> Option<Arc<Connection>> {
        open(&self.joined, host)
    }

    /// Notes a connection whose worker wants to join, so that a host actor that starts again knows
    /// of it although the message died with its predecessor's mailbox.
    pub fn wait(&self, connection: &Arc<Connection>) {
        put(&self.waiting, Arc::clone(connection));
    }

    /// The connection of a host whose worker still wants to join.
    pub fn waiting(&self, host: &str) -> Option<Arc<Connection>> {
        open(&self.waiting, host)
    }

    /// Its worker was let in, or refused.
    pub fn answered(&self, host: &str, session: SessionId) {
        take(&self.waiting, host, session);
    }

    /// Puts a connection in place of any earlier one of its host, which is returned.
    pub fn put(&self, connection: Arc<Connection>) -> Option<Arc<Connection>> {
        put(&self.joined, connection)
    }

    /// Takes a connection away, unless a newer one took its place.
    pub fn take(&self, host: &str, session: SessionId) {
        take(&self.joined, host, session);
    }

    /// All connections of workers that have joined.
    pub fn all(&self) -> Vec<Arc<Connection>> {
        let all = self.joined.lock().unwrap_or_else(PoisonError::into_inner);
        all.values().cloned().collect()
    }
}

fn open(all: &ByHost, host: &str) -> Option<Arc<Connection>> {
    let all = all.lock().unwrap_or_else(PoisonError::into_inner);
    let found = all.get(host).cloned();
    found.filter(|connection| connection.peer.closed_now().is_none())
}

fn put(all: &ByHost, connection: Arc<Connection>) -> Option<Arc<Connection>> {
    let name = connection.join.inventory.name.clone();
    let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
    all.insert(name, connection)
}

fn take(all: &ByHost, host: &str, session: SessionId) {
    let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
    let is_meant = |connection: &Arc<Connection>| connection.session == session;
    if all.get(host).is_some_and(is_meant) {
        all.remove(host);
    }
}
