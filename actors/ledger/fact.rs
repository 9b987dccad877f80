//! Every committed change of the cluster, in one enum.

use xce_host::HostFact;
use xce_replica::JobFact;
use xce_service::ServiceFact;

use crate::clock::ClockFact;
use crate::members::MemberFact;
use crate::policies::PolicyFact;
use crate::sessions::SessionFact;

/// A committed change of anything that the cluster remembers.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// Of a job or an array.
    Job(JobFact),
    /// Of a host.
    Host(HostFact),
    /// Of a service.
    Service(ServiceFact),
    /// Of a session.
    Session(SessionFact),
    /// Of cluster time.
    Clock(ClockFact),
    /// Of a profile, a project or a queue.
    Policy(PolicyFact),
    /// Of the controllers.
    Member(MemberFact),
}

impl From<JobFact> for Fact {
    fn from(fact: JobFact) -> Self {
        Self::Job(fact)
    }
}

impl From<HostFact> for Fact {
    fn from(fact: HostFact) -> Self {
        Self::Host(fact)
    }
}

impl From<ServiceFact> for Fact {
    fn from(fact: ServiceFact) -> Self {
        Self::Service(fact)
    }
}

impl From<SessionFact> for Fact {
    fn from(fact: SessionFact) -> Self {
        Self::Session(fact)
    }
}

impl From<ClockFact> for Fact {
    fn from(fact: ClockFact) -> Self {
        Self::Clock(fact)
    }
}

impl From<MemberFact> for Fact {
    fn from(fact: MemberFact) -> Self {
        Self::Member(fact)
    }
}

impl From<PolicyFact> for Fact {
    fn from(fact: PolicyFact) -> Self {
        Self::Policy(fact)
    }
}
