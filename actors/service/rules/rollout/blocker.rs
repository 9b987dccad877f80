//! What holds the next step back, with its numbers and jobs.

use std::fmt;

use xce_model::{JobId, Millis, Version};

use super::super::fence::Fence;
use super::super::moving::{self, Hold};
use super::super::{Census, Replica, Situation, Standing};
use crate::state::ServiceRecord;

/// The first thing that holds a service back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Blocker {
    /// The mix of versions is frozen.
    Paused {
        /// Replicas of the current version.
        updated: u32,
        /// Desired count.
        desired: u32,
    },
    /// Replicas fail, so that more wait for a delay.
    Backoff {
        /// The version.
        version: Version,
        /// Time until the next try.
        wait: Millis,
        /// Whether it is a crash loop.
        crash_loop: bool,
        /// Failed replicas so far.
        failures: u32,
        /// How the last one ended.
        last: String,
        /// Hosts that they ran on.
        hosts: Vec<String>,
    },
    /// Old replicas cannot be stopped: too few would be available.
    Available {
        /// The old version.
        version: Version,
        /// Available replicas.
        available: u32,
        /// Fewest that must remain.
        minimum: u32,
        /// Whether the rollout is stuck, so that nothing available is removed.
        stuck: bool,
        /// What is waited for.
        waiting: Awaited,
    },
    /// New replicas cannot be started: too many would be live.
    Live {
        /// The new version.
        version: Version,
        /// Live replicas.
        live: u32,
        /// Most that may be.
        maximum: u32,
        /// What is waited for.
        waiting: Awaited,
    },
    /// A replica does not leave its host, which is drained.
    Draining {
        /// Its job.
        job: JobId,
        /// Its host.
        host: String,
        /// What holds it.
        hold: Hold,
        /// How many more do not.
        more: u32,
        /// What is waited for.
        waiting: Awaited,
    },
    /// All replicas are there, and some are not available.
    Waiting {
        /// Available replicas.
        available: u32,
        /// Desired count.
        desired: u32,
        /// What is waited for.
        waiting: Awaited,
    },
}

/// Replicas that are waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Awaited {
    /// The first of them, at most three.
    pub named: Vec<Waiting>,
    /// How many more there are.
    pub more: u32,
}

/// A replica that is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Its job.
    pub job: JobId,
    /// Its host.
    pub host: Option<String>,
    /// What it counts as.
    pub standing: Standing,
    /// What is known of why; may be empty.
    pub text: String,
}

/// Most replicas that a blocker names. Source: derived, what a line of a report holds.
const NAMED_MAX: usize = 3;

/// What holds the next step back; none where nothing is to be done.
pub(crate) fn blocker(
    record: &ServiceRecord,
    census: &Census<'_>,
    situation: &Situation<'_>,
) -> Option<Blocker> {
    let fence = Fence::of(&record.settings.rollout, record.desired);
    let (total, current) = (census.total(), census.current().counts);
    let active = record.rollout.is_active();
    if active && record.paused.is_some() {
        return Some(Blocker::Paused {
            updated: current.staying(),
            desired: record.desired,
        });
    }
    if let Some(blocker) = backoff(record, situation) {
        return Some(blocker);
    }
    let old = census.old();
    let version = record.current().number;
    if active && old.staying() > 0 && total.of(Standing::Stopping) == 0 {
        let oldest = census
            .old_places()
            .into_iter()
            .find(|&place| census.groups[place].counts.staying() > 0)?;
        return Some(Blocker::Available {
            version: census.groups[oldest].version,
            available: total.available(),
            minimum: fence.available_min(),
            stuck: record.rollout.is_stuck(),
            waiting: waiting(census, |standing| standing < Standing::Available),
        });
    }
    let maximum = if active {
        fence.live_max()
    } else {
        record.desired
    };
    if total.of(Standing::Stopping) > 0
        && total.staying() < maximum
        && current.staying() < record.desired
    {
        return Some(Blocker::Live {
            version,
            live: total.live(),
            maximum,
            waiting: waiting(census, |standing| standing == Standing::Stopping),
        });
    }
    if let Some(draining) = draining(record, census, situation, None) {
        return Some(draining);
    }
    if total.available() < record.desired || total.live() > record.desired {
        return Some(Blocker::Waiting {
            available: total.available(),
            desired: record.desired,
            waiting: waiting(census, |standing| standing != Standing::Available),
        });
    }
    None
}

/// The first replica that does not leave a drained host, or any of them.
pub(crate) fn draining(
    record: &ServiceRecord,
    census: &Census<'_>,
    situation: &Situation<'_>,
    host: Option<&str>,
) -> Option<Blocker> {
    let held = moving::held(record, census, situation, host);
    let first = held.first()?;
    let awaited: Vec<Replica<'_>> = match (first.hold, first.newcomer) {
        (_, Some(newcomer)) => vec![newcomer],
        (Hold::Live { .. } | Hold::Rollout, None) => {
            let not_well = |replica: &&Replica<'_>| replica.standing != Standing::Available;
            census.replicas.iter().filter(not_well).copied().collect()
        }
        (Hold::Replacement | Hold::Available { .. } | Hold::Unreachable, None) => Vec::new(),
    };
    Some(Blocker::Draining {
        job: first.replica.job.id,
        host: first
            .replica
            .job
            .host
            .as_deref()
            .unwrap_or_default()
            .to_owned(),
        hold: first.hold,
        more: u32::try_from(held.len() - 1).unwrap_or(u32::MAX),
        waiting: awaiting(awaited.iter()),
    })
}

/// A delay of the current version, or of an old one that still has to be there.
fn backoff(record: &ServiceRecord, situation: &Situation<'_>) -> Option<Blocker> {
    let version = record.versions.iter().rev().find(|version| {
        version.want > 0 && (version.backoff.waiting || version.backoff.crash_loop)
    })?;
    let backoff = &version.backoff;
    Some(Blocker::Backoff {
        version: version.number,
        wait: backoff.not_before.since(situation.now),
        crash_loop: backoff.crash_loop,
        failures: backoff.failures,
        last: backoff.last.as_ref().map_or_else(String::new, |last| {
            last_text(last.job, &last.exit, &last.stderr)
        }),
        hosts: backoff.hosts.clone(),
    })
}

fn last_text(job: JobId, exit: &xce_model::Exit, stderr: &str) -> String {
    let tail = stderr.trim_end().lines().next_back().unwrap_or_default();
    if tail.is_empty() {
        format!("job {job}: {exit}")
    } else {
        format!("job {job}: {exit}; {tail}")
    }
}

fn waiting(census: &Census<'_>, wanted: impl Fn(Standing) -> bool) -> Awaited {
    let all = census.replicas.iter();
    awaiting(all.filter(|replica| wanted(replica.standing)))
}

fn awaiting<'r, 'a: 'r>(mut all: impl Iterator<Item = &'r Replica<'a>>) -> Awaited {
    let named = all
        .by_ref()
        .take(NAMED_MAX)
        .map(|replica| Waiting {
            job: replica.job.id,
            host: replica.job.host.as_deref().map(str::to_owned),
            standing: replica.standing,
            text: replica.job.probe_text.clone(),
        })
        .collect();
    let more = u32::try_from(all.count()).unwrap_or(u32::MAX);
    Awaited { named, more }
}

impl Blocker {
    /// The replicas that are waited for, so that a caller can say more about them.
    pub fn waiting_mut(&mut self) -> &mut [Waiting] {
        match self {
            Self::Paused { .. } | Self::Backoff { .. } => &mut [],
            Self::Available { waiting, .. }
            | Self::Live { waiting, .. }
            | Self::Draining { waiting, .. }
            | Self::Waiting { waiting, .. } => &mut waiting.named,
        }
    }
}

impl Standing {
    /// The words that users see.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Starting => "starting",
            Self::Unreachable => "unreachable",
            Self::Running => "running, not ready",
            Self::Unready => "not ready any more",
            Self::Ready => "ready, not yet for long enough",
            Self::Available => "available",
            Self::Stopping => "stopping",
            Self::Lost => "lost with its host",
        }
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "job {}", self.job)?;
        if let Some(host) = &self.host {
            write!(f, " on {host}")?;
        }
        write!(f, ", {}", self.standing.words())?;
        if !self.text.is_empty() {
            write!(f, ": {}", self.text)?;
        }
        Ok(())
    }
}

impl fmt::Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.named.is_empty() {
            return f.write_str("waiting for a decision");
        }
        f.write_str("waiting for ")?;
        for (place, one) in self.named.iter().enumerate() {
            let gap = if place > 0 { "; " } else { "" };
            write!(f, "{gap}{one}")?;
        }
        match self.more {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Paused { updated, desired } => write!(
                f,
                "paused with {updated} of {desired} replicas at the current version"
            ),
            Self::Backoff {
                version,
                wait,
                crash_loop,
                failures,
                last,
                hosts,
            } => {
                write_series(f, *version, *wait, *crash_loop, *failures)?;
                write!(f, ", last error: {last}")?;
                write_blame(f, hosts)
            }
            Self::Available {
                version,
                available,
                minimum,
                stuck,
                waiting,
            } => {
                write!(f, "cannot stop version {version}: ")?;
                write_minimum(f, *available, *minimum, *stuck)?;
                write!(f, "{waiting}")
            }
            Self::Live {
                version,
                live,
                maximum,
                waiting,
            } => write!(
                f,
                "cannot start version {version}: live {live} + 1 > maximum {maximum}; {}",
                waiting
            ),
            Self::Draining {
                job,
                host,
                hold,
                more,
                waiting,
            } => {
                write_hold(f, *job, host, *hold)?;
                match more {
                    0 => {}
                    more => write!(f, ", nor {more} more there")?,
                }
                match waiting.named.is_empty() {
                    true => Ok(()),
                    false => write!(f, "; {waiting}"),
                }
            }
            Self::Waiting {
                available,
                desired,
                waiting,
            } => write!(
                f,
                "available {available} {} desired {desired}; {}",
                order(*available, *desired),
                waiting
            ),
        }
    }
}

/// What keeps an available replica.
fn write_minimum(
    f: &mut fmt::Formatter<'_>,
    available: u32,
    minimum: u32,
    stuck: bool,
) -> fmt::Result {
    if available <= minimum {
        write!(f, "available {available} - 1 < minimum {minimum}; ")
    } else if stuck {
        write!(f, "nothing available is removed while stuck; ")
    } else {
        write!(f, "available {available}, minimum {minimum}; ")
    }
}

/// How often a version failed, and when it is tried next.
fn write_series(
    f: &mut fmt::Formatter<'_>,
    version: Version,
    wait: Millis,
    crash_loop: bool,
    failures: u32,
) -> fmt::Result {
    let what = match crash_loop {
        true => "crash loop",
        false => "crash backoff",
    };
    write!(f, "version {version}: {what} after {failures} failures, ")?;
    match wait.0 {
        0 => write!(f, "trying now"),
        millis => write!(f, "next try in {}s", millis.div_ceil(1000)),
    }
}

/// What holds a replica on a drained host.
fn write_hold(f: &mut fmt::Formatter<'_>, job: JobId, host: &str, hold: Hold) -> fmt::Result {
    match hold {
        Hold::Live { live, maximum } => write!(
            f,
            "cannot move job {job} off {host}, which is drained: live {live} + 1 > maximum {maximum}"
        ),
        Hold::Available { available, minimum } => write!(
            f,
            "cannot stop job {job} on {host}, which is drained and past its deadline: available \
             {available} - 1 < minimum {minimum}"
        ),
        Hold::Replacement => write!(
            f,
            "job {job} leaves {host}, which is drained, when its replacement is available"
        ),
        Hold::Rollout => write!(
            f,
            "job {job} leaves {host}, which is drained, as the rollout replaces it"
        ),
        Hold::Unreachable => write!(
            f,
            "job {job} cannot leave {host}, which is drained and does not answer"
        ),
    }
}

/// The sign between two counts.
fn order(left: u32, right: u32) -> &'static str {
    match left.cmp(&right) {
        std::cmp::Ordering::Less => "<",
        std::cmp::Ordering::Equal => "=",
        std::cmp::Ordering::Greater => ">",
    }
}

/// Whom the failures speak against: one host tells little, several tell of the version.
fn write_blame(f: &mut fmt::Formatter<'_>, hosts: &[String]) -> fmt::Result {
    match hosts {
        [] => Ok(()),
        [host] => write!(f, "; only host {host} was tried"),
        [_, _, ..] => write!(
            f,
            "; it failed on {} hosts ({}), so the version is to blame",
            hosts.len(),
            hosts.join(", ")
        ),
    }
}
