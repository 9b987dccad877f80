//! What happens to a host, and what its loss means for the jobs that hold it.

use xce_host::rules::{
    Around, Command, Leftovers, Patience, decide_beat, decide_join, decide_silence, leftovers,
};
use xce_host::{HostFact, HostLife, HostRecord, Remnant};
use xce_ledger::{Epoch, Fact, Joining, Precondition, View};
use xce_model::{ClusterTime, JobId, Millis, Refusal, Run};

use crate::losing::{Loss, take_back};
pub use crate::losing::{LostJobs, lose_jobs};
use crate::reading::jobs_on;
use crate::{Decided, Times, draining};
use crate::{blame, fence};

/// A decision about a host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostStep {
    /// What is committed.
    pub decided: Decided,
    /// Jobs that are recovered with it.
    pub jobs: usize,
    /// Whether there are more of them than one group takes: then these go first, and the rest is
    /// decided again.
    pub more: bool,
}

/// That a host is as it was read.
pub fn unchanged(host: &HostRecord) -> Precondition {
    Precondition::HostUnchanged {
        host: host.inventory.name.clone(),
        lsn: host.changed,
    }
}

fn of_known(host: &HostRecord, fact: HostFact) -> Decided {
    Decided {
        conditions: vec![unchanged(host)],
        facts: vec![fact.into()],
    }
}

/// Decides what a sign of life means; nothing where it is no news. It is also the time to look how a
/// host does that is closed by its own fault and tried.
pub fn beat(view: &View, host: &str, disk_full: bool, times: Times) -> Option<Decided> {
    let host = view.host(host)?;
    decide_beat(host, disk_full)
        .or_else(|| blame::trial(view, host, times.0))
        .map(|fact| of_known(host, fact))
}

/// Decides what the clean stop of a worker means.
pub fn left(view: &View, host: &str) -> Option<Decided> {
    let record = view.host(host)?;
    let fact = HostFact::Left {
        host: host.to_owned(),
    };
    Some(of_known(record, fact))
}

/// Whether a silence makes a host lost.
pub fn is_loss(
    view: &View,
    host: &str,
    silent: Millis,
    patience: Patience,
    now: ClusterTime,
) -> bool {
    let fact = view
        .host(host)
        .and_then(|host| decide_silence(host, silent, patience, now));
    matches!(fact, Some(HostFact::Lost { .. }))
}

/// How the other hosts are when the loss of one is due.
pub fn around(view: &View, patience: Patience, now: ClusterTime) -> Around {
    let mut around = Around::default();
    for host in view.hosts().values() {
        match host.life {
            HostLife::Suspect => around.silent += 1,
            HostLife::Up => around.answering += 1,
            HostLife::Lost if host.dead.is_none() && now.since(host.since) < patience.grace => {
                around.lost_lately += 1;
            }
            HostLife::Lost | HostLife::Away => {}
        }
    }
    around
}

/// Runs of a worker that are not counted: its host does not hold them as the current ones.
pub fn uncounted(view: &View, host: &str, runs: &[Remnant]) -> Vec<Remnant> {
    let counts = |run: &&Remnant| {
        let job = view.job(run.job);
        !job.is_some_and(|job| {
            job.run == run.run && job.state.holds_host() && job.host.as_deref() == Some(host)
        })
    };
    let judged = |run: &Remnant| Remnant {
        quarantined: is_of_lost_time(view, run.job),
        ..run.clone()
    };
    runs.iter().filter(counts).map(judged).collect()
}

/// Whether a job belongs to a time that the ledger lost, or may: its number was given then, and the
/// ledger does not know it. A number that was never given says that more is lost than is known.
fn is_of_lost_time(view: &View, job: JobId) -> bool {
    let known = view.job(job).is_some() || view.array(job.number).is_some();
    let lost = |epoch: &Epoch| epoch.may_have_lost_job(job.number);
    !known && (job.number > view.last_numbers().jobs || view.epochs().iter().any(lost))
}

/// What a worker knows to be committed, and the ledger does not, since it lost that time: it goes on
/// from there, as the worker has forgotten what lies before.
fn spool_ahead(view: &View, known: Option<&HostRecord>, joining: &Joining) -> Option<HostFact> {
    let (epoch, sequence) = joining.spool;
    let same = known.filter(|known| known.inventory.incarnation == joining.inventory.incarnation);
    let mark = same.map_or((0, 0), |known| (known.epoch, known.sequence));
    let ahead = sequence > 0 && (epoch, sequence) > mark && !view.epochs().is_empty();
    ahead.then(|| HostFact::Marked {
        host: joining.inventory.name.clone(),
        epoch,
        sequence,
    })
}

/// Decides what a silence means for a host, and for its jobs where it is lost; nothing where it is
/// no news.
pub fn silence(
    view: &View,
    host: &str,
    silent: Millis,
    patience: Patience,
    times: Times,
) -> Option<HostStep> {
    let record = view.host(host)?;
    if fence::is_over_while_away(view, record, silent, patience) {
        let mut step = HostStep::default();
        step.lose(lose_jobs(host, view, Loss::Fenced, times));
        return Some(step);
    }
    let fact = decide_silence(record, silent, patience, times.0)?;
    let mut step = HostStep {
        decided: Decided {
            conditions: vec![unchanged(record)],
            facts: Vec::new(),
        },
        ..HostStep::default()
    };
    if matches!(fact, HostFact::Lost { .. }) {
        step.lose(lose_jobs(host, view, Loss::Silent, times));
    }
    if !step.more {
        // With more jobs than one group takes the rest is judged at once, and the loss comes last.
        step.decided.facts.push(fact.into());
    }
    Some(step)
}

/// Decides what a worker that joins means; nothing where its host is up just so.
///
/// # Errors
/// As [`decide_join`].
pub fn join(view: &View, joining: &Joining, times: Times) -> Result<Option<HostStep>, Refusal> {
    let inventory = &joining.inventory;
    let known = view.host(&inventory.name).map(AsRef::as_ref);
    let leftovers = leftovers(known, inventory, &joining.runs);
    let settled = leftovers == Leftovers::default();
    let fact = decide_join(known, joining.connected, inventory, leftovers)?;
    let is_so = |known: &HostRecord| known.life == HostLife::Up && known.inventory == *inventory;
    fence::takeover(view, known, inventory, times.0)?;
    let mark = spool_ahead(view, known, joining);
    if settled && mark.is_none() && known.is_some_and(is_so) {
        return Ok(None);
    }
    let condition = Precondition::HostUnchanged {
        host: inventory.name.clone(),
        lsn: known.map_or(0, |known| known.changed),
    };
    let mut step = HostStep {
        decided: Decided {
            conditions: vec![condition],
            facts: [Some(fact), mark]
                .into_iter()
                .flatten()
                .map(Fact::from)
                .collect(),
        },
        ..HostStep::default()
    };
    let name = &inventory.name;
    let changed = match known {
        Some(known) if known.inventory.incarnation != inventory.incarnation => {
            lose_jobs(name, view, Loss::Superseded, times)
        }
        Some(known) if known.life == HostLife::Lost => take_back(name, view, times),
        Some(_) | None => LostJobs::default(),
    };
    // The join itself commits with the last of them: what is given up is so while the host is lost.
    let joined = std::mem::take(&mut step.decided.facts);
    step.lose(changed);
    if !step.more {
        step.decided.facts.extend(joined);
    }
    Ok(Some(step))
}

impl HostStep {
    fn lose(&mut self, lost: LostJobs) {
        self.jobs = lost.facts.len();
        self.more = lost.more;
        self.decided.conditions.extend(lost.conditions);
        self.decided.facts.extend(lost.facts);
    }
}

/// Decides a command of an operator; with a sentence about what is done.
///
/// # Errors
/// `not_found`; `host_in_use` where a host that is up or holds jobs is to be removed.
pub fn command(
    view: &View,
    host: &str,
    command: &Command,
    principal: &str,
    times: Times,
) -> Result<(HostStep, String), Refusal> {
    let record = view
        .host(host)
        .ok_or_else(|| Refusal::not_found("host", host))?;
    let (name, by) = (host.to_owned(), principal.to_owned());
    let (fact, text) = match command {
        Command::Close(reason) => {
            let text = format!("host {name} takes no new jobs");
            let reason = reason.clone();
            let host = name;
            (HostFact::Closed { host, reason, by }, text)
        }
        Command::Reopen => {
            let text = format!("host {name} takes new jobs");
            let (host, author) = (name.clone(), by.clone());
            let mut decided = of_known(record, HostFact::Opened { host, by: author });
            if record.drain.is_some() {
                let fact = HostFact::DrainEnded { host: name, by };
                decided.facts.push(fact.into());
            }
            return Ok((just(decided), text));
        }
        Command::Drain(patience, reason) => draining::begin(view, record, *patience, reason, &by),
        Command::Undrain if record.drain.is_none() => {
            let text = format!("host {name} is not drained");
            return Ok((HostStep::default(), text));
        }
        Command::Undrain => {
            let text = format!("host {name} is no longer drained; what has not left it stays");
            (HostFact::DrainEnded { host: name, by }, text)
        }
        Command::StopQuarantined(job, run) => {
            let (job, run) = (*job, *run);
            in_quarantine(record, job, run)?;
            let text = format!("run {run} of job {job} on host {name} is stopped");
            let host = name;
            (HostFact::QuarantineEnded { host, job, run, by }, text)
        }
        Command::Remove => {
            may_be_removed(view, record)?;
            let fact = HostFact::Removed { host: name };
            return Ok(finally(view, record, (fact, "is forgotten"), times));
        }
        Command::ConfirmDead => {
            may_be_dead(record)?;
            let fact = HostFact::ConfirmedDead { host: name, by };
            return Ok(finally(view, record, (fact, "counts as off"), times));
        }
    };
    Ok((just(of_known(record, fact)), text))
}

fn in_quarantine(host: &HostRecord, job: JobId, run: Run) -> Result<(), Refusal> {
    let name = &host.inventory.name;
    match host.remnant(job, run) {
        Some(one) if one.quarantined => Ok(()),
        Some(_) => {
            let text = format!("run {run} of job {job} on host {name} is being stopped already");
            Err(Refusal::refused("not_quarantined", text))
        }
        None => Err(Refusal::not_found(
            "run in quarantine",
            format_args!("{job} run {run} on host {name}"),
        )),
    }
}

/// A step that concerns no jobs.
fn just(decided: Decided) -> HostStep {
    HostStep {
        decided,
        ..HostStep::default()
    }
}

fn may_be_removed(view: &View, host: &HostRecord) -> Result<(), Refusal> {
    let name = &host.inventory.name;
    let jobs = jobs_on(view, name).count();
    let text = match host.life {
        HostLife::Lost => return Ok(()),
        HostLife::Away if jobs == 0 => return Ok(()),
        HostLife::Away => format!(
            "the worker of host {name} was stopped and {jobs} jobs may run on there; start it and \
             drain the host, or say `hosts confirm-dead {name}` where the machine is off"
        ),
        HostLife::Up => format!(
            "host {name} is up and holds {jobs} jobs; drain it and stop its worker, then remove it"
        ),
        HostLife::Suspect => format!(
            "host {name} missed beats and is not lost yet; wait until it is, or say \
             `hosts confirm-dead {name}` where the machine is off"
        ),
    };
    Err(Refusal::refused("host_in_use", text))
}

fn may_be_dead(host: &HostRecord) -> Result<(), Refusal> {
    match host.life {
        HostLife::Suspect | HostLife::Lost | HostLife::Away => Ok(()),
        HostLife::Up => {
            let name = &host.inventory.name;
            let text = format!(
                "host {name} answers, so it is not off; drain it, or stop its worker and wait until \
                 it misses its beats"
            );
            Err(Refusal::refused("host_answers", text))
        }
    }
}

/// All its jobs leave it for good, as many as one group takes; the last ones with the fact.
fn finally(
    view: &View,
    host: &HostRecord,
    (fact, done): (HostFact, &str),
    times: Times,
) -> (HostStep, String) {
    let name = &host.inventory.name;
    let mut step = HostStep {
        decided: Decided {
            conditions: vec![unchanged(host)],
            facts: Vec::new(),
        },
        ..HostStep::default()
    };
    step.lose(lose_jobs(name, view, Loss::Final, times));
    if !step.more {
        step.decided.facts.push(fact.into());
    }
    let jobs = step.jobs;
    let text = match jobs {
        0 => format!("host {name} {done}; it held no jobs"),
        1 => format!("host {name} {done}; the job that it held was recovered"),
        jobs => format!("host {name} {done}; {jobs} jobs that it held were recovered"),
    };
    (step, text)
}
