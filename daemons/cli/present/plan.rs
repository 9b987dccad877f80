//! How a plan looks.

use xce_model::Millis;
use xce_session::plan::{PlanChange, PlanOutcome, PlanStep, PlanTime, PlanView};

use crate::cli::print::{Field, Look, Row, cell, pairs_text, table_text};

impl Row for PlanStep {
    fn head(wide: bool) -> Vec<&'static str> {
        let head = ["AT", "STEP", "LIVE", "READY", "AVAILABLE", "STEPS"];
        match wide {
            true => head.to_vec(),
            false => head[..4].to_vec(),
        }
    }

    fn cells(&self, look: &Look) -> Vec<Field> {
        let changes: Vec<String> = self.changes.iter().map(change).collect();
        let mut step = changes.join(", ");
        if self.steps > 1 {
            step.push_str(&format!(" ({} steps)", self.steps));
        }
        let mut cells = vec![
            cell(about(self.at_ms)),
            cell(step),
            cell(self.live),
            cell(self.ready),
        ];
        if look.wide {
            cells.extend([cell(self.available), cell(self.steps)]);
        }
        cells
    }

    fn name(&self) -> String {
        self.at_ms.to_string()
    }
}

impl Row for PlanView {
    fn head(_wide: bool) -> Vec<&'static str> {
        vec!["SERVICE", "CHANGE", "STEPS", "BLOCKER"]
    }

    fn cells(&self, _look: &Look) -> Vec<Field> {
        vec![
            cell(&self.service),
            cell(&self.change),
            cell(self.steps_total),
            cell(&self.blocker),
        ]
    }

    fn name(&self) -> String {
        self.service.clone()
    }
}

/// Such as `+3 v2`.
fn change(change: &PlanChange) -> String {
    let version = change.version;
    match (change.started, change.stopped) {
        (started, 0) => format!("+{started} v{version}"),
        (0, stopped) => format!("-{stopped} v{version}"),
        (started, stopped) => format!("+{started} -{stopped} v{version}"),
    }
}

/// A plan for people: its steps, what they rest on, and a summary.
pub fn details(plan: &PlanView, look: &Look) -> String {
    let mut text = String::new();
    if !plan.steps.is_empty() {
        let cells = plan.steps.iter().map(|step| step.cells(look)).collect();
        text.push_str(&table_text(
            &PlanStep::head(look.wide),
            cells,
            look.coloured,
        ));
        text.push('\n');
    }
    text.push_str(&format!("{}: {}\n", plan.service, plan.text));
    if plan.outcome != PlanOutcome::NoChange {
        text.push_str(&format!("{}\n", summary(plan)));
        text.push_str(&pairs_text(&remarks(plan)));
    }
    text
}

/// Such as `12 steps, about 40s; ready never below 4 (minimum 4); at most 7 live (limit 7); blocker:
/// none`.
pub fn summary(plan: &PlanView) -> String {
    let steps = match plan.steps_total {
        1 => "1 step".to_owned(),
        count => format!("{count} steps"),
    };
    let time = match (plan.outcome, plan.extrapolated_ms) {
        (PlanOutcome::Bounded, Some(whole)) => {
            format!("{steps} imagined, about {} in all", about(whole))
        }
        (PlanOutcome::Bounded, None) => format!("{steps} imagined in {}", about(plan.takes_ms)),
        (PlanOutcome::Blocked, _) => {
            format!("{steps} in about {}, then none", about(plan.takes_ms))
        }
        (PlanOutcome::Completes | PlanOutcome::NoChange, _) => {
            format!("{steps}, about {}", about(plan.takes_ms))
        }
    };
    let blocker = match (plan.blocker.as_str(), plan.outcome) {
        ("", PlanOutcome::Bounded) => "none so far",
        ("", PlanOutcome::Completes | PlanOutcome::NoChange | PlanOutcome::Blocked) => "none",
        (blocker, _) => blocker,
    };
    format!(
        "{time}; {}; at most {} live (limit {}); blocker: {blocker}",
        least(plan),
        plan.live_max,
        plan.live_bound
    )
}

/// Fewest ready replicas, and fewest available ones where they differ.
fn least(plan: &PlanView) -> String {
    let (ready, available) = (plan.ready_min, plan.available_min);
    let minimum = plan.available_bound;
    match ready == available {
        true => format!("ready never below {ready} (minimum {minimum})"),
        false => format!(
            "ready never below {ready}, available never below {available} (minimum {minimum})"
        ),
    }
}

fn remarks(plan: &PlanView) -> Vec<(&'static str, String)> {
    let mut remarks = vec![("then", plan.then.clone()), ("bound", bound(plan))];
    remarks.extend(plan.times.iter().map(|times| {
        let text = format!(
            "version {} starts in {}, is ready after {}, stops in {}",
            times.version,
            time(times.start),
            time(times.ready),
            time(times.stop)
        );
        ("times", text)
    }));
    remarks.extend(plan.notes.iter().map(|note| ("note", note.clone())));
    remarks
}

fn bound(plan: &PlanView) -> String {
    match plan.bound.as_str() {
        "" => String::new(),
        bound => format!("the run was imagined up to {bound}; the rest is extrapolated"),
    }
}

fn time(time: PlanTime) -> String {
    match time.measured_on {
        Some(version) => format!("{} (measured on version {version})", about(time.takes.0)),
        None => format!("{} (assumed)", about(time.takes.0)),
    }
}

/// A time in as many digits as an estimate has: tenths of seconds, from a minute on seconds.
fn about(millis: u64) -> String {
    const SECOND: u64 = 1_000;
    const MINUTE: u64 = 60_000;
    match millis {
        0..SECOND => Millis(millis).to_string(),
        SECOND..MINUTE => {
            let tenths = (millis + 50) / 100;
            match tenths % 10 {
                0 => format!("{}s", tenths / 10),
                tenth => format!("{}.{tenth}s", tenths / 10),
            }
        }
        _ => Millis((millis + 500) / 1000 * 1000).to_string(),
    }
}
