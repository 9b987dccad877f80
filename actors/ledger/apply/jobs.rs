//! Facts of jobs and arrays.

use std::sync::Arc;

use xce_model::limits::{ARRAY_ELEMENTS_MAX, JOBS_MAX};
use xce_model::spec::{ArraySpec, JobSpec};
use xce_model::{Exit, JobId, JobState, Run, ServiceId, Start, Version};
use xce_replica::{JobFact, JobRecord, ServiceRef};

use super::{Fit, Step};
use crate::arrays::ArrayRecord;
use crate::group::Created;
use crate::ranges::Ranges;
use crate::view::{Key, View};

impl Step<'_> {
    pub(super) fn apply_job(&mut self, fact: &JobFact) -> Fit {
        match fact {
            JobFact::Submitted { spec, .. } => self.submit(spec),
            JobFact::ReplicasSubmitted {
                service,
                version,
                indices,
            } => self.submit_replicas(*service, *version, indices),
            JobFact::Held { job }
            | JobFact::Released { job }
            | JobFact::CleanedUp { job }
            | JobFact::Placed { job, .. }
            | JobFact::Started { job, .. }
            | JobFact::Ready { job, .. }
            | JobFact::NotReady { job, .. }
            | JobFact::Restarting { job, .. }
            | JobFact::StopRequested { job, .. }
            | JobFact::Ended { job, .. }
            | JobFact::Requeued { job, .. }
            | JobFact::Suspended { job, .. }
            | JobFact::ProbeUnrunnable { job, .. }
            | JobFact::RestartWanted { job, .. }
            | JobFact::RestartUnwanted { job, .. }
            | JobFact::RestartGranted { job, .. }
            | JobFact::StopHangs { job, .. }
            | JobFact::Resumed { job, .. }
            | JobFact::Drained { job, .. }
            | JobFact::MoveBegan { job, .. }
            | JobFact::MoveEnded { job, .. } => self.apply_to(*job, fact),
        }
    }

    fn submit(&mut self, spec: &JobSpec) -> Fit {
        let elements = match &spec.array {
            None => None,
            Some(asked) => match elements_of(asked) {
                Some(elements) => Some(elements),
                None => return Fit::Ignored,
            },
        };
        if self.view.job_count + elements.as_ref().map_or(1, Ranges::count) > JOBS_MAX {
            return Fit::Ignored;
        }
        let spec = self.specs.share(spec);
        self.view.last_job += 1;
        let number = self.view.last_job;
        let at = (self.at.lsn, self.at.now, self.at.wall);
        match elements {
            None => {
                let id = JobId::single(number);
                self.view.put_job(JobRecord::submitted(id, spec, None, at));
                self.touched.push(Key::Job(id));
            }
            Some(elements) => {
                self.view
                    .put_array(ArrayRecord::submitted(number, spec, elements, at));
                self.touched.push(Key::Array(number));
            }
        }
        self.created.push(Created::Job(JobId::single(number)));
        Fit::Applied
    }

    fn submit_replicas(&mut self, service: ServiceId, version: Version, indices: &[u32]) -> Fit {
        let Some(spec) = self.spec_of(service, version) else {
            return Fit::Ignored;
        };
        let first = self.view.last_job + 1;
        let mut count = 0;
        let mut held = None;
        for index in indices {
            let replicas = self.view.replicas(service);
            if replicas.is_some_and(|replicas| replicas.has_index(version, *index))
                && held
                    .get_or_insert_with(|| self.view.indices_held(service, version))
                    .contains(index)
            {
                continue;
            }
            if self.view.job_count >= JOBS_MAX {
                break;
            }
            self.view.last_job += 1;
            let id = JobId::single(self.view.last_job);
            let replica = ServiceRef {
                service,
                version,
                index: *index,
            };
            let at = (self.at.lsn, self.at.now, self.at.wall);
            let record = JobRecord::submitted(id, spec.clone(), Some(replica), at);
            self.view.put_job(record);
            self.touched.push(Key::Job(id));
            count += 1;
        }
        if count == 0 {
            return Fit::Ignored;
        }
        self.touched.push(Key::Service(service));
        self.created.push(Created::Replicas { first, count });
        Fit::Applied
    }

    fn spec_of(&self, service: ServiceId, version: Version) -> Option<Arc<JobSpec>> {
        let service = self.view.services.get(&service)?;
        service.version(version).map(|found| found.spec.clone())
    }

    fn apply_to(&mut self, id: JobId, fact: &JobFact) -> Fit {
        let (before, is_new) = match self.view.jobs.get(&id) {
            Some(job) => (job.clone(), false),
            None if id.element == JobId::NO_ELEMENT => return self.apply_to_array(id.number, fact),
            None => match pending_element(self.view, id) {
                Some(job) => (Arc::new(job), true),
                None => return self.apply_to_folded(id, fact),
            },
        };
        if !fits(self.view, &before, fact) {
            return Fit::Ignored;
        }
        if let JobFact::CleanedUp { .. } = fact {
            self.clean_up(&before);
            return Fit::Applied;
        }
        let mut after = (*before).clone();
        after.apply(fact, self.at.now, self.at.lsn);
        if let JobFact::Placed { host, .. } = fact
            && let Some((name, _)) = self.view.hosts.get_key_value(host.as_str())
        {
            after.host = Some(name.clone());
        }
        if is_new {
            self.change_array(id.number, |array| {
                array.pending.remove(id.element);
            });
        }
        let element = id.element != JobId::NO_ELEMENT && before.state != after.state;
        if let Some(replica) = after.service {
            self.touched.push(Key::Service(replica.service));
        }
        self.view.note_served(&before, &after);
        self.leave_behind(&before, &after);
        self.view.put_job(after);
        self.touched.push(Key::Job(id));
        if element {
            self.touched.push(Key::Array(id.number));
        }
        Fit::Applied
    }

    fn clean_up(&mut self, job: &JobRecord) {
        let id = job.id;
        self.view.drop_job(id, self.at.lsn);
        self.touched.push(Key::Job(id));
        if id.element == JobId::NO_ELEMENT {
            return;
        }
        let now = self.at.now;
        self.change_array(id.number, |array| {
            match job.state {
                JobState::Done => array.done.insert(id.element),
                JobState::Exit
                | JobState::Pend
                | JobState::Held
                | JobState::Start
                | JobState::Run
                | JobState::Susp
                | JobState::Stopping => array.exit.insert(id.element),
            };
            if array.pending.is_empty() && array.counts.total() == 0 {
                array.ended_at = Some(now);
            }
        });
    }

    fn change_array(&mut self, number: u64, change: impl FnOnce(&mut ArrayRecord)) {
        let Some(array) = self.view.arrays.get(&number) else {
            return;
        };
        let mut after = (**array).clone();
        change(&mut after);
        after.changed = self.at.lsn;
        self.view.put_array(after);
        self.touched.push(Key::Array(number));
    }

    /// An element that was cancelled before it had a job of its own may wait again.
    fn apply_to_folded(&mut self, id: JobId, fact: &JobFact) -> Fit {
        let array = self.view.arrays.get(&id.number);
        let cancelled = array.is_some_and(|array| array.cancelled.contains(id.element));
        if !cancelled || !matches!(fact, JobFact::Requeued { .. }) {
            return Fit::Ignored;
        }
        self.change_array(id.number, |array| array.uncancel(id.element));
        Fit::Applied
    }

    /// A fact that names the array as a whole concerns its pending elements.
    fn apply_to_array(&mut self, number: u64, fact: &JobFact) -> Fit {
        let Some(array) = self.view.arrays.get(&number).cloned() else {
            return Fit::Ignored;
        };
        match fact {
            JobFact::Held { .. } if !array.held && !array.pending.is_empty() => {
                self.change_array(number, |array| array.held = true);
            }
            JobFact::Released { .. } if array.held => {
                self.change_array(number, |array| array.held = false);
            }
            JobFact::Requeued { .. } if !array.cancelled.is_empty() => {
                self.change_array(number, ArrayRecord::uncancel_all);
            }
            JobFact::Ended { exit, .. } if !array.pending.is_empty() => self.cancel(number, exit),
            JobFact::CleanedUp { .. } if array.ended_at.is_some() => {
                self.view.drop_array(number, self.at.lsn);
                self.touched.push(Key::Array(number));
            }
            JobFact::Held { .. }
            | JobFact::Released { .. }
            | JobFact::Ended { .. }
            | JobFact::CleanedUp { .. }
            | JobFact::Submitted { .. }
            | JobFact::ReplicasSubmitted { .. }
            | JobFact::Placed { .. }
            | JobFact::Started { .. }
            | JobFact::Ready { .. }
            | JobFact::NotReady { .. }
            | JobFact::Restarting { .. }
            | JobFact::StopRequested { .. }
            | JobFact::Requeued { .. }
            | JobFact::Suspended { .. }
            | JobFact::ProbeUnrunnable { .. }
            | JobFact::RestartWanted { .. }
            | JobFact::RestartUnwanted { .. }
            | JobFact::RestartGranted { .. }
            | JobFact::StopHangs { .. }
            | JobFact::Resumed { .. }
            | JobFact::Drained { .. }
            | JobFact::MoveBegan { .. }
            | JobFact::MoveEnded { .. } => return Fit::Ignored,
        }
        Fit::Applied
    }

    fn cancel(&mut self, number: u64, exit: &Exit) {
        let now = self.at.now;
        self.change_array(number, |array| {
            let pending = std::mem::take(&mut array.pending);
            array.cancelled = array.cancelled.with(&pending);
            array.cancel = Some(exit.clone());
            if array.counts.total() == 0 {
                array.ended_at = Some(now);
            }
        });
    }
}

/// The elements that were asked for; absent when there are none or too many, or a range is empty or
/// overlaps another.
fn elements_of(asked: &ArraySpec) -> Option<Ranges> {
    let elements = Ranges::of(&asked.ranges);
    let last = elements.as_slice().last()?.1;
    let is_sound =
        asked.ranges.iter().all(|(first, last)| first <= last) && asked.count() == elements.count();
    let is_named = last != JobId::NO_ELEMENT && elements.count() <= ARRAY_ELEMENTS_MAX;
    (is_sound && is_named).then_some(elements)
}

/// The job that a pending element of an array would be.
pub(crate) fn pending_element(view: &View, id: JobId) -> Option<JobRecord> {
    let array = view.arrays.get(&id.number)?;
    if !array.pending.contains(id.element) {
        return None;
    }
    let at = (array.changed, array.submitted_at, array.submitted);
    let mut job = JobRecord::submitted(id, array.spec.clone(), None, at);
    job.state = if array.held {
        JobState::Held
    } else {
        JobState::Pend
    };
    Some(job)
}

/// Whether a fact fits the job: its run is current and its state allows it.
fn fits(view: &View, job: &JobRecord, fact: &JobFact) -> bool {
    let is_run = |run: &Run| *run == job.run;
    let is_start = |start: &Start| *start == job.start;
    match fact {
        JobFact::Submitted { .. } | JobFact::ReplicasSubmitted { .. } => false,
        JobFact::Held { .. } => job.state == JobState::Pend,
        JobFact::Released { .. } => job.state == JobState::Held,
        JobFact::CleanedUp { .. } => job.state.is_terminal(),
        JobFact::Placed {
            run, host, ports, ..
        } => {
            job.state == JobState::Pend
                && *run == job.run.saturating_add(1)
                && view.hosts.contains_key(host.as_str())
                && ports_are_free(view, host, ports)
        }
        JobFact::Started { run, start, .. } => {
            is_run(run) && job.state.holds_host() && *start > job.start
        }
        JobFact::Ready { run, start, .. } | JobFact::NotReady { run, start, .. } => {
            is_run(run) && is_start(start) && job.state == JobState::Run
        }
        JobFact::Restarting { run, start, .. } => {
            is_run(run) && job.state.holds_host() && *start >= job.start
        }
        JobFact::StopRequested { run, .. } => is_run(run) && job.state.holds_host(),
        JobFact::Ended { run, .. } => is_run(run) && !job.state.is_terminal(),
        JobFact::Requeued { run, .. } => {
            is_run(run) && (job.state.holds_host() || job.state.is_terminal())
        }
        JobFact::Suspended { run, .. } => is_run(run) && job.state == JobState::Run,
        JobFact::Resumed { run, .. } => is_run(run) && job.state == JobState::Susp,
        JobFact::ProbeUnrunnable { run, start, .. } | JobFact::RestartWanted { run, start, .. } => {
            is_run(run) && is_start(start) && job.state == JobState::Run
        }
        JobFact::RestartUnwanted { run, start, .. } => {
            is_run(run) && is_start(start) && job.restart_wish.is_some()
        }
        JobFact::RestartGranted {
            run, start, wish, ..
        } => is_run(run) && is_start(start) && job.state == JobState::Run && job.has_wish(*wish),
        JobFact::StopHangs { run, .. } => is_run(run) && job.state.holds_host(),
        JobFact::Drained { run, .. } => is_run(run) && job.state == JobState::Stopping,
        JobFact::MoveBegan { run, .. } => is_run(run) && may_move(job),
        JobFact::MoveEnded { run, .. } => is_run(run) && may_stay(view, job),
    }
}

/// Only a replica that goes on can be moved.
fn may_move(job: &JobRecord) -> bool {
    job.service.is_some()
        && job.state.holds_host()
        && job.state != JobState::Stopping
        && !job.moving
}

/// One that was to be moved gets its index back only while no other has it.
fn may_stay(view: &View, job: &JobRecord) -> bool {
    let taken = job.service.is_some_and(|of| {
        view.replicas(of.service)
            .is_some_and(|replicas| replicas.has_index(of.version, of.index))
    });
    job.moving && !taken
}

fn ports_are_free(view: &View, host: &str, ports: &[(String, u16)]) -> bool {
    let held = view.usage.get(host);
    ports.iter().enumerate().all(|(place, (_, port))| {
        held.is_none_or(|usage| !usage.holds_port(*port))
            && ports[..place].iter().all(|(_, other)| other != port)
    })
}
