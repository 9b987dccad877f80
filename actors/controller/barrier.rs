//! One wait for the log on behalf of all who start at the same time.
//!
//! Whoever starts again after an unknown outcome waits until everything proposed before has been
//! applied. When a reign begins that is every service, and one question each would fill the queue of
//! the log that commits go through.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Mutex;
use xce_ledger::Ledger;
use xce_wal::{PersistError, Wal};

/// Numbers of those who wait, and up to which of them a question that was asked later covers.
#[derive(Debug, Default)]
pub struct Barrier {
    asked: AtomicU64,
    covered: Mutex<u64>,
}

impl Barrier {
    /// Waits until everything that was proposed before this call has been applied.
    ///
    /// # Errors
    /// As [`Wal::barrier`]; the next in line asks anew.
    pub async fn pass(&self, wal: &Wal<Ledger>) -> Result<(), PersistError> {
        let own = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
        let mut covered = self.covered.lock().await;
        if *covered >= own {
            return Ok(());
        }
        let all = self.asked.load(Ordering::Acquire);
        wal.barrier().await?;
        *covered = all;
        Ok(())
    }
}
