//! Builds the view of a service from what is committed.

use xce_model::JobId;
use xce_replica::view::FormatTime;

use super::{
    EndpointView, EventView, ReplicaView, RolloutView, ServiceView, VersionView, endpoint_state,
    endpoints_of,
};
use crate::explain::{Explanation, explain_counted};
use crate::rules::{Census, Replica, Situation, Standing, Turns, waits_for_turn};
use crate::state::{Phase, ServiceEvent, ServiceRecord, VersionRecord};

/// The view of a service. `address_of_host` gives the address that a host's services listen on,
/// `why_pending` the reason why a job waits, where one is known, and `time` formats the wall clock.
pub fn view(
    situation: &Situation<'_>,
    address_of_host: &dyn Fn(&str) -> Option<String>,
    why_pending: &dyn Fn(JobId) -> Option<String>,
    time: FormatTime<'_>,
) -> ServiceView {
    let record = situation.service;
    let mut census = Census::take(record, situation);
    let explanation = explain_counted(situation, &census, why_pending);
    let turns = Turns::of(record, &census, situation.now);
    census
        .replicas
        .sort_by_key(|replica| (replica.version, replica.index, replica.job.id));
    let total = census.total();
    let replicas = census
        .replicas
        .iter()
        .map(|replica| replica_view(replica, &turns, why_pending))
        .collect();
    let endpoints = census
        .replicas
        .iter()
        .flat_map(|replica| endpoints(replica, situation, address_of_host))
        .collect();
    ServiceView {
        name: record.name.clone(),
        id: record.id,
        project: record.project.clone(),
        owner: record.owner.clone(),
        profile: record.profile.clone(),
        desired: record.desired,
        live: total.live(),
        ready: total.ready(),
        available: total.available(),
        stopping: total.of(Standing::Stopping),
        lost: total.of(Standing::Lost),
        updated: census.current().counts.held_of(record.desired),
        version: record.current().number,
        condition: explanation.condition(),
        reason: explanation.reason().to_owned(),
        rollout: rollout_view(situation, &census, &explanation),
        conditions: explanation.conditions,
        replicas,
        endpoints,
        history: history(record, time),
        events: events(record, time),
        created: time(record.created),
        changed: record.changed,
    }
}

fn replica_view(
    replica: &Replica<'_>,
    turns: &Turns,
    why_pending: &dyn Fn(JobId) -> Option<String>,
) -> ReplicaView {
    let job = replica.job;
    let moves = || {
        let host = job.host.as_deref().filter(|_| replica.leaves())?;
        Some(format!(
            "another one takes its place, since {host} is drained"
        ))
    };
    let trouble = waits_for_turn(turns, job)
        .or_else(|| job.trouble())
        .or_else(moves);
    let reason = match replica.standing {
        Standing::Pending => why_pending(job.id).unwrap_or_default(),
        Standing::Unready | Standing::Running => job.probe_text.clone(),
        Standing::Stopping => job
            .stop
            .map_or_else(String::new, |stop| stop.cause.sentence().to_owned()),
        Standing::Unreachable | Standing::Lost | Standing::Starting | Standing::Ready => {
            replica.standing.words().to_owned()
        }
        Standing::Available => String::new(),
    };
    let reachable = !matches!(replica.standing, Standing::Unreachable | Standing::Lost);
    ReplicaView {
        index: replica.index,
        job: job.id,
        version: replica.version,
        run: job.run,
        host: job.host.as_deref().map(str::to_owned),
        state: job.state,
        ready: matches!(replica.standing, Standing::Ready | Standing::Available),
        available: replica.standing == Standing::Available,
        reachable,
        lost: replica.standing == Standing::Lost,
        pid: job.pid,
        restarts: job.restarts,
        reason: trouble.filter(|_| reachable).unwrap_or(reason),
    }
}

fn endpoints(
    replica: &Replica<'_>,
    situation: &Situation<'_>,
    address_of_host: &dyn Fn(&str) -> Option<String>,
) -> Vec<EndpointView> {
    let job = replica.job;
    let Some(host) = job.host.as_deref() else {
        return Vec::new();
    };
    match (
        endpoint_state(job, (situation.life)(host)),
        address_of_host(host),
    ) {
        (Some(state), Some(address)) => endpoints_of(job, state, &address).collect(),
        (Some(_) | None, _) => Vec::new(),
    }
}

fn rollout_view(
    situation: &Situation<'_>,
    census: &Census<'_>,
    explanation: &Explanation,
) -> RolloutView {
    let record = situation.service;
    let rollout = &record.rollout;
    let (phase, clock_runs) = match (&rollout.phase, record.paused) {
        (Phase::Complete, _) => ("complete", false),
        (Phase::Stuck { .. }, _) => ("stuck", false),
        (Phase::Rolling, Some(_)) => ("paused", false),
        (Phase::Rolling, None) => ("rolling", true),
    };
    let deadline = rollout.deadline(&record.settings.rollout);
    RolloutView {
        phase: phase.to_owned(),
        updated: census.current().counts.held_of(record.desired),
        updated_available: census.current().counts.available(),
        old: census.old().live(),
        deadline_in_ms: clock_runs.then(|| deadline.since(situation.now).0),
        explain: explanation.line(),
    }
}

fn history(record: &ServiceRecord, time: FormatTime<'_>) -> Vec<VersionView> {
    let view = |version: &VersionRecord| VersionView {
        number: version.number,
        reason: version.reason,
        author: version.author.clone(),
        time: time(version.time),
        outcome: version.outcome,
        want: version.want,
    };
    record.versions.iter().map(view).collect()
}

fn events(record: &ServiceRecord, time: FormatTime<'_>) -> Vec<EventView> {
    let view = |event: &ServiceEvent| EventView {
        time: time(event.time),
        at: event.at,
        lsn: event.lsn,
        kind: event.kind.clone(),
        text: event.text.clone(),
    };
    record.events.iter().map(view).collect()
}
