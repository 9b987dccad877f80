//! Waiting for a change to have its effect, woken by what the cluster pushes.

use std::io::IsTerminal;

use xce_model::{JobId, JobState, Refusal};
use xce_replica::view::JobView;
use xce_service::view::{Condition, ServiceView};
use xce_session::wire::WatchFilter;

use super::arguments::WaitOptions;
use super::connection::Connection;
use super::failure::Failure;
use super::print::talk;
use super::{hosts, jobs, rollout, services_shown};

/// How far something is that is waited for.
pub enum Progress {
    /// As wanted.
    Reached,
    /// Not yet; says how far.
    NotYet(String),
    /// It will not come by itself.
    Failed(String),
}

/// Waits until a check is satisfied; looks again at each change of the watch, never by a clock.
///
/// # Errors
/// [`Failure::TimedOut`] with how far it was; what the check says when it cannot come any more.
pub async fn until(
    connection: &mut Connection,
    filter: WatchFilter,
    options: WaitOptions,
    mut check: impl AsyncFnMut(&mut Connection) -> Result<Progress, Failure>,
) -> Result<(), Failure> {
    if !options.wait {
        return Ok(());
    }
    let mut so_far = String::from("nothing is known yet");
    let waiting = async {
        let after = connection.position().await?;
        connection
            .subscribe(WatchFilter { after, ..filter })
            .await?;
        loop {
            match check(connection).await? {
                Progress::Reached => return Ok(()),
                Progress::Failed(text) => return Err(Failure::Unmet(text)),
                Progress::NotYet(text) => tell(&mut so_far, text),
            }
            connection.next_change().await?;
            connection.drain();
        }
    };
    match options.timeout {
        None => waiting.await,
        Some(limit) => match tokio::time::timeout(limit.duration(), waiting).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Failure::TimedOut(format!(
                "timed out after {limit}: {so_far}"
            ))),
        },
    }
}

/// Keeps how far it is, and says it to a person.
fn tell(so_far: &mut String, text: String) {
    if *so_far != text {
        if std::io::stderr().is_terminal() {
            talk(&format!("waiting: {text}"));
        }
        *so_far = text;
    }
}

/// Waits until a service has all its replicas.
///
/// # Errors
/// As [`until`]; a crash loop and a stuck rollout end the wait, and a version that XCE itself went
/// back from meanwhile is no success.
pub async fn steady(
    connection: &mut Connection,
    project: &str,
    name: &str,
    options: WaitOptions,
) -> Result<(), Failure> {
    let mut first = None;
    until(
        connection,
        services_of(project),
        options,
        async |connection| {
            let service = services_shown::fetch(connection, project, name).await?;
            let first = *first.get_or_insert(service.version);
            let progress = progress_of_service(&service);
            match rollout::rolled_back(&service, first) {
                Some(text) if matches!(progress, Progress::Reached) => Ok(Progress::Failed(text)),
                Some(_) | None => Ok(progress),
            }
        },
    )
    .await
}

/// Waits until a service is gone.
///
/// # Errors
/// As [`until`].
pub async fn deleted(
    connection: &mut Connection,
    project: &str,
    name: &str,
    options: WaitOptions,
) -> Result<(), Failure> {
    until(
        connection,
        services_of(project),
        options,
        async |connection| match services_shown::fetch(connection, project, name).await {
            Ok(service) => Ok(Progress::NotYet(format!(
                "{name} is still there: {}",
                service.reason
            ))),
            Err(failure) if failure.is_not_found() => Ok(Progress::Reached),
            Err(failure) => Err(failure),
        },
    )
    .await
}

/// How far a service is.
pub fn progress_of_service(service: &ServiceView) -> Progress {
    let text = format!(
        "{}: {} of {} available, {} live, {} stopping, {}",
        service.name,
        service.available,
        service.desired,
        service.live,
        service.stopping,
        service.condition.word(),
    );
    let complete = service.available == service.desired
        && service.live == service.desired
        && service.stopping == 0;
    match service.condition {
        Condition::Steady if complete => Progress::Reached,
        Condition::CrashLoop | Condition::Stuck => {
            Progress::Failed(format!("{text}: {}", service.reason))
        }
        Condition::Deleting => Progress::Failed(format!("{} is being deleted", service.name)),
        Condition::Paused if complete => Progress::Reached,
        Condition::Steady | Condition::Short | Condition::Rolling | Condition::Paused => {
            Progress::NotYet(text)
        }
    }
}

/// Waits until each job satisfies a condition.
///
/// # Errors
/// As [`until`].
pub async fn for_jobs(
    connection: &mut Connection,
    ids: &[JobId],
    options: WaitOptions,
    satisfied: impl Fn(&JobView) -> bool,
) -> Result<(), Failure> {
    let filter = WatchFilter {
        jobs: true,
        ..WatchFilter::default()
    };
    let mut left: Vec<JobId> = ids.to_vec();
    until(connection, filter, options, async |connection| {
        while let Some(id) = left.last().copied() {
            let job = jobs::fetch(connection, id).await?;
            if !satisfied(&job) {
                return Ok(Progress::NotYet(format!(
                    "job {id} is {}: {}",
                    job.state, job.reason
                )));
            }
            left.pop();
        }
        Ok(Progress::Reached)
    })
    .await
}

/// Waits until jobs have ended; one that failed makes the wait fail when `well` is wanted.
///
/// # Errors
/// As [`until`].
pub async fn ended(
    connection: &mut Connection,
    ids: &[JobId],
    options: WaitOptions,
    well: bool,
) -> Result<(), Failure> {
    for_jobs(connection, ids, options, |job| job.terminal).await?;
    if !options.wait || !well {
        return Ok(());
    }
    for id in ids {
        let job = jobs::fetch(connection, *id).await?;
        if job.state != JobState::Done {
            return Err(Failure::Unmet(format!(
                "job {id} ended as {}: {}",
                job.state, job.reason
            )));
        }
    }
    Ok(())
}

/// Waits until a host satisfies a condition; `None` stands for a host that is gone.
///
/// # Errors
/// As [`until`].
pub async fn for_host(
    connection: &mut Connection,
    name: &str,
    options: WaitOptions,
    satisfied: impl Fn(Option<&xce_host::view::HostView>) -> bool,
) -> Result<(), Failure> {
    let filter = WatchFilter {
        hosts: true,
        ..WatchFilter::default()
    };
    until(connection, filter, options, async |connection| {
        let host = match hosts::fetch(connection, name).await {
            Ok(host) => Some(host),
            Err(failure) if failure.is_not_found() => None,
            Err(failure) => return Err(failure),
        };
        if satisfied(host.as_ref()) {
            return Ok(Progress::Reached);
        }
        Ok(Progress::NotYet(host.map_or_else(
            || format!("host {name} is gone"),
            |host| format!("host {name} is {}: {}", host.state.word(), host.reason),
        )))
    })
    .await
}

/// Waits until nothing runs on a host that is drained; ends as failed where the drain is called off.
///
/// # Errors
/// As [`until`].
pub async fn for_drain(
    connection: &mut Connection,
    name: &str,
    options: WaitOptions,
) -> Result<(), Failure> {
    let filter = WatchFilter {
        hosts: true,
        jobs: true,
        ..WatchFilter::default()
    };
    until(connection, filter, options, async |connection| {
        let host = match hosts::fetch(connection, name).await {
            Ok(host) => host,
            Err(failure) if failure.is_not_found() => return Ok(Progress::Reached),
            Err(failure) => return Err(failure),
        };
        let Some(drain) = &host.drain else {
            let text = format!("host {name} is not drained any more");
            return Err(Refusal::refused("not_drained", text).into());
        };
        if drain.left.is_empty() {
            return Ok(Progress::Reached);
        }
        let left = drain.left.join("; ");
        Ok(Progress::NotYet(format!("host {name} is draining: {left}")))
    })
    .await
}

fn services_of(project: &str) -> WatchFilter {
    WatchFilter {
        services: true,
        project: Some(project.to_owned()),
        ..WatchFilter::default()
    }
}
