//! What one caller commits at once, under which conditions, and what it is answered.

use xce_model::{
    ClusterTime, Incarnation, JobId, Lsn, OperationId, Run, ServiceId, SessionId, WallTime,
};

use crate::event::{GroupEvent, RULES_VERSION};
use xce_profile::PolicyKind;

use crate::fact::Fact;

/// Facts that one actor wants committed together, or not at all.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Group {
    /// Cluster time of the decision.
    pub at: ClusterTime,
    /// Wall clock of the primary then, for display.
    pub wall: WallTime,
    /// On whose behalf; empty for XCE itself.
    pub principal: String,
    /// The command that it carries out, where there is one.
    pub operation: Option<Operation>,
    /// Name of the event that was decided on, for journal and audit trail, such as `scale`.
    pub cause: String,
    /// Version of the rules that decided, [`RULES_VERSION`] of the program then.
    pub rules: u16,
    /// Position of the view that it was decided from; 0 where it follows from no view.
    pub decided: Lsn,
    /// The event that it was decided on; absent where the facts come from outside as they are.
    pub event: Option<GroupEvent>,
    /// All must hold in log order, before any fact of the group applies.
    pub preconditions: Vec<Precondition>,
    /// The facts, applied in this order.
    pub facts: Vec<Fact>,
}

impl Group {
    /// An empty group of XCE itself.
    pub fn new(at: ClusterTime, wall: WallTime, cause: &str) -> Self {
        Self {
            at,
            wall,
            principal: String::new(),
            operation: None,
            cause: cause.to_owned(),
            rules: RULES_VERSION,
            decided: 0,
            event: None,
            preconditions: Vec::new(),
            facts: Vec::new(),
        }
    }

    /// The same group on behalf of a principal's command.
    #[must_use]
    pub fn on_behalf(mut self, principal: &str, operation: Option<Operation>) -> Self {
        principal.clone_into(&mut self.principal);
        self.operation = operation;
        self
    }

    /// The same group as decided on an event from the view at a position, so that the decision can
    /// be made again from the log.
    #[must_use]
    pub fn decided_on(mut self, decided: Lsn, event: GroupEvent) -> Self {
        self.decided = decided;
        self.event = Some(event);
        self
    }

    /// The same group under one more precondition.
    #[must_use]
    pub fn given(mut self, precondition: Precondition) -> Self {
        self.preconditions.push(precondition);
        self
    }

    /// The same group with one more fact.
    #[must_use]
    pub fn with(mut self, fact: impl Into<Fact>) -> Self {
        self.facts.push(fact.into());
        self
    }
}

/// A command's name for ever, and the position of the ledger when it was made.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct Operation {
    /// Its name.
    pub id: OperationId,
    /// A position that its maker knew to be committed; an old one may be refused as expired.
    pub made_at: Lsn,
}

/// What must hold in log order for a group to change anything.
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
#[serde(rename_all = "snake_case")]
pub enum Precondition {
    /// The job, or the array of that number (element [`JobId::NO_ELEMENT`]), or the pending element
    /// of an array, last changed at this position.
    JobUnchanged {
        /// The job.
        job: JobId,
        /// Position of the last change that the decision saw.
        lsn: Lsn,
    },
    /// The service last changed at this position.
    ServiceUnchanged {
        /// The service.
        service: ServiceId,
        /// Position of the last change that the decision saw.
        lsn: Lsn,
    },
    /// The host last changed, other than in its mark, at this position; 0: there is no such host.
    HostUnchanged {
        /// The host.
        host: String,
        /// Position of the last change that the decision saw.
        lsn: Lsn,
    },
    /// No service of the project bears the name.
    NameFree {
        /// The project.
        project: String,
        /// The name.
        name: String,
    },
    /// The job may be placed now: it is `PEND` with this as its next run, and the host takes jobs
    /// and has its processors, memory, and ports free. Several in one group add up.
    Fits {
        /// The job, or the pending element of an array.
        job: JobId,
        /// Number of its next run.
        run: Run,
        /// The host.
        host: String,
        /// The port numbers that it will hold.
        ports: Vec<u16>,
    },
    /// The facts of the host's worker are committed exactly up to here.
    HostMark {
        /// The host.
        host: String,
        /// Incarnation of its worker.
        incarnation: Incarnation,
        /// Epoch of its spool.
        epoch: u64,
        /// Sequence number of the last committed fact.
        sequence: u64,
    },
    /// The ledger has room for so many more jobs.
    Room {
        /// Number of jobs; each element of an array counts.
        jobs: u64,
    },
    /// The session is open in this epoch.
    SessionEpoch {
        /// The session.
        session: SessionId,
        /// Its epoch.
        epoch: u64,
    },
    /// The policy last changed at this position; 0: there is none.
    PolicyUnchanged {
        /// What it is.
        kind: PolicyKind,
        /// Its name.
        name: String,
        /// Position of the last change that the decision saw.
        lsn: Lsn,
    },
    /// The host is lost, or there is none of that name.
    HostGone {
        /// The host.
        host: String,
    },
}

/// Something that was given an id when a group applied.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Created {
    /// A job, or an array.
    Job(JobId),
    /// Replicas with numbers in a row, in the order of their indices.
    Replicas {
        /// Number of the first.
        first: u64,
        /// How many.
        count: u32,
    },
    /// A service.
    Service(ServiceId),
    /// A session.
    Session(SessionId),
}

/// What an applied group is answered; kept, and given again to a repeat of its operation.
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
pub struct Answer {
    /// Where it was committed.
    pub lsn: Lsn,
    /// What it created, in the order of its facts.
    pub created: Vec<Created>,
}

/// A precondition that did not hold.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Unmet {
    /// Which one, a stable word such as `name_in_use`.
    pub code: &'static str,
    /// A sentence.
    pub text: String,
}

impl Unmet {
    pub(crate) fn new(code: &'static str, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
        }
    }
}

/// What became of a committed group.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Its facts are true.
    Applied(Answer),
    /// Its operation had been carried out before; this is the first answer, nothing changed.
    Repeated(Answer),
    /// A precondition did not hold; nothing changed. Decide again.
    Refused(Unmet),
    /// Its operation is older than what is remembered; nothing changed, it must not be repeated.
    Expired,
}
