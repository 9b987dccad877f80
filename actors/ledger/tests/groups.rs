use xce_host::HostFact;
use xce_model::{ClusterTime, Incarnation, JobId, JobState, ServiceId, SessionId};
use xce_replica::JobFact;
use xce_service::ServiceFact;

use super::builders::*;
use crate::{Created, Fact, Key, Outcome, Precondition, SessionFact, SessionKind};

fn refusal(bench: &mut Bench, precondition: Precondition) -> Option<&'static str> {
    let group = bench.group().given(precondition).with(submitted(job("x")));
    let before = bench.view().clone();
    match bench.commit(group) {
        Outcome::Refused(unmet) => {
            assert!(!unmet.text.is_empty());
            let mut expected = before;
            expected.lsn = bench.lsn;
            expected.term = 1;
            assert_eq!(*bench.view(), expected, "a refused group changes nothing");
            Some(unmet.code)
        }
        Outcome::Applied(_) => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn preconditions_are_checked_in_log_order() {
    let mut bench = Bench::new();
    let waiting = bench.submit(job("a"));
    let job_lsn = bench.lsn;
    let service = bench.service("web", 1);
    let service_lsn = bench.lsn;
    let cases = [
        (
            Precondition::JobUnchanged {
                job: waiting,
                lsn: job_lsn,
            },
            None,
        ),
        (
            Precondition::JobUnchanged {
                job: waiting,
                lsn: 1,
            },
            Some("changed"),
        ),
        (
            Precondition::JobUnchanged {
                job: JobId::single(99),
                lsn: 1,
            },
            Some("gone"),
        ),
        (
            Precondition::ServiceUnchanged {
                service,
                lsn: service_lsn,
            },
            None,
        ),
        (
            Precondition::ServiceUnchanged { service, lsn: 0 },
            Some("changed"),
        ),
        (
            Precondition::ServiceUnchanged {
                service: ServiceId(9),
                lsn: 0,
            },
            Some("gone"),
        ),
    ];
    for (precondition, expected) in cases {
        assert_eq!(
            refusal(&mut bench, precondition.clone()),
            expected,
            "{precondition:?}"
        );
    }
}

#[test]
fn hosts_are_compared_in_log_order() {
    let mut bench = Bench::new();
    bench.host("w1", 2);
    let host_lsn = bench.lsn;
    let cases = [
        (
            Precondition::HostUnchanged {
                host: "w1".into(),
                lsn: host_lsn,
            },
            None,
        ),
        (
            Precondition::HostUnchanged {
                host: "w1".into(),
                lsn: 0,
            },
            Some("changed"),
        ),
        (
            Precondition::HostUnchanged {
                host: "w9".into(),
                lsn: 0,
            },
            None,
        ),
        (
            Precondition::HostUnchanged {
                host: "w9".into(),
                lsn: 5,
            },
            Some("gone"),
        ),
    ];
    for (precondition, expected) in cases {
        assert_eq!(
            refusal(&mut bench, precondition.clone()),
            expected,
            "{precondition:?}"
        );
    }
}

#[test]
fn names_room_and_sessions_are_checked_in_log_order() {
    let mut bench = Bench::new();
    bench.service("web", 1);
    let cases = [
        (
            Precondition::NameFree {
                project: "default".into(),
                name: "web".into(),
            },
            Some("name_in_use"),
        ),
        (
            Precondition::NameFree {
                project: "other".into(),
                name: "web".into(),
            },
            None,
        ),
        (Precondition::Room { jobs: 999_000 }, None),
        (
            Precondition::Room { jobs: 1_000_000 },
            Some("too_many_jobs"),
        ),
        (
            Precondition::SessionEpoch {
                session: SessionId(1),
                epoch: 1,
            },
            Some("session_ended"),
        ),
    ];
    for (precondition, expected) in cases {
        assert_eq!(
            refusal(&mut bench, precondition.clone()),
            expected,
            "{precondition:?}"
        );
    }
}

#[test]
fn placements_fit_or_are_refused() {
    let mut bench = Bench::new();
    bench.host("w1", 2);
    bench.host("w2", 1);
    let ids: Vec<JobId> = (0..4).map(|_| bench.submit(job("a"))).collect();
    let fits = |job: JobId, run, host: &str, ports: &[u16]| Precondition::Fits {
        job,
        run,
        host: host.into(),
        ports: ports.to_vec(),
    };
    bench.apply([placed(ids[0], 1, "w1", &[8080])]);
    bench.apply([Fact::Host(HostFact::Closed {
        host: "w2".into(),
        reason: "disk".into(),
        by: "ann".into(),
    })]);
    let cases = [
        (fits(ids[1], 1, "w1", &[]), None),
        (fits(ids[1], 2, "w1", &[]), Some("not_pending")),
        (fits(ids[0], 2, "w1", &[]), Some("not_pending")),
        (fits(JobId::single(77), 1, "w1", &[]), Some("gone")),
        (fits(ids[1], 1, "w1", &[8080]), Some("port_in_use")),
        (fits(ids[1], 1, "w1", &[8081, 8081]), Some("port_in_use")),
        (fits(ids[1], 1, "w2", &[]), Some("host_closed")),
        (fits(ids[1], 1, "w9", &[]), Some("no_such_host")),
    ];
    for (precondition, expected) in cases {
        assert_eq!(
            refusal(&mut bench, precondition.clone()),
            expected,
            "{precondition:?}"
        );
    }
    // Two that fit alone and not together.
    let group = bench
        .group()
        .given(fits(ids[1], 1, "w1", &[]))
        .given(fits(ids[2], 1, "w1", &[]));
    assert!(matches!(bench.commit(group), Outcome::Refused(unmet) if unmet.code == "no_room"));
    // The same one twice.
    bench.apply([joined("w3", 9, 1)]);
    let group = bench
        .group()
        .given(fits(ids[1], 1, "w3", &[]))
        .given(fits(ids[1], 1, "w3", &[]));
    assert!(matches!(bench.commit(group), Outcome::Refused(unmet) if unmet.code == "not_pending"));
}

#[test]
fn strict_spread_holds_in_log_order() {
    let mut bench = Bench::new();
    bench.host("w1", 8);
    let mut spec = service_spec("web", 2);
    spec.settings.spread.max_per_host = Some(1);
    bench.apply([Fact::Service(ServiceFact::Created {
        spec: Box::new(spec),
        author: "ann".into(),
        operation: Default::default(),
    })]);
    let answer = bench.apply([replicas(ServiceId(1), 1, &[0, 1])]);
    assert_eq!(answer.created, [Created::Replicas { first: 1, count: 2 }]);
    let fits = |number| Precondition::Fits {
        job: JobId::single(number),
        run: 1,
        host: "w1".into(),
        ports: vec![],
    };
    bench.place(JobId::single(1), 1, "w1");
    assert_eq!(refusal(&mut bench, fits(2)), Some("spread"));
}

#[test]
fn facts_of_runs_that_are_not_current_change_nothing() {
    let mut bench = Bench::new();
    bench.host("w1", 2);
    let id = bench.submit(job("a"));
    bench.place(id, 1, "w1");
    bench.apply([started(id, 1, 1)]);
    let record = bench.view().job(id).unwrap().clone();
    let stale = [
        started(id, 2, 1),
        started(id, 1, 1),
        ended(id, 2, 0),
        ended(id, 0, 0),
        placed(id, 1, "w1", &[]),
        placed(id, 2, "w1", &[]),
        cleaned_up(id),
        held(id),
        released(id),
        ended(JobId::single(99), 1, 0),
        ended(JobId::element(1, 0), 1, 0),
        Fact::Host(HostFact::Suspected { host: "w9".into() }),
        Fact::Host(HostFact::Removed { host: "w1".into() }),
        Fact::Service(ServiceFact::Deleted {
            service: ServiceId(4),
        }),
        replicas(ServiceId(4), 1, &[0]),
    ];
    let count = stale.len() as u64;
    bench.apply(stale);
    assert_eq!(bench.view().ignored(), count);
    assert_eq!(*bench.view().job(id).unwrap(), record);
    bench.apply([ended(id, 1, 0)]);
    assert_eq!(bench.view().job(id).unwrap().state, JobState::Done);
    assert!(bench.view().usage("w1").is_none());
}

#[test]
fn services_own_replicas_and_leave_last() {
    let mut bench = Bench::new();
    bench.host("w1", 8);
    let service = bench.service("web", 3);
    // An index that is live is not given twice.
    bench.apply([replicas(service, 1, &[0, 1, 2])]);
    let answer = bench.apply([replicas(service, 1, &[1, 2, 3])]);
    assert_eq!(answer.created, [Created::Replicas { first: 4, count: 1 }]);
    let second = bench.apply([created("web", 1)]);
    assert!(second.created.is_empty(), "the name is in use");
    bench.apply([Fact::Service(ServiceFact::Deleted { service })]);
    assert!(
        bench.view().service(service).is_some(),
        "it still has replicas"
    );
    bench.apply((1..=4).map(|number| ended(JobId::single(number), 0, 0)));
    bench.apply([Fact::Service(ServiceFact::Deleted { service })]);
    assert!(bench.view().service(service).is_none());
    assert_eq!(bench.view().replicas(service).unwrap().ended().count(), 4);
    bench.apply((1..=4).map(|number| cleaned_up(JobId::single(number))));
    assert!(bench.view().replicas(service).is_none());
    assert_eq!(bench.service("web", 1), ServiceId(2));
}

#[test]
fn marks_rise_and_are_no_change_of_the_host() {
    let mut bench = Bench::new();
    bench.host("w1", 2);
    let since = bench.lsn;
    let mark = |epoch, sequence| {
        Fact::Host(HostFact::Marked {
            host: "w1".into(),
            epoch,
            sequence,
        })
    };
    bench.apply([mark(1, 5)]);
    bench.apply([mark(1, 4), mark(0, 9)]);
    let host = bench.view().host("w1").unwrap();
    assert_eq!((host.epoch, host.sequence), (1, 5));
    assert!(
        bench
            .view()
            .changes()
            .hosts
            .since(since)
            .unwrap()
            .changed
            .is_empty()
    );
    let at = |incarnation: u8, sequence| Precondition::HostMark {
        host: "w1".into(),
        incarnation: Incarnation([incarnation; 16]),
        epoch: 1,
        sequence,
    };
    assert_eq!(refusal(&mut bench, at(1, 5)), None);
    assert_eq!(refusal(&mut bench, at(1, 4)), Some("mark_moved"));
    assert_eq!(refusal(&mut bench, at(2, 5)), Some("mark_moved"));
    // A new incarnation begins a new spool.
    bench.apply([joined("w1", 2, 2)]);
    assert_eq!(bench.view().host("w1").unwrap().sequence, 0);
}

#[test]
fn sessions_are_opened_resumed_and_ended() {
    let mut bench = Bench::new();
    let opened = Fact::Session(SessionFact::Opened {
        principal: "worker:w1".into(),
        kind: SessionKind::Worker,
        incarnation: Incarnation([7; 16]),
        fingerprint: [9; 16],
    });
    let answer = bench.apply([opened.clone()]);
    let session = SessionId(1);
    assert_eq!(answer.created, [Created::Session(session)]);
    let epoch = |epoch| Precondition::SessionEpoch { session, epoch };
    assert_eq!(refusal(&mut bench, epoch(1)), None);
    bench.now = 9;
    bench.apply([Fact::Session(SessionFact::Resumed { session, epoch: 2 })]);
    assert_eq!(refusal(&mut bench, epoch(1)), Some("session_fenced"));
    bench.apply([Fact::Session(SessionFact::Resumed { session, epoch: 2 })]);
    assert_eq!(
        (
            bench.view().session(session).unwrap().seen,
            bench.view().ignored()
        ),
        (ClusterTime(9), 1)
    );
    // A newer one of the same principal fences it.
    bench.apply([opened]);
    assert_eq!(refusal(&mut bench, epoch(2)), Some("session_ended"));
    let session = SessionId(2);
    assert_eq!(bench.view().sessions().len(), 1);
    bench.apply([Fact::Session(SessionFact::Ended { session })]);
    assert!(bench.view().sessions().is_empty());
}

#[test]
fn publication_tells_each_changed_key_once() {
    let mut bench = Bench::new();
    let reader = bench.ledger.reader();
    bench.host("w1", 8);
    let service = bench.service("web", 1);
    bench.apply([replicas(service, 1, &[0])]);
    bench.told.lock().unwrap().clear();
    let id = JobId::single(1);
    bench.apply([placed(id, 1, "w1", &[20_000]), started(id, 1, 1)]);
    let keys = bench.told.lock().unwrap().clone();
    assert_eq!(keys, [Key::Job(id), Key::Service(service)]);
    assert_eq!(reader.lsn(), bench.lsn);
    assert_eq!(*reader.view(), *bench.view());
    assert_eq!(
        reader.look().job(id).unwrap().ports,
        [("p20000".to_owned(), 20_000)]
    );
}

#[test]
fn a_port_is_held_once_whatever_is_committed() {
    let mut bench = Bench::new();
    bench.host("w1", 8);
    let (a, b) = (bench.submit(job("a")), bench.submit(job("b")));
    bench.apply([placed(a, 1, "w1", &[80])]);
    bench.apply([placed(b, 1, "w1", &[80])]);
    assert_eq!(bench.view().job(b).unwrap().state, JobState::Pend);
    bench.apply([Fact::Job(JobFact::StopRequested {
        job: a,
        run: 1,
        cause: xce_model::Cause::TermOwner,
        then: xce_replica::AfterStop::End,
    })]);
    bench.apply([placed(b, 1, "w1", &[80])]);
    assert_eq!(
        bench.view().job(b).unwrap().state,
        JobState::Pend,
        "held until the exit is confirmed"
    );
    bench.apply([ended(a, 1, 143), placed(b, 1, "w1", &[80])]);
    assert_eq!(bench.view().job(b).unwrap().state, JobState::Start);
}
