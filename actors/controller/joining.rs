//! A worker joins: its host is up, its facts are taken up where they were committed, and it is told
//! of every run that is wanted.

use std::sync::Arc;

use xce_deciding::host as deciding;
use xce_failpoint::Point;
use xce_host::Remnant;
use xce_host::rules::NAME_IN_USE;
use xce_ledger::{GroupEvent, Joining};
use xce_link::CloseCode;
use xce_model::{Cause, Refusal, RefusalKind};
use xce_replica::wire::{Order, Orders, ReportsCommitted, RunId, Want};
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
    xce_failpoint::hit(Point::ControllerJoinAsked);
    let outcome = decide_and_commit(host, &connection, state).await;
    // Whoever starts again after an unknown outcome has to try it again.
    if !matches!(outcome, Err(CommitError::Unknown)) {
        let connections = &host.control.connections;
        connections.answered(&host.name, connection.session);
    }
    match outcome {
        Ok(()) => xce_failpoint::hit(Point::ControllerJoinCommitted),
        Err(CommitError::Unknown) => return Err(CommitError::Unknown.into()),
        Err(CommitError::Stale(text)) => {
            refuse(
                &connection,
                &Refusal::new(RefusalKind::Unavailable, "busy", text),
            );
            return Ok(());
        }
        Err(CommitError::Refused(refusal)) => {
            if refusal.code == NAME_IN_USE {
                stop_runs(host, &connection);
            }
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
        .flat_map(|job| orders::all(&view, job, true))
        .chain(orders::left_alone(record))
        .collect();
    host.send(state, true, wanted, view.lsn());
    host.judge_later(state);
    tracing::info!(host = %host.name, session = connection.session.0, "worker joined");
    Ok(())
}

/// What a worker has that lost its name to another one is counted no more: it is told to stop it, since
/// it will not join. What the ledger may have lost in a restore is left alone.
fn stop_runs(host: &Host, connection: &Connection) {
    let view = host.control.view();
    let runs = deciding::uncounted(&view, &host.name, &connection.join.runs);
    let stop = |run: &Remnant| Order {
        run: RunId {
            job: run.job,
            run: run.run,
        },
        want: Want::Stop {
            cause: Cause::TermStale,
            drained: false,
        },
    };
    let stale = runs.iter().filter(|run| !run.quarantined);
    let orders: Vec<Order> = stale.map(stop).collect();
    if orders.is_empty() {
        return;
    }
    tracing::warn!(host = %host.name, runs = orders.len(), "runs of a worker without its name are stopped");
    let orders = ToWorker::Orders(Orders {
        term: host.control.wal.status().term,
        lsn: view.lsn(),
        complete: false,
        orders,
    });
    // It asks again, and is told again.
    drop(connection.peer.push(0, &orders));
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
        let (view, times) = (host.control.view(), host.control.times());
        let joining = Joining {
            inventory: inventory.clone(),
            connected,
            runs: deciding::uncounted(&view, &host.name, &connection.join.runs),
            spool: (connection.join.epoch, connection.join.committed),
        };
        let step = deciding::join(&view, &joining, times).map_err(CommitError::Refused)?;
        let Some(step) = step else {
            return Ok(());
        };
        let cause = if step.more { "host lost" } else { "join" };
        let event = GroupEvent::HostJoined(Box::new(joining));
        let on = (view.lsn(), event);
        let committed = host
            .control
            .commit_decided(cause, on, times, step.decided)
            .await;
        match committed {
            // The rest of the jobs is decided next; what changed meanwhile is seen then.
            Ok(_) | Err(CommitError::Stale(_)) if step.more => {}
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
