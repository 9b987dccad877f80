//! One sample of each row of a snapshot, as [`super::samples`] for facts.

use crate::feed::{ForgetV1, GoneKeyV1, GoneV1};
use crate::past::MetaV1;
use crate::rows::{
    ArrayV1, CountsV1, JobV1, MetaV2, OperationV1, ServiceV1, SpecV1, TombstonesV1, VersionV1,
};
use crate::{Anchor, Answer, ClusterClock, Created, Ranges, SessionKind, SessionRecord};
use xce_host::state::{Closure, Drain, ReplicaFailures, Trial};
use xce_host::{HostLife, HostRecord};
use xce_model::{
    Cause, ClusterTime, Incarnation, JobId, JobState, Millis, ServiceId, SessionId, WallTime,
};
use xce_profile::PolicyKind;
use xce_replica::state::{PastRun, ProbeTrouble, RestartPermit, RestartWish, StopRequest};
use xce_replica::{AfterStop, ProbeRole, ServiceRef};
use xce_service::VersionReason;
use xce_service::facts::Times;
use xce_service::state::{Backoff, LastFailure, Pause, Phase, Rollout, ServiceEvent};

use super::samples::{OPERATION, epoch, exit, inventory, job_spec, origins, remnant, settings};

fn counts(first: u64) -> CountsV1 {
    CountsV1 {
        jobs: first,
        arrays: first + 1,
        hosts: first + 2,
        services: first + 3,
        sessions: first + 4,
        policies: first + 6,
        operations: first + 5,
    }
}

pub(super) fn meta() -> MetaV2 {
    MetaV2 {
        lsn: 1,
        term: 2,
        clock: ClusterClock {
            last: ClusterTime(3),
            last_wall: WallTime(4),
            anchor: Some(Anchor {
                at: ClusterTime(5),
                boot_id: "boot id of a host".into(),
                boot_ms: 6,
                wall: WallTime(7),
            }),
        },
        last_job: 8,
        last_service: 9,
        last_session: 10,
        last_controller: 4,
        ignored: 11,
        operations_floor: 12,
        operation_floors: vec![("ann".into(), 13)],
        counts: counts(20),
        floors: counts(30),
        level: 2,
        epochs: vec![epoch()],
    }
}

/// The same as it was in its first version.
pub(super) fn meta_v1() -> MetaV1 {
    let mut row = meta();
    row.epochs.clear();
    MetaV1::of(row)
}

pub(super) fn spec_row() -> SpecV1 {
    SpecV1 { spec: job_spec() }
}

pub(super) fn job_row() -> JobV1 {
    JobV1 {
        id: JobId::element(17, 3),
        spec: 1,
        owner: "ann".into(),
        service: Some(ServiceRef {
            service: ServiceId(2),
            version: 3,
            index: 4,
        }),
        state: JobState::Stopping,
        run: 5,
        start: 6,
        host: Some("w1".into()),
        ports: vec![("http".into(), 7)],
        pid: 8,
        ready_since: Some(ClusterTime(9)),
        running_since: Some(ClusterTime(10)),
        placed_at: Some(ClusterTime(8)),
        stop_took: Some(Millis(15)),
        was_ready: true,
        ready_longest: Millis(20),
        probe_text: "status 503 of /health".into(),
        unrunnable: vec![ProbeTrouble {
            role: ProbeRole::Liveness,
            count: 21,
            text: "no such program".into(),
        }],
        restart_wish: Some(RestartWish {
            number: 22,
            since: ClusterTime(23),
            text: "connection refused".into(),
        }),
        restart_permit: Some(RestartPermit {
            start: 24,
            wish: 25,
            granted: ClusterTime(26),
            began: Some(ClusterTime(27)),
        }),
        hanging: "7 (dd) D".into(),
        shims_lost: 2,
        restarts: 11,
        moving: true,
        stop: Some(StopRequest {
            cause: Cause::TermDrain,
            then: AfterStop::Hold,
            since: ClusterTime(12),
            drained: true,
        }),
        exit: Some(exit()),
        stderr: "last words of it".into(),
        past: vec![PastRun {
            run: 4,
            host: "w3".into(),
            started: Some(WallTime(28)),
            ended: WallTime(29),
            exit: exit(),
        }],
        not_before: ClusterTime(13),
        avoid: vec!["w2".into()],
        submitted: WallTime(14),
        started: Some(WallTime(15)),
        ended: Some(WallTime(16)),
        submitted_at: ClusterTime(17),
        ended_at: Some(ClusterTime(18)),
        changed: 19,
    }
}

pub(super) fn array_row() -> ArrayV1 {
    ArrayV1 {
        number: 1,
        spec: 2,
        owner: "ann".into(),
        held: true,
        pending: Ranges::of(&[(1, 2)]),
        done: Ranges::of(&[(4, 5)]),
        exit: Ranges::of(&[(7, 8)]),
        cancelled: Ranges::of(&[(10, 11)]),
        cancel: Some(exit()),
        submitted: WallTime(12),
        submitted_at: ClusterTime(13),
        ended_at: Some(ClusterTime(14)),
        changed: 15,
    }
}

pub(super) fn times() -> Times {
    Times {
        start: Some(Millis(16)),
        ready: Some(Millis(17)),
        stop: Some(Millis(18)),
    }
}

fn backoff() -> Backoff {
    Backoff {
        failures: 1,
        step: 2,
        not_before: ClusterTime(3),
        waiting: true,
        owed: 4,
        step_times: vec![ClusterTime(5)],
        crash_loop: true,
        last: Some(LastFailure {
            job: JobId::single(6),
            at: ClusterTime(7),
            exit: exit(),
            stderr: "last words of it".into(),
        }),
        hosts: vec!["w1".into()],
    }
}

pub(super) fn service_row() -> ServiceV1 {
    let version = VersionV1 {
        number: 1,
        root: 2,
        spec: 3,
        origins: origins(),
        author: "ann".into(),
        time: WallTime(4),
        reason: VersionReason::RollbackOf(5),
        outcome: xce_service::state::Outcome::Superseded,
        want: 6,
        dispatch_limit: Some(7),
        limit_since: ClusterTime(8),
        proved: true,
        backoff: backoff(),
        times: times(),
    };
    ServiceV1 {
        id: ServiceId(1),
        name: "web".into(),
        project: "project".into(),
        owner: "ann".into(),
        profile: "profile".into(),
        desired: 2,
        scaled_by_operator: true,
        settings: settings(),
        settings_origins: origins(),
        settings_generation: 3,
        versions: vec![version],
        rollout: Rollout {
            version: 4,
            phase: Phase::Stuck {
                reason: "no host has room".into(),
            },
            started: ClusterTime(5),
            clock_from: ClusterTime(6),
            available_mark: 7,
            old_mark: 8,
        },
        paused: Some(Pause {
            since: ClusterTime(9),
            elapsed: Millis(10),
        }),
        short_since: Some(ClusterTime(11)),
        deleting_since: Some(ClusterTime(12)),
        accounted: 13,
        events: vec![ServiceEvent {
            time: WallTime(14),
            at: ClusterTime(15),
            lsn: 16,
            kind: "scaled".into(),
            text: "5 replicas desired".into(),
        }],
        created: WallTime(17),
        changed: 18,
        endpoints: 77,
    }
}

pub(super) fn host_row() -> HostRecord {
    HostRecord {
        inventory: inventory(),
        life: HostLife::Away,
        since: ClusterTime(1),
        closed: Some(Closure {
            reason: "a full disk".into(),
            by: "ann".into(),
        }),
        drain: Some(Drain {
            since: ClusterTime(7),
            until: Some(ClusterTime(8)),
            reason: "a new disk".into(),
            by: "ann".into(),
        }),
        launch_failures: 2,
        launch_error: "no such user".into(),
        failing: vec![ReplicaFailures {
            service: ServiceId(3),
            count: 4,
            last: ClusterTime(5),
        }],
        trial: Some(Trial {
            step: 2,
            not_before: ClusterTime(6),
        }),
        epoch: 3,
        sequence: 4,
        remnants: vec![remnant()],
        dead: Some("ann".into()),
        changed: 5,
    }
}

pub(super) fn session_row() -> SessionRecord {
    SessionRecord {
        id: SessionId(1),
        principal: "worker:w1".into(),
        kind: SessionKind::Worker,
        incarnation: Incarnation([5; 16]),
        fingerprint: [6; 16],
        epoch: 2,
        opened: ClusterTime(3),
        seen: ClusterTime(4),
        changed: 5,
    }
}

pub(super) fn operation_row() -> OperationV1 {
    OperationV1 {
        principal: "user:ann".into(),
        id: OPERATION,
        lsn: 1,
        sub: 2,
        at: ClusterTime(3),
        answer: Answer {
            lsn: 4,
            created: vec![
                Created::Job(JobId::single(5)),
                Created::Replicas { first: 6, count: 7 },
                Created::Service(ServiceId(8)),
                Created::Session(SessionId(9)),
            ],
        },
    }
}

pub(super) fn tombstones_row() -> TombstonesV1 {
    TombstonesV1 {
        jobs: vec![(1, JobId::single(2))],
        arrays: vec![(3, 4)],
        hosts: vec![(5, "w1".into())],
        services: vec![(6, 7)],
        sessions: vec![(8, 9)],
        policies: vec![(10, PolicyKind::Queue, "fast".into())],
    }
}

pub(super) fn gone_rows() -> Vec<GoneV1> {
    let keys = [
        GoneKeyV1::Job(JobId::element(17, 3)),
        GoneKeyV1::Array(18),
        GoneKeyV1::Host("w1".into()),
        GoneKeyV1::Service(19),
        GoneKeyV1::Session(20),
        GoneKeyV1::Policy(PolicyKind::Queue, "night".into()),
    ];
    keys.into_iter()
        .map(|key| GoneV1 { lsn: 21, key })
        .collect()
}

pub(super) fn forget_row() -> ForgetV1 {
    ForgetV1 { count: 22 }
}
