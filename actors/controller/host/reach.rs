//! How others reach a host's actor.

use std::sync::Arc;

use xce_link::CloseCode;
use xce_model::{JobId, Refusal, RefusalKind};
use xce_replica::wire::Order;
use xce_runtime::{Entity, Key};

use super::{Host, Message};
use crate::connections::Connection;
use crate::control::Control;

fn key(name: &str) -> Key {
    Key::new(Host::KIND, name)
}

/// Makes sure that a host's actor lives.
pub fn ensure(control: &Arc<Control>, name: &str) {
    let host = Host {
        control: Arc::clone(control),
        name: name.to_owned(),
    };
    // One that exists is what is wanted; at the end of the node nothing is.
    drop(control.hosts.spawn(key(name), None, host));
}

/// Lets a host's actor go.
pub fn release(control: &Control, name: &str) {
    // One that does not exist needs nothing.
    drop(control.hosts.stop(&key(name)));
}

/// The address of a host's actor.
pub fn address(control: &Control, name: &str) -> Option<xce_runtime::Address<Message>> {
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
        ensure(&control, &name);
        let deadline = tokio::time::Instant::now() + crate::job::COMMAND_WITHIN;
        while tokio::time::Instant::now() < deadline {
            let host = address(&control, &name);
            let told = host.map(|host| host.cast(Message::Connected(Arc::clone(&connection))));
            if let Some(Ok(())) = told {
                return;
            }
            tokio::time::sleep(crate::control::RESTART_PAUSE).await;
        }
        let session = connection.session;
        control.connections.answered(&name, session);
        connection
            .peer
            .close(CloseCode::Refused, "the host's actor could not be reached");
    })
    .detach();
}
