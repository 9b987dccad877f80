//! What users see of a job.

use xce_model::{Cause, Exit, JobState, Lsn};

use crate::state::{JobRecord, PastRun, ProbeTrouble};

/// A job in machine output.
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
pub struct JobView {
    /// Identity, such as `17` or `17[3]`.
    pub id: String,
    /// Name.
    pub name: String,
    /// State.
    pub state: JobState,
    /// Whether nothing will happen to it any more.
    pub terminal: bool,
    /// One sentence: why it is in this state.
    pub reason: String,
    /// Stable word for that reason.
    pub reason_code: String,
    /// Number of the current or last run; 0 before the first.
    pub run: u32,
    /// Host that it holds, or where it ended; absent while it waits.
    pub host: Option<String>,
    /// Whether that host answers; absent where the job holds no host.
    pub reachable: Option<bool>,
    /// Whether that host is lost: a replica there is not live, and has not ended.
    pub lost: bool,
    /// How the last run ended.
    pub exit: Option<ExitView>,
    /// When it was submitted, RFC 3339.
    pub submitted: String,
    /// When its current or last run started.
    pub started: Option<String>,
    /// When it ended.
    pub ended: Option<String>,
    /// Owner's login name.
    pub owner: String,
    /// Project.
    pub project: String,
    /// Queue.
    pub queue: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Processors of one run.
    pub cpus: String,
    /// Memory of one run.
    pub memory: String,
    /// Service, for a replica.
    pub service: Option<String>,
    /// Index, for a replica.
    pub replica: Option<u32>,
    /// Version, for a replica.
    pub version: Option<u32>,
    /// Whether it takes work, for a replica.
    pub ready: bool,
    /// Probes of the current start that could not be run, which is neither good nor bad.
    pub unrunnable_probes: Vec<ProbeTrouble>,
    /// Restarts in place.
    pub restarts: u32,
    /// Process id on its host.
    pub pid: Option<u32>,
    /// Ports by name.
    pub ports: Vec<PortView>,
    /// Earlier runs, the oldest first; at most ten.
    pub past: Vec<PastRunView>,
    /// For an array: its elements by state.
    pub array: Option<ArrayView>,
    /// Last lines of stderr when it ended.
    pub stderr: String,
    /// Position of its last change.
    pub lsn: Lsn,
}

/// A port in machine output.
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
pub struct PortView {
    /// Name.
    pub name: String,
    /// Number.
    pub port: u16,
}

/// A run that ended and was followed by another, in machine output.
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
pub struct PastRunView {
    /// Its number.
    pub run: u32,
    /// Where it ran.
    pub host: String,
    /// When it started; absent when it never did.
    pub started: Option<String>,
    /// When it ended.
    pub ended: String,
    /// How it ended.
    pub exit: ExitView,
    /// The same in words.
    pub reason: String,
}

/// An array in machine output.
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
pub struct ArrayView {
    /// Elements as given, such as `1-100`.
    pub elements: String,
    /// Most elements that run at once.
    pub slot_limit: Option<u32>,
    /// Number of elements.
    pub total: u64,
    /// Elements that wait.
    pub pending: u64,
    /// Elements that hold a host.
    pub running: u64,
    /// Elements that ended well.
    pub done: u64,
    /// Elements that ended otherwise.
    pub exited: u64,
}

/// How a run ended, in machine output.
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
pub struct ExitView {
    /// Exit code.
    pub code: Option<i32>,
    /// Signal.
    pub signal: Option<i32>,
    /// Cause.
    pub cause: Cause,
}

impl From<&Exit> for ExitView {
    fn from(exit: &Exit) -> Self {
        Self {
            code: exit.code,
            signal: exit.signal,
            cause: exit.cause,
        }
    }
}

/// What the view of a job needs beside its record.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// Why it waits: code and sentence, where it does.
    pub waiting: Option<(String, String)>,
    /// Whether its host answers.
    pub reachable: Option<bool>,
    /// Whether its host is lost.
    pub lost: bool,
    /// Name of its service.
    pub service: Option<String>,
    /// Why it is not restarted although it is no longer alive, where it waits for its turn.
    pub turn: Option<String>,
}

/// Formats a wall-clock time; an argument, so that nothing here depends on a calendar.
pub type FormatTime<'a> = &'a dyn Fn(xce_model::WallTime) -> String;

/// What users see of one job.
pub fn view(job: &JobRecord, around: Surroundings, time: FormatTime<'_>) -> JobView {
    let (reason_code, reason) = reason(job, &around);
    let holds = job.state.holds_host();
    JobView {
        id: job.id.to_string(),
        name: job.spec.name.clone(),
        state: job.state,
        terminal: job.state.is_terminal(),
        reason,
        reason_code,
        run: job.run,
        host: job
            .host
            .as_deref()
            .filter(|_| holds || job.state.is_terminal())
            .map(str::to_owned),
        reachable: if holds { around.reachable } else { None },
        lost: around.lost,
        exit: job.exit.as_ref().map(ExitView::from),
        submitted: time(job.submitted),
        started: job.started.map(time),
        ended: job.ended.map(time),
        owner: job.owner.to_string(),
        project: job.spec.project.clone(),
        queue: job.spec.queue.clone(),
        command: job.template().command.clone(),
        cpus: job.template().resources.cpus.to_string(),
        memory: job.template().resources.memory.to_string(),
        service: around.service,
        replica: job.service.map(|part| part.index),
        version: job.service.map(|part| part.version),
        ready: job.is_ready(),
        unrunnable_probes: job.unrunnable.clone(),
        restarts: job.restarts,
        pid: (holds && job.pid != 0).then_some(job.pid),
        ports: job
            .ports
            .iter()
            .map(|(name, port)| PortView {
                name: name.clone(),
                port: *port,
            })
            .collect(),
        past: job.past.iter().map(|run| past_run(run, time)).collect(),
        array: None,
        stderr: job.stderr.clone(),
        lsn: job.changed,
    }
}

fn past_run(run: &PastRun, time: FormatTime<'_>) -> PastRunView {
    PastRunView {
        run: run.run,
        host: run.host.clone(),
        started: run.started.map(time),
        ended: time(run.ended),
        exit: ExitView::from(&run.exit),
        reason: run.exit.to_string(),
    }
}

fn reason(job: &JobRecord, around: &Surroundings) -> (String, String) {
    let pair = |code: &str, text: String| (code.to_owned(), text);
    let host = job.host.as_deref().unwrap_or("?");
    if around.lost {
        let text = format!(
            "lost with {host}; it ends when a replica that takes its place has a host, and goes on \
             where {host} is back before"
        );
        return pair("lost", text);
    }
    match job.state {
        JobState::Pend => around
            .waiting
            .clone()
            .unwrap_or_else(|| pair("waiting", "will be placed at the next opportunity".into())),
        JobState::Held => pair("held", "held: waits until it is released".into()),
        JobState::Start => pair(
            "starting",
            format!("given to {host}, start not yet confirmed"),
        ),
        JobState::Run => running_reason(job, around, host),
        JobState::Susp => pair("suspended", format!("suspended on {host}")),
        JobState::Stopping => {
            let cause = job.stop.map_or(Cause::TermOwner, |stop| stop.cause);
            let mut text = format!("being stopped on {host}: {}", cause.sentence());
            if let Some(trouble) = job.trouble().filter(|_| !job.hanging.is_empty()) {
                text = format!("{text}; {trouble}");
            }
            pair(cause.code(), text)
        }
        JobState::Done | JobState::Exit => match &job.exit {
            Some(exit) => pair(exit.cause.code(), exit.to_string()),
            None => pair("unknown", "ended".into()),
        },
    }
}

fn running_reason(job: &JobRecord, around: &Surroundings, host: &str) -> (String, String) {
    let pair = |code: &str, text: String| (code.to_owned(), text);
    if around.reachable == Some(false) {
        return pair(
            "unreachable",
            format!("runs on {host}, which does not answer"),
        );
    }
    if job.moving {
        let text =
            format!("runs on {host}, which is drained, until another one has taken its place");
        return pair("moving", text);
    }
    if job.running_since.is_none() {
        let last = job
            .exit
            .as_ref()
            .map_or_else(String::new, |exit| format!(" after {exit}"));
        return pair("restarting", format!("restarts in place on {host}{last}"));
    }
    if let Some(turn) = &around.turn {
        return pair("waits_for_restart", format!("runs on {host}, {turn}"));
    }
    let trouble = job.trouble();
    if let Some(trouble) = trouble.filter(|_| job.is_ready() || job.probe_text.is_empty()) {
        return pair("probe_not_run", format!("runs on {host}, {trouble}"));
    }
    if job.service.is_some() && !job.is_ready() {
        let probe = if job.probe_text.is_empty() {
            "no result yet"
        } else {
            &job.probe_text
        };
        return pair("not_ready", format!("runs on {host}, not ready: {probe}"));
    }
    pair("running", format!("runs on {host}"))
}
