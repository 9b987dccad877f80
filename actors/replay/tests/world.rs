//! A ledger that keeps its log, and the shells of the controller in a few lines.

use xce_deciding::{Author, Decided, ServiceStep, event_of, host, schedule};
use xce_host::facts::Inventory;
use xce_host::rules::{Command as HostCommand, Patience};
use xce_ledger::{Created, Group, GroupEvent, Joining, Ledger, Outcome, Precondition, View};
use xce_model::spec::{
    Amount, OnStuck, Probes, ReplacementSettings, Resources, RestartMode, RestartPolicy,
    RolloutSettings, ServiceSettings, ServiceSpec, Spread, StopPolicy, Template, User,
};
use xce_model::{
    Bytes, Cause, ClusterTime, Exit, Incarnation, JobId, JobState, MilliCpu, Millis, OperationId,
    ServiceId, WallTime,
};
use xce_replica::JobFact;
use xce_service::ServiceFact;
use xce_service::rules::{Command, Event};
use xce_wal::Position;

pub struct World {
    ledger: Ledger,
    pub now: u64,
    pub log: Vec<(Position, Group)>,
}

const PATIENCE: Patience = Patience {
    beat: Millis(2000),
    grace: Millis(20_000),
    away_max: Millis(600_000),
};

impl World {
    pub fn new() -> Self {
        Self {
            ledger: Ledger::new(Box::new(|_, _| ())),
            now: 1000,
            log: Vec::new(),
        }
    }

    pub fn view(&self) -> View {
        self.ledger.view().clone()
    }

    fn times(&self) -> (ClusterTime, WallTime) {
        (ClusterTime(self.now), WallTime(7_000_000))
    }

    fn group(&self, cause: &str) -> Group {
        Group::new(self.times().0, self.times().1, cause)
    }

    /// Commits groups as one entry.
    pub fn commit(&mut self, groups: Vec<Group>) -> Vec<Outcome> {
        let lsn = self.ledger.view().lsn() + 1;
        let mut outcomes = Vec::new();
        for (sub, group) in (0..).zip(groups) {
            let at = Position { term: 1, lsn, sub };
            outcomes.push(self.ledger.commit(at, &group));
            self.log.push((at, group));
        }
        self.ledger.publish(lsn, 1);
        outcomes
    }

    fn decided(&mut self, cause: &str, event: GroupEvent, decided: Decided) -> Outcome {
        let from = self.ledger.view().lsn();
        let group = self.group(cause).decided_on(from, event);
        self.commit(vec![decided.into_group(group)]).remove(0)
    }

    pub fn join(&mut self, name: &str, incarnation: u8) {
        let joining = Joining {
            inventory: Inventory {
                name: name.into(),
                incarnation: Incarnation([incarnation; 16]),
                boot_id: "boot".into(),
                address: "127.0.0.1".into(),
                cpus: MilliCpu(8000),
                memory: Bytes(8 << 30),
                port_first: 20_000,
                port_last: 20_100,
                labels: Vec::new(),
                not_enforced: Vec::new(),
            },
            connected: None,
            runs: Vec::new(),
            spool: (1, 0),
        };
        let step = host::join(&self.view(), &joining, self.times()).unwrap();
        let event = GroupEvent::HostJoined(Box::new(joining));
        self.decided("join", event, step.unwrap().decided);
    }

    pub fn silent(&mut self, name: &str, millis: u64) {
        let (silent, times) = (Millis(millis), self.times());
        let step = host::silence(&self.view(), name, silent, PATIENCE, times);
        let event = GroupEvent::HostSilent {
            host: name.into(),
            silent,
            patience: Box::new(PATIENCE),
        };
        self.decided("silent", event, step.unwrap().decided);
    }

    pub fn close(&mut self, name: &str) {
        let command = HostCommand::Close("full".into());
        let (step, _) = host::command(&self.view(), name, &command, "ann", self.times()).unwrap();
        let event = GroupEvent::HostCommand {
            host: name.into(),
            command: Box::new(command),
        };
        let from = self.ledger.view().lsn();
        let group = self.group("close").on_behalf("ann", None);
        let group = step.decided.into_group(group.decided_on(from, event));
        self.commit(vec![group]);
    }

    pub fn create(&mut self, replicas: u32) -> ServiceId {
        let fact = ServiceFact::Created {
            spec: Box::new(spec(replicas)),
            author: "ann".into(),
            operation: OperationId([0; 16]),
        };
        let group = self.group("create").on_behalf("ann", None).with(fact);
        match self.commit(vec![group]).remove(0) {
            Outcome::Applied(answer) => match answer.created[..] {
                [Created::Service(id)] => id,
                _ => panic!("{answer:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    /// Makes one decision of a service from a view, as the group that its actor would commit.
    pub fn step(&self, view: &View, id: ServiceId, event: Event, user: &str) -> Option<Group> {
        view.service(id)?;
        let recorded = event_of(id, &event);
        match xce_deciding::service(view, id, event, self.times()).unwrap() {
            ServiceStep::Nothing(..) => None,
            ServiceStep::Decided(decided, _pending) => {
                let group = self.group("step").on_behalf(user, None);
                Some(decided.into_group(group.decided_on(view.lsn(), recorded)))
            }
        }
    }

    /// Decides until nothing comes out.
    pub fn settle(&mut self, id: ServiceId) {
        while let Some(group) = self.step(&self.view(), id, Event::Changed, "") {
            self.commit(vec![group]);
        }
    }

    pub fn command(&mut self, id: ServiceId, command: Command) -> Outcome {
        let author = Author {
            user: "ann".into(),
            operation: OperationId::default(),
        };
        let event = Event::Command(Box::new(command), author);
        let group = self.step(&self.view(), id, event, "ann").unwrap();
        self.commit(vec![group]).remove(0)
    }

    /// Plans, and commits all placements as one entry.
    pub fn schedule(&mut self) -> usize {
        let view = self.view();
        let plan = schedule::plan(&view, self.times().0);
        let groups: Vec<Group> = (0..)
            .zip(&plan)
            .map(|(nth, placement)| {
                let group = self.group("place");
                let group = group.decided_on(view.lsn(), GroupEvent::Planned { nth });
                schedule::placement(placement).into_group(group)
            })
            .collect();
        if !groups.is_empty() {
            self.commit(groups);
        }
        plan.len()
    }

    /// What the worker of a host says of all that it was ordered: it starts, is ready, ends.
    pub fn work(&mut self, host: &str) {
        let view = self.view();
        let jobs: Vec<_> = view.jobs().values().cloned().collect();
        for job in jobs.iter().filter(|job| job.host.as_deref() == Some(host)) {
            let (id, run) = (job.id, job.run);
            let mut group = self.group("reports");
            if job.state == JobState::Start {
                group = group
                    .with(JobFact::Started {
                        job: id,
                        run,
                        start: 1,
                        pid: 1,
                        at: WallTime(1),
                    })
                    .with(JobFact::Ready {
                        job: id,
                        run,
                        start: 1,
                    });
            } else if job.state == JobState::Stopping {
                group = group.with(ended(id, run, Cause::TermOwner));
            } else {
                continue;
            }
            self.commit(vec![group]);
        }
    }

    /// A worker's facts that end a job, with what is placed ahead of their commit, as one entry.
    pub fn end_and_place(&mut self, host_name: &str, job: JobId) {
        let view = self.view();
        let run = view.job(job).unwrap().run;
        let mark = view.host(host_name).unwrap();
        let mut reports = self.group("reports").given(Precondition::HostMark {
            host: host_name.into(),
            incarnation: mark.inventory.incarnation,
            epoch: mark.epoch,
            sequence: mark.sequence,
        });
        reports.decided = view.lsn();
        reports = reports.with(ended(job, run, Cause::Exited));
        let mut groups = vec![reports];
        let ahead = schedule::plan_ahead(&view, &groups[0], self.times().0);
        for (nth, placement) in (0..).zip(&ahead) {
            let host = host_name.to_owned();
            let event = GroupEvent::PlannedAhead { nth, host };
            let group = self.group("place").decided_on(view.lsn(), event);
            groups.push(schedule::placement(placement).into_group(group));
        }
        self.commit(groups);
    }

    /// Lets a service, the scheduler and all workers run until nothing moves.
    pub fn run(&mut self, id: ServiceId) {
        for _ in 0..50 {
            let before = self.log.len();
            self.now += 1500;
            self.settle(id);
            self.schedule();
            let hosts: Vec<String> = self
                .view()
                .hosts()
                .keys()
                .map(ToString::to_string)
                .collect();
            for host in hosts {
                self.work(&host);
            }
            if self.log.len() == before {
                return;
            }
        }
    }
}

pub fn ended(job: JobId, run: u32, cause: Cause) -> JobFact {
    JobFact::Ended {
        job,
        run,
        exit: Exit::of(cause),
        at: WallTime(3),
        stderr: String::new(),
    }
}

pub fn template() -> Template {
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
            cpus: MilliCpu(1000),
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

pub fn spec(replicas: u32) -> ServiceSpec {
    ServiceSpec {
        name: "web".into(),
        project: "default".into(),
        queue: "normal".into(),
        profile: "service".into(),
        replicas: Some(replicas),
        origins: Vec::new(),
        template: template(),
        settings: ServiceSettings {
            spread: Spread {
                max_per_host: None,
                best_effort: false,
                label: None,
            },
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
