//! What the WAL drives: a deterministic machine that applies committed groups.

use crate::error::SnapshotError;

/// Where a group was committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Term of the leader that committed it.
    pub term: u64,
    /// Log index of the entry: increasing, not dense, never reused.
    pub lsn: u64,
    /// Place of the group inside the entry, from 0.
    pub sub: u32,
}

/// A frozen view of a machine as records, at most 64 MiB each, in an order that is equal on replicas.
pub trait SnapshotSource: Iterator<Item = Vec<u8>> + Send + 'static {}

impl<Source> SnapshotSource for Source where Source: Iterator<Item = Vec<u8>> + Send + 'static {}

/// The state that committed groups add up to.
///
/// It must be deterministic: equal groups in equal order give equal states and outcomes on every
/// controller. It is called from one thread and must not block.
pub trait Machine: Send + 'static {
    /// What one group's application answers, such as allotted ids or a refusal by precondition.
    type Outcome: Send + 'static;
    /// A frozen view, made in constant time and read from another thread.
    type Snapshot: SnapshotSource;

    /// Applies one committed group; cannot fail.
    fn apply(&mut self, at: Position, group: &[u8]) -> Self::Outcome;

    /// Makes the state up to `lsn` visible; called once per entry, before its callers are answered.
    fn publish(&mut self, lsn: u64, term: u64);

    /// Freezes the current state.
    fn snapshot(&self) -> Self::Snapshot;

    /// Goes back to the state before the first entry, whatever a restore that failed left behind.
    fn clear(&mut self);

    /// Replaces the whole state by the records of a snapshot; one without records may be refused.
    ///
    /// # Errors
    /// Names what is wrong with a record; the WAL then tries an older snapshot, again by `restore`.
    fn restore(
        &mut self,
        records: &mut dyn Iterator<Item = Result<Vec<u8>, SnapshotError>>,
    ) -> Result<(), SnapshotError>;
}
