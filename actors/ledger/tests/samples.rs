//! One sample of each persisted type with every variant and distinct values in every field: the
//! checksum of its archive is the fingerprint of the layout.

use xce_host::facts::Inventory;
use xce_host::state::{Closure, ReplicaFailures, Trial};
use xce_host::{HostFact, HostLife, HostRecord};
use xce_model::spec::{
    Amount, ArraySpec, JobSpec, OnStuck, PortSpec, Probe, ProbeAction, Probes, ReplacementSettings,
    Resources, RestartMode, RestartPolicy, RolloutSettings, ServiceSettings, ServiceSpec, Spread,
    StopPolicy, Template, User,
};
use xce_model::{
    Bytes, Cause, ClusterTime, Exit, Incarnation, JobId, JobState, MilliCpu, Millis, OperationId,
    Origin, ServiceId, SessionId, Source, WallTime,
};
use xce_profile::PolicyKind;
use xce_replica::state::{ProbeTrouble, RestartPermit, RestartWish, StopRequest};
use xce_replica::{AfterStop, JobFact, ProbeRole, ServiceRef};
use xce_service::facts::{Failure, ResetReason, TargetReason, Times};
use xce_service::state::{Backoff, LastFailure, Pause, Phase, Rollout, ServiceEvent};
use xce_service::{ServiceFact, VersionReason};

use crate::encode::HeadV1;
use crate::rows::{
    ArrayV1, CountsV1, JobV1, MetaV1, OperationV1, ServiceV1, SpecV1, TombstonesV1, VersionV1,
};
use crate::{
    Anchor, Answer, ClockFact, ClusterClock, Created, MemberFact, Operation, PolicyFact,
    PolicyRecord, Precondition, Ranges, SessionFact, SessionKind, SessionRecord,
};

fn probe(action: ProbeAction) -> Probe {
    Probe {
        action,
        initial_delay: Millis(1),
        period: Millis(2),
        timeout: Millis(3),
        success_threshold: 4,
        failure_threshold: 5,
    }
}

pub(super) fn template() -> Template {
    Template {
        command: vec!["program".into(), "argument that is long".into()],
        env: vec![("NAME".into(), "value".into())],
        cwd: Some("/some/where/else".into()),
        user: User {
            name: "ann".into(),
            uid: 1000,
            gid: 1001,
        },
        resources: Resources {
            cpus: MilliCpu(1500),
            memory: Bytes(1 << 29),
        },
        ports: vec![
            PortSpec {
                name: "http".into(),
                port: Some(8080),
            },
            PortSpec {
                name: "free".into(),
                port: None,
            },
        ],
        probes: Probes {
            startup: Some(Box::new(probe(ProbeAction::Exec {
                command: vec!["check".into()],
            }))),
            readiness: Some(Box::new(probe(ProbeAction::Http {
                port: "http".into(),
                host: "127.0.0.1".into(),
                path: "/".into(),
                status_min: 200,
                status_max: 399,
                headers: vec![("a".into(), "b".into())],
            }))),
            liveness: Some(Box::new(probe(ProbeAction::Tcp {
                port: "free".into(),
                host: "127.0.0.2".into(),
            }))),
        },
        restart: RestartPolicy {
            mode: RestartMode::OnFailure,
            delay: Millis(6),
            delay_max: Millis(7),
            max_restarts: 8,
            window: Millis(9),
            stable_after: Millis(10),
        },
        stop: StopPolicy {
            drain: Millis(11),
            signal: 12,
            grace: Millis(13),
        },
        run_limit: Some(Millis(14)),
        constraints: vec![("zone".into(), "a".into())],
    }
}

pub(super) fn job_spec() -> JobSpec {
    JobSpec {
        name: "name".into(),
        project: "project".into(),
        queue: "queue".into(),
        template: template(),
        array: Some(ArraySpec {
            ranges: vec![(1, 5), (7, 9)],
            slot_limit: Some(3),
        }),
        held: true,
        rerunnable: false,
    }
}

fn settings() -> ServiceSettings {
    ServiceSettings {
        spread: Spread {
            max_per_host: Some(2),
            best_effort: true,
            label: Some("zone".into()),
        },
        rollout: RolloutSettings {
            max_surge: Amount::Count(1),
            max_unavailable: Amount::Percent(25),
            min_ready: Millis(1),
            progress_deadline: Millis(2),
            on_stuck: OnStuck::Rollback,
            history_limit: 3,
        },
        replacement: ReplacementSettings {
            stable_after: Millis(4),
            delay: Millis(5),
            delay_max: Millis(6),
            crash_limit: 7,
            crash_window: Millis(8),
        },
        labels: vec![("team".into(), "blue".into())],
    }
}

pub(super) fn service_spec() -> ServiceSpec {
    ServiceSpec {
        name: "web".into(),
        project: "project".into(),
        queue: "queue".into(),
        profile: "profile".into(),
        replicas: Some(5),
        origins: origins(),
        template: template(),
        settings: settings(),
    }
}

fn origins() -> Vec<Origin> {
    let of = |path: &str, source: Source| Origin {
        path: path.into(),
        source,
    };
    vec![
        of("cwd", Source::BuiltIn),
        of("user", Source::Account),
        of("resources.cpus", Source::Profile("web".into())),
        of("resources.memory", Source::Project("shop".into())),
        of("command", Source::Request(7)),
    ]
}

fn exit() -> Exit {
    Exit {
        code: Some(3),
        signal: Some(9),
        cause: Cause::TermMemlimit,
        detail: "used more than it may".into(),
    }
}

const OPERATION: OperationId = OperationId([7; 16]);

pub(super) fn job_facts() -> Vec<JobFact> {
    let job = JobId::element(17, 3);
    let mut facts = vec![
        JobFact::Submitted {
            spec: Box::new(job_spec()),
            operation: OPERATION,
        },
        JobFact::ReplicasSubmitted {
            service: ServiceId(4),
            version: 2,
            indices: vec![0, 1, 7],
        },
        JobFact::Held { job },
        JobFact::Released { job },
        JobFact::Placed {
            job,
            run: 2,
            host: "w1".into(),
            ports: vec![("http".into(), 8080)],
        },
        JobFact::Started {
            job,
            run: 2,
            start: 3,
            pid: 4242,
            at: WallTime(-5),
        },
        JobFact::Ready {
            job,
            run: 2,
            start: 3,
        },
        JobFact::NotReady {
            job,
            run: 2,
            start: 3,
            text: "status 503 of /health".into(),
        },
        JobFact::Restarting {
            job,
            run: 2,
            start: 3,
            exit: exit(),
            stderr: "last words of it".into(),
        },
    ];
    facts.extend(more_job_facts(job));
    facts
}

fn more_job_facts(job: JobId) -> Vec<JobFact> {
    vec![
        JobFact::StopRequested {
            job,
            run: 2,
            cause: Cause::TermOwner,
            then: AfterStop::Requeue,
        },
        JobFact::Ended {
            job,
            run: 2,
            exit: exit(),
            at: WallTime(6),
            stderr: "last words of it".into(),
        },
        JobFact::Requeued {
            job,
            run: 2,
            exit: exit(),
            not_before: ClusterTime(99),
            avoid: Some("w2".into()),
            held: true,
        },
        JobFact::Suspended { job, run: 2 },
        JobFact::Resumed { job, run: 2 },
        JobFact::CleanedUp { job },
        JobFact::ProbeUnrunnable {
            job,
            run: 2,
            start: 3,
            role: ProbeRole::Liveness,
            count: 4,
            text: "no such program".into(),
        },
        JobFact::RestartWanted {
            job,
            run: 2,
            start: 3,
            wish: 4,
            text: "connection refused".into(),
        },
        JobFact::RestartUnwanted {
            job,
            run: 2,
            start: 3,
        },
        JobFact::RestartGranted {
            job,
            run: 2,
            start: 3,
            wish: 4,
        },
        JobFact::StopHangs {
            job,
            run: 2,
            start: 3,
            text: "7 (dd) D".into(),
        },
        JobFact::Drained { job, run: 2 },
    ]
}

pub(super) fn inventory() -> Inventory {
    Inventory {
        name: "w1".into(),
        incarnation: Incarnation([5; 16]),
        boot_id: "boot id of a host".into(),
        address: "10.0.0.1".into(),
        cpus: MilliCpu(8000),
        memory: Bytes(1 << 33),
        port_first: 20_000,
        port_last: 20_999,
        labels: vec![("zone".into(), "a".into())],
        not_enforced: vec!["memory".into()],
    }
}

pub(super) fn host_facts() -> Vec<HostFact> {
    let host = || "w1".to_owned();
    vec![
        HostFact::Joined {
            inventory: inventory(),
        },
        HostFact::Suspected { host: host() },
        HostFact::Recovered { host: host() },
        HostFact::Lost { host: host() },
        HostFact::Left { host: host() },
        HostFact::Closed {
            host: host(),
            reason: "a full disk".into(),
            by: "ann".into(),
        },
        HostFact::Opened {
            host: host(),
            by: "ann".into(),
        },
        HostFact::LaunchFailed {
            host: host(),
            text: "no such user".into(),
        },
        HostFact::LaunchSucceeded { host: host() },
        HostFact::Marked {
            host: host(),
            epoch: 2,
            sequence: 77,
        },
        HostFact::Removed { host: host() },
        HostFact::ReplicaFailed {
            host: host(),
            service: ServiceId(3),
        },
        HostFact::Blamed {
            host: host(),
            reason: "replicas fail on it alone".into(),
            step: 2,
            not_before: ClusterTime(4),
        },
    ]
}

pub(super) fn member_facts() -> Vec<MemberFact> {
    vec![MemberFact::Numbered { node: 4 }]
}

pub(super) fn policy_facts() -> Vec<PolicyFact> {
    let set = |kind, name: &str| PolicyFact::Set {
        kind,
        name: name.into(),
        document: "{\"name\":\"a policy\"}".into(),
        generation: 3,
        author: "ann".into(),
        operation: OPERATION,
    };
    vec![
        set(PolicyKind::Profile, "web"),
        set(PolicyKind::Project, "a longer name"),
        set(PolicyKind::Queue, "fast"),
        PolicyFact::Removed {
            kind: PolicyKind::Project,
            name: "a longer name".into(),
            author: "ann".into(),
            operation: OPERATION,
        },
    ]
}

pub(super) fn policy_row() -> PolicyRecord {
    PolicyRecord {
        kind: PolicyKind::Queue,
        name: "a longer name".into(),
        document: "{\"name\":\"a policy\"}".into(),
        generation: 1,
        author: "ann".into(),
        time: WallTime(2),
        changed: 3,
    }
}

fn failure() -> Failure {
    Failure {
        job: JobId::single(9),
        count: 2,
        hosts: vec!["w1".into()],
        exit: exit(),
        stderr: "last words of it".into(),
        was_ready: true,
        at: ClusterTime(10),
        new_step: true,
        step: 3,
        not_before: ClusterTime(11),
        crash_loop: true,
        seen: 12,
    }
}

pub(super) fn service_facts() -> Vec<ServiceFact> {
    let service = ServiceId(4);
    let author = || "ann".to_owned();
    let operation = OPERATION;
    let mut facts = vec![
        ServiceFact::Created {
            spec: Box::new(service_spec()),
            author: author(),
            operation,
        },
        ServiceFact::Scaled {
            service,
            desired: 5,
            by_operator: true,
            author: author(),
            operation,
        },
        ServiceFact::SettingsChanged {
            service,
            settings: Box::new(settings()),
            origins: origins(),
            profile: "profile".into(),
            author: author(),
            operation,
        },
        ServiceFact::VersionFailed {
            service,
            version: 2,
            failure: Box::new(failure()),
        },
        ServiceFact::KillRequested {
            service: ServiceId(3),
            index: 4,
            job: JobId::single(9),
            author: "ann".into(),
            operation: OperationId([8; 16]),
        },
        ServiceFact::ReplicasKilled {
            service: ServiceId(3),
            version: 2,
            job: JobId::single(9),
            count: 2,
            cause: Cause::TermOwner,
            seen: 11,
        },
        ServiceFact::ReplicasLost {
            service,
            version: 2,
            count: 3,
            seen: 4,
        },
        ServiceFact::RetryBegan {
            service,
            version: 2,
        },
        ServiceFact::BackoffReset {
            service,
            version: 2,
            why: ResetReason::Stable,
        },
        ServiceFact::BackoffReset {
            service,
            version: 2,
            why: ResetReason::Operator,
        },
        ServiceFact::VersionProved {
            service,
            version: 2,
        },
    ];
    facts.extend(more_service_facts(service));
    facts.extend(last_service_facts(service));
    facts
}

fn more_service_facts(service: ServiceId) -> Vec<ServiceFact> {
    let author = || "ann".to_owned();
    let operation = OPERATION;
    let versioned = |number, reason| ServiceFact::Versioned {
        service,
        number,
        queue: "queue".into(),
        template: Box::new(template()),
        origins: origins(),
        reason,
        author: author(),
        operation,
    };
    let targeted = |why| ServiceFact::Targeted {
        service,
        version: 2,
        want: 3,
        why,
    };
    vec![
        versioned(2, VersionReason::Create),
        versioned(3, VersionReason::Update),
        versioned(4, VersionReason::Restart),
        versioned(5, VersionReason::RollbackOf(2)),
        versioned(6, VersionReason::AutomaticRollbackOf(3)),
        targeted(TargetReason::Grow),
        targeted(TargetReason::Shrink),
        targeted(TargetReason::Scale),
        ServiceFact::DispatchLimited {
            service,
            version: 2,
            limit: Some(4),
        },
        ServiceFact::FellShort {
            service,
            available: 5,
        },
        ServiceFact::BecameFull { service },
        ServiceFact::RolloutProgressed {
            service,
            available: 6,
            old_live: 7,
        },
        ServiceFact::RolloutCompleted {
            service,
            version: 2,
            untested: true,
        },
        ServiceFact::RolloutStuck {
            service,
            version: 2,
            reason: "no host has room".into(),
        },
    ]
}

fn last_service_facts(service: ServiceId) -> Vec<ServiceFact> {
    let author = || "ann".to_owned();
    let operation = OPERATION;
    vec![
        ServiceFact::RolloutPaused {
            service,
            author: author(),
            operation,
        },
        ServiceFact::RolloutResumed {
            service,
            author: author(),
            operation,
        },
        ServiceFact::DeletionRequested {
            service,
            author: author(),
            operation,
        },
        ServiceFact::Deleted { service },
        ServiceFact::VersionTimed {
            service,
            version: 2,
            times: times(),
        },
    ]
}

pub(super) fn session_facts() -> Vec<SessionFact> {
    let opened = |kind| SessionFact::Opened {
        principal: "worker:w1".into(),
        kind,
        incarnation: Incarnation([5; 16]),
        fingerprint: [6; 32],
    };
    vec![
        opened(SessionKind::Worker),
        opened(SessionKind::Scheduler),
        opened(SessionKind::Apiserver),
        opened(SessionKind::Client),
        SessionFact::Resumed {
            session: SessionId(3),
            epoch: 4,
        },
        SessionFact::Ended {
            session: SessionId(3),
        },
    ]
}

pub(super) fn clock_facts() -> Vec<ClockFact> {
    vec![ClockFact::Anchored {
        boot_id: "boot id of a host".into(),
        boot_ms: 5,
        wall: WallTime(6),
    }]
}

pub(super) fn preconditions() -> Vec<Precondition> {
    vec![
        Precondition::JobUnchanged {
            job: JobId::single(7),
            lsn: 8,
        },
        Precondition::ServiceUnchanged {
            service: ServiceId(9),
            lsn: 10,
        },
        Precondition::HostUnchanged {
            host: "w1".into(),
            lsn: 11,
        },
        Precondition::NameFree {
            project: "project".into(),
            name: "web".into(),
        },
        Precondition::Fits {
            job: JobId::element(7, 1),
            run: 2,
            host: "w1".into(),
            ports: vec![80, 81],
        },
        Precondition::HostMark {
            host: "w1".into(),
            incarnation: Incarnation([5; 16]),
            epoch: 12,
            sequence: 13,
        },
        Precondition::Room { jobs: 14 },
        Precondition::PolicyUnchanged {
            kind: PolicyKind::Queue,
            name: "fast".into(),
            lsn: 17,
        },
        Precondition::SessionEpoch {
            session: SessionId(15),
            epoch: 16,
        },
    ]
}

pub(super) fn head() -> HeadV1 {
    HeadV1 {
        at: ClusterTime(1),
        wall: WallTime(2),
        principal: "user:ann".into(),
        operation: Some(Operation {
            id: OPERATION,
            made_at: 3,
        }),
        cause: "scale".into(),
        preconditions: preconditions(),
        facts: 4,
        rules: 5,
        event: true,
        decided: 6,
    }
}

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

pub(super) fn meta() -> MetaV1 {
    MetaV1 {
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
    }
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
        stop: Some(StopRequest {
            cause: Cause::TermDrain,
            then: AfterStop::Hold,
            since: ClusterTime(12),
            drained: true,
        }),
        exit: Some(exit()),
        stderr: "last words of it".into(),
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

fn times() -> Times {
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
        changed: 5,
    }
}

pub(super) fn session_row() -> SessionRecord {
    SessionRecord {
        id: SessionId(1),
        principal: "worker:w1".into(),
        kind: SessionKind::Worker,
        incarnation: Incarnation([5; 16]),
        fingerprint: [6; 32],
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
