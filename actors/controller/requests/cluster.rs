//! The cluster itself: status, audit, sessions.

use xce_host::HostLife;
use xce_ledger::View;
use xce_model::{JobState, Refusal, RefusalKind, SessionId};
use xce_session::wire::{AskCluster, ClusterView, Reply, SessionView};

use super::{Caller, members};
use crate::journal;
use crate::losing;
use crate::peers::name_of;
use crate::views::time;

pub async fn answer(caller: &Caller<'_>, ask: AskCluster) -> Result<Reply, Refusal> {
    match ask {
        AskCluster::Status => Ok(Reply::Cluster(Box::new(status(caller)))),
        AskCluster::Audit => audit(caller).await,
        AskCluster::Sessions => {
            let sessions = caller.control.sessions.views().into_iter();
            Ok(Reply::Sessions(
                sessions.map(|session| reading(caller, session)).collect(),
            ))
        }
        AskCluster::Session(id) => match caller.control.sessions.view(SessionId(id)) {
            Some(session) => Ok(Reply::Sessions(vec![reading(caller, session)])),
            None => Err(Refusal::not_found("session", id)),
        },
        AskCluster::Journal(after) => {
            let part = journal::part(caller.control, after).await?;
            Ok(Reply::Journal(Box::new(part)))
        }
        AskCluster::Refusals { last } => {
            let refusals = caller.control.refusals.last(last).await?;
            Ok(Reply::Refusals(refusals))
        }
        AskCluster::ReloadConfig => {
            let seen = caller.control.settings.reload.run()?;
            let text = serde_json::to_string(&seen).unwrap_or_default();
            Ok(Reply::Json(text))
        }
        AskCluster::Watch(_) => Err(Refusal::new(
            RefusalKind::Usage,
            "malformed_request",
            "a watch is a request of its session",
        )),
    }
}

/// Adds whose endpoints a session reads.
fn reading(caller: &Caller<'_>, session: SessionView) -> SessionView {
    let reads = caller
        .control
        .readers
        .views_of_session(SessionId(session.id));
    SessionView { reads, ..session }
}

fn status(caller: &Caller<'_>) -> ClusterView {
    let control = caller.control;
    let view = control.view();
    let wal = control.wal.status();
    let count = |life| {
        view.hosts()
            .values()
            .filter(|host| host.life == life)
            .count()
    };
    let (jobs, pending) = jobs_of(&view);
    let mut alarms: Vec<String> = wal.alarm.iter().cloned().collect();
    let silence = control.scheduling.silence();
    alarms.extend(silence.map(|silence| silence.text(control.monotonic_ms())));
    alarms.extend(
        view.hosts()
            .values()
            .filter(|host| host.closed.is_some())
            .map(|host| {
                let reason = host
                    .closed
                    .as_ref()
                    .map_or("", |closed| closed.reason.as_str());
                format!("host {} is closed: {reason}", host.inventory.name)
            }),
    );
    alarms.extend(super::alarms::of_drains(&view));
    alarms.extend(losing::alarm(control, &view));
    alarms.extend(losing::missing(&view));
    let controllers = members::views(control);
    let (voters, voters_up, quorum) = members::quorum(control, None);
    alarms.extend(super::alarms::of_controllers(
        control,
        &controllers,
        (voters, voters_up, quorum),
    ));
    let short = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    ClusterView {
        cluster: control.settings.cluster.to_string(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        role: "primary".to_owned(),
        term: wal.term,
        lsn: view.lsn(),
        time_ms: control.now().0,
        services: view.services().len() as u64,
        jobs,
        pending,
        hosts_up: u32::try_from(count(HostLife::Up)).unwrap_or(u32::MAX),
        hosts: u32::try_from(view.hosts().len()).unwrap_or(u32::MAX),
        sessions: u32::try_from(control.sessions.connected()).unwrap_or(u32::MAX),
        pid: std::process::id(),
        alarms,
        wal: figures(&wal),
        primary: name_of(control.settings.node),
        primary_since: time(control.anchor.wall),
        voters: short(voters),
        voters_up: short(voters_up),
        quorum: short(quorum),
        epoch: view.epoch(),
        level: view.level(),
        level_max: control.settings.level_max,
        quarantined: view.hosts().values().map(quarantined).sum(),
        controllers,
    }
}

/// Jobs that have not ended, and those of them that wait.
fn jobs_of(view: &View) -> (u64, u64) {
    let count = |is: fn(JobState) -> bool| {
        let jobs = view.jobs().values();
        jobs.filter(|job| is(job.state)).count() as u64
    };
    let pending: usize = view.pending().values().map(imbl::OrdSet::len).sum();
    let arrays = view.arrays().values();
    let waiting: u64 = arrays.map(|array| array.pending.count()).sum();
    let held = count(|state| state == JobState::Held);
    let live = count(|state| !state.is_terminal());
    (live + waiting, pending as u64 + held)
}

/// Recounts the whole ledger, on a thread of its own: it may take a while and blocks nobody.
async fn audit(caller: &Caller<'_>) -> Result<Reply, Refusal> {
    let view = caller.control.view();
    let found = tokio::task::spawn_blocking(move || {
        let findings = xce_ledger::audit(&view);
        findings
            .iter()
            .map(|finding| format!("{}: {}", finding.code, finding.text))
            .collect()
    });
    let failed = |error: tokio::task::JoinError| {
        Refusal::new(RefusalKind::Unavailable, "audit_failed", error.to_string())
    };
    found.await.map(Reply::Findings).map_err(failed)
}

fn quarantined(host: &std::sync::Arc<xce_host::HostRecord>) -> u64 {
    host.quarantined().count() as u64
}

fn figures(wal: &xce_wal::WalStatus) -> Vec<(String, String)> {
    let disk = wal
        .disk_mode
        .map_or_else(|| "memory".to_owned(), |mode| format!("{mode:?}"));
    [
        ("disk_mode", disk),
        ("last_lsn", wal.last_lsn.to_string()),
        ("entries", wal.entries.to_string()),
        ("groups", wal.groups.to_string()),
        ("syncs", wal.syncs.to_string()),
        ("queue_groups", wal.queue_groups.to_string()),
        ("snapshot_lsn", wal.snapshot_lsn.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}
