//! The plan: what is placed now.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use xce_ledger::{Precondition, View};
use xce_model::{ClusterTime, JobId, Lsn, Run};
use xce_replica::JobFact;

use crate::candidate::{Candidate, Shape};
use crate::gate::Gates;
use crate::pool::{Nowhere, Pool};

/// A queue and its priority; queues that are not named have priority 0.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// Higher goes first. Default 0.
    pub priority: i32,
}

/// One job on one host: leaves no choice to whoever carries it out.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Placement {
    /// The job, or the pending element of an array.
    pub job: JobId,
    /// Number of the run that begins.
    pub run: Run,
    /// The host.
    pub host: Arc<str>,
    /// Ports by name.
    pub ports: Vec<(String, u16)>,
    /// Position of the view that it was made from.
    pub made_at: Lsn,
}

impl Placement {
    /// What must still hold in log order for it to count.
    pub fn precondition(&self) -> Precondition {
        Precondition::Fits {
            job: self.job,
            run: self.run,
            host: self.host.to_string(),
            ports: self.ports.iter().map(|(_, port)| *port).collect(),
        }
    }

    /// The fact that it becomes.
    pub fn fact(&self) -> JobFact {
        JobFact::Placed {
            job: self.job,
            run: self.run,
            host: self.host.to_string(),
            ports: self.ports.clone(),
        }
    }
}

/// Places waiting jobs, at most `max`; a later plan from a newer view places the rest.
///
/// Costs next to nothing while no host has room for the smallest request.
pub fn plan(view: &View, queues: &[Queue], now: ClusterTime, max: usize) -> Vec<Placement> {
    let mut planner = Planner::new(view, now, max);
    planner.run(queues);
    planner.placements
}

/// The earliest time after `now` at which the delay of a waiting job ends, or a host that is closed by
/// its own fault may be tried.
pub fn next_wake(view: &View, now: ClusterTime) -> Option<ClusterTime> {
    let after = (now.after(xce_model::Millis(1)), JobId::element(0, 0));
    let delay = view.delays().range(after..).next().map(|(time, _)| *time);
    let trial = xce_host::rules::next_trial(view.hosts().values().map(AsRef::as_ref), now);
    // A replica may wait until the copy that it replaces is over.
    let hosts = view.hosts().values();
    let fences = hosts.filter_map(|host| xce_host::rules::lease::fenced_at(host));
    let fence = fences.filter(|until| *until > now).min();
    delay.into_iter().chain(trial).chain(fence).min()
}

/// Whether a queue is looked at further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Go {
    On,
    Stop,
}

/// A plan under construction.
pub(crate) struct Planner<'a> {
    view: &'a View,
    max: usize,
    pub pool: Pool<'a>,
    pub gates: Gates<'a>,
    pub placements: Vec<Placement>,
    /// Job that holds back the rest of its queue, by queue.
    pub blocked: BTreeMap<&'a str, JobId>,
    // Shapes that fit nowhere: what is free only shrinks while a plan is made.
    hopeless: HashSet<Shape<'a>>,
}

impl<'a> Planner<'a> {
    pub fn new(view: &'a View, now: ClusterTime, max: usize) -> Self {
        Self {
            view,
            max,
            pool: Pool::open(view, now),
            gates: Gates::new(view, now),
            placements: Vec::new(),
            blocked: BTreeMap::new(),
            hopeless: HashSet::new(),
        }
    }

    pub fn run(&mut self, queues: &[Queue]) {
        for (name, waiting) in in_order(self.view, queues) {
            if self.is_full() {
                return;
            }
            for id in waiting.iter() {
                if self.consider(name, *id) == Go::Stop {
                    break;
                }
            }
        }
    }

    /// Whether nothing more can be placed: as many as wanted, or no room for the smallest request.
    fn is_full(&self) -> bool {
        let requests = self.view.requests();
        let cpus = requests.cpus.get_min().map_or(0, |(cpus, _)| cpus.0);
        let memory = requests.memory.get_min().map_or(0, |(memory, _)| memory.0);
        self.placements.len() >= self.max || !self.pool.has_room(cpus, memory)
    }

    fn consider(&mut self, queue: &'a str, id: JobId) -> Go {
        if let Some(job) = self.view.job(id) {
            return self.place(queue, &Candidate::of_job(job));
        }
        let Some(array) = self.view.array(id.number) else {
            return Go::On;
        };
        for element in array.pending.iter() {
            let candidate = Candidate::of_element(array, element);
            // What holds one element back holds back all of them.
            let before = self.placements.len();
            if self.place(queue, &candidate) == Go::Stop {
                return Go::Stop;
            }
            if self.placements.len() == before {
                return Go::On;
            }
        }
        Go::On
    }

    fn place(&mut self, queue: &'a str, candidate: &Candidate<'a>) -> Go {
        let shape = candidate.shape();
        let is_hopeless = shape
            .as_ref()
            .is_some_and(|shape| self.hopeless.contains(shape));
        if is_hopeless || self.gates.check(candidate).is_some() {
            return Go::On;
        }
        match self.pool.choose(candidate) {
            Ok(choice) => {
                self.pool.take(candidate, &choice);
                self.gates.placed(candidate);
                self.placements.push(Placement {
                    job: candidate.id,
                    run: candidate.run,
                    host: self.pool.slots[choice.host].name.clone(),
                    ports: choice.ports,
                    made_at: self.view.lsn(),
                });
                if self.is_full() { Go::Stop } else { Go::On }
            }
            Err(Nowhere::Blocks) => {
                self.blocked.insert(queue, candidate.id);
                Go::Stop
            }
            Err(Nowhere::Passes) => {
                self.hopeless.extend(shape);
                Go::On
            }
        }
    }
}

type Waiting<'a> = &'a imbl::OrdSet<JobId>;

/// The queues with waiting jobs, highest priority first, then by name.
fn in_order<'a>(view: &'a View, queues: &[Queue]) -> Vec<(&'a str, Waiting<'a>)> {
    let priority = |name: &str| {
        let known = queues.iter().find(|queue| queue.name == name);
        known.map_or(0, |queue| queue.priority)
    };
    let waiting = view.pending().iter();
    let mut ordered: Vec<(&str, Waiting<'_>)> =
        waiting.map(|(name, jobs)| (&**name, jobs)).collect();
    // Stable, and the table is ordered by name.
    ordered.sort_by_key(|(name, _)| std::cmp::Reverse(priority(name)));
    ordered
}
