//! What users do and see: commands, answers, views; and the words of the story.

use std::collections::BTreeMap;
use std::sync::Arc;

use xce_ledger::{Created, Fact, GroupEvent, Operation, Outcome, Precondition};
use xce_model::spec::ServiceSpec;
use xce_model::{JobId, Refusal, RefusalKind, ServiceId, Version};
use xce_replica::JobRecord;
use xce_service::rules::{Census, Command, Counts, Standing};
use xce_service::state::ServiceRecord;
use xce_service::view::ServiceView;
use xce_service::{Condition, Explanation, ServiceFact, explain, view};

use crate::controller::{ActorKey, Asked};
use crate::deciding::with_situation;
use crate::log::Proposal;
use crate::world::World;

/// How long a user waits for an answer.
const ANSWER_MS: u64 = 20_000;

/// A command that was given and not answered for sure.
#[derive(Debug, Clone)]
pub struct Open {
    pub service: ServiceId,
    pub command: Command,
    pub operation: Operation,
}

#[derive(Debug, Default)]
pub struct Users {
    pub tickets: u64,
    pub answers: BTreeMap<u64, Result<String, Refusal>>,
    /// Commands whose outcome is unknown: their users ask again.
    pub open: Vec<Open>,
}

/// Another template for a service, by the command alone; the rest of its specification is kept.
pub fn update_to(record: &ServiceRecord, command: &str) -> Command {
    let mut spec = spec_of(record);
    spec.template.command = vec![command.to_owned()];
    update(spec)
}

/// What a service is asked to be now, without its count.
pub fn spec_of(record: &ServiceRecord) -> ServiceSpec {
    let current = &record.current().spec;
    ServiceSpec {
        name: record.name.clone(),
        project: record.project.clone(),
        queue: current.queue.clone(),
        profile: record.profile.clone(),
        replicas: None,
        template: current.template.clone(),
        settings: record.settings.clone(),
        origins: Vec::new(),
    }
}

pub fn update(spec: ServiceSpec) -> Command {
    Command::Update {
        spec: Box::new(spec),
        take_count: false,
    }
}

pub fn scale(desired: u32) -> Command {
    Command::Scale {
        desired,
        remove: Vec::new(),
    }
}

impl World {
    fn next_operation(&mut self) -> Operation {
        self.users.tickets += 1;
        crate::controller::operation(self.users.tickets, self.log.lsn)
    }

    /// Creates a service and waits for its id.
    pub fn create(&mut self, spec: ServiceSpec) -> Result<ServiceId, Refusal> {
        xce_service::check_spec(&spec)?;
        let (project, name) = (spec.project.clone(), spec.name.clone());
        let operation = self.next_operation();
        let group = self
            .group("create")
            .on_behalf("ada", Some(operation))
            .given(Precondition::NameFree {
                project: project.clone(),
                name: name.clone(),
            })
            .with(ServiceFact::Created {
                spec: Box::new(spec),
                author: "ada".to_owned(),
                operation: operation.id,
            });
        self.enqueue(Proposal { group, from: None });
        let decided = |world: &Self| {
            let mut entries = world.log.entries.iter().rev();
            entries
                .find(|entry| entry.group.operation == Some(operation))
                .map(|entry| entry.applied)
        };
        self.run_while(ANSWER_MS, |world| decided(world).is_none());
        let answer = self.view().answer("ada", operation.id);
        let created = answer.and_then(|answer| {
            let mut created = answer.created.into_iter();
            created.find_map(|created| match created {
                Created::Service(id) => Some(id),
                Created::Job(_) | Created::Replicas { .. } | Created::Session(_) => None,
            })
        });
        created.ok_or_else(|| {
            let view = self.view();
            match view.service_named(&project, &name) {
                Some(owner) => Refusal::refused("name_in_use", format!("owner {}", owner.owner)),
                None => Refusal::new(RefusalKind::Unavailable, "busy", "not created"),
            }
        })
    }

    /// A service that is created and complete.
    #[track_caller]
    pub fn complete(&mut self, spec: ServiceSpec) -> ServiceId {
        let id = self.create(spec).expect("the service is created");
        self.until(600_000, "the first version is complete", |world| {
            world.condition(id) == Some(Condition::Steady)
        });
        id
    }

    /// Gives a command and does not wait.
    pub fn give(&mut self, service: ServiceId, command: Command) -> u64 {
        let operation = self.next_operation();
        self.give_again(service, command, operation)
    }

    pub fn give_again(
        &mut self,
        service: ServiceId,
        command: Command,
        operation: Operation,
    ) -> u64 {
        self.users.tickets += 1;
        let ticket = self.users.tickets;
        self.users.open.push(Open {
            service,
            command: command.clone(),
            operation,
        });
        let asked = Asked {
            ticket,
            command,
            operation,
        };
        self.tell(|| format!("service {service}: {:?}", asked.command));
        if self.view().service(service).is_none() {
            let refusal = Refusal::not_found("service", service);
            self.answer(&asked, Err(refusal));
            return ticket;
        }
        self.look(service);
        match self.controller.services.get_mut(&service) {
            Some(actor) if actor.life.up && self.controller.up => {
                actor.asked.push_back(asked);
                self.wake(&ActorKey::Service(service));
            }
            Some(_) | None => {
                let text = "the actor could not be reached";
                let refusal = Refusal::new(RefusalKind::Unavailable, "busy", text);
                self.answer(&asked, Err(refusal));
            }
        }
        ticket
    }

    pub fn answer(&mut self, asked: &Asked, answer: Result<String, Refusal>) {
        if self.is_seated() {
            return self.answered_by_actor(asked, &answer);
        }
        self.tell(|| format!("answer to {:?}: {answer:?}", asked.ticket));
        let sure = match &answer {
            Ok(_) => true,
            Err(refusal) => !matches!(
                refusal.kind,
                RefusalKind::OutcomeUnknown | RefusalKind::Unavailable
            ),
        };
        if sure {
            let operation = asked.operation.id;
            self.users
                .open
                .retain(|open| open.operation.id != operation);
        }
        self.users.answers.insert(asked.ticket, answer);
    }

    /// Asks again, by the same operations, what was not answered for sure.
    pub fn ask_again(&mut self) {
        let mut open = std::mem::take(&mut self.users.open);
        open.dedup_by_key(|open| open.operation.id);
        for one in open {
            self.give_again(one.service, one.command, one.operation);
        }
    }

    /// Gives a command and waits for its answer.
    pub fn ask(&mut self, service: ServiceId, command: Command) -> Result<String, Refusal> {
        let ticket = self.give(service, command);
        self.run_while(ANSWER_MS, |world| {
            !world.users.answers.contains_key(&ticket)
        });
        self.users
            .answers
            .get(&ticket)
            .cloned()
            .unwrap_or_else(|| self.fail("a command is not answered"))
    }

    /// A command that is accepted.
    #[track_caller]
    pub fn must(&mut self, service: ServiceId, command: Command) -> String {
        let answer = self.ask(service, command);
        match answer {
            Ok(text) => text,
            Err(refusal) => self.fail(&format!("refused: {refusal}")),
        }
    }

    #[track_caller]
    pub fn update(&mut self, service: ServiceId, command: &str) -> String {
        let record = self.record(service);
        self.must(service, update_to(&record, command))
    }

    #[track_caller]
    pub fn record(&self, service: ServiceId) -> Arc<ServiceRecord> {
        let view = self.view();
        view.service(service).map(Arc::clone).expect("it exists")
    }

    pub fn exists(&self, service: ServiceId) -> bool {
        self.view().service(service).is_some()
    }

    /// A job command of a user, as on any job.
    pub fn command_job(&mut self, job: JobId, command: xce_replica::rules::Command) {
        let view = self.view();
        let times = self.times();
        let Ok(decided) = xce_deciding::job(&view, job, command, times) else {
            return;
        };
        let event = GroupEvent::JobCommand { job, command };
        let group = crate::deciding::group("job command", (&view, times), event, decided);
        if !group.facts.is_empty() {
            self.enqueue(Proposal { group, from: None });
        }
    }

    pub fn close_host(&mut self, place: usize) {
        let reason = "maintenance".to_owned();
        self.operate_host(place, xce_host::rules::Command::Close(reason));
    }

    pub fn open_host(&mut self, place: usize) {
        self.operate_host(place, xce_host::rules::Command::Reopen);
    }

    pub fn shown(&self, id: ServiceId) -> Option<ServiceView> {
        let ledger = self.view();
        with_situation(&ledger, id, self.times().0.0, |situation| {
            let why = |job: JobId| self.why(job);
            view(situation, &|host| Some(host.to_owned()), &why, &|at| {
                at.0.to_string()
            })
        })
    }

    pub fn condition(&self, id: ServiceId) -> Option<Condition> {
        self.explained(id).map(|explained| explained.condition())
    }

    pub fn explained(&self, id: ServiceId) -> Option<Explanation> {
        let ledger = self.view();
        with_situation(&ledger, id, self.times().0.0, |situation| {
            explain(situation, &|job| self.why(job))
        })
    }

    /// Why a job waits, in the words that users see.
    pub fn why(&self, job: JobId) -> Option<String> {
        let now = self.times().0;
        let why = xce_placement::why(&self.view(), &[], job, now);
        why.map(|reason| reason.text)
    }

    /// The line that users read of why a service is not further.
    pub fn line(&self, id: ServiceId) -> String {
        let explained = self.explained(id);
        explained.map_or_else(String::new, |one| {
            format!("{:?}: {}; {}", one.condition(), one.reason(), one.line())
        })
    }

    pub fn counts(&self, id: ServiceId) -> Counts {
        let view = self.view();
        with_situation(&view, id, self.times().0.0, |situation| {
            Census::take(situation.service, situation).total()
        })
        .unwrap_or_default()
    }

    /// Live replicas (not lost ones) and what they count as, by job.
    pub fn replicas(&self, id: ServiceId) -> Vec<(Arc<JobRecord>, Standing)> {
        let view = self.view();
        let mut replicas = with_situation(&view, id, self.times().0.0, |situation| {
            let census = Census::take(situation.service, situation);
            let live = census
                .replicas
                .iter()
                .filter(|replica| replica.standing != Standing::Lost);
            live.map(|replica| (Arc::clone(replica.job), replica.standing))
                .collect::<Vec<_>>()
        })
        .unwrap_or_default();
        replicas.sort_by_key(|(job, _)| job.id);
        replicas
    }

    /// Live replicas that are not stopping, by version.
    pub fn mix(&self, id: ServiceId) -> BTreeMap<Version, usize> {
        let mut mix = BTreeMap::new();
        for (job, standing) in self.replicas(id) {
            if standing != Standing::Stopping {
                let version = job.service.map_or(0, |of| of.version);
                *mix.entry(version).or_default() += 1;
            }
        }
        mix
    }

    /// Jobs of a version that live and are not told to stop.
    pub fn jobs_of(&self, id: ServiceId, version: Version) -> Vec<JobId> {
        let replicas = self.replicas(id).into_iter();
        replicas
            .filter(|(job, standing)| {
                *standing != Standing::Stopping
                    && job.service.is_some_and(|of| of.version == version)
            })
            .map(|(job, _)| job.id)
            .collect()
    }

    /// Processes that are alive on all machines, of a command.
    pub fn alive(&self, command: &str) -> usize {
        let machines = self.machines.iter();
        machines
            .flat_map(|machine| machine.alive())
            .filter(|(_, _, dir)| dir.spec.template.command[0] == command)
            .count()
    }

    /// Everything about the services, for a message.
    pub fn describe(&self) -> String {
        let view = self.view();
        let mut text = String::new();
        for id in view.services().keys() {
            text += &format!("service {id}: {}\n", self.line(*id));
            if let Some(record) = view.service(*id) {
                for version in &record.versions {
                    text += &format!(
                        "  version {} root {} want {} {:?} limit {:?} proved {} {:?}\n",
                        version.number,
                        version.root,
                        version.want,
                        version.outcome,
                        version.dispatch_limit,
                        version.proved,
                        version.backoff
                    );
                }
                text += &format!("  desired {} {:?}\n", record.desired, record.rollout);
            }
            for (job, standing) in self.replicas(*id) {
                text += &format!(
                    "  job {} {:?} {standing:?} on {:?}: {:?}\n",
                    job.id,
                    job.service.map(|of| (of.version, of.index)),
                    job.host,
                    self.why(job.id)
                );
            }
        }
        for host in view.hosts().values() {
            text += &format!(
                "host {} {:?} closed {:?}\n",
                host.inventory.name, host.life, host.closed
            );
        }
        text
    }

    /// How many groups with a fact of this kind were applied.
    pub fn facts(&self, mut wanted: impl FnMut(&Fact) -> bool) -> usize {
        let entries = self.log.entries.iter().filter(|entry| entry.applied);
        entries
            .flat_map(|entry| entry.group.facts.iter())
            .filter(|fact| wanted(fact))
            .count()
    }

    /// When facts of this kind were committed, by their groups' time.
    pub fn when_committed(&self, mut wanted: impl FnMut(&Fact) -> bool) -> Vec<u64> {
        let entries = self.log.entries.iter().filter(|entry| entry.applied);
        entries
            .filter(|entry| entry.group.facts.iter().any(&mut wanted))
            .map(|entry| entry.group.at.0)
            .collect()
    }
}

/// A fact in few words.
pub fn short(fact: &Fact) -> String {
    if let Fact::Service(ServiceFact::Created { spec, .. }) = fact {
        format!("created {}", spec.name)
    } else if let Fact::Service(ServiceFact::Versioned {
        service,
        number,
        reason,
        template,
        ..
    }) = fact
    {
        let command = &template.command;
        format!("service {service} version {number} {reason:?} {command:?}")
    } else if let Fact::Service(ServiceFact::SettingsChanged { service, .. }) = fact {
        format!("service {service} settings")
    } else {
        format!("{fact:?}")
    }
}

/// Whether a group's outcome changed the state.
pub fn changed(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Applied(_))
}
