//! Sets of endpoints: what makes one into the next gives exactly the next.

use proptest::prelude::*;
use xce_model::JobId;

use crate::view::{
    CHANGE_ROWS_MAX, EndpointSet, EndpointState, EndpointView, EndpointsChange, endpoint_state,
};

fn row(job: u64, name: &str, port: u16, state: EndpointState) -> EndpointView {
    EndpointView {
        name: name.to_owned(),
        address: "10.0.0.1".to_owned(),
        port,
        replica: 0,
        job: JobId::single(job),
        state,
        version: 1,
        host: "h1".to_owned(),
    }
}

fn taken_in(before: Option<&EndpointSet>, changes: Vec<EndpointsChange>) -> EndpointSet {
    let mut set = before.cloned().unwrap_or_default();
    for change in changes {
        set.apply(change);
    }
    set
}

fn any_set() -> impl Strategy<Value = EndpointSet> {
    let state = prop_oneof![Just(EndpointState::Ready), Just(EndpointState::Suspect)];
    let one = (1_u64..6, "[ab]", 1_u16..4, state)
        .prop_map(|(job, name, port, state)| row(job, &name, port, state));
    (1_u64..100, prop::collection::vec(one, 0..8))
        .prop_map(|(generation, rows)| EndpointSet::new(generation, rows))
}

proptest! {
    #[test]
    fn a_change_makes_the_one_set_into_the_other(before in any_set(), after in any_set()) {
        prop_assert_eq!(&taken_in(Some(&before), after.since(Some(&before))), &after);
        prop_assert_eq!(&taken_in(None, after.since(None)), &after);
        prop_assert_eq!(
            &taken_in(Some(&before), after.since(None)),
            &after,
            "a full one says what is gone"
        );
        for job in 1..6 {
            let job = JobId::single(job);
            prop_assert_eq!(after.has(job), after.rows().any(|row| row.job == job));
        }
    }
}

#[test]
fn what_is_large_comes_in_parts() {
    let count = CHANGE_ROWS_MAX as u64 * 2 + 1;
    let rows = (1..=count).map(|job| row(job, "http", 80, EndpointState::Ready));
    let set = EndpointSet::new(7, rows);
    let parts = set.since(None);
    let shape: Vec<(usize, bool, bool)> = parts
        .iter()
        .map(|part| (part.changed.len(), part.full, part.more))
        .collect();
    let most = CHANGE_ROWS_MAX;
    assert_eq!(
        shape,
        [(most, true, true), (most, false, true), (1, false, false)]
    );
    assert_eq!(taken_in(None, parts), set);
    let empty = EndpointSet::new(8, []);
    assert_eq!(taken_in(Some(&set), empty.since(Some(&set))), empty);
}

#[test]
fn only_who_takes_work_on_a_host_that_may_answer_is_in_it() {
    use xce_host::HostLife::{Away, Lost, Suspect, Up};
    let world = super::world::World::complete(&super::world::spec(1, 1, 0));
    let ready = world.job(1).clone();
    let mut unready = ready.clone();
    unready.ready_since = None;
    let table = [
        (&ready, Some(Up), Some(EndpointState::Ready)),
        (&ready, Some(Suspect), Some(EndpointState::Suspect)),
        (&ready, Some(Away), Some(EndpointState::Suspect)),
        (&ready, Some(Lost), None),
        (&ready, None, None),
        (&unready, Some(Up), None),
        (&unready, Some(Suspect), None),
    ];
    for (job, life, expected) in table {
        assert_eq!(endpoint_state(job, life), expected, "{life:?}");
    }
}
