//! What users see of a host.

use xce_model::{Bytes, MilliCpu};

use crate::state::{HostLife, HostRecord};

/// A host in machine output.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct HostView {
    /// Name.
    pub name: String,
    /// Life: up, suspect, lost or away.
    pub state: HostLife,
    /// One sentence: why it is in this state.
    pub reason: String,
    /// Whether it takes new jobs.
    pub takes_jobs: bool,
    /// Processors offered.
    pub cpus: String,
    /// Processors in use.
    pub cpus_used: String,
    /// Memory offered.
    pub memory: String,
    /// Memory in use.
    pub memory_used: String,
    /// Jobs that hold it.
    pub jobs: u32,
    /// Address that services listen on.
    pub address: String,
    /// Labels, each `name=value`.
    pub labels: Vec<String>,
    /// Identity of the worker's state directory.
    pub incarnation: String,
    /// Limits that it cannot enforce.
    pub not_enforced: Vec<String>,
}

/// What of a host is in use.
#[derive(Debug, Clone, Copy, Default)]
pub struct InUse {
    /// Processors.
    pub cpus: MilliCpu,
    /// Memory.
    pub memory: Bytes,
    /// Jobs.
    pub jobs: u32,
}

/// What users see of one host.
pub fn view(host: &HostRecord, used: InUse) -> HostView {
    let inventory = &host.inventory;
    HostView {
        name: inventory.name.clone(),
        state: host.life,
        reason: reason(host),
        takes_jobs: host.takes_jobs(),
        cpus: inventory.cpus.to_string(),
        cpus_used: used.cpus.to_string(),
        memory: inventory.memory.rounded(),
        memory_used: used.memory.rounded(),
        jobs: used.jobs,
        address: inventory.address.clone(),
        labels: inventory
            .labels
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect(),
        incarnation: inventory.incarnation.to_string(),
        not_enforced: inventory.not_enforced.clone(),
    }
}

fn reason(host: &HostRecord) -> String {
    let life = match host.life {
        HostLife::Up => "answers",
        HostLife::Suspect => "missed beats; its jobs keep their state",
        HostLife::Lost => "silent for the whole grace; its jobs were recovered",
        HostLife::Away => "its worker was stopped",
    };
    match &host.closed {
        None => life.to_owned(),
        Some(closure) => {
            let by = if closure.by.is_empty() {
                "xce"
            } else {
                &closure.by
            };
            format!("{life}; closed by {by}: {}", closure.reason)
        }
    }
}
