//! What must hold after every step.

use std::collections::{BTreeMap, BTreeSet};

use xce_ledger::{Fact, Group, Outcome, View, audit};
use xce_model::spec::Template;
use xce_model::{Cause, ClusterTime, JobId, OperationId, Run, ServiceId, Start, Version};
use xce_replica::JobFact;
use xce_replica::wire::{Report, RunId, RunSpec};
use xce_service::ServiceFact;
use xce_service::rules::{Census, Counts, Draining, Fence, Situation, Standing};
use xce_service::state::ServiceRecord;

use crate::deciding::{wall, with_situation};
use crate::world::World;

/// One in so many published entries is audited in full; the last state of a history always is.
/// Source: measured, an audit costs as much as a dozen commits.
const AUDIT_EVERY: u64 = 16;
/// Least time between two looks at what services that rest would decide. Source: measured, a look
/// costs as much as a decision.
const REST_MS: u64 = 4_000;
/// How long after a recovery of anything deadlines may be late.
const LATE_MS: u64 = 2_000;

/// What checks remember.
#[derive(Debug, Default)]
pub struct Checks {
    templates: BTreeMap<(ServiceId, Version), (String, Template)>,
    operations: BTreeSet<OperationId>,
    versions: BTreeMap<ServiceId, Version>,
    /// Starts that ended and were followed by another, each of which counts once.
    restarts: BTreeSet<(JobId, Run, Start)>,
    /// When it was last looked whether services that rest have nothing to decide.
    rested: u64,
    entries: u64,
    /// Ports that were used by two processes at once.
    pub port_clashes: u64,
    /// Whether a clash of ports ends the test.
    pub strict_ports: bool,
}

fn census<T>(
    view: &View,
    id: ServiceId,
    now: u64,
    look: impl FnOnce(&Census<'_>, &ServiceRecord) -> T,
) -> Option<T> {
    with_situation(view, id, now, |situation| {
        look(
            &Census::take(situation.service, situation),
            situation.service,
        )
    })
}

fn totals(view: &View, id: ServiceId, now: u64) -> Counts {
    census(view, id, now, |census, _| census.total()).unwrap_or_default()
}

/// The replicas of a view as a service counts them that is not yet in it.
fn totals_by(view: &View, service: &ServiceRecord, now: u64) -> Counts {
    let life = |host: &str| view.host(host).map(|host| host.life);
    let draining = |host: &str| view.host(host).and_then(|host| Draining::of(host));
    let situation = Situation {
        service,
        replicas: view.replicas_of(service.id),
        life: &life,
        draining: &draining,
        now: ClusterTime(now),
        wall: wall(now),
    };
    Census::take(service, &situation).total()
}

impl World {
    /// Checks a decision of a service against the state that it was made from.
    pub fn check_decision(&mut self, view: &View, id: ServiceId, group: &Group, command: bool) {
        let now = self.times().0.0;
        let Some(after) = view.with_group(group) else {
            return match view.clone().imagine(group) {
                // Cluster time went on by more than operations are remembered for.
                Outcome::Expired => self.meet("an operation that is too old"),
                outcome => self.fail(&format!(
                    "a decision is refused by the very state that it was made from: {outcome:?}"
                )),
            };
        };
        let Some(record) = after.service(id) else {
            return;
        };
        if record.is_deleting() {
            return;
        }
        let fence = Fence::of(&record.settings.rollout, record.desired);
        // What counts as available may be changed by the decision itself.
        let one = totals_by(view, record, now);
        let other = totals(&after, id, now);
        let kills = command && killed(group);
        let least = one.available().min(fence.available_min());
        if other.available() < least && !kills {
            let (before, after) = (one.available(), other.available());
            self.fail(&format!(
                "service {id}: its decision leaves {after} of {before} available replicas, at \
                 least {} are to stay: {:?}",
                fence.available_min(),
                group.facts
            ));
        }
        self.check_victims(view, id, group);
    }

    /// No replica of the current making goes for an update.
    fn check_victims(&mut self, view: &View, id: ServiceId, group: &Group) {
        let Some(record) = view.service(id) else {
            return;
        };
        let newest = group
            .facts
            .iter()
            .any(|fact| matches!(fact, Fact::Service(ServiceFact::Versioned { .. })));
        for fact in &group.facts {
            let Fact::Job(JobFact::StopRequested { job, cause, .. }) = fact else {
                continue;
            };
            let version = view.job(*job).and_then(|job| job.service);
            let current =
                version.is_some_and(|of| record.root_of(of.version) == record.current_root());
            if *cause == Cause::TermUpdate && current && !newest {
                self.fail(&format!(
                    "job {job} is of the current version and goes for an update"
                ));
            }
        }
    }

    /// Checks one group as it was applied.
    pub fn check_group(&mut self, before: &View, outcome: &Outcome) {
        if !crate::users::changed(outcome) {
            return;
        }
        let entry = self.log.entries.last().expect("a group was applied");
        let operation = entry.group.operation.map(|operation| operation.id);
        let facts = entry.group.facts.clone();
        let at = entry.group.at;
        if let Some(operation) = operation
            && !self.checks.operations.insert(operation)
        {
            self.fail("an operation was carried out twice");
        }
        let lsn = self.log.lsn;
        let mut touched = BTreeSet::new();
        // The services as they are after each fact of the group.
        let mut records: BTreeMap<ServiceId, ServiceRecord> = BTreeMap::new();
        for fact in &facts {
            if let Fact::Service(fact) = fact {
                let id = fact.service();
                let known = id.and_then(|id| match records.remove(&id) {
                    Some(record) => Some(record),
                    None => before.service(id).map(|record| (**record).clone()),
                });
                self.check_service_fact(before, known.as_ref(), fact, at);
                touched.extend(id);
                if let Some(mut record) = known {
                    record.apply(fact, at, lsn, wall(at.0));
                    records.insert(record.id, record);
                }
            } else if let Fact::Job(JobFact::ReplicasSubmitted {
                service,
                version,
                indices,
            }) = fact
            {
                touched.insert(*service);
                self.check_indices(before, *service, *version, indices);
            } else if let Fact::Job(JobFact::Restarting {
                job, run, start, ..
            }) = fact
                && !self.checks.restarts.insert((*job, *run, *start))
            {
                self.fail(&format!("start {start} of job {job} ended twice"));
            }
        }
        for id in touched {
            self.check_live(before, id);
        }
    }

    /// Live replicas never become more than desired and surge by the rules' own doing.
    fn check_live(&mut self, before: &View, id: ServiceId) {
        let now = self.times().0.0;
        let after = self.log.applied();
        let Some(record) = after.service(id) else {
            return;
        };
        let fence = Fence::of(&record.settings.rollout, record.desired);
        let (one, other) = (
            totals(before, id, now).live(),
            totals(after, id, now).live(),
        );
        let check = record.check();
        let current = record.current().number;
        if other > one && other > fence.live_max() {
            self.fail(&format!(
                "service {id}: {other} replicas live, at most {} may",
                fence.live_max()
            ));
        }
        if let Err(text) = check {
            self.fail(&text);
        }
        let last = self.checks.versions.insert(id, current);
        if last.is_some_and(|last| last > current) {
            self.fail("the number of a version falls");
        }
    }

    /// An index is used once in a making of a version.
    fn check_indices(&mut self, before: &View, id: ServiceId, version: Version, indices: &[u32]) {
        let now = self.times().0.0;
        let twice = census(before, id, now, |census, record| {
            let root = record.root_of(version);
            census.replicas.iter().any(|replica| {
                replica.standing != Standing::Lost
                    && record.root_of(replica.version) == root
                    && indices.contains(&replica.index)
            })
        });
        if twice == Some(true) {
            self.fail(&format!(
                "service {id} uses an index of version {version} twice"
            ));
        }
    }

    fn check_service_fact(
        &mut self,
        before: &View,
        record: Option<&ServiceRecord>,
        fact: &ServiceFact,
        at: ClusterTime,
    ) {
        if let ServiceFact::Created { spec, .. } = fact {
            let id = self.log.applied().services().keys().next_back().copied();
            let making = (spec.queue.clone(), spec.template.clone());
            self.checks.templates.extend(id.map(|id| ((id, 1), making)));
        } else if let ServiceFact::Versioned {
            service,
            number,
            queue,
            template,
            ..
        } = fact
        {
            let making = (queue.clone(), (**template).clone());
            self.checks.templates.insert((*service, *number), making);
        } else if let (ServiceFact::RolloutStuck { .. }, Some(record)) = (fact, record) {
            self.check_stuck(record, at);
        } else if let ServiceFact::RolloutProgressed {
            available,
            old_live,
            ..
        } = fact
            && let Some(record) = record
        {
            self.check_progress(record, (*available, *old_live));
        } else if let ServiceFact::RolloutCompleted { service, .. } = fact {
            self.check_complete(before, *service);
        } else if let ServiceFact::Deleted { service } = fact
            && before.live_replicas(*service).next().is_some()
        {
            self.fail("a service is deleted and has replicas");
        }
    }

    /// A rollout is stuck only when its time is over.
    fn check_stuck(&mut self, record: &ServiceRecord, at: ClusterTime) {
        self.meet("a stuck rollout");
        let deadline = record.rollout.deadline(&record.settings.rollout);
        if record.paused.is_some() || deadline > at {
            self.fail(&format!(
                "service {} is stuck before its deadline",
                record.id
            ));
        }
    }

    /// Progress is a new mark.
    fn check_progress(&mut self, record: &ServiceRecord, marks: (u32, u32)) {
        let old = (record.rollout.available_mark, record.rollout.old_mark);
        if marks.0 < old.0 || marks.1 > old.1 || marks == old {
            let id = record.id;
            self.fail(&format!(
                "service {id} counts {marks:?} after {old:?} as progress"
            ));
        }
    }

    fn check_complete(&mut self, before: &View, id: ServiceId) {
        let now = self.times().0.0;
        let after = self.log.applied();
        let good = census(after, id, now, |census, record| {
            let counts = census.current().counts;
            // What changes between the decision and its commit is seen next.
            counts.live() == record.desired && census.old().live() == 0
        });
        let same = before.service(id).map(|record| record.desired)
            == after.service(id).map(|record| record.desired);
        if good == Some(false) && same {
            self.meet("a completion that something overtook");
        }
    }

    /// After each entry; now and then the whole ledger.
    pub fn after_publish(&mut self) {
        self.checks.entries += 1;
        if self.checks.entries.is_multiple_of(AUDIT_EVERY) {
            self.check_audit();
        }
    }

    /// For a while nothing is said of services that rest: something was broken.
    pub fn put_off_rest(&mut self, millis: u64) {
        self.checks.rested = self.now + millis;
    }

    pub fn check_audit(&mut self) {
        let findings = audit(self.log.applied());
        if !findings.is_empty() {
            self.fail(&format!("the audit finds {findings:?}"));
        }
    }

    /// Before time passes: no deadline of a service that is able to act is behind.
    pub fn check_deadlines(&mut self, until: u64) {
        let _ = until;
        if self.is_seated()
            && (self.now < self.checks.rested.saturating_add(REST_MS) || self.primary().is_none())
        {
            return;
        }
        let late = self.controller.well_since.saturating_add(LATE_MS);
        if self.now < late || !self.all_up() || self.has_unwritten() {
            return;
        }
        let (view, now) = (self.view(), self.times().0);
        let told = !self.controller.publisher.touched.is_empty()
            || !self.log.queue.is_empty()
            || self.is_writing();
        let rests = !told && self.now >= self.checks.rested.saturating_add(REST_MS);
        if rests {
            self.checks.rested = self.now;
        }
        for (id, record) in view.services() {
            let idle = self
                .controller
                .services
                .get(id)
                .is_some_and(crate::controller::ServiceActor::is_idle);
            let waits = record.rollout.is_active()
                && !record.rollout.is_stuck()
                && record.paused.is_none()
                && !record.is_deleting();
            let deadline = record.rollout.deadline(&record.settings.rollout);
            if idle && rests && self.decides(&view, *id) {
                self.fail(&format!("service {id} rests and has something to decide"));
            }
            if idle && waits && deadline < now {
                self.fail(&format!(
                    "service {id} rests and its deadline was {} ms ago",
                    now.since(deadline).0
                ));
            }
        }
    }

    /// Whether a service would decide something now: then somebody has to tell it to look.
    fn decides(&self, view: &View, id: ServiceId) -> bool {
        let event = xce_service::rules::Event::Changed;
        let step = crate::deciding::service(view, id, self.times(), event, "changed");
        matches!(step, Ok(crate::deciding::Step::Group(..)))
    }

    /// Facts of a job come from reports of its current run alone.
    pub fn check_reports(&mut self, view: &View, reports: &[Report], facts: &[Fact]) {
        let current: BTreeSet<JobId> = reports
            .iter()
            .filter(|report| {
                view.job(report.run.job)
                    .is_some_and(|job| job.run == report.run.run)
            })
            .map(|report| report.run.job)
            .collect();
        for fact in facts {
            if let Fact::Job(fact) = fact
                && let Some(xce_ledger::Precondition::JobUnchanged { job, .. }) =
                    xce_deciding::reading::condition_of(view, fact)
                && !current.contains(&job)
            {
                self.fail(&format!("a report of a stale run of job {job} counts"));
            }
        }
    }

    /// What a worker is told to run is what its version says.
    pub fn check_run_spec(&mut self, place: usize, spec: &RunSpec) {
        let view = self.view();
        let Some(job) = view.job(spec.run.job) else {
            return;
        };
        let Some(of) = job.service else { return };
        let known = self.checks.templates.get(&(of.service, of.version));
        if known.is_some_and(|(_, template)| *template != spec.template) {
            self.fail(&format!(
                "run {:?} on h{} does not run what version {} says",
                spec.run,
                place + 1,
                of.version
            ));
        }
    }

    /// A launch: no other process of the machine has its ports, and no other machine its run.
    pub fn check_launch(&mut self, place: usize, run: RunId) {
        let Some(dir) = self.machines[place].disk.runs.get(&run) else {
            return;
        };
        let ports: Vec<u16> = dir.spec.ports.iter().map(|(_, port)| *port).collect();
        let mut clash = None;
        for (other, _, dir) in self.machines[place].alive() {
            let shares = dir.spec.ports.iter().any(|(_, port)| ports.contains(port));
            if other != run && shares {
                clash = Some(other);
            }
        }
        if let Some(other) = clash {
            self.checks.port_clashes += 1;
            if !self.was_lost(other) || self.checks.strict_ports {
                self.fail(&format!("runs {run:?} and {other:?} have the same port"));
            }
        }
        let elsewhere = self.machines.iter().any(|machine| {
            machine.place != place && machine.alive().any(|(other, _, _)| other == run)
        });
        if elsewhere {
            self.fail(&format!("run {run:?} lives twice"));
        }
    }

    /// Whether the controller has given a run up with its host: what a lost host still runs when it
    /// comes back holds no port yet.
    fn was_lost(&self, run: RunId) -> bool {
        let view = self.view();
        view.job(run.job).is_none_or(|job| {
            let cause = job.exit.as_ref().map(|exit| exit.cause);
            let lost = matches!(
                cause,
                Some(Cause::HostLost | Cause::HostRebooted | Cause::RunLost)
            );
            job.run != run.run || (job.state.is_terminal() && lost)
        })
    }

    /// An end: nothing of the run is left.
    pub fn check_end(&mut self, place: usize, run: RunId) {
        let alive = self.machines[place]
            .alive()
            .any(|(other, _, _)| other == run);
        if alive {
            self.fail(&format!("the end of run {run:?} is told and it lives"));
        }
    }
}

/// Whether a command's group kills a replica that somebody named.
fn killed(group: &Group) -> bool {
    matches!(group.cause.as_str(), "kill" | "delete") || group.cause == "scale"
}
