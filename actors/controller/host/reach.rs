//! How others reach a host's actor.

use std::sync::Arc;

use xce_link::CloseCode;
use xce_model::{JobId, Refusal, RefusalKind};
use xce_replica::wire::Order;
use xce_runtime::{Address, Entity, Key, Refusal as Absent};

use super::{Host, Message};
use crate::connections::Connection;
use crate::control::Control;
use crate::reach;

fn key(name: &str) -> Key {
    Key::new(Host::KIND, name)
}

/// The address of a host's actor, which is started where it is not there.
///
/// # Errors
/// The node ends, or the actor went away just now.
pub fn ensure(control: &Arc<Control>, name: &str) -> Result<Address<Message>, Absent> {
    control.hosts.ensure(key(name), || Host {
        control: Arc::clone(control),
        name: name.to_owned(),
    })
}

/// Lets the actor of a host that was removed go. A worker that is back may join anew.
pub fn release(control: &Control, name: &str) {
    if let Some(connection) = control.connections.get(name) {
        let peer = &connection.peer;
        peer.close(CloseCode::Fenced, "this host was removed; join again");
    }
    // One that does not exist needs nothing.
    drop(control.hosts.stop(&key(name)));
}

/// The address of a host's actor.
pub fn address(control: &Control, name: &str) -> Option<Address<Message>> {
    control.hosts.address(&key(name))
}

/// Tells a host's actor that its worker has to be told of jobs.
pub fn order(control: &Control, name: &str, jobs: Vec<JobId>) {
    // One that is down sends everything when it starts; one that is overloaded must do the same.
    let delivered =
        address(control, name).is_some_and(|host| host.cast(Message::Order(jobs)).is_ok());
    if !delivered && let Some(connection) = control.connections.get(name) {
        connection
            .peer
            .close(CloseCode::SlowPeer, "orders did not fit; join again");
    }
}

/// Sends one order that follows from no state.
///
/// # Errors
/// `host_unreachable` where the host's actor cannot take it.
pub fn send_order(control: &Control, name: &str, order: Order) -> Result<(), Refusal> {
    let delivered = address(control, name)
        .is_some_and(|host| host.cast(Message::Send(Box::new(order))).is_ok());
    if delivered && control.connections.get(name).is_some() {
        return Ok(());
    }
    let text = format!("host {name} does not answer");
    Err(Refusal::new(
        RefusalKind::Unavailable,
        "host_unreachable",
        text,
    ))
}

/// Gives a host's actor, which is started where need be, the connection of its worker.
pub fn connect(control: &Arc<Control>, name: &str, connection: Arc<Connection>) {
    let (control, name) = (Arc::clone(control), name.to_owned());
    control.connections.wait(&connection);
    xce_runtime::Task::spawn(async move {
        let message = || Message::Connected(Arc::clone(&connection));
        if reach::tell(|| ensure(&control, &name), message).await {
            return;
        }
        control.connections.answered(&name, connection.session);
        connection
            .peer
            .close(CloseCode::Refused, "the host's actor could not be reached");
    })
    .detach();
}
