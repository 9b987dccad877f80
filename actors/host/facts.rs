//! What is remembered of a host.

use xce_model::{Bytes, ClusterTime, Incarnation, JobId, MilliCpu, Millis, Run, ServiceId};

/// What a worker says of its machine when it joins.
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
pub struct Inventory {
    /// Name of the host.
    pub name: String,
    /// Identity of the worker's state directory.
    pub incarnation: Incarnation,
    /// Boot id of the machine; another one means that all runs ended.
    pub boot_id: String,
    /// Address that services listen on.
    pub address: String,
    /// Processors offered.
    pub cpus: MilliCpu,
    /// Memory offered.
    pub memory: Bytes,
    /// First port of the range for named ports.
    pub port_first: u16,
    /// Last port of the range.
    pub port_last: u16,
    /// Labels, sorted by name.
    pub labels: Vec<(String, String)>,
    /// Limits that this host cannot enforce, such as `memory`.
    pub not_enforced: Vec<String>,
}

/// A run that is not counted any more, and that may still live on its host: it was given up with the
/// host, or its worker reported it on joining. It holds its ports there, and what it asks for, until
/// its end is confirmed.
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
pub struct Remnant {
    /// The job.
    pub job: JobId,
    /// The run.
    pub run: Run,
    /// Ports that it may listen on.
    pub ports: Vec<u16>,
    /// Processors that it may use.
    pub cpus: MilliCpu,
    /// Memory that it may use.
    pub memory: Bytes,
    /// Name of the job; empty where its host was not asked.
    pub name: String,
    /// Whether the ledger never knew its job, since that belongs to a time that is lost: it is left
    /// alone until an operator decides.
    pub quarantined: bool,
}

/// A committed change of a host.
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
pub enum HostFact {
    /// The worker joined, for the first time or again; it is up.
    Joined {
        /// What it offers.
        inventory: Inventory,
        /// Runs that it has and that are not counted any more, beside the known ones: they are to be
        /// stopped.
        stale: Vec<Remnant>,
        /// Known runs of that kind that it does not have, so that they have ended.
        gone: Vec<(JobId, Run)>,
    },
    /// It missed beats.
    Suspected {
        /// Name of the host.
        host: String,
    },
    /// It answered again before it was lost.
    Recovered {
        /// Name of the host.
        host: String,
    },
    /// It was silent for the whole grace.
    Lost {
        /// Name of the host.
        host: String,
    },
    /// Its worker was stopped cleanly.
    Left {
        /// Name of the host.
        host: String,
    },
    /// It takes no new jobs.
    Closed {
        /// Name of the host.
        host: String,
        /// Why, in a sentence.
        reason: String,
        /// Who closed it; empty where XCE did.
        by: String,
    },
    /// It takes new jobs again.
    Opened {
        /// Name of the host.
        host: String,
        /// Who opened it.
        by: String,
    },
    /// It could not start a job, by its own fault.
    LaunchFailed {
        /// Name of the host.
        host: String,
        /// What went wrong.
        text: String,
    },
    /// It started a job well, so that earlier launch failures are forgotten.
    LaunchSucceeded {
        /// Name of the host.
        host: String,
    },
    /// The facts of its worker up to here are committed.
    Marked {
        /// Name of the host.
        host: String,
        /// Epoch of the worker's spool.
        epoch: u64,
        /// Last sequence number committed.
        sequence: u64,
    },
    /// The operator removed it.
    Removed {
        /// Name of the host.
        host: String,
    },
    /// A replica of a service failed on it before it had run there for long.
    ReplicaFailed {
        /// Name of the host.
        host: String,
        /// The service.
        service: ServiceId,
    },
    /// It is closed because what fails on it fails by its fault; later one job is let onto it, to
    /// try it.
    Blamed {
        /// Name of the host.
        host: String,
        /// Why, in a sentence.
        reason: String,
        /// How often in a row, from 1.
        step: u32,
        /// No job is let onto it before this time.
        not_before: ClusterTime,
    },
    /// What runs on it is to leave it, and nothing new comes; replaces an earlier drain.
    DrainBegan {
        /// Name of the host.
        host: String,
        /// How long batch jobs may run on, and replicas may wait for their replacement; as long as
        /// it takes when absent.
        patience: Option<Millis>,
        /// Why, in a sentence.
        reason: String,
        /// Who wants it.
        by: String,
    },
    /// A run in quarantine is to be stopped.
    QuarantineEnded {
        /// Name of the host.
        host: String,
        /// The job.
        job: JobId,
        /// The run.
        run: Run,
        /// Who wants it.
        by: String,
    },
    /// It is no longer drained; what has not left stays.
    DrainEnded {
        /// Name of the host.
        host: String,
        /// Who wants it.
        by: String,
    },
    /// Its worker confirmed the end of a run that is not counted any more.
    RunGone {
        /// Name of the host.
        host: String,
        /// The job.
        job: JobId,
        /// The run.
        run: Run,
    },
    /// An operator knows that the machine is off: it is lost, and nothing lives on it.
    ConfirmedDead {
        /// Name of the host.
        host: String,
        /// Who knows it.
        by: String,
    },
}

impl HostFact {
    /// Name of the host that it concerns.
    pub fn host(&self) -> &str {
        match self {
            Self::Joined { inventory, .. } => &inventory.name,
            Self::Suspected { host }
            | Self::RunGone { host, .. }
            | Self::ConfirmedDead { host, .. }
            | Self::Recovered { host }
            | Self::Lost { host }
            | Self::Left { host }
            | Self::Closed { host, .. }
            | Self::Opened { host, .. }
            | Self::LaunchFailed { host, .. }
            | Self::LaunchSucceeded { host }
            | Self::Marked { host, .. }
            | Self::Removed { host }
            | Self::ReplicaFailed { host, .. }
            | Self::Blamed { host, .. }
            | Self::QuarantineEnded { host, .. }
            | Self::DrainBegan { host, .. }
            | Self::DrainEnded { host, .. } => host,
        }
    }
}
