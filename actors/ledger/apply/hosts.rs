//! Facts of hosts.

use std::sync::Arc;

use xce_host::{HostFact, HostLife, HostRecord, Remnant};
use xce_model::Cause;
use xce_model::limits::HOSTS_MAX;
use xce_replica::JobRecord;

use super::{Fit, Step};
use crate::view::Key;

impl Step<'_> {
    pub(super) fn apply_host(&mut self, fact: &HostFact) -> Fit {
        self.note_numbers(fact);
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
        self.view.set_host(&name, &Arc::new(after));
        Fit::Applied
    }

    /// A number of a lost time, on a host, was given: it is not given again.
    fn note_numbers(&mut self, fact: &HostFact) {
        if let HostFact::Joined { stale, .. } = fact {
            let lost = stale.iter().filter(|one| one.quarantined);
            let highest = lost.map(|one| one.job.number).max().unwrap_or(0);
            self.view.last_job = self.view.last_job.max(highest);
        }
    }

    fn join_unknown(&mut self, fact: &HostFact) -> Fit {
        let HostFact::Joined {
            inventory, stale, ..
        } = fact
        else {
            return Fit::Ignored;
        };
        if self.view.hosts.len() >= HOSTS_MAX {
            return Fit::Ignored;
        }
        let name: Arc<str> = Arc::from(inventory.name.as_str());
        let mut record = HostRecord::joined(inventory.clone(), self.at.now, self.at.lsn);
        for remnant in stale {
            record.leave_behind(remnant.clone());
        }
        self.view.set_host(&name, &Arc::new(record));
        self.view.changes.hosts.touch(None, self.at.lsn, &name);
        self.touched.push(Key::Host(name));
        Fit::Applied
    }

    /// A run that left its host without its worker's word may still live there: it was given up with
    /// the host, or while that was lost.
    pub(super) fn leave_behind(&mut self, before: &JobRecord, after: &JobRecord) {
        let Some(name) = before.host.as_ref().filter(|_| before.state.holds_host()) else {
            return;
        };
        let left = !after.state.holds_host() || after.run != before.run;
        let Some(host) = self.view.hosts.get(name).filter(|_| left) else {
            return;
        };
        let given_up = after.exit.as_ref().map(|exit| exit.cause) == Some(Cause::HostLost);
        if !given_up && host.life != HostLife::Lost {
            return;
        }
        let asked = before.spec.template.resources;
        let mut host = HostRecord::clone(host);
        host.leave_behind(Remnant {
            job: before.id,
            run: before.run,
            ports: before.ports.iter().map(|(_, port)| *port).collect(),
            cpus: asked.cpus,
            memory: asked.memory,
            name: before.spec.name.clone(),
            quarantined: false,
        });
        let was = std::mem::replace(&mut host.changed, self.at.lsn);
        let changes = &mut self.view.changes.hosts;
        changes.touch(Some(was), self.at.lsn, name);
        self.touched.push(Key::Host(Arc::clone(name)));
        self.view.set_host(name, &Arc::new(host));
    }

    /// A host that still holds jobs stays: their ends come first, in the same group or an earlier one.
    fn remove_host(&mut self, name: &Arc<str>, before: &HostRecord) -> Fit {
        let usage = self.view.usage(name);
        if usage.is_some_and(|usage| !usage.jobs.is_empty()) {
            return Fit::Ignored;
        }
        self.view.unset_host(name);
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
        | HostFact::DrainBegan { .. }
        | HostFact::ConfirmedDead { .. }
        | HostFact::Removed { .. } => true,
        HostFact::QuarantineEnded { job, run, .. } => host
            .remnant(*job, *run)
            .is_some_and(|remnant| remnant.quarantined),
        HostFact::RunGone { job, run, .. } => host.remnant(*job, *run).is_some(),
        HostFact::DrainEnded { .. } => host.drain.is_some(),
    }
}
