//! The audit: what must hold of the whole ledger, checked by counting anew.

use std::collections::{BTreeMap, BTreeSet};

use xce_model::{JobId, ServiceId, Version};
use xce_replica::JobRecord;

use crate::changes::Changes;
use crate::usage::Usage;
use crate::view::View;

/// Something that does not hold.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// Which invariant, a stable word such as `port_held_twice`.
    pub code: &'static str,
    /// A sentence that names what is wrong.
    pub text: String,
}

/// Most findings that are listed. Source: derived, more than anybody reads.
pub const FINDINGS_MAX: usize = 1000;

/// Checks every invariant of the ledger; an empty list is what it should say.
///
/// Costs in proportion to the whole state: for operators and tests, not for the commit path.
pub fn audit(view: &View) -> Vec<Finding> {
    let mut findings = Findings(Vec::new());
    records(view, &mut findings);
    elements(view, &mut findings);
    replicas(view, &mut findings);
    hosts(view, &mut findings);
    names(view, &mut findings);
    numbers(view, &mut findings);
    derived(view, &mut findings);
    findings.0
}

struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, code: &'static str, text: impl Into<String>) {
        if self.0.len() < FINDINGS_MAX {
            self.0.push(Finding {
                code,
                text: text.into(),
            });
        }
    }

    fn check(&mut self, code: &'static str, result: Result<(), String>) {
        if let Err(text) = result {
            self.add(code, text);
        }
    }
}

/// Each record by itself, and that it stands under its own key.
fn records(view: &View, findings: &mut Findings) {
    for (id, job) in &view.jobs {
        findings.check("job", job.check());
        if *id != job.id {
            findings.add("job", format!("job {} stands under {id}", job.id));
        }
    }
    for (number, array) in &view.arrays {
        findings.check("array", array.check());
        if *number != array.number {
            findings.add(
                "array",
                format!("array {} stands under {number}", array.number),
            );
        }
    }
    for (id, service) in &view.services {
        findings.check("service", service.check());
        if *id != service.id {
            findings.add(
                "service",
                format!("service {} stands under {id}", service.id),
            );
        }
    }
    for (name, host) in &view.hosts {
        if **name != *host.inventory.name {
            findings.add(
                "host",
                format!("host {} stands under {name}", host.inventory.name),
            );
        }
    }
    for (key, policy) in &view.policies {
        if *key != policy.key() || policy.generation == 0 {
            let text = format!(
                "{} {} stands under {}",
                policy.kind.word(),
                policy.name,
                key.1
            );
            findings.add("policy", text);
        }
    }
    findings.check("operations", view.operations.check());
}

fn elements(view: &View, findings: &mut Findings) {
    let mut counted: BTreeMap<u64, crate::arrays::ElementCounts> = BTreeMap::new();
    for (id, job) in &view.jobs {
        if id.element == JobId::NO_ELEMENT {
            if view.arrays.contains_key(&id.number) {
                findings.add("element", format!("{id} is a job and an array"));
            }
            continue;
        }
        *counted.entry(id.number).or_default().slot(job.state) += 1;
        match view.array(id.number) {
            None => findings.add("element", format!("element {id} has no array")),
            Some(array) if array.folded_state(id.element).is_some() => {
                findings.add(
                    "element",
                    format!("element {id} is also in its array's ranges"),
                );
            }
            Some(_) => {}
        }
    }
    for (number, array) in &view.arrays {
        if counted.get(number).copied().unwrap_or_default() != array.counts {
            findings.add(
                "element",
                format!("array {number} counts its elements wrongly"),
            );
        }
    }
}

fn replicas(view: &View, findings: &mut Findings) {
    let mut live: BTreeSet<(ServiceId, Version, u32)> = BTreeSet::new();
    let alive = view.jobs.values().filter(|job| !job.state.is_terminal());
    for job in alive {
        let Some(replica) = job.service else { continue };
        if !view.services.contains_key(&replica.service) {
            let text = format!(
                "replica {} belongs to service {}, which does not exist",
                job.id, replica.service
            );
            findings.add("orphan", text);
        }
        // One that is moved or lost shares its index with the replica that takes its place.
        if !job.moving
            && !view.is_lost(job)
            && !live.insert((replica.service, replica.version, replica.index))
        {
            let text = format!(
                "service {} version {} has two live replicas with index {}",
                replica.service, replica.version, replica.index
            );
            findings.add("index_twice", text);
        }
    }
}

/// What the jobs hold of each host, counted anew.
fn hosts(view: &View, findings: &mut Findings) {
    let mut on: BTreeMap<&str, Vec<&JobRecord>> = BTreeMap::new();
    for job in view.jobs.values().filter(|job| job.state.holds_host()) {
        if let Some(host) = job.host.as_deref() {
            on.entry(host).or_default().push(job);
        }
    }
    for (host, jobs) in &on {
        if !view.hosts.contains_key(*host) {
            findings.add(
                "no_host",
                format!("jobs hold host {host}, which does not exist"),
            );
        }
        let mut ports: BTreeMap<u16, JobId> = BTreeMap::new();
        for job in jobs {
            for (_, port) in &job.ports {
                if let Some(other) = ports.insert(*port, job.id) {
                    let text = format!(
                        "port {port} of host {host} is held by {other} and {}",
                        job.id
                    );
                    findings.add("port_held_twice", text);
                }
            }
        }
        let sum = |of: fn(&JobRecord) -> u64, lasting: bool| -> u64 {
            let counted = jobs.iter().filter(|job| !lasting || job.service.is_some());
            counted.map(|job| of(job)).fold(0, u64::wrapping_add)
        };
        let cpus = |job: &JobRecord| job.spec.template.resources.cpus.0;
        let memory = |job: &JobRecord| job.spec.template.resources.memory.0;
        let left = Left::on(view, host);
        let same = view.usage(host).is_some_and(|usage| {
            usage.cpus.0 == sum(cpus, false).wrapping_add(left.cpus)
                && usage.memory.0 == sum(memory, false).wrapping_add(left.memory)
                && left.is_counted(usage)
                && usage.lasting_cpus.0 == sum(cpus, true)
                && usage.lasting_memory.0 == sum(memory, true)
                && usage.jobs.iter().eq(jobs.iter().map(|job| &job.id))
                && usage.ports.iter().eq(ports.iter())
        });
        if !same {
            findings.add(
                "usage",
                format!("what is held of host {host} is counted wrongly"),
            );
        }
    }
    for (name, usage) in &view.usage {
        let left = Left::on(view, name);
        if on.contains_key(&**name) {
            continue;
        }
        let same = usage.jobs.is_empty()
            && usage.remnants > 0
            && (usage.cpus.0, usage.memory.0) == (left.cpus, left.memory)
            && left.is_counted(usage);
        if !same {
            let text = format!("host {name} is counted as used, and nothing holds it so");
            findings.add("usage", text);
        }
    }
    for (name, host) in &view.hosts {
        if !host.remnants.is_empty() && !view.usage.contains_key(name) {
            let text = format!("runs that may still live on host {name} hold nothing");
            findings.add("usage", text);
        }
    }
}

/// What runs that are not counted any more may still use of a host.
#[derive(Default)]
struct Left {
    cpus: u64,
    memory: u64,
    count: usize,
    ports: BTreeMap<u16, u32>,
}

impl Left {
    fn on(view: &View, host: &str) -> Self {
        let mut left = Self::default();
        for remnant in view.host(host).into_iter().flat_map(|host| &host.remnants) {
            left.cpus = left.cpus.wrapping_add(remnant.cpus.0);
            left.memory = left.memory.wrapping_add(remnant.memory.0);
            left.count += 1;
            for port in &remnant.ports {
                *left.ports.entry(*port).or_default() += 1;
            }
        }
        left
    }

    fn is_counted(&self, usage: &Usage) -> bool {
        usage.remnants as usize == self.count && usage.remnant_ports.iter().eq(self.ports.iter())
    }
}

fn names(view: &View, findings: &mut Findings) {
    let mut count = 0;
    for service in view.services.values() {
        let found = view.service_named(&service.project, &service.name);
        if found.map(|found| found.id) != Some(service.id) {
            findings.add(
                "name",
                format!("service {} is not found by its name", service.id),
            );
        }
        count += 1;
    }
    let named: usize = view.names.values().map(imbl::OrdMap::len).sum();
    if named != count {
        findings.add("name", format!("{named} names for {count} services"));
    }
}

fn numbers(view: &View, findings: &mut Findings) {
    let job = view.jobs.get_max().map_or(0, |(id, _)| id.number);
    let array = view.arrays.get_max().map_or(0, |(number, _)| *number);
    let service = view.services.get_max().map_or(0, |(id, _)| id.0);
    let session = view.sessions.get_max().map_or(0, |(id, _)| id.0);
    if job.max(array) > view.last_job || service > view.last_service || session > view.last_session
    {
        findings.add("number", "an id is above the highest that was given");
    }
    for (id, generation) in &view.endpoints {
        if !view.services.contains_key(id) || *generation > view.lsn {
            let text = format!("endpoints of service {id} have generation {generation}");
            findings.add("endpoints", text);
        }
    }
}

/// The derived tables against ones that are built anew from the records.
fn derived(view: &View, findings: &mut Findings) {
    let mut anew = View::default();
    for job in view.jobs.values() {
        anew.put_job((**job).clone());
    }
    for array in view.arrays.values() {
        anew.put_array((**array).clone());
    }
    let mut compare = |same: bool, what: &str| {
        if !same {
            findings.add("derived", format!("{what} differs from a recount"));
        }
    };
    compare(anew.pending == view.pending, "the index of waiting jobs");
    compare(anew.requests == view.requests, "the index of requests");
    compare(anew.delays == view.delays, "the index of delays");
    compare(anew.replicas == view.replicas, "the index of replicas");
    compare(anew.ended == view.ended, "the index of ended jobs");
    compare(anew.job_count == view.job_count, "the number of jobs");
    let jobs = view.jobs.iter().map(|(id, job)| (job.changed, *id));
    compare(
        is_index(&view.changes.jobs, jobs),
        "the change index of jobs",
    );
    let arrays = view.arrays.iter().map(|(id, array)| (array.changed, *id));
    compare(
        is_index(&view.changes.arrays, arrays),
        "the change index of arrays",
    );
    let hosts = view
        .hosts
        .iter()
        .map(|(id, host)| (host.changed, id.clone()));
    compare(
        is_index(&view.changes.hosts, hosts),
        "the change index of hosts",
    );
    let services = view
        .services
        .iter()
        .map(|(id, service)| (service.changed, *id));
    compare(
        is_index(&view.changes.services, services),
        "the change index of services",
    );
    let sessions = view
        .sessions
        .iter()
        .map(|(id, session)| (session.changed, *id));
    compare(
        is_index(&view.changes.sessions, sessions),
        "the change index of sessions",
    );
    let policies = view
        .policies
        .iter()
        .map(|(key, policy)| (policy.changed, key.clone()));
    compare(
        is_index(&view.changes.policies, policies),
        "the change index of policies",
    );
}

fn is_index<Key: Ord + Clone>(
    changes: &Changes<Key>,
    entries: impl Iterator<Item = (u64, Key)>,
) -> bool {
    let anew: BTreeSet<(u64, Key)> = entries.collect();
    let keys: BTreeSet<&Key> = anew.iter().map(|(_, key)| key).collect();
    changes.entries().iter().eq(anew.iter())
        && changes
            .tombstones()
            .iter()
            .all(|(_, key)| !keys.contains(key))
}
