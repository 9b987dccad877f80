//! What users see of a host.

use xce_model::{Bytes, MilliCpu};

use crate::facts::Remnant;
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
    /// Since when, as RFC 3339.
    pub since: String,
    /// One sentence: why it is in this state.
    pub reason: String,
    /// Whether it takes new jobs.
    pub takes_jobs: bool,
    /// Its drain, where it is drained.
    pub drain: Option<DrainView>,
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
    /// Of those, the ones that cannot be reached, since it does not answer.
    pub jobs_unreachable: u32,
    /// Runs that are not counted any more and may still live there, each `job run n`.
    pub remnants: Vec<String>,
    /// Runs that the cluster never knew, and that are left alone until an operator decides.
    pub quarantined: Vec<QuarantinedView>,
    /// Address that services listen on.
    pub address: String,
    /// Labels, each `name=value`.
    pub labels: Vec<String>,
    /// Identity of the worker's state directory.
    pub incarnation: String,
    /// Limits that it cannot enforce.
    pub not_enforced: Vec<String>,
}

/// A run in quarantine in machine output.
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
pub struct QuarantinedView {
    /// The host that it lives on.
    pub host: String,
    /// Its job.
    pub job: String,
    /// Its run.
    pub run: u32,
    /// Name of the job.
    pub name: String,
    /// Processors that count as used.
    pub cpus: String,
    /// Memory that counts as used.
    pub memory: String,
    /// Ports that count as used.
    pub ports: Vec<u16>,
}

fn quarantined(host: &HostRecord) -> Vec<QuarantinedView> {
    let of = |one: &Remnant| QuarantinedView {
        host: host.inventory.name.clone(),
        job: one.job.to_string(),
        run: one.run,
        name: one.name.clone(),
        cpus: one.cpus.to_string(),
        memory: one.memory.to_string(),
        ports: one.ports.clone(),
    };
    host.quarantined().map(of).collect()
}

/// The drain of a host in machine output.
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
pub struct DrainView {
    /// `draining`, or `drained` when nothing runs there any more.
    pub state: String,
    /// Since when, RFC 3339.
    pub since: String,
    /// Until when batch jobs may run, and replicas wait for their replacement, RFC 3339; absent when
    /// that is as long as it takes.
    pub deadline: Option<String>,
    /// Who wanted it.
    pub by: String,
    /// Why.
    pub reason: String,
    /// What is left, and what holds it: a sentence each.
    pub left: Vec<String>,
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

/// What the view of a host needs beside its record.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// What is in use.
    pub used: InUse,
    /// Since when it is in its state, as RFC 3339.
    pub since: String,
    /// Why it is not declared lost, where the controller doubts its own network.
    pub doubt: Option<String>,
    /// Its drain.
    pub drain: Option<DrainView>,
}

/// What users see of one host.
pub fn view(host: &HostRecord, around: Surroundings) -> HostView {
    let inventory = &host.inventory;
    let used = around.used;
    let unreachable = !host.is_reachable();
    HostView {
        name: inventory.name.clone(),
        state: host.life,
        reason: reason(host, around.doubt.as_deref()),
        since: around.since,
        takes_jobs: host.takes_jobs(),
        drain: around.drain,
        cpus: inventory.cpus.to_string(),
        cpus_used: used.cpus.to_string(),
        memory: inventory.memory.rounded(),
        memory_used: used.memory.rounded(),
        jobs: used.jobs,
        jobs_unreachable: if unreachable { used.jobs } else { 0 },
        quarantined: quarantined(host),
        remnants: host
            .remnants
            .iter()
            .filter(|one| !one.quarantined)
            .map(|one| format!("{} run {}", one.job, one.run))
            .collect(),
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

fn reason(host: &HostRecord, doubt: Option<&str>) -> String {
    let life = match (host.life, &host.dead) {
        (HostLife::Up, _) => "answers".to_owned(),
        (HostLife::Suspect, _) => {
            let doubt = doubt.map(|doubt| format!("; {doubt}"));
            format!(
                "missed beats; its jobs keep their state{}",
                doubt.unwrap_or_default()
            )
        }
        (HostLife::Lost, None) => "silent for the whole grace: its batch jobs were recovered, its \
                                   replicas are replaced"
            .to_owned(),
        (HostLife::Lost, Some(by)) => format!("{by} knows that it is off; its jobs were recovered"),
        (HostLife::Away, _) => "its worker was stopped; its jobs go on".to_owned(),
    };
    let quarantined = host.quarantined().count();
    let life = match quarantined {
        0 => life,
        count => format!("{life}; {count} runs that the cluster never knew are left alone"),
    };
    let life = match host.remnants.len() - quarantined {
        0 => life,
        1 => format!("{life}; 1 run may still live there"),
        count => format!("{life}; {count} runs may still live there"),
    };
    let life = match &host.drain {
        None => life,
        Some(drain) => format!("{life}; drained by {}: {}", drain.by, drain.reason),
    };
    match &host.closed {
        None => life,
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
