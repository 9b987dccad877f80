//! What a worker and the controller tell each other about runs.
//!
//! Orders are levels, not edges: each names what is wanted of one run now, is sent again whenever
//! in doubt, and changes nothing when it is already so. Reports go through the worker's spool.

use xce_model::spec::Template;
use xce_model::{Cause, Exit, JobId, Lsn, Run, Start, Version, WallTime};

use crate::facts::ProbeRole;

/// Names one run of one job.
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
pub struct RunId {
    /// The job.
    pub job: JobId,
    /// Its run.
    pub run: Run,
}

/// What the controller wants of the runs of one worker.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Orders {
    /// Term of the primary; lower ones than the highest seen are refused.
    pub term: u64,
    /// Position that the orders were derived from.
    pub lsn: Lsn,
    /// Whether every wanted run is named, so that any other run is stale and is stopped.
    pub complete: bool,
    /// One entry a run.
    pub orders: Vec<Order>,
}

/// What is wanted of one run.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Order {
    /// The run.
    pub run: RunId,
    /// What is wanted of it.
    pub want: Want,
}

/// What is wanted of a run.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub enum Want {
    /// Start it, unless it is known already.
    Start(Box<RunSpec>),
    /// It was started before; keep it. A worker that does not know it reports `RunLost`.
    Keep(Box<RunSpec>),
    /// Stop it: drain, signal, grace, kill of the tree. One that is unknown is reported as ended.
    Stop {
        /// Why.
        cause: Cause,
        /// Whether nobody sends it work any more, so that it is not drained longer.
        drained: bool,
    },
    /// Stop its processes for a while.
    Suspend,
    /// Let them go on.
    Resume,
    /// Send its processes a signal; nothing else follows from it.
    Signal {
        /// Number of the signal.
        signal: i32,
    },
    /// Start it anew in place now; a manual restart does not count.
    Restart,
    /// It may restart in place because its liveness probe failed. A level: it is so until that
    /// start has ended, or the wish was taken back.
    RestartGranted {
        /// The start that is to end.
        start: Start,
        /// The wish that is granted.
        wish: u32,
    },
    /// Leave it as it is: the cluster lost the time in which it was ordered, and an operator will
    /// decide.
    Leave,
}

/// Everything a worker needs to run a job.
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
pub struct RunSpec {
    /// The run.
    pub run: RunId,
    /// Name of the job.
    pub name: String,
    /// What is run.
    pub template: Template,
    /// Ports given to it, by name.
    pub ports: Vec<(String, u16)>,
    /// Service, version and index, for a replica.
    pub replica: Option<ReplicaOf>,
}

/// What a replica tells its processes of itself.
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
pub struct ReplicaOf {
    /// Name of the service.
    pub service: String,
    /// Version.
    pub version: Version,
    /// Index.
    pub index: u32,
}

/// Facts of a worker in the order of its spool.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Reports {
    /// Epoch of the spool.
    pub epoch: u64,
    /// Facts up to this number were sent before these: numbers may be left out, so that this alone
    /// tells whether some are missing.
    pub after: u64,
    /// Facts, sequence numbers rising.
    pub reports: Vec<Report>,
}

/// The controller has committed a worker's facts; the worker may forget them.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct ReportsCommitted {
    /// Epoch of the spool.
    pub epoch: u64,
    /// All facts up to this sequence number.
    pub sequence: u64,
}

/// One fact of a worker about one run.
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
pub struct Report {
    /// Sequence number within the spool's epoch, from 1.
    pub sequence: u64,
    /// The run.
    pub run: RunId,
    /// The start within the run that it concerns.
    pub start: Start,
    /// When, by the host's wall clock.
    pub at: WallTime,
    /// What happened.
    pub what: Happened,
}

/// What happened to a run.
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
pub enum Happened {
    /// Its process runs.
    Started {
        /// Process id, for display.
        pid: u32,
    },
    /// It takes work.
    Ready,
    /// It takes no work.
    NotReady {
        /// What the probe said.
        text: String,
    },
    /// This start ended; the worker starts it again in place.
    Restarting {
        /// How it ended.
        exit: Exit,
        /// Last lines of its stderr.
        stderr: String,
    },
    /// The run ended for good.
    Ended {
        /// How.
        exit: Exit,
        /// Last lines of its stderr.
        stderr: String,
    },
    /// The host could not start it: not the job's fault.
    LaunchFailed {
        /// What went wrong.
        text: String,
    },
    /// Its processes were stopped for a while.
    Suspended,
    /// Its processes go on.
    Resumed,
    /// A probe could not be run: neither a success nor a failure. Told at the first time, at each
    /// doubling of the count, and when it can be run again.
    ProbeUnrunnable {
        /// Which probe.
        role: ProbeRole,
        /// How often so far within this start.
        count: u64,
        /// Why; empty when it can be run again.
        text: String,
    },
    /// Its liveness probe failed; it waits for its turn to restart in place.
    RestartWanted {
        /// Number of the wish within the run, from 1.
        wish: u32,
        /// What the probe said.
        text: String,
    },
    /// It is alive again before its turn came.
    RestartUnwanted,
    /// It was killed, and some of its processes do not die.
    StopHangs {
        /// Which processes, in what state, and since when.
        text: String,
    },
}

/// Asks a worker for a part of a run's output.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct ReadOutput {
    /// The run.
    pub run: RunId,
    /// Whether stderr, else stdout.
    pub stderr: bool,
    /// First byte wanted.
    pub offset: u64,
    /// Most bytes wanted; at most 1 MiB are given.
    pub bytes_max: u32,
}

/// A part of a run's output.
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
pub struct Output {
    /// Position of the first byte given; later than asked for where older output was dropped.
    pub offset: u64,
    /// The bytes.
    pub data: Vec<u8>,
    /// Whether the run has ended and nothing follows.
    pub complete: bool,
    /// Why there is none, where there is none; empty otherwise.
    pub problem: String,
}
