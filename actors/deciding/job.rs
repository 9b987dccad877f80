//! What a command means for a job, an element of an array, or a whole array.

use std::sync::Arc;

use xce_host::rules::lease;
use xce_ledger::{Fact, Precondition, View};
use xce_model::{Cause, Exit, JobId, Refusal, WallTime};
use xce_replica::rules::{Command, decide_command, decide_confirmed_dead, decide_without_worker};
use xce_replica::{JobFact, JobRecord};

use crate::fence;
use crate::reading::elements_of;
use crate::{Decided, Times};

/// Decides a command on a job, an element, or a whole array; no fact where it is an order to the
/// worker, or there is nothing to do.
///
/// # Errors
/// The refusal of the command; `not_found` where there is no such job.
pub fn job(view: &View, id: JobId, command: Command, times: Times) -> Result<Decided, Refusal> {
    if let Some(job) = view.job(id) {
        if command == Command::Requeue && view.is_lost(job) {
            let text = format!(
                "cannot requeue job {id}: it is a replica that is lost with its host, and its service \
                 lets another take its place"
            );
            return Err(Refusal::refused("wrong_state", text));
        }
        let facts = decide_one(view, job, command, times)?;
        return Ok(Decided {
            conditions: vec![unchanged(job)],
            facts: facts.into_iter().map(Fact::from).collect(),
        });
    }
    if !id.is_element() && view.array(id.number).is_some() {
        return decide_array(view, id, command, times);
    }
    decide_element(view, id, command, times)
}

/// Decides about a job that has a record, as its host is.
fn decide_one(
    view: &View,
    job: &JobRecord,
    command: Command,
    (now, wall): Times,
) -> Result<Vec<JobFact>, Refusal> {
    if command == Command::ConfirmDead {
        let host = job.host.as_deref().and_then(|host| view.host(host));
        let answers = host.is_some_and(|host| host.is_reachable());
        return decide_confirmed_dead(job, answers, now, wall);
    }
    let facts = decide_command(job, command, now, wall)?;
    if !view.is_lost(job) {
        return Ok(facts);
    }
    let stopped = facts.into_iter();
    let host = job.host.as_deref().and_then(|host| view.host(host));
    let fenced = host.and_then(|host| lease::fenced_at(host)).unwrap_or(now);
    let stopped = stopped.map(|fact| {
        let mut fact = decide_without_worker(job, fact, now, wall);
        fence::hold_back(job, &mut fact, fenced);
        fact
    });
    Ok(stopped.collect())
}

fn unchanged(job: &JobRecord) -> Precondition {
    Precondition::JobUnchanged {
        job: job.id,
        lsn: job.changed,
    }
}

/// An element that has no job of its own yet is decided as the job that it would be.
fn decide_element(
    view: &View,
    id: JobId,
    command: Command,
    times: Times,
) -> Result<Decided, Refusal> {
    let array = view
        .array(id.number)
        .ok_or_else(|| Refusal::not_found("job", id))?;
    let state = array
        .folded_state(id.element)
        .ok_or_else(|| Refusal::not_found("job", id))?;
    let is_kept = array.pending.contains(id.element) || array.cancelled.contains(id.element);
    if command == Command::Requeue && !is_kept {
        let text = format!(
            "cannot requeue job {id}: it ended as {state} so long ago that only this is kept of it; \
             submit it again"
        );
        return Err(Refusal::refused("cleaned_up", text));
    }
    let at = (array.changed, array.submitted_at, array.submitted);
    let mut job = JobRecord::submitted(id, Arc::clone(&array.spec), None, at);
    job.state = state;
    job.exit = array.cancel.clone().filter(|_| state.is_terminal());
    let facts = decide_command(&job, command, times.0, times.1)?;
    let condition = Precondition::JobUnchanged {
        job: id,
        lsn: array.changed,
    };
    Ok(Decided {
        conditions: vec![condition],
        facts: facts.into_iter().map(Fact::from).collect(),
    })
}

fn decide_array(
    view: &View,
    id: JobId,
    command: Command,
    times: Times,
) -> Result<Decided, Refusal> {
    let array = view
        .array(id.number)
        .ok_or_else(|| Refusal::not_found("job", id))?;
    let mut conditions = vec![Precondition::JobUnchanged {
        job: id,
        lsn: array.changed,
    }];
    let mut facts: Vec<Fact> = Vec::new();
    let pending = !array.pending.is_empty();
    match command {
        Command::Kill(cause) if pending => facts.push(cancel(id, cause, times.1).into()),
        Command::Hold if pending && !array.held => facts.push(JobFact::Held { job: id }.into()),
        Command::Release if array.held => facts.push(JobFact::Released { job: id }.into()),
        Command::Requeue if !array.cancelled.is_empty() => {
            facts.push(uncancel(id, array.cancel.clone(), times).into());
        }
        Command::Kill(_)
        | Command::Hold
        | Command::Release
        | Command::Requeue
        | Command::Suspend
        | Command::Resume
        | Command::ConfirmDead => {}
    }
    for job in elements_of(view, id.number) {
        // Elements for which the command makes no sense are left as they are.
        let Ok(decided) = decide_one(view, job, command, times) else {
            continue;
        };
        if !decided.is_empty() {
            conditions.push(unchanged(job));
            facts.extend(decided.into_iter().map(Fact::from));
        }
    }
    Ok(Decided { conditions, facts })
}

/// Elements that were cancelled while they waited do so again.
fn uncancel(id: JobId, exit: Option<Exit>, times: Times) -> JobFact {
    JobFact::Requeued {
        job: id,
        run: 0,
        exit: exit.unwrap_or_else(|| Exit::of(Cause::TermOwner)),
        not_before: times.0,
        avoid: None,
        held: false,
        at: times.1,
    }
}

fn cancel(id: JobId, cause: Cause, at: WallTime) -> JobFact {
    JobFact::Ended {
        job: id,
        run: 0,
        exit: Exit::of(cause),
        at,
        stderr: String::new(),
    }
}
