//! Application of one committed group: checks its preconditions, applies its facts, answers.
//!
//! Cannot fail. A fact that does not fit the state, such as the report of a run that is no longer
//! current, changes nothing and is counted; the same on every controller.

mod hosts;
mod jobs;
mod members;
mod policies;
mod services;
mod sessions;

pub(crate) use jobs::pending_element;

use xce_model::{ClusterTime, Lsn, WallTime};
use xce_wal::Position;

use crate::check;
use crate::fact::Fact;
use crate::group::{Answer, Created, Group, Outcome};
use crate::intern::Specs;
use crate::operations::{Known, Remembered};
use crate::view::{Key, View};

/// Where and when a fact applies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At {
    pub lsn: Lsn,
    pub now: ClusterTime,
    pub wall: WallTime,
}

/// One group on its way into the state.
pub(crate) struct Step<'a> {
    pub view: &'a mut View,
    pub at: At,
    pub created: Vec<Created>,
    pub touched: &'a mut Vec<Key>,
    pub specs: &'a mut Specs,
}

/// Whether a fact fitted the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fit {
    Applied,
    Ignored,
}

/// Applies a group to the state; keys of what changed are added to `touched`.
pub(crate) fn apply_group(
    view: &mut View,
    specs: &mut Specs,
    touched: &mut Vec<Key>,
    at: Position,
    group: &Group,
) -> Outcome {
    if let Some(operation) = group.operation {
        match view.operations.known(&group.principal, operation) {
            Known::New => {}
            Known::Answered(answer) => return Outcome::Repeated(answer),
            Known::Expired => return Outcome::Expired,
        }
    }
    if let Err(unmet) = check::all(view, &group.preconditions, group.at) {
        return Outcome::Refused(unmet);
    }
    let now = view.clock.advance(group.at, group.wall);
    view.operations.evict(now);
    let mut step = Step {
        view,
        at: At {
            lsn: at.lsn,
            now,
            wall: group.wall,
        },
        created: Vec::new(),
        touched,
        specs,
    };
    for fact in &group.facts {
        if step.apply(fact) == Fit::Ignored {
            step.view.ignored += 1;
        }
    }
    let answer = Answer {
        lsn: at.lsn,
        created: step.created,
    };
    if let Some(operation) = group.operation {
        let remembered = Remembered {
            place: (at.lsn, at.sub),
            at: now,
            answer: answer.clone(),
        };
        view.operations
            .remember(&group.principal, operation.id, remembered);
    }
    Outcome::Applied(answer)
}

impl Step<'_> {
    fn apply(&mut self, fact: &Fact) -> Fit {
        match fact {
            Fact::Job(fact) => self.apply_job(fact),
            Fact::Host(fact) => self.apply_host(fact),
            Fact::Service(fact) => self.apply_service(fact),
            Fact::Session(fact) => self.apply_session(fact),
            Fact::Policy(fact) => self.apply_policy(fact),
            Fact::Member(fact) => self.apply_member(fact),
            Fact::Clock(fact) => {
                self.view.clock.apply(fact);
                Fit::Applied
            }
        }
    }
}
