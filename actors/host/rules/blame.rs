//! What fails on a host by the host's own fault: it is closed, tried with one job after a while, and
//! opened again when that one does well.
//!
//! A replica that fails says little: the service may be to blame, or chance. So only replicas count
//! that had not run for long, and only of services that are still there. A service that fails on
//! many hosts speaks against itself. A host is blamed when several such services fail on it and on no other
//! host, or when far more fails on it than on the others. However much fails, half of the hosts stay
//! open: where everything fails everywhere, the hosts are not to blame.

use std::fmt::Write as _;

use xce_model::{ClusterTime, Millis, ServiceId};

use crate::facts::HostFact;
use crate::state::{FAILURES_WINDOW, HostRecord, LAUNCH_FAIL_LIMIT, ReplicaFailures};

/// Services that must fail on a host alone. Source: design section 6.5, "several".
pub const SERVICES_MIN: usize = 2;
/// Failures within the window that make a rate. Source: chosen; fewer may be chance.
pub const RATE_MIN: u32 = 10;
/// Times the average of the other hosts that is far above them. Source: chosen; hosts differ in
/// what they run by less than that.
pub const RATE_TIMES: u32 = 8;
/// Time until a host that was closed by its own fault is tried; doubled each time, up to 32 times.
/// Source: as `stable_after` of a service, design section 6.5.
pub const TRIAL_AFTER: Millis = Millis::seconds(60);
/// Time that the job which tries a host must run. Source: as above.
pub const TRIAL_RUNS: Millis = Millis::seconds(60);
/// Doublings of [`TRIAL_AFTER`]. Source: derived, half an hour is the longest wait.
const DOUBLINGS_MAX: u32 = 5;
/// Services named in a reason. Source: derived, what fits a line.
const NAMED_MAX: usize = 3;

/// A replica that failed before it had run for long.
#[derive(Debug, Clone, Copy)]
pub struct Failed<'a> {
    /// Its service.
    pub service: ServiceId,
    /// When it was given to the host.
    pub placed_at: Option<ClusterTime>,
    /// How it ended.
    pub how: &'a str,
}

/// What is known of services.
#[derive(Clone, Copy)]
pub struct Services<'a> {
    /// The name of one.
    pub name: &'a dyn Fn(ServiceId) -> String,
    /// Whether one is still there: those that were deleted prove nothing any more.
    pub is_there: &'a dyn Fn(ServiceId) -> bool,
}

/// Decides what it means for its host that a replica failed there before it had run for long.
/// `others` are the other hosts.
pub fn decide_replica_failed(
    host: &HostRecord,
    others: &[&HostRecord],
    services: Services<'_>,
    failed: Failed<'_>,
    now: ClusterTime,
) -> Vec<HostFact> {
    let noted = HostFact::ReplicaFailed {
        host: host.inventory.name.clone(),
        service: failed.service,
    };
    let mut then = host.clone();
    then.apply(&noted, now, host.changed);
    let mut facts = vec![noted];
    let elsewhere = fails_on(others, failed.service, now);
    if host.is_trial(failed.placed_at) && !elsewhere {
        let reason = format!("the job that tried it failed: {}", failed.how);
        facts.push(blamed(host, reason, now));
    } else if host.closed.is_none()
        && may_be_blamed(others)
        && let Some(what) =
            alone(&then, others, services, now).or_else(|| far_above(&then, others, services, now))
    {
        let reason = format!("{what}; the last one: {}", failed.how);
        facts.push(blamed(host, reason, now));
    }
    facts
}

/// Decides what a launch that failed by the host's fault means for the host.
pub fn decide_launch_failed(
    host: &HostRecord,
    placed_at: Option<ClusterTime>,
    text: &str,
    now: ClusterTime,
) -> Vec<HostFact> {
    let mut facts = vec![HostFact::LaunchFailed {
        host: host.inventory.name.clone(),
        text: text.to_owned(),
    }];
    if host.is_trial(placed_at) {
        let reason = format!("the job that tried it could not be started: {text}");
        facts.push(blamed(host, reason, now));
    } else if host.launch_failures + 1 >= LAUNCH_FAIL_LIMIT && host.closed.is_none() {
        let reason = format!("{LAUNCH_FAIL_LIMIT} launches in a row failed by its fault: {text}");
        facts.push(blamed(host, reason, now));
    }
    facts
}

fn blamed(host: &HostRecord, reason: String, now: ClusterTime) -> HostFact {
    let before = host.trial.map_or(0, |trial| trial.step);
    let wait = TRIAL_AFTER.0 << before.min(DOUBLINGS_MAX);
    HostFact::Blamed {
        host: host.inventory.name.clone(),
        reason,
        step: before.saturating_add(1),
        not_before: now.after(Millis(wait)),
    }
}

/// Whether so many hosts stay open that one more may be closed.
fn may_be_blamed(others: &[&HostRecord]) -> bool {
    let (open, blamed) = others.iter().fold((0, 0), |(open, blamed), other| {
        let is_open = u32::from(other.takes_jobs());
        let is_blamed = u32::from(other.is_reachable() && other.trial.is_some());
        (open + is_open, blamed + is_blamed)
    });
    open > blamed
}

fn recent(host: &HostRecord, now: ClusterTime) -> impl Iterator<Item = &ReplicaFailures> {
    let within = move |one: &&ReplicaFailures| now.since(one.last) < FAILURES_WINDOW;
    host.failing.iter().filter(within)
}

/// Whether a service fails on one of some hosts.
fn fails_on(hosts: &[&HostRecord], service: ServiceId, now: ClusterTime) -> bool {
    hosts
        .iter()
        .any(|host| recent(host, now).any(|one| one.service == service))
}

/// Several services that fail on this host and on no other.
fn alone(
    host: &HostRecord,
    others: &[&HostRecord],
    services: Services<'_>,
    now: ClusterTime,
) -> Option<String> {
    let here: Vec<&ReplicaFailures> = recent(host, now)
        .filter(|one| !fails_on(others, one.service, now))
        .filter(|one| (services.is_there)(one.service))
        .collect();
    if here.len() < SERVICES_MIN {
        return None;
    }
    let failures: u32 = here.iter().map(|one| one.count).sum();
    let mut names = String::new();
    for (place, one) in here.iter().take(NAMED_MAX).enumerate() {
        let between = if place == 0 { "" } else { ", " };
        let _ = write!(names, "{between}{}", (services.name)(one.service));
    }
    if here.len() > NAMED_MAX {
        let _ = write!(names, " and {} more", here.len() - NAMED_MAX);
    }
    Some(format!(
        "replicas of {} services ({names}) fail on it and on no other host, {failures} so far",
        here.len()
    ))
}

/// Far more failures, of several services, than on the other hosts.
fn far_above(
    host: &HostRecord,
    others: &[&HostRecord],
    services: Services<'_>,
    now: ClusterTime,
) -> Option<String> {
    let sum = |host: &HostRecord| -> u32 { recent(host, now).map(|one| one.count).sum() };
    let counting = recent(host, now).filter(|one| (services.is_there)(one.service));
    let (kinds, here) = counting.fold((0, 0_u32), |(kinds, sum), one| (kinds + 1, sum + one.count));
    if here < RATE_MIN || kinds < SERVICES_MIN {
        return None;
    }
    let (hosts, elsewhere) = others
        .iter()
        .filter(|other| other.takes_jobs())
        .fold((0_u32, 0_u32), |(hosts, failures), other| {
            (hosts + 1, failures + sum(other))
        });
    (hosts > 0 && here.saturating_mul(hosts) > elsewhere.saturating_mul(RATE_TIMES)).then(|| {
        format!(
            "{here} replicas failed on it within {FAILURES_WINDOW}, {elsewhere} on {hosts} other \
             hosts together"
        )
    })
}

/// A job on a host that is tried.
#[derive(Debug, Clone, Copy)]
pub struct Tried {
    /// When it was given to the host.
    pub placed_at: Option<ClusterTime>,
    /// Since when it runs.
    pub running_since: Option<ClusterTime>,
    /// Whether it does what it should: a replica is ready.
    pub well: bool,
}

/// Decides whether a host that is tried is opened: a job that was let onto it runs well for long
/// enough.
pub fn decide_trial(
    host: &HostRecord,
    jobs: impl Iterator<Item = Tried>,
    now: ClusterTime,
) -> Option<HostFact> {
    let mut tried = jobs.filter(|job| host.is_trial(job.placed_at) && job.well);
    let proved = |since: ClusterTime| since.after(TRIAL_RUNS) <= now;
    tried
        .any(|job| job.running_since.is_some_and(proved))
        .then(|| HostFact::Opened {
            host: host.inventory.name.clone(),
            by: String::new(),
        })
}

/// When the first host after `now` may be tried.
pub fn next_trial<'a>(
    hosts: impl Iterator<Item = &'a HostRecord>,
    now: ClusterTime,
) -> Option<ClusterTime> {
    hosts
        .filter_map(|host| Some(host.trial?.not_before))
        .filter(|time| *time > now)
        .min()
}
