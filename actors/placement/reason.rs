//! The reason of a waiting job, as a stable word and a sentence.

use std::fmt::Display;

use xce_host::HostRecord;
use xce_ledger::View;
use xce_model::spec::Template;
use xce_model::{Bytes, MilliCpu};

use crate::pool::{Miss, Pool, Slot};

/// Why a job waits.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Reason {
    /// A stable word, such as `needs_cpus`.
    pub code: &'static str,
    /// A sentence in the user's words, with numbers and names.
    pub text: String,
}

/// Hosts named in one sentence. Source: derived, what fits a terminal's line.
const NAMED_MAX: usize = 3;

impl Reason {
    pub(crate) fn new(code: &'static str, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
        }
    }
}

/// Joins some of the parts, and says how many were left out.
fn list<T: Display>(parts: impl ExactSizeIterator<Item = T>) -> String {
    let more = parts.len().saturating_sub(NAMED_MAX);
    let mut text = String::new();
    for part in parts.take(NAMED_MAX) {
        if !text.is_empty() {
            text.push_str(", ");
        }
        text.push_str(&part.to_string());
    }
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

/// The reason when no host takes jobs.
pub(crate) fn no_host(view: &View) -> Reason {
    if view.hosts().is_empty() {
        return Reason::new("no_host", "no host has joined");
    }
    let state = |host: &HostRecord| match (&host.closed, &host.drain) {
        (Some(closure), _) => format!("{} is closed ({})", host.inventory.name, closure.reason),
        (None, Some(drain)) => format!("{} is drained ({})", host.inventory.name, drain.reason),
        (None, None) => format!("{} is {}", host.inventory.name, host.life.word()),
    };
    let up: Vec<&HostRecord> = view.hosts().values().map(|host| &**host).collect();
    let any_up = up.iter().any(|host| host.is_reachable());
    let states = list(up.iter().map(|host| state(host)));
    if any_up {
        Reason::new("hosts_closed", format!("no host takes jobs: {states}"))
    } else {
        Reason::new("no_host_up", format!("no host is up: {states}"))
    }
}

/// The reason when every host that takes jobs misses something. Hosts that miss the least decide.
pub(crate) fn of_misses(pool: &Pool<'_>, template: &Template, misses: &[(usize, Miss)]) -> Reason {
    let on = |is: fn(&Miss) -> bool| -> Vec<(&Slot<'_>, &Miss)> {
        let hosts = misses.iter().filter(|(_, miss)| is(miss));
        hosts
            .map(|(host, miss)| (&pool.slots[*host], miss))
            .collect()
    };
    let room = on(|miss| matches!(miss, Miss::Cpus | Miss::Memory));
    if !room.is_empty() {
        return needs_room(template, &room);
    }
    let others = [
        (on(|miss| matches!(miss, Miss::Port { .. })), "port"),
        (on(|miss| matches!(miss, Miss::Range)), "port_range"),
        (on(|miss| matches!(miss, Miss::Spread { .. })), "spread"),
        (on(|miss| matches!(miss, Miss::Avoided)), "avoided"),
        (on(|miss| matches!(miss, Miss::Tried)), "host_tried"),
    ];
    let mut parts: Vec<String> = Vec::new();
    let mut code = None;
    for (hosts, word) in others.iter().filter(|(hosts, _)| !hosts.is_empty()) {
        code = code.or(Some(*word));
        parts.push(blocked_on(hosts));
    }
    match code {
        Some(code) => Reason::new(code, parts.join("; ")),
        None => never(pool, template, misses),
    }
}

fn blocked_on(hosts: &[(&Slot<'_>, &Miss)]) -> String {
    let Some((_, first)) = hosts.first() else {
        return String::new();
    };
    match first {
        Miss::Port { port, .. } => in_use(*port, hosts),
        Miss::Range => {
            let range = |(slot, _): &(&Slot<'_>, &Miss)| {
                let inventory = &slot.record.inventory;
                format!(
                    "{} ({}-{})",
                    slot.name, inventory.port_first, inventory.port_last
                )
            };
            format!(
                "no free port in the range of {}",
                list(hosts.iter().map(range))
            )
        }
        Miss::Spread { limit, .. } => spread_out(*limit, hosts),
        Miss::Avoided => {
            let hosts = list(hosts.iter().map(|(slot, _)| slot.name));
            format!("{hosts} could not start it before")
        }
        Miss::Tried => {
            let closed = |(slot, _): &(&Slot<'_>, &Miss)| match &slot.record.closed {
                Some(closure) => format!("{} ({})", slot.name, closure.reason),
                None => slot.name.to_string(),
            };
            let hosts = list(hosts.iter().map(closed));
            format!("closed, and another job tries it: {hosts}")
        }
        Miss::Label { .. } | Miss::Larger | Miss::Cpus | Miss::Memory => String::new(),
    }
}

/// Whether a port that is asked for is held, and by whom, on each host.
fn in_use(port: u16, hosts: &[(&Slot<'_>, &Miss)]) -> String {
    let holder = |(slot, miss): &(&Slot<'_>, &Miss)| {
        let Miss::Port {
            port: other,
            holder,
        } = miss
        else {
            return slot.name.to_string();
        };
        let which = if *other == port {
            String::new()
        } else {
            format!("{other} on ")
        };
        match holder {
            Some(job) => format!("{which}{} (job {job})", slot.name),
            None => format!("{which}{} (asked for twice)", slot.name),
        }
    };
    format!("port {port} in use on {}", list(hosts.iter().map(holder)))
}

/// How many replicas of the version each host has already.
fn spread_out(limit: u32, hosts: &[(&Slot<'_>, &Miss)]) -> String {
    let there = |(slot, miss): &(&Slot<'_>, &Miss)| match miss {
        Miss::Spread { there, .. } => format!("{} has {there}", slot.name),
        Miss::Label { .. }
        | Miss::Avoided
        | Miss::Larger
        | Miss::Port { .. }
        | Miss::Range
        | Miss::Tried
        | Miss::Cpus
        | Miss::Memory => slot.name.to_string(),
    };
    let hosts = list(hosts.iter().map(there));
    format!("at most {limit} replicas of its version may be on one host: {hosts}")
}

fn needs_room(template: &Template, room: &[(&Slot<'_>, &Miss)]) -> Reason {
    let asked = template.resources;
    let lacking = |what: Miss| -> Vec<&Slot<'_>> {
        let hosts = room.iter().filter(|(_, miss)| **miss == what);
        hosts.map(|(slot, _)| *slot).collect()
    };
    let (cpus, memory) = (lacking(Miss::Cpus), lacking(Miss::Memory));
    let mut parts = Vec::new();
    if !cpus.is_empty() {
        let have = free(
            &cpus,
            |slot| MilliCpu(slot.free_cpus),
            |cpus| cpus.to_string(),
        );
        parts.push(format!("needs {} cpus: {have}", asked.cpus));
    }
    if !memory.is_empty() {
        let have = free(&memory, |slot| Bytes(slot.free_memory), whole_mebibytes);
        parts.push(format!(
            "needs {} of memory: {have}",
            asked.memory.rounded()
        ));
    }
    let code = if cpus.is_empty() {
        "needs_memory"
    } else {
        "needs_cpus"
    };
    Reason::new(code, parts.join("; "))
}

/// An amount of memory in whole mebibytes, never more than there is.
fn whole_mebibytes(bytes: Bytes) -> String {
    const MEBIBYTE: u64 = 1 << 20;
    if bytes.0 < MEBIBYTE {
        bytes.to_string()
    } else {
        Bytes(bytes.0 / MEBIBYTE * MEBIBYTE).to_string()
    }
}

/// What is free on the best of some hosts, and on the others.
fn free<T: Ord + Copy + Default>(
    hosts: &[&Slot<'_>],
    of: fn(&Slot<'_>) -> T,
    shown: fn(T) -> String,
) -> String {
    let mut amounts: Vec<(T, &str)> = hosts.iter().map(|slot| (of(slot), &**slot.name)).collect();
    // The most first; the first by name among equals.
    amounts.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
    match amounts[..] {
        [] => String::new(),
        [(most, name)] => format!("{} free on {name}", shown(most)),
        [(most, _), ..] if most == T::default() => format!("{} free on every host", shown(most)),
        [(most, name), (second, _), ..] => {
            format!(
                "at most {} free on {name}, {} elsewhere",
                shown(most),
                shown(second)
            )
        }
    }
}

/// No host would take it even if it were empty.
fn never(pool: &Pool<'_>, template: &Template, misses: &[(usize, Miss)]) -> Reason {
    let asked = template.resources;
    let suited = misses.iter().filter(|(_, miss)| *miss == Miss::Larger);
    let suited: Vec<&Slot<'_>> = suited.map(|(host, _)| &pool.slots[*host]).collect();
    let with = template
        .constraints
        .iter()
        .map(|(name, value)| format!("{name}={value}"));
    let with = with.collect::<Vec<_>>().join(", ");
    if suited.is_empty() {
        let text = format!("no host that takes jobs has {with}");
        return Reason::new("no_such_label", text);
    }
    let kind = if with.is_empty() {
        String::new()
    } else {
        format!(" with {with}")
    };
    let largest = |of: fn(&Slot<'_>) -> u64| {
        // The first by name among equals.
        suited.iter().rev().max_by_key(|slot| of(slot))
    };
    if let Some(largest) = largest(|slot| slot.record.inventory.cpus.0)
        && largest.record.inventory.cpus < asked.cpus
    {
        let text = format!(
            "no host{kind} has {} cpus: the largest is {} with {}",
            asked.cpus, largest.name, largest.record.inventory.cpus
        );
        return Reason::new("larger_than_hosts", text);
    }
    if let Some(largest) = largest(|slot| slot.record.inventory.memory.0)
        && largest.record.inventory.memory < asked.memory
    {
        let text = format!(
            "no host{kind} has {} of memory: the largest is {} with {}",
            asked.memory.rounded(),
            largest.name,
            largest.record.inventory.memory.rounded()
        );
        return Reason::new("larger_than_hosts", text);
    }
    let text = format!(
        "no host{kind} has both {} cpus and {} of memory",
        asked.cpus,
        asked.memory.rounded()
    );
    Reason::new("larger_than_hosts", text)
}
