//! The doors of the endpoints: what a session does for a client that reads them.

use std::sync::Arc;

use xce_link::Peer;
use xce_model::{Lsn, Refusal, ServiceId, SessionId};
use xce_session::endpoints_wire::EndpointsPush;
use xce_session::wire::{Reply, ServiceName};

use super::readers::{READERS_MAX, Reader};
use super::{look, set_of};
use crate::control::Control;
use crate::sessions::SessionInfo;

/// Services that one session may read. Source: derived; the services of a front, with room.
const READS_MAX: usize = 1_000;

/// A client that reads the endpoints of a service.
pub struct Asked {
    /// Its session.
    pub info: Arc<SessionInfo>,
    /// Its connection.
    pub peer: Peer,
    /// Number of its request.
    pub number: u64,
    /// Which service.
    pub name: ServiceName,
    /// Whether it says what it uses.
    pub acknowledges: bool,
}

/// Answers with the set of now; nothing follows.
///
/// # Errors
/// `not_found` without such a service.
pub fn once(control: &Control, asked: &Asked) -> Result<(), Refusal> {
    let service = find(control, &asked.name)?;
    let set = set_of(&control.view(), service);
    let after = set.generation;
    let mut sent = asked.peer.reply(asked.number, &Reply::Watching { after });
    for change in set.since(None) {
        sent = sent.and_then(|()| asked.peer.push(asked.number, &EndpointsPush { change }));
    }
    sent.map_err(|error| error.refusal())
}

/// Begins to push the sets of a service.
///
/// # Errors
/// `not_found` without such a service, `too_many_readers` when there is no room.
pub fn open(control: &Arc<Control>, asked: Asked) -> Result<(), Refusal> {
    let service = find(control, &asked.name)?;
    if control.readers.count(asked.info.id) >= READS_MAX {
        let text = format!("a session reads the endpoints of at most {READS_MAX} services");
        return Err(Refusal::refused("too_many_readers", text));
    }
    let Asked {
        info,
        peer,
        number,
        acknowledges,
        ..
    } = asked;
    let reader = Reader::new(
        (info.id, number),
        service,
        info.principal.clone(),
        peer.clone(),
        acknowledges,
    );
    let after = control.view().endpoints_changed(service);
    // The answer first: what is pushed follows it.
    peer.reply(number, &Reply::Watching { after })
        .map_err(|error| error.refusal())?;
    if !control.readers.add(reader) {
        let text = format!("the endpoints of a service have at most {READERS_MAX} readers");
        return Err(Refusal::refused("too_many_readers", text));
    }
    look(control, service);
    Ok(())
}

/// Takes a reader's word that it uses a generation.
pub fn used(control: &Arc<Control>, session: SessionId, number: u64, generation: Lsn) {
    // One that is gone is told so by its push.
    if let Some(reader) = control.readers.get((session, number)) {
        reader.used(generation);
        look(control, reader.service);
    }
}

/// Notes that a session's connection has ended.
pub fn closed(control: &Arc<Control>, session: SessionId) {
    let now_ms = control.monotonic_ms();
    for reader in control.readers.of_session(session) {
        reader.leave(now_ms);
        look(control, reader.service);
    }
}

fn find(control: &Control, name: &ServiceName) -> Result<ServiceId, Refusal> {
    crate::requests::find_service(&control.view(), name)
}
