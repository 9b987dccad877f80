//! The question, and the run that answers it.

use xce_ledger::{Created, Precondition, View};
use xce_model::spec::ServiceSpec;
use xce_model::{ClusterTime, Refusal, ServiceId, WallTime};
use xce_placement::Queue;
use xce_service::ServiceFact;
use xce_service::rules::{Answer, Author, Change, Command, Event};
use xce_session::plan::PlanView;

use crate::bounds::Bounds;
use crate::imagined::{Decided, Imagined, is_stuck};
use crate::outcome::{self, End};
use crate::tally::{Moved, Tally};
use crate::workers::Workers;

/// What a plan is made from.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// The committed state.
    pub view: &'a View,
    /// Queues and their priorities.
    pub queues: &'a [Queue],
    /// Cluster time.
    pub now: ClusterTime,
    /// The controller's wall clock.
    pub wall: WallTime,
    /// How far the run goes.
    pub bounds: Bounds,
}

/// The change whose outcome is wanted.
#[derive(Debug, Clone)]
pub enum Wanted {
    /// Another service.
    Create(Box<ServiceSpec>),
    /// A command of a service that is there.
    Change(ServiceId, Box<Command>),
}

/// Plans a change: decides it on a copy of the state and imagines what follows.
///
/// # Errors
/// The refusal that the change itself would get.
pub fn plan(question: &Question<'_>, wanted: Wanted, author: &Author) -> Result<PlanView, Refusal> {
    let name = outcome::word(&wanted);
    let mut run = Run::new(question);
    let before = run.begin(wanted, author)?;
    let end = match before.no_change {
        Some(_) => End::Steady,
        None => run.go()?,
    };
    Ok(outcome::view(name, run, end, before))
}

/// How it was before anything was imagined.
pub(crate) struct Before {
    pub name: String,
    /// Whether a rollout is under way once the change is made.
    pub rolls: bool,
    /// Available replicas.
    pub available: u32,
    pub desired: u32,
    pub version: u32,
    pub distance: u64,
    /// What the command is answered, where it would change nothing.
    pub no_change: Option<String>,
}

/// An imagined run.
pub(crate) struct Run<'q> {
    pub world: Imagined<'q>,
    pub workers: Workers,
    pub tally: Tally,
    pub since: ClusterTime,
    /// When a replica was last started, stopped, ready or gone.
    pub moved_at: ClusterTime,
    pub bounds: Bounds,
    pub as_of: u64,
}

impl<'q> Run<'q> {
    fn new(question: &Question<'q>) -> Self {
        let world = Imagined::new(question.view, question.queues, question.now, question.wall);
        Self {
            workers: Workers::of(&world),
            world,
            tally: Tally::default(),
            since: question.now,
            moved_at: question.now,
            bounds: question.bounds,
            as_of: question.view.lsn(),
        }
    }

    /// Carries out the change itself.
    fn begin(&mut self, wanted: Wanted, author: &Author) -> Result<Before, Refusal> {
        let mut before = Before {
            name: String::new(),
            rolls: false,
            available: 0,
            desired: 0,
            version: 0,
            distance: 0,
            no_change: None,
        };
        match wanted {
            Wanted::Create(spec) => {
                before.name.clone_from(&spec.name);
                self.create(*spec, author)?;
            }
            Wanted::Change(service, command) => {
                self.world.service = service;
                let Some(record) = self.world.record() else {
                    return Err(Refusal::not_found("service", service));
                };
                before.name.clone_from(&record.name);
                (before.desired, before.version) = (record.desired, record.current().number);
                self.observe();
                before.available = self.tally.available_min.unwrap_or(0);
                let event = Event::Command(command, author.clone());
                match self.world.decide(event)? {
                    Decided::Nothing(answer) => before.no_change = Some(text_of(answer)),
                    Decided::Changes(changes) => self.step(changes)?,
                }
            }
        }
        self.workers = Workers::of(&self.world);
        before.distance = self.distance();
        let rollout = self.world.record().map(|record| &record.rollout);
        before.rolls = rollout.is_some_and(|rollout| rollout.is_active());
        Ok(before)
    }

    fn create(&mut self, spec: ServiceSpec, author: &Author) -> Result<(), Refusal> {
        let free = Precondition::NameFree {
            project: spec.project.clone(),
            name: spec.name.clone(),
        };
        let room = Precondition::Room {
            jobs: u64::from(spec.replicas.unwrap_or(1)),
        };
        let fact = ServiceFact::Created {
            spec: Box::new(spec),
            author: author.user.clone(),
            operation: author.operation,
        };
        let group = self.world.group().given(free).given(room).with(fact);
        let created = self.world.commit(&group)?;
        let mut ids = created.iter().filter_map(|one| match one {
            Created::Service(id) => Some(*id),
            Created::Job(_) | Created::Replicas { .. } | Created::Session(_) => None,
        });
        if let Some(id) = ids.next_back() {
            self.world.service = id;
        }
        self.observe();
        Ok(())
    }

    /// Runs until the end, a halt or a bound.
    fn go(&mut self) -> Result<End, Refusal> {
        loop {
            if let Some(end) = self.settle()? {
                return Ok(end);
            }
            if let Some(end) = self.arrived() {
                return Ok(end);
            }
            let wakes = [
                self.workers.next(),
                self.world.wake,
                self.world.next_delay(),
            ];
            let Some(next) = wakes.into_iter().flatten().min() else {
                return Ok(self.halt(None));
            };
            if next.since(self.since) > self.bounds.time {
                let text = format!("{} of imagined time", self.bounds.time);
                return Ok(End::Bound(text));
            }
            self.world.now = self.world.now.max(next);
            self.act()?;
        }
    }

    /// Decides until nothing comes out, and places what waits.
    fn settle(&mut self) -> Result<Option<End>, Refusal> {
        loop {
            while let Decided::Changes(changes) = self.world.decide(Event::Changed)? {
                if is_stuck(&changes) {
                    return Ok(Some(self.halt(Some(&changes))));
                }
                self.step(changes)?;
                if self.world.work > self.bounds.work {
                    let count = self.tally.steps.len();
                    return Ok(Some(End::Bound(format!("its work, after {count} steps"))));
                }
            }
            let placed = self.world.place();
            if placed.is_empty() {
                return Ok(None);
            }
            for id in placed {
                if let Some(job) = self.world.replica(id) {
                    self.workers.placed(job, self.world.now);
                }
            }
        }
    }

    /// Takes one decision over.
    fn step(&mut self, changes: Vec<Change>) -> Result<(), Refusal> {
        let moved = Moved::of(&self.world, &changes);
        let stopped: Vec<_> = changes.iter().filter_map(stop_of).collect();
        self.world.commit_changes(changes)?;
        for id in stopped {
            if let Some(job) = self.world.replica(id) {
                self.workers.told_to_stop(&self.world, job);
            }
        }
        if let Some(counts) = self.world.counts() {
            self.tally.observe(&counts);
            if !moved.is_empty() {
                self.moved_at = self.world.now;
            }
            self.tally.step(self.since, self.world.now, moved, &counts);
        }
        Ok(())
    }

    /// Lets the workers do what is due.
    fn act(&mut self) -> Result<(), Refusal> {
        let facts = self.workers.act(&self.world);
        if facts.is_empty() {
            return Ok(());
        }
        let mut group = self.world.group();
        group.facts = facts;
        self.world.commit(&group)?;
        self.moved_at = self.world.now;
        self.observe();
        Ok(())
    }

    fn observe(&mut self) {
        if let Some(counts) = self.world.counts() {
            self.tally.observe(&counts);
        }
    }
}

fn stop_of(change: &Change) -> Option<xce_model::JobId> {
    match change {
        Change::Job(xce_replica::JobFact::StopRequested { job, .. }) => Some(*job),
        Change::Job(_) | Change::Service(_) => None,
    }
}

fn text_of(answer: Answer) -> String {
    match answer {
        Answer::Nothing => String::new(),
        Answer::NoChange { text } | Answer::Accepted { text } => text,
    }
}
