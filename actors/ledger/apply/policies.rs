//! Facts of policies.

use std::sync::Arc;

use super::{Fit, Step};
use crate::policies::{PolicyFact, PolicyRecord};
use crate::view::Key;

impl Step<'_> {
    pub(super) fn apply_policy(&mut self, fact: &PolicyFact) -> Fit {
        match fact {
            PolicyFact::Set {
                kind,
                name,
                document,
                generation,
                author,
                operation: _,
            } => {
                let record = PolicyRecord {
                    kind: *kind,
                    name: name.clone(),
                    document: document.clone(),
                    generation: *generation,
                    author: author.clone(),
                    time: self.at.wall,
                    changed: self.at.lsn,
                };
                let key = record.key();
                let before = self.view.policies.get(&key).map(|found| found.changed);
                let changes = &mut self.view.changes.policies;
                changes.touch(before, self.at.lsn, &key);
                self.view.policies.insert(key.clone(), Arc::new(record));
                self.touched.push(Key::Policy(key.0, key.1));
                Fit::Applied
            }
            PolicyFact::Removed { kind, name, .. } => {
                let key = (*kind, Arc::from(&**name));
                let Some(before) = self.view.policies.remove(&key) else {
                    return Fit::Ignored;
                };
                let changes = &mut self.view.changes.policies;
                changes.bury(before.changed, self.at.lsn, &key);
                self.touched.push(Key::Policy(key.0, key.1));
                Fit::Applied
            }
        }
    }
}
