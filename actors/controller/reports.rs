//! Facts of a worker: decided in the order of its spool, committed together with the mark that says
//! how far they are, and only then acknowledged. So each counts exactly once.

use std::collections::BTreeMap;

use futures::future::{join, join_all};
use xce_deciding::{blame, schedule};
use xce_failpoint::Point;
use xce_host::HostFact;
use xce_ledger::{Fact, Group, GroupEvent, Precondition, View};
use xce_model::{ClusterTime, JobId, Lsn};
use xce_replica::rules::{Verdict, decide_report};
use xce_replica::wire::{Happened, Report, Reports, ReportsCommitted};
use xce_replica::{JobFact, JobRecord};
use xce_runtime::Crash;
use xce_session::worker_wire::ToWorker;

use crate::control::CommitError;
use crate::host::{Host, State};
use crate::job::DECISIONS_MAX;

/// Takes a batch of facts.
///
/// # Errors
/// The actor must end: the outcome of a write is unknown. The worker sends the facts again.
pub async fn take(host: &Host, batch: Reports, state: &mut State) -> Result<(), Crash> {
    let Some(connection) = state.connection.clone() else {
        return Ok(());
    };
    let Some(last) = batch.reports.last().map(|report| report.sequence) else {
        return Ok(());
    };
    xce_failpoint::hit(Point::ControllerReportsTaken);
    for _ in 0..DECISIONS_MAX {
        let view = host.control.view();
        if misses(&view, &host.name, &batch) {
            break;
        }
        let incarnation = connection.join.inventory.incarnation;
        let now = host.control.now();
        let Some(decided) = decide(&view, &host.name, &batch, incarnation, now) else {
            return Ok(());
        };
        let stale = decided.stale;
        let committed = if decided.facts.is_empty() {
            Ok(())
        } else {
            commit(host, &view, decided, now).await
        };
        match committed {
            Ok(()) => {
                xce_failpoint::hit(Point::ControllerReportsCommitted);
                state.reports += batch.reports.len() as u64;
                state.stale += stale;
                let committed = ReportsCommitted {
                    epoch: batch.epoch,
                    sequence: last,
                };
                host.tell(state, &ToWorker::Committed(committed));
                xce_failpoint::hit(Point::ControllerReportsMarked);
                return Ok(());
            }
            Err(CommitError::Stale(_)) => {}
            Err(CommitError::Refused(refusal)) => {
                tracing::warn!(host = %host.name, code = %refusal.code, "worker's facts not written");
                break;
            }
            Err(CommitError::Unknown) => return Err(CommitError::Unknown.into()),
        }
    }
    // Not taken: the worker keeps them and sends them again when it has joined again.
    connection.peer.close(
        xce_link::CloseCode::Refused,
        "facts not taken now; join again",
    );
    Ok(())
}

/// Commits what the facts mean and, where they free room, what is to run there next: planned from
/// the state as it will be, so that the next run of a busy host costs no sync of its own. Each
/// placement carries its precondition; what turns out otherwise is refused and planned again.
async fn commit(
    host: &Host,
    view: &View,
    decided: Decided,
    now: ClusterTime,
) -> Result<(), CommitError> {
    let times = (now, host.control.wall());
    let mut group = Group::new(now, times.1, "reports");
    group.decided = view.lsn();
    group.preconditions = decided.conditions;
    group.facts = decided.facts;
    let next = if decided.frees && host.control.settings.scheduler_grace.is_none() {
        schedule::plan_ahead(view, &group, now)
    } else {
        Vec::new()
    };
    let placing = join_all((0..).zip(next).map(|(nth, mut placement)| {
        // Made from this view with the group above on it.
        placement.made_at = view.lsn();
        let host_name = host.name.clone();
        let event = GroupEvent::PlannedAhead {
            nth,
            host: host_name,
        };
        host.control.place(placement, event, times)
    }));
    // The group is queued first, since it is polled first.
    let (committed, placed) = join(host.control.commit(&group), placing).await;
    committed?;
    let unknown = placed
        .into_iter()
        .any(|placed| matches!(placed, Err(CommitError::Unknown)));
    if unknown {
        Err(CommitError::Unknown)
    } else {
        Ok(())
    }
}

fn mark(record: &xce_host::HostRecord, epoch: u64) -> u64 {
    if record.epoch == epoch {
        record.sequence
    } else {
        0
    }
}

/// Whether facts that were sent before these are not committed: they died with the mailbox of an
/// earlier incarnation. To take these would pass over them for ever.
pub fn misses(view: &View, host: &str, batch: &Reports) -> bool {
    let record = view.host(host);
    record.is_some_and(|record| batch.after > mark(record, batch.epoch))
}

/// What a batch of a worker's facts means.
pub struct Decided {
    /// Whether a job leaves the host.
    pub frees: bool,
    /// Under which conditions.
    pub conditions: Vec<Precondition>,
    /// What is committed; the mark comes last.
    pub facts: Vec<Fact>,
    /// Facts of runs that are not current.
    pub stale: u64,
}

/// Jobs as they are after the facts of this batch so far, with the position that was read.
type Touched = BTreeMap<JobId, (Option<JobRecord>, Lsn)>;

/// Decides what a batch of a worker's facts means; nothing where the host is not known by this
/// incarnation.
pub fn decide(
    view: &View,
    host: &str,
    batch: &Reports,
    incarnation: xce_model::Incarnation,
    now: ClusterTime,
) -> Option<Decided> {
    let record = view.host(host)?;
    if record.inventory.incarnation != incarnation {
        return None;
    }
    let mark = mark(record, batch.epoch);
    let mut touched: Touched = BTreeMap::new();
    let mut facts = Vec::new();
    let mut stale = 0;
    let mut host_now = (**record).clone();
    let mut last = mark;
    for report in batch.reports.iter().filter(|report| report.sequence > mark) {
        last = last.max(report.sequence);
        let id = report.run.job;
        let (job, _) = touched.entry(id).or_insert_with(|| {
            let job = view.job(id).map(|job| (**job).clone());
            let lsn = job.as_ref().map_or(0, |job| job.changed);
            (job, lsn)
        });
        let verdict = decide_report(job.as_ref(), host, report, now);
        let Verdict::Facts(decided) = verdict else {
            stale += 1;
            facts.extend(confirmed(record, report).map(Fact::from));
            continue;
        };
        apply(job.as_mut(), &decided, now, view.lsn());
        facts.extend(decided.into_iter().map(Fact::from));
        let of_host = blame::of_report(view, &mut host_now, job.as_ref(), &report.what, now);
        facts.extend(of_host.into_iter().map(Fact::from));
    }
    if last > mark {
        let (name, epoch) = (host.to_owned(), batch.epoch);
        facts.push(
            HostFact::Marked {
                host: name,
                epoch,
                sequence: last,
            }
            .into(),
        );
    }
    let conditions = conditions(record, incarnation, touched);
    let frees = facts.iter().any(|fact| {
        matches!(
            fact,
            Fact::Job(JobFact::Ended { .. } | JobFact::Requeued { .. })
                | Fact::Host(HostFact::RunGone { .. })
        )
    });
    Some(Decided {
        frees,
        conditions,
        facts,
        stale,
    })
}

/// The end of a run that was not counted any more frees what it held.
fn confirmed(host: &xce_host::HostRecord, report: &Report) -> Option<HostFact> {
    let (job, run) = (report.run.job, report.run.run);
    let ended = match &report.what {
        Happened::Ended { .. } | Happened::LaunchFailed { .. } => true,
        Happened::Started { .. }
        | Happened::Ready
        | Happened::NotReady { .. }
        | Happened::Restarting { .. }
        | Happened::Suspended
        | Happened::Resumed
        | Happened::ProbeUnrunnable { .. }
        | Happened::RestartWanted { .. }
        | Happened::RestartUnwanted
        | Happened::StopHangs { .. } => false,
    };
    let known = host.remnant(job, run).filter(|_| ended)?;
    Some(HostFact::RunGone {
        host: host.inventory.name.clone(),
        job: known.job,
        run: known.run,
    })
}

/// The batch holds as long as the mark and the jobs are as they were read.
fn conditions(
    record: &xce_host::HostRecord,
    incarnation: xce_model::Incarnation,
    touched: Touched,
) -> Vec<Precondition> {
    let mut conditions = vec![Precondition::HostMark {
        host: record.inventory.name.clone(),
        incarnation,
        epoch: record.epoch,
        sequence: record.sequence,
    }];
    conditions.extend(
        touched.into_iter().filter_map(|(job, (known, lsn))| {
            known.map(|_| Precondition::JobUnchanged { job, lsn })
        }),
    );
    conditions
}

fn apply(job: Option<&mut JobRecord>, facts: &[xce_replica::JobFact], now: ClusterTime, lsn: Lsn) {
    let Some(job) = job else { return };
    for fact in facts {
        job.apply(fact, now, lsn);
    }
}
