//! A decision and the receipt that releases it.
//!
//! The order decide, persist, apply, act, reply is held by these types: a [`Decision`] gives up its
//! effects and its reply only against a receipt that the WAL issued.

/// Marks the receipt of a committed group; only the WAL's own receipt implements it.
pub trait DurableReceipt {
    /// Position of the committed group.
    fn lsn(&self) -> crate::Lsn;
}

/// What a rule decided: facts to persist, effects to perform and the reply, both after the commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision<Fact, Effect, Reply> {
    facts: Vec<Fact>,
    effects: Vec<Effect>,
    reply: Reply,
}

impl<Fact, Effect, Reply> Decision<Fact, Effect, Reply> {
    /// A decision of facts, what to do once they are committed, and what to answer then.
    pub fn new(facts: Vec<Fact>, effects: Vec<Effect>, reply: Reply) -> Self {
        Self {
            facts,
            effects,
            reply,
        }
    }

    /// The facts to persist.
    pub fn facts(&self) -> &[Fact] {
        &self.facts
    }

    /// Whether there is nothing to persist.
    pub fn is_empty(&self) -> bool {
        self.facts.is_empty()
    }

    /// Gives up effects and reply of a decision that has no facts: what it rests on is durable.
    ///
    /// # Errors
    /// The decision itself, where it has facts to persist first.
    pub fn release_empty(self) -> Result<(Vec<Effect>, Reply), Self> {
        if self.facts.is_empty() {
            Ok((self.effects, self.reply))
        } else {
            Err(self)
        }
    }

    /// Takes the facts out, for the WAL; what is left waits for the receipt.
    pub fn into_facts(self) -> (Vec<Fact>, Pending<Effect, Reply>) {
        (
            self.facts,
            Pending {
                effects: self.effects,
                reply: self.reply,
            },
        )
    }
}

/// Effects and reply of a decision whose facts are on their way to the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "effects and reply wait for the receipt"]
pub struct Pending<Effect, Reply> {
    effects: Vec<Effect>,
    reply: Reply,
}

impl<Effect, Reply> Pending<Effect, Reply> {
    /// Gives up effects and reply against the receipt of the committed facts.
    pub fn release(self, _receipt: &impl DurableReceipt) -> (Vec<Effect>, Reply) {
        (self.effects, self.reply)
    }
}
