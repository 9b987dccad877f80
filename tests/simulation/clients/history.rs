//! What was asked and answered, and what must be true of it in the end.

use xce_ledger::{Group, Outcome};
use xce_model::OperationId;

use super::{Answer, Op};
use crate::world::World;

/// What a service is to a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct State {
    pub id: u64,
    pub desired: u32,
}

/// Something that was asked.
#[derive(Debug, Clone)]
pub struct Asking {
    pub op: Op,
    pub operation: OperationId,
    pub begun: u64,
    pub answered: Option<Answered>,
}

#[derive(Debug, Clone)]
pub struct Answered {
    pub at: u64,
    pub answer: Answer,
}

impl World {
    /// Notes what the observer sees of a group that is committed.
    pub fn note_committed(&mut self, lsn: u64, group: &Group, outcome: &Outcome) {
        if let (Some(operation), Outcome::Applied(_)) = (group.operation, outcome) {
            self.clients.carried_out.insert(operation.id, lsn);
        }
    }

    /// Notes what services are at a position.
    pub fn note_state(&mut self, lsn: u64) {
        let view = self.view();
        for (name, states) in &mut self.clients.states {
            let state = view.service_named("default", name).map(|service| State {
                id: service.id.0,
                desired: service.desired,
            });
            if states.last().is_none_or(|(_, last)| *last != state) {
                states.push((lsn, state));
            }
        }
    }

    /// Everything that clients were told is true, and in an order that they could have seen.
    pub fn check_answers(&mut self) {
        self.see_all();
        self.check_facts();
        if let Err(text) = super::positions::check(&self.clients.asked, &self.clients.states) {
            self.fail(&text);
        }
        let names: Vec<String> = self.clients.states.keys().cloned().collect();
        for name in names {
            if let Err(text) = super::linear::check(&self.clients.asked, &name) {
                self.fail(&text);
            }
        }
    }

    /// What was acknowledged is there, once, where it was said to be.
    fn check_facts(&self) {
        for asking in &self.clients.asked {
            let carried_out = self.clients.carried_out.get(&asking.operation);
            match asking.answered.as_ref().map(|answered| &answered.answer) {
                Some(Answer::Done { lsn, .. }) if carried_out != Some(lsn) => {
                    self.fail(&format!(
                        "{asking:?} was acknowledged and carried out at {carried_out:?}"
                    ));
                }
                // Of an operation that is too old nobody can say whether it was carried out.
                Some(Answer::Refused(code))
                    if carried_out.is_some() && code != "operation_expired" =>
                {
                    self.fail(&format!("{asking:?} was refused and carried out"));
                }
                Some(_) | None => {}
            }
        }
    }
}
