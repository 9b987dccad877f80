//! The state that the facts add up to, at one position; cheap to clone, never changes under a reader.
//!
//! Every table is a persistent map, so a clone costs the same at any size, and a reader that keeps
//! an old one stops nobody.

use std::collections::BTreeSet;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use xce_host::{HostLife, HostRecord};
use xce_model::{
    Bytes, ClusterTime, JobId, Lsn, MilliCpu, OperationId, ServiceId, SessionId, Version,
};
use xce_profile::PolicyKind;
use xce_replica::JobRecord;
use xce_service::{Replicas, Roster, ServiceRecord};

use crate::arrays::ArrayRecord;
use crate::changes::Changes;
use crate::clock::ClusterClock;
use crate::group::{Answer, Operation};
use crate::level::LEVEL_MIN;
use crate::members::{Epoch, FOUNDER};
use crate::operations::{Known, Operations};
use crate::policies::{PolicyKey, PolicyRecord};
use crate::sessions::SessionRecord;
use crate::usage::Usage;

/// Identity of something in the ledger.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A job with a record of its own.
    Job(JobId),
    /// An array, by its number.
    Array(u64),
    /// A host.
    Host(Arc<str>),
    /// A service.
    Service(ServiceId),
    /// A session.
    Session(SessionId),
    /// A profile, a project or a queue.
    Policy(PolicyKind, Arc<str>),
}

/// Highest numbers that were given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbers {
    /// To jobs and arrays.
    pub jobs: u64,
    /// To services.
    pub services: u64,
    /// To sessions.
    pub sessions: u64,
}

/// How many pending jobs ask for how much; its smallest keys tell when no host has room for any.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Requests {
    /// Jobs and arrays by the processors they ask for.
    pub cpus: OrdMap<MilliCpu, u32>,
    /// Jobs and arrays by the memory they ask for.
    pub memory: OrdMap<Bytes, u32>,
}

/// Change indices, one of each kind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChangeIndex {
    /// Of jobs.
    pub jobs: Changes<JobId>,
    /// Of arrays.
    pub arrays: Changes<u64>,
    /// Of hosts; marks do not count.
    pub hosts: Changes<Arc<str>>,
    /// Of services.
    pub services: Changes<ServiceId>,
    /// Of sessions.
    pub sessions: Changes<SessionId>,
    /// Of policies.
    pub policies: Changes<PolicyKey>,
}

impl ChangeIndex {
    /// Forgets what changed before a position: whoever is behind it reads the full state.
    pub(crate) fn forget_before(&mut self, lsn: Lsn) {
        self.jobs.set_floor(lsn);
        self.arrays.set_floor(lsn);
        self.hosts.set_floor(lsn);
        self.services.set_floor(lsn);
        self.sessions.set_floor(lsn);
        self.policies.set_floor(lsn);
    }
}

/// The ledger at one position.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct View {
    pub(crate) lsn: Lsn,
    pub(crate) term: u64,
    pub(crate) clock: ClusterClock,
    /// Highest numbers given so far; never lowered.
    pub(crate) last_job: u64,
    pub(crate) last_service: u64,
    pub(crate) last_session: u64,
    pub(crate) last_controller: u64,
    pub(crate) ignored: u64,
    /// Feature level; 0 stands for the lowest.
    pub(crate) level: u16,
    /// The beginnings anew, in their order.
    pub(crate) epochs: Arc<[Epoch]>,

    pub(crate) jobs: OrdMap<JobId, Arc<JobRecord>>,
    pub(crate) arrays: OrdMap<u64, Arc<ArrayRecord>>,
    pub(crate) hosts: OrdMap<Arc<str>, Arc<HostRecord>>,
    pub(crate) services: OrdMap<ServiceId, Arc<ServiceRecord>>,
    pub(crate) sessions: OrdMap<SessionId, Arc<SessionRecord>>,
    pub(crate) policies: OrdMap<PolicyKey, Arc<PolicyRecord>>,
    pub(crate) operations: Operations,
    pub(crate) changes: ChangeIndex,
    /// Positions of the last change of each service's endpoints.
    pub(crate) endpoints: OrdMap<ServiceId, Lsn>,

    // Derived from the tables above; the audit recounts them.
    pub(crate) names: OrdMap<Arc<str>, OrdMap<Arc<str>, ServiceId>>,
    pub(crate) pending: OrdMap<Arc<str>, OrdSet<JobId>>,
    pub(crate) requests: Requests,
    pub(crate) delays: OrdSet<(ClusterTime, JobId)>,
    pub(crate) usage: OrdMap<Arc<str>, Usage>,
    pub(crate) replicas: OrdMap<ServiceId, Roster>,
    pub(crate) ended: OrdSet<(ClusterTime, JobId)>,
    pub(crate) job_count: u64,
}

impl View {
    /// Position of the last entry that is applied.
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// Term in which that entry was committed.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// What is known of cluster time.
    pub fn clock(&self) -> &ClusterClock {
        &self.clock
    }

    /// Highest number that was given to a controller.
    pub fn last_controller(&self) -> u64 {
        self.last_controller.max(FOUNDER)
    }

    /// Highest numbers given so far.
    pub fn last_numbers(&self) -> Numbers {
        Numbers {
            jobs: self.last_job,
            services: self.last_service,
            sessions: self.last_session,
        }
    }

    /// The feature level of the cluster: what is written is in its form.
    pub fn level(&self) -> u16 {
        self.level.max(LEVEL_MIN)
    }

    /// The beginnings of the cluster anew, in their order.
    pub fn epochs(&self) -> &[Epoch] {
        &self.epochs
    }

    /// Number of the epoch; 1 since the founding, as long as it never began anew.
    pub fn epoch(&self) -> u32 {
        self.epochs.last().map_or(1, |epoch| epoch.number)
    }

    /// Facts that did not fit the state when they applied, such as reports of a stale run.
    pub fn ignored(&self) -> u64 {
        self.ignored
    }

    /// Jobs that have a record of their own, by id.
    pub fn jobs(&self) -> &OrdMap<JobId, Arc<JobRecord>> {
        &self.jobs
    }

    /// One job; absent for an element of an array that nothing happened to yet, or folded back.
    pub fn job(&self, id: JobId) -> Option<&Arc<JobRecord>> {
        self.jobs.get(&id)
    }

    /// Arrays by number.
    pub fn arrays(&self) -> &OrdMap<u64, Arc<ArrayRecord>> {
        &self.arrays
    }

    /// One array.
    pub fn array(&self, number: u64) -> Option<&Arc<ArrayRecord>> {
        self.arrays.get(&number)
    }

    /// Jobs including every element of every array, ended ones that were not cleaned up too.
    pub fn job_count(&self) -> u64 {
        self.job_count
    }

    /// Hosts by name.
    pub fn hosts(&self) -> &OrdMap<Arc<str>, Arc<HostRecord>> {
        &self.hosts
    }

    /// One host.
    pub fn host(&self, name: &str) -> Option<&Arc<HostRecord>> {
        self.hosts.get(name)
    }

    /// Whether a host that is closed by its own fault takes a job now, to try it: none is there for
    /// that yet.
    pub fn takes_trial(&self, host: &HostRecord, now: ClusterTime) -> bool {
        let is_there = |id: &JobId| {
            let job = self.jobs.get(id);
            job.is_some_and(|job| host.is_trial(job.placed_at))
        };
        let usage = self.usage(&host.inventory.name);
        host.takes_trial(now) && !usage.is_some_and(|usage| usage.jobs.iter().any(is_there))
    }

    /// What is held of a host; absent when nothing is.
    pub fn usage(&self, host: &str) -> Option<&Usage> {
        self.usage.get(host)
    }

    /// Whether a job's host is lost, or was removed: a replica is not live then, and not ended.
    pub fn is_lost(&self, job: &JobRecord) -> bool {
        let host = job.host.as_deref().filter(|_| job.state.holds_host());
        let life = host.map(|host| self.hosts.get(host).map(|host| host.life));
        matches!(life, Some(None | Some(HostLife::Lost)))
    }

    /// Indices of a version that live replicas have; one that is lost, or moved, gives its own to the
    /// replica that takes its place.
    pub(crate) fn indices_held(&self, service: ServiceId, version: Version) -> BTreeSet<u32> {
        self.live_replicas(service)
            .filter(|job| !job.moving && !self.is_lost(job))
            .filter_map(|job| job.service)
            .filter(|replica| replica.version == version)
            .map(|replica| replica.index)
            .collect()
    }

    /// Services by id.
    pub fn services(&self) -> &OrdMap<ServiceId, Arc<ServiceRecord>> {
        &self.services
    }

    /// One service.
    pub fn service(&self, id: ServiceId) -> Option<&Arc<ServiceRecord>> {
        self.services.get(&id)
    }

    /// The service that bears a name in a project now.
    pub fn service_named(&self, project: &str, name: &str) -> Option<&Arc<ServiceRecord>> {
        let id = self.names.get(project)?.get(name)?;
        self.services.get(id)
    }

    /// Jobs of a service; absent when it has none.
    pub fn replicas(&self, service: ServiceId) -> Option<&Roster> {
        self.replicas.get(&service)
    }

    /// The jobs of a service as its rules take them.
    pub fn replicas_of(&self, service: ServiceId) -> Replicas<'_> {
        match self.replicas(service) {
            Some(roster) => Replicas::Kept(roster),
            None => Replicas::Listed(&[]),
        }
    }

    /// The live replicas of a service, by job id.
    pub fn live_replicas(&self, service: ServiceId) -> impl Iterator<Item = &Arc<JobRecord>> {
        self.replicas
            .get(&service)
            .into_iter()
            .flat_map(Roster::live)
    }

    /// How many replicas of a service's version, or of a copy of it, hold a host.
    pub fn replicas_on(&self, host: &str, service: ServiceId, version: Version) -> u32 {
        let Some(usage) = self.usage.get(host) else {
            return 0;
        };
        let record = self.service(service);
        let root = |version| record.map_or(version, |record| record.root_of(version));
        let making = root(version);
        let replicas = usage
            .jobs
            .iter()
            .filter_map(|id| self.jobs.get(id)?.service)
            .filter(|replica| replica.service == service && root(replica.version) == making);
        u32::try_from(replicas.count()).unwrap_or(u32::MAX)
    }

    /// Sessions by id.
    pub fn sessions(&self) -> &OrdMap<SessionId, Arc<SessionRecord>> {
        &self.sessions
    }

    /// One session.
    pub fn session(&self, id: SessionId) -> Option<&Arc<SessionRecord>> {
        self.sessions.get(&id)
    }

    /// Profiles, projects and queues that somebody defined, by kind and name.
    pub fn policies(&self) -> &OrdMap<PolicyKey, Arc<PolicyRecord>> {
        &self.policies
    }

    /// One policy.
    pub fn policy(&self, kind: PolicyKind, name: &str) -> Option<&Arc<PolicyRecord>> {
        self.policies.get(&(kind, Arc::from(name)))
    }

    /// Queues with the jobs that wait in them, in the order of submission. An entry whose element is
    /// [`JobId::NO_ELEMENT`] and whose number is an array's stands for its pending elements.
    pub fn pending(&self) -> &OrdMap<Arc<str>, OrdSet<JobId>> {
        &self.pending
    }

    /// What the waiting jobs and arrays ask for.
    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// Pending jobs that are not placed before a time, by that time; past ones stay until placed.
    pub fn delays(&self) -> &OrdSet<(ClusterTime, JobId)> {
        &self.delays
    }

    /// Jobs, elements and arrays that ended at or before a time, oldest first, for clean-up.
    pub fn ended_until(&self, time: ClusterTime) -> impl Iterator<Item = JobId> + '_ {
        self.ended
            .iter()
            .take_while(move |(at, _)| *at <= time)
            .map(|(_, id)| *id)
    }

    /// The change indices.
    pub fn changes(&self) -> &ChangeIndex {
        &self.changes
    }

    /// Every key.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Key> + '_ {
        let jobs = self.jobs.keys().map(|id| Key::Job(*id));
        let arrays = self.arrays.keys().map(|number| Key::Array(*number));
        let hosts = self.hosts.keys().map(|name| Key::Host(name.clone()));
        let services = self.services.keys().map(|id| Key::Service(*id));
        let sessions = self.sessions.keys().map(|id| Key::Session(*id));
        let policies = self.policies.keys();
        let policies = policies.map(|(kind, name)| Key::Policy(*kind, name.clone()));
        jobs.chain(arrays)
            .chain(hosts)
            .chain(services)
            .chain(sessions)
            .chain(policies)
    }

    /// Operations that are remembered.
    pub fn operation_count(&self) -> usize {
        self.operations.len()
    }

    /// The first answer of an operation, if it is remembered.
    pub fn answer(&self, principal: &str, id: OperationId) -> Option<Answer> {
        match self.operations.known(
            principal,
            Operation {
                id,
                made_at: Lsn::MAX,
            },
        ) {
            Known::Answered(answer) => Some(answer),
            Known::New | Known::Expired => None,
        }
    }
}
