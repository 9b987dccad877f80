//! A ledger to plan on, with short names for what happens to it.

use xce_host::HostFact;
use xce_host::facts::Inventory;
use xce_ledger::{Created, Fact, Group, Ledger, Outcome, View, audit};
use xce_model::spec::{
    Amount, ArraySpec, JobSpec, OnStuck, PortSpec, Probes, ReplacementSettings, Resources,
    RestartMode, RestartPolicy, RolloutSettings, ServiceSettings, ServiceSpec, Spread, StopPolicy,
    Template, User,
};
use xce_model::{
    Bytes, Cause, ClusterTime, Exit, Incarnation, JobId, MilliCpu, Millis, OperationId, Run,
    ServiceId, WallTime,
};
use xce_replica::JobFact;
use xce_service::ServiceFact;
use xce_wal::Position;

use crate::{Placement, Queue, plan, why};

pub(super) struct World {
    ledger: Ledger,
    lsn: u64,
    pub now: ClusterTime,
    pub queues: Vec<Queue>,
}

impl World {
    pub fn new() -> Self {
        Self {
            ledger: Ledger::new(Box::new(|_, _| {})),
            lsn: 0,
            now: ClusterTime(1000),
            queues: Vec::new(),
        }
    }

    pub fn view(&self) -> &View {
        self.ledger.view()
    }

    pub fn commit(&mut self, group: &Group) -> Outcome {
        self.lsn += 1;
        let at = Position {
            term: 1,
            lsn: self.lsn,
            sub: 0,
        };
        let outcome = self.ledger.commit(at, group);
        self.ledger.publish(self.lsn, 1);
        outcome
    }

    pub fn group(&self) -> Group {
        Group::new(self.now, WallTime(0), "test")
    }

    pub fn apply(&mut self, fact: impl Into<Fact>) -> Vec<Created> {
        let group = self.group().with(fact);
        let Outcome::Applied(answer) = self.commit(&group) else {
            panic!("not applied");
        };
        assert_eq!(self.view().ignored(), 0, "{group:?}");
        answer.created
    }

    pub fn host(&mut self, name: &str, cpus: u64) {
        self.host_in(name, cpus, "a");
    }

    pub fn host_in(&mut self, name: &str, cpus: u64, zone: &str) {
        self.join(name, cpus, vec![("zone".into(), zone.into())]);
    }

    /// A host without labels.
    pub fn unlabelled(&mut self, name: &str, cpus: u64) {
        self.join(name, cpus, Vec::new());
    }

    fn join(&mut self, name: &str, cpus: u64, labels: Vec<(String, String)>) {
        self.apply(HostFact::Joined {
            stale: Vec::new(),
            gone: Vec::new(),
            inventory: Inventory {
                name: name.into(),
                incarnation: Incarnation([1; 16]),
                boot_id: "boot".into(),
                address: "127.0.0.1".into(),
                cpus: MilliCpu(cpus * 1000),
                memory: Bytes(cpus << 30),
                port_first: 20_000,
                port_last: 20_002,
                labels,
                not_enforced: Vec::new(),
            },
        });
    }

    pub fn close(&mut self, name: &str, reason: &str) {
        self.apply(HostFact::Closed {
            host: name.into(),
            reason: reason.into(),
            by: String::new(),
        });
    }

    pub fn submit(&mut self, spec: JobSpec) -> JobId {
        let created = self.apply(JobFact::Submitted {
            spec: Box::new(spec),
            operation: OperationId([0; 16]),
        });
        match created[..] {
            [Created::Job(id)] => id,
            _ => panic!("{created:?}"),
        }
    }

    pub fn service(&mut self, spec: ServiceSpec) -> ServiceId {
        let created = self.apply(ServiceFact::Created {
            spec: Box::new(spec),
            author: "ann".into(),
            operation: OperationId([0; 16]),
        });
        match created[..] {
            [Created::Service(id)] => id,
            _ => panic!("{created:?}"),
        }
    }

    /// Submits replicas 0 up to `count` of version 1; gives the first job's number.
    pub fn replicas(&mut self, service: ServiceId, count: u32) -> u64 {
        let created = self.apply(JobFact::ReplicasSubmitted {
            service,
            version: 1,
            indices: (0..count).collect(),
        });
        match created[..] {
            [Created::Replicas { first, .. }] => first,
            _ => panic!("{created:?}"),
        }
    }

    /// Lifts the slow start of version 1.
    pub fn prove(&mut self, service: ServiceId) {
        self.apply(ServiceFact::VersionProved {
            service,
            version: 1,
        });
    }

    pub fn end(&mut self, job: JobId, run: Run) {
        self.apply(JobFact::Ended {
            job,
            run,
            exit: Exit {
                code: Some(0),
                ..Exit::of(Cause::Exited)
            },
            at: WallTime(0),
            stderr: String::new(),
        });
    }

    pub fn requeue(&mut self, job: JobId, cause: Cause, not_before: u64, avoid: Option<&str>) {
        let run = self.view().job(job).unwrap().run;
        self.apply(JobFact::Requeued {
            job,
            run,
            exit: Exit {
                detail: "w1: no such user".into(),
                ..Exit::of(cause)
            },
            not_before: ClusterTime(not_before),
            avoid: avoid.map(str::to_owned),
            held: false,
            at: WallTime(7),
        });
    }

    pub fn plan(&self) -> Vec<Placement> {
        plan(self.view(), &self.queues, self.now, usize::MAX)
    }

    /// The plan as `job@host`.
    pub fn planned(&self) -> Vec<String> {
        let placements = self.plan();
        placements
            .iter()
            .map(|one| format!("{}@{}", one.job, one.host))
            .collect()
    }

    /// Plans, and commits each placement in a group of its own under its precondition.
    pub fn run(&mut self) -> Vec<String> {
        let text = self.planned();
        for placement in self.plan() {
            let group = self
                .group()
                .given(placement.precondition())
                .with(placement.fact());
            let outcome = self.commit(&group);
            assert!(
                matches!(outcome, Outcome::Applied(_)),
                "{placement:?}: {outcome:?}"
            );
        }
        assert_eq!(self.view().ignored(), 0);
        assert_eq!(audit(self.view()), Vec::new());
        text
    }

    pub fn why(&self, job: JobId) -> (&'static str, String) {
        let reason = why(self.view(), &self.queues, job, self.now).unwrap();
        (reason.code, reason.text)
    }
}

pub(super) fn template(cpus: u64) -> Template {
    Template {
        command: vec!["/bin/true".into()],
        env: Vec::new(),
        cwd: None,
        user: User {
            name: "ann".into(),
            uid: 1000,
            gid: 1000,
        },
        resources: Resources {
            cpus: MilliCpu(cpus * 1000),
            memory: Bytes(1 << 20),
        },
        ports: Vec::new(),
        probes: Probes::default(),
        restart: RestartPolicy {
            mode: RestartMode::Never,
            delay: Millis(100),
            delay_max: Millis(60_000),
            max_restarts: 5,
            window: Millis(600_000),
            stable_after: Millis(60_000),
        },
        stop: StopPolicy {
            drain: Millis(0),
            signal: 15,
            grace: Millis(30_000),
        },
        run_limit: None,
        constraints: Vec::new(),
        single_copy: xce_model::spec::SingleCopy::None,
    }
}

pub(super) fn job(cpus: u64) -> JobSpec {
    JobSpec {
        name: "job".into(),
        project: "default".into(),
        queue: "normal".into(),
        template: template(cpus),
        array: None,
        held: false,
        rerunnable: true,
    }
}

pub(super) fn in_queue(queue: &str, cpus: u64) -> JobSpec {
    JobSpec {
        queue: queue.into(),
        ..job(cpus)
    }
}

pub(super) fn array(last: u32, slot_limit: Option<u32>) -> JobSpec {
    JobSpec {
        array: Some(ArraySpec {
            ranges: vec![(1, last)],
            slot_limit,
        }),
        ..job(1)
    }
}

pub(super) fn port(port: Option<u16>) -> Vec<PortSpec> {
    vec![PortSpec {
        name: "http".into(),
        port,
    }]
}

pub(super) fn on_port(number: u16) -> JobSpec {
    let mut spec = job(1);
    spec.template.ports = port(Some(number));
    spec
}

pub(super) fn service(spread: Spread) -> ServiceSpec {
    ServiceSpec {
        name: "web".into(),
        project: "default".into(),
        queue: "normal".into(),
        profile: "service".into(),
        replicas: Some(3),
        origins: Vec::new(),
        template: template(1),
        settings: ServiceSettings {
            spread,
            rollout: RolloutSettings {
                max_surge: Amount::Percent(25),
                max_unavailable: Amount::Percent(25),
                min_ready: Millis(0),
                progress_deadline: Millis(600_000),
                on_stuck: OnStuck::Stop,
                history_limit: 10,
            },
            replacement: ReplacementSettings {
                stable_after: Millis(60_000),
                delay: Millis(1000),
                delay_max: Millis(300_000),
                crash_limit: 5,
                crash_window: Millis(600_000),
            },
            labels: Vec::new(),
        },
    }
}

pub(super) fn strict(max_per_host: u32) -> Spread {
    Spread {
        max_per_host: Some(max_per_host),
        best_effort: false,
        label: None,
    }
}
