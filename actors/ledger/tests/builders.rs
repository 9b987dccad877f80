//! A ledger that is audited after every step, and short names for facts.

use std::sync::{Arc, Mutex};

use xce_host::HostFact;
use xce_host::facts::Inventory;
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

use crate::{Answer, Created, Fact, Group, Key, Ledger, Outcome, View, audit};

/// A ledger with a log.
pub(super) struct Bench {
    pub ledger: Ledger,
    pub lsn: u64,
    pub now: u64,
    pub log: Vec<(Position, Vec<u8>)>,
    pub told: Arc<Mutex<Vec<Key>>>,
}

impl Bench {
    pub fn new() -> Self {
        let told = Arc::new(Mutex::new(Vec::new()));
        let sink = told.clone();
        let ledger = Ledger::new(Box::new(move |_, keys| {
            sink.lock().unwrap().extend_from_slice(keys);
        }));
        Self {
            ledger,
            lsn: 0,
            now: 0,
            log: Vec::new(),
            told,
        }
    }

    pub fn group(&self) -> Group {
        Group::new(
            ClusterTime(self.now),
            WallTime(1_000_000 + self.now as i64),
            "test",
        )
    }

    pub fn commit(&mut self, group: Group) -> Outcome {
        self.lsn += 3;
        let at = Position {
            term: 1,
            lsn: self.lsn,
            sub: 0,
        };
        let bytes = group.encode();
        assert_eq!(Group::decode(&bytes).unwrap(), group);
        self.log.push((at, bytes));
        let outcome = self.ledger.commit(at, &group);
        self.ledger.publish(self.lsn, 1);
        assert_eq!(audit(self.view()), Vec::new(), "after {group:?}");
        outcome
    }

    pub fn apply(&mut self, facts: impl IntoIterator<Item = Fact>) -> Answer {
        let mut group = self.group();
        group.facts.extend(facts);
        match self.commit(group) {
            Outcome::Applied(answer) => answer,
            other => panic!("{other:?}"),
        }
    }

    pub fn view(&self) -> &View {
        self.ledger.view()
    }

    pub fn submit(&mut self, spec: JobSpec) -> JobId {
        match self.apply([submitted(spec)]).created[..] {
            [Created::Job(id)] => id,
            ref other => panic!("{other:?}"),
        }
    }

    pub fn host(&mut self, name: &str, cpus: u64) {
        self.apply([joined(name, cpus, 1)]);
    }

    pub fn service(&mut self, name: &str, replicas: u32) -> ServiceId {
        match self.apply([created(name, replicas)]).created[..] {
            [Created::Service(id)] => id,
            ref other => panic!("{other:?}"),
        }
    }

    pub fn place(&mut self, id: JobId, run: Run, host: &str) -> Answer {
        self.apply([placed(id, run, host, &[])])
    }
}

pub(super) fn template() -> Template {
    Template {
        command: vec!["/bin/true".into()],
        env: vec![("PATH".into(), "/bin".into())],
        cwd: None,
        user: User {
            name: "ann".into(),
            uid: 1000,
            gid: 1000,
        },
        resources: Resources {
            cpus: MilliCpu(1000),
            memory: Bytes(64 << 20),
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

pub(super) fn job(name: &str) -> JobSpec {
    JobSpec {
        name: name.into(),
        project: "default".into(),
        queue: "normal".into(),
        template: template(),
        array: None,
        held: false,
        rerunnable: true,
    }
}

pub(super) fn array(ranges: &[(u32, u32)], slot_limit: Option<u32>) -> JobSpec {
    JobSpec {
        array: Some(ArraySpec {
            ranges: ranges.to_vec(),
            slot_limit,
        }),
        ..job("array")
    }
}

pub(super) fn inventory(name: &str, cpus: u64, incarnation: u8) -> Inventory {
    Inventory {
        name: name.into(),
        incarnation: Incarnation([incarnation; 16]),
        boot_id: "boot".into(),
        address: "127.0.0.1".into(),
        cpus: MilliCpu(cpus * 1000),
        memory: Bytes(cpus << 30),
        port_first: 20_000,
        port_last: 20_009,
        labels: vec![("zone".into(), "a".into())],
        not_enforced: Vec::new(),
    }
}

pub(super) fn settings() -> ServiceSettings {
    ServiceSettings {
        spread: Spread::default(),
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
    }
}

pub(super) fn service_spec(name: &str, replicas: u32) -> ServiceSpec {
    ServiceSpec {
        name: name.into(),
        project: "default".into(),
        queue: "normal".into(),
        profile: "service".into(),
        replicas: Some(replicas),
        origins: Vec::new(),
        template: Template {
            ports: vec![PortSpec {
                name: "http".into(),
                port: None,
            }],
            ..template()
        },
        settings: settings(),
    }
}

pub(super) fn submitted(spec: JobSpec) -> Fact {
    Fact::Job(JobFact::Submitted {
        spec: Box::new(spec),
        operation: OperationId([1; 16]),
    })
}

pub(super) fn joined(name: &str, cpus: u64, incarnation: u8) -> Fact {
    Fact::Host(HostFact::Joined {
        stale: Vec::new(),
        gone: Vec::new(),
        inventory: inventory(name, cpus, incarnation),
    })
}

pub(super) fn created(name: &str, replicas: u32) -> Fact {
    Fact::Service(ServiceFact::Created {
        spec: Box::new(service_spec(name, replicas)),
        author: "ann".into(),
        operation: OperationId([2; 16]),
    })
}

pub(super) fn replicas(service: ServiceId, version: u32, indices: &[u32]) -> Fact {
    Fact::Job(JobFact::ReplicasSubmitted {
        service,
        version,
        indices: indices.to_vec(),
    })
}

pub(super) fn placed(job: JobId, run: Run, host: &str, ports: &[u16]) -> Fact {
    Fact::Job(JobFact::Placed {
        job,
        run,
        host: host.into(),
        ports: ports
            .iter()
            .map(|port| (format!("p{port}"), *port))
            .collect(),
    })
}

pub(super) fn started(job: JobId, run: Run, start: u32) -> Fact {
    Fact::Job(JobFact::Started {
        job,
        run,
        start,
        pid: 4242,
        at: WallTime(5),
    })
}

pub(super) fn exit(code: i32) -> Exit {
    Exit {
        code: Some(code),
        ..Exit::of(Cause::Exited)
    }
}

pub(super) fn ended(job: JobId, run: Run, code: i32) -> Fact {
    Fact::Job(JobFact::Ended {
        job,
        run,
        exit: exit(code),
        at: WallTime(6),
        stderr: String::new(),
    })
}

pub(super) fn held(job: JobId) -> Fact {
    Fact::Job(JobFact::Held { job })
}

pub(super) fn released(job: JobId) -> Fact {
    Fact::Job(JobFact::Released { job })
}

pub(super) fn cleaned_up(job: JobId) -> Fact {
    Fact::Job(JobFact::CleanedUp { job })
}

/// Numbers that look random and are the same every time.
pub(super) struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }
}
