//! How a rollout looks.

use std::collections::BTreeMap;

use serde::Serialize;
use xce_model::{JobState, Version};
use xce_service::view::ServiceView;

use super::span;
use crate::cli::print::{Field, Look, Row, cell, visible};

/// Cells of a progress bar. Source: chosen, a third of a line.
const BAR: usize = 24;

/// How far a rollout is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rollout {
    /// Name of the service.
    pub service: String,
    /// Version that all replicas shall have.
    pub version: Version,
    /// `rolling`, `stuck`, `paused` or `complete`.
    pub phase: String,
    /// The service's condition.
    pub condition: &'static str,
    /// Desired count.
    pub desired: u32,
    /// Available replicas of all versions.
    pub available: u32,
    /// Live replicas of the version that are not stopping.
    pub updated: u32,
    /// Available replicas of the version.
    pub updated_available: u32,
    /// Live replicas of other versions.
    pub old: u32,
    /// Time in milliseconds until it is stuck unless it gets further.
    pub deadline_in_ms: Option<u64>,
    /// What holds the next step back; empty when nothing does.
    pub explain: String,
    /// The versions that have replicas, the newest first.
    pub versions: Vec<Part>,
}

/// The replicas of one version and its copies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    /// The newest of them.
    pub version: Version,
    /// Live replicas, those that are stopping included.
    pub live: u32,
    /// Available replicas.
    pub available: u32,
    /// Replicas that are stopping.
    pub stopping: u32,
}

impl Rollout {
    /// Of a service as shown.
    pub fn of(service: &ServiceView) -> Self {
        let rollout = &service.rollout;
        Self {
            service: service.name.clone(),
            version: service.version,
            phase: rollout.phase.clone(),
            condition: service.condition.word(),
            desired: service.desired,
            available: service.available,
            updated: rollout.updated,
            updated_available: rollout.updated_available,
            old: rollout.old,
            deadline_in_ms: rollout.deadline_in_ms,
            explain: rollout.explain.clone(),
            versions: parts(service),
        }
    }
}

fn parts(service: &ServiceView) -> Vec<Part> {
    // A copy of a version shares its replicas and stands for it.
    let copied = |number: Version| {
        let known = service.history.iter().find(|one| one.number == number);
        known.and_then(|one| one.reason.copy_of())
    };
    let root = |mut number: Version| {
        while let Some(older) = copied(number).filter(|older| *older < number) {
            number = older;
        }
        number
    };
    let mut parts: BTreeMap<Version, Part> = BTreeMap::new();
    let mut count = |version: Version, live: u32, available: bool, stopping: bool| {
        let part = parts.entry(root(version)).or_insert(Part {
            version,
            live: 0,
            available: 0,
            stopping: 0,
        });
        part.version = part.version.max(version);
        part.live += live;
        part.available += u32::from(available);
        part.stopping += u32::from(stopping);
    };
    count(service.version, 0, false, false);
    for replica in &service.replicas {
        let stopping = replica.state == JobState::Stopping;
        let live = u32::from(!replica.lost);
        count(replica.version, live, replica.available, stopping);
    }
    let mut parts: Vec<Part> = parts.into_values().collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.version));
    parts
}

impl Row for Rollout {
    fn head(_wide: bool) -> Vec<&'static str> {
        vec!["SERVICE", "VERSION", "PHASE", "UPDATED", "HELD BACK BY"]
    }

    fn cells(&self, _look: &Look) -> Vec<Field> {
        vec![
            cell(&self.service),
            cell(self.version),
            cell(&self.phase),
            cell(self.updated_available),
            cell(&self.explain),
        ]
    }

    fn name(&self) -> String {
        self.phase.clone()
    }
}

/// The status as a block: a bar a version, and what holds it back.
pub fn live_view(rollout: &Rollout, _look: &Look) -> String {
    let deadline = match rollout.deadline_in_ms {
        Some(left) => format!(", stuck in {}", span(left)),
        None => String::new(),
    };
    let mut text = format!(
        "{}: version {} is {}{deadline}\n",
        visible(&rollout.service),
        rollout.version,
        rollout.phase
    );
    let width = rollout
        .versions
        .iter()
        .map(|part| part.version.to_string().len())
        .max()
        .unwrap_or(1);
    for part in &rollout.versions {
        let stopping = match part.stopping {
            0 => String::new(),
            count => format!(", {count} stopping"),
        };
        text.push_str(&format!(
            "  version {:<width$}  [{}]  {} of {} available, {} live{stopping}\n",
            part.version,
            bar(part, rollout.desired),
            part.available,
            rollout.desired,
            part.live,
        ));
    }
    if !rollout.explain.is_empty() {
        text.push_str(&format!("  held back: {}\n", visible(&rollout.explain)));
    }
    text
}

/// `#` for available replicas, `-` for others that are live, of all that are desired.
fn bar(part: &Part, desired: u32) -> String {
    let whole = u64::from(desired.max(part.live).max(1));
    let cells = |count: u32| {
        let cells = u64::from(count) * BAR as u64 / whole;
        // What is there at all is seen.
        usize::try_from(cells)
            .unwrap_or(BAR)
            .max(usize::from(count > 0))
            .min(BAR)
    };
    let (full, live) = (cells(part.available), cells(part.live));
    let half = live.saturating_sub(full);
    format!(
        "{}{}{}",
        "#".repeat(full),
        "-".repeat(half),
        ".".repeat(BAR - full - half)
    )
}

/// The status in one line.
pub fn line(rollout: &Rollout) -> String {
    let mut text = format!(
        "{}: version {} is {}: {} of {} updated, {} available, {} old",
        rollout.service,
        rollout.version,
        rollout.phase,
        rollout.updated,
        rollout.desired,
        rollout.updated_available,
        rollout.old
    );
    if !rollout.explain.is_empty() {
        text.push_str(&format!("; {}", rollout.explain));
    }
    visible(&text)
}
