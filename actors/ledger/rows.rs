//! Bodies of snapshot records, version 1; frozen: a change is a new version beside these.
//!
//! Every conversion takes its record apart by name, so that a new field of a record does not compile
//! until it has a place here.

use std::sync::Arc;

use xce_model::spec::{JobSpec, ServiceSettings};
use xce_model::{
    ClusterTime, Exit, JobId, JobState, Lsn, Millis, OperationId, Origin, Run, ServiceId, Start,
    Version, WallTime,
};
use xce_profile::PolicyKind;
use xce_replica::state::{PastRun, ProbeTrouble, RestartPermit, RestartWish, StopRequest};
use xce_replica::{JobRecord, ServiceRef};
use xce_service::facts::{Times, VersionReason};
use xce_service::state::{Backoff, Outcome, Pause, Rollout, ServiceEvent};
use xce_service::{ServiceRecord, VersionRecord};

use crate::arrays::{ArrayRecord, ElementCounts};
use crate::clock::ClusterClock;
use crate::group::Answer;
use crate::members::Epoch;
use crate::ranges::Ranges;

/// Number of a specification within one snapshot, from 0 in the order of first use.
pub(crate) type SpecNumber = u32;

/// What there is one of; the first record.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub(crate) struct MetaV2 {
    pub lsn: Lsn,
    pub term: u64,
    pub clock: ClusterClock,
    pub last_job: u64,
    pub last_service: u64,
    pub last_session: u64,
    pub last_controller: u64,
    pub ignored: u64,
    pub operations_floor: Lsn,
    pub operation_floors: Vec<(String, Lsn)>,
    pub counts: CountsV1,
    pub floors: CountsV1,
    /// 0 stands for the lowest.
    pub level: u16,
    pub epochs: Vec<Epoch>,
}

/// One number for each kind.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize,
)]
pub(crate) struct CountsV1 {
    pub jobs: u64,
    pub arrays: u64,
    pub hosts: u64,
    pub services: u64,
    pub sessions: u64,
    pub operations: u64,
    pub policies: u64,
}

/// A specification; its number is its place among these.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub(crate) struct SpecV1 {
    pub spec: JobSpec,
}

#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub(crate) struct JobV1 {
    pub id: JobId,
    pub spec: SpecNumber,
    pub owner: String,
    pub service: Option<ServiceRef>,
    pub state: JobState,
    pub run: Run,
    pub start: Start,
    pub host: Option<String>,
    pub ports: Vec<(String, u16)>,
    pub pid: u32,
    pub ready_since: Option<ClusterTime>,
    pub running_since: Option<ClusterTime>,
    pub placed_at: Option<ClusterTime>,
    pub stop_took: Option<Millis>,
    pub was_ready: bool,
    pub ready_longest: Millis,
    pub probe_text: String,
    pub unrunnable: Vec<ProbeTrouble>,
    pub restart_wish: Option<RestartWish>,
    pub restart_permit: Option<RestartPermit>,
    pub hanging: String,
    pub shims_lost: u32,
    pub restarts: u32,
    pub moving: bool,
    pub stop: Option<StopRequest>,
    pub exit: Option<Exit>,
    pub stderr: String,
    pub past: Vec<PastRun>,
    pub not_before: ClusterTime,
    pub avoid: Vec<String>,
    pub submitted: WallTime,
    pub started: Option<WallTime>,
    pub ended: Option<WallTime>,
    pub submitted_at: ClusterTime,
    pub ended_at: Option<ClusterTime>,
    pub changed: Lsn,
}

impl JobV1 {
    pub fn of(record: &JobRecord, spec_number: SpecNumber) -> Self {
        // Each field by name: a new one does not compile until it has a place.
        #[rustfmt::skip]
        let JobRecord {
            id, spec: _, owner, service, state, run, start, host, ports, pid, ready_since,
            running_since, placed_at, stop_took, was_ready, ready_longest, probe_text,
            unrunnable, restart_wish, restart_permit, hanging, shims_lost, restarts, moving, stop, exit,
            stderr, past, not_before, avoid, submitted, started, ended, submitted_at, ended_at,
            changed,
        } = record.clone();
        Self {
            id,
            spec: spec_number,
            owner: owner.to_string(),
            service,
            state,
            run,
            start,
            host: host.map(|name| name.to_string()),
            ports,
            pid,
            ready_since,
            running_since,
            placed_at,
            stop_took,
            was_ready,
            ready_longest,
            probe_text,
            unrunnable,
            restart_wish,
            restart_permit,
            hanging,
            shims_lost,
            restarts,
            moving,
            stop,
            exit,
            stderr,
            past,
            not_before,
            avoid: avoid.iter().map(|name| name.to_string()).collect(),
            submitted,
            started,
            ended,
            submitted_at,
            ended_at,
            changed,
        }
    }

    pub fn into_record(self, spec: Arc<JobSpec>) -> JobRecord {
        JobRecord {
            id: self.id,
            spec,
            owner: Arc::from(self.owner),
            service: self.service,
            state: self.state,
            run: self.run,
            start: self.start,
            host: self.host.map(Arc::from),
            ports: self.ports,
            pid: self.pid,
            ready_since: self.ready_since,
            running_since: self.running_since,
            placed_at: self.placed_at,
            stop_took: self.stop_took,
            was_ready: self.was_ready,
            ready_longest: self.ready_longest,
            probe_text: self.probe_text,
            unrunnable: self.unrunnable,
            restart_wish: self.restart_wish,
            restart_permit: self.restart_permit,
            hanging: self.hanging,
            shims_lost: self.shims_lost,
            restarts: self.restarts,
            moving: self.moving,
            stop: self.stop,
            exit: self.exit,
            stderr: self.stderr,
            past: self.past,
            not_before: self.not_before,
            avoid: self.avoid.into_iter().map(Arc::from).collect(),
            submitted: self.submitted,
            started: self.started,
            ended: self.ended,
            submitted_at: self.submitted_at,
            ended_at: self.ended_at,
            changed: self.changed,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub(crate) struct ArrayV1 {
    pub number: u64,
    pub spec: SpecNumber,
    pub owner: String,
    pub held: bool,
    pub pending: Ranges,
    pub done: Ranges,
    pub exit: Ranges,
    pub cancelled: Ranges,
    pub cancel: Option<Exit>,
    pub submitted: WallTime,
    pub submitted_at: ClusterTime,
    pub ended_at: Option<ClusterTime>,
    pub changed: Lsn,
}

impl ArrayV1 {
    pub fn of(record: &ArrayRecord, spec_number: SpecNumber) -> Self {
        let ArrayRecord {
            number,
            spec: _,
            owner,
            held,
            pending,
            done,
            exit,
            cancelled,
            cancel,
            counts: _,
            submitted,
            submitted_at,
            ended_at,
            changed,
        } = record.clone();
        Self {
            number,
            spec: spec_number,
            owner: owner.to_string(),
            held,
            pending,
            done,
            exit,
            cancelled,
            cancel,
            submitted,
            submitted_at,
            ended_at,
            changed,
        }
    }

    pub fn into_record(self, spec: Arc<JobSpec>, counts: ElementCounts) -> ArrayRecord {
        ArrayRecord {
            number: self.number,
            spec,
            owner: Arc::from(self.owner),
            held: self.held,
            pending: self.pending,
            done: self.done,
            exit: self.exit,
            cancelled: self.cancelled,
            cancel: self.cancel,
            counts,
            submitted: self.submitted,
            submitted_at: self.submitted_at,
            ended_at: self.ended_at,
            changed: self.changed,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub(crate) struct ServiceV1 {
    pub id: ServiceId,
    pub name: String,
    pub project: String,
    pub owner: String,
    pub profile: String,
    pub desired: u32,
    pub scaled_by_operator: bool,
    pub settings: ServiceSettings,
    pub settings_origins: Vec<Origin>,
    pub settings_generation: u32,
    pub versions: Vec<VersionV1>,
    pub rollout: Rollout,
    pub paused: Option<Pause>,
    pub short_since: Option<ClusterTime>,
    pub deleting_since: Option<ClusterTime>,
    pub accounted: Lsn,
    pub events: Vec<ServiceEvent>,
    pub created: WallTime,
    pub changed: Lsn,
    /// Position of the last change of its endpoints, which the ledger keeps beside the record.
    pub endpoints: Lsn,
}

#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub(crate) struct VersionV1 {
    pub number: Version,
    pub root: Version,
    pub spec: SpecNumber,
    pub origins: Vec<Origin>,
    pub author: String,
    pub time: WallTime,
    pub reason: VersionReason,
    pub outcome: Outcome,
    pub want: u32,
    pub dispatch_limit: Option<u32>,
    pub limit_since: ClusterTime,
    pub proved: bool,
    pub backoff: Backoff,
    pub times: Times,
}

impl ServiceV1 {
    pub fn of(
        record: &ServiceRecord,
        mut number_of: impl FnMut(&Arc<JobSpec>) -> SpecNumber,
    ) -> Self {
        let ServiceRecord {
            id,
            name,
            project,
            owner,
            profile,
            desired,
            scaled_by_operator,
            settings,
            settings_origins,
            settings_generation,
            versions,
            rollout,
            paused,
            short_since,
            deleting_since,
            accounted,
            events,
            created,
            changed,
        } = record.clone();
        Self {
            id,
            name,
            project,
            owner,
            profile,
            desired,
            scaled_by_operator,
            settings,
            settings_origins,
            settings_generation,
            versions: versions
                .into_iter()
                .map(|version| {
                    let number = number_of(&version.spec);
                    VersionV1::of(version, number)
                })
                .collect(),
            rollout,
            paused,
            short_since,
            deleting_since,
            accounted,
            events,
            created,
            changed,
            endpoints: 0,
        }
    }

    pub fn into_record(self, specs: &[Arc<JobSpec>]) -> Option<ServiceRecord> {
        Some(ServiceRecord {
            id: self.id,
            name: self.name,
            project: self.project,
            owner: self.owner,
            profile: self.profile,
            desired: self.desired,
            scaled_by_operator: self.scaled_by_operator,
            settings: self.settings,
            settings_origins: self.settings_origins,
            settings_generation: self.settings_generation,
            versions: self
                .versions
                .into_iter()
                .map(|version| version.into_record(specs))
                .collect::<Option<Vec<_>>>()?,
            rollout: self.rollout,
            paused: self.paused,
            short_since: self.short_since,
            deleting_since: self.deleting_since,
            accounted: self.accounted,
            events: self.events,
            created: self.created,
            changed: self.changed,
        })
    }
}

impl VersionV1 {
    fn of(record: VersionRecord, spec_number: SpecNumber) -> Self {
        let VersionRecord {
            number,
            root,
            spec: _,
            origins,
            author,
            time,
            reason,
            outcome,
            want,
            dispatch_limit,
            limit_since,
            proved,
            backoff,
            times,
        } = record;
        Self {
            number,
            root,
            spec: spec_number,
            origins,
            author,
            time,
            reason,
            outcome,
            want,
            dispatch_limit,
            limit_since,
            proved,
            backoff,
            times,
        }
    }

    fn into_record(self, specs: &[Arc<JobSpec>]) -> Option<VersionRecord> {
        Some(VersionRecord {
            number: self.number,
            root: self.root,
            spec: specs.get(self.spec as usize)?.clone(),
            origins: self.origins,
            author: self.author,
            time: self.time,
            reason: self.reason,
            outcome: self.outcome,
            want: self.want,
            dispatch_limit: self.dispatch_limit,
            limit_since: self.limit_since,
            proved: self.proved,
            backoff: self.backoff,
            times: self.times,
        })
    }
}

/// An operation that is remembered.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub(crate) struct OperationV1 {
    pub principal: String,
    pub id: OperationId,
    pub lsn: Lsn,
    pub sub: u32,
    pub at: ClusterTime,
    pub answer: Answer,
}

/// What is gone, oldest first.
#[derive(
    Debug, Clone, PartialEq, Eq, Default, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize,
)]
pub(crate) struct TombstonesV1 {
    pub jobs: Vec<(Lsn, JobId)>,
    pub arrays: Vec<(Lsn, u64)>,
    pub hosts: Vec<(Lsn, String)>,
    pub services: Vec<(Lsn, u64)>,
    pub sessions: Vec<(Lsn, u64)>,
    pub policies: Vec<(Lsn, PolicyKind, String)>,
}
