//! The event that a group was decided on: with the view at a position and the group's times it is
//! everything that the decision depends on, so that it can be made again from the log.

use xce_host::facts::{Inventory, Remnant};
use xce_host::rules::{Command as HostCommand, Patience};
use xce_model::{Incarnation, JobId, Millis, ServiceId};
use xce_replica::rules::Command as JobCommand;
use xce_service::rules::Command as ServiceCommand;

/// Version of the rules of this program, recorded with each group. It is raised whenever a rule of
/// a service, job, host or of placement decides otherwise than before.
/// Source: counted, 1 is the first that was recorded.
pub const RULES_VERSION: u16 = 1;

/// What a decision was made on. Times are those of its group, the author its principal.
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
#[serde(rename_all = "snake_case")]
pub enum GroupEvent {
    /// Something that concerns a service was committed.
    ServiceChanged(ServiceId),
    /// The timer of a service ran out.
    ServiceDue(ServiceId),
    /// Somebody wants something of a service, as resolved.
    ServiceCommand {
        /// Which service.
        service: ServiceId,
        /// What is wanted.
        command: Box<ServiceCommand>,
    },
    /// Somebody wants something of a job, an element, or an array.
    JobCommand {
        /// Which.
        job: JobId,
        /// What is wanted.
        command: JobCommand,
    },
    /// The scheduler planned; this is one placement of its plan.
    Planned {
        /// Its place in the plan, from 0.
        nth: u32,
    },
    /// Planned from the state as it was to be when a worker's facts that free room had applied.
    PlannedAhead {
        /// Its place in the plan, from 0.
        nth: u32,
        /// The worker's host.
        host: String,
    },
    /// A worker was silent.
    HostSilent {
        /// Its host.
        host: String,
        /// How long.
        silent: Millis,
        /// How silences were judged.
        patience: Box<Patience>,
    },
    /// A worker gave a sign of life.
    HostBeat {
        /// Its host.
        host: String,
        /// Whether its disk was full.
        disk_full: bool,
    },
    /// A worker stopped cleanly.
    HostLeft {
        /// Its host.
        host: String,
    },
    /// A worker joined.
    HostJoined(Box<Joining>),
    /// An operator wants something of a host.
    HostCommand {
        /// Which host.
        host: String,
        /// What is wanted.
        command: Box<HostCommand>,
    },
    /// What ended long ago was due to be cleaned up.
    CleanUp {
        /// How long ended jobs are kept.
        keep: Millis,
    },
    /// The deadline of a host's drain had passed.
    HostDrainDue {
        /// Which host.
        host: String,
    },
}

/// A worker that joins.
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
pub struct Joining {
    /// What it says of its machine.
    pub inventory: Inventory,
    /// The worker that answered under the same name then.
    pub connected: Option<Incarnation>,
    /// Its runs that were not counted any more.
    pub runs: Vec<Remnant>,
    /// Epoch of its spool, and the last number in it that it knew to be committed.
    pub spool: (u64, u64),
}
