//! A worker joins: its host is up, its facts are taken up where they were committed, and it is told
//! of every run that is wanted.

use std::sync::Arc;

use xce_host::HostLife;
use xce_host::rules::decide_join;
use xce_ledger::{Fact, Precondition, View};
use xce_link::CloseCode;
use xce_model::{ClusterTime, Refusal, RefusalKind, WallTime};
use xce_replica::rules::decide_host_lost;
use xce_replica::wire::ReportsCommitted;
use xce_runtime::Crash;
use xce_session::worker_wire::ToWorker;

use crate::connections::Connection;
use crate::control::CommitError;
use crate::host::{Host, State};
use crate::job::DECISIONS_MAX;
use crate::orders;
use crate::reading::jobs_on;

/// Lets a worker join, or refuses it in words.
///
/// # Errors
/// The actor must end: the outcome of a write is unknown.
pub async fn join(
    host: &Host,
    connection: Arc<Connection>,
    state: &mut State,
) -> Result<(), Crash> {
    match decide_and_commit(host, &connection, state).await {
        Ok(()) => {}
        Err(CommitError::Unknown) => return Err(CommitError::Unknown.into()),
        Err(CommitError::Stale(text)) => {
            refuse(
                &connection,
                &Refusal::new(RefusalKind::Unavailable, "busy", text),
            );
            return Ok(());
        }
        Err(CommitError::Refused(refusal)) => {
            refuse(&connection, &refusal);
            return Ok(());
        }
    }
    if let Some(earlier) = host.control.connections.put(Arc::clone(&connection))
        && earlier.session != connection.session
    {
        earlier.peer.close(
            CloseCode::Fenced,
            "a newer connection of this worker took over",
        );
    }
    state.drop_questions();
    state.connection = Some(Arc::clone(&connection));
    state.heard_ms = host.control.monotonic_ms();
    let view = host.control.view();
    let Some(record) = view.host(&host.name) else {
        return Ok(());
    };
    let epoch = connection.join.epoch;
    let sequence = if record.epoch == epoch {
        record.sequence
    } else {
        0
    };
    host.tell(
        state,
        &ToWorker::Joined(ReportsCommitted { epoch, sequence }),
    );
    let wanted = jobs_on(&view, &host.name)
        .filter_map(|job| orders::order(&view, job, true))
        .collect();
    host.send(state, true, wanted, view.lsn());
    host.judge_later(state);
    tracing::info!(host = %host.name, session = connection.session.0, "worker joined");
    Ok(())
}

fn refuse(connection: &Connection, refusal: &Refusal) {
    tracing::warn!(host = %connection.join.inventory.name, code = %refusal.code, "join refused");
    // Both ends are told: in words on the stream, and by the reason of the close.
    drop(connection.peer.push(0, &ToWorker::Refused(refusal.clone())));
    let (peer, text) = (connection.peer.clone(), refusal.text.clone());
    xce_runtime::Task::spawn(async move {
        peer.finish().await;
        peer.close(CloseCode::Refused, &text);
    })
    .detach();
}

async fn decide_and_commit(
    host: &Host,
    connection: &Connection,
    state: &State,
) -> Result<(), CommitError> {
    let inventory = &connection.join.inventory;
    let connected = state
        .connection
        .as_ref()
        .filter(|_| state.is_connected())
        .map(|connection| connection.join.inventory.incarnation);
    let mut stale = String::new();
    let mut tries = 0;
    while tries < DECISIONS_MAX {
        let view = host.control.view();
        let known = view.host(&host.name).map(Arc::as_ref);
        let fact = decide_join(known, connected, inventory).map_err(CommitError::Refused)?;
        if let Some(known) = known
            && known.life == HostLife::Up
            && known.inventory == *inventory
        {
            return Ok(());
        }
        let lsn = known.map_or(0, |known| known.changed);
        let mut conditions = vec![Precondition::HostUnchanged {
            host: host.name.clone(),
            lsn,
        }];
        let mut facts = vec![Fact::from(fact)];
        if known.is_some_and(|known| known.inventory.incarnation != inventory.incarnation) {
            let lost = lose_jobs(&host.name, &view, host.control.times());
            if lost.more {
                // The rest follows; the join itself commits with the last of them.
                facts.clear();
            }
            conditions.extend(lost.conditions);
            facts.extend(lost.facts);
            if lost.more {
                commit_part(host, conditions, facts).await?;
                continue;
            }
        }
        match host.control.commit_facts("join", conditions, facts).await {
            Ok(_) => return Ok(()),
            Err(CommitError::Stale(text)) => {
                stale = text;
                tries += 1;
            }
            Err(error) => return Err(error),
        }
    }
    Err(CommitError::Stale(stale))
}

async fn commit_part(
    host: &Host,
    conditions: Vec<Precondition>,
    facts: Vec<Fact>,
) -> Result<(), CommitError> {
    match host
        .control
        .commit_facts("host lost", conditions, facts)
        .await
    {
        // What changed meanwhile is seen the next time.
        Ok(_) | Err(CommitError::Stale(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Jobs of a lost host that one group takes.
/// Source: derived; some 200 bytes each, half of what one log entry holds.
const LOST_MAX: usize = 2000;

/// What the loss of a host means for jobs that hold it.
pub struct LostJobs {
    /// Under which conditions.
    pub conditions: Vec<Precondition>,
    /// What becomes of them.
    pub facts: Vec<Fact>,
    /// Whether there are more than one group takes.
    pub more: bool,
}

/// Decides what the loss of a host means for the jobs that hold it, as many as one group takes.
pub fn lose_jobs(host: &str, view: &View, times: (ClusterTime, WallTime)) -> LostJobs {
    let (now, wall) = times;
    let mut lost = LostJobs {
        conditions: Vec::new(),
        facts: Vec::new(),
        more: false,
    };
    for job in jobs_on(view, host) {
        if lost.facts.len() == LOST_MAX {
            lost.more = true;
            break;
        }
        lost.conditions.push(Precondition::JobUnchanged {
            job: job.id,
            lsn: job.changed,
        });
        let fact = decide_host_lost(job, now, wall);
        lost.facts.push(fact.into());
    }
    lost
}
