//! What is remembered of a job.

use xce_model::spec::{JobSpec, Template};
use xce_model::{
    Cause, ClusterTime, Exit, JobId, OperationId, Run, ServiceId, Start, Version, WallTime,
};

/// What a replica belongs to.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct ServiceRef {
    /// Its service.
    pub service: ServiceId,
    /// Version of the template that it runs.
    pub version: Version,
    /// Index, unique within the version.
    pub index: u32,
}

/// What becomes of a job when the run that is being stopped has ended.
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
pub enum AfterStop {
    /// It ends.
    End,
    /// It waits for its next run.
    Requeue,
    /// It is held.
    Hold,
}

/// What a probe is for.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum ProbeRole {
    /// Must succeed once before the others start.
    Startup,
    /// Decides whether the run takes work.
    Readiness,
    /// Decides whether the run is restarted.
    Liveness,
}

impl ProbeRole {
    /// The word that users see.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Readiness => "readiness",
            Self::Liveness => "liveness",
        }
    }
}

/// A committed change of a job.
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
pub enum JobFact {
    /// A job or an array was submitted; its number is given by the order of the log.
    Submitted {
        /// What was asked for.
        spec: Box<JobSpec>,
        /// The operation that asked for it.
        operation: OperationId,
    },
    /// Replicas of one service and version were submitted, one job each, in the order of `indices`.
    ReplicasSubmitted {
        /// Their service.
        service: ServiceId,
        /// Their version.
        version: Version,
        /// Their indices.
        indices: Vec<u32>,
    },
    /// It waits until somebody releases it.
    Held {
        /// The job.
        job: JobId,
    },
    /// It may be placed again.
    Released {
        /// The job.
        job: JobId,
    },
    /// It was given to a host; this begins the run.
    Placed {
        /// The job, or the element of an array, which begins to exist with this.
        job: JobId,
        /// Number of the run.
        run: Run,
        /// Host.
        host: String,
        /// Ports by name.
        ports: Vec<(String, u16)>,
    },
    /// The worker started it, for the first time in this run or in place.
    Started {
        /// The job.
        job: JobId,
        /// Run.
        run: Run,
        /// Number of the start within the run.
        start: Start,
        /// Process id, for display.
        pid: u32,
        /// When, by the host's wall clock.
        at: WallTime,
    },
    /// It takes work.
    Ready {
        /// The job.
        job: JobId,
        /// Run.
        run: Run,
        /// Start.
        start: Start,
    },
    /// It takes no work.
    NotReady {
        /// The job.
        job: JobId,
        /// Run.
        run: Run,
        /// Start.
        start: Start,
        /// What the probe said.
        text: String,
    },
    /// One start of it ended and the worker will start it again in place.
    Restarting {
        /// The job.
        job: JobId,
        /// Run.
        run: Run,
        /// The start that ended.
        start: Start,
        /// How it ended.
        exit: Exit,
        /// Last lines of its stderr.
        stderr: String,
    },
    /// It is to be stopped.
    StopRequested {
        /// The job.
        job: JobId,
        /// Run.
        run: Run,
        /// Why.
        cause: Cause,
        /// What becomes of it then.
        then: AfterStop,
    },
    /// It ended for good.
    Ended {
        /// The job.
        job: JobId,
        /// Run.
        run: Run,
        /// How.
        exit: Exit,
        /// When, by the host's wall clock.
        at: WallTime,
        /// Last lines of its stderr.
        stderr: String,
    },
    /// Its run ended and it waits for the next one.
    Requeued {
        /// The job.
        job: JobId,
        /// The run that ended.
        run: Run,
        /// How it ended.
        exit: Exit,
        /// It is not placed before this time.
        not_before: ClusterTime,
        /// Host that it avoids from now on.
        avoid: Option<String>,
        /// Whether it waits as held.
        held: bool,
        /// When that run ended, by the wall clock of its host, where it is known.
        at: WallTime,
    },
    /// Processes were stopped (SIGSTOP) for a while.
    Suspended {
        /// The job.
        job: JobId,
        /// Run.
        run: Run,
    },
    /// Processes go on.
    Resumed {
        /// The job.
        job: JobId,
        /// Run.
        run: Run,
    },
    /// It ended long ago and was taken out of the ledger.
    CleanedUp {
        /// The job.
        job: JobId,
    },
    /// A probe of it could not be run, which is neither a success nor a failure.
    ProbeUnrunnable {
        /// The job.
        job: JobId,
        /// Run.
        run: Run,
        /// Start.
        start: Start,
        /// Which probe.
        role: ProbeRole,
        /// How often so far within this start.
        count: u64,
        /// Why; empty when it can be run again.
        text: String,
    },
    /// Its liveness probe failed, and it waits for its turn to be restarted in place.
    RestartWanted {
        /// The job.
        job: JobId,
        /// Run.
        run: Run,
        /// The start that is no longer alive.
        start: Start,
        /// Number of the wish within the run, from 1.
        wish: u32,
        /// What the probe said.
        text: String,
    },
    /// It is alive again before its turn came.
    RestartUnwanted {
        /// The job.
        job: JobId,
        /// Run.
        run: Run,
        /// Start.
        start: Start,
    },
    /// Its service lets it restart in place now.
    RestartGranted {
        /// The job.
        job: JobId,
        /// Run.
        run: Run,
        /// The start that is to end.
        start: Start,
        /// The wish that is granted.
        wish: u32,
    },
    /// It was killed, and some of its processes do not die.
    StopHangs {
        /// The job.
        job: JobId,
        /// Run.
        run: Run,
        /// Start.
        start: Start,
        /// Which processes, in what state, and since when.
        text: String,
    },
    /// Every reader of its service's endpoints has said that it does not use its endpoints any more:
    /// the drain of its stop is over.
    Drained {
        /// The job.
        job: JobId,
        /// Run.
        run: Run,
    },
    /// It is to leave its host, which is drained: another replica of its index takes its place, and
    /// it goes on until that one works.
    MoveBegan {
        /// The job.
        job: JobId,
        /// Run.
        run: Run,
    },
    /// It stays after all.
    MoveEnded {
        /// The job.
        job: JobId,
        /// Run.
        run: Run,
    },
}

/// Template of a replica, resolved by the ledger from its service's version.
pub type ReplicaTemplate = std::sync::Arc<Template>;
