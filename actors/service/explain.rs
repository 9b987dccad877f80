//! Says in words how a service is and what it waits for.

use xce_model::{ClusterTime, JobId};

use crate::rules::{Blocker, Census, Situation, Standing, blocker, draining};
use crate::state::{Phase, ServiceRecord};
use crate::view::{Condition, ConditionView};

/// A service in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// All conditions that apply; the first one is the service's condition.
    pub conditions: Vec<ConditionView>,
    /// What holds the next step back; none where nothing is to be done.
    pub blocker: Option<Blocker>,
}

impl Explanation {
    /// The first condition that applies.
    pub fn condition(&self) -> Condition {
        self.conditions
            .first()
            .map_or(Condition::Steady, |first| first.condition)
    }

    /// Why the first condition applies.
    pub fn reason(&self) -> &str {
        self.conditions
            .first()
            .map_or("", |first| first.reason.as_str())
    }

    /// The line that names what holds the next step back; empty where nothing is to be done.
    pub fn line(&self) -> String {
        self.blocker
            .as_ref()
            .map_or_else(String::new, Blocker::to_string)
    }
}

/// Explains a service. `why_pending` gives the reason why a job waits, where one is known.
pub fn explain(
    situation: &Situation<'_>,
    why_pending: &dyn Fn(JobId) -> Option<String>,
) -> Explanation {
    let census = Census::take(situation.service, situation);
    explain_counted(situation, &census, why_pending)
}

/// Why replicas of a service do not leave a host that is drained yet; none where none is left there
/// that could.
pub fn explain_drain(
    situation: &Situation<'_>,
    host: &str,
    why_pending: &dyn Fn(JobId) -> Option<String>,
) -> Option<String> {
    let record = situation.service;
    let census = Census::take(record, situation);
    let mut blocker = draining(record, &census, situation, Some(host))?;
    say_why_pending(&mut blocker, why_pending);
    Some(blocker.to_string())
}

fn say_why_pending(blocker: &mut Blocker, why_pending: &dyn Fn(JobId) -> Option<String>) {
    for waiting in blocker.waiting_mut() {
        if waiting.standing == Standing::Pending
            && let Some(text) = why_pending(waiting.job)
        {
            waiting.text = text;
        }
    }
}

/// As [`explain`], for replicas that are counted already.
pub(crate) fn explain_counted(
    situation: &Situation<'_>,
    census: &Census<'_>,
    why_pending: &dyn Fn(JobId) -> Option<String>,
) -> Explanation {
    let record = situation.service;
    let mut blocker = if record.is_deleting() {
        None
    } else {
        blocker(record, census, situation)
    };
    if let Some(blocker) = &mut blocker {
        say_why_pending(blocker, why_pending);
    }
    let line = blocker
        .as_ref()
        .map_or_else(String::new, Blocker::to_string);
    Explanation {
        conditions: conditions(record, census, &line),
        blocker,
    }
}

/// All conditions that apply, the most telling first.
fn conditions(record: &ServiceRecord, census: &Census<'_>, line: &str) -> Vec<ConditionView> {
    let available = census.total().available();
    let rollout = &record.rollout;
    let mut conditions = Vec::new();
    let mut add = |condition, reason: String, since: Option<ClusterTime>| {
        conditions.push(ConditionView {
            condition,
            reason,
            since,
        });
    };
    if let Some(since) = record.deleting_since {
        add(Condition::Deleting, deleting(census), Some(since));
    }
    if crash_loops(record) {
        add(Condition::CrashLoop, line.to_owned(), None);
    }
    if let Phase::Stuck { reason } = &rollout.phase {
        let deadline = record.settings.rollout.progress_deadline;
        let reason = if line.is_empty() { reason } else { line };
        let text = format!("no progress within {deadline}: {reason}");
        add(Condition::Stuck, text, None);
    }
    if let Some(pause) = record.paused {
        let text = "versions stay as they are until it is resumed";
        add(Condition::Paused, text.to_owned(), Some(pause.since));
    }
    if rollout.is_active() {
        add(
            Condition::Rolling,
            rolling(record, census, line),
            Some(rollout.started),
        );
    }
    if available < record.desired {
        let text = match line {
            "" => format!("available {available} < desired {}", record.desired),
            line => line.to_owned(),
        };
        add(Condition::Short, text, record.short_since);
    }
    say_once(&mut conditions, line, available, record.desired);
    if conditions.is_empty() {
        conditions.push(ConditionView {
            condition: Condition::Steady,
            reason: format!("{available} of {} replicas are available", record.desired),
            since: None,
        });
    }
    conditions
}

/// What holds the next step back is said with the first condition that it is the reason of; those
/// after it keep what is theirs.
fn say_once(conditions: &mut [ConditionView], line: &str, available: u32, desired: u32) {
    if line.is_empty() {
        return;
    }
    let first = conditions.iter().position(|one| one.reason.ends_with(line));
    let others = first.map_or(conditions.len(), |first| first + 1);
    for other in &mut conditions[others..] {
        let Some(own) = other.reason.strip_suffix(line) else {
            continue;
        };
        other.reason = match own.trim_end_matches([';', ':', ' ']) {
            "" => format!("available {available} < desired {desired}"),
            own => own.to_owned(),
        };
    }
}

/// Such as `version 2: 3 of 4 replicas, 2 available; ...`.
fn rolling(record: &ServiceRecord, census: &Census<'_>, line: &str) -> String {
    let counts = census.current().counts;
    let text = format!(
        "version {}: {} of {} replicas, {} available",
        record.rollout.version,
        counts.staying(),
        record.desired,
        counts.available()
    );
    match line {
        // Nothing is waited for: the next decision completes it.
        "" => format!("{text}; completing"),
        line => format!("{text}; {line}"),
    }
}

fn crash_loops(record: &ServiceRecord) -> bool {
    record
        .versions
        .iter()
        .any(|version| version.want > 0 && version.backoff.crash_loop)
}

/// Such as `deleting (1 on w2)`.
fn deleting(census: &Census<'_>) -> String {
    let mut hosts: Vec<(String, u32)> = Vec::new();
    for replica in &census.replicas {
        let host = match &replica.job.host {
            Some(host) if replica.job.state.holds_host() => host.to_string(),
            Some(_) | None => continue,
        };
        match hosts.iter_mut().find(|known| known.0 == host) {
            Some(known) => known.1 += 1,
            None => hosts.push((host, 1)),
        }
    }
    hosts.sort();
    let texts: Vec<String> = hosts
        .iter()
        .map(|(host, count)| format!("{count} on {host}"))
        .collect();
    if texts.is_empty() {
        "deleting".to_owned()
    } else {
        format!("deleting ({})", texts.join(", "))
    }
}
