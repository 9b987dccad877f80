//! What happens to a host, and what its loss means for the jobs that hold it.

use xce_host::rules::{Command, Patience, decide_beat, decide_join, decide_silence};
use xce_host::{HostFact, HostLife, HostRecord};
use xce_ledger::{Fact, Joining, Precondition, View};
use xce_model::{ClusterTime, Millis, Refusal, WallTime};
use xce_replica::rules::decide_host_lost;

use crate::blame;
use crate::reading::jobs_on;
use crate::{Decided, Times};

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
pub fn is_loss(view: &View, host: &str, silent: Millis, patience: Patience) -> bool {
    let fact = view
        .host(host)
        .and_then(|host| decide_silence(host, silent, patience));
    matches!(fact, Some(HostFact::Lost { .. }))
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
    let fact = decide_silence(record, silent, patience)?;
    let mut step = HostStep {
        decided: Decided {
            conditions: vec![unchanged(record)],
            facts: Vec::new(),
        },
        ..HostStep::default()
    };
    if matches!(fact, HostFact::Lost { .. }) {
        step.lose(lose_jobs(host, view, times));
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
    let fact = decide_join(known, joining.connected, inventory)?;
    if known.is_some_and(|known| known.life == HostLife::Up && known.inventory == *inventory) {
        return Ok(None);
    }
    let condition = Precondition::HostUnchanged {
        host: inventory.name.clone(),
        lsn: known.map_or(0, |known| known.changed),
    };
    let mut step = HostStep {
        decided: Decided {
            conditions: vec![condition],
            facts: vec![fact.into()],
        },
        ..HostStep::default()
    };
    if known.is_some_and(|known| known.inventory.incarnation != inventory.incarnation) {
        let lost = lose_jobs(&inventory.name, view, times);
        if lost.more {
            // The rest follows; the join itself commits with the last of them.
            step.decided.facts.clear();
        }
        step.lose(lost);
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
) -> Result<(Decided, String), Refusal> {
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
            (HostFact::Opened { host: name, by }, text)
        }
        Command::Remove => {
            let jobs = jobs_on(view, &name).count();
            if record.life == HostLife::Up || jobs > 0 {
                let text = format!(
                    "host {name} is {} and holds {jobs} jobs; only a host that is lost or away \
                     and holds none can be removed",
                    record.life.word()
                );
                return Err(Refusal::refused("host_in_use", text));
            }
            let text = format!("host {name} is forgotten");
            (HostFact::Removed { host: name }, text)
        }
    };
    Ok((of_known(record, fact), text))
}

/// Jobs of a lost host that one group takes.
/// Source: derived; some 200 bytes each, half of what one log entry holds.
const LOST_MAX: usize = 2000;

/// What the loss of a host means for jobs that hold it.
pub struct LostJobs {
    /// Under which conditions.
    pub conditions: Vec<Precondition>,
    /// What becomes of them.
    pub facts: Vec<Fact>,
    /// Whether there are more than one group takes.
    pub more: bool,
}

/// Decides what the loss of a host means for the jobs that hold it, as many as one group takes.
pub fn lose_jobs(host: &str, view: &View, times: (ClusterTime, WallTime)) -> LostJobs {
    let (now, wall) = times;
    let mut lost = LostJobs {
        conditions: Vec::new(),
        facts: Vec::new(),
        more: false,
    };
    for job in jobs_on(view, host) {
        if lost.facts.len() == LOST_MAX {
            lost.more = true;
            break;
        }
        lost.conditions.push(Precondition::JobUnchanged {
            job: job.id,
            lsn: job.changed,
        });
        let fact = decide_host_lost(job, now, wall);
        lost.facts.push(fact.into());
    }
    lost
}
