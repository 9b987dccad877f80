//! A client for measurements: many requests at once on one connection.

use std::error::Error;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use xce_link::hello::VERSIONS;
use xce_link::{
    Caller, Connected, Dialer, Hello, HelloAnswer, Identity, Opening, PeerKind, Settings,
};
use xce_model::spec::{
    Amount, ArraySpec, JobSpec, OnStuck, Probes, ReplacementSettings, Resources, RestartMode,
    RestartPolicy, RolloutSettings, ServiceSettings, ServiceSpec, Spread, StopPolicy, Template,
    User,
};
use xce_model::{Bytes, Incarnation, JobId, MilliCpu, Millis, OperationId};
use xce_replica::view::JobView;
use xce_service::ServiceView;
use xce_session::policy_wire::JobRequest;
use xce_session::wire::{
    Accepted, ActorView, Ask, AskActor, AskJob, AskService, JobFilter, Reply, Request, ServiceName,
};

/// Longest wait for one answer. Source: chosen; a measurement that waits longer has failed.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// Longest wait for a connection. Source: chosen, as above.
const DIAL_WITHIN: Duration = Duration::from_secs(10);
/// Longest wait for one attempt to connect.
/// Source: derived; a handshake takes 1.2 ms of processor time, and some tens on a busy machine.
const ATTEMPT_WITHIN: Duration = Duration::from_millis(100);

/// What a measurement fails with.
pub type Fault = Box<dyn Error + Send + Sync>;

/// A connected client.
#[derive(Clone)]
pub struct Client {
    caller: Arc<Caller>,
    /// Last position that this client knows to be committed.
    lsn: Arc<AtomicU64>,
}

impl Client {
    /// Connects with the identity of a home.
    pub async fn connect(home: &Path, address: SocketAddr) -> Result<Self, Fault> {
        let identity = Identity::load(&home.join("client"))?;
        let cluster = identity.principal().cluster;
        let dialer = Dialer::new(identity, Settings::default());
        let connected = dial(&dialer, address).await?;
        let (caller, _pushes) = Caller::new(connected, 16);
        let hello = Hello {
            versions: VERSIONS,
            cluster,
            kind: PeerKind::Client,
            incarnation: Incarnation(random()),
            opening: Opening::New,
        };
        match caller
            .call::<Hello, HelloAnswer>(&hello, ANSWER_WITHIN)
            .await?
        {
            HelloAnswer::Welcome(welcome) => Ok(Self {
                caller: Arc::new(caller),
                lsn: Arc::new(AtomicU64::new(welcome.lsn)),
            }),
            HelloAnswer::Refused(refusal) => Err(refusal.text.into()),
        }
    }

    /// Submits a job.
    pub async fn submit(&self, spec: JobSpec) -> Result<Accepted, Fault> {
        self.change(Ask::Job(AskJob::Submit(Box::new(JobRequest::whole(&spec)))))
            .await
    }

    /// Changes a service.
    pub async fn service(&self, ask: AskService) -> Result<(), Fault> {
        self.change(Ask::Service(ask)).await.map(drop)
    }

    /// Hands the leadership to a controller.
    pub async fn transfer(&self, node: u64) -> Result<(), Fault> {
        let ask = Ask::Member(xce_session::member_wire::AskMember::Transfer(node));
        self.change(ask).await.map(drop)
    }

    async fn change(&self, ask: Ask) -> Result<Accepted, Fault> {
        let request = Request {
            operation: Some(OperationId(random())),
            made_at: self.lsn.load(Ordering::Relaxed),
            at_least: 0,
            ask,
        };
        match self
            .caller
            .call::<Request, Reply>(&request, ANSWER_WITHIN)
            .await?
        {
            Reply::Accepted(accepted) => {
                self.lsn.fetch_max(accepted.lsn, Ordering::Relaxed);
                Ok(accepted)
            }
            other => Err(format!("not accepted: {other:?}").into()),
        }
    }

    /// Lists jobs after one.
    pub async fn list(&self, after: Option<JobId>) -> Result<Vec<JobView>, Fault> {
        let filter = JobFilter {
            all: true,
            after,
            ..JobFilter::default()
        };
        match self.ask(Ask::Job(AskJob::List(filter))).await? {
            Reply::Jobs { jobs, .. } => Ok(jobs),
            other => Err(format!("not a list: {other:?}").into()),
        }
    }

    /// Asks one thing that changes nothing.
    async fn ask(&self, ask: Ask) -> Result<Reply, Fault> {
        let request = Request {
            operation: None,
            made_at: 0,
            at_least: 0,
            ask,
        };
        Ok(self
            .caller
            .call::<Request, Reply>(&request, ANSWER_WITHIN)
            .await?)
    }

    /// One service.
    pub async fn show_service(&self, name: ServiceName) -> Result<ServiceView, Fault> {
        match self.ask(Ask::Service(AskService::Show(name))).await? {
            Reply::Services(mut services) => Ok(services.pop().ok_or("no service")?),
            other => Err(format!("not a service: {other:?}").into()),
        }
    }

    /// Rows of the tree of actors.
    pub async fn actors(&self, ask: AskActor) -> Result<Vec<ActorView>, Fault> {
        match self.ask(Ask::Actor(ask)).await? {
            Reply::Actors(rows) => Ok(rows),
            other => Err(format!("not actors: {other:?}").into()),
        }
    }

    /// One job, or an array with its elements.
    pub async fn show(&self, id: JobId) -> Result<Vec<JobView>, Fault> {
        match self.ask(Ask::Job(AskJob::Show(id))).await? {
            Reply::Jobs { jobs, .. } => Ok(jobs),
            other => Err(format!("not a job: {other:?}").into()),
        }
    }
}

/// Dials again and again: a first packet that nobody took is sent again after a second only.
async fn dial(dialer: &Dialer, address: SocketAddr) -> Result<Connected, Fault> {
    let end = Instant::now() + DIAL_WITHIN;
    loop {
        match dialer.dial(&[address], ATTEMPT_WITHIN).await {
            Ok(connected) => return Ok(connected),
            Err(error) if Instant::now() >= end => return Err(error.into()),
            Err(_nobody_there_yet) => {}
        }
    }
}

fn random() -> [u8; 16] {
    fastrand::u128(..).to_le_bytes()
}

/// A job that runs one command.
pub fn job(command: &[&str], cpus: u64, array: Option<ArraySpec>) -> JobSpec {
    JobSpec {
        name: "bench".into(),
        project: "default".into(),
        queue: "default".into(),
        template: template(command, cpus),
        array,
        held: false,
        rerunnable: false,
    }
}

/// A service of replicas that sleep; they need little, and are ready when they run.
pub fn service(name: &str, replicas: u32) -> ServiceSpec {
    let zero = Millis(0);
    let mut template = template(&["/bin/sleep", "100000"], 1);
    template.resources.memory = Bytes(16 << 20);
    template.restart.mode = RestartMode::Always;
    template.restart.delay = zero;
    template.restart.max_restarts = 1_000;
    ServiceSpec {
        name: name.into(),
        project: "default".into(),
        queue: "default".into(),
        profile: "service".into(),
        replicas: Some(replicas),
        origins: Vec::new(),
        template,
        settings: ServiceSettings {
            spread: Spread::default(),
            rollout: RolloutSettings {
                max_surge: Amount::Percent(25),
                max_unavailable: Amount::Percent(25),
                min_ready: zero,
                progress_deadline: Millis(600_000),
                on_stuck: OnStuck::Stop,
                history_limit: 10,
            },
            replacement: ReplacementSettings {
                stable_after: zero,
                delay: Millis(1),
                delay_max: Millis(1),
                crash_limit: 1_000,
                crash_window: Millis(60_000),
            },
            labels: Vec::new(),
        },
    }
}

fn template(command: &[&str], cpus: u64) -> Template {
    let user = nix::unistd::User::from_uid(nix::unistd::Uid::effective())
        .ok()
        .flatten();
    let (name, uid, gid) = user.map_or_else(
        || (String::new(), 0, 0),
        |user| (user.name, user.uid.as_raw(), user.gid.as_raw()),
    );
    Template {
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        cwd: None,
        user: User { name, uid, gid },
        resources: Resources {
            cpus: MilliCpu(cpus),
            memory: Bytes(2 << 20),
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
