//! Who belongs to the cluster, and how that changes.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{LogId, Node, Payload, Progress};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Members {
    pub voters: BTreeSet<u64>,
    pub learners: BTreeSet<u64>,
}

/// One change; only one at a time is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    AddLearner(u64),
    Promote(u64),
    Remove(u64),
}

impl Members {
    pub fn quorum(&self) -> usize {
        self.voters.len() / 2 + 1
    }

    pub fn all(&self) -> impl Iterator<Item = u64> {
        self.voters.iter().chain(&self.learners).copied()
    }

    fn after(&self, change: Change) -> Option<Self> {
        let mut after = self.clone();
        let changed = match change {
            Change::AddLearner(id) => !after.voters.contains(&id) && after.learners.insert(id),
            Change::Promote(id) => after.learners.remove(&id) && after.voters.insert(id),
            // The last voters stay.
            Change::Remove(id) => {
                after.learners.remove(&id) || (after.voters.len() > 1 && after.voters.remove(&id))
            }
        };
        changed.then_some(after)
    }
}

impl Node {
    /// The members by the newest entry that says so, committed or not.
    pub fn members(&self) -> Arc<Members> {
        self.members_at(u64::MAX)
    }

    /// The members as of an index.
    pub fn members_at(&self, index: u64) -> Arc<Members> {
        let entries = self.log.iter().rev();
        entries
            .filter(|(entry, _)| entry.id.index <= index)
            .find_map(|(entry, _)| match &entry.payload {
                Payload::Members(members) => Some(Arc::clone(members)),
                Payload::Empty | Payload::Groups(_) => None,
            })
            .unwrap_or_else(|| Arc::clone(&self.members_below))
    }

    /// Begins a change; nothing while another is under way, or before an entry of this term is
    /// committed.
    pub fn change(&mut self, change: Change, now: u64) -> Option<LogId> {
        let open = self
            .log
            .iter()
            .rev()
            .take_while(|(entry, _)| entry.id.index > self.commit)
            .any(|(entry, _)| matches!(entry.payload, Payload::Members(_)));
        if !self.is_primary() || open {
            return None;
        }
        if let Change::Promote(id) = change {
            let behind = self.progress.get(&id).map_or(0, |one| one.matched) + 8;
            if behind < self.last().index {
                return None;
            }
        }
        let after = self.members().after(change)?;
        let id = self.propose(Payload::Members(Arc::new(after)), now)?;
        self.note_members(now);
        Some(id)
    }

    /// A leader keeps track of each member.
    pub(super) fn note_members(&mut self, now: u64) {
        let members = self.members();
        let next = self.last().index + 1;
        for id in members.all().filter(|id| *id != self.id) {
            self.progress.entry(id).or_insert(Progress {
                next,
                matched: 0,
                acked: None,
                sending: None,
            });
        }
        self.progress
            .retain(|id, _| members.all().any(|one| one == *id));
        self.send_appends(now);
    }

    /// Tells another to take over: it may be elected although this one leads.
    pub fn transfer(&mut self, to: u64) -> bool {
        let last = self.last().index;
        let caught_up = self
            .progress
            .get(&to)
            .is_some_and(|one| one.matched == last);
        if !self.is_primary() || !caught_up || !self.members().voters.contains(&to) {
            return false;
        }
        self.transferring = true;
        self.send(to, super::Body::Elect);
        true
    }
}
