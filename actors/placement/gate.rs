//! What holds a job back before any host is looked at.

use std::collections::BTreeMap;

use xce_host::rules::lease;
use xce_ledger::View;
use xce_model::spec::SingleCopy;
use xce_model::{ClusterTime, JobState, ServiceId, Version};

use crate::candidate::Candidate;

/// Why a job may not be placed now, wherever there is room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gate {
    /// Its delay is not over.
    Delayed,
    /// Its array has as many elements placed as it may.
    Slots { limit: u32 },
    /// Its service is gone or to end.
    ServiceEnds,
    /// So many replicas of its version are dispatched as may be while none has become ready.
    Dispatch { limit: u32, dispatched: u32 },
    /// What is left of the copy that it replaces, on a lost host, may be alive until then.
    Fence { until: ClusterTime },
}

/// Counts that gates compare with their limits; they grow with what a plan places.
pub(crate) struct Gates<'a> {
    view: &'a View,
    now: ClusterTime,
    slots: BTreeMap<u64, u32>,
    dispatched: BTreeMap<(ServiceId, Version), u32>,
    /// When lost strict copies are over, by service, making and index.
    fences: BTreeMap<ServiceId, BTreeMap<(Version, u32), ClusterTime>>,
}

impl<'a> Gates<'a> {
    pub fn new(view: &'a View, now: ClusterTime) -> Self {
        Self {
            view,
            now,
            slots: BTreeMap::new(),
            dispatched: BTreeMap::new(),
            fences: BTreeMap::new(),
        }
    }

    /// What holds the job back, if anything does.
    pub fn check(&mut self, candidate: &Candidate<'a>) -> Option<Gate> {
        if candidate.not_before > self.now {
            return Some(Gate::Delayed);
        }
        if let Some(array) = candidate.array(self.view) {
            let more = self.slots.get(&array.number).copied().unwrap_or(0);
            if let Some(limit) = array.slot_limit()
                && array.counts.placed.saturating_add(more) >= limit
            {
                return Some(Gate::Slots { limit });
            }
        }
        let replica = candidate.service?;
        let Some(service) = self
            .view
            .service(replica.service)
            .filter(|service| !service.is_deleting())
        else {
            return Some(Gate::ServiceEnds);
        };
        let root = service.root_of(replica.version);
        if candidate.spec.template.single_copy == SingleCopy::Strict {
            let (view, id) = (self.view, replica.service);
            let fences = self.fences.entry(id).or_insert_with(|| fences(view, id));
            let until = fences.get(&(root, replica.index)).copied();
            if let Some(until) = until.filter(|until| *until > self.now) {
                return Some(Gate::Fence { until });
            }
        }
        let limit = service.dispatch_limit(replica.version)?;
        let dispatched = *self
            .dispatched
            .entry((replica.service, root))
            .or_insert_with(|| count_dispatched(self.view, replica.service, root));
        (dispatched >= limit).then_some(Gate::Dispatch { limit, dispatched })
    }

    /// Counts a placement.
    pub fn placed(&mut self, candidate: &Candidate<'a>) {
        if let Some(array) = candidate.array(self.view) {
            *self.slots.entry(array.number).or_default() += 1;
        }
        if let Some(replica) = candidate.service
            && let Some(service) = self.view.service(replica.service)
            && let Some(count) = self
                .dispatched
                .get_mut(&(replica.service, service.root_of(replica.version)))
        {
            *count += 1;
        }
    }
}

/// Replicas of one making that hold a host which is not lost, and are not told to stop.
fn count_dispatched(view: &View, service: ServiceId, root: Version) -> u32 {
    let Some(record) = view.service(service) else {
        return 0;
    };
    let count = view
        .live_replicas(service)
        .filter(|job| job.state.holds_host() && job.state != JobState::Stopping)
        .filter(|job| !view.is_lost(job))
        .filter_map(|job| job.service)
        .filter(|replica| record.root_of(replica.version) == root)
        .count();
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// When the lost copies of a service are over, by making and index.
fn fences(view: &View, service: ServiceId) -> BTreeMap<(Version, u32), ClusterTime> {
    let mut fences: BTreeMap<(Version, u32), ClusterTime> = BTreeMap::new();
    let Some(record) = view.service(service) else {
        return fences;
    };
    for job in view.live_replicas(service).filter(|job| view.is_lost(job)) {
        let host = job.host.as_deref().and_then(|host| view.host(host));
        let until = host.and_then(|host| lease::fenced_at(host));
        if let (Some(replica), Some(until)) = (job.service, until) {
            let place = (record.root_of(replica.version), replica.index);
            let known = fences.entry(place).or_insert(until);
            *known = until.max(*known);
        }
    }
    fences
}
