//! What the jobs of a host hold of it; derived from the jobs.

use imbl::{OrdMap, OrdSet};
use xce_host::Remnant;
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
    /// Runs that are not counted any more and may still live there; they hold what they had.
    pub remnants: u32,
    /// Ports that those may listen on, each with their number.
    pub remnant_ports: OrdMap<u16, u32>,
}

impl Usage {
    /// Counts a job in. Sums wrap rather than fail: what was counted in is counted out again exactly,
    /// and no placement that was checked comes near.
    pub(crate) fn add(&mut self, job: &JobRecord) {
        self.count(job, u64::wrapping_add);
        for (_, port) in &job.ports {
            self.ports.insert(*port, job.id);
        }
        self.jobs.insert(job.id);
    }

    /// Counts a job out.
    pub(crate) fn subtract(&mut self, job: &JobRecord) {
        self.count(job, u64::wrapping_sub);
        for (_, port) in &job.ports {
            self.ports.remove(port);
        }
        self.jobs.remove(&job.id);
    }

    /// Whether nothing is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.remnants == 0
    }

    /// Whether a port is held.
    pub fn holds_port(&self, port: u16) -> bool {
        self.ports.contains_key(&port) || self.remnant_ports.contains_key(&port)
    }

    /// Counts in what a run that is not counted any more may still use.
    pub(crate) fn add_remnant(&mut self, remnant: &Remnant) {
        self.cpus.0 = self.cpus.0.wrapping_add(remnant.cpus.0);
        self.memory.0 = self.memory.0.wrapping_add(remnant.memory.0);
        for port in &remnant.ports {
            *self.remnant_ports.entry(*port).or_default() += 1;
        }
        self.remnants += 1;
    }

    /// Counts out a run whose end is confirmed.
    pub(crate) fn subtract_remnant(&mut self, remnant: &Remnant) {
        self.cpus.0 = self.cpus.0.wrapping_sub(remnant.cpus.0);
        self.memory.0 = self.memory.0.wrapping_sub(remnant.memory.0);
        for port in &remnant.ports {
            if let Some(count) = self.remnant_ports.get_mut(port) {
                *count -= 1;
                if *count == 0 {
                    self.remnant_ports.remove(port);
                }
            }
        }
        self.remnants -= 1;
    }

    fn count(&mut self, job: &JobRecord, with: fn(u64, u64) -> u64) {
        let asked = job.spec.template.resources;
        self.cpus.0 = with(self.cpus.0, asked.cpus.0);
        self.memory.0 = with(self.memory.0, asked.memory.0);
        if job.service.is_some() {
            self.lasting_cpus.0 = with(self.lasting_cpus.0, asked.cpus.0);
            self.lasting_memory.0 = with(self.lasting_memory.0, asked.memory.0);
        }
    }
}
