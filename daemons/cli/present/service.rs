//! How services look.

use xce_model::JobState;
use xce_service::view::{
    Condition, EndpointState, EndpointView, EventView, ReplicaView, ServiceView,
};

use super::{span, time};
use crate::cli::print::{Field, Look, Row, Tone, cell, pairs_text, table_text};

impl Row for ServiceView {
    fn head(wide: bool) -> Vec<&'static str> {
        let mut head = vec![
            "NAME",
            "CONDITION",
            "DESIRED",
            "LIVE",
            "READY",
            "AVAILABLE",
            "STOPPING",
            "VERSION",
        ];
        if wide {
            head.extend(["ID", "PROJECT", "OWNER", "PROFILE", "CREATED"]);
        }
        head.push("REASON");
        head
    }

    fn cells(&self, look: &Look) -> Vec<Field> {
        let mut cells = vec![
            cell(&self.name),
            Field::toned(self.condition.word(), condition_tone(self.condition)),
            cell(self.desired),
            cell(self.live),
            cell(self.ready),
            cell(self.available),
            cell(self.stopping),
            cell(self.version),
        ];
        if look.wide {
            cells.extend([
                cell(self.id),
                cell(&self.project),
                cell(&self.owner),
                cell(&self.profile),
                cell(time(&self.created, &look.now)),
            ]);
        }
        cells.push(cell(&self.reason));
        cells
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

impl Row for ReplicaView {
    fn head(wide: bool) -> Vec<&'static str> {
        let mut head = vec![
            "INDEX", "JOB", "RUN", "HOST", "STATE", "READY", "PID", "RESTARTS",
        ];
        if wide {
            head.extend(["VERSION", "AVAILABLE", "REACHABLE"]);
        }
        head.push("REASON");
        head
    }

    fn cells(&self, look: &Look) -> Vec<Field> {
        let mut cells = vec![
            cell(self.index),
            cell(self.job),
            cell(self.run),
            cell(self.host.as_deref().unwrap_or("-")),
            Field::toned(self.state, state_tone(self.state)),
            ready(self.ready),
            cell(if self.pid == 0 {
                "-".to_owned()
            } else {
                self.pid.to_string()
            }),
            cell(self.restarts),
        ];
        if look.wide {
            cells.extend([
                cell(self.version),
                cell(self.available),
                cell(self.reachable),
            ]);
        }
        cells.push(cell(&self.reason));
        cells
    }

    fn name(&self) -> String {
        self.job.to_string()
    }
}

impl Row for EndpointView {
    fn head(wide: bool) -> Vec<&'static str> {
        let head = ["PORT", "ENDPOINT", "STATE", "REPLICA", "JOB"];
        if wide {
            head.to_vec()
        } else {
            head[..4].to_vec()
        }
    }

    fn cells(&self, look: &Look) -> Vec<Field> {
        let (word, tone) = match self.state {
            EndpointState::Ready => ("ready", Tone::Good),
            EndpointState::Suspect => ("suspect", Tone::Bad),
        };
        let mut cells = vec![
            cell(&self.name),
            cell(self.name()),
            Field::toned(word, tone),
            cell(self.replica),
        ];
        if look.wide {
            cells.push(cell(self.job));
        }
        cells
    }

    fn name(&self) -> String {
        if self.address.contains(':') {
            format!("[{}]:{}", self.address, self.port)
        } else {
            format!("{}:{}", self.address, self.port)
        }
    }
}

/// One service for people.
pub fn details(service: &ServiceView, look: &Look) -> String {
    let others: Vec<String> = service
        .conditions
        .iter()
        .filter(|other| other.condition != service.condition)
        .map(|other| format!("{} ({})", other.condition.word(), other.reason))
        .collect();
    let rollout = &service.rollout;
    let deadline = rollout
        .deadline_in_ms
        .map(|left| format!(", stuck in {}", span(left)));
    let mut text = pairs_text(&[
        (
            "service",
            format!(
                "{} (id {}, project {})",
                service.name, service.id, service.project
            ),
        ),
        (
            "condition",
            with_reason(service.condition.word(), &service.reason),
        ),
        ("also", others.join("; ")),
        ("replicas", counts(service)),
        (
            "version",
            format!(
                "{}, {}: {} updated ({} available), {} old{}",
                service.version,
                rollout.phase,
                rollout.updated,
                rollout.updated_available,
                rollout.old,
                deadline.unwrap_or_default()
            ),
        ),
        ("held back", rollout.explain.clone()),
        (
            "owner",
            format!("{}, profile {}", service.owner, service.profile),
        ),
        ("created", time(&service.created, &look.now)),
    ]);
    if !service.replicas.is_empty() {
        text.push('\n');
        text.push_str(&table(&service.replicas, look));
    }
    if !service.endpoints.is_empty() {
        text.push('\n');
        text.push_str(&table(&service.endpoints, look));
    }
    if look.wide {
        text.push('\n');
        text.push_str(&history(service, look));
    }
    text.push_str(&events(service, look, EVENTS_SHOWN));
    text
}

/// How many replicas are wanted, and where those that exist are.
fn counts(service: &ServiceView) -> String {
    let text = format!(
        "{} desired, {} live, {} ready, {} available, {} stopping",
        service.desired, service.live, service.ready, service.available, service.stopping
    );
    match service.lost {
        0 => text,
        count => format!("{text}, {count} lost"),
    }
}

/// Events shown with a service. Source: chosen, half a screen; `services events` shows all.
const EVENTS_SHOWN: usize = 10;

/// The last events of a service for people.
pub fn events(service: &ServiceView, look: &Look, most: usize) -> String {
    let skipped = service.events.len().saturating_sub(most);
    let rows: Vec<Vec<Field>> = service
        .events
        .iter()
        .skip(skipped)
        .map(|event| {
            vec![
                cell(time(&event.time, &look.now)),
                cell(&event.kind),
                cell(&event.text),
            ]
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    format!(
        "\n{}",
        table_text(&["TIME", "EVENT", "TEXT"], rows, look.coloured)
    )
}

/// One event with its position.
pub fn event_cells(event: &EventView, look: &Look) -> Vec<Field> {
    vec![
        cell(time(&event.time, &look.now)),
        cell(event.lsn),
        cell(&event.kind),
        cell(&event.text),
    ]
}

fn history(service: &ServiceView, look: &Look) -> String {
    let rows = service
        .history
        .iter()
        .map(|version| {
            vec![
                cell(version.number),
                cell(word(&version.reason)),
                cell(word(&version.outcome)),
                cell(&version.author),
                cell(time(&version.time, &look.now)),
            ]
        })
        .collect();
    table_text(
        &["VERSION", "WHY", "OUTCOME", "AUTHOR", "TIME"],
        rows,
        look.coloured,
    )
}

/// The word of an enum in machine output.
pub fn word<T: serde::Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(value) => value.to_string().replace(['{', '}', '"'], ""),
        Err(_) => String::new(),
    }
}

fn table<T: Row>(rows: &[T], look: &Look) -> String {
    let cells = rows.iter().map(|row| row.cells(look)).collect();
    table_text(&T::head(look.wide), cells, look.coloured)
}

fn with_reason(word: &str, reason: &str) -> String {
    if reason.is_empty() {
        word.to_owned()
    } else {
        format!("{word}: {reason}")
    }
}

/// A yes or no about being ready.
pub fn ready(ready: bool) -> Field {
    if ready {
        Field::toned("yes", Tone::Good)
    } else {
        Field::toned("no", Tone::Passing)
    }
}

/// The tone of a job's state.
pub fn state_tone(state: JobState) -> Tone {
    match state {
        JobState::Run | JobState::Done => Tone::Good,
        JobState::Pend | JobState::Held | JobState::Start | JobState::Susp | JobState::Stopping => {
            Tone::Passing
        }
        JobState::Exit => Tone::Bad,
    }
}

fn condition_tone(condition: Condition) -> Tone {
    match condition {
        Condition::Steady => Tone::Good,
        Condition::Rolling | Condition::Paused | Condition::Deleting => Tone::Passing,
        Condition::CrashLoop | Condition::Stuck | Condition::Short => Tone::Bad,
    }
}
