//! The top of a node's tree.

use std::sync::Arc;

use ractor::ActorCell;

use crate::desk::Place;
use crate::key::Key;
use crate::node::Node;
use crate::policy::{Limits, SHUTDOWN_MARGIN};
use crate::refusal::Refusal;
use crate::supervise::{Supervisor, build_supervisor};

/// The top of a node's tree. Nobody starts it again: its end is the end of the node.
#[derive(Debug)]
pub struct Root {
    supervisor: Supervisor,
    cell: ActorCell,
}

impl Root {
    /// Starts the top supervisor of a node, with the key `root`.
    ///
    /// # Errors
    /// [`Refusal::Exists`] when the node has one.
    pub async fn start(node: &Arc<Node>, limits: Limits) -> Result<Self, Refusal> {
        let key = Key::single("root");
        let built = build_supervisor(node, None, key.clone(), limits);
        if !node.registry().insert(built.seat.slot().clone()) {
            return Err(Refusal::Exists(key));
        }
        match built.seat.start(None).await {
            Ok(cell) => Ok(Self {
                supervisor: built.supervisor,
                cell,
            }),
            Err(_killed) => Err(Refusal::Stopping(key)),
        }
    }

    /// The top supervisor.
    pub fn supervisor(&self) -> &Supervisor {
        &self.supervisor
    }

    /// Waits until the tree has ended; the text says why, `None` after an orderly end.
    pub async fn ended(&self) -> Option<String> {
        // Without a bound there is no timeout that could be reported.
        drop(self.cell.wait(None).await);
        let error = self.supervisor.desk().probe().last_error();
        error.map(|error| error.text)
    }

    /// Ends the tree in order, within the limits' bound. Returns how many children of the root had
    /// to be killed.
    pub async fn shutdown(&self) -> usize {
        self.cell.stop(None);
        let within = self.supervisor.desk().limits().shutdown_within + SHUTDOWN_MARGIN;
        let late = self.cell.wait(Some(within)).await.is_err();
        if late {
            self.cell.kill();
        }
        self.supervisor
            .node()
            .registry()
            .remove(self.supervisor.key());
        self.supervisor.desk().killed() + usize::from(late)
    }
}
