//! What is remembered of profiles, projects and queues.

use std::sync::Arc;

use xce_model::{Lsn, OperationId, WallTime};
use xce_profile::PolicyKind;

/// Identity of a policy: its kind and its name.
pub type PolicyKey = (PolicyKind, Arc<str>);

/// A committed change of a policy.
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
pub enum PolicyFact {
    /// It was made, or its document was replaced.
    Set {
        /// What it is.
        kind: PolicyKind,
        /// Its name, unique within the kind.
        name: String,
        /// Canonical JSON of its document.
        document: String,
        /// Number of the document, from 1.
        generation: u32,
        /// Login name of who asked.
        author: String,
        /// The operation that asked for it.
        operation: OperationId,
    },
    /// It was deleted; what was made with it stays as it is.
    Removed {
        /// What it was.
        kind: PolicyKind,
        /// Its name.
        name: String,
        /// Login name of who asked.
        author: String,
        /// The operation that asked for it.
        operation: OperationId,
    },
}

/// A policy as committed.
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
pub struct PolicyRecord {
    /// What it is.
    pub kind: PolicyKind,
    /// Its name, unique within the kind.
    pub name: String,
    /// Canonical JSON of its document.
    pub document: String,
    /// Number of the document, from 1.
    pub generation: u32,
    /// Login name of who last changed it.
    pub author: String,
    /// When, by the controller's wall clock.
    pub time: WallTime,
    /// Position of its last change.
    pub changed: Lsn,
}

impl PolicyRecord {
    /// Its identity.
    pub fn key(&self) -> PolicyKey {
        (self.kind, Arc::from(&*self.name))
    }
}
