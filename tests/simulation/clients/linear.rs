//! Linearizable by search: whether there is any order of what was asked of one service that agrees
//! with time and with every answer. Knows nothing of positions. The search of Wing and Gong, with the
//! states that were seen remembered.

use std::collections::HashSet;

use xce_service::rules::Command;

use super::{Answer, Asking, Op, State};

/// What one request may have done, and must have found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Create { desired: u32, id: u64 },
    Exists,
    Scale(u32),
    Absent,
    Read(Option<State>),
}

#[derive(Debug, Clone, Copy)]
struct Span {
    begun: u64,
    ended: u64,
    effect: Effect,
}

impl Effect {
    /// The state after it, where it is possible in this one.
    fn apply(self, state: Option<State>) -> Option<Option<State>> {
        match (self, state) {
            (Self::Create { desired, id }, None) => Some(Some(State { id, desired })),
            (Self::Exists, Some(_)) | (Self::Absent, None) => Some(state),
            (Self::Scale(desired), Some(state)) => Some(Some(State { desired, ..state })),
            (Self::Read(found), state) if found == state => Some(state),
            (Self::Create { .. }, Some(_))
            | (Self::Exists, None)
            | (Self::Absent, Some(_))
            | (Self::Scale(_), None)
            | (Self::Read(_), _) => None,
        }
    }
}

fn effect(asking: &Asking, name: &str) -> Option<Span> {
    let answered = asking.answered.as_ref()?;
    let effect = match (&asking.op, &answered.answer) {
        (Op::Create(of, desired), Answer::Done { created, .. }) if of == name => Effect::Create {
            desired: *desired,
            id: created.unwrap_or(0),
        },
        (Op::Create(of, _), Answer::Refused(code)) if of == name && code == "name_in_use" => {
            Effect::Exists
        }
        (Op::Change(of, Command::Scale { desired, .. }), Answer::Done { .. }) if of == name => {
            Effect::Scale(*desired)
        }
        (Op::Change(of, Command::Scale { .. }), Answer::Refused(code))
            if of == name && code.contains("not_found") =>
        {
            Effect::Absent
        }
        (Op::Read(of), Answer::Found { state, .. }) if of == name => Effect::Read(*state),
        _ => return None,
    };
    Some(Span {
        begun: asking.begun,
        ended: answered.at,
        effect,
    })
}

/// Checks everything that was asked of one service.
pub fn check(asked: &[Asking], name: &str) -> Result<(), String> {
    let mut spans: Vec<Span> = asked.iter().filter_map(|one| effect(one, name)).collect();
    spans.sort_by_key(|span| (span.begun, span.ended));
    // What ended before anything else of the rest began stands alone: each such stretch is searched
    // from every state that the one before may have left.
    let mut states: HashSet<Option<State>> = HashSet::from([None]);
    let mut from = 0;
    while from < spans.len() {
        let mut end = spans[from].ended;
        let mut to = from + 1;
        while to < spans.len() && spans[to].begun <= end {
            end = end.max(spans[to].ended);
            to += 1;
        }
        let after = search(&spans[from..to], &states);
        if after.is_empty() {
            return Err(format!(
                "no order explains what was asked of {name}: from {states:?}, {:#?}",
                &spans[from..to]
            ));
        }
        (states, from) = (after, to);
    }
    Ok(())
}

/// The states in which a stretch can end.
fn search(spans: &[Span], from: &HashSet<Option<State>>) -> HashSet<Option<State>> {
    let mut seen: HashSet<(Vec<bool>, Option<State>)> = HashSet::new();
    let mut ends = HashSet::new();
    let mut open: Vec<(Vec<bool>, Option<State>)> = from
        .iter()
        .map(|state| (vec![false; spans.len()], *state))
        .collect();
    while let Some((done, state)) = open.pop() {
        if !seen.insert((done.clone(), state)) {
            continue;
        }
        let rest = || (0..spans.len()).filter(|place| !done[*place]);
        let Some(first_end) = rest().map(|place| spans[place].ended).min() else {
            ends.insert(state);
            continue;
        };
        for place in rest().filter(|place| spans[*place].begun <= first_end) {
            if let Some(state) = spans[place].effect.apply(state) {
                let mut done = done.clone();
                done[place] = true;
                open.push((done, state));
            }
        }
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::super::Answered;
    use super::*;

    fn asking(op: Op, times: (u64, u64), answer: Answer) -> Asking {
        Asking {
            op,
            operation: xce_model::OperationId([0; 16]),
            begun: times.0,
            answered: Some(Answered {
                at: times.1,
                answer,
            }),
        }
    }

    fn create(times: (u64, u64)) -> Asking {
        let answer = Answer::Done {
            lsn: 1,
            created: Some(1),
        };
        asking(Op::Create("k".to_owned(), 1), times, answer)
    }

    fn scale(desired: u32, times: (u64, u64)) -> Asking {
        let command = Command::Scale {
            desired,
            remove: Vec::new(),
        };
        let answer = Answer::Done {
            lsn: 1,
            created: None,
        };
        asking(Op::Change("k".to_owned(), command), times, answer)
    }

    fn read(desired: u32, times: (u64, u64)) -> Asking {
        let state = Some(State { id: 1, desired });
        asking(
            Op::Read("k".to_owned()),
            times,
            Answer::Found { lsn: 1, state },
        )
    }

    #[test]
    fn an_order_is_found_where_there_is_one() {
        let good = [
            create((0, 5)),
            scale(2, (10, 30)),
            read(1, (11, 20)),
            read(2, (12, 40)),
            read(2, (41, 42)),
        ];
        assert_eq!(check(&good, "k"), Ok(()));
    }

    #[test]
    fn a_stale_read_and_a_lost_write_are_found() {
        let stale = [create((0, 5)), scale(2, (10, 20)), read(1, (21, 22))];
        assert!(check(&stale, "k").is_err());
        let twice = [create((0, 5)), create((6, 8))];
        assert!(check(&twice, "k").is_err());
        // Two readers that see two writes in different orders.
        let crossed = [
            create((0, 1)),
            scale(2, (10, 50)),
            scale(3, (10, 50)),
            read(2, (11, 12)),
            read(3, (13, 14)),
            read(2, (15, 16)),
        ];
        assert!(check(&crossed, "k").is_err());
    }
}
