//! A host is drained: what is told to who asks for it, and what its deadline means for batch jobs.
//! Replicas are moved by their services.

use std::collections::BTreeMap;

use xce_host::{HostFact, HostRecord};
use xce_ledger::{Fact, Precondition, View};
use xce_model::{JobState, Millis, ServiceId};
use xce_replica::JobRecord;
use xce_replica::rules::decide_drained;

use crate::host::{HostStep, unchanged};
use crate::reading::jobs_on;
use crate::{Decided, Times};

/// Jobs that one group stops. Source: as many as one group loses with a host.
const STOPS_MAX: usize = 2000;

/// Services that one sentence names. Source: derived, what fits a line of a terminal.
const NAMED_MAX: usize = 3;

/// Stops the batch jobs of a host whose drain is past its deadline, as many as one group takes;
/// nothing before that, or where none is left to be stopped.
pub fn due(view: &View, host: &str, times: Times) -> Option<HostStep> {
    let record = view.host(host)?;
    record
        .drain
        .as_ref()
        .filter(|drain| drain.is_due(times.0))?;
    let mut step = HostStep {
        decided: Decided {
            conditions: vec![unchanged(record)],
            facts: Vec::new(),
        },
        ..HostStep::default()
    };
    for job in jobs_on(view, host) {
        let Some(fact) = decide_drained(job) else {
            continue;
        };
        if step.jobs == STOPS_MAX {
            step.more = true;
            break;
        }
        step.jobs += 1;
        step.decided.conditions.push(Precondition::JobUnchanged {
            job: job.id,
            lsn: job.changed,
        });
        step.decided.facts.push(Fact::from(fact));
    }
    (step.jobs > 0).then_some(step)
}

/// Begins a drain, or replaces its deadline; with a sentence about what becomes of what is there.
pub(crate) fn begin(
    view: &View,
    host: &HostRecord,
    patience: Option<Millis>,
    reason: &str,
    by: &str,
) -> (HostFact, String) {
    let name = host.inventory.name.clone();
    let mut text = format!(
        "host {name} is drained: {}",
        what_becomes(view, &name, patience)
    );
    let others = view.hosts().values();
    let mut others = others.filter(|other| other.inventory.name != name);
    let is_last = !others.any(|other| other.takes_jobs());
    if is_last && jobs_on(view, &name).any(|job| job.service.is_some()) {
        text += "; no other host takes jobs now, so that replicas stay";
        text += match patience {
            None => " until one does",
            Some(_) => ", after the deadline as many as their services must have available",
        };
    }
    let fact = HostFact::DrainBegan {
        host: name,
        patience,
        reason: reason.to_owned(),
        by: by.to_owned(),
    };
    (fact, text)
}

/// Such as `2 batch jobs run on until they end, 3 replicas of web move to other hosts`.
fn what_becomes(view: &View, host: &str, patience: Option<Millis>) -> String {
    let (mut rerun, mut end) = (0_u32, 0_u32);
    let mut services: BTreeMap<ServiceId, u32> = BTreeMap::new();
    for job in jobs_on(view, host) {
        match job.service {
            Some(of) => *services.entry(of.service).or_default() += 1,
            None if job.spec.rerunnable => rerun += 1,
            None => end += 1,
        }
    }
    let mut parts = Vec::new();
    let jobs = rerun + end;
    let (noun, run, is) = match jobs {
        1 => ("batch job", "runs", "is"),
        _ => ("batch jobs", "run", "are"),
    };
    match (jobs, patience) {
        (0, _) => {}
        (1, None) => parts.push("1 batch job runs on until it ends".to_owned()),
        (_, None) => parts.push(format!("{jobs} batch jobs run on until they end")),
        (_, Some(Millis(0))) => {
            parts.push(format!(
                "{jobs} {noun} {is} stopped now ({})",
                fate(rerun, end)
            ));
        }
        (_, Some(patience)) => {
            let fate = fate(rerun, end);
            parts.push(format!(
                "{jobs} {noun} {run} on for {patience} at most ({fate})"
            ));
        }
    }
    let replicas: u32 = services.values().sum();
    if replicas > 0 {
        let (noun, verb) = match replicas {
            1 => ("replica", "moves"),
            _ => ("replicas", "move"),
        };
        let names = names(view, services.keys().copied());
        parts.push(format!(
            "{replicas} {noun} of {names} {verb} to other hosts"
        ));
    }
    match parts.is_empty() {
        true => "nothing runs there".to_owned(),
        false => parts.join(", "),
    }
}

/// What becomes of batch jobs that are stopped.
fn fate(rerun: u32, end: u32) -> String {
    match (rerun, end) {
        (_, 0) => "then to run again elsewhere".to_owned(),
        (0, _) => "then to end: not rerunnable".to_owned(),
        (rerun, end) => {
            format!("then {rerun} to run again elsewhere, {end} to end: not rerunnable")
        }
    }
}

fn names(view: &View, services: impl ExactSizeIterator<Item = ServiceId>) -> String {
    let more = services.len().saturating_sub(NAMED_MAX);
    let names: Vec<String> = services
        .take(NAMED_MAX)
        .map(|id| {
            view.service(id)
                .map_or_else(|| id.to_string(), |service| service.name.clone())
        })
        .collect();
    match more {
        0 => names.join(", "),
        more => format!("{} and {more} more services", names.join(", ")),
    }
}

/// A batch job on a drained host, and what becomes of it, in a sentence.
pub fn remains(job: &JobRecord, host: &HostRecord, times: Times) -> Option<String> {
    let drain = host.drain.as_ref().filter(|_| job.service.is_none())?;
    let (id, name) = (job.id, &job.spec.name);
    let then = match job.spec.rerunnable {
        true => "then it runs again elsewhere",
        false => "then it is ended, since it is not rerunnable",
    };
    Some(match (job.state, drain.until) {
        (JobState::Stopping, _) => format!("job {id} ({name}) is being stopped"),
        (_, None) => format!("job {id} ({name}) runs until it ends: no deadline was given"),
        (_, Some(until)) => {
            let left = Millis::seconds(until.since(times.0).0.div_ceil(1000));
            format!("job {id} ({name}) runs for {left} at most, {then}")
        }
    })
}
