//! The proof that a group is durable, applied and published.

use crate::machine::Position;

/// Proof of one committed group; only the WAL makes one.
#[derive(Debug)]
pub struct Receipt<Outcome> {
    position: Position,
    outcome: Outcome,
}

impl<Outcome> Receipt<Outcome> {
    pub(crate) fn new(position: Position, outcome: Outcome) -> Self {
        Self { position, outcome }
    }

    /// Log index of the group's entry.
    pub fn lsn(&self) -> u64 {
        self.position.lsn
    }

    /// Term in which it was committed.
    pub fn term(&self) -> u64 {
        self.position.term
    }

    /// Where exactly it was committed.
    pub fn position(&self) -> Position {
        self.position
    }

    /// What the machine answered.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// Takes the machine's answer out; what is left is still the proof.
    pub fn into_parts(self) -> (Receipt<()>, Outcome) {
        (Receipt::new(self.position, ()), self.outcome)
    }

    /// Gives the machine's answer away; the position is a copy.
    pub fn into_outcome(self) -> (Position, Outcome) {
        (self.position, self.outcome)
    }
}

impl<Outcome> xce_model::decision::DurableReceipt for Receipt<Outcome> {
    fn lsn(&self) -> xce_model::Lsn {
        self.position.lsn
    }
}
