//! Hands out the journal of the log, part by part, beside the running log.

use std::sync::Arc;

use xce_model::{Refusal, RefusalKind};
use xce_session::journal_wire::{JournalPart, JournalPosition};
use xce_wal::{JournalCursor, JournalError};

use crate::control::Control;

/// Bytes of one part. Source: derived; with one entry of 1 MiB more it is far below a frame.
const PART_BYTES: usize = 1 << 20;

/// The part after a position, or the first one.
///
/// # Errors
/// `superseded` where a newer snapshot took the place of the one that is exported: begin again.
pub async fn part(
    control: &Arc<Control>,
    after: Option<JournalPosition>,
) -> Result<JournalPart, Refusal> {
    let (wal, cursor) = (control.wal.clone(), after.map(cursor));
    // It reads a file: on a thread of its own.
    let page = tokio::task::spawn_blocking(move || wal.journal_page(cursor, PART_BYTES));
    let failed = |text: String| Refusal::new(RefusalKind::Unavailable, "journal_failed", text);
    let page = page.await.map_err(|error| failed(error.to_string()))?;
    match page {
        Ok(page) => Ok(JournalPart {
            bytes: page.bytes,
            position: position(page.cursor),
            done: page.done,
        }),
        Err(error) => Err(refusal(&error)),
    }
}

fn refusal(error: &JournalError) -> Refusal {
    let text = error.to_string();
    match error {
        JournalError::Superseded => Refusal::refused("superseded", text),
        JournalError::BadCursor => Refusal::new(RefusalKind::Usage, "bad_position", text),
        JournalError::InMemory => Refusal::refused("no_journal", text),
        JournalError::Io { source, .. } => {
            let text = format!("{text}: {source}");
            Refusal::new(RefusalKind::Unavailable, "journal_failed", text)
        }
    }
}

const fn cursor(at: JournalPosition) -> JournalCursor {
    JournalCursor {
        base: at.base,
        end: at.end,
        snapshot_bytes: at.snapshot_bytes,
        offset: at.offset,
        lsn: at.lsn,
        groups: at.groups,
    }
}

const fn position(at: JournalCursor) -> JournalPosition {
    JournalPosition {
        base: at.base,
        end: at.end,
        snapshot_bytes: at.snapshot_bytes,
        offset: at.offset,
        lsn: at.lsn,
        groups: at.groups,
    }
}
