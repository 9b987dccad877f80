//! What users see of the drain of a host: what is left there, and what holds it.

use std::collections::BTreeMap;

use xce_deciding::draining::remains;
use xce_host::HostRecord;
use xce_host::view::DrainView;
use xce_ledger::View;
use xce_model::{JobState, ServiceId, WallTime};

use super::{Seer, Times, time};
use crate::reading::jobs_on;

/// Most lines about batch jobs. Source: derived, what fits a terminal beside the rest.
const LINES_MAX: usize = 20;

/// What users see of a host's drain; nothing where it is not drained.
pub(super) fn drain_view(view: &View, host: &HostRecord, times: Times) -> Option<DrainView> {
    let drain = host.drain.as_ref()?;
    let (now, wall) = times;
    let ago = i64::try_from(now.since(drain.since).0).unwrap_or(i64::MAX);
    let ahead = |until: xce_model::ClusterTime| {
        let ahead = i64::try_from(until.since(now).0).unwrap_or(i64::MAX);
        let late = i64::try_from(now.since(until).0).unwrap_or(i64::MAX);
        wall.0.saturating_add(ahead).saturating_sub(late)
    };
    let left = left(view, host, times);
    Some(DrainView {
        state: if left.is_empty() {
            "drained"
        } else {
            "draining"
        }
        .to_owned(),
        since: time(WallTime(wall.0.saturating_sub(ago))),
        deadline: drain.until.map(|until| time(WallTime(ahead(until)))),
        by: drain.by.clone(),
        reason: drain.reason.clone(),
        left,
    })
}

/// A line for each batch job and each service that is left.
fn left(view: &View, host: &HostRecord, times: Times) -> Vec<String> {
    let name = &host.inventory.name;
    let mut lines = Vec::new();
    let mut services: BTreeMap<ServiceId, (u32, u32)> = BTreeMap::new();
    let mut more = 0_u32;
    for job in jobs_on(view, name) {
        if let Some(of) = job.service {
            let counts = services.entry(of.service).or_default();
            counts.0 += 1;
            counts.1 += u32::from(job.state == JobState::Stopping);
        } else if lines.len() == LINES_MAX {
            more += 1;
        } else {
            lines.extend(remains(job, host, times));
        }
    }
    if more > 0 {
        lines.push(format!("{more} more batch jobs"));
    }
    let seer = Seer::new(view, times);
    for (id, (count, stopping)) in services {
        lines.push(of_service(view, &seer, id, (count, stopping), name));
    }
    if !host.remnants.is_empty() {
        let count = host.remnants.len();
        lines.push(format!(
            "{count} runs that are not counted any more may still live there"
        ));
    }
    lines
}

fn of_service(
    view: &View,
    seer: &Seer<'_>,
    id: ServiceId,
    (count, stopping): (u32, u32),
    host: &str,
) -> String {
    let service = view
        .service(id)
        .map_or_else(|| id.to_string(), |service| service.name.clone());
    let noun = if count == 1 { "replica" } else { "replicas" };
    let mut text = format!("service {service}: {count} {noun}");
    if stopping > 0 {
        text += &format!(", {stopping} of them stopping");
    }
    if let Some(line) = seer.explain_drain(id, host) {
        text += "; ";
        text += &line;
    }
    text
}
