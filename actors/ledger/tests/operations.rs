use xce_model::OperationId;

use super::builders::*;
use crate::{Created, OPERATION_AGE_MAX, OPERATIONS_MAX, Operation, Outcome};

fn operation(number: u64, made_at: u64) -> Option<Operation> {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&number.to_be_bytes());
    Some(Operation {
        id: OperationId(id),
        made_at,
    })
}

#[test]
fn a_repeat_gets_the_first_answer_and_changes_nothing() {
    let mut bench = Bench::new();
    let group = bench
        .group()
        .with(submitted(job("a")))
        .on_behalf("ann", operation(1, 0));
    let Outcome::Applied(first) = bench.commit(group.clone()) else {
        panic!("not applied");
    };
    assert!(matches!(first.created[..], [Created::Job(_)]));
    let before = bench.view().clone();
    assert_eq!(
        bench.commit(group.clone()),
        Outcome::Repeated(first.clone())
    );
    assert_eq!(bench.view().jobs(), before.jobs());
    assert_eq!(
        bench.view().answer("ann", operation(1, 0).unwrap().id),
        Some(first)
    );
    // The same name of another principal is another operation.
    let other = group.on_behalf("bob", operation(1, 0));
    assert!(matches!(bench.commit(other), Outcome::Applied(_)));
    assert_eq!(bench.view().jobs().len(), 2);
}

#[test]
fn a_refused_group_is_not_remembered() {
    let mut bench = Bench::new();
    let refused = bench
        .group()
        .given(crate::Precondition::Room { jobs: u64::MAX })
        .with(submitted(job("a")))
        .on_behalf("ann", operation(1, 0));
    assert!(
        matches!(bench.commit(refused), Outcome::Refused(unmet) if unmet.code == "too_many_jobs")
    );
    let again = bench
        .group()
        .with(submitted(job("a")))
        .on_behalf("ann", operation(1, 0));
    assert!(matches!(bench.commit(again), Outcome::Applied(_)));
}

#[test]
fn what_is_older_than_remembered_is_expired_never_executed() {
    let mut bench = Bench::new();
    let group = bench
        .group()
        .with(submitted(job("a")))
        .on_behalf("ann", operation(1, 0));
    bench.commit(group.clone());
    bench.now += OPERATION_AGE_MAX.0;
    let fresh = bench
        .group()
        .with(submitted(job("b")))
        .on_behalf("ann", operation(2, bench.lsn));
    assert!(matches!(bench.commit(fresh), Outcome::Applied(_)));
    assert_eq!(bench.commit(group), Outcome::Expired);
    // One that was made since is new, and so is one made exactly where the last forgotten one was
    // carried out.
    let exact = bench
        .group()
        .with(submitted(job("c")))
        .on_behalf("ann", operation(3, 3));
    assert!(matches!(bench.commit(exact), Outcome::Applied(_)));
    assert_eq!(bench.view().operation_count(), 2);
}

#[test]
fn one_principal_fills_only_its_own_memory() {
    let mut bench = Bench::new();
    let bobs = bench.group().on_behalf("bob", operation(1, 0));
    assert!(matches!(bench.commit(bobs.clone()), Outcome::Applied(_)));
    for number in 0..=OPERATIONS_MAX as u64 {
        // Without the audit of every step, which is long here.
        let group = bench.group().on_behalf("ann", operation(number, bench.lsn));
        bench.lsn += 1;
        let at = xce_wal::Position {
            term: 1,
            lsn: bench.lsn,
            sub: 0,
        };
        assert!(matches!(
            bench.ledger.commit(at, &group),
            Outcome::Applied(_)
        ));
    }
    assert_eq!(bench.view().operation_count(), OPERATIONS_MAX + 1);
    let first = bench.group().on_behalf("ann", operation(0, 0));
    assert_eq!(bench.commit(first), Outcome::Expired);
    assert!(matches!(bench.commit(bobs), Outcome::Repeated(_)));
}
