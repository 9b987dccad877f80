//! The controller: actors with one write in flight each, told levels, that die and start again.

mod host;
mod publisher;
mod scheduler;
pub mod service;

use std::collections::BTreeMap;

use xce_host::rules::MassLoss;
use xce_ledger::{Group, GroupEvent, Key, Outcome};
use xce_model::{ClusterTime, ServiceId};

use crate::log::{Proposal, Proposer};
use crate::world::{Event, World};

pub use host::HostActor;
pub use publisher::PublisherActor;
pub use scheduler::SchedulerActor;
pub use service::{Asked, ServiceActor, operation};

/// Names an actor.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ActorKey {
    Publisher,
    Scheduler,
    Janitor,
    Host(usize),
    Service(ServiceId),
    /// What somebody at the door waits for.
    Door(u64),
    /// The reign that begins.
    Reign,
}

/// What every actor has.
#[derive(Debug, Default)]
pub struct Life {
    pub incarnation: u64,
    /// Whether it lives; a dead one starts again.
    pub up: bool,
    /// Whether it waits for a write.
    pub busy: bool,
    /// Whether it is to act already.
    pub due: bool,
    pub timer: Option<u64>,
}

#[derive(Debug, Default)]
pub struct Controller {
    pub up: bool,
    /// Number of the life of the whole controller.
    pub number: u64,
    pub publisher: PublisherActor,
    pub scheduler: SchedulerActor,
    pub janitor: Life,
    pub hosts: BTreeMap<usize, HostActor>,
    pub services: BTreeMap<ServiceId, ServiceActor>,
    /// The doubt in the own network.
    pub doubts: MassLoss,
    /// When an actor, or the whole, started last.
    pub well_since: u64,
    pub incarnations: u64,
    /// Whether actors that start wait for what was proposed before: off to see what it is for.
    pub without_barrier: bool,
}

/// Pause between clean-ups. Source: as in the shell.
const CLEAN_MS: u64 = 60_000;

impl World {
    pub fn life(&mut self, key: &ActorKey) -> Option<&mut Life> {
        let controller = &mut self.controller;
        match key {
            ActorKey::Publisher => Some(&mut controller.publisher.life),
            ActorKey::Scheduler => Some(&mut controller.scheduler.life),
            ActorKey::Janitor => Some(&mut controller.janitor),
            ActorKey::Door(_) | ActorKey::Reign => None,
            ActorKey::Host(place) => controller.hosts.get_mut(place).map(|host| &mut host.life),
            ActorKey::Service(id) => controller
                .services
                .get_mut(id)
                .map(|service| &mut service.life),
        }
    }

    /// A life that begins now.
    pub fn new_life(&mut self) -> Life {
        self.controller.incarnations += 1;
        Life {
            incarnation: self.controller.incarnations,
            up: true,
            ..Life::default()
        }
    }

    /// Lets an actor act soon, if it lives and does not wait.
    pub fn wake(&mut self, key: &ActorKey) {
        let bound = self.settings.think_ms;
        let wait = self.some(bound);
        let Some(life) = self.life(key) else { return };
        if !life.up || life.busy || life.due {
            return;
        }
        life.due = true;
        let incarnation = life.incarnation;
        self.after(wait, Event::Act(key.clone(), incarnation));
    }

    /// Arms the timer of an actor for a time of its machine's clock.
    pub fn arm(&mut self, key: &ActorKey, at: Option<u64>) {
        let Some(life) = self.life(key) else { return };
        life.timer = at;
        let incarnation = life.incarnation;
        if let Some(at) = at {
            let when = self.when(at);
            self.at(when, Event::Due(key.clone(), incarnation, at));
        }
    }

    /// Arms the timer of an actor for a cluster time.
    pub fn arm_for(&mut self, key: &ActorKey, at: Option<ClusterTime>) {
        let at = at.map(|at| self.mono_of(at));
        self.arm(key, at);
    }

    pub fn due(&mut self, key: &ActorKey, incarnation: u64, at: u64) {
        let Some(life) = self.life(key) else { return };
        if !life.up || life.incarnation != incarnation || life.timer != Some(at) {
            return;
        }
        life.timer = None;
        match key {
            ActorKey::Publisher | ActorKey::Door(_) | ActorKey::Reign => {}
            ActorKey::Scheduler => self.controller.scheduler.told = true,
            ActorKey::Janitor => return self.clean_up(),
            ActorKey::Host(place) => self.host_due(*place),
            ActorKey::Service(id) => self.look(*id),
        }
        self.wake(key);
    }

    pub fn act(&mut self, key: &ActorKey, incarnation: u64) {
        let Some(life) = self.life(key) else { return };
        if life.incarnation != incarnation {
            return;
        }
        life.due = false;
        if !life.up || life.busy {
            return;
        }
        match key {
            ActorKey::Publisher => self.publisher_acts(),
            ActorKey::Scheduler => self.scheduler_acts(),
            ActorKey::Janitor | ActorKey::Door(_) | ActorKey::Reign => {}
            ActorKey::Host(place) => self.host_acts(*place),
            ActorKey::Service(id) => self.service_acts(*id),
        }
    }

    /// An empty group made now.
    pub fn group(&self, cause: &str) -> Group {
        let (at, wall) = self.times();
        Group::new(at, wall, cause)
    }

    /// Proposes a group; the actor waits for it.
    pub fn propose(&mut self, key: &ActorKey, group: Group) {
        let from = self.life(key).map(|life| {
            life.busy = true;
            Proposer {
                key: key.clone(),
                incarnation: life.incarnation,
            }
        });
        self.enqueue(Proposal { group, from });
    }

    pub fn enqueue(&mut self, proposal: Proposal) {
        self.log.queue.push_back(proposal);
        if self.is_seated() {
            return self.push_soon(self.seat);
        }
        if !std::mem::replace(&mut self.log.commit_due, true) {
            let bound = self.settings.commit_ms;
            let wait = self.some(bound);
            self.after(wait, Event::Commit);
        }
    }

    /// One entry of the log: some or all of what is proposed, in order.
    pub fn commit_entry(&mut self) {
        self.log.commit_due = false;
        if self.log.queue.is_empty() {
            return;
        }
        let length = self.log.queue.len();
        let count = match self.settings.commit_ms {
            0 => length,
            _ => 1 + self.dice.place(length),
        };
        let outcomes = self.apply_entry(count);
        let keys = self.log.publish();
        self.after_publish();
        self.publisher_told(keys);
        for (from, outcome) in outcomes {
            let Some(from) = from else { continue };
            let current = self
                .life(&from.key)
                .is_some_and(|life| life.up && life.incarnation == from.incarnation);
            if current {
                self.committed(&from.key, &outcome);
            }
        }
        if !self.log.queue.is_empty() && !std::mem::replace(&mut self.log.commit_due, true) {
            let bound = self.settings.commit_ms;
            let wait = self.some(bound);
            self.after(wait, Event::Commit);
        }
    }

    fn apply_entry(&mut self, count: usize) -> Vec<(Option<Proposer>, Outcome)> {
        self.log.begin_entry();
        let mut outcomes = Vec::with_capacity(count);
        for sub in 0..count {
            let Some(proposal) = self.log.queue.pop_front() else {
                break;
            };
            let before = self.log.applied().clone();
            let sub = u32::try_from(sub).expect("few groups");
            let outcome = self.log.apply(sub, proposal.group);
            self.tell_entry(&outcome);
            self.check_group(&before, &outcome);
            outcomes.push((proposal.from, outcome));
        }
        outcomes
    }

    pub fn tell_entry(&mut self, outcome: &Outcome) {
        let Some(entry) = self.log.entries.last() else {
            return;
        };
        let (cause, lsn) = (entry.group.cause.clone(), entry.at.lsn);
        match outcome {
            Outcome::Applied(_) => {
                let facts: Vec<String> =
                    entry.group.facts.iter().map(crate::users::short).collect();
                self.tell(|| format!("[{lsn}] {cause}: {}", facts.join("; ")));
            }
            Outcome::Refused(unmet) => {
                let text = unmet.text.clone();
                self.tell(|| format!("[{lsn}] {cause} is refused: {text}"));
                self.meet("a refused group");
            }
            Outcome::Repeated(_) => self.meet("a repeated operation"),
            Outcome::Expired => self.meet("an expired operation"),
        }
    }

    pub fn committed(&mut self, key: &ActorKey, outcome: &Outcome) {
        if let Some(life) = self.life(key) {
            life.busy = false;
        }
        match key {
            ActorKey::Publisher | ActorKey::Janitor | ActorKey::Door(_) | ActorKey::Reign => {}
            ActorKey::Scheduler => self.scheduler_committed(outcome),
            ActorKey::Host(place) => self.host_committed(*place, outcome),
            ActorKey::Service(id) => self.service_committed(*id, outcome),
        }
        self.wake(key);
    }

    /// An actor dies: its mailbox, its timer and what it was about are gone; what it has proposed may
    /// still be committed. It starts again after a while.
    pub fn kill_actor(&mut self, key: &ActorKey, wait: u64) {
        let Some(life) = self.life(key) else { return };
        if !life.up {
            return;
        }
        life.up = false;
        life.busy = false;
        life.due = false;
        life.timer = None;
        let incarnation = life.incarnation;
        self.meet("an actor that died");
        self.tell(|| format!("actor {key:?} dies"));
        match key {
            ActorKey::Publisher => self.controller.publisher.forget(),
            ActorKey::Scheduler => self.controller.scheduler.forget(),
            ActorKey::Janitor | ActorKey::Door(_) | ActorKey::Reign => {}
            ActorKey::Host(place) => {
                if let Some(host) = self.controller.hosts.get_mut(place) {
                    host.forget();
                }
            }
            ActorKey::Service(id) => {
                let lost = self
                    .controller
                    .services
                    .get_mut(id)
                    .map(ServiceActor::forget);
                self.answers_unknown(lost.unwrap_or_default());
            }
        }
        self.after(wait, Event::Recover(key.clone(), incarnation));
    }

    /// A dead actor starts: only when everything that its predecessor may have proposed is decided.
    pub fn recover(&mut self, key: &ActorKey, incarnation: u64) {
        let barrier = !self.controller.without_barrier;
        let waits = |proposal: &Proposal| {
            let from = proposal.from.as_ref();
            from.is_some_and(|from| from.key == *key)
        };
        let in_doubt = barrier && (self.log.queue.iter().any(waits) || self.is_in_flight(key));
        if in_doubt {
            return self.after(1, Event::Recover(key.clone(), incarnation));
        }
        match self.life(key) {
            Some(life) if !life.up && life.incarnation == incarnation => {}
            Some(_) | None => return,
        }
        let life = self.new_life();
        if let Some(old) = self.life(key) {
            *old = life;
        }
        self.controller.well_since = self.now;
        match key {
            ActorKey::Publisher => self.tell_everybody(),
            ActorKey::Door(_) | ActorKey::Reign => {}
            ActorKey::Scheduler => self.controller.scheduler.told = true,
            ActorKey::Janitor => self.arm(key, Some(self.mono() + CLEAN_MS)),
            ActorKey::Host(place) => self.host_recovers(*place),
            ActorKey::Service(id) => self.look(*id),
        }
        self.wake(key);
    }

    /// Whether every actor lives.
    pub fn all_up(&self) -> bool {
        let controller = &self.controller;
        let hosts = controller.hosts.values().map(|host| &host.life);
        let services = controller.services.values().map(|service| &service.life);
        let single = [
            &controller.publisher.life,
            &controller.scheduler.life,
            &controller.janitor,
        ];
        let mut all = hosts.chain(services).chain(single);
        controller.up && all.all(|life| life.up)
    }

    /// The whole controller dies. What was proposed is committed up to some place, and then lost.
    pub fn kill_controller(&mut self, wait: u64) {
        if !self.controller.up {
            return;
        }
        self.meet("a controller that died");
        self.tell(|| "the controller dies".to_owned());
        let length = self.log.queue.len();
        let kept = self.dice.place(length + 1);
        if kept > 0 {
            self.apply_entry(kept);
            self.log.publish();
            self.after_publish();
        }
        self.log.queue.clear();
        self.log.commit_due = false;
        let number = self.controller.number + 1;
        self.actors_end();
        self.controller.number = number;
        let links: Vec<u64> = self.links.all.keys().copied().collect();
        for link in links {
            self.close_by_controller(link);
        }
        self.after(wait, Event::StartController(number));
    }

    /// All actors are gone, with what they were told.
    pub fn actors_end(&mut self) {
        let mut asked = Vec::new();
        for service in self.controller.services.values_mut() {
            asked.extend(service.forget());
        }
        self.controller = Controller {
            number: self.controller.number,
            incarnations: self.controller.incarnations,
            well_since: u64::MAX,
            without_barrier: self.controller.without_barrier,
            ..Controller::default()
        };
        self.answers_unknown(asked);
    }

    pub fn start_controller(&mut self) {
        if self.controller.up {
            return;
        }
        if self.log.lsn > 0 {
            self.log.restart();
        }
        self.tell(|| "the controller starts".to_owned());
        self.start_actors();
    }

    /// Every actor starts from the ledger.
    pub fn start_actors(&mut self) {
        self.controller.up = true;
        self.controller.well_since = self.now;
        self.controller.publisher.life = self.new_life();
        self.controller.scheduler.life = self.new_life();
        self.controller.janitor = self.new_life();
        self.arm(&ActorKey::Janitor, Some(self.mono() + CLEAN_MS));
        self.tell_everybody();
    }

    fn clean_up(&mut self) {
        let keep = self.settings.keep_ended.0;
        let (view, times) = (self.view(), self.times());
        let decided = xce_deciding::clean_up(&view, self.settings.keep_ended, times.0);
        let event = GroupEvent::CleanUp {
            keep: self.settings.keep_ended,
        };
        let group = crate::deciding::group("clean up", (&view, times), event, decided);
        if !group.facts.is_empty() {
            self.meet("a clean-up");
            self.enqueue(Proposal { group, from: None });
        }
        let wait = CLEAN_MS.min(keep.max(1_000));
        self.arm(&ActorKey::Janitor, Some(self.mono() + wait));
    }

    pub fn publisher_told(&mut self, keys: Vec<Key>) {
        if keys.is_empty() || !self.controller.publisher.life.up {
            return;
        }
        self.controller.publisher.touched.extend(keys);
        self.wake(&ActorKey::Publisher);
    }
}
