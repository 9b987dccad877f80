//! Jobs: submit, read, and commands for their actors.

use std::sync::Arc;
use std::time::Duration;

use xce_host::HostLife;
use xce_ledger::{Answer, Created, Precondition, View};
use xce_model::limits::{ARRAY_ELEMENTS_MAX, check_name};
use xce_model::spec::JobSpec;
use xce_model::{Cause, JobId, JobState, Refusal, RefusalKind, Run};
use xce_replica::rules::Command;
use xce_replica::view::JobView;
use xce_replica::wire::{Order, Output, ReadOutput, RunId, Want};
use xce_replica::{JobFact, JobRecord};
use xce_runtime::CallError;
use xce_session::wire::{Accepted, AskJob, JobFilter, Reply};

use super::{Caller, needs_primary, profiles, refusal_of};
use crate::reading::{elements_of, jobs_on};
use crate::{checking, host, job, views};

/// Most rows of one answer. Source: derived; some 600 bytes a row stay far below one frame.
const ROWS_MAX: usize = 5000;
/// How long a worker may take for a part of an output.
/// Source: chosen; below the three missed beats that make its host suspect.
const OUTPUT_WITHIN: Duration = Duration::from_secs(4);
/// Highest signal. Source: signal(7), SIGRTMAX.
const SIGNAL_MAX: i32 = 64;
/// Most bytes of output in one answer. Source: design section 15, far below one frame.
const OUTPUT_BYTES_MAX: u32 = 1 << 20;

pub async fn answer(caller: &Caller<'_>, ask: AskJob) -> Result<Reply, Refusal> {
    match ask {
        AskJob::Submit(request) => {
            if let Some(answer) = submitted_before(caller) {
                return Ok(answer);
            }
            submit(caller, profiles::job_spec(caller, &request)?).await
        }
        AskJob::List(_) | AskJob::Show(_) => {
            let view = caller.control.view();
            read(&view, &caller.control.seer(&view), &ask)
        }
        AskJob::Kill {
            jobs,
            signal: Some(signal),
        } => send_signal(caller, &jobs, signal),
        AskJob::Kill { jobs, signal: None } => {
            let cause = Cause::TermOwner;
            commands(caller, &jobs, Command::Kill(cause)).await
        }
        AskJob::Hold(jobs) => commands(caller, &jobs, Command::Hold).await,
        AskJob::Release(jobs) => commands(caller, &jobs, Command::Release).await,
        AskJob::Requeue(jobs) => commands(caller, &jobs, Command::Requeue).await,
        AskJob::Suspend(jobs) => commands(caller, &jobs, Command::Suspend).await,
        AskJob::Resume(jobs) => commands(caller, &jobs, Command::Resume).await,
        AskJob::ConfirmDead(jobs) => commands(caller, &jobs, Command::ConfirmDead).await,
        AskJob::Output {
            job,
            run,
            stderr,
            offset,
            bytes_max,
        } => {
            let part = Part {
                stderr,
                offset,
                bytes_max,
            };
            output(caller, job, run, part).await.map(Reply::Output)
        }
    }
}

async fn submit(caller: &Caller<'_>, spec: JobSpec) -> Result<Reply, Refusal> {
    check(caller, &spec)?;
    let control = caller.control;
    let jobs = spec
        .array
        .as_ref()
        .map_or(1, xce_model::spec::ArraySpec::count);
    let operation = caller.operation.ok_or_else(|| {
        Refusal::new(
            RefusalKind::Usage,
            "no_operation",
            "a submission carries an operation id",
        )
    })?;
    let fact = JobFact::Submitted {
        spec: Box::new(spec),
        operation: operation.id,
    };
    let group = control
        .group("submit")
        .on_behalf(caller.name(), Some(operation))
        .given(Precondition::Room { jobs })
        .with(fact);
    let committed = control.commit(&group).await.map_err(refusal_of)?;
    Ok(submitted(&committed.answer))
}

/// The first answer of a submission that is repeated, whatever became of its profile.
fn submitted_before(caller: &Caller<'_>) -> Option<Reply> {
    let operation = caller.operation?;
    let answer = caller.control.view().answer(caller.name(), operation.id)?;
    Some(submitted(&answer))
}

fn submitted(answer: &Answer) -> Reply {
    let ids: Vec<String> = answer
        .created
        .iter()
        .filter_map(|created| match created {
            Created::Job(id) => Some(id.to_string()),
            Created::Replicas { .. } | Created::Service(_) | Created::Session(_) => None,
        })
        .collect();
    let text = format!("job {} submitted", ids.join(", "));
    Reply::Accepted(Accepted {
        lsn: answer.lsn,
        ids,
        text,
    })
}

fn check(caller: &Caller<'_>, spec: &JobSpec) -> Result<(), Refusal> {
    check_name("job", &spec.name)?;
    check_name("project", &spec.project)?;
    check_name("queue", &spec.queue)?;
    if let Some(array) = &spec.array {
        checking::array(array)?;
        let count = array.count();
        if count > ARRAY_ELEMENTS_MAX {
            let text =
                format!("{count} elements are too many: an array has at most {ARRAY_ELEMENTS_MAX}");
            return Err(Refusal::new(RefusalKind::Usage, "too_many_elements", text));
        }
    }
    checking::single_copy(&caller.control.settings, &spec.template)?;
    checking::template(caller.principal, &spec.template)
}

/// Sends a signal to running jobs, and to the running elements of arrays; nothing is committed, since
/// what comes of it is the job's own affair.
fn send_signal(caller: &Caller<'_>, jobs: &[JobId], signal: i32) -> Result<Reply, Refusal> {
    if !(1..=SIGNAL_MAX).contains(&signal) {
        let text = format!("{signal} is no signal: allowed are 1 to {SIGNAL_MAX}");
        return Err(Refusal::new(RefusalKind::Usage, "bad_signal", text));
    }
    let view = caller.control.view();
    let mut done = Accepted {
        lsn: view.lsn(),
        ..Accepted::default()
    };
    for id in jobs {
        let whole = view.array(id.number).filter(|_| !id.is_element()).is_some();
        let mut targets: Vec<&Arc<JobRecord>> = match (whole, view.job(*id)) {
            (true, _) => elements_of(&view, id.number).collect(),
            (false, Some(job)) => vec![job],
            (false, None) => return Err(Refusal::not_found("job", id)),
        };
        targets.retain(|job| matches!(job.state, JobState::Run | JobState::Susp));
        if targets.is_empty() {
            let text = format!("job {id} does not run, so there is nothing to send a signal to");
            return Err(Refusal::refused("wrong_state", text));
        }
        for job in targets {
            let run = RunId {
                job: job.id,
                run: job.run,
            };
            let order = Order {
                run,
                want: Want::Signal { signal },
            };
            host::send_order(
                caller.control,
                job.host.as_deref().unwrap_or_default(),
                order,
            )?;
            done.ids.push(job.id.to_string());
        }
    }
    done.text = format!("signal {signal} is sent to job {}", done.ids.join(", "));
    Ok(Reply::Accepted(done))
}

/// Gives a command to each job; the first refusal ends it, and names what was done before.
async fn commands(caller: &Caller<'_>, jobs: &[JobId], command: Command) -> Result<Reply, Refusal> {
    if let Some(answer) = caller.remembered() {
        return Ok(answer);
    }
    let mut done = Accepted::default();
    for (place, id) in jobs.iter().enumerate() {
        // The operation id names the whole request: only its last part is remembered under it.
        let operation = caller.operation.filter(|_| place + 1 == jobs.len());
        let answer = job::command(caller.control, *id, command, caller.name(), operation).await;
        match answer {
            Ok(accepted) => {
                done.lsn = done.lsn.max(accepted.lsn);
                done.ids.extend(accepted.ids);
                done.text = if place == 0 {
                    accepted.text
                } else {
                    done.text + "; " + &accepted.text
                };
            }
            Err(mut refusal) => {
                if !done.ids.is_empty() {
                    refusal.text += &format!(" (done before that: {})", done.ids.join(", "));
                }
                return Err(refusal);
            }
        }
    }
    Ok(Reply::Accepted(done))
}

/// Answers from one position, whoever leads; nothing but reads of the ledger.
pub(super) fn read(view: &View, seer: &views::Seer<'_>, ask: &AskJob) -> Result<Reply, Refusal> {
    match ask {
        AskJob::List(filter) => Ok(list(view, seer, filter)),
        AskJob::Show(id) => show(view, seer, *id),
        AskJob::Submit(_)
        | AskJob::Kill { .. }
        | AskJob::Hold(_)
        | AskJob::Release(_)
        | AskJob::Requeue(_)
        | AskJob::Suspend(_)
        | AskJob::Resume(_)
        | AskJob::ConfirmDead(_)
        | AskJob::Output { .. } => Err(needs_primary()),
    }
}

fn list(view: &View, seer: &views::Seer<'_>, filter: &JobFilter) -> Reply {
    let limit = match filter.limit as usize {
        0 => ROWS_MAX,
        limit => limit.min(ROWS_MAX),
    };
    let mut rows: Vec<JobView> = Vec::new();
    for entry in entries(view, filter) {
        if rows.len() == limit {
            return Reply::Jobs {
                jobs: rows,
                more: true,
            };
        }
        rows.push(seer.entry(&entry));
    }
    Reply::Jobs {
        jobs: rows,
        more: false,
    }
}

/// Jobs and arrays that match, in the order of their ids; an array stands before its elements.
fn entries<'a>(
    view: &'a View,
    filter: &'a JobFilter,
) -> Box<dyn Iterator<Item = views::Entry<'a>> + 'a> {
    if let Some(name) = &filter.host {
        return Box::new(
            jobs_on(view, name)
                .filter(|job| matches(view, job, filter))
                .map(views::Entry::Job),
        );
    }
    let after = filter.after;
    let behind =
        move |id: JobId| after.is_none_or(|after| views::listed(id) > views::listed(after));
    let jobs = view
        .jobs()
        .values()
        .filter(move |job| behind(job.id) && matches(view, job, filter))
        .map(views::Entry::Job);
    let arrays = view
        .arrays()
        .values()
        .filter(move |array| behind(JobId::single(array.number)) && matches_array(array, filter))
        .map(views::Entry::Array);
    Box::new(views::merge(jobs, arrays))
}

fn matches(view: &View, job: &Arc<JobRecord>, filter: &JobFilter) -> bool {
    let is =
        |wanted: &Option<String>, have: &str| wanted.as_ref().is_none_or(|wanted| wanted == have);
    (filter.all || !job.state.is_terminal())
        && is(&filter.owner, &job.owner)
        && is(&filter.project, &job.spec.project)
        && is(&filter.name, &job.spec.name)
        && filter.service.as_ref().is_none_or(|wanted| {
            let service = job.service.and_then(|part| view.service(part.service));
            service.is_some_and(|service| service.name == *wanted)
        })
}

fn matches_array(array: &xce_ledger::ArrayRecord, filter: &JobFilter) -> bool {
    let is =
        |wanted: &Option<String>, have: &str| wanted.as_ref().is_none_or(|wanted| wanted == have);
    (filter.all || !views::array_state(array).is_terminal())
        && filter.service.is_none()
        && is(&filter.owner, &array.owner)
        && is(&filter.project, &array.spec.project)
        && is(&filter.name, &array.spec.name)
}

/// One job; an array with those of its elements that have a job of their own.
fn show(view: &View, seer: &views::Seer<'_>, id: JobId) -> Result<Reply, Refusal> {
    let one = |entry| {
        Ok(Reply::Jobs {
            jobs: vec![seer.entry(&entry)],
            more: false,
        })
    };
    if let Some(job) = view.job(id) {
        return one(views::Entry::Job(job));
    }
    let Some(array) = view.array(id.number) else {
        return Err(Refusal::not_found("job", id));
    };
    if !id.is_element() {
        let mut jobs = vec![seer.entry(&views::Entry::Array(array))];
        let elements = elements_of(view, id.number).take(ROWS_MAX);
        jobs.extend(elements.map(|job| seer.entry(&views::Entry::Job(job))));
        return Ok(Reply::Jobs { jobs, more: false });
    }
    match views::folded_element(array, id) {
        Some(job) => one(views::Entry::Job(&Arc::new(job))),
        None => Err(Refusal::not_found("job", id)),
    }
}

/// Output lies on the job's host, so one that does not answer cannot be asked.
fn answers(view: &View, host: &str) -> Result<(), Refusal> {
    let life = view.host(host).map(|host| host.life);
    if life == Some(HostLife::Up) {
        return Ok(());
    }
    let state = life.map_or("not known any more", HostLife::word);
    let text = format!("host {host} is {state}: the output that lies there cannot be read now");
    Err(Refusal::new(
        RefusalKind::Unavailable,
        "host_unreachable",
        text,
    ))
}

struct Part {
    stderr: bool,
    offset: u64,
    bytes_max: u32,
}

async fn output(
    caller: &Caller<'_>,
    id: JobId,
    run: Option<Run>,
    part: Part,
) -> Result<Output, Refusal> {
    let control = caller.control;
    let (host_name, current) = {
        let view = control.view();
        let job = match view.job(id) {
            Some(job) => job,
            None if view.array(id.number).is_some() => {
                return Err(Refusal::refused(
                    "no_output",
                    format!("job {id} has no output of its own yet"),
                ));
            }
            None => return Err(Refusal::not_found("job", id)),
        };
        match &job.host {
            Some(host) if job.run > 0 => {
                answers(&view, host)?;
                (host.to_string(), job.run)
            }
            Some(_) | None => {
                let text = format!("job {id} has not run yet, so there is no output");
                return Err(Refusal::refused("no_output", text));
            }
        }
    };
    let read = ReadOutput {
        run: RunId {
            job: id,
            run: run.unwrap_or(current),
        },
        stderr: part.stderr,
        offset: part.offset,
        bytes_max: part.bytes_max.min(OUTPUT_BYTES_MAX),
    };
    let unreachable =
        |text: String| Refusal::new(RefusalKind::Unavailable, "host_unreachable", text);
    let Some(address) = host::address(control, &host_name) else {
        return Err(unreachable(format!(
            "host {host_name} is not known any more"
        )));
    };
    let asked = |reply| host::Message::Read(Box::new((read, reply)));
    match address.call(asked, OUTPUT_WITHIN).await {
        Ok(answer) => answer,
        Err(CallError::NotDelivered(_) | CallError::Unknown(_)) => Err(unreachable(format!(
            "host {host_name} did not answer in time; try again"
        ))),
    }
}
