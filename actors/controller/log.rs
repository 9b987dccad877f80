//! The WAL in the live tree: what operators see of the log.
//!
//! The log itself lives on the consensus thread, since a sync must never wait for an actor. This
//! entity starts only when the log answers a barrier, so a log that hangs shows as one that recovers.

use std::convert::Infallible;
use std::sync::Arc;

use xce_runtime::{Context, Crash, Entity, Key, View};

use crate::control::Control;

/// The entity; it is told nothing.
pub struct Log {
    /// Shared parts.
    pub control: Arc<Control>,
}

#[derive(serde::Serialize)]
struct Seen {
    term: u64,
    last_lsn: u64,
    snapshot_lsn: u64,
    queue_groups: usize,
    entries: u64,
    groups: u64,
    syncs: u64,
    disk_mode: String,
    alarm: Option<String>,
    stopped: bool,
}

impl Entity for Log {
    type Message = Infallible;
    type State = ();
    const KIND: &'static str = "wal";

    async fn recover(&self, _context: &Context<Infallible>) -> Result<(), Crash> {
        self.control.wal.barrier().await?;
        Ok(())
    }

    async fn handle(
        &self,
        _context: &Context<Infallible>,
        message: Infallible,
        _state: &mut (),
    ) -> Result<(), Crash> {
        match message {}
    }

    fn view(&self, _state: &()) -> View {
        let status = self.control.wal.status();
        View::of(&Seen {
            term: status.term,
            last_lsn: status.last_lsn,
            snapshot_lsn: status.snapshot_lsn,
            queue_groups: status.queue_groups,
            entries: status.entries,
            groups: status.groups,
            syncs: status.syncs,
            disk_mode: status
                .disk_mode
                .map_or_else(String::new, |mode| format!("{mode:?}")),
            alarm: status.alarm,
            stopped: status.stopped,
        })
    }
}

/// Its key.
pub fn key() -> Key {
    Key::single("wal")
}
