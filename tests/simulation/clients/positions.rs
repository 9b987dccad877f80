//! Linearizable by positions: what is answered names its place in the log, so the order is known, and
//! it has to be one that agrees with what clients saw of time. Quick, and of the whole state.

use std::collections::BTreeMap;

use super::{Answer, Asking, Op, State};

/// States by name, each since a position.
pub type States = BTreeMap<String, Vec<(u64, Option<State>)>>;

/// What a service was at a position.
fn state_at(states: &States, name: &str, lsn: u64) -> Option<State> {
    let states = states.get(name)?;
    let earlier = states.iter().rev().find(|(since, _)| *since <= lsn);
    earlier.and_then(|(_, state)| *state)
}

/// Checks that positions agree with time, and what was read with the positions.
pub fn check(asked: &[Asking], states: &States) -> Result<(), String> {
    // Ends of answers in the order of time: time, position.
    let mut ends: Vec<(u64, u64)> = Vec::new();
    for asking in asked {
        if let Some(answered) = &asking.answered
            && !matches!(asking.op, Op::Stale(_))
            && let Answer::Done { lsn, .. } | Answer::Found { lsn, .. } = answered.answer
        {
            ends.push((answered.at, lsn));
        }
    }
    ends.sort_unstable();
    let mut highest = 0;
    let highest: Vec<(u64, u64)> = ends
        .into_iter()
        .map(|(at, lsn)| {
            highest = highest.max(lsn);
            (at, highest)
        })
        .collect();
    for asking in asked {
        let Some(answered) = &asking.answered else {
            continue;
        };
        let before = highest.partition_point(|(at, _)| *at < asking.begun);
        let known = before.checked_sub(1).map_or(0, |place| highest[place].1);
        match (&answered.answer, &asking.op) {
            (Answer::Done { lsn, .. }, _) if *lsn <= known => {
                return Err(format!(
                    "{asking:?} came before position {known}, which was known when it began"
                ));
            }
            (Answer::Found { lsn, state }, Op::Read(name) | Op::Stale(name)) => {
                let fresh = matches!(asking.op, Op::Read(_));
                if fresh && *lsn < known {
                    return Err(format!("{asking:?} is older than {known}, which was known"));
                }
                let truth = state_at(states, name, *lsn);
                if *state != truth {
                    return Err(format!("{asking:?} is not what was there: {truth:?}"));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Answered;
    use super::*;

    fn asking(op: Op, begun: u64, at: u64, answer: Answer) -> Asking {
        Asking {
            op,
            operation: xce_model::OperationId([0; 16]),
            begun,
            answered: Some(Answered { at, answer }),
        }
    }

    fn read(begun: u64, at: u64, lsn: u64, desired: u32) -> Asking {
        let state = Some(State { id: 1, desired });
        asking(
            Op::Read("k".to_owned()),
            begun,
            at,
            Answer::Found { lsn, state },
        )
    }

    #[test]
    fn a_read_that_goes_back_is_found() {
        let first = Some(State { id: 1, desired: 1 });
        let second = Some(State { id: 1, desired: 2 });
        let states = [("k".to_owned(), vec![(1, first), (5, second)])].into();
        let good = [read(0, 10, 5, 2), read(4, 12, 3, 1)];
        assert_eq!(check(&good, &states), Ok(()));
        let back = [read(0, 10, 5, 2), read(11, 12, 3, 1)];
        assert!(check(&back, &states).is_err(), "after the other had ended");
        let wrong = [read(0, 10, 5, 1)];
        assert!(check(&wrong, &states).is_err(), "not what was there");
    }
}
