//! The actor of a service: decides until nothing comes out, and carries out commands.

use std::collections::VecDeque;

use xce_ledger::{Operation, Outcome};
use xce_model::{OperationId, Refusal, RefusalKind, ServiceId};
use xce_service::rules::{Author, Command, Event};

use super::{ActorKey, Life};
use crate::deciding::{self, Step};
use crate::world::World;

/// Most decisions in a row. Source: as in the shell.
const STEPS_MAX: u32 = 64;
/// How often a command is decided again. Source: as in the shell.
const DECISIONS_MAX: u32 = 16;

/// Pause before what could not be written is decided again. Source: as in the shell.
const UNWRITTEN_MS: u64 = 1_000;

/// A command that was given.
#[derive(Debug, Clone)]
pub struct Asked {
    pub ticket: u64,
    pub command: Command,
    pub operation: Operation,
}

#[derive(Debug, Default)]
enum Doing {
    #[default]
    Nothing,
    Settling(u32),
    /// With the answer for when it is committed.
    Commanding(Box<Asked>, u32, String),
}

#[derive(Debug, Default)]
pub struct ServiceActor {
    pub life: Life,
    pub told: bool,
    pub asked: VecDeque<Asked>,
    doing: Doing,
}

impl ServiceActor {
    pub fn new(life: Life) -> Self {
        Self {
            life,
            ..Self::default()
        }
    }

    /// What dies with it: the commands whose outcome nobody knows.
    pub fn forget(&mut self) -> Vec<Asked> {
        self.told = false;
        let mut lost: Vec<Asked> = self.asked.drain(..).collect();
        if let Doing::Commanding(asked, ..) = std::mem::take(&mut self.doing) {
            lost.push(*asked);
        }
        lost
    }

    /// Whether it has nothing to do.
    pub fn is_idle(&self) -> bool {
        self.life.up
            && !self.life.busy
            && !self.told
            && self.asked.is_empty()
            && matches!(self.doing, Doing::Nothing)
    }
}

/// Who gives commands in this world.
pub const USER: &str = "ada";

impl World {
    fn service_actor(&mut self, id: ServiceId) -> Option<&mut ServiceActor> {
        self.controller.services.get_mut(&id)
    }

    /// Goes on with what it does, or takes the next thing from its mailbox.
    pub fn service_acts(&mut self, id: ServiceId) {
        let Some(actor) = self.service_actor(id) else {
            return;
        };
        match std::mem::take(&mut actor.doing) {
            Doing::Settling(steps) => self.settle(id, steps),
            Doing::Commanding(asked, tries, _) => self.carry_out(id, *asked, tries),
            Doing::Nothing => {
                if let Some(asked) = actor.asked.pop_front() {
                    self.carry_out(id, asked, 0);
                } else if std::mem::take(&mut actor.told) {
                    self.settle(id, 0);
                }
            }
        }
    }

    fn settle(&mut self, id: ServiceId, steps: u32) {
        let view = self.view();
        if steps >= STEPS_MAX {
            self.meet("a service that decided many times in a row");
            return self.look(id);
        }
        match deciding::service(&view, id, self.times(), Event::Changed, "changed") {
            // It was deleted meanwhile.
            Err(_) => {}
            Ok(Step::Nothing(wake, _)) => {
                if let Some(at) = wake {
                    let now = self.times().0;
                    assert!(at > now, "a wake lies ahead\n{}", self.told());
                    self.arm_for(&ActorKey::Service(id), Some(at));
                }
                self.wake(&ActorKey::Service(id));
            }
            Ok(Step::Group(group, _)) => {
                self.check_decision(&view, id, &group, false);
                if let Some(actor) = self.service_actor(id) {
                    actor.doing = Doing::Settling(steps + 1);
                }
                self.propose(&ActorKey::Service(id), *group);
            }
        }
    }

    fn carry_out(&mut self, id: ServiceId, asked: Asked, tries: u32) {
        if tries >= DECISIONS_MAX {
            let text = "the service changed too fast";
            let refusal = Refusal::new(RefusalKind::Unavailable, "busy", text);
            self.answer(&asked, Err(refusal));
            return self.settle_next(id);
        }
        let view = self.view();
        if view.answer(USER, asked.operation.id).is_some() {
            self.answer(&asked, Ok("carried out before".to_owned()));
            return self.settle_next(id);
        }
        let author = Author {
            user: USER.to_owned(),
            operation: asked.operation.id,
        };
        let event = Event::Command(Box::new(asked.command.clone()), author);
        let cause = verb(&asked.command);
        match deciding::service(&view, id, self.times(), event, cause) {
            Err(refusal) => {
                self.answer(&asked, Err(refusal));
                self.settle_next(id);
            }
            // It is remembered all the same: its repeat must not have an effect when it is no longer so.
            Ok(Step::Nothing(_, text)) => {
                let group = self.group(cause).on_behalf(USER, Some(asked.operation));
                if let Some(actor) = self.service_actor(id) {
                    actor.doing = Doing::Commanding(Box::new(asked), tries + 1, text);
                }
                self.propose(&ActorKey::Service(id), group);
            }
            Ok(Step::Group(group, answer)) => {
                let group = group.on_behalf(USER, Some(asked.operation));
                self.check_decision(&view, id, &group, true);
                if let Some(actor) = self.service_actor(id) {
                    actor.doing = Doing::Commanding(Box::new(asked), tries + 1, answer);
                }
                self.propose(&ActorKey::Service(id), group);
            }
        }
    }

    fn settle_next(&mut self, id: ServiceId) {
        if let Some(actor) = self.service_actor(id) {
            actor.doing = Doing::Settling(0);
        }
        self.wake(&ActorKey::Service(id));
    }

    pub fn service_committed(&mut self, id: ServiceId, outcome: &Outcome) {
        let Some(actor) = self.service_actor(id) else {
            return;
        };
        let (asked, answer) = match &mut actor.doing {
            Doing::Nothing | Doing::Settling(_) => return,
            Doing::Commanding(asked, _, answer) => ((**asked).clone(), std::mem::take(answer)),
        };
        match outcome {
            Outcome::Applied(_) | Outcome::Repeated(_) => {
                self.answer(&asked, Ok(answer));
                self.settle_next(id);
            }
            // Decided again.
            Outcome::Refused(_) => {}
            Outcome::Expired => {
                let refusal = Refusal::refused("operation_expired", "too old");
                self.answer(&asked, Err(refusal));
                self.settle_next(id);
            }
        }
    }

    /// What it decided was certainly not written: it is looked at once more in a second.
    pub fn service_not_written(&mut self, id: ServiceId, code: &'static str) {
        let again = self.mono() + UNWRITTEN_MS;
        let Some(actor) = self.service_actor(id) else {
            return;
        };
        match std::mem::take(&mut actor.doing) {
            Doing::Nothing => {}
            Doing::Settling(_) => self.arm(&ActorKey::Service(id), Some(again)),
            Doing::Commanding(asked, ..) => {
                let refusal = Refusal::new(RefusalKind::Unavailable, code, "not written");
                self.answer(&asked, Err(refusal));
                self.settle_next(id);
            }
        }
    }

    /// The commands of an actor that died: whoever gave them knows nothing, and asks again.
    pub fn answers_unknown(&mut self, lost: Vec<Asked>) {
        for asked in lost {
            self.meet("a command whose outcome nobody knows");
            let text = "the same operation again is safe";
            let refusal = Refusal::new(RefusalKind::OutcomeUnknown, "outcome_unknown", text);
            self.answer(&asked, Err(refusal));
        }
    }
}

/// Name of the event of a command.
pub fn verb(command: &Command) -> &'static str {
    match command {
        Command::Scale { .. } => "scale",
        Command::Kill { .. } => "kill",
        Command::Delete => "delete",
        Command::Update { .. } | Command::Amend { .. } => "update",
        Command::Pause => "pause",
        Command::Resume => "resume",
        Command::Rollback { .. } => "rollback",
        Command::Restart => "restart",
    }
}

/// An operation with a name of its own.
pub fn operation(number: u64, made_at: u64) -> Operation {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&number.to_be_bytes());
    Operation {
        id: OperationId(id),
        made_at,
    }
}
