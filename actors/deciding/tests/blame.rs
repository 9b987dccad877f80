//! Services on a ledger, their replicas placed and decided as the controller does, on hosts of which
//! one spoils what starts on it.

use xce_host::facts::Inventory;
use xce_host::{HostFact, HostRecord};
use xce_ledger::{Created, Fact, Group, Ledger, Outcome, View, audit};
use xce_model::spec::*;
use xce_model::*;
use xce_replica::wire::Happened;
use xce_replica::{JobFact, JobRecord};
use xce_service::rules::{Census, Command, Draining, Event, Situation};
use xce_service::{Condition, ServiceFact, explain};
use xce_wal::Position;

use crate::{Author, Decided, ServiceStep, blame, host, schedule, service};

pub(super) struct Site {
    ledger: Ledger,
    lsn: Lsn,
    pub now: ClusterTime,
    /// The host on which everything that starts fails.
    bad: Option<&'static str>,
}

impl Site {
    pub fn new(hosts: &[&str], cpus: u64) -> Self {
        let mut site = Self {
            ledger: Ledger::new(Box::new(|_, _| {})),
            lsn: 0,
            now: ClusterTime(1_000_000),
            bad: None,
        };
        for name in hosts {
            let joined = HostFact::Joined {
                stale: Vec::new(),
                gone: Vec::new(),
                inventory: inventory(name, cpus),
            };
            site.apply(vec![joined.into()]);
        }
        site
    }

    pub fn view(&self) -> &View {
        self.ledger.view()
    }

    fn group(&self) -> Group {
        Group::new(self.now, WallTime(0), "test")
    }

    fn commit(&mut self, group: &Group) -> Vec<Created> {
        self.lsn += 1;
        let at = Position {
            term: 1,
            lsn: self.lsn,
            sub: 0,
        };
        let outcome = self.ledger.commit(at, group);
        self.ledger.publish(self.lsn, 1);
        match outcome {
            Outcome::Applied(answer) => answer.created,
            other => panic!("{other:?}: {group:?}"),
        }
    }

    pub fn apply(&mut self, facts: Vec<Fact>) -> Vec<Created> {
        let mut group = self.group();
        group.facts = facts;
        self.commit(&group)
    }

    pub fn decided(&mut self, decided: Decided) {
        let group = decided.into_group(self.group());
        self.commit(&group);
    }

    pub fn create(&mut self, name: &str, replicas: u32) -> ServiceId {
        let created = ServiceFact::Created {
            spec: Box::new(spec(name, replicas)),
            author: "ann".into(),
            operation: OperationId::default(),
        };
        match self.apply(vec![created.into()])[..] {
            [Created::Service(id)] => id,
            ref other => panic!("{other:?}"),
        }
    }

    pub fn command(&mut self, id: ServiceId, command: Command) -> Result<(), Refusal> {
        let author = Author {
            user: "ann".into(),
            operation: OperationId::default(),
        };
        let event = Event::Command(Box::new(command), author);
        match service(self.view(), id, event, (self.now, WallTime(0)))? {
            ServiceStep::Nothing(..) => {}
            ServiceStep::Decided(decided, _) => self.decided(decided),
        }
        Ok(())
    }

    /// Decides, places and lets processes start or fail until nothing happens at this time.
    pub fn settle(&mut self) {
        for _ in 0..1_000 {
            let before = self.lsn;
            self.decide_services();
            let placements = schedule::plan(self.view(), self.now);
            for placement in placements {
                self.decided(schedule::placement(&placement));
            }
            self.start_what_is_placed();
            self.look_at_trials();
            if self.lsn == before {
                assert_eq!(audit(self.view()), Vec::new());
                return;
            }
        }
        panic!("it does not come to rest");
    }

    pub fn decide_services(&mut self) {
        let ids: Vec<ServiceId> = self.view().services().keys().copied().collect();
        for id in ids {
            for _ in 0..100 {
                if self.view().service(id).is_none() {
                    break;
                }
                let times = (self.now, WallTime(0));
                match service(self.view(), id, Event::Changed, times).expect("not refused") {
                    ServiceStep::Nothing(..) => break,
                    ServiceStep::Decided(decided, _) => self.decided(decided),
                }
            }
        }
    }

    pub fn start_what_is_placed(&mut self) {
        let starting = |job: &&std::sync::Arc<JobRecord>| job.state == JobState::Start;
        let jobs: Vec<JobRecord> = self
            .view()
            .jobs()
            .values()
            .filter(starting)
            .map(|job| (**job).clone())
            .collect();
        for job in jobs {
            let host = job.host.as_deref().unwrap_or_default().to_owned();
            let is_bad = self.bad == Some(host.as_str());
            self.report(&job, is_bad);
        }
    }

    /// What a worker reports of a run that starts, and what that says of its host.
    fn report(&mut self, job: &JobRecord, fails: bool) {
        let (id, run, start) = (job.id, job.run, 1);
        let at = WallTime(0);
        let started = JobFact::Started {
            job: id,
            run,
            start,
            pid: 7,
            at,
        };
        self.apply(vec![started.into()]);
        if !fails {
            let ready = JobFact::Ready {
                job: id,
                run,
                start,
            };
            self.apply(vec![ready.into()]);
            return;
        }
        let mut exit = Exit::of(Cause::Exited);
        exit.code = Some(1);
        let stderr = "no such device\n".to_owned();
        let ended = JobFact::Ended {
            job: id,
            run,
            exit: exit.clone(),
            at,
            stderr: stderr.clone(),
        };
        let mut after = (**self.view().job(id).expect("it is there")).clone();
        after.apply(&ended, self.now, self.lsn);
        let name = job.host.as_deref().unwrap_or_default();
        let mut record: HostRecord = (**self.view().host(name).expect("it is there")).clone();
        let what = Happened::Ended { exit, stderr };
        let of_host = blame::of_report(self.view(), &mut record, Some(&after), &what, self.now);
        let mut facts = vec![ended.into()];
        facts.extend(of_host.into_iter().map(Fact::from));
        self.apply(facts);
    }

    /// Beats are the time to look at hosts that are tried.
    fn look_at_trials(&mut self) {
        let names: Vec<String> = self
            .view()
            .hosts()
            .keys()
            .map(|name| name.to_string())
            .collect();
        for name in names {
            if let Some(decided) = host::beat(self.view(), &name, false, (self.now, WallTime(0))) {
                self.decided(decided);
            }
        }
    }

    pub fn run_for(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.settle();
            self.now.0 += 1_000;
        }
        self.settle();
    }

    pub fn condition(&self, id: ServiceId) -> Condition {
        self.with(id, |situation| explain(situation, &|_| None).condition())
    }

    pub fn available(&self, id: ServiceId) -> u32 {
        self.with(id, |situation| {
            Census::take(situation.service, situation)
                .total()
                .available()
        })
    }

    pub fn with<T>(&self, id: ServiceId, look: impl FnOnce(&Situation<'_>) -> T) -> T {
        let view = self.view();
        let life = |host: &str| view.host(host).map(|host| host.life);
        let draining = |host: &str| view.host(host).and_then(|host| Draining::of(host));
        look(&Situation {
            service: view.service(id).expect("it is there"),
            replicas: view.replicas_of(id),
            life: &life,
            draining: &draining,
            now: self.now,
            wall: WallTime(0),
        })
    }

    pub fn host(&self, name: &str) -> &HostRecord {
        self.view().host(name).expect("it is there")
    }
}

pub(super) fn inventory(name: &str, cpus: u64) -> Inventory {
    Inventory {
        name: name.into(),
        incarnation: Incarnation([1; 16]),
        boot_id: "boot".into(),
        address: "127.0.0.1".into(),
        cpus: MilliCpu(cpus * 1000),
        memory: Bytes(1 << 40),
        port_first: 20_000,
        port_last: 20_999,
        labels: Vec::new(),
        not_enforced: Vec::new(),
    }
}

pub(super) fn spec(name: &str, replicas: u32) -> ServiceSpec {
    let seconds = Millis::seconds;
    ServiceSpec {
        name: name.into(),
        project: "default".into(),
        queue: "normal".into(),
        profile: "service".into(),
        replicas: Some(replicas),
        origins: Vec::new(),
        template: Template {
            command: vec!["/bin/serve".into()],
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
                delay_max: seconds(60),
                max_restarts: 5,
                window: seconds(600),
                stable_after: seconds(60),
            },
            stop: StopPolicy {
                drain: Millis(0),
                signal: 15,
                grace: seconds(30),
            },
            run_limit: None,
            constraints: Vec::new(),
            single_copy: xce_model::spec::SingleCopy::None,
        },
        settings: ServiceSettings {
            spread: Spread::default(),
            rollout: RolloutSettings {
                max_surge: Amount::Count(1),
                max_unavailable: Amount::Count(0),
                min_ready: Millis(0),
                progress_deadline: seconds(600),
                on_stuck: OnStuck::Stop,
                history_limit: 10,
            },
            replacement: ReplacementSettings {
                stable_after: seconds(60),
                delay: seconds(1),
                delay_max: seconds(300),
                crash_limit: 5,
                crash_window: seconds(600),
            },
            labels: Vec::new(),
        },
    }
}

#[test]
fn two_services_that_crash_on_one_host_close_it_and_go_elsewhere() {
    let mut site = Site::new(&["h1", "h2", "h3", "h4"], 8);
    site.bad = Some("h1");
    let (web, api) = (site.create("web", 4), site.create("api", 4));
    site.run_for(30);
    let closed = site.host("h1").closed.as_ref().expect("it is closed");
    for part in ["web", "api", "on no other host", "exit code 1"] {
        assert!(closed.reason.contains(part), "{part}: {}", closed.reason);
    }
    for id in [web, api] {
        assert_eq!(site.available(id), 4);
        assert_eq!(site.condition(id), Condition::Steady);
        let current = site.view().service(id).expect("it is there").current();
        assert!(!current.backoff.crash_loop);
    }
    // Tried after a minute, with one replica; that fails, and the service goes on elsewhere.
    site.run_for(60);
    let scale = |desired| Command::Scale {
        desired,
        remove: Vec::new(),
    };
    for id in [web, api] {
        site.command(id, scale(12)).expect("accepted");
    }
    site.run_for(30);
    assert_eq!(site.host("h1").trial.map(|trial| trial.step), Some(2));
    assert_eq!(site.available(web) + site.available(api), 24);
    // Repaired: the next one runs there for a minute, and the host is opened.
    site.bad = None;
    site.run_for(120);
    for id in [web, api] {
        site.command(id, scale(14)).expect("accepted");
    }
    site.run_for(10);
    let there = site.view().usage("h1").map_or(0, |usage| usage.jobs.len());
    assert_eq!(there, 1, "one job tries it");
    assert!(site.host("h1").closed.is_some());
    site.run_for(60);
    assert!(site.host("h1").takes_jobs());
    assert_eq!(site.available(web) + site.available(api), 28);
}

#[test]
fn one_bad_version_blames_itself_and_no_host() {
    let mut site = Site::new(&["h1", "h2", "h3"], 8);
    let good = site.create("good", 3);
    site.run_for(5);
    let bad = site.create("bad", 3);
    for _ in 0..40 {
        // Everything of the bad one fails, wherever it is.
        site.bad = None;
        site.decide_services();
        for placement in schedule::plan(site.view(), site.now) {
            site.decided(schedule::placement(&placement));
        }
        let starting: Vec<JobRecord> = site
            .view()
            .jobs()
            .values()
            .filter(|job| job.state == JobState::Start)
            .map(|job| (**job).clone())
            .collect();
        for job in starting {
            let fails = job.service.is_some_and(|of| of.service == bad);
            site.report(&job, fails);
        }
        site.now.0 += 1_000;
    }
    assert!(
        ["h1", "h2", "h3"]
            .iter()
            .all(|name| site.host(name).takes_jobs())
    );
    assert_eq!(site.condition(bad), Condition::CrashLoop);
    let reason = site.with(bad, |situation| {
        explain(situation, &|_| None).reason().to_owned()
    });
    for part in ["the version is to blame", "exit code 1", "no such device"] {
        assert!(reason.contains(part), "{part}: {reason}");
    }
    assert_eq!(site.available(good), 3);
}

#[test]
fn an_update_that_cannot_begin_is_refused_with_what_would_help() {
    let mut site = Site::new(&["h1", "h2"], 2);
    let id = site.create("web", 4);
    site.run_for(10);
    assert_eq!(site.available(id), 4);
    let update = |change: fn(&mut ServiceSpec)| {
        let mut spec = spec("web", 4);
        spec.template.command.push("--new".into());
        change(&mut spec);
        Command::Update {
            spec: Box::new(spec),
            take_count: false,
        }
    };
    let refusal = site.command(id, update(|_| {})).expect_err("full hosts");
    assert_eq!(refusal.code, "cannot_move");
    for part in ["max_unavailable", "at least 1", "cpus"] {
        assert!(refusal.text.contains(part), "{part}: {}", refusal.text);
    }
    assert!(site.command(id, Command::Restart).is_err());
    assert_eq!(site.view().service(id).expect("there").versions.len(), 1);
    // A template that no host suits waits with its reason: no setting would help.
    let unknown = update(|spec| {
        spec.template.constraints = vec![("gpu".into(), "yes".into())];
    });
    site.command(id, unknown).expect("accepted");
    site.command(id, Command::Rollback { to: None })
        .expect("accepted");
    site.run_for(5);
    // What would help is accepted.
    let helped = update(|spec| spec.settings.rollout.max_unavailable = Amount::Count(1));
    site.command(id, helped).expect("accepted");
}

/// A fixed port is as good as full hosts.
#[test]
fn a_fixed_port_on_every_host_is_named() {
    let mut site = Site::new(&["h1", "h2"], 8);
    let with_port = |command: &str| {
        let mut spec = spec("web", 2);
        spec.template.command = vec![command.into()];
        spec.template.ports = vec![PortSpec {
            name: "http".into(),
            port: Some(8080),
        }];
        spec
    };
    let created = ServiceFact::Created {
        spec: Box::new(with_port("/bin/one")),
        author: "ann".into(),
        operation: OperationId::default(),
    };
    site.apply(vec![created.into()]);
    site.run_for(5);
    let update = Command::Update {
        spec: Box::new(with_port("/bin/two")),
        take_count: false,
    };
    let refusal = site
        .command(ServiceId(1), update)
        .expect_err("the port is held");
    assert_eq!(refusal.code, "cannot_move");
    assert!(
        refusal.text.contains("port 8080 in use on"),
        "{}",
        refusal.text
    );
}
