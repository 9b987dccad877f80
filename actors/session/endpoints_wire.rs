//! What readers of endpoints and the cluster tell each other.
//!
//! ```text
//!   AskService::Endpoints ─► Reply::Watching, then pushes of the same request:
//!     EndpointsPush   what makes the set before into the next; the first one is full
//!     EndpointsUsed   from the reader: it uses no older set any more
//! ```

use xce_model::{Lsn, ServiceId};
use xce_service::view::EndpointsChange;

/// Pushed to a reader of endpoints.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct EndpointsPush {
    /// What makes the set before into the next one.
    pub change: EndpointsChange,
}

/// Said by a reader of endpoints, with the number of its request: it uses no set older than this.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct EndpointsUsed {
    /// Generation of the set.
    pub generation: Lsn,
}

/// A reader of endpoints in machine output.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    Default,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct ReaderView {
    /// Its session.
    pub session: u64,
    /// Who it is.
    pub principal: String,
    /// Service that it reads.
    pub service: ServiceId,
    /// Whether it is connected, else it may come back.
    pub connected: bool,
    /// Whether it says which set it uses.
    pub acknowledges: bool,
    /// Generation that it was last sent; absent before the first.
    pub sent: Option<Lsn>,
    /// Generation that it uses, as it says; absent before it said so.
    pub acknowledged: Option<Lsn>,
}
