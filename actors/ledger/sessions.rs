//! What is remembered of a session between a daemon and the cluster: one for each principal, so that
//! a newer incarnation fences the older on whichever controller leads.

use xce_model::{ClusterTime, Incarnation, Lsn, SessionId};

/// What a peer is.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum SessionKind {
    /// The worker of a host.
    Worker,
    /// A scheduler.
    Scheduler,
    /// An apiserver.
    Apiserver,
    /// A person's or a program's client.
    Client,
}

/// A committed change of a session.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    serde::Serialize,
    serde::Deserialize,
)]
pub enum SessionFact {
    /// A peer was admitted; its session's number is given by the order of the log, its epoch is 1.
    /// Whatever session the same principal had is over.
    Opened {
        /// Who it is.
        principal: String,
        /// What it is.
        kind: SessionKind,
        /// Which installation or process of it.
        incarnation: Incarnation,
        /// Fingerprint of its key.
        fingerprint: [u8; 16],
    },
    /// The peer came back; what is said under a lower epoch counts no more.
    Resumed {
        /// The session.
        session: SessionId,
        /// Its new epoch, one above the last.
        epoch: u64,
    },
    /// It is over.
    Ended {
        /// The session.
        session: SessionId,
    },
}

/// A session as committed.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct SessionRecord {
    /// Identity.
    pub id: SessionId,
    /// Who the peer is.
    pub principal: String,
    /// What it is.
    pub kind: SessionKind,
    /// Which installation or process of it.
    pub incarnation: Incarnation,
    /// Fingerprint of its key.
    pub fingerprint: [u8; 16],
    /// Rises with each resume, from 1.
    pub epoch: u64,
    /// When it was opened.
    pub opened: ClusterTime,
    /// When it was opened or last resumed.
    pub seen: ClusterTime,
    /// Position of its last change.
    pub changed: Lsn,
}
