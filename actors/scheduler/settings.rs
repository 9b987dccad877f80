//! What a scheduler is told at its start.

use std::net::SocketAddr;

use xce_link::Identity;

/// Settings of a scheduler; the daemon fills them from its configuration.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Certificate and key.
    pub identity: Identity,
    /// Where the controllers listen.
    pub controllers: Vec<SocketAddr>,
}
