//! What a client and the cluster tell each other.
//!
//! A change carries an operation id, so that a repeat after a lost answer has one effect and gets
//! the first answer. A read may ask for a state at least as new as a position.

use xce_host::view::HostView;
use xce_model::{JobId, Lsn, Millis, OperationId, Refusal, Run, Version};
use xce_replica::view::JobView;
use xce_replica::wire::Output;
use xce_service::view::ServiceView;

use crate::history::VersionDetails;
use crate::journal_wire::{JournalPart, JournalPosition, RefusalView};
use crate::member_wire::{AskMember, ReplyMember};
use crate::plan::PlanView;
use crate::policy_wire::{AskPolicy, JobRequest, PolicyView, ResolvedValue, ServiceRequest};

pub use crate::operator_wire::{ActorView, ClusterView, SessionView};

/// One request of a client.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Request {
    /// Names a change for ever; absent for reads.
    pub operation: Option<OperationId>,
    /// A position that was committed when the change was first asked for, and the same in every repeat;
    /// one that is older than what is remembered of operations is refused. 0 for reads.
    pub made_at: Lsn,
    /// A read answers from a state at least as new as this; 0 for whatever is committed.
    pub at_least: Lsn,
    /// What is asked.
    pub ask: Ask,
}

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub enum Ask {
    /// About services.
    Service(AskService),
    /// About jobs.
    Job(AskJob),
    /// About hosts.
    Host(AskHost),
    /// About the live actor tree.
    Actor(AskActor),
    /// About the cluster itself.
    Cluster(AskCluster),
    /// What would become of a change of a service; nothing is written.
    Plan(AskService),
    /// About profiles, projects and queues.
    Policy(AskPolicy),
    /// About the controllers.
    Member(AskMember),
}

/// What a client asks about services. A service is named within a project.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub enum AskService {
    /// Create it.
    Create(Box<ServiceRequest>),
    /// All, or those of one project.
    List {
        /// Project; all when absent.
        project: Option<String>,
    },
    /// One.
    Show(ServiceName),
    /// Set the wanted number of replicas.
    Scale {
        /// Which.
        name: ServiceName,
        /// Wanted number.
        desired: u32,
        /// Replicas that are to go first, when it shrinks.
        remove: Vec<JobId>,
    },
    /// Stop all and forget it.
    Delete(ServiceName),
    /// Kill one replica; it will be replaced.
    Kill {
        /// Which.
        name: ServiceName,
        /// Its replica by index; any version.
        index: u32,
    },
    /// Why it is not where it should be.
    Explain(ServiceName),
    /// A new version of the template; count and settings as far as they are given.
    Update {
        /// What is wanted.
        request: Box<ServiceRequest>,
        /// Whether the count of the file wins over an operator's.
        take_count: bool,
    },
    /// Freeze the mix of versions.
    Pause(ServiceName),
    /// Go on.
    Resume(ServiceName),
    /// Go back to an earlier template, as a new version.
    Rollback {
        /// Which.
        name: ServiceName,
        /// Version to copy; the last completed one other than the current when absent.
        to: Option<u32>,
    },
    /// A rollout of the same template.
    Restart(ServiceName),
    /// Where clients reach it: the set of now is pushed, and with `watch` every later one too.
    Endpoints {
        /// Which.
        name: ServiceName,
        /// Whether later sets are pushed as they change.
        watch: bool,
        /// Whether the reader says by [`EndpointsUsed`](crate::endpoints_wire::EndpointsUsed) which set
        /// it uses. A replica that stops is then drained no longer than such readers need.
        acknowledges: bool,
    },
    /// The versions that are kept, or one of them with its template.
    History {
        /// Which service.
        name: ServiceName,
        /// Only this version.
        version: Option<Version>,
    },
    /// Single values on top of what it is now; a new version where the template changes.
    Patch {
        /// The values that change.
        request: Box<ServiceRequest>,
        /// Values that are taken out, by dotted name, such as `env.LEVEL`.
        unset: Vec<String>,
        /// Whether its count wins over an operator's.
        take_count: bool,
    },
    /// Each value that it has, and where that came from.
    Resolved(ServiceName),
}

/// Names a service within a project.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct ServiceName {
    /// Project.
    pub project: String,
    /// Name.
    pub name: String,
}

/// What a client asks about jobs.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub enum AskJob {
    /// Submit it; the operation id is the client token.
    Submit(Box<JobRequest>),
    /// Those that match.
    List(JobFilter),
    /// One job or array with its elements.
    Show(JobId),
    /// Stop it for good.
    Kill {
        /// Jobs, elements, or whole arrays.
        jobs: Vec<JobId>,
        /// Also those that match; owner and name filters.
        signal: Option<i32>,
    },
    /// Keep it from being placed.
    Hold(Vec<JobId>),
    /// Let it be placed.
    Release(Vec<JobId>),
    /// Stop its run if there is one, and start a new one from pending.
    Requeue(Vec<JobId>),
    /// Stop its processes for a while.
    Suspend(Vec<JobId>),
    /// Let them go on.
    Resume(Vec<JobId>),
    /// Their runs are known to be dead, although nobody confirms it.
    ConfirmDead(Vec<JobId>),
    /// A part of its output.
    Output {
        /// The job.
        job: JobId,
        /// Its run; the current or last when absent.
        run: Option<Run>,
        /// Whether stderr, else stdout.
        stderr: bool,
        /// First byte wanted.
        offset: u64,
        /// Most bytes wanted.
        bytes_max: u32,
    },
}

/// Which jobs are listed.
#[derive(
    Debug, Clone, PartialEq, Eq, Default, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize,
)]
pub struct JobFilter {
    /// Also those that ended.
    pub all: bool,
    /// Only of this owner.
    pub owner: Option<String>,
    /// Only of this project.
    pub project: Option<String>,
    /// Only replicas of this service.
    pub service: Option<String>,
    /// Only with this name.
    pub name: Option<String>,
    /// Only on this host.
    pub host: Option<String>,
    /// Only those after this job, in the order of ids.
    pub after: Option<JobId>,
    /// Most rows of one answer; 0 for as many as fit in one.
    pub limit: u32,
}

/// What a client asks about hosts.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub enum AskHost {
    /// All.
    List,
    /// One.
    Show(String),
    /// Take no new jobs.
    Close {
        /// Which.
        host: String,
        /// Why.
        reason: String,
    },
    /// Take new jobs again.
    Reopen(String),
    /// Forget a host that is lost or away.
    Remove(String),
    /// Stop a run that is in quarantine.
    StopQuarantined {
        /// The host that it lives on.
        host: String,
        /// Its job.
        job: JobId,
        /// Its run.
        run: Run,
    },
    /// Its machine is known to be off.
    ConfirmDead(String),
    /// Let what runs there leave it.
    Drain {
        /// Which.
        host: String,
        /// How long batch jobs may run on, and replicas may wait for their replacement; as long as
        /// it takes when absent.
        patience: Option<Millis>,
        /// Why.
        reason: String,
    },
    /// Drain it no longer.
    Undrain(String),
}

/// What a client asks about the live actor tree.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub enum AskActor {
    /// Rows of the tree.
    Tree {
        /// Only of this kind.
        kind: Option<String>,
        /// Only in this phase.
        phase: Option<String>,
        /// Most children of one kind below one parent before they are folded into one row.
        fold_above: u32,
    },
    /// One actor with its view of its state.
    Show(String),
    /// Kill one; it comes back from committed state.
    Kill(String),
    /// Start a quarantined one again.
    Retry(String),
}

/// What a client asks about the cluster itself.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub enum AskCluster {
    /// Its state.
    Status,
    /// Check the invariants of the ledger.
    Audit,
    /// Sessions.
    Sessions,
    /// One session.
    Session(u64),
    /// Changed objects from a position on, pushed as they are committed.
    Watch(WatchFilter),
    /// The next part of the journal; the first when no position is given.
    Journal(Option<JournalPosition>),
    /// The last changes that were refused.
    Refusals {
        /// Most rows.
        last: u32,
    },
    /// Read the settings of the controller anew; answered as JSON.
    ReloadConfig,
}

/// What a watch is about.
#[derive(
    Debug, Clone, PartialEq, Eq, Default, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize,
)]
pub struct WatchFilter {
    /// Services.
    pub services: bool,
    /// Jobs.
    pub jobs: bool,
    /// Hosts.
    pub hosts: bool,
    /// Only of this project.
    pub project: Option<String>,
    /// Changes after this position; 0 for a full state first.
    pub after: Lsn,
}

/// Answer to a request.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub enum Reply {
    /// Not carried out.
    Refused(Refusal),
    /// Carried out, or already so.
    Accepted(Accepted),
    /// Services.
    Services(Vec<ServiceView>),
    /// Jobs; `more` where the answer was cut off.
    Jobs {
        /// Rows in the order of ids.
        jobs: Vec<JobView>,
        /// Whether there are more after the last one.
        more: bool,
    },
    /// Hosts.
    Hosts(Vec<HostView>),
    /// Rows of the actor tree.
    Actors(Vec<ActorView>),
    /// A state as JSON.
    Json(String),
    /// Lines of text.
    Lines(Vec<String>),
    /// A part of a job's output.
    Output(Output),
    /// What breaks the ledger's invariants; empty when it is clean.
    Findings(Vec<String>),
    /// Sessions.
    Sessions(Vec<SessionView>),
    /// The cluster.
    Cluster(Box<ClusterView>),
    /// A watch begins; changes follow as pushed messages.
    Watching {
        /// Position that the watch begins after.
        after: Lsn,
    },
    /// A part of the journal.
    Journal(Box<JournalPart>),
    /// Changes that were refused, the oldest first.
    Refusals(Vec<RefusalView>),
    /// What would become of a change.
    Plan(Box<PlanView>),
    /// Versions, oldest first.
    Versions(Vec<VersionDetails>),
    /// Profiles, projects or queues.
    Policies(Vec<PolicyView>),
    /// Values of a service with their sources.
    Resolved(Vec<ResolvedValue>),
    /// About the controllers.
    Member(ReplyMember),
}

/// A change that was carried out.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    Default,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct Accepted {
    /// Position of the change.
    pub lsn: Lsn,
    /// Ids that were given, such as of a submitted job.
    pub ids: Vec<String>,
    /// One sentence for people.
    pub text: String,
}

/// Pushed to a watch: the state of changed objects as of one position.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct Changes {
    /// Everything up to this position is contained.
    pub lsn: Lsn,
    /// Whether this is a full state: what is not named does not exist.
    pub full: bool,
    /// Whether more of the same position follows.
    pub more: bool,
    /// Services as they are now.
    pub services: Vec<ServiceView>,
    /// Jobs as they are now.
    pub jobs: Vec<JobView>,
    /// Hosts as they are now.
    pub hosts: Vec<HostView>,
    /// Objects that are gone, each `job/17`, `service/3` or `host/w1`.
    pub gone: Vec<String>,
}
