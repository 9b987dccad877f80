//! How long replicas of a version are taken to need: measured where that can be, else assumed.

use std::collections::BTreeMap;

use xce_model::spec::{Probe, Template};
use xce_model::{JobState, Millis, Version};
use xce_service::rules::measure;
use xce_service::{ServiceRecord, Times, VersionRecord};
use xce_session::plan::{PlanTime, PlanTimes};

use crate::imagined::Imagined;

/// Time from a placement to the start of the processes, where nothing was measured.
/// Source: chosen, above the few milliseconds of a worker that is idle.
const START_ASSUMED: Millis = Millis(100);
/// Time from the stop signal to the end, where nothing was measured.
/// Source: chosen, above the few milliseconds of a process that heeds the signal.
const STOP_ASSUMED: Millis = Millis(100);
/// Longest time between two probes before the first success. Source: design section 7.3.
const FIRST_PERIOD_MAX: Millis = Millis::seconds(1);

/// The times of all versions of a service.
pub(crate) struct Estimates(BTreeMap<Version, PlanTimes>);

impl Estimates {
    /// From what is there before anything is imagined of workers.
    pub fn of(world: &Imagined<'_>) -> Self {
        let Some(record) = world.record() else {
            return Self(BTreeMap::new());
        };
        let known: Vec<(Version, Times)> = record
            .versions
            .iter()
            .map(|version| (version.root, seen(world, record, version)))
            .collect();
        let estimates = record
            .versions
            .iter()
            .enumerate()
            .map(|(place, version)| (version.number, estimate(record, &known, place)))
            .collect();
        Self(estimates)
    }

    /// The times of a version; of one that is kept no longer, those of the oldest kept.
    pub fn times(&self, version: Version) -> PlanTimes {
        let known = self.0.get(&version).or_else(|| self.0.values().next());
        known.cloned().unwrap_or_else(|| {
            let assumed = |takes| PlanTime {
                takes,
                measured_on: None,
            };
            PlanTimes {
                version,
                start: assumed(START_ASSUMED),
                ready: assumed(Millis(0)),
                stop: assumed(STOP_ASSUMED),
            }
        })
    }
}

/// What was measured of one making: on its replicas that work now, else as it was noted.
fn seen(world: &Imagined<'_>, record: &ServiceRecord, version: &VersionRecord) -> Times {
    let working = world
        .live()
        .map(|job| &**job)
        .filter(|job| job.state == JobState::Run && job.is_ready())
        .filter(|job| {
            job.service
                .is_some_and(|of| record.root_of(of.version) == version.root)
        });
    let live = measure(working, std::iter::empty());
    let noted = version.times;
    Times {
        start: live.start.or(noted.start),
        ready: live.ready.or(noted.ready),
        stop: noted.stop,
    }
}

fn estimate(record: &ServiceRecord, known: &[(Version, Times)], place: usize) -> PlanTimes {
    let version = &record.versions[place];
    let template = &version.spec.template;
    // Of the same making first, then the newest of the others.
    let (same, other): (Vec<usize>, Vec<usize>) = (0..known.len())
        .rev()
        .partition(|&index| known[index].0 == version.root);
    let order: Vec<usize> = same.into_iter().chain(other).collect();
    let find = |wanted: &dyn Fn(usize) -> Option<Millis>| {
        order
            .iter()
            .find_map(|&index| Some((wanted(index)?, record.versions[index].number)))
    };
    let start = find(&|index| known[index].1.start);
    let probed = is_probed(template);
    let ready = find(&|index| {
        let alike = is_probed(&record.versions[index].spec.template) == probed;
        known[index].1.ready.filter(|_| alike)
    });
    let stop = find(&|index| known[index].1.stop);
    let drain = template.stop.drain;
    PlanTimes {
        version: version.number,
        start: time(start, START_ASSUMED),
        ready: time(ready, first_ready(template)),
        stop: time(
            stop.map(|(takes, on)| (Millis(takes.0.saturating_add(drain.0)), on)),
            Millis(STOP_ASSUMED.0.saturating_add(drain.0)),
        ),
    }
}

fn time(measured: Option<(Millis, Version)>, assumed: Millis) -> PlanTime {
    match measured {
        Some((takes, on)) => PlanTime {
            takes,
            measured_on: Some(on),
        },
        None => PlanTime {
            takes: assumed,
            measured_on: None,
        },
    }
}

fn is_probed(template: &Template) -> bool {
    template.probes.startup.is_some() || template.probes.readiness.is_some()
}

/// When a replica that works at once is seen to be ready: each probe's delay, and as many first
/// periods as it needs successes.
fn first_ready(template: &Template) -> Millis {
    let one = |probe: &Probe| {
        let period = probe.period.min(FIRST_PERIOD_MAX).0;
        probe
            .initial_delay
            .0
            .saturating_add(period.saturating_mul(u64::from(probe.success_threshold.max(1))))
    };
    let probes = [&template.probes.startup, &template.probes.readiness];
    let sum = probes
        .into_iter()
        .flatten()
        .fold(0_u64, |sum, probe| sum.saturating_add(one(probe)));
    Millis(sum)
}
