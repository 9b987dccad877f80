//! The scheduler as the controller knows it: inside this process, or a daemon at the other end of a
//! session. Either way it knows the state by the same feed alone, and each of its placements is
//! committed under its own precondition, or refused and planned again.

pub mod daemon;
pub mod embedded;
mod silence;

use std::sync::Arc;

use xce_link::Peer;
use xce_model::{Lsn, SessionId};
use xce_runtime::{Key, Trigger};
use xce_session::feed_wire::FromReader;

use crate::control::Control;
use crate::sessions::SessionInfo;

pub use silence::{Scheduling, Silence};

/// What the scheduler's actor is told.
pub enum Message {
    /// Something changed that may let a job be placed.
    Look,
    /// A timer ran out.
    Due(Trigger),
    /// A daemon begins to read.
    Opened(Box<Opened>),
    /// A daemon said something else.
    Said(Who, FromReader),
    /// A daemon's connection has ended.
    Ended(Who),
}

/// One connection of a daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Who {
    /// Its session.
    pub session: SessionId,
    /// Epoch of the session.
    pub epoch: u64,
}

/// A daemon that reads from now on.
#[derive(Debug, Clone)]
pub struct Opened {
    /// Its session.
    pub info: Arc<SessionInfo>,
    /// Its connection.
    pub peer: Peer,
    /// The request that its feed answers.
    pub number: u64,
    /// What it holds.
    pub after: Lsn,
}

impl Opened {
    fn who(&self) -> Who {
        who(&self.info)
    }
}

fn who(info: &SessionInfo) -> Who {
    Who {
        session: info.id,
        epoch: info.epoch,
    }
}

/// Gives what a daemon said to the scheduler's actor.
pub fn said(
    control: &Control,
    info: &Arc<SessionInfo>,
    peer: &Peer,
    number: u64,
    what: FromReader,
) {
    let message = match what {
        FromReader::Open { after } => Message::Opened(Box::new(Opened {
            info: Arc::clone(info),
            peer: peer.clone(),
            number,
            after,
        })),
        FromReader::Taken { .. } | FromReader::Plan(_) => Message::Said(who(info), what),
    };
    let told = control.scheduler.get().map(|address| address.cast(message));
    if let Some(Err(_)) = told {
        // It is down or overloaded; what was said is lost, so the daemon begins again.
        peer.close(xce_link::CloseCode::Dropped, "not taken now; resume");
    }
}

/// Tells the scheduler's actor that a daemon's connection is over.
pub fn ended(control: &Control, info: &SessionInfo) {
    if let Some(address) = control.scheduler.get() {
        // One that is down forgets its connections anyway.
        let _ = address.cast(Message::Ended(who(info)));
    }
}

/// Its key.
pub fn key() -> Key {
    Key::single("scheduler")
}
