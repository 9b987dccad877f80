//! A job that waits, or a pending element of an array that has no record of its own.

use std::sync::Arc;

use xce_ledger::{ArrayRecord, View};
use xce_model::spec::JobSpec;
use xce_model::{ClusterTime, JobId, Run, ServiceId, Version};
use xce_replica::{JobRecord, ServiceRef};

/// What placement needs to know of a waiting job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate<'a> {
    pub id: JobId,
    pub run: Run,
    pub spec: &'a Arc<JobSpec>,
    pub service: Option<ServiceRef>,
    pub avoid: &'a [Arc<str>],
    pub not_before: ClusterTime,
}

/// What decides whether a job fits on a host, but for the hosts it avoids: jobs of one shape fit, or
/// do not fit, alike.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Shape<'a> {
    cpus: u64,
    memory: u64,
    constraints: &'a [(String, String)],
    ports: Vec<Option<u16>>,
    version: Option<(ServiceId, Version)>,
}

impl<'a> Candidate<'a> {
    /// Its shape; absent for a job that avoids hosts.
    pub fn shape(&self) -> Option<Shape<'a>> {
        let template = &self.spec.template;
        self.avoid.is_empty().then(|| Shape {
            cpus: template.resources.cpus.0,
            memory: template.resources.memory.0,
            constraints: &template.constraints,
            ports: template.ports.iter().map(|spec| spec.port).collect(),
            version: self
                .service
                .map(|replica| (replica.service, replica.version)),
        })
    }

    pub fn of_job(job: &'a JobRecord) -> Self {
        Self {
            id: job.id,
            run: job.run.saturating_add(1),
            spec: &job.spec,
            service: job.service,
            avoid: &job.avoid,
            not_before: job.not_before,
        }
    }

    pub fn of_element(array: &'a ArrayRecord, element: u32) -> Self {
        Self {
            id: JobId::element(array.number, element),
            run: 1,
            spec: &array.spec,
            service: None,
            avoid: &[],
            not_before: ClusterTime(0),
        }
    }

    /// The array that it belongs to.
    pub fn array(&self, view: &'a View) -> Option<&'a Arc<ArrayRecord>> {
        if self.id.element == JobId::NO_ELEMENT {
            return None;
        }
        view.array(self.id.number)
    }
}
