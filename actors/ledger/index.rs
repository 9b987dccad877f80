//! The derived tables, kept up whenever a record is replaced.
//!
//! Each table depends on one facet of a record; only facets that differ are moved.

use std::collections::BTreeMap;
use std::sync::Arc;

use xce_host::{HostRecord, Remnant};
use xce_model::spec::{JobSpec, Resources};
use xce_model::{ClusterTime, JobId, JobState};
use xce_replica::JobRecord;
use xce_service::ServiceRecord;

use crate::arrays::ArrayRecord;
use crate::view::{Requests, View};

impl View {
    /// Puts a job in place of the one of the same id.
    pub(crate) fn put_job(&mut self, record: JobRecord) {
        let (id, changed) = (record.id, record.changed);
        let record = Arc::new(record);
        let before = self.set_job(&record);
        self.touch_array(before.as_deref(), Some(&record));
        self.changes
            .jobs
            .touch(before.map(|job| job.changed), changed, &id);
    }

    /// Takes a job out.
    pub(crate) fn drop_job(&mut self, id: JobId, lsn: u64) {
        if let Some(before) = self.unset_job(id) {
            self.touch_array(Some(&before), None);
            self.changes.jobs.bury(before.changed, lsn, &id);
        }
    }

    /// Puts a job in, with all that is derived from it, but for the change index.
    pub(crate) fn set_job(&mut self, record: &Arc<JobRecord>) -> Option<Arc<JobRecord>> {
        let before = self.jobs.insert(record.id, Arc::clone(record));
        self.move_job(before.as_deref(), Some(record));
        before
    }

    /// Takes a job out, with all that is derived from it, but for the change index.
    pub(crate) fn unset_job(&mut self, id: JobId) -> Option<Arc<JobRecord>> {
        let before = self.jobs.remove(&id)?;
        self.move_job(Some(&before), None);
        Some(before)
    }

    fn move_job(&mut self, before: Option<&JobRecord>, record: Option<&Arc<JobRecord>>) {
        let after = record.map(|record| &**record);
        self.move_pending(before.and_then(waiting), after.and_then(waiting));
        let (was, is) = (before.and_then(delay), after.and_then(delay));
        if was != is {
            was.map(|entry| self.delays.remove(&entry));
            is.map(|entry| self.delays.insert(entry));
        }
        let (was, is) = (before.and_then(end), after.and_then(end));
        if was != is {
            was.map(|entry| self.ended.remove(&entry));
            is.map(|entry| self.ended.insert(entry));
        }
        self.move_usage(before, after);
        self.move_replica(before, record);
        self.move_element(before, after);
        let counts = |job: &JobRecord| u64::from(job.id.element == JobId::NO_ELEMENT);
        self.job_count += after.map_or(0, counts);
        self.job_count -= before.map_or(0, counts);
    }

    fn move_pending(
        &mut self,
        before: Option<(JobId, &Arc<JobSpec>)>,
        after: Option<(JobId, &Arc<JobSpec>)>,
    ) {
        if before.map(|(id, _)| id) == after.map(|(id, _)| id) {
            return;
        }
        if let Some((id, spec)) = before {
            self.requests.remove(spec.template.resources);
            if let Some(queue) = self.pending.get_mut(spec.queue.as_str()) {
                queue.remove(&id);
                if queue.is_empty() {
                    self.pending.remove(spec.queue.as_str());
                }
            }
        }
        if let Some((id, spec)) = after {
            self.requests.add(spec.template.resources);
            match self.pending.get_mut(spec.queue.as_str()) {
                Some(queue) => {
                    queue.insert(id);
                }
                None => {
                    let queue: Arc<str> = Arc::from(spec.queue.as_str());
                    self.pending.insert(queue, imbl::OrdSet::unit(id));
                }
            }
        }
    }

    fn move_usage(&mut self, before: Option<&JobRecord>, after: Option<&JobRecord>) {
        let facet = |job: Option<&JobRecord>| {
            job.filter(|job| job.state.holds_host())
                .and_then(|job| Some((job.host.clone()?, job.run)))
        };
        let (was, is) = (facet(before), facet(after));
        if was == is {
            return;
        }
        if let (Some((host, _)), Some(job)) = (was, before)
            && let Some(usage) = self.usage.get_mut(&host)
        {
            usage.subtract(job);
            if usage.is_empty() {
                self.usage.remove(&host);
            }
        }
        if let (Some((host, _)), Some(job)) = (is, after) {
            self.usage.entry(host).or_default().add(job);
        }
    }

    /// Puts a host in, with all that is derived from it, but for the change index.
    pub(crate) fn set_host(&mut self, name: &Arc<str>, record: &Arc<HostRecord>) {
        let before = self.hosts.insert(Arc::clone(name), Arc::clone(record));
        let was = before.as_ref().map_or(&[][..], |host| &host.remnants);
        self.move_remnants(name, was, &record.remnants);
    }

    /// Takes a host out, with all that is derived from it, but for the change index.
    pub(crate) fn unset_host(&mut self, name: &str) -> Option<Arc<HostRecord>> {
        let (name, before) = self.hosts.remove_with_key(name)?;
        self.move_remnants(&name, &before.remnants, &[]);
        Some(before)
    }

    fn move_remnants(&mut self, host: &Arc<str>, was: &[Remnant], is: &[Remnant]) {
        if was == is {
            return;
        }
        let differ = |these: &[Remnant], those: &[Remnant]| -> Vec<Remnant> {
            let those: BTreeMap<(JobId, u32), &Remnant> =
                those.iter().map(|one| ((one.job, one.run), one)).collect();
            let same = |one: &&Remnant| those.get(&(one.job, one.run)).copied() != Some(*one);
            these.iter().filter(same).cloned().collect()
        };
        let usage = self.usage.entry(Arc::clone(host)).or_default();
        for remnant in differ(was, is) {
            usage.subtract_remnant(&remnant);
        }
        for remnant in differ(is, was) {
            usage.add_remnant(&remnant);
        }
        if usage.is_empty() {
            self.usage.remove(host);
        }
    }

    fn move_replica(&mut self, before: Option<&JobRecord>, after: Option<&Arc<JobRecord>>) {
        let service = |job: &JobRecord| job.service.map(|replica| replica.service);
        let (was, is) = (before.and_then(service), after.and_then(|job| service(job)));
        // A job stays with its service.
        let Some(service) = is.or(was) else { return };
        let roster = self.replicas.entry(service).or_default();
        roster.change(before, after);
        if roster.is_empty() {
            self.replicas.remove(&service);
        }
    }

    fn move_element(&mut self, before: Option<&JobRecord>, after: Option<&JobRecord>) {
        let Some(number) = moved_element(before, after) else {
            return;
        };
        let Some(array) = self.arrays.get_mut(&number) else {
            return;
        };
        let array = Arc::make_mut(array);
        if let Some(job) = before {
            *array.counts.slot(job.state) -= 1;
        }
        if let Some(job) = after {
            *array.counts.slot(job.state) += 1;
        }
    }

    /// An array changes with the state of its elements.
    fn touch_array(&mut self, before: Option<&JobRecord>, after: Option<&JobRecord>) {
        let Some(number) = moved_element(before, after) else {
            return;
        };
        let Some(array) = self.arrays.get_mut(&number) else {
            return;
        };
        let was = array.changed;
        let changed = after.map_or(was, |job| job.changed);
        if changed != was {
            Arc::make_mut(array).changed = changed;
        }
        self.changes.arrays.touch(Some(was), changed, &number);
    }

    /// Puts an array in place of the one of the same number.
    pub(crate) fn put_array(&mut self, record: ArrayRecord) {
        let (number, changed) = (record.number, record.changed);
        let before = self.set_array(Arc::new(record));
        self.changes
            .arrays
            .touch(before.map(|array| array.changed), changed, &number);
    }

    /// Takes an array out.
    pub(crate) fn drop_array(&mut self, number: u64, lsn: u64) {
        if let Some(before) = self.unset_array(number) {
            self.changes.arrays.bury(before.changed, lsn, &number);
        }
    }

    /// Puts an array in, with all that is derived from it, but for the change index.
    pub(crate) fn set_array(&mut self, record: Arc<ArrayRecord>) -> Option<Arc<ArrayRecord>> {
        let before = self.arrays.insert(record.number, Arc::clone(&record));
        self.move_array(before.as_deref(), Some(&record));
        before
    }

    /// Takes an array out, with all that is derived from it, but for the change index.
    pub(crate) fn unset_array(&mut self, number: u64) -> Option<Arc<ArrayRecord>> {
        let before = self.arrays.remove(&number)?;
        self.move_array(Some(&before), None);
        Some(before)
    }

    /// Enters a service's name.
    pub(crate) fn add_name(&mut self, service: &ServiceRecord) {
        let project: Arc<str> = Arc::from(service.project.as_str());
        let names = self.names.entry(project).or_default();
        names.insert(Arc::from(service.name.as_str()), service.id);
    }

    /// Frees a service's name.
    pub(crate) fn drop_name(&mut self, service: &ServiceRecord) {
        if let Some(names) = self.names.get_mut(service.project.as_str()) {
            names.remove(service.name.as_str());
            if names.is_empty() {
                self.names.remove(service.project.as_str());
            }
        }
    }

    fn move_array(&mut self, before: Option<&ArrayRecord>, after: Option<&ArrayRecord>) {
        let pending = |array: Option<&'_ ArrayRecord>| {
            array
                .filter(|array| array.is_waiting())
                .map(|array| (JobId::single(array.number), array.spec.clone()))
        };
        let (was, is) = (pending(before), pending(after));
        self.move_pending(
            was.as_ref().map(|(id, spec)| (*id, spec)),
            is.as_ref().map(|(id, spec)| (*id, spec)),
        );
        let end = |array: &ArrayRecord| Some((array.ended_at?, JobId::single(array.number)));
        let (was, is) = (before.and_then(end), after.and_then(end));
        if was != is {
            was.map(|entry| self.ended.remove(&entry));
            is.map(|entry| self.ended.insert(entry));
        }
        let size = |array: &ArrayRecord| array.spec.array.as_ref().map_or(0, |asked| asked.count());
        self.job_count += after.map_or(0, size);
        self.job_count -= before.map_or(0, size);
    }
}

/// The array whose element's state differs, where it does.
fn moved_element(before: Option<&JobRecord>, after: Option<&JobRecord>) -> Option<u64> {
    let id = after.or(before)?.id;
    let moved = before.map(|job| job.state) != after.map(|job| job.state);
    (id.element != JobId::NO_ELEMENT && moved).then_some(id.number)
}

fn waiting(job: &JobRecord) -> Option<(JobId, &Arc<JobSpec>)> {
    (job.state == JobState::Pend).then_some((job.id, &job.spec))
}

fn delay(job: &JobRecord) -> Option<(ClusterTime, JobId)> {
    (job.state == JobState::Pend && job.not_before > ClusterTime(0))
        .then_some((job.not_before, job.id))
}

fn end(job: &JobRecord) -> Option<(ClusterTime, JobId)> {
    job.ended_at
        .filter(|_| job.state.is_terminal())
        .map(|at| (at, job.id))
}

impl Requests {
    fn add(&mut self, asked: Resources) {
        *self.cpus.entry(asked.cpus).or_default() += 1;
        *self.memory.entry(asked.memory).or_default() += 1;
    }

    fn remove(&mut self, asked: Resources) {
        if let Some(count) = self.cpus.get_mut(&asked.cpus) {
            *count -= 1;
            if *count == 0 {
                self.cpus.remove(&asked.cpus);
            }
        }
        if let Some(count) = self.memory.get_mut(&asked.memory) {
            *count -= 1;
            if *count == 0 {
                self.memory.remove(&asked.memory);
            }
        }
    }
}
