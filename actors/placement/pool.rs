//! The hosts that take jobs, with what is free of each while a plan is made.

use std::collections::BTreeMap;
use std::sync::Arc;

use xce_host::HostRecord;
use xce_ledger::{Usage, View};
use xce_model::spec::Template;
use xce_model::{ClusterTime, JobId, ServiceId, Version};
use xce_replica::ServiceRef;

use crate::candidate::Candidate;

/// Why a job does not fit on one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Miss {
    /// A label differs.
    Label { name: String, value: String },
    /// The host could not start it before.
    Avoided,
    /// More than the host has.
    Larger,
    /// As many replicas of its version as a strict spread allows.
    Spread { there: u32, limit: u32 },
    /// A fixed port is held.
    Port { port: u16, holder: Option<JobId> },
    /// No port of the range is free.
    Range,
    /// It is closed, and another job tries it.
    Tried,
    /// Too few processors free.
    Cpus,
    /// Too little memory free.
    Memory,
}

/// Where a job is placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    pub host: usize,
    pub ports: Vec<(String, u16)>,
}

/// What a job that fits nowhere means for those behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nowhere {
    /// Ends of batch jobs will make room: those behind it wait.
    Blocks,
    /// Nothing that ends by itself helps: those behind it may go ahead.
    Passes,
}

/// One host and what is left of it.
pub(crate) struct Slot<'a> {
    pub name: &'a Arc<str>,
    pub record: &'a HostRecord,
    pub free_cpus: u64,
    pub free_memory: u64,
    // Capacity that replicas of services do not hold.
    passing_cpus: u64,
    passing_memory: u64,
    usage: Option<&'a Usage>,
    ports: Vec<u16>,
    /// Whether it is closed and takes one job to be tried, and how many more of them.
    trial: Option<u32>,
}

/// All hosts that take jobs, by name.
pub(crate) struct Pool<'a> {
    view: &'a View,
    pub slots: Vec<Slot<'a>>,
    versions: BTreeMap<(ServiceId, Version), Vec<u32>>,
}

impl<'a> Pool<'a> {
    pub fn open(view: &'a View, now: ClusterTime) -> Self {
        let takes = |host: &HostRecord| host.takes_jobs() || view.takes_trial(host, now);
        let hosts = view.hosts().iter().filter(|(_, host)| takes(host));
        Self {
            view,
            slots: hosts
                .map(|(name, host)| Slot::open(view, name, host))
                .collect(),
            versions: BTreeMap::new(),
        }
    }

    /// Whether any host has so much free.
    pub fn has_room(&self, cpus: u64, memory: u64) -> bool {
        self.slots
            .iter()
            .any(|slot| slot.free_cpus >= cpus && slot.free_memory >= memory)
    }

    /// The best host for a job.
    pub fn choose(&mut self, candidate: &Candidate<'a>) -> Result<Choice, Nowhere> {
        let there = self.count_version(candidate);
        let avoids = self.avoids(candidate);
        let mut best: Option<(Rank, Choice)> = None;
        let mut nowhere = Nowhere::Passes;
        for (host, slot) in self.slots.iter().enumerate() {
            let count = there.get(host).copied().unwrap_or(0);
            match slot.fit(self.view, candidate, count, avoids) {
                Ok(ports) => {
                    let rank = self.rank(candidate, &there, host);
                    if best.as_ref().is_none_or(|(other, _)| rank < *other) {
                        best = Some((rank, Choice { host, ports }));
                    }
                }
                Err(Miss::Cpus | Miss::Memory) => {
                    let asked = candidate.spec.template.resources;
                    if slot.passing_cpus >= asked.cpus.0 && slot.passing_memory >= asked.memory.0 {
                        nowhere = Nowhere::Blocks;
                    }
                }
                Err(
                    Miss::Label { .. }
                    | Miss::Avoided
                    | Miss::Larger
                    | Miss::Spread { .. }
                    | Miss::Port { .. }
                    | Miss::Range
                    | Miss::Tried,
                ) => {}
            }
        }
        self.keep_version(candidate, there);
        best.map(|(_, choice)| choice).ok_or(nowhere)
    }

    /// Takes what a job needs.
    pub fn take(&mut self, candidate: &Candidate<'a>, choice: &Choice) {
        let asked = candidate.spec.template.resources;
        let slot = &mut self.slots[choice.host];
        slot.free_cpus = slot.free_cpus.saturating_sub(asked.cpus.0);
        slot.free_memory = slot.free_memory.saturating_sub(asked.memory.0);
        slot.trial = slot.trial.map(|left| left.saturating_sub(1));
        slot.ports
            .extend(choice.ports.iter().map(|(_, port)| *port));
        if let Some(replica) = candidate.service {
            slot.passing_cpus = slot.passing_cpus.saturating_sub(asked.cpus.0);
            slot.passing_memory = slot.passing_memory.saturating_sub(asked.memory.0);
            let making = self.making(replica);
            if let Some(counts) = self.versions.get_mut(&making) {
                counts[choice.host] += 1;
            }
        }
    }

    /// Why a job does not fit on each host; hosts where it fits are left out.
    pub fn misses(&mut self, candidate: &Candidate<'a>) -> Vec<(usize, Miss)> {
        let there = self.count_version(candidate);
        let avoids = self.avoids(candidate);
        let miss = |(host, slot): (usize, &Slot<'a>)| {
            let count = there.get(host).copied().unwrap_or(0);
            slot.fit(self.view, candidate, count, avoids)
                .err()
                .map(|miss| (host, miss))
        };
        let misses = self.slots.iter().enumerate().filter_map(miss).collect();
        self.keep_version(candidate, there);
        misses
    }

    /// Whether hosts that could not start the job are left out: only while another one could take it.
    fn avoids(&self, candidate: &Candidate<'a>) -> bool {
        let other = |slot: &Slot<'a>| {
            slot.suits(&candidate.spec.template).is_ok()
                && !candidate.avoid.iter().any(|host| host == slot.name)
        };
        !candidate.avoid.is_empty() && self.slots.iter().any(other)
    }

    /// Replicas of the job's making on each host, taken out of the cache; empty for batch jobs.
    fn count_version(&mut self, candidate: &Candidate<'a>) -> Vec<u32> {
        let Some(replica) = candidate.service else {
            return Vec::new();
        };
        let making = self.making(replica);
        if let Some(counts) = self.versions.remove(&making) {
            return counts;
        }
        let mut counts = vec![0; self.slots.len()];
        for job in self.view.live_replicas(replica.service) {
            let same = job
                .service
                .is_some_and(|other| self.making(other) == making);
            let is_there = same && job.state.holds_host() && !self.view.is_lost(job);
            if let Some(host) = job.host.as_ref().filter(|_| is_there)
                && let Ok(place) = self.slots.binary_search_by(|slot| slot.name.cmp(host))
            {
                counts[place] += 1;
            }
        }
        counts
    }

    fn keep_version(&mut self, candidate: &Candidate<'a>, counts: Vec<u32>) {
        if let Some(replica) = candidate.service {
            self.versions.insert(self.making(replica), counts);
        }
    }

    /// The first version of a replica's making: one that was gone back to and the one that it copies
    /// are the same.
    fn making(&self, replica: ServiceRef) -> (ServiceId, Version) {
        let service = self.view.service(replica.service);
        let root = service.map_or(replica.version, |service| service.root_of(replica.version));
        (replica.service, root)
    }

    fn rank(&self, candidate: &Candidate<'a>, there: &[u32], host: usize) -> Rank {
        let slot = &self.slots[host];
        let count = there.get(host).copied().unwrap_or(0);
        let service = candidate.service.and_then(|replica| {
            let service = self.view.service(replica.service)?;
            Some((service, replica.version))
        });
        let spread = service.map(|(service, _)| &service.settings.spread);
        let failed = service.is_some_and(|(service, version)| {
            let version = service.leader(service.root_of(version));
            version.is_some_and(|version| version.failed_on(slot.name))
        });
        let limit = spread.and_then(|spread| spread.max_per_host);
        let label = spread.and_then(|spread| spread.label.as_deref());
        Rank {
            above_limit: limit.is_some_and(|limit| count >= limit),
            failed,
            in_zone: label.map_or(0, |label| self.in_zone(there, host, label)),
            replicas: count,
            load: load(slot),
        }
    }

    /// Replicas on all hosts with the same value of a label.
    fn in_zone(&self, there: &[u32], host: usize, label: &str) -> u32 {
        let value = self.slots[host].label(label);
        let hosts = self.slots.iter().zip(there);
        hosts
            .filter(|(slot, _)| slot.label(label) == value)
            .map(|(_, count)| *count)
            .sum()
    }
}

/// Order of hosts that fit: the lowest is chosen, the first by name among equals.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    above_limit: bool,
    /// Whether its version failed there of late: elsewhere it shows who is to blame.
    failed: bool,
    in_zone: u32,
    replicas: u32,
    load: u64,
}

/// Share of the processors that is used, in thousandths.
fn load(slot: &Slot<'_>) -> u64 {
    let all = slot.record.inventory.cpus.0.max(1);
    all.saturating_sub(slot.free_cpus).saturating_mul(1000) / all
}

impl<'a> Slot<'a> {
    fn open(view: &'a View, name: &'a Arc<str>, record: &'a HostRecord) -> Self {
        let usage = view.usage(name);
        let (cpus, memory) = (record.inventory.cpus.0, record.inventory.memory.0);
        let held = |of: fn(&Usage) -> u64| usage.map_or(0, of);
        Self {
            name,
            record,
            free_cpus: cpus.saturating_sub(held(|usage| usage.cpus.0)),
            free_memory: memory.saturating_sub(held(|usage| usage.memory.0)),
            passing_cpus: cpus.saturating_sub(held(|usage| usage.lasting_cpus.0)),
            passing_memory: memory.saturating_sub(held(|usage| usage.lasting_memory.0)),
            usage,
            ports: Vec::new(),
            trial: (!record.takes_jobs()).then_some(1),
        }
    }

    pub fn label(&self, name: &str) -> Option<&'a str> {
        let labels = &self.record.inventory.labels;
        let found = labels.iter().find(|(label, _)| label == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The ports that the job would get here, or the first thing that is missing: what no time will
    /// change first, what the end of a batch job gives last.
    fn fit(
        &self,
        view: &View,
        candidate: &Candidate<'_>,
        there: u32,
        avoids: bool,
    ) -> Result<Vec<(String, u16)>, Miss> {
        let template = &candidate.spec.template;
        self.suits(template)?;
        if self.trial == Some(0) {
            return Err(Miss::Tried);
        }
        if avoids && candidate.avoid.iter().any(|host| host == self.name) {
            return Err(Miss::Avoided);
        }
        self.spread(view, candidate, there)?;
        let ports = self.ports(template)?;
        if template.resources.cpus.0 > self.free_cpus {
            return Err(Miss::Cpus);
        }
        if template.resources.memory.0 > self.free_memory {
            return Err(Miss::Memory);
        }
        Ok(ports)
    }

    /// Whether the host could take it when it is empty.
    fn suits(&self, template: &Template) -> Result<(), Miss> {
        for (name, value) in &template.constraints {
            if self.label(name) != Some(value) {
                return Err(Miss::Label {
                    name: name.clone(),
                    value: value.clone(),
                });
            }
        }
        let inventory = &self.record.inventory;
        if template.resources.cpus > inventory.cpus || template.resources.memory > inventory.memory
        {
            return Err(Miss::Larger);
        }
        Ok(())
    }

    fn spread(&self, view: &View, candidate: &Candidate<'_>, there: u32) -> Result<(), Miss> {
        let service = candidate
            .service
            .and_then(|replica| view.service(replica.service));
        let Some(spread) = service.map(|service| &service.settings.spread) else {
            return Ok(());
        };
        match spread.max_per_host {
            Some(limit) if !spread.best_effort && there >= limit => {
                Err(Miss::Spread { there, limit })
            }
            Some(_) | None => Ok(()),
        }
    }

    fn ports(&self, template: &Template) -> Result<Vec<(String, u16)>, Miss> {
        // Fixed ones first, so that no free one takes theirs.
        let mut taken: Vec<u16> = Vec::with_capacity(template.ports.len());
        for port in template.ports.iter().filter_map(|spec| spec.port) {
            let holder = self.usage.and_then(|usage| usage.ports.get(&port).copied());
            let is_held = self.usage.is_some_and(|usage| usage.holds_port(port));
            if is_held || self.ports.contains(&port) || taken.contains(&port) {
                return Err(Miss::Port { port, holder });
            }
            taken.push(port);
        }
        let mut next = self.record.inventory.port_first;
        let mut ports = Vec::with_capacity(template.ports.len());
        for spec in &template.ports {
            let port = match spec.port {
                Some(port) => port,
                None => {
                    let port = self.free_port(next, &taken).ok_or(Miss::Range)?;
                    taken.push(port);
                    next = port;
                    port
                }
            };
            ports.push((spec.name.clone(), port));
        }
        Ok(ports)
    }

    fn free_port(&self, from: u16, taken: &[u16]) -> Option<u16> {
        (from.max(1)..=self.record.inventory.port_last).find(|port| {
            !taken.contains(port)
                && !self.ports.contains(port)
                && self.usage.is_none_or(|usage| !usage.holds_port(*port))
        })
    }
}
