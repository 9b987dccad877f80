//! A service decides, and its decision is cut to what one group takes.

use std::collections::BTreeSet;

use xce_host::HostLife;
use xce_ledger::{Fact, GroupEvent, Precondition, View};
use xce_model::decision::Pending;
use xce_model::{Cause, Refusal, ServiceId};
use xce_placement::no_room;
use xce_replica::JobFact;
pub use xce_service::rules::Author;
use xce_service::rules::{
    Answer, Change, Draining, Effect, Event, Situation, cannot_move, decide, room_needed,
};

use crate::reading::condition_of;
use crate::{Decided, Times};

/// What came out of one decision about a service.
#[derive(Debug)]
pub enum ServiceStep {
    /// Nothing is to be committed: effects and answer as they are.
    Nothing(Vec<Effect>, Answer),
    /// What is to be committed; effects and answer wait for the receipt.
    Decided(Decided, Pending<Effect, Answer>),
}

/// Decides what an event means for a service.
///
/// # Errors
/// The refusal of a command; `not_found` where the service does not exist.
pub fn service(
    view: &View,
    id: ServiceId,
    event: Event,
    times: Times,
) -> Result<ServiceStep, Refusal> {
    let service = view
        .service(id)
        .ok_or_else(|| Refusal::not_found("service", id))?;
    let life = |host: &str| view.host(host).map(|host| host.life);
    let draining = |host: &str| view.host(host).and_then(|host| Draining::of(host));
    let (now, wall) = times;
    let situation = Situation {
        service,
        replicas: view.replicas_of(id),
        life: &life,
        draining: &draining,
        now,
        wall,
    };
    let decision = match decide(&situation, event)?.release_empty() {
        Ok((effects, answer)) => return Ok(ServiceStep::Nothing(effects, answer)),
        Err(decision) => decision,
    };
    let (mut changes, pending) = decision.into_facts();
    if let Some(needed) = room_needed(&situation, &changes)
        && let Some(reason) = no_room(view, now, &needed.spec, needed.replica)
    {
        return Err(cannot_move(&reason.text));
    }
    bound(&mut changes);
    let conditions = conditions(view, id, &changes);
    let facts = changes
        .into_iter()
        .map(|change| match change {
            Change::Service(fact) => Fact::from(fact),
            Change::Job(fact) => Fact::from(fact),
        })
        .collect();
    Ok(ServiceStep::Decided(Decided { conditions, facts }, pending))
}

/// The event as it is recorded with the group; the author of a command is the group's principal.
pub fn event_of(service: ServiceId, event: &Event) -> GroupEvent {
    match event {
        Event::Changed => GroupEvent::ServiceChanged(service),
        Event::Timer => GroupEvent::ServiceDue(service),
        Event::Command(command, _author) => GroupEvent::ServiceCommand {
            service,
            command: command.clone(),
        },
    }
}

/// Jobs that one group changes.
/// Source: derived; some 200 bytes each, at most what one log entry of 1 MiB holds.
const JOB_CHANGES_MAX: usize = 4000;

/// Keeps a decision within one log entry: jobs that are left out are decided again, since what is
/// wanted of them follows from the service's own facts, which are kept.
fn bound(changes: &mut Vec<Change>) {
    let mut jobs = 0;
    changes.retain(|change| match change {
        Change::Service(_) => true,
        Change::Job(_) => {
            jobs += 1;
            jobs <= JOB_CHANGES_MAX
        }
    });
}

/// A decision holds as long as the service and the jobs that it changes are as it read them.
fn conditions(view: &View, id: ServiceId, changes: &[Change]) -> Vec<Precondition> {
    let lsn = view.service(id).map_or(0, |service| service.changed);
    let mut conditions = vec![Precondition::ServiceUnchanged { service: id, lsn }];
    conditions.extend(changes.iter().filter_map(|change| match change {
        Change::Service(_) => None,
        Change::Job(fact) => condition_of(view, fact),
    }));
    // A lost replica is ended, or its index is used again, because its host is lost: one that is back
    // keeps it.
    let hosts: BTreeSet<&str> = changes
        .iter()
        .filter_map(|change| lost_with(view, change))
        .chain(replaced_on(view, id, changes))
        .collect();
    conditions.extend(hosts.into_iter().map(|host| Precondition::HostGone {
        host: host.to_owned(),
    }));
    conditions
}

/// The lost hosts whose replicas are replaced by others with their indices.
fn replaced_on<'a>(
    view: &'a View,
    id: ServiceId,
    changes: &'a [Change],
) -> impl Iterator<Item = &'a str> {
    let used: BTreeSet<u32> = changes
        .iter()
        .filter_map(|change| match change {
            Change::Job(JobFact::ReplicasSubmitted { indices, .. }) => Some(indices),
            Change::Job(_) | Change::Service(_) => None,
        })
        .flatten()
        .copied()
        .collect();
    // Only a loss leaves an index to others while its replica holds a host.
    let replicas = (!used.is_empty()).then(|| view.live_replicas(id));
    let lost = |host: &&str| {
        let host = view.host(host);
        host.is_some_and(|host| host.life == HostLife::Lost)
    };
    replicas
        .into_iter()
        .flatten()
        .filter(move |job| job.service.is_some_and(|of| used.contains(&of.index)))
        .filter_map(|job| job.host.as_deref())
        .filter(lost)
}

/// The host that a replica is ended for.
fn lost_with<'a>(view: &'a View, change: &Change) -> Option<&'a str> {
    let Change::Job(JobFact::Ended { job, exit, .. }) = change else {
        return None;
    };
    let job = view.job(*job)?;
    let lost = exit.cause == Cause::HostLost && job.state.holds_host();
    job.host.as_deref().filter(|_| lost)
}
