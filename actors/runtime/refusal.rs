//! What this crate refuses and what a sender may learn about its message.

use thiserror::Error;

use crate::key::Key;

/// An expected refusal; nothing was changed by the request.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// As many requests as allowed are in flight.
    #[error("{door} is overloaded: {bound} requests are in flight")]
    Overloaded {
        /// The entrance that is full.
        door: &'static str,
        /// How many it admits at once.
        bound: usize,
    },
    /// An actor of this key lives already.
    #[error("actor {0} exists")]
    Exists(Key),
    /// No actor has this key.
    #[error("no actor {0:?}")]
    Unknown(String),
    /// The actor has no live incarnation that may be killed: it is down, or it is the top of the
    /// tree, which nobody would start again.
    #[error("actor {0} has no incarnation that may be killed")]
    NotRunning(Key),
    /// The actor is not quarantined, so there is nothing to retry.
    #[error("actor {0} is not quarantined")]
    NotQuarantined(Key),
    /// The supervisor is stopping and takes no more children.
    #[error("{0} is stopping")]
    Stopping(Key),
    /// What was asked did not happen in the time given; it may still.
    #[error("actor {0} did not answer in time")]
    Late(Key),
}

impl Refusal {
    /// Stable code for machines.
    pub fn code(&self) -> &'static str {
        match self {
            Refusal::Overloaded { .. } => "overloaded",
            Refusal::Exists(_) => "actor-exists",
            Refusal::Unknown(_) => "actor-unknown",
            Refusal::NotRunning(_) => "actor-not-running",
            Refusal::NotQuarantined(_) => "actor-not-quarantined",
            Refusal::Stopping(_) => "stopping",
            Refusal::Late(_) => "actor-late",
        }
    }
}

/// Why a message was certainly not delivered; it is safe to send it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NotDelivered {
    /// The entity has no live incarnation at the moment.
    #[error("the actor is down")]
    Down,
    /// The mailbox is full.
    #[error("the actor is overloaded")]
    Overloaded,
}

/// Why nobody knows what became of a request that was delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Unknown {
    /// The actor ended, or dropped the request, without an answer.
    #[error("the actor ended before it answered")]
    Ended,
    /// No answer came in time.
    #[error("the actor did not answer in time")]
    Late,
}

/// Why a call has no answer.
///
/// The two cases must never be mixed: after [`CallError::NotDelivered`] the world is as before,
/// after [`CallError::Unknown`] only committed state can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CallError {
    /// The request had no effect and never will have.
    #[error("not delivered: {0}")]
    NotDelivered(#[from] NotDelivered),
    /// The request may have had its effect, or may still have it.
    #[error("outcome unknown: {0}")]
    Unknown(#[from] Unknown),
}
