//! What the jobs of a host hold of it; derived from the jobs.

use imbl::{OrdMap, OrdSet};
use xce_model::{Bytes, JobId, MilliCpu};
use xce_replica::JobRecord;

/// What is held of one host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Usage {
    /// Processors held.
    pub cpus: MilliCpu,
    /// Memory held.
    pub memory: Bytes,
    /// Processors held by replicas of services, which do not end by themselves.
    pub lasting_cpus: MilliCpu,
    /// Memory held by replicas of services.
    pub lasting_memory: Bytes,
    /// Ports held, each with its holder.
    pub ports: OrdMap<u16, JobId>,
    /// The jobs that hold something.
    pub jobs: OrdSet<JobId>,
}

impl Usage {
    pub(crate) fn add(&mut self, job: &JobRecord) {
        let asked = job.spec.template.resources;
        self.cpus.0 += asked.cpus.0;
        self.memory.0 += asked.memory.0;
        if job.service.is_some() {
            self.lasting_cpus.0 += asked.cpus.0;
            self.lasting_memory.0 += asked.memory.0;
        }
        for (_, port) in &job.ports {
            self.ports.insert(*port, job.id);
        }
        self.jobs.insert(job.id);
    }

    pub(crate) fn subtract(&mut self, job: &JobRecord) {
        let asked = job.spec.template.resources;
        self.cpus.0 -= asked.cpus.0;
        self.memory.0 -= asked.memory.0;
        if job.service.is_some() {
            self.lasting_cpus.0 -= asked.cpus.0;
            self.lasting_memory.0 -= asked.memory.0;
        }
        for (_, port) in &job.ports {
            self.ports.remove(port);
        }
        self.jobs.remove(&job.id);
    }
}
