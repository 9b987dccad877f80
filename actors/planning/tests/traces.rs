//! The planned steps are those that really happen, and those that the rules are known for.

use std::collections::{BTreeMap, BTreeSet};

use xce_ledger::Fact;
use xce_model::{Cause, ClusterTime, Exit, JobId, JobState, Millis, Version, WallTime};
use xce_replica::{JobFact, JobRecord};
use xce_service::Replicas;
use xce_service::rules::{Change, Command, Draining, Effect, Event, Situation, decide};
use xce_session::plan::{PlanOutcome, PlanView};

use super::world::{World, author, spec};

/// Time that a start takes in reality.
const START: Millis = Millis(40);
/// Time from a start to being ready.
const READY: Millis = Millis(700);
/// Time that a stop takes: as it is assumed, since a creation has measured none.
const STOP: Millis = Millis(100);

/// Replicas that are started and stopped, by time and version.
type Steps = BTreeMap<u64, BTreeMap<Version, (u32, u32)>>;

/// What really happens: each fact is committed alone and decided on, in the order of the jobs.
/// Written apart from the planned run.
pub(super) struct Reality<'w> {
    world: &'w mut World,
    since: ClusterTime,
    due: BTreeSet<(ClusterTime, JobId)>,
    wake: Option<ClusterTime>,
    steps: Steps,
}

impl<'w> Reality<'w> {
    pub fn of(world: &'w mut World) -> Self {
        Self {
            since: world.now,
            world,
            due: BTreeSet::new(),
            wake: None,
            steps: Steps::new(),
        }
    }

    pub fn command(&mut self, command: Command) -> Steps {
        self.decide(Event::Command(Box::new(command), author()));
        self.run();
        std::mem::take(&mut self.steps)
    }

    /// Until nothing happens any more.
    pub fn run(&mut self) {
        for _ in 0..1_000_000 {
            if self.decide(Event::Changed) || self.place() {
                continue;
            }
            // The deadline of a rollout lies far ahead; whatever waits for it does not move.
            let soon = self.world.now.after(Millis::seconds(300));
            let wake = self.wake.filter(|wake| *wake <= soon);
            let next = self.due.first().map(|due| due.0);
            let Some(time) = next.into_iter().chain(wake).min() else {
                return;
            };
            self.world.now = self.world.now.max(time);
            if next == Some(time) {
                self.act();
            }
        }
        panic!("it does not end");
    }

    fn decide(&mut self, event: Event) -> bool {
        let view = &self.world.view;
        let Some(service) = view.service(self.world.service) else {
            return false;
        };
        let replicas = view.replicas(self.world.service);
        let life = |host: &str| view.host(host).map(|host| host.life);
        let draining = |host: &str| view.host(host).and_then(|host| Draining::of(host));
        let situation = Situation {
            service,
            replicas: replicas.map_or(Replicas::Listed(&[]), Replicas::Kept),
            life: &life,
            draining: &draining,
            now: self.world.now,
            wall: WallTime(0),
        };
        let decision = decide(&situation, event).expect("not refused");
        let changes = match decision.release_empty() {
            Ok((effects, _)) => {
                self.wake = effects.first().map(|Effect::WakeAt(time)| *time);
                return false;
            }
            Err(decision) => decision.into_facts().0,
        };
        self.note(&changes);
        let facts = changes.iter().cloned().map(|change| match change {
            Change::Service(fact) => Fact::from(fact),
            Change::Job(fact) => Fact::from(fact),
        });
        let facts = facts.collect();
        self.world.apply(facts);
        for change in changes {
            if let Change::Job(JobFact::StopRequested { job, .. }) = change {
                self.due.retain(|due| due.1 != job);
                self.due.insert((self.world.now.after(STOP), job));
            }
        }
        true
    }

    fn note(&mut self, changes: &[Change]) {
        let at = self.world.now.since(self.since).0;
        for change in changes {
            let Change::Job(fact) = change else { continue };
            if let JobFact::ReplicasSubmitted {
                version, indices, ..
            } = fact
            {
                let count = u32::try_from(indices.len()).unwrap();
                let step = self.steps.entry(at).or_default();
                step.entry(*version).or_default().0 += count;
            }
            if let JobFact::StopRequested { job, .. } | JobFact::Ended { job, .. } = fact {
                let of = self.world.view.job(*job).and_then(|job| job.service);
                let step = self.steps.entry(at).or_default();
                step.entry(of.expect("a replica").version).or_default().1 += 1;
            }
        }
    }

    fn place(&mut self) -> bool {
        let placements = xce_placement::plan(&self.world.view, &[], self.world.now, usize::MAX);
        for placement in &placements {
            self.world.apply(vec![placement.fact().into()]);
            self.due
                .insert((self.world.now.after(START), placement.job));
        }
        !placements.is_empty()
    }

    fn act(&mut self) {
        let Some((_, id)) = self.due.pop_first() else {
            return;
        };
        let job = self.world.view.job(id).expect("it is there");
        let Some(fact) = next_of(job) else { return };
        if let JobFact::Started { .. } = fact {
            self.due.insert((self.world.now.after(READY), id));
        }
        self.world.apply(vec![fact.into()]);
    }
}

fn next_of(job: &JobRecord) -> Option<JobFact> {
    let (id, run) = (job.id, job.run);
    match job.state {
        JobState::Start => Some(JobFact::Started {
            job: id,
            run,
            start: 1,
            pid: 1,
            at: WallTime(0),
        }),
        JobState::Run if job.ready_since.is_none() => Some(JobFact::Ready {
            job: id,
            run,
            start: 1,
        }),
        JobState::Stopping => Some(JobFact::Ended {
            job: id,
            run,
            exit: Exit::of(job.stop.map_or(Cause::Exited, |stop| stop.cause)),
            at: WallTime(0),
            stderr: String::new(),
        }),
        JobState::Run
        | JobState::Susp
        | JobState::Pend
        | JobState::Held
        | JobState::Done
        | JobState::Exit => None,
    }
}

fn steps_of(plan: &PlanView) -> Steps {
    let mut steps = Steps::new();
    for step in &plan.steps {
        for change in &step.changes {
            let at = steps.entry(step.at_ms).or_default();
            let sums = at.entry(change.version).or_default();
            sums.0 += change.started;
            sums.1 += change.stopped;
        }
    }
    steps
}

/// Replicas of the old and the new version after each step, beginning before the first.
fn trace(plan: &PlanView, old: i64) -> Vec<(i64, i64)> {
    let mut mix = (old, 0);
    let mut trace = vec![mix];
    for step in &plan.steps {
        for change in &step.changes {
            let count = i64::from(change.started) - i64::from(change.stopped);
            match change.version {
                1 => mix.0 += count,
                _ => mix.1 += count,
            }
        }
        trace.push(mix);
    }
    trace
}

#[test]
fn v5_a_trace_one_by_one() {
    let world = World::complete(&spec(3, 1, 0));
    let plan = world.plan(world.new_template());
    let expected = [(3, 0), (3, 1), (2, 1), (2, 2), (1, 2), (1, 3), (0, 3)];
    assert_eq!(trace(&plan, 3), expected);
    assert_eq!(plan.takes_ms, 3 * (START.0 + READY.0 + STOP.0));
}

#[test]
fn the_bounds_are_those_of_the_settings_and_are_kept() {
    for (replicas, surge, unavailable) in [(10, 3, 2), (4, 1, 1), (3, 1, 0), (6, 0, 6), (1, 2, 0)] {
        let world = World::complete(&spec(replicas, surge, unavailable));
        let plan = world.plan(world.new_template());
        assert_eq!(plan.outcome, PlanOutcome::Completes);
        assert_eq!(
            trace(&plan, i64::from(replicas)).last(),
            Some(&(0, i64::from(replicas)))
        );
        assert_eq!(plan.available_bound, replicas - unavailable);
        assert_eq!(plan.live_bound, replicas + surge);
        assert!(plan.available_min >= plan.available_bound);
        assert!(plan.live_max <= plan.live_bound);
    }
}

#[test]
fn without_surge_twenty_steps_alternate() {
    let world = World::complete(&spec(10, 0, 1));
    let plan = world.plan(world.new_template());
    assert_eq!(plan.steps_total, 20);
    assert_eq!((plan.available_min, plan.live_max), (9, 10));
}

#[test]
fn the_plan_is_what_happens() {
    let services = [
        (10, 3, 2),
        (4, 1, 1),
        (3, 1, 0),
        (10, 0, 1),
        (1, 1, 0),
        (7, 2, 0),
        (5, 0, 5),
    ];
    type Change = fn(&World) -> Command;
    let changes: [(&str, Change); 6] = [
        ("update", |world| world.new_template()),
        ("restart", |_| Command::Restart),
        ("up", |_| Command::Scale {
            desired: 17,
            remove: Vec::new(),
        }),
        ("down", |_| Command::Scale {
            desired: 2,
            remove: Vec::new(),
        }),
        ("delete", |_| Command::Delete),
        ("update with a count", |world| {
            world.update(|spec| {
                spec.template.command = vec!["other".into()];
                spec.replicas = Some(8);
            })
        }),
    ];
    for (replicas, surge, unavailable) in services {
        for (name, change) in &changes {
            let mut world = World::complete(&spec(replicas, surge, unavailable));
            let command = change(&world);
            let plan = world.plan(command.clone());
            let happened = Reality::of(&mut world).command(command);
            assert_eq!(
                steps_of(&plan),
                happened,
                "{name} of {replicas}/{surge}/{unavailable}"
            );
            let ends = matches!(plan.outcome, PlanOutcome::Completes | PlanOutcome::NoChange);
            assert!(ends, "{plan:#?}");
        }
    }
}
