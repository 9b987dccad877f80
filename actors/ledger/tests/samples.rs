//! One sample of each persisted type with every variant and distinct values in every field: the
//! checksum of its archive is the fingerprint of the layout.

use crate::encode::HeadV1;
use crate::past::MemberFactV1;
use crate::{
    Anew, ClockFact, Epoch, MemberFact, Operation, PolicyFact, PolicyRecord, Precondition,
    SessionFact, SessionKind,
};
use xce_host::facts::Inventory;
use xce_host::{HostFact, Remnant};
use xce_model::spec::{
    Amount, ArraySpec, JobSpec, OnStuck, PortSpec, Probe, ProbeAction, Probes, ReplacementSettings,
    Resources, RestartMode, RestartPolicy, RolloutSettings, ServiceSettings, ServiceSpec, Spread,
    StopPolicy, Template, User,
};
use xce_model::{
    Bytes, Cause, ClusterTime, Exit, Incarnation, JobId, MilliCpu, Millis, OperationId, Origin,
    ServiceId, SessionId, Source, WallTime,
};
use xce_profile::PolicyKind;
use xce_replica::{AfterStop, JobFact, ProbeRole};
use xce_service::facts::{Failure, ResetReason, TargetReason};
use xce_service::{ServiceFact, VersionReason};

use super::sample_rows::times;

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
        single_copy: xce_model::spec::SingleCopy::Strict,
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

pub(super) fn settings() -> ServiceSettings {
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

pub(super) fn origins() -> Vec<Origin> {
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

pub(super) fn exit() -> Exit {
    Exit {
        code: Some(3),
        signal: Some(9),
        cause: Cause::TermMemlimit,
        detail: "used more than it may".into(),
    }
}

pub(super) const OPERATION: OperationId = OperationId([7; 16]);

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
            at: WallTime(8),
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
        JobFact::MoveBegan { job, run: 2 },
        JobFact::MoveEnded { job, run: 2 },
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

pub(super) fn remnant() -> Remnant {
    Remnant {
        job: JobId::element(2, 3),
        run: 4,
        ports: vec![20_001],
        cpus: MilliCpu(500),
        memory: Bytes(6),
        name: "a name".into(),
        quarantined: true,
    }
}

pub(super) fn host_facts() -> Vec<HostFact> {
    let host = || "w1".to_owned();
    vec![
        HostFact::Joined {
            inventory: inventory(),
            stale: vec![remnant()],
            gone: vec![(JobId::single(3), 4)],
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
        HostFact::DrainBegan {
            host: host(),
            patience: Some(Millis(5)),
            reason: "a new disk".into(),
            by: "ann".into(),
        },
        HostFact::DrainEnded {
            host: host(),
            by: "ann".into(),
        },
        HostFact::RunGone {
            host: host(),
            job: JobId::single(3),
            run: 4,
        },
        HostFact::ConfirmedDead {
            host: host(),
            by: "ann".into(),
        },
    ]
}

pub(super) fn member_facts() -> Vec<MemberFact> {
    vec![
        MemberFact::Numbered { node: 4 },
        MemberFact::BeganAnew { epoch: epoch() },
        MemberFact::LevelRaised { level: 2 },
    ]
}

pub(super) fn member_facts_v1() -> Vec<MemberFactV1> {
    vec![MemberFactV1::Numbered { node: 4 }]
}

pub(super) fn epoch() -> Epoch {
    Epoch {
        number: 2,
        anew: Anew::Restored,
        founder: 4,
        from: 5,
        at: 6,
        wall: WallTime(7),
        by: "root on a host".into(),
        jobs: (8, 9),
        services: (10, 11),
        sessions: (12, 13),
        controllers: (14, 15),
    }
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
    facts.extend(kills());
    facts.extend(more_service_facts(service));
    facts.extend(last_service_facts(service));
    facts
}

fn kills() -> [ServiceFact; 2] {
    [
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
    ]
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
        ServiceFact::DeadlineExtended {
            service,
            left: Millis(7),
        },
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
        fingerprint: [6; 16],
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
        Precondition::HostGone { host: "w1".into() },
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
