//! A cluster to plan on, and short names for changes of its one service.

use xce_host::HostFact;
use xce_host::facts::Inventory;
use xce_ledger::{Created, Fact, Group, Outcome, View};
use xce_model::spec::{
    Amount, OnStuck, Probe, ProbeAction, Probes, ReplacementSettings, Resources, RestartMode,
    RestartPolicy, RolloutSettings, ServiceSettings, ServiceSpec, Spread, StopPolicy, Template,
    User,
};
use xce_model::{
    Bytes, ClusterTime, Incarnation, MilliCpu, Millis, OperationId, Refusal, ServiceId, WallTime,
};
use xce_replica::JobFact;
use xce_service::facts::TargetReason;
use xce_service::rules::{Author, Command};
use xce_service::{ServiceFact, ServiceRecord};
use xce_session::plan::PlanView;

use crate::{Bounds, Question, Wanted, plan};

pub(super) struct World {
    pub view: View,
    pub now: ClusterTime,
    pub service: ServiceId,
    pub bounds: Bounds,
}

impl World {
    /// Hosts of so many processors each, and no service.
    pub fn new(hosts: u32, cpus: u64) -> Self {
        let mut world = Self {
            view: View::default(),
            now: ClusterTime(1_000_000),
            service: ServiceId(0),
            bounds: Bounds::default(),
        };
        for number in 1..=hosts {
            world.apply(vec![
                HostFact::Joined {
                    stale: Vec::new(),
                    gone: Vec::new(),
                    inventory: inventory(&format!("h{number}"), cpus),
                }
                .into(),
            ]);
        }
        world
    }

    /// A service whose first version is complete: carried out as planned.
    pub fn complete(spec: &ServiceSpec) -> Self {
        let mut world = Self::new(4, 10_000);
        world.create(spec);
        world.carry_out();
        world
    }

    /// As [`World::complete`], for a large service: all its replicas are there at once.
    pub fn filled(spec: &ServiceSpec) -> Self {
        let mut world = Self::new(4, 10_000);
        world.create(spec);
        let (service, version) = (world.service, 1);
        let indices = (0..spec.replicas.expect("given")).collect();
        world.apply(vec![
            ServiceFact::Targeted {
                service,
                version,
                want: spec.replicas.expect("given"),
                why: TargetReason::Grow,
            }
            .into(),
            ServiceFact::VersionProved { service, version }.into(),
            JobFact::ReplicasSubmitted {
                service,
                version,
                indices,
            }
            .into(),
        ]);
        let placements = xce_placement::plan(&world.view, &[], world.now, usize::MAX);
        world.apply(placements.iter().map(|one| one.fact().into()).collect());
        let started = placements.iter().map(|one| JobFact::Started {
            job: one.job,
            run: 1,
            start: 1,
            pid: 1,
            at: WallTime(0),
        });
        world.apply(started.map(Fact::from).collect());
        let ready = placements.iter().map(|one| JobFact::Ready {
            job: one.job,
            run: 1,
            start: 1,
        });
        world.apply(ready.map(Fact::from).collect());
        world.carry_out();
        world
    }

    pub fn apply(&mut self, facts: Vec<Fact>) -> Vec<Created> {
        let mut group = Group::new(self.now, WallTime(0), "test");
        group.facts = facts;
        let ignored = self.view.ignored();
        let Outcome::Applied(answer) = self.view.imagine(&group) else {
            panic!("not applied");
        };
        assert_eq!(self.view.ignored(), ignored, "{group:?}");
        answer.created
    }

    pub fn create(&mut self, spec: &ServiceSpec) {
        let created = self.apply(vec![
            ServiceFact::Created {
                spec: Box::new(spec.clone()),
                author: "ann".into(),
                operation: OperationId([0; 16]),
            }
            .into(),
        ]);
        let [Created::Service(id)] = created[..] else {
            panic!("{created:?}");
        };
        self.service = id;
    }

    pub fn record(&self) -> &ServiceRecord {
        self.view.service(self.service).expect("it is there")
    }

    /// Lets the rules, the placement and workers go on until nothing happens.
    pub fn carry_out(&mut self) {
        super::traces::Reality::of(self).run();
    }

    pub fn question(&self) -> Question<'_> {
        Question {
            view: &self.view,
            queues: &[],
            now: self.now,
            wall: WallTime(0),
            bounds: self.bounds,
        }
    }

    pub fn try_plan(&self, command: Command) -> Result<PlanView, Refusal> {
        let wanted = Wanted::Change(self.service, Box::new(command));
        plan(&self.question(), wanted, &author())
    }

    /// Plans, and sees that nothing was changed.
    pub fn plan(&self, command: Command) -> PlanView {
        let before = self.view.clone();
        let planned = self.try_plan(command).expect("not refused");
        assert!(self.view == before, "a plan changes nothing");
        planned
    }

    pub fn update(&self, change: impl FnOnce(&mut ServiceSpec)) -> Command {
        let record = self.record();
        let mut spec = ServiceSpec {
            name: record.name.clone(),
            project: record.project.clone(),
            queue: "normal".into(),
            profile: record.profile.clone(),
            replicas: None,
            template: record.current().spec.template.clone(),
            settings: record.settings.clone(),
            origins: Vec::new(),
        };
        change(&mut spec);
        Command::Update {
            spec: Box::new(spec),
            take_count: false,
        }
    }

    pub fn new_template(&self) -> Command {
        let next = format!("v{}", self.record().current().number + 1);
        self.update(|spec| spec.template.command = vec![next])
    }
}

pub(super) fn author() -> Author {
    Author {
        user: "ann".into(),
        operation: OperationId([0; 16]),
    }
}

fn inventory(name: &str, cpus: u64) -> Inventory {
    Inventory {
        name: name.into(),
        incarnation: Incarnation([1; 16]),
        boot_id: "boot".into(),
        address: "127.0.0.1".into(),
        cpus: MilliCpu(cpus * 1000),
        memory: Bytes(1 << 50),
        port_first: 20_000,
        port_last: 20_999,
        labels: Vec::new(),
        not_enforced: Vec::new(),
    }
}

/// A service with a readiness probe.
pub(super) fn spec(replicas: u32, surge: u32, unavailable: u32) -> ServiceSpec {
    ServiceSpec {
        name: "web".into(),
        project: "default".into(),
        queue: "normal".into(),
        profile: "service".into(),
        replicas: Some(replicas),
        template: template(),
        settings: ServiceSettings {
            spread: Spread::default(),
            rollout: RolloutSettings {
                max_surge: Amount::Count(surge),
                max_unavailable: Amount::Count(unavailable),
                min_ready: Millis(0),
                progress_deadline: Millis::seconds(600),
                on_stuck: OnStuck::Stop,
                history_limit: 10,
            },
            replacement: ReplacementSettings {
                stable_after: Millis::seconds(60),
                delay: Millis::seconds(1),
                delay_max: Millis::seconds(300),
                crash_limit: 5,
                crash_window: Millis::seconds(600),
            },
            labels: Vec::new(),
        },
        origins: Vec::new(),
    }
}

fn template() -> Template {
    Template {
        command: vec!["v1".into()],
        env: Vec::new(),
        cwd: None,
        user: User {
            name: "ann".into(),
            uid: 1000,
            gid: 1000,
        },
        resources: Resources {
            cpus: MilliCpu(1000),
            memory: Bytes(1 << 20),
        },
        ports: Vec::new(),
        probes: Probes {
            readiness: Some(Box::new(Probe {
                action: ProbeAction::Exec {
                    command: vec!["probe".into()],
                },
                initial_delay: Millis::seconds(2),
                period: Millis::seconds(10),
                timeout: Millis::seconds(1),
                success_threshold: 1,
                failure_threshold: 3,
            })),
            ..Probes::default()
        },
        restart: RestartPolicy {
            mode: RestartMode::Always,
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
