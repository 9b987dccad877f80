//! Whom failures speak against: tables, and the life of a host that is closed by its own fault.

use xce_model::{ClusterTime, Millis, ServiceId};

use crate::facts::HostFact;
use crate::rules::{
    Failed, Services, TRIAL_AFTER, TRIAL_RUNS, Tried, decide_launch_failed, decide_replica_failed,
    decide_trial, next_trial,
};
use crate::state::{FAILING_MAX, FAILURES_WINDOW, HostLife, HostRecord};
use crate::tests::inventory;

/// Failures in order: host from 1, service, at which second.
type Story = &'static [(usize, u64, u64)];

/// Some hosts that are up.
struct Site(Vec<HostRecord>);

impl Site {
    fn new(hosts: usize) -> Self {
        let host = |number: usize| {
            let mut inventory = inventory(1);
            inventory.name = format!("h{}", number + 1);
            HostRecord::joined(inventory, ClusterTime(0), 1)
        };
        Self((0..hosts).map(host).collect())
    }

    fn fail(&mut self, host: usize, service: u64, at: ClusterTime, placed: Option<ClusterTime>) {
        let failed = Failed {
            service: ServiceId(service),
            placed_at: placed,
            how: "exit code 1",
        };
        let name = |id: ServiceId| format!("s{}", id.0);
        // Those from 90 on were deleted.
        let is_there = |id: ServiceId| id.0 < 90;
        let services = Services {
            name: &name,
            is_there: &is_there,
        };
        let (place, record) = (host - 1, self.0[host - 1].clone());
        let others = self.0.iter().enumerate();
        let others = others
            .filter(|(other, _)| *other != place)
            .map(|(_, other)| other);
        let others: Vec<&HostRecord> = others.collect();
        for fact in decide_replica_failed(&record, &others, services, failed, at) {
            self.0[place].apply(&fact, at, 2);
        }
    }

    fn closed(&self) -> Vec<&str> {
        let closed = self.0.iter().filter(|host| host.closed.is_some());
        closed.map(|host| host.inventory.name.as_str()).collect()
    }

    fn reason(&self, host: usize) -> &str {
        let closed = self.0[host - 1].closed.as_ref();
        closed.map_or("", |closed| closed.reason.as_str())
    }
}

const fn second(seconds: u64) -> ClusterTime {
    ClusterTime(1_000_000 + seconds * 1_000)
}

#[test]
fn several_services_speak_against_a_host_and_one_against_itself() {
    let rows: [(&str, usize, Story, &[&str]); 9] = [
        (
            "one service on one host",
            3,
            &[(1, 1, 0), (1, 1, 1), (1, 1, 2)],
            &[],
        ),
        (
            "one service on every host",
            3,
            &[(1, 1, 0), (2, 1, 1), (3, 1, 2)],
            &[],
        ),
        (
            "two services on one host",
            3,
            &[(1, 1, 0), (1, 2, 1)],
            &["h1"],
        ),
        (
            "of two one fails elsewhere too",
            3,
            &[(2, 1, 0), (1, 1, 1), (1, 2, 2)],
            &[],
        ),
        (
            "both fail elsewhere too",
            3,
            &[(2, 1, 0), (3, 2, 1), (1, 1, 2), (1, 2, 3)],
            &[],
        ),
        (
            "the only host stays open",
            1,
            &[(1, 1, 0), (1, 2, 1), (1, 3, 2)],
            &[],
        ),
        (
            "half of the hosts stay open",
            4,
            &[
                (1, 1, 0),
                (1, 2, 0),
                (2, 3, 0),
                (2, 4, 0),
                (3, 5, 0),
                (3, 6, 0),
            ],
            &["h1", "h2"],
        ),
        ("too long apart", 3, &[(1, 1, 0), (1, 2, 600)], &[]),
        ("within the window", 3, &[(1, 1, 0), (1, 2, 599)], &["h1"]),
    ];
    for (id, hosts, story, expected) in rows {
        let mut site = Site::new(hosts);
        for (host, service, at) in story {
            site.fail(*host, *service, second(*at), None);
        }
        assert_eq!(site.closed(), expected, "{id}");
    }
    let mut site = Site::new(2);
    site.fail(1, 1, second(0), None);
    site.fail(1, 2, second(1), None);
    let expected = "replicas of 2 services (s1, s2) fail on it and on no other host, 2 so far; \
                    the last one: exit code 1";
    assert_eq!(site.reason(1), expected);
}

#[test]
fn a_rate_far_above_the_others_speaks_against_a_host() {
    // Failures on the host of two services which also fail elsewhere, once and as often as said.
    let rows = [
        ("far above", 17, 1, true),
        ("not so far above", 16, 1, false),
        ("too few", 9, 1, false),
        ("as many as elsewhere", 30, 15, false),
    ];
    for (id, here, elsewhere, expected) in rows {
        let mut site = Site::new(2);
        for service in 1..=2 {
            // Here and there in turns, so that neither is blamed for being the only one.
            site.fail(1, service, second(0), None);
            (0..elsewhere).for_each(|_| site.fail(2, service, second(0), None));
        }
        for number in 2..here {
            site.fail(1, 1 + number % 2, second(1), None);
        }
        let closed = site.closed() == ["h1"];
        assert_eq!(closed, expected, "{id}: {}", site.reason(1));
    }
}

#[test]
fn a_host_that_is_blamed_is_tried_and_opened() {
    let mut site = Site::new(3);
    site.fail(1, 1, second(0), None);
    site.fail(1, 2, second(0), None);
    let due = second(0).after(TRIAL_AFTER);
    let host = &site.0[0];
    assert!(!host.takes_jobs() && !host.takes_trial(ClusterTime(due.0 - 1)));
    assert!(host.takes_trial(due));
    assert_eq!(next_trial(site.0.iter(), second(0)), Some(due));
    assert_eq!(next_trial(site.0.iter(), due), None);
    // What was there before does not count.
    site.fail(1, 1, second(70), Some(second(0)));
    assert_eq!(site.0[0].trial.map(|trial| trial.step), Some(1));
    // The one that tries it fails: the next try comes later.
    site.fail(1, 1, second(80), Some(second(60)));
    let trial = site.0[0].trial.expect("still closed");
    assert_eq!((trial.step, trial.not_before), (2, second(80 + 120)));
    assert!(
        site.reason(1)
            .contains("the job that tried it failed: exit code 1")
    );
    // One of a service that fails elsewhere as well says nothing about this host.
    site.fail(2, 9, second(190), None);
    site.fail(1, 9, second(210), Some(second(205)));
    assert_eq!(site.0[0].trial.map(|trial| trial.step), Some(2));
    let tried = |placed: u64, running: u64, well| Tried {
        placed_at: Some(second(placed)),
        running_since: Some(second(running)),
        well,
    };
    let end = 211 + TRIAL_RUNS.0 / 1_000;
    let rows = [
        (
            "placed before it was to be tried",
            tried(199, 211, true),
            end,
            false,
        ),
        ("not long enough", tried(210, 211, true), end - 1, false),
        ("not well", tried(210, 211, false), end, false),
        ("well", tried(210, 211, true), end, true),
    ];
    for (id, job, now, opens) in rows {
        let fact = decide_trial(&site.0[0], [job].into_iter(), second(now));
        assert_eq!(fact.is_some(), opens, "{id}");
        if let Some(fact) = fact {
            site.0[0].apply(&fact, second(now), 3);
        }
    }
    let host = &site.0[0];
    assert!(host.takes_jobs() && host.trial.is_none() && host.failing.is_empty());
}

#[test]
fn tries_come_later_and_later_up_to_half_an_hour() {
    let mut site = Site::new(3);
    site.fail(1, 1, second(0), None);
    site.fail(1, 2, second(0), None);
    for wait in [120, 240, 480, 960, 1_920, 1_920] {
        let due = site.0[0].trial.expect("closed").not_before;
        site.fail(1, 1, due, Some(due));
        let next = site.0[0].trial.expect("closed").not_before;
        assert_eq!(next.since(due), Millis::seconds(wait));
    }
}

#[test]
fn an_operator_has_the_last_word() {
    let mut site = Site::new(3);
    let by = || "ann".to_owned();
    site.fail(1, 1, second(0), None);
    site.fail(1, 2, second(0), None);
    let host = || "h1".to_owned();
    let closed = HostFact::Closed {
        host: host(),
        reason: "repair".into(),
        by: by(),
    };
    site.0[0].apply(&closed, second(1), 3);
    assert!(!site.0[0].takes_trial(second(9_999)), "closed by a person");
    site.0[0].apply(
        &HostFact::Opened {
            host: host(),
            by: by(),
        },
        second(2),
        4,
    );
    assert!(site.0[0].takes_jobs() && site.0[0].failing.is_empty());
}

#[test]
fn launch_failures_close_a_host_until_it_is_tried() {
    let mut site = Site::new(1);
    for _ in 0..3 {
        let host = site.0[0].clone();
        for fact in decide_launch_failed(&host, None, "no cgroup", second(0)) {
            site.0[0].apply(&fact, second(0), 2);
        }
    }
    let host = site.0[0].clone();
    assert_eq!(host.trial.map(|trial| trial.step), Some(1));
    let placed = Some(second(60));
    for fact in decide_launch_failed(&host, placed, "no cgroup", second(61)) {
        site.0[0].apply(&fact, second(61), 3);
    }
    assert_eq!(site.0[0].trial.map(|trial| trial.step), Some(2));
    assert!(site.reason(1).contains("no cgroup"));
    let mut lost = site.0[0].clone();
    lost.life = HostLife::Lost;
    assert!(!lost.takes_trial(second(9_999)));
}

#[test]
fn what_a_host_remembers_of_failures_is_bounded() {
    let mut site = Site::new(1);
    for service in 0..200 {
        site.fail(1, service, second(service), None);
    }
    assert_eq!(site.0[0].failing.len(), FAILING_MAX);
    site.fail(1, 7, second(200).after(FAILURES_WINDOW), None);
    assert_eq!(site.0[0].failing.len(), 1);
}

#[test]
fn services_that_were_deleted_prove_nothing() {
    let mut site = Site::new(2);
    for service in [90, 91, 92] {
        for at in 0..6 {
            site.fail(1, service, second(at), None);
        }
    }
    assert!(site.closed().is_empty(), "{}", site.reason(1));
    site.fail(1, 1, second(7), None);
    assert!(site.closed().is_empty(), "{}", site.reason(1));
    site.fail(1, 2, second(8), None);
    assert_eq!(site.closed(), ["h1"]);
}
