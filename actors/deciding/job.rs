//! What a command means for a job, an element of an array, or a whole array.

use std::sync::Arc;

use xce_ledger::{Fact, Precondition, View};
use xce_model::{Cause, Exit, JobId, Refusal, WallTime};
use xce_replica::rules::{Command, decide_command};
use xce_replica::{JobFact, JobRecord};

use crate::reading::elements_of;
use crate::{Decided, Times};

/// Decides a command on a job, an element, or a whole array; no fact where it is an order to the
/// worker, or there is nothing to do.
///
/// # Errors
/// The refusal of the command; `not_found` where there is no such job.
pub fn job(view: &View, id: JobId, command: Command, times: Times) -> Result<Decided, Refusal> {
    if let Some(job) = view.job(id) {
        let facts = decide_command(job, command, times.0, times.1)?;
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
    let at = (array.changed, array.submitted_at, array.submitted);
    let mut job = JobRecord::submitted(id, Arc::clone(&array.spec), None, at);
    job.state = state;
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
        Command::Kill(_)
        | Command::Hold
        | Command::Release
        | Command::Requeue
        | Command::Suspend
        | Command::Resume => {}
    }
    for job in elements_of(view, id.number) {
        // Elements for which the command makes no sense are left as they are.
        let Ok(decided) = decide_command(job, command, times.0, times.1) else {
            continue;
        };
        if !decided.is_empty() {
            conditions.push(unchanged(job));
            facts.extend(decided.into_iter().map(Fact::from));
        }
    }
    Ok(Decided { conditions, facts })
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
