//! The ledger as the machine that the WAL drives.

use xce_wal::{Machine, Position, SnapshotError};

use crate::envelope::DecodeError;
use crate::group::{Group, Outcome};
use crate::ledger::Ledger;
use crate::restore::Restore;
use crate::snapshot::SnapshotRecords;
use crate::view::View;

impl Machine for Ledger {
    type Outcome = Outcome;
    type Snapshot = SnapshotRecords;

    /// Applies one committed group.
    ///
    /// # Panics
    /// When the group was written by a newer program or is not what was written: this controller
    /// cannot keep up with the others and must stop rather than leave a committed fact out.
    fn apply(&mut self, at: Position, group: &[u8]) -> Outcome {
        match Group::decode(group) {
            Ok(group) => self.commit(at, &group),
            Err(error) => {
                tracing::error!(lsn = at.lsn, sub = at.sub, %error, "committed group not readable");
                panic!(
                    "the committed group {} of entry {} is not readable: {error}",
                    at.sub, at.lsn
                )
            }
        }
    }

    fn publish(&mut self, lsn: u64, term: u64) {
        Self::publish(self, lsn, term);
    }

    fn snapshot(&self) -> SnapshotRecords {
        SnapshotRecords::new(self.view.clone())
    }

    fn clear(&mut self) {
        self.replace(View::default());
    }

    fn restore(
        &mut self,
        records: &mut dyn Iterator<Item = Result<Vec<u8>, SnapshotError>>,
    ) -> Result<(), SnapshotError> {
        let refused = |error: DecodeError| SnapshotError::Record {
            detail: error.to_string(),
        };
        let mut restore = Restore::new(&mut self.specs);
        for record in records {
            restore.add(&record?).map_err(refused)?;
        }
        let view = restore.finish().map_err(refused)?;
        self.replace(view);
        Ok(())
    }
}
