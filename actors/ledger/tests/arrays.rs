use xce_model::{ClusterTime, JobId, JobState, WallTime};
use xce_replica::JobFact;

use super::builders::*;
use crate::{Fact, Outcome, Precondition};

#[test]
fn elements_begin_to_exist_when_placed_and_fold_back_at_clean_up() {
    let mut bench = Bench::new();
    bench.host("w1", 8);
    let id = bench.submit(array(&[(1, 100)], Some(2)));
    assert_eq!(id, JobId::single(1));
    assert_eq!(
        (bench.view().jobs().len(), bench.view().job_count()),
        (0, 100)
    );
    let (one, fifty) = (JobId::element(1, 1), JobId::element(1, 50));
    bench.place(one, 1, "w1");
    bench.place(fifty, 1, "w1");
    let record = bench.view().array(1).unwrap().clone();
    assert_eq!(record.pending.as_slice(), [(2, 49), (51, 100)]);
    assert_eq!((record.counts.placed, record.size()), (2, 100));
    // At the slot limit, and not a second time.
    let fits = |element| Precondition::Fits {
        job: JobId::element(1, element),
        run: 1,
        host: "w1".into(),
        ports: vec![],
    };
    let refused = |outcome| match outcome {
        Outcome::Refused(unmet) => unmet.code,
        other => panic!("{other:?}"),
    };
    let group = bench.group().given(fits(2));
    assert_eq!(refused(bench.commit(group)), "array_slots");
    let group = bench.group().given(fits(50));
    assert_eq!(refused(bench.commit(group)), "not_pending");

    bench.apply([started(one, 1, 1), ended(one, 1, 0), ended(fifty, 1, 3)]);
    let group = bench.group().given(fits(2)).given(fits(3));
    assert!(matches!(bench.commit(group), Outcome::Applied(_)));
    let group = bench.group().given(fits(2)).given(fits(3)).given(fits(4));
    assert_eq!(refused(bench.commit(group)), "array_slots");

    bench.apply([cleaned_up(one), cleaned_up(fifty)]);
    let record = bench.view().array(1).unwrap().clone();
    assert_eq!(
        (record.done.as_slice(), record.exit.as_slice()),
        (&[(1, 1)][..], &[(50, 50)][..])
    );
    assert_eq!(record.folded_state(1), Some(JobState::Done));
    assert_eq!(record.folded_state(50), Some(JobState::Exit));
    assert_eq!(record.folded_state(2), Some(JobState::Pend));
    assert_eq!(record.folded_state(101), None);
    assert!(bench.view().jobs().is_empty());
}

#[test]
fn an_array_is_held_released_and_cancelled_as_a_whole() {
    let mut bench = Bench::new();
    bench.host("w1", 8);
    let whole = bench.submit(array(&[(0, 9)], None));
    let element = |element| JobId::element(whole.number, element);
    bench.apply([held(whole)]);
    assert!(bench.view().pending().is_empty());
    // One element of a held array is released alone, and placed.
    bench.apply([released(element(3))]);
    assert_eq!(bench.view().job(element(3)).unwrap().state, JobState::Pend);
    bench.place(element(3), 1, "w1");
    // A held one is not placed.
    let before = bench.view().ignored();
    bench.place(element(4), 1, "w1");
    assert_eq!(bench.view().ignored(), before + 1);
    bench.apply([released(whole)]);
    assert_eq!(bench.view().pending()["normal"].len(), 1);

    bench.now = 70;
    bench.apply([ended(whole, 0, 1)]);
    let record = bench.view().array(whole.number).unwrap().clone();
    assert_eq!((record.cancelled.count(), record.ended_at), (9, None));
    bench.apply([started(element(3), 1, 1), ended(element(3), 1, 0)]);
    // The array itself is cleaned up last.
    bench.apply([cleaned_up(whole)]);
    assert!(bench.view().array(whole.number).is_some());
    bench.apply([cleaned_up(element(3))]);
    assert_eq!(
        bench
            .view()
            .ended_until(ClusterTime(70))
            .collect::<Vec<_>>(),
        [whole]
    );
    bench.apply([cleaned_up(whole)]);
    assert!(bench.view().array(whole.number).is_none());
    assert_eq!(bench.view().job_count(), 0);
}

#[test]
fn a_requeued_element_waits_with_its_own_record_and_keeps_its_place() {
    let mut bench = Bench::new();
    bench.host("w1", 8);
    let whole = bench.submit(array(&[(0, 2)], None));
    let later = bench.submit(job("later"));
    let element = JobId::element(whole.number, 0);
    bench.place(element, 1, "w1");
    bench.apply([Fact::Job(JobFact::Requeued {
        job: element,
        run: 1,
        exit: exit(1),
        not_before: ClusterTime(9),
        avoid: None,
        held: false,
        at: WallTime(7),
    })]);
    let waiting: Vec<JobId> = bench.view().pending()["normal"].iter().copied().collect();
    assert_eq!(waiting, [element, whole, later]);
    assert_eq!(bench.view().delays().len(), 1);
    bench.place(element, 2, "w1");
    assert_eq!(bench.view().job(element).unwrap().run, 2);
    assert!(bench.view().delays().is_empty());
}

#[test]
fn arrays_that_make_no_sense_are_ignored() {
    let mut bench = Bench::new();
    let bad: [&[(u32, u32)]; 6] = [
        &[],
        &[(5, 4)],
        &[(0, u32::MAX)],
        &[(u32::MAX, u32::MAX)],
        &[(0, 100_000)],
        &[(0, 1), (1, 2)],
    ];
    for ranges in bad {
        let answer = bench.apply([submitted(array(ranges, None))]);
        assert!(answer.created.is_empty(), "{ranges:?}");
    }
    assert_eq!(bench.view().ignored(), bad.len() as u64);
    let touching = bench.submit(array(&[(5, 6), (1, 2), (3, 4)], None));
    let record = bench.view().array(touching.number).unwrap();
    assert_eq!(record.pending.as_slice(), [(1, 6)]);
}

#[test]
fn absurd_requests_are_counted_without_harm() {
    let mut bench = Bench::new();
    bench.host("w1", 1);
    let mut spec = job("huge");
    spec.template.resources.memory = xce_model::Bytes(u64::MAX);
    let (one, two) = (bench.submit(spec.clone()), bench.submit(spec));
    bench.place(one, 1, "w1");
    let group = bench.group().given(Precondition::Fits {
        job: two,
        run: 1,
        host: "w1".into(),
        ports: vec![],
    });
    assert!(matches!(bench.commit(group), Outcome::Refused(unmet) if unmet.code == "no_room"));
    bench.place(two, 1, "w1");
    bench.apply([ended(one, 1, 0), ended(two, 1, 0)]);
    assert!(bench.view().usage("w1").is_none());
}
