//! Single steps of a rollout, from any mix of replicas.

use std::sync::Arc;

use xce_host::HostLife;
use xce_model::spec::Amount;
use xce_model::*;
use xce_replica::{JobFact, JobRecord, ServiceRef};

use crate::facts::{ServiceFact, TargetReason, VersionReason};
use crate::tests::world::*;
use crate::*;

/// Replicas of two versions: how many, and how many of them are ready.
#[derive(Clone, Copy)]
struct Mix {
    desired: u32,
    unavailable: u32,
    old: (u32, u32),
    new: (u32, u32),
}

fn apply(record: &mut ServiceRecord, fact: &ServiceFact) {
    record.apply(fact, ClusterTime(1_000), 20, WallTime(5));
}

fn target(record: &mut ServiceRecord, version: Version, want: u32) {
    let fact = ServiceFact::Targeted {
        service: record.id,
        version,
        want,
        why: TargetReason::Grow,
    };
    apply(record, &fact);
}

/// A service of two versions without surge.
fn record(mix: Mix) -> ServiceRecord {
    let mut spec = spec(mix.desired, 1, mix.unavailable);
    spec.settings.rollout.max_surge = Amount::Count(0);
    let at = (10, ClusterTime(0), WallTime(5));
    let mut record = ServiceRecord::created(ServiceId(3), &spec, at.0, at.1, at.2, "ada");
    target(&mut record, 1, mix.old.0);
    let second = ServiceFact::Versioned {
        service: record.id,
        number: 2,
        queue: "normal".to_owned(),
        template: Box::new(template("v2")),
        origins: Vec::new(),
        reason: VersionReason::Update,
        author: "ada".to_owned(),
        operation: OperationId::default(),
    };
    apply(&mut record, &second);
    target(&mut record, 2, mix.new.0);
    record
}

pub fn jobs(record: &ServiceRecord, version: Version, counts: (u32, u32)) -> Vec<Arc<JobRecord>> {
    let spec = &record.version(version).expect("kept").spec;
    let one = |index: u32| {
        let id = JobId::single(u64::from(version) * 100_000 + u64::from(index));
        let of = ServiceRef {
            service: record.id,
            version,
            index,
        };
        let mut job = JobRecord::submitted(
            id,
            Arc::clone(spec),
            Some(of),
            (11, ClusterTime(1), WallTime(5)),
        );
        let facts = [
            JobFact::Placed {
                job: id,
                run: 1,
                host: format!("h{}", index % 40),
                ports: Vec::new(),
            },
            JobFact::Started {
                job: id,
                run: 1,
                start: 1,
                pid: 7,
                at: WallTime(5),
            },
            JobFact::Ready {
                job: id,
                run: 1,
                start: 1,
            },
        ];
        let ready = if index < counts.1 { 3 } else { 2 };
        for fact in &facts[..ready] {
            job.apply(fact, ClusterTime(2), 12);
        }
        Arc::new(job)
    };
    (0..counts.0).map(one).collect()
}

pub fn decide_on(record: &ServiceRecord, jobs: &[Arc<JobRecord>]) -> Vec<Change> {
    decide_where(record, jobs, &|_| Some(HostLife::Up))
}

fn decide_where(
    record: &ServiceRecord,
    jobs: &[Arc<JobRecord>],
    life: &dyn Fn(&str) -> Option<HostLife>,
) -> Vec<Change> {
    let situation = Situation {
        service: record,
        replicas: jobs.into(),
        life,
        draining: &|_| None,
        now: ClusterTime(1_500),
        wall: WallTime(5),
    };
    let decision = decide(&situation, Event::Changed).expect("not refused");
    decision.facts().to_vec()
}

/// Old replicas left after the next step.
fn old_after(mix: Mix) -> u32 {
    let record = record(mix);
    let mut all = jobs(&record, 1, mix.old);
    all.extend(jobs(&record, 2, mix.new));
    let gone = decide_on(&record, &all)
        .iter()
        .filter(|change| matches!(change, Change::Job(JobFact::StopRequested { .. })))
        .count();
    mix.old.0 - u32::try_from(gone).expect("small")
}

#[test]
fn v4_old_replicas_shrink() {
    let rows = [
        ("V4.1", 0, (10, 10), (0, 0), 9),
        ("V4.2", 2, (10, 10), (0, 0), 8),
        ("V4.3", 2, (10, 8), (0, 0), 8),
        ("V4.4", 2, (10, 9), (0, 0), 8),
        ("V4.5", 2, (8, 8), (2, 0), 8),
        ("V4.10", 0, (10, 10), (0, 0), 9),
        ("V4.11", 2, (10, 10), (0, 0), 8),
        ("V4.13", 2, (0, 0), (10, 10), 0),
    ];
    for (id, unavailable, old, new, expected) in rows {
        let mix = Mix {
            desired: 10,
            unavailable,
            old,
            new,
        };
        assert_eq!(old_after(mix), expected, "{id}");
    }
}

#[test]
fn v4_never_ready_old_ones_go_whatever_is_available() {
    // V4.12 and V4.14 remove no ready one; of the others, none was ever ready.
    for (id, ready) in [("V4.12", 8), ("V4.14", 1)] {
        let mix = Mix {
            desired: 10,
            unavailable: 2,
            old: (10, ready),
            new: (0, 0),
        };
        assert_eq!(old_after(mix), ready, "{id}");
    }
}

/// A short outage of something that they depend on takes the readiness of old and new ones away:
/// the old ones that were ready stay, within the budget.
#[test]
fn v4_old_ones_that_were_ready_go_within_the_budget_only() {
    let mix = Mix {
        desired: 10,
        unavailable: 2,
        old: (8, 8),
        new: (2, 2),
    };
    let record = record(mix);
    let mut all = jobs(&record, 1, mix.old);
    all.extend(jobs(&record, 2, mix.new));
    outage(all.iter_mut());
    let stops = decide_on(&record, &all)
        .iter()
        .filter(|change| matches!(change, Change::Job(_)))
        .count();
    assert_eq!(stops, 0, "10 - 0 - 8 - 2 = 0");
}

/// Takes the readiness of jobs away.
fn outage<'a>(jobs: impl Iterator<Item = &'a mut Arc<JobRecord>>) {
    for job in jobs {
        let fact = JobFact::NotReady {
            job: job.id,
            run: 1,
            start: 1,
            text: "status 503".to_owned(),
        };
        Arc::make_mut(job).apply(&fact, ClusterTime(3), 13);
    }
}

/// Numbers of the jobs of a version that are stopped.
fn stopped(changes: &[Change], version: Version) -> Vec<u64> {
    let number = |change: &Change| match change {
        Change::Job(JobFact::StopRequested { job, .. }) => Some(job.number),
        Change::Job(_) | Change::Service(_) => None,
    };
    changes
        .iter()
        .filter_map(number)
        .filter(|number| number / 100_000 == u64::from(version))
        .collect()
}

#[test]
fn v4_old_ones_that_are_not_ready_go_first_and_within_the_limit() {
    // Ready, not ready any more, most unavailable; how many of those that are not ready go.
    let rows = [
        ("V4.6", 8, 2, 1, 1),
        ("V4.7", 8, 2, 3, 2),
        ("V4.8", 8, 2, 0, 0),
        ("V4.9", 10, 0, 3, 0),
    ];
    for (id, ready, bad, unavailable, expected) in rows {
        // Two bounds of 0 would be none: the new version has its one replica more already.
        let surged = u32::from(unavailable == 0);
        let mut record = record(Mix {
            desired: 10,
            unavailable,
            old: (10, 10),
            new: (surged, 0),
        });
        record.settings.rollout.max_surge = Amount::Count(surged);
        let mut all = jobs(&record, 1, (ready + bad, ready + bad));
        outage(all.iter_mut().take(bad as usize));
        all.extend(jobs(&record, 2, (surged, 0)));
        let gone = stopped(&decide_on(&record, &all), 1);
        let bad_gone = gone
            .iter()
            .filter(|number| **number < 100_000 + u64::from(bad));
        assert_eq!(bad_gone.count(), expected, "{id}");
    }
}

/// A rollout of 10 with 2 unavailable and 3 more: 5 new ones do not work, 8 old ones are left, one
/// of them on a host that is silent or lost.
#[test]
fn v4_a_stuck_rollout_that_loses_a_host() {
    let mix = Mix {
        desired: 10,
        unavailable: 2,
        old: (8, 8),
        new: (5, 5),
    };
    // What is made then, and how many of the five and of the eight go, where those five had been
    // ready; where they never were, all five go with anything but the version itself.
    let rows = [
        ("V4.15", None, 0, 0),
        ("V4.16", Some(VersionReason::RollbackOf(1)), 4, 5),
        ("V4.17", Some(VersionReason::Update), 5, 5),
    ];
    for (id, reason, expected, never_ready) in rows {
        for (was_ready, expected) in [(true, expected), (false, never_ready)] {
            let mut record = record(mix);
            record.settings.rollout.max_surge = Amount::Count(3);
            if let Some(reason) = reason {
                let next = ServiceFact::Versioned {
                    service: record.id,
                    number: 3,
                    queue: "normal".to_owned(),
                    template: Box::new(template(if reason.copy_of().is_some() {
                        "v1"
                    } else {
                        "v3"
                    })),
                    origins: Vec::new(),
                    reason,
                    author: "ada".to_owned(),
                    operation: OperationId::default(),
                };
                apply(&mut record, &next);
            }
            let mut all = jobs(&record, 1, mix.old);
            let mut new = jobs(&record, 2, (5, if was_ready { 5 } else { 0 }));
            if was_ready {
                outage(new.iter_mut());
            }
            all.extend(new);
            let told = format!("{id}, were ready: {was_ready}");
            let silent = |host: &str| {
                Some(if host == "h7" {
                    HostLife::Suspect
                } else {
                    HostLife::Up
                })
            };
            let changes = decide_where(&record, &all, &silent);
            assert_eq!(stopped(&changes, 1).len(), 0, "{told}");
            assert_eq!(stopped(&changes, 2).len(), expected, "{told}");
        }
    }
}

/// One decision looks at each replica a bounded number of times: ten times the replicas cost about
/// ten times the work, measured in questions about hosts, which are asked once a host.
#[test]
fn a_decision_of_ten_thousand_replicas_asks_once_a_host() {
    let mix = Mix {
        desired: 10_000,
        unavailable: 100,
        old: (10_000, 10_000),
        new: (0, 0),
    };
    let record = record(mix);
    let all = jobs(&record, 1, mix.old);
    let asked = std::cell::Cell::new(0);
    let life = |_: &str| {
        asked.set(asked.get() + 1);
        Some(HostLife::Up)
    };
    let situation = Situation {
        service: &record,
        replicas: (&all).into(),
        life: &life,
        draining: &|_| None,
        now: ClusterTime(1_500),
        wall: WallTime(5),
    };
    let (mut best, mut facts, rounds) = (std::time::Duration::MAX, 0, 20);
    for _ in 0..rounds {
        let begun = std::time::Instant::now();
        let decision = decide(&situation, Event::Changed).expect("not refused");
        best = best.min(begun.elapsed());
        facts = decision.facts().len();
    }
    println!("a step of 10 000 replicas: {best:?}");
    let mut idle = std::time::Duration::MAX;
    for _ in 0..rounds {
        let begun = std::time::Instant::now();
        let census = crate::rules::Census::take(&record, &situation);
        idle = idle.min(begun.elapsed());
        assert_eq!(census.replicas.len(), 10_000);
    }
    println!("of it, one count: {idle:?}");
    let mut roster = Roster::default();
    for job in &all {
        roster.change(None, Some(job));
    }
    let kept = Situation {
        replicas: (&roster).into(),
        ..situation
    };
    let mut best = std::time::Duration::MAX;
    let begun_asking = asked.get();
    for _ in 0..rounds {
        let begun = std::time::Instant::now();
        let census = crate::rules::Census::take(&record, &kept);
        best = best.min(begun.elapsed());
        assert_eq!(census.replicas.len(), 10_000);
    }
    println!("one count of a roster: {best:?}");
    assert_eq!(asked.get() - begun_asking, rounds * 40);
    asked.set(begun_asking);
    let mut best = std::time::Duration::MAX;
    for _ in 0..rounds {
        let begun = std::time::Instant::now();
        let decision = decide(&kept, Event::Changed).expect("not refused");
        best = best.min(begun.elapsed());
        assert_eq!(decision.facts().len(), facts);
    }
    println!("a step of a roster: {best:?}");
    asked.set(begun_asking);
    assert_eq!(asked.get(), 2 * rounds * 40);
    assert!(facts > 100);
}
