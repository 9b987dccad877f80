//! The live actor tree.

use std::time::Duration;

use xce_model::{Refusal, RefusalKind};
use xce_runtime::{Answer, Filter, Key, Phase, Row};
use xce_session::wire::{Accepted, ActorView, AskActor, Reply};

use super::Caller;

/// Most rows of one answer. Source: derived; some 200 bytes a row stay far below one frame.
const ROWS_MAX: usize = 20_000;
/// Families of a folded tree. Source: derived; kinds times shards of a million actors.
const FAMILIES_MAX: usize = 4096;
/// How long an actor may take to show its state. Source: chosen; an operator waits that long.
const VIEW_WITHIN: Duration = Duration::from_secs(1);

pub async fn answer(caller: &Caller<'_>, ask: AskActor) -> Result<Reply, Refusal> {
    match ask {
        AskActor::Tree {
            kind,
            phase,
            fold_above,
        } => tree(caller, kind, phase.as_deref(), u64::from(fold_above)).await,
        AskActor::Show(key) => show(caller, &named(caller, &key)).await,
        AskActor::Kill(key) => kill(caller, &named(caller, &key)),
        AskActor::Retry(key) => retry(caller, &named(caller, &key)),
    }
}

/// Operators may name a service's actor by the service's name: `service/web`.
fn named(caller: &Caller<'_>, key: &str) -> String {
    let view = caller.control.view();
    let (kind, id) = Key::split(key);
    let (project, name) = id.split_once('/').unwrap_or(("default", id));
    match view.service_named(project, name) {
        Some(service) if kind == "service" => format!("service/{}", service.id),
        Some(_) | None => key.to_owned(),
    }
}

fn refused(refusal: &xce_runtime::Refusal) -> Refusal {
    let kind = match refusal {
        xce_runtime::Refusal::Unknown(_) => RefusalKind::NotFound,
        xce_runtime::Refusal::Overloaded { .. } | xce_runtime::Refusal::Late(_) => {
            RefusalKind::Unavailable
        }
        xce_runtime::Refusal::Exists(_)
        | xce_runtime::Refusal::NotRunning(_)
        | xce_runtime::Refusal::NotQuarantined(_)
        | xce_runtime::Refusal::Stopping(_) => RefusalKind::Refused,
    };
    Refusal::new(kind, refusal.code(), refusal.to_string())
}

fn row(row: Row) -> ActorView {
    ActorView {
        kind: row.key.kind().to_owned(),
        key: row.key.to_string(),
        parent: row
            .parent
            .map_or_else(String::new, |parent| parent.to_string()),
        state: row.phase.to_string(),
        restarts: row.restarts,
        mailbox: u32::try_from(row.depth).unwrap_or(u32::MAX),
        handled: row.handled,
        // A share between 0 and 1, so the conversion cannot overflow.
        busy_permille: (row.busy_share * 1000.0).round() as u32,
        age_ms: row.age_ms,
        stuck_ms: row.stuck_ms.unwrap_or(0),
        last_error: row.last_error.map_or_else(String::new, |error| error.text),
        count: 1,
    }
}

async fn tree(
    caller: &Caller<'_>,
    kind: Option<String>,
    phase: Option<&str>,
    fold_above: u64,
) -> Result<Reply, Refusal> {
    let node = &caller.control.node;
    let phase = phase.map(parse_phase).transpose()?;
    let mut rows = Vec::new();
    let mut folded: Vec<(Option<Key>, &'static str)> = Vec::new();
    if fold_above > 0 && phase.is_none() {
        for family in node.tree(FAMILIES_MAX).await.families {
            let wanted = kind.as_ref().is_none_or(|kind| kind == family.kind);
            if family.count > fold_above && wanted {
                rows.push(family_row(&family));
                folded.push((family.parent, family.kind));
            }
        }
    }
    let filter = Filter {
        kind,
        phase,
        ..Filter::default()
    };
    let mut after: Option<Key> = None;
    loop {
        let page = node.page(&filter, after.as_ref(), xce_runtime::ROWS_MAX);
        let shown = page.rows.into_iter().filter(|row| {
            !folded
                .iter()
                .any(|(parent, kind)| *kind == row.key.kind() && *parent == row.parent)
        });
        rows.extend(shown.map(row));
        after = page.next;
        if after.is_none() || rows.len() >= ROWS_MAX {
            break;
        }
        tokio::task::yield_now().await;
    }
    rows.truncate(ROWS_MAX);
    Ok(Reply::Actors(rows))
}

fn family_row(family: &xce_runtime::Family) -> ActorView {
    let phases: Vec<String> = family
        .phases
        .iter()
        .map(|(phase, count)| format!("{count} {phase}"))
        .collect();
    ActorView {
        kind: family.kind.to_owned(),
        key: format!("{}/*", family.kind),
        parent: family
            .parent
            .as_ref()
            .map_or_else(String::new, ToString::to_string),
        state: phases.join(", "),
        restarts: u32::try_from(family.restarts).unwrap_or(u32::MAX),
        mailbox: u32::try_from(family.depth).unwrap_or(u32::MAX),
        count: u32::try_from(family.count).unwrap_or(u32::MAX),
        ..ActorView::default()
    }
}

fn parse_phase(text: &str) -> Result<Phase, Refusal> {
    Phase::ALL
        .into_iter()
        .find(|phase| phase.to_string() == text)
        .ok_or_else(|| {
            let allowed: Vec<String> = Phase::ALL.iter().map(ToString::to_string).collect();
            let shown: String = text
                .chars()
                .take(40)
                .flat_map(char::escape_default)
                .collect();
            let text = format!(
                "`{shown}` is no state of an actor: allowed are {}",
                allowed.join(", ")
            );
            Refusal::new(RefusalKind::Usage, "bad_state", text)
        })
}

async fn show(caller: &Caller<'_>, key: &str) -> Result<Reply, Refusal> {
    let inspected = caller.control.node.inspect(key, VIEW_WITHIN).await;
    let inspected = inspected.map_err(|refusal| refused(&refusal))?;
    let (says, view) = match inspected.answer {
        Answer::Alive(view) => ("alive", Some(view)),
        Answer::Late(view) => ("late", view),
        Answer::Down(view) => ("down", view),
    };
    let actor = serde_json::to_value(row(inspected.row));
    let view = view.and_then(|view| serde_json::from_str::<serde_json::Value>(view.as_json()).ok());
    let shown = serde_json::json!({ "actor": actor.ok(), "answer": says, "view": view });
    Ok(Reply::Json(shown.to_string()))
}

fn accepted(caller: &Caller<'_>, text: String) -> Reply {
    Reply::Accepted(Accepted {
        lsn: caller.control.view().lsn(),
        ids: Vec::new(),
        text,
    })
}

fn kill(caller: &Caller<'_>, key: &str) -> Result<Reply, Refusal> {
    if !caller.control.settings.live.get().chaos {
        return Err(Refusal::new(
            RefusalKind::NotPermitted,
            "chaos_disabled",
            "actors are killed on request only where `chaos.enabled = true` is configured",
        ));
    }
    caller
        .control
        .node
        .kill(key)
        .map_err(|refusal| refused(&refusal))?;
    tracing::warn!(key, by = caller.name(), "actor killed on request");
    Ok(accepted(
        caller,
        format!("actor {key} was killed; it comes back from committed state"),
    ))
}

fn retry(caller: &Caller<'_>, key: &str) -> Result<Reply, Refusal> {
    caller
        .control
        .node
        .retry(key)
        .map_err(|refusal| refused(&refusal))?;
    Ok(accepted(caller, format!("actor {key} starts again")))
}
