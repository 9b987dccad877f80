//! How long replicas take, noted when a rollout is complete; estimates of later ones rest on it.

use xce_model::{Millis, Version};
use xce_replica::JobRecord;

use super::super::draft::Draft;
use super::super::{Census, Standing};
use crate::facts::{ServiceFact, Times};
use crate::state::ServiceRecord;

/// Notes the times of every version that had a part in the rollout; what was not seen in it stays
/// as it was known.
pub fn note(draft: &mut Draft<'_>, census: &Census<'_>) {
    let record = draft.record();
    let mut facts = Vec::new();
    for (place, group) in census.groups.iter().enumerate() {
        let Some(version) = record.version(group.version) else {
            continue;
        };
        let working = census
            .of_group(place)
            .filter(|replica| replica.standing == Standing::Available)
            .map(|replica| &**replica.job);
        let ended = draft
            .situation()
            .replicas
            .iter()
            .map(|job| &**job)
            .filter(|job| job.ended_at >= Some(record.rollout.started))
            .filter(|job| is_of(record, job, group.root));
        let seen = measure(working, ended);
        let times = Times {
            start: seen.start.or(version.times.start),
            ready: seen.ready.or(version.times.ready),
            stop: seen.stop.or(version.times.stop),
        };
        if times != version.times {
            facts.push((version.number, times));
        }
    }
    let service = record.id;
    for (version, times) in facts {
        draft.service(ServiceFact::VersionTimed {
            service,
            version,
            times,
        });
    }
}

fn is_of(record: &ServiceRecord, job: &JobRecord, root: Version) -> bool {
    job.service
        .is_some_and(|of| record.root_of(of.version) == root)
}

/// Medians over replicas that work, and over replicas that were stopped. A median, since one that
/// was not ready for a while counts from its start to its last return.
pub fn measure<'a>(
    working: impl Iterator<Item = &'a JobRecord>,
    ended: impl Iterator<Item = &'a JobRecord>,
) -> Times {
    let (mut starts, mut readies, mut stops) = (Vec::new(), Vec::new(), Vec::new());
    for job in working {
        let Some(running) = job.running_since else {
            continue;
        };
        // A later start in place has no placement of its own.
        if let (Some(placed), 1) = (job.placed_at, job.start) {
            starts.push(running.since(placed));
        }
        if let Some(ready) = job.ready_since {
            readies.push(ready.since(running));
        }
    }
    for job in ended {
        if let Some(took) = job.stop_took {
            let drain = job.template().stop.drain;
            stops.push(Millis(took.0.saturating_sub(drain.0)));
        }
    }
    Times {
        start: median(starts),
        ready: median(readies),
        stop: median(stops),
    }
}

fn median(mut times: Vec<Millis>) -> Option<Millis> {
    if times.is_empty() {
        return None;
    }
    let middle = times.len() / 2;
    let (_, median, _) = times.select_nth_unstable(middle);
    Some(*median)
}
