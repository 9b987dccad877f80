//! Preconditions, checked in log order against the state that the group would change.

use std::collections::BTreeMap;

use xce_host::{HostLife, HostRecord};
use xce_model::limits::JOBS_MAX;
use xce_model::{ClusterTime, Incarnation, JobId, JobState, Run};
use xce_replica::JobRecord;

use crate::apply::pending_element;
use crate::group::{Precondition, Unmet};
use crate::view::View;

/// Checks all preconditions of a group; placements in one group add up.
pub(crate) fn all(
    view: &View,
    preconditions: &[Precondition],
    now: ClusterTime,
) -> Result<(), Unmet> {
    let mut taken = Taken {
        now,
        ..Taken::default()
    };
    for precondition in preconditions {
        one(view, precondition, &mut taken)?;
    }
    Ok(())
}

/// What earlier placements of the same group take.
#[derive(Default)]
struct Taken<'a> {
    now: ClusterTime,
    hosts: BTreeMap<&'a str, OnHost>,
    jobs: Vec<JobId>,
    slots: BTreeMap<u64, u32>,
}

#[derive(Default)]
struct OnHost {
    cpus: u64,
    memory: u64,
    ports: Vec<u16>,
    jobs: u32,
}

fn one<'a>(
    view: &View,
    precondition: &'a Precondition,
    taken: &mut Taken<'a>,
) -> Result<(), Unmet> {
    match precondition {
        Precondition::JobUnchanged { job, lsn } => {
            unchanged("job", job, job_changed(view, *job), *lsn)
        }
        Precondition::ServiceUnchanged { service, lsn } => {
            let found = view.service(*service).map(|service| service.changed);
            unchanged("service", service, found, *lsn)
        }
        Precondition::HostUnchanged { host, lsn } => {
            let found = view.host(host).map(|host| host.changed);
            match (found, lsn) {
                (None, 0) => Ok(()),
                (Some(_) | None, _) => unchanged("host", host, found, *lsn),
            }
        }
        Precondition::HostGone { host } => gone(view, host),
        Precondition::NameFree { project, name } => name_is_free(view, project, name),
        Precondition::Fits {
            job,
            run,
            host,
            ports,
        } => fits(view, (*job, *run), host, ports, taken),
        Precondition::HostMark {
            host,
            incarnation,
            epoch,
            sequence,
        } => marked(view, host, (*incarnation, *epoch, *sequence)),
        Precondition::Room { jobs } => {
            if view.job_count().saturating_add(*jobs) <= JOBS_MAX {
                return Ok(());
            }
            let text = format!(
                "{jobs} more jobs are above the limit of {JOBS_MAX}: there are {}",
                view.job_count()
            );
            Err(Unmet::new("too_many_jobs", text))
        }
        Precondition::PolicyUnchanged { kind, name, lsn } => {
            let found = view.policy(*kind, name).map(|policy| policy.changed);
            match (found, lsn) {
                (None, 0) => Ok(()),
                (Some(_) | None, _) => unchanged(kind.word(), name, found, *lsn),
            }
        }
        Precondition::SessionEpoch { session, epoch } => match view.session(*session) {
            Some(found) if found.epoch == *epoch => Ok(()),
            Some(found) => Err(Unmet::new(
                "session_fenced",
                format!(
                    "session {session} is in epoch {}, not in {epoch}",
                    found.epoch
                ),
            )),
            None => Err(Unmet::new(
                "session_ended",
                format!("session {session} is over"),
            )),
        },
    }
}

fn gone(view: &View, host: &str) -> Result<(), Unmet> {
    match view.host(host).map(|host| host.life) {
        None | Some(HostLife::Lost) => Ok(()),
        Some(HostLife::Up | HostLife::Suspect | HostLife::Away) => {
            let text = format!("host {host} is not lost any more");
            Err(Unmet::new("host_back", text))
        }
    }
}

fn name_is_free(view: &View, project: &str, name: &str) -> Result<(), Unmet> {
    match view.service_named(project, name) {
        Some(service) => Err(Unmet::new(
            "name_in_use",
            format!(
                "service {} of project {project} is already named {name}",
                service.id
            ),
        )),
        None => Ok(()),
    }
}

fn marked(view: &View, host: &str, mark: (Incarnation, u64, u64)) -> Result<(), Unmet> {
    let Some(found) = view.host(host) else {
        return Err(Unmet::new(
            "no_such_host",
            format!("there is no host {host}"),
        ));
    };
    if (found.inventory.incarnation, found.epoch, found.sequence) == mark {
        return Ok(());
    }
    let text = format!(
        "facts of {host} are committed up to {} of spool epoch {}, not up to {} of {}",
        found.sequence, found.epoch, mark.2, mark.1
    );
    Err(Unmet::new("mark_moved", text))
}

fn job_changed(view: &View, job: JobId) -> Option<u64> {
    if let Some(found) = view.job(job) {
        return Some(found.changed);
    }
    let array = view.array(job.number)?;
    let is_part = job.element == JobId::NO_ELEMENT
        || array.pending.contains(job.element)
        || array.cancelled.contains(job.element);
    is_part.then_some(array.changed)
}

fn unchanged(
    what: &str,
    id: &dyn std::fmt::Display,
    found: Option<u64>,
    expected: u64,
) -> Result<(), Unmet> {
    match found {
        Some(found) if found == expected => Ok(()),
        Some(_) => Err(Unmet::new(
            "changed",
            format!("{what} {id} changed meanwhile"),
        )),
        None => Err(Unmet::new(
            "gone",
            format!("{what} {id} does not exist any more"),
        )),
    }
}

fn fits<'a>(
    view: &View,
    (id, run): (JobId, Run),
    host: &'a str,
    ports: &[u16],
    taken: &mut Taken<'a>,
) -> Result<(), Unmet> {
    let element;
    let job: &JobRecord = match view.job(id) {
        Some(job) => job,
        None => {
            let gone = || Unmet::new("gone", format!("job {id} does not exist any more"));
            element = pending_element(view, id).ok_or_else(gone)?;
            &element
        }
    };
    if job.state != JobState::Pend || run != job.run.saturating_add(1) || taken.jobs.contains(&id) {
        let text = format!("job {id} is {} after run {}", job.state, job.run);
        return Err(Unmet::new("not_pending", text));
    }
    let Some(record) = view.host(host) else {
        return Err(Unmet::new(
            "no_such_host",
            format!("there is no host {host}"),
        ));
    };
    let more = taken.hosts.get(host).map_or(0, |more| more.jobs);
    if !record.takes_jobs() && (more > 0 || !view.takes_trial(record, taken.now)) {
        return Err(Unmet::new(
            "host_closed",
            format!("host {host} takes no jobs"),
        ));
    }
    slots(view, job, taken)?;
    spread(view, job, host)?;
    room(
        view,
        job,
        record,
        ports,
        taken.hosts.entry(host).or_default(),
    )?;
    taken.jobs.push(id);
    Ok(())
}

fn slots(view: &View, job: &JobRecord, taken: &mut Taken<'_>) -> Result<(), Unmet> {
    let Some(array) = view.array(job.id.number) else {
        return Ok(());
    };
    let more = taken.slots.entry(job.id.number).or_default();
    match array.slot_limit() {
        Some(limit) if array.counts.placed.saturating_add(*more) >= limit => Err(Unmet::new(
            "array_slots",
            format!("array {} is at its slot limit of {limit}", array.number),
        )),
        Some(_) | None => {
            *more += 1;
            Ok(())
        }
    }
}

/// A strict spread is checked against committed placements; a plan counts its own.
fn spread(view: &View, job: &JobRecord, host: &str) -> Result<(), Unmet> {
    let Some(replica) = job.service else {
        return Ok(());
    };
    let Some(service) = view.service(replica.service) else {
        return Err(Unmet::new(
            "gone",
            format!("service {} does not exist any more", replica.service),
        ));
    };
    let spread = &service.settings.spread;
    let Some(limit) = spread.max_per_host.filter(|_| !spread.best_effort) else {
        return Ok(());
    };
    let there = view.replicas_on(host, replica.service, replica.version);
    if there < limit {
        return Ok(());
    }
    let text = format!(
        "host {host} has {there} replicas of service {} version {}, at most {limit} are allowed",
        service.name, replica.version
    );
    Err(Unmet::new("spread", text))
}

fn room(
    view: &View,
    job: &JobRecord,
    host: &HostRecord,
    ports: &[u16],
    more: &mut OnHost,
) -> Result<(), Unmet> {
    let name = &host.inventory.name;
    let asked = job.spec.template.resources;
    let usage = view.usage(name);
    let sum = |held: u64, more: u64, asked: u64| held.saturating_add(more).saturating_add(asked);
    let cpus = sum(
        usage.map_or(0, |usage| usage.cpus.0),
        more.cpus,
        asked.cpus.0,
    );
    let memory = sum(
        usage.map_or(0, |usage| usage.memory.0),
        more.memory,
        asked.memory.0,
    );
    if cpus > host.inventory.cpus.0 {
        return Err(Unmet::new(
            "no_room",
            format!("host {name} has not {} cpus free", asked.cpus),
        ));
    }
    // A host may hold more than it offers, when it came back smaller: who asks for none still fits.
    if asked.memory.0 > 0 && memory > host.inventory.memory.0 {
        let text = format!("host {name} has not {} of memory free", asked.memory);
        return Err(Unmet::new("no_room", text));
    }
    for port in ports {
        let is_held = usage.is_some_and(|usage| usage.holds_port(*port));
        if is_held || more.ports.contains(port) {
            return Err(Unmet::new(
                "port_in_use",
                format!("port {port} of host {name} is in use"),
            ));
        }
        more.ports.push(*port);
    }
    more.jobs += 1;
    more.cpus += asked.cpus.0;
    more.memory += asked.memory.0;
    Ok(())
}
