//! Failures, losses and delays of replacements.

use xce_model::{Cause, ClusterTime, JobId, Lsn, Millis};
use xce_replica::JobRecord;

use super::draft::Draft;
use super::{Census, Group, Standing};
use crate::facts::{FAILURE_HOSTS_MAX, Failure, ResetReason, ServiceFact};
use crate::state::{Backoff, VersionRecord};

/// What the end of a replica means for its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// It failed.
    Failed,
    /// It went with its host.
    Lost,
    /// A person wanted it.
    Killed,
    /// XCE wanted it.
    Wanted,
}

const fn meaning(cause: Cause) -> Meaning {
    match cause {
        Cause::Exited
        | Cause::TermRunlimit
        | Cause::TermMemlimit
        | Cause::TermLiveness
        | Cause::ShimLost
        | Cause::RunLost
        | Cause::LaunchFailed
        | Cause::HostLaunchFailed
        | Cause::GaveUp => Meaning::Failed,
        Cause::HostLost | Cause::HostRebooted => Meaning::Lost,
        Cause::TermOwner | Cause::TermAdmin => Meaning::Killed,
        Cause::TermRequeue
        | Cause::TermScaleDown
        | Cause::TermUpdate
        | Cause::TermServiceDeleted
        | Cause::TermDrain
        | Cause::TermShutdown
        | Cause::TermStale => Meaning::Wanted,
    }
}

/// Whether a cause means that a replica failed, rather than that somebody wanted its end or that it
/// went with its host.
pub fn is_failure(cause: Cause) -> bool {
    meaning(cause) == Meaning::Failed
}

/// Whether an end with a cause has to be accounted for: the rules did not ask for it.
pub fn is_news(cause: Cause) -> bool {
    meaning(cause) != Meaning::Wanted
}

/// Takes in the replicas that ended since the last time.
pub fn account(draft: &mut Draft<'_>, census: &Census<'_>) {
    let seen = census.ended.iter().map(|job| job.changed).max();
    let Some(seen) = seen else { return };
    for group in &census.groups {
        let mut failed: Vec<&JobRecord> = Vec::new();
        let mut lost = 0;
        let mut killed: Option<(u32, JobId, Cause)> = None;
        for job in &census.ended {
            let version = job.service.map_or(0, |of| of.version);
            let cause = job.exit.as_ref().map(|exit| exit.cause);
            if draft.record().root_of(version) != group.root {
                continue;
            }
            match cause.map(|cause| (meaning(cause), cause)) {
                Some((Meaning::Failed, _)) => failed.push(job),
                Some((Meaning::Lost, _)) => lost += 1,
                Some((Meaning::Killed, cause)) => {
                    let count = killed.map_or(0, |(count, _, _)| count);
                    killed = Some((count + 1, job.id, cause));
                }
                Some((Meaning::Wanted, _)) | None => {}
            }
        }
        let service = draft.record().id;
        let version = group.version;
        if let Some((count, job, cause)) = killed {
            draft.service(ServiceFact::ReplicasKilled {
                service,
                version,
                job,
                count,
                cause,
                seen,
            });
        }
        if lost > 0 {
            draft.service(ServiceFact::ReplicasLost {
                service,
                version,
                count: lost,
                seen,
            });
        }
        if let Some(record) = draft.record().version(version)
            && let Some(failure) = failure(record, &mut failed, group, draft.record(), seen)
        {
            draft.service(ServiceFact::VersionFailed {
                service,
                version,
                failure: Box::new(failure),
            });
        }
    }
}

/// One step of the backoff, or a part of the last one, from replicas that failed.
fn failure(
    version: &VersionRecord,
    failed: &mut [&JobRecord],
    group: &Group,
    record: &crate::state::ServiceRecord,
    seen: Lsn,
) -> Option<Failure> {
    failed.sort_by_key(|job| (job.ended_at, job.id));
    let last = failed.last()?;
    let settings = &record.settings.replacement;
    let backoff = &version.backoff;
    let ended = |job: &JobRecord| job.ended_at.unwrap_or_default();
    let beyond = failed.iter().find(|job| begins_step(backoff, job));
    let was_ready = failed.iter().any(|job| job.has_worked(ended(job)));
    let mut failure = Failure {
        job: last.id,
        count: u32::try_from(failed.len()).unwrap_or(u32::MAX),
        hosts: hosts(failed),
        exit: last.exit.clone()?,
        stderr: last.stderr.clone(),
        was_ready,
        at: ended(failed.first()?),
        new_step: false,
        step: backoff.step,
        not_before: backoff.not_before,
        crash_loop: backoff.crash_loop,
        seen,
    };
    if let Some(first) = beyond {
        let at = ended(first);
        let free = backoff.failures == 0
            && first.was_ready
            && first.ready_longest >= settings.stable_after;
        failure.new_step = true;
        failure.at = at;
        failure.step = if free {
            0
        } else {
            backoff.step.saturating_add(1)
        };
        failure.crash_loop = if was_ready || group.has_worked {
            false
        } else {
            let window = settings.crash_window;
            backoff.crash_loop || steps_within(backoff, at, window) + 1 >= settings.crash_limit
        };
        let delay = if failure.crash_loop {
            settings.delay_max
        } else {
            delay(failure.step, settings.delay, settings.delay_max)
        };
        failure.not_before = at.after(delay);
    }
    Some(failure)
}

/// Whether a failure begins a step: what fails within a delay belongs to the step that the delay is
/// of, and so does what fails together with a first failure that costs no delay.
fn begins_step(backoff: &Backoff, job: &JobRecord) -> bool {
    let Some(last) = &backoff.last else {
        return true;
    };
    let at = job.ended_at.unwrap_or_default();
    let within = at <= backoff.not_before && job.submitted_at < last.at;
    !backoff.waiting && !within
}

/// Delay of a step: none for step 0, then the first delay, doubled with each step up to the cap.
fn delay(step: u32, first: Millis, cap: Millis) -> Millis {
    match step.checked_sub(1) {
        None => Millis(0),
        Some(doublings) => {
            let factor = 1_u64.checked_shl(doublings).unwrap_or(u64::MAX);
            Millis(first.0.saturating_mul(factor).min(cap.0))
        }
    }
}

fn steps_within(backoff: &Backoff, at: ClusterTime, window: Millis) -> u32 {
    let within = backoff
        .step_times
        .iter()
        .filter(|time| at.since(**time) < window)
        .count();
    u32::try_from(within).unwrap_or(u32::MAX)
}

fn hosts(failed: &[&JobRecord]) -> Vec<String> {
    let mut hosts: Vec<String> = Vec::new();
    for job in failed {
        if let Some(host) = &job.host
            && hosts.len() < FAILURE_HOSTS_MAX
            && !hosts.iter().any(|known| **known == **host)
        {
            hosts.push(host.to_string());
        }
    }
    hosts
}

/// Ends delays that are over and forgets failures of versions that became stable.
pub fn observe(draft: &mut Draft<'_>, census: &Census<'_>) {
    let now = draft.situation().now;
    for (place, group) in census.groups.iter().enumerate() {
        let service = draft.record().id;
        let stable_after = draft.record().settings.replacement.stable_after;
        let Some(version) = draft.record().version(group.version) else {
            continue;
        };
        let (backoff, number) = (&version.backoff, version.number);
        if backoff.waiting {
            let end = backoff.not_before;
            if end <= now {
                draft.service(ServiceFact::RetryBegan {
                    service,
                    version: number,
                });
            } else {
                draft.wake_at(end);
            }
        } else if backoff.failures > 0
            && let Some(since) = stable_since(census, place, backoff)
        {
            let time = since.after(stable_after);
            if time <= now {
                draft.service(ServiceFact::BackoffReset {
                    service,
                    version: number,
                    why: ResetReason::Stable,
                });
            } else {
                draft.wake_at(time);
            }
        }
    }
}

/// Since when all replicas of a group that have a host run without a failure; none while one of
/// them does not run, or none has a host.
fn stable_since(census: &Census<'_>, place: usize, backoff: &Backoff) -> Option<ClusterTime> {
    let last = backoff.last.as_ref().map_or(ClusterTime(0), |last| last.at);
    let mut since = None;
    for replica in census.of_group(place) {
        match replica.standing {
            Standing::Pending | Standing::Stopping | Standing::Lost => {}
            Standing::Starting
            | Standing::Unreachable
            | Standing::Running
            | Standing::Unready
            | Standing::Ready
            | Standing::Available => {
                let running = replica.job.running_since?;
                since = since.max(Some(running));
            }
        }
    }
    since.map(|running: ClusterTime| running.max(last).max(backoff.not_before))
}
