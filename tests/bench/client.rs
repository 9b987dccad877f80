//! A client for measurements: many requests at once on one connection.

use std::error::Error;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use xce_link::hello::VERSIONS;
use xce_link::{Caller, Dialer, Hello, HelloAnswer, Identity, Opening, PeerKind, Settings};
use xce_model::spec::{
    ArraySpec, JobSpec, Probes, Resources, RestartMode, RestartPolicy, StopPolicy, Template, User,
};
use xce_model::{Bytes, Incarnation, JobId, MilliCpu, Millis, OperationId};
use xce_replica::view::JobView;
use xce_session::wire::{Accepted, Ask, AskJob, JobFilter, Reply, Request};

/// Longest wait for one answer. Source: chosen; a measurement that waits longer has failed.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// Longest wait for a connection. Source: chosen, as above.
const DIAL_WITHIN: Duration = Duration::from_secs(10);

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
        let connected = dialer.dial(&[address], DIAL_WITHIN).await?;
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
        let operation = Some(OperationId(random()));
        let request = Request {
            operation,
            made_at: self.lsn.load(Ordering::Relaxed),
            at_least: 0,
            ask: Ask::Job(AskJob::Submit(Box::new(spec))),
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
        let request = Request {
            operation: None,
            made_at: 0,
            at_least: 0,
            ask: Ask::Job(AskJob::List(filter)),
        };
        match self
            .caller
            .call::<Request, Reply>(&request, ANSWER_WITHIN)
            .await?
        {
            Reply::Jobs { jobs, .. } => Ok(jobs),
            other => Err(format!("not a list: {other:?}").into()),
        }
    }

    /// One job, or an array with its elements.
    pub async fn show(&self, id: JobId) -> Result<Vec<JobView>, Fault> {
        let request = Request {
            operation: None,
            made_at: 0,
            at_least: 0,
            ask: Ask::Job(AskJob::Show(id)),
        };
        match self
            .caller
            .call::<Request, Reply>(&request, ANSWER_WITHIN)
            .await?
        {
            Reply::Jobs { jobs, .. } => Ok(jobs),
            other => Err(format!("not a job: {other:?}").into()),
        }
    }
}

fn random() -> [u8; 16] {
    fastrand::u128(..).to_le_bytes()
}

/// A job that runs one command.
pub fn job(command: &[&str], cpus: u64, array: Option<ArraySpec>) -> JobSpec {
    let user = nix::unistd::User::from_uid(nix::unistd::Uid::effective())
        .ok()
        .flatten();
    let (name, uid, gid) = user.map_or_else(
        || (String::new(), 0, 0),
        |user| (user.name, user.uid.as_raw(), user.gid.as_raw()),
    );
    JobSpec {
        name: "bench".into(),
        project: "default".into(),
        queue: "normal".into(),
        template: Template {
            command: command.iter().map(|word| (*word).to_owned()).collect(),
            env: vec![("PATH".into(), "/usr/bin:/bin".into())],
            cwd: None,
            user: User { name, uid, gid },
            resources: Resources {
                cpus: MilliCpu(cpus),
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
        },
        array,
        held: false,
        rerunnable: false,
    }
}
