//! Facts of hosts.

use std::sync::Arc;

use xce_host::{HostFact, HostLife, HostRecord};
use xce_model::limits::HOSTS_MAX;

use super::{Fit, Step};
use crate::view::Key;

impl Step<'_> {
    pub(super) fn apply_host(&mut self, fact: &HostFact) -> Fit {
        let known = self.view.hosts.get_key_value(fact.host());
        let known = known.map(|(name, host)| (name.clone(), host.clone()));
        let Some((name, before)) = known else {
            return self.join_unknown(fact);
        };
        if !fits(&before, fact) {
            return Fit::Ignored;
        }
        if let HostFact::Removed { .. } = fact {
            return self.remove_host(&name, &before);
        }
        let mut after = (*before).clone();
        after.apply(fact, self.at.now, self.at.lsn);
        // A mark is news to the worker alone, and it learns it from the receipt.
        if after.changed == self.at.lsn && !matches!(fact, HostFact::Marked { .. }) {
            self.view
                .changes
                .hosts
                .touch(Some(before.changed), after.changed, &name);
            self.touched.push(Key::Host(name.clone()));
            self.view.note_host(&before, &after);
        }
        self.view.hosts.insert(name, Arc::new(after));
        Fit::Applied
    }

    fn join_unknown(&mut self, fact: &HostFact) -> Fit {
        let HostFact::Joined { inventory } = fact else {
            return Fit::Ignored;
        };
        if self.view.hosts.len() >= HOSTS_MAX {
            return Fit::Ignored;
        }
        let name: Arc<str> = Arc::from(inventory.name.as_str());
        let record = HostRecord::joined(inventory.clone(), self.at.now, self.at.lsn);
        self.view.hosts.insert(name.clone(), Arc::new(record));
        self.view.changes.hosts.touch(None, self.at.lsn, &name);
        self.touched.push(Key::Host(name));
        Fit::Applied
    }

    /// A host that still holds jobs stays: their ends come first, in the same group or an earlier one.
    fn remove_host(&mut self, name: &Arc<str>, before: &HostRecord) -> Fit {
        if self.view.usage.contains_key(name) {
            return Fit::Ignored;
        }
        self.view.hosts.remove(name);
        self.view
            .changes
            .hosts
            .bury(before.changed, self.at.lsn, name);
        self.touched.push(Key::Host(name.clone()));
        Fit::Applied
    }
}

fn fits(host: &HostRecord, fact: &HostFact) -> bool {
    match fact {
        HostFact::Suspected { .. } => host.life == HostLife::Up,
        HostFact::Recovered { .. } => host.life == HostLife::Suspect,
        HostFact::Lost { .. } => host.life != HostLife::Lost,
        HostFact::Left { .. } => host.life == HostLife::Up || host.life == HostLife::Suspect,
        HostFact::Marked {
            epoch, sequence, ..
        } => (*epoch, *sequence) > (host.epoch, host.sequence),
        HostFact::Joined { .. }
        | HostFact::Closed { .. }
        | HostFact::Opened { .. }
        | HostFact::LaunchFailed { .. }
        | HostFact::LaunchSucceeded { .. }
        | HostFact::ReplicaFailed { .. }
        | HostFact::Blamed { .. }
        | HostFact::Removed { .. } => true,
    }
}
