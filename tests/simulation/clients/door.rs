//! The door of a controller: what it answers whom, in the order of the shell.

use xce_ledger::{Created, Group, Operation, Outcome, Precondition, View};
use xce_model::spec::JobSpec;
use xce_model::{Refusal, RefusalKind};
use xce_replica::JobFact;
use xce_service::ServiceFact;

use super::{Answer, ClientEvent, Op, State};
use crate::controller::service::USER;
use crate::controller::{ActorKey, Asked};
use crate::log::{Proposal, Proposer};
use crate::seats::{End, Failure, Planted};
use crate::specs::web;
use crate::world::{Event, World};

/// What a controller that is not the primary, or may not be, says of itself.
fn unavailable() -> Refusal {
    Refusal::new(RefusalKind::Unavailable, "not_primary", "not the primary")
}

fn state_of(view: &View, name: &str) -> Option<State> {
    view.service_named("default", name).map(|service| State {
        id: service.id.0,
        desired: service.desired,
    })
}

impl World {
    /// A request arrives at a controller.
    pub fn arrives(&mut self, client: usize, at: (usize, u64)) {
        let (seat, attempt) = at;
        let current = self.clients.all[client].attempt == attempt;
        let doing = self.clients.all[client].doing.clone();
        let up = self.seat_at(seat).is_up();
        // One that has turned elsewhere may still be heard here: only its answer comes too late.
        let Some(doing) = doing.filter(|_| current && up) else {
            return;
        };
        self.clients.tickets += 1;
        let ticket = self.clients.tickets;
        self.clients.waiting.insert(ticket, (client, attempt, seat));
        if let Op::Stale(name) = &doing.op {
            let view = self.view();
            let (lsn, state) = (view.lsn(), state_of(&view, name));
            return self.reply(ticket, Answer::Found { lsn, state });
        }
        if !self.controller.up {
            let hint = self.hint(seat);
            return self.reply(ticket, Answer::Again(hint));
        }
        match doing.op {
            Op::Read(name) => {
                let view = self.view();
                let (lsn, state) = (view.lsn(), state_of(&view, &name));
                match self.holds_lease() || self.is_planted(Planted::NoLease) {
                    true => self.reply(ticket, Answer::Found { lsn, state }),
                    false => {
                        self.meet("a read that was refused without a lease");
                        self.reply(ticket, Answer::Again(None));
                    }
                }
            }
            Op::Stale(_) => {}
            op => self.change(ticket, op, doing.operation),
        }
    }

    fn change(&mut self, ticket: u64, op: Op, operation: Operation) {
        if let Some(answer) = self.view().answer(USER, operation.id) {
            self.meet("an operation that was carried out before");
            let created = created(&answer.created);
            let lsn = answer.lsn;
            return self.reply(ticket, Answer::Done { lsn, created });
        }
        match op {
            Op::Create(name, count) => {
                let mut spec = web(count, 1, 1);
                spec.name = name;
                self.create_at_door(ticket, spec, operation);
            }
            Op::Submit => self.submit(ticket, operation),
            Op::Change(name, command) => {
                let found = self
                    .view()
                    .service_named("default", &name)
                    .map(|one| one.id);
                let Some(id) = found else {
                    let refusal = Refusal::not_found("service", &name);
                    return self.refuse(ticket, &refusal);
                };
                self.look(id);
                let asked = Asked {
                    ticket,
                    command,
                    operation,
                };
                match self.controller.services.get_mut(&id) {
                    Some(actor) if actor.life.up => {
                        actor.asked.push_back(asked);
                        self.wake(&ActorKey::Service(id));
                    }
                    Some(_) | None => self.refuse(ticket, &unavailable()),
                }
            }
            Op::Read(_) | Op::Stale(_) => {}
        }
    }

    fn create_at_door(
        &mut self,
        ticket: u64,
        spec: xce_model::spec::ServiceSpec,
        operation: Operation,
    ) {
        let room = Precondition::Room {
            jobs: u64::from(spec.replicas.unwrap_or(1)),
        };
        let group = self
            .group("create")
            .on_behalf(USER, Some(operation))
            .given(Precondition::NameFree {
                project: spec.project.clone(),
                name: spec.name.clone(),
            })
            .given(room)
            .with(ServiceFact::Created {
                spec: Box::new(spec),
                author: USER.to_owned(),
                operation: operation.id,
            });
        self.propose_at_door(ticket, group);
    }

    fn submit(&mut self, ticket: u64, operation: Operation) {
        let base = web(1, 0, 1);
        let mut template = base.template;
        template.probes = xce_model::spec::Probes::default();
        template.command = vec!["batch".to_owned()];
        let spec = JobSpec {
            name: "batch".to_owned(),
            project: base.project,
            queue: "default".to_owned(),
            template,
            array: None,
            held: false,
            rerunnable: self.dice.chance(70),
        };
        let group = self
            .group("submit")
            .on_behalf(USER, Some(operation))
            .given(Precondition::Room { jobs: 1 })
            .with(JobFact::Submitted {
                spec: Box::new(spec),
                operation: operation.id,
            });
        self.propose_at_door(ticket, group);
    }

    fn propose_at_door(&mut self, ticket: u64, group: Group) {
        let from = Some(Proposer {
            key: ActorKey::Door(ticket),
            incarnation: 0,
        });
        self.enqueue(Proposal { group, from });
    }

    pub fn door_committed(&mut self, ticket: u64, outcome: &Outcome) {
        let answer = match outcome {
            Outcome::Applied(answer) | Outcome::Repeated(answer) => Answer::Done {
                lsn: answer.lsn,
                created: created(&answer.created),
            },
            Outcome::Refused(unmet) => Answer::Refused(unmet.code.to_owned()),
            Outcome::Expired => Answer::Refused("operation_expired".to_owned()),
        };
        self.reply(ticket, answer);
    }

    pub fn door_failed(&mut self, ticket: u64, _failure: Failure) {
        self.reply(ticket, Answer::Again(None));
    }

    /// What the actor of a service answers.
    pub fn answered_by_actor(&mut self, asked: &Asked, answer: &Result<String, Refusal>) {
        match answer {
            Ok(_) => {
                let found = self.view().answer(USER, asked.operation.id);
                let Some(found) = found else {
                    self.fail("a command is answered and not remembered");
                };
                let lsn = found.lsn;
                let created = None;
                self.reply(asked.ticket, Answer::Done { lsn, created });
            }
            Err(refusal) => self.refuse(asked.ticket, refusal),
        }
    }

    /// A refusal of a change: what follows from a state that may be old is nobody's to say.
    fn refuse(&mut self, ticket: u64, refusal: &Refusal) {
        let again = matches!(
            refusal.kind,
            RefusalKind::Unavailable | RefusalKind::OutcomeUnknown
        );
        let unsure = !self.holds_lease() && !self.is_planted(Planted::RefusesWithoutLease);
        if unsure && !again {
            self.meet("a refusal that was not given without a lease");
        }
        let answer = match again || unsure {
            true => Answer::Again(None),
            false => Answer::Refused(refusal.code.to_string()),
        };
        self.reply(ticket, answer);
    }

    /// The fault of answering what is only proposed.
    pub fn answer_early(&mut self, from: &mut Option<Proposer>) {
        if let Some(Proposer {
            key: ActorKey::Door(ticket),
            ..
        }) = from
        {
            let lsn = self.view().lsn() + 1;
            let created = None;
            let ticket = *ticket;
            self.reply(ticket, Answer::Done { lsn, created });
            *from = None;
        }
    }

    fn reply(&mut self, ticket: u64, answer: Answer) {
        let Some((client, attempt, seat)) = self.clients.waiting.remove(&ticket) else {
            return;
        };
        let lost = self.house().weather.lost_permille;
        let reaches = self.reaches(End::Seat(seat), End::Client(client));
        if !reaches || self.dice.below(1_000) < lost {
            return self.meet("an answer that was lost");
        }
        let bound = self.house().weather.delay_ms;
        let wait = self.some(bound);
        let answer = Box::new(answer);
        self.after(
            wait,
            Event::Client(client, ClientEvent::Hears { attempt, answer }),
        );
    }

    /// A controller dies or is deposed: whoever waits there hears, sooner or later, that nobody knows.
    pub fn clients_cut_off(&mut self, seat: usize) {
        let here: Vec<u64> = self
            .clients
            .waiting
            .iter()
            .filter(|(_, (_, _, at))| *at == seat)
            .map(|(ticket, _)| *ticket)
            .collect();
        for ticket in here {
            self.reply(ticket, Answer::Again(None));
        }
        self.watches_end(seat);
    }
}

fn created(created: &[Created]) -> Option<u64> {
    created.iter().find_map(|created| match created {
        Created::Service(id) => Some(id.0),
        Created::Job(id) => Some(id.number),
        Created::Replicas { .. } | Created::Session(_) => None,
    })
}
