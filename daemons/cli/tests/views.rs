//! Fixed objects that tests print.

use xce_host::state::HostLife;
use xce_host::view::HostView;
use xce_model::{Cause, ClusterTime, JobId, JobState, ServiceId};
use xce_replica::view::{ArrayView, ExitView, JobView, PortView};
use xce_service::facts::VersionReason;
use xce_service::state::Outcome;
use xce_service::view::{
    Condition, ConditionView, EndpointState, EndpointView, EventView, ReplicaView, RolloutView,
    ServiceView, VersionView,
};
use xce_session::wire::ActorView;

/// The moment of all fixed objects: 2026-03-01T12:00:00Z.
pub const NOON_MS: i64 = 1_772_366_400_000;

/// As machine output has it.
pub const NOON: &str = "2026-03-01T12:00:00.000Z";

/// A replica of an index.
pub fn replica(index: u32, ready: bool) -> ReplicaView {
    ReplicaView {
        index,
        job: JobId::single(u64::from(index) + 10),
        version: 1,
        run: 1,
        host: ready.then(|| "w1".to_owned()),
        state: if ready { JobState::Run } else { JobState::Pend },
        ready,
        available: ready,
        reachable: true,
        lost: false,
        pid: if ready { 4000 + index } else { 0 },
        restarts: 0,
        reason: if ready {
            String::new()
        } else {
            "no host has 0.1 cpus free".to_owned()
        },
    }
}

/// A service with one of two replicas ready.
pub fn service() -> ServiceView {
    ServiceView {
        name: "web".to_owned(),
        id: ServiceId(3),
        project: "default".to_owned(),
        owner: "ada".to_owned(),
        profile: "service".to_owned(),
        desired: 2,
        live: 2,
        ready: 1,
        available: 1,
        stopping: 0,
        lost: 0,
        updated: 2,
        version: 1,
        condition: Condition::Rolling,
        reason: "1 of 2 available".to_owned(),
        conditions: vec![
            ConditionView {
                condition: Condition::Rolling,
                reason: "1 of 2 available".to_owned(),
                since: Some(ClusterTime(5)),
            },
            ConditionView {
                condition: Condition::Short,
                reason: "1 missing".to_owned(),
                since: None,
            },
        ],
        rollout: RolloutView {
            phase: "rolling".to_owned(),
            updated: 2,
            updated_available: 1,
            old: 0,
            deadline_in_ms: Some(590_000),
            explain: "waiting for job 11".to_owned(),
        },
        replicas: vec![replica(0, true), replica(1, false)],
        endpoints: vec![EndpointView {
            name: "http".to_owned(),
            address: "127.0.0.1".to_owned(),
            port: 20_000,
            replica: 0,
            job: JobId::single(10),
            state: EndpointState::Ready,
            version: 1,
            host: "w1".to_owned(),
        }],
        history: vec![VersionView {
            number: 1,
            reason: VersionReason::Create,
            author: "ada".to_owned(),
            time: NOON.to_owned(),
            outcome: Outcome::Rolling,
            want: 2,
        }],
        events: vec![EventView {
            time: NOON.to_owned(),
            at: ClusterTime(5),
            lsn: 7,
            kind: "created".to_owned(),
            text: "created by ada".to_owned(),
        }],
        created: NOON.to_owned(),
        changed: 9,
    }
}

/// A service whose replicas are all available.
pub fn steady() -> ServiceView {
    ServiceView {
        ready: 2,
        available: 2,
        condition: Condition::Steady,
        reason: String::new(),
        conditions: Vec::new(),
        ..service()
    }
}

/// A job that was killed by a signal.
pub fn job() -> JobView {
    JobView {
        id: "17".to_owned(),
        name: "sim".to_owned(),
        state: JobState::Exit,
        terminal: true,
        reason: "killed by its owner".to_owned(),
        reason_code: "TERM_OWNER".to_owned(),
        run: 2,
        host: Some("w2".to_owned()),
        reachable: Some(false),
        lost: false,
        exit: Some(ExitView {
            code: None,
            signal: Some(9),
            cause: Cause::TermOwner,
        }),
        submitted: "2026-03-01T11:58:00Z".to_owned(),
        started: Some("2026-02-28T11:59:00Z".to_owned()),
        ended: None,
        owner: "ada".to_owned(),
        project: "default".to_owned(),
        queue: "default".to_owned(),
        command: vec![
            "sh".to_owned(),
            "-c".to_owned(),
            "echo \u{1b}[31m 'x'".to_owned(),
        ],
        cpus: "1".to_owned(),
        memory: "256MiB".to_owned(),
        service: None,
        replica: None,
        version: None,
        ready: false,
        unrunnable_probes: Vec::new(),
        restarts: 1,
        pid: Some(77),
        ports: vec![PortView {
            name: "http".to_owned(),
            port: 20_001,
        }],
        past: Vec::new(),
        array: Some(ArrayView {
            elements: "1-4".to_owned(),
            slot_limit: Some(2),
            total: 4,
            pending: 1,
            running: 1,
            done: 1,
            exited: 1,
        }),
        stderr: "line one\nline two\u{7}".to_owned(),
        lsn: 12,
    }
}

/// A host that is closed.
pub fn host() -> HostView {
    HostView {
        name: "w1".to_owned(),
        state: HostLife::Up,
        reason: "answers; closed by ada: broken fan".to_owned(),
        takes_jobs: false,
        drain: None,
        cpus: "2".to_owned(),
        cpus_used: "0.5".to_owned(),
        memory: "24683656KiB".to_owned(),
        memory_used: "512MiB".to_owned(),
        since: "2026-07-26T10:00:00.000Z".to_owned(),
        jobs: 2,
        jobs_unreachable: 0,
        quarantined: Vec::new(),
        remnants: Vec::new(),
        address: "127.0.0.1".to_owned(),
        labels: vec!["zone=a".to_owned()],
        incarnation: "00112233445566778899aabbccddeeff".to_owned(),
        not_enforced: vec!["cpus".to_owned()],
    }
}

/// An actor below another.
pub fn actor(key: &str, parent: &str, count: u32) -> ActorView {
    ActorView {
        kind: key.split('/').next().unwrap_or(key).to_owned(),
        key: key.to_owned(),
        parent: parent.to_owned(),
        state: "running".to_owned(),
        handled: 5,
        busy_permille: 15,
        age_ms: 3_725_000,
        count,
        ..ActorView::default()
    }
}
