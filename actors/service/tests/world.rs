//! A small world for a service: the ledger's part, hosts, and processes that behave by version.
//! One thread, no clock; time moves from event to event.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use xce_host::HostLife;
use xce_model::spec::*;
use xce_model::*;
use xce_replica::{JobFact, JobRecord, ServiceRef};

use crate::facts::ServiceFact;
use crate::rules::{Census, Draining, Fence, Standing};
use crate::*;

pub use super::making::*;

/// How the processes of a version behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// Ready this long after the start.
    Ready(u64),
    /// Runs and is never ready.
    NeverReady,
    /// Ends with code 1 this long after the start, and was never ready.
    Crash(u64),
    /// Ready at once, as everything without a probe is, and ends with code 1 this long after the
    /// start.
    ReadyThenCrash(u64),
    /// No host takes it.
    Unplaceable,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Happens {
    Start,
    Ready,
    Crash,
    Stopped,
}

/// What happened, for messages: read by its `Debug` alone.
#[derive(Debug, Clone)]
#[allow(dead_code)]
pub enum Told {
    Decided(Change),
    Outside(JobFact),
    Host(String, HostLife),
}

pub struct World {
    pub record: ServiceRecord,
    pub deleted: bool,
    pub jobs: Vec<Arc<JobRecord>>,
    /// The same jobs, kept up change by change.
    roster: Roster,
    pub hosts: BTreeMap<String, HostLife>,
    /// Hosts that are drained, with their deadlines.
    pub drains: BTreeMap<String, Option<u64>>,
    pub slots: usize,
    pub now: u64,
    pub lsn: Lsn,
    pub behaviours: BTreeMap<String, Behaviour>,
    pub stop_time: u64,
    /// Whether jobs of a lost host end at once, or stay until they are replaced.
    pub ends_lost: bool,
    /// Whether the bounds are checked; not while an operator's own doing breaks them.
    pub checks: bool,
    pub log: Vec<(u64, Told)>,
    /// Seed of the history, for messages.
    pub seed: u64,
    /// Whether hosts take replicas beyond the dispatch limit.
    pub ignores_limits: bool,
    /// Whether decisions are left to the test.
    held: bool,
    wake: Option<u64>,
    queue: BTreeSet<(u64, u64, Run, Happens)>,
    next_job: u64,
}

/// Author of all commands here.
pub fn author() -> Author {
    Author {
        user: "ada".to_owned(),
        operation: OperationId([7; 16]),
    }
}

impl World {
    /// A service that was just created, on four hosts with room; nothing has been decided yet.
    pub fn new(spec: &ServiceSpec) -> Self {
        check_spec(spec).expect("the specification is good");
        let now = 1_000_000;
        let record =
            ServiceRecord::created(ServiceId(3), spec, 10, ClusterTime(now), WallTime(5), "ada");
        Self {
            record,
            deleted: false,
            jobs: Vec::new(),
            roster: Roster::default(),
            hosts: (1..=4).map(|n| (format!("h{n}"), HostLife::Up)).collect(),
            drains: BTreeMap::new(),
            slots: 1000,
            now,
            lsn: 10,
            behaviours: BTreeMap::new(),
            stop_time: 10,
            ends_lost: false,
            checks: true,
            log: Vec::new(),
            seed: 0,
            ignores_limits: false,
            held: false,
            wake: None,
            queue: BTreeSet::new(),
            next_job: 1,
        }
    }

    /// A service whose first version is complete.
    pub fn complete(spec: &ServiceSpec) -> Self {
        let mut world = Self::new(spec);
        world.run_for(10_000);
        assert_eq!(world.condition(), Condition::Steady, "{}", world.explain());
        world
    }

    pub fn behave(&mut self, text: &str, behaviour: Behaviour) {
        self.behaviours.insert(text.to_owned(), behaviour);
    }

    pub fn with_situation<T>(&self, use_it: impl FnOnce(&Situation<'_>) -> T) -> T {
        let life = |host: &str| self.hosts.get(host).copied();
        let draining = |host: &str| {
            let until = self.drains.get(host)?.map(ClusterTime);
            Some(Draining { until })
        };
        use_it(&Situation {
            service: &self.record,
            replicas: (&self.jobs).into(),
            life: &life,
            draining: &draining,
            now: ClusterTime(self.now),
            wall: WallTime(5),
        })
    }

    pub fn view(&self) -> ServiceView {
        let address = |host: &str| Some(format!("addr-{host}"));
        let why = |_: JobId| Some("no host has room".to_owned());
        let time = |at: WallTime| format!("T{}", at.0);
        self.with_situation(|situation| view(situation, &address, &why, &time))
    }

    pub fn condition(&self) -> Condition {
        self.view().condition
    }

    pub fn explain(&self) -> String {
        let explanation = self.with_situation(|situation| explain(situation, &|_| None));
        format!("{}: {}", explanation.reason(), explanation.line())
    }

    /// One decision and its commit; whether it had facts, and what a command is answered. What a
    /// decision with facts answers is read by its `Debug` alone: only a receipt would release it.
    fn decide(&mut self, event: Event) -> Result<(bool, String), Refusal> {
        let named = matches!(&event, Event::Command(..));
        let before = self.with_situation(|situation| Census::take(&self.record, situation).total());
        let decision = self.with_situation(|situation| decide(situation, event.clone()))?;
        let again = self.with_situation(|situation| {
            let replicas = Replicas::Kept(&self.roster);
            decide(
                &Situation {
                    replicas,
                    ..*situation
                },
                event,
            )
        })?;
        assert_eq!(
            decision, again,
            "the same situation gives the same decision, however its replicas are kept"
        );
        let (changes, pending) = match decision.release_empty() {
            Ok((effects, answer)) => {
                self.wake_by(&effects);
                return Ok((false, format!("{answer:?}")));
            }
            Err(decision) => decision.into_facts(),
        };
        let answer = match named {
            true => format!("{pending:?}"),
            false => String::new(),
        };
        self.lsn += 1;
        let swapped = changes.iter().filter(|change| self.swaps(change)).count();
        let swapped = u32::try_from(swapped).expect("few");
        for change in changes {
            self.apply(change);
        }
        if self.checks && !named {
            self.check_available(before.available() - swapped);
        }
        self.check();
        Ok((true, answer))
    }

    /// Whether a replica goes because its replacement works: then one more was available for a moment.
    fn swaps(&self, change: &Change) -> bool {
        let Change::Job(JobFact::StopRequested { job, cause, .. }) = change else {
            return false;
        };
        let old = self.job(job.number);
        let live = self.live();
        *cause == Cause::TermDrain
            && old.moving
            && live.iter().any(|(other, standing)| {
                let of = |job: &JobRecord| {
                    let of = job.service.expect("a replica");
                    (self.record.root_of(of.version), of.index)
                };
                other.id != old.id && of(other) == of(old) && *standing == Standing::Available
            })
    }

    fn wake_by(&mut self, effects: &[Effect]) {
        for Effect::WakeAt(time) in effects {
            assert!(time.0 > self.now, "a wake lies ahead");
            self.wake = Some(time.0);
        }
    }

    fn check_available(&self, before: u32) {
        let fence = Fence::of(&self.record.settings.rollout, self.record.desired);
        let after = self
            .with_situation(|situation| Census::take(&self.record, situation).total().available());
        let allowed = before.min(fence.available_min());
        assert!(
            after >= allowed || self.record.is_deleting(),
            "available {before} -> {after}, minimum {}\n{}",
            fence.available_min(),
            self.story()
        );
    }

    pub fn apply(&mut self, change: Change) {
        self.log.push((self.now, Told::Decided(change.clone())));
        match change {
            Change::Service(ServiceFact::Deleted { .. }) => self.deleted = true,
            Change::Service(fact) => {
                let at = (ClusterTime(self.now), self.lsn, WallTime(5));
                self.record.apply(&fact, at.0, at.1, at.2);
            }
            Change::Job(fact) => self.apply_job(&fact),
        }
    }

    fn apply_job(&mut self, fact: &JobFact) {
        let at = (self.lsn, ClusterTime(self.now), WallTime(5));
        match fact {
            JobFact::ReplicasSubmitted {
                service,
                version,
                indices,
            } => self.submit(*service, *version, indices, at),
            JobFact::StopRequested { job, run, .. } => {
                self.change(*job, fact);
                let due = (
                    self.now + self.stop_time,
                    job.number,
                    *run,
                    Happens::Stopped,
                );
                self.queue.insert(due);
            }
            JobFact::Ended { job, .. }
            | JobFact::RestartGranted { job, .. }
            | JobFact::MoveBegan { job, .. }
            | JobFact::MoveEnded { job, .. } => self.change(*job, fact),
            other => panic!("a service does not decide {other:?}"),
        }
    }

    fn submit(
        &mut self,
        service: ServiceId,
        version: Version,
        indices: &[u32],
        at: (Lsn, ClusterTime, WallTime),
    ) {
        assert_eq!(
            version,
            self.record
                .leader(self.record.root_of(version))
                .expect("kept")
                .number
        );
        let root = self.record.root_of(version);
        let spec = Arc::clone(&self.record.version(version).expect("kept").spec);
        for &index in indices {
            let clash = self.live().into_iter().find(|(job, _)| {
                let of = job.service.expect("a replica");
                self.record.root_of(of.version) == root && of.index == index && !job.moving
            });
            assert!(clash.is_none(), "index {index} twice\n{}", self.story());
            let of = ServiceRef {
                service,
                version,
                index,
            };
            let id = JobId::single(self.next_job);
            self.next_job += 1;
            let job = JobRecord::submitted(id, Arc::clone(&spec), Some(of), at);
            let job = Arc::new(job);
            self.roster.change(None, Some(&job));
            self.jobs.push(job);
        }
        let fence = Fence::of(&self.record.settings.rollout, self.record.desired);
        let live = self.live().len();
        let most = match self.jobs.iter().any(|job| job.moving) {
            true => fence.live_max().max(fence.desired + 1),
            false => fence.live_max(),
        };
        assert!(
            live <= most as usize,
            "live {live} > {most}\n{}",
            self.story()
        );
    }

    fn change(&mut self, id: JobId, fact: &JobFact) {
        let (now, lsn) = (ClusterTime(self.now), self.lsn);
        let place = usize::try_from(id.number - 1).expect("small");
        let before = Arc::clone(&self.jobs[place]);
        let job = Arc::make_mut(&mut self.jobs[place]);
        job.apply(fact, now, lsn);
        job.check().expect("a job stays consistent");
        self.roster.change(Some(&before), Some(&self.jobs[place]));
    }

    pub fn job(&self, number: u64) -> &JobRecord {
        &self.jobs[usize::try_from(number - 1).expect("small")]
    }

    /// A fact of a job from outside the service.
    pub fn outside(&mut self, id: JobId, fact: &JobFact) {
        self.lsn += 1;
        self.log.push((self.now, Told::Outside(fact.clone())));
        self.change(id, fact);
    }

    /// Live replicas (not lost ones) and what they count as.
    pub fn live(&self) -> Vec<(Arc<JobRecord>, Standing)> {
        self.with_situation(|situation| {
            Census::take(&self.record, situation)
                .replicas
                .iter()
                .filter(|replica| replica.standing != Standing::Lost)
                .map(|replica| (Arc::clone(replica.job), replica.standing))
                .collect()
        })
    }

    /// Records by which replicas were submitted.
    pub fn records_of_submission(&self) -> usize {
        let submits = |told: &&(u64, Told)| {
            matches!(
                told.1,
                Told::Decided(Change::Job(JobFact::ReplicasSubmitted { .. }))
            )
        };
        self.log.iter().filter(submits).count()
    }

    /// The end of the log, for a message.
    pub fn story(&self) -> String {
        let from = self.log.len().saturating_sub(60);
        let line = |entry: &(u64, Told)| format!("{} {:?}", entry.0, entry.1);
        let lines: Vec<String> = self.log[from..].iter().map(line).collect();
        format!("seed {}\n{}", self.seed, lines.join("\n"))
    }

    fn check(&self) {
        let mut anew = Roster::default();
        for job in &self.jobs {
            anew.change(None, Some(job));
        }
        assert_eq!(anew, self.roster, "as counted anew\n{}", self.story());
        if let Err(text) = self.record.check() {
            panic!("{text}\n{}", self.story());
        }
    }

    /// Decides until nothing comes out, and places what may be placed.
    pub fn settle(&mut self) {
        if self.deleted || self.held {
            return;
        }
        self.wake = None;
        for _ in 0..100 {
            if !self.decide(Event::Changed).expect("not refused").0 {
                return self.place();
            }
            if self.deleted {
                return;
            }
        }
        panic!("decisions do not end\n{}", self.story());
    }

    /// One decision without what follows; whether it had facts.
    pub fn one_decision(&mut self) -> bool {
        self.decide(Event::Changed).expect("not refused").0
    }

    pub fn command(&mut self, command: Command) -> Result<String, Refusal> {
        let event = Event::Command(Box::new(command), author());
        let answer = self.decide(event)?.1;
        self.settle();
        Ok(answer)
    }

    /// A command that is accepted, and its first decision only.
    pub fn command_once(&mut self, command: Command) -> String {
        let event = Event::Command(Box::new(command), author());
        self.decide(event).expect("not refused").1
    }

    pub fn scale(&mut self, desired: u32) {
        let remove = Vec::new();
        let answer = self.command(Command::Scale { desired, remove });
        assert!(answer.is_ok(), "{answer:?}");
    }

    pub fn update(&mut self, text: &str) {
        let answer = self.command(update(&self.record, text));
        assert!(answer.is_ok(), "{answer:?}");
    }

    /// Gives pending replicas to hosts, as the placement would.
    pub fn place(&mut self) {
        let mut used: BTreeMap<String, usize> = BTreeMap::new();
        let mut dispatched: BTreeMap<Version, u32> = BTreeMap::new();
        let mut pending = Vec::new();
        for (job, standing) in self.live() {
            let root = self.record.root_of(job.service.expect("a replica").version);
            match standing {
                Standing::Pending => pending.push((job.id, root)),
                Standing::Stopping => {}
                _ => *dispatched.entry(root).or_default() += 1,
            }
            if let (Some(host), true) = (&job.host, job.state.holds_host()) {
                *used.entry(host.to_string()).or_default() += 1;
            }
        }
        let mut placed = false;
        for (id, root) in pending {
            let limit = self.record.dispatch_limit(root).unwrap_or(u32::MAX);
            let count = dispatched.entry(root).or_default();
            let job = self.job(id.number);
            let limit = if self.ignores_limits { u32::MAX } else { limit };
            if *count >= limit || self.behaviour(job) == Behaviour::Unplaceable {
                continue;
            }
            let free = |host: &&String| used.get(*host).copied().unwrap_or(0) < self.slots;
            let open = |host: &String| !self.drains.contains_key(host);
            let up = self.hosts.iter();
            let up = up.filter(|(host, life)| **life == HostLife::Up && open(host));
            let best = up
                .map(|(host, _)| host)
                .filter(free)
                .min_by_key(|host| used.get(*host).copied().unwrap_or(0))
                .cloned();
            let Some(host) = best else { continue };
            *count += 1;
            *used.entry(host.clone()).or_default() += 1;
            let run = job.run + 1;
            let fact = JobFact::Placed {
                job: id,
                run,
                host,
                ports: vec![("http".to_owned(), 8000)],
            };
            self.outside(id, &fact);
            self.queue
                .insert((self.now, id.number, run, Happens::Start));
            placed = true;
        }
        if placed {
            self.settle();
        }
    }

    fn behaviour(&self, job: &JobRecord) -> Behaviour {
        let text = &job.spec.template.command[0];
        *self.behaviours.get(text).unwrap_or(&Behaviour::Ready(0))
    }

    /// Lets time pass and things happen.
    pub fn run_for(&mut self, millis: u64) {
        let end = self.now + millis;
        self.settle();
        let mut steps = 0;
        while !self.deleted {
            steps += 1;
            assert!(steps < 20_000, "too much happens\n{}", self.story());
            let next = self.queue.first().copied();
            let due = next.map_or(u64::MAX, |next| next.0.max(self.now));
            let wake = self.wake.unwrap_or(u64::MAX);
            if due.min(wake) > end {
                break;
            }
            self.now = due.min(wake).max(self.now);
            if due <= wake {
                let next = next.expect("it is due");
                self.queue.remove(&next);
                self.happen(next.1, next.2, next.3);
            }
            self.settle();
        }
        self.now = end;
        if !self.deleted {
            self.settle();
        }
    }

    fn happen(&mut self, number: u64, run: Run, what: Happens) {
        let job = self.job(number).clone();
        let host = job.host.as_deref().unwrap_or_default();
        if job.run != run || !job.state.holds_host() {
            return;
        }
        if self.hosts.get(host) != Some(&HostLife::Up) {
            // Nothing is heard of it; later, if its host comes back.
            if self.hosts.get(host) != Some(&HostLife::Lost) {
                self.queue.insert((self.now + 1_000, number, run, what));
            }
            return;
        }
        let id = job.id;
        match what {
            Happens::Start if job.state == JobState::Start => self.start(&job),
            Happens::Ready if job.state == JobState::Run => {
                self.outside(
                    id,
                    &JobFact::Ready {
                        job: id,
                        run,
                        start: 1,
                    },
                );
            }
            Happens::Crash if job.state == JobState::Run => self.end(number, Cause::Exited),
            Happens::Stopped => {
                let cause = job.stop.map_or(Cause::Exited, |stop| stop.cause);
                self.end(number, cause);
            }
            Happens::Start | Happens::Ready | Happens::Crash => {}
        }
    }

    /// Every host confirms the stops that it was asked for.
    pub fn confirm_stops(&mut self) {
        let stopping: Vec<u64> = self
            .jobs
            .iter()
            .filter(|job| job.state == JobState::Stopping)
            .map(|job| job.id.number)
            .collect();
        for number in stopping {
            let cause = self
                .job(number)
                .stop
                .map_or(Cause::Exited, |stop| stop.cause);
            self.end(number, cause);
        }
    }

    /// Places what may be placed and lets it start, without a decision.
    pub fn place_and_run(&mut self) {
        self.held = true;
        self.place();
        while let Some(next) = self
            .queue
            .first()
            .copied()
            .filter(|next| next.0 <= self.now)
        {
            self.queue.remove(&next);
            self.happen(next.1, next.2, next.3);
        }
        self.now += 1;
        self.held = false;
    }

    fn start(&mut self, job: &JobRecord) {
        let (id, run) = (job.id, job.run);
        let fact = JobFact::Started {
            job: id,
            run,
            start: 1,
            pid: 100,
            at: WallTime(5),
        };
        self.outside(id, &fact);
        let mut later = |after: u64, what| {
            self.queue.insert((self.now + after, id.number, run, what));
        };
        match self.behaviours.get(&job.spec.template.command[0]) {
            None => later(0, Happens::Ready),
            Some(Behaviour::Ready(after)) => later(*after, Happens::Ready),
            Some(Behaviour::NeverReady | Behaviour::Unplaceable) => {}
            Some(Behaviour::Crash(after)) => later(*after, Happens::Crash),
            Some(Behaviour::ReadyThenCrash(after)) => {
                later(0, Happens::Ready);
                later(*after, Happens::Crash);
            }
        }
    }

    /// A replica ends.
    pub fn end(&mut self, number: u64, cause: Cause) {
        let job = self.job(number);
        let (id, run) = (job.id, job.run);
        let mut exit = Exit::of(cause);
        if cause == Cause::Exited {
            exit.code = Some(1);
        }
        let fact = JobFact::Ended {
            job: id,
            run,
            exit,
            at: WallTime(5),
            stderr: "cannot open secret\n".to_owned(),
        };
        self.outside(id, &fact);
    }

    /// A replica that is ready is not any more, or the other way round.
    pub fn flap(&mut self, number: u64) {
        let job = self.job(number);
        let (id, run, start) = (job.id, job.run, job.start);
        if job.state != JobState::Run {
            return;
        }
        let fact = match job.ready_since {
            Some(_) => JobFact::NotReady {
                job: id,
                run,
                start,
                text: "status 503".to_owned(),
            },
            None => JobFact::Ready {
                job: id,
                run,
                start,
            },
        };
        self.outside(id, &fact);
    }

    pub fn host(&mut self, host: &str, life: HostLife) {
        self.lsn += 1;
        self.log.push((self.now, Told::Host(host.to_owned(), life)));
        self.hosts.insert(host.to_owned(), life);
        if life == HostLife::Lost && self.ends_lost {
            let lost: Vec<u64> = self
                .jobs
                .iter()
                .filter(|job| job.state.holds_host() && job.host.as_deref() == Some(host))
                .map(|job| job.id.number)
                .collect();
            lost.into_iter()
                .for_each(|number| self.end(number, Cause::HostLost));
        }
        if life == HostLife::Up {
            let stopping: Vec<(u64, u64, Run, Happens)> = self
                .jobs
                .iter()
                .filter(|job| job.state == JobState::Stopping && job.host.as_deref() == Some(host))
                .map(|job| (self.now, job.id.number, job.run, Happens::Stopped))
                .collect();
            self.queue.extend(stopping);
            let starting: Vec<(u64, u64, Run, Happens)> = self
                .jobs
                .iter()
                .filter(|job| job.state == JobState::Start && job.host.as_deref() == Some(host))
                .map(|job| (self.now, job.id.number, job.run, Happens::Start))
                .collect();
            self.queue.extend(starting);
        }
    }

    /// A host is drained, with a deadline after so many milliseconds, or is not any more.
    pub fn drain(&mut self, host: &str, drained: Option<Option<u64>>) {
        self.lsn += 1;
        match drained {
            Some(after) => {
                let until = after.map(|after| self.now + after);
                self.drains.insert(host.to_owned(), until);
            }
            None => drop(self.drains.remove(host)),
        }
    }

    /// Live replicas that are not stopping, by root of their version.
    pub fn mix(&self) -> BTreeMap<Version, usize> {
        let mut mix = BTreeMap::new();
        for (job, standing) in self.live() {
            if standing != Standing::Stopping {
                let version = job.service.expect("a replica").version;
                *mix.entry(self.record.root_of(version)).or_default() += 1;
            }
        }
        mix
    }

    /// Numbers of the jobs of a version (not of its copies) that are live and not stopping.
    pub fn of_version(&self, version: Version) -> Vec<u64> {
        self.live()
            .into_iter()
            .filter(|(job, standing)| {
                *standing != Standing::Stopping
                    && job.service.is_some_and(|of| of.version == version)
            })
            .map(|(job, _)| job.id.number)
            .collect()
    }

    pub fn available(&self) -> u32 {
        self.with_situation(|situation| Census::take(&self.record, situation).total().available())
    }
}
