//! What gives trouble beside readiness: probes that cannot be run, a liveness probe that fails,
//! processes that do not die.

use xce_model::spec::Template;
use xce_model::{ClusterTime, JobState, Millis, Start};

use super::JobRecord;
use crate::facts::ProbeRole;

/// A probe that could not be run.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct ProbeTrouble {
    /// Which probe.
    pub role: ProbeRole,
    /// How often so far within this start.
    pub count: u64,
    /// Why, the last time; empty when it can be run again.
    pub text: String,
}

/// A replica that is no longer alive and waits for its turn to be restarted in place.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct RestartWish {
    /// Number of the wish within the run, from 1.
    pub number: u32,
    /// Since when.
    pub since: ClusterTime,
    /// What the liveness probe said.
    pub text: String,
}

/// The permission of a service for one restart in place. It is given back when the replica is ready
/// again, ends, is alive again before it was restarted, or has had the time to start.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct RestartPermit {
    /// The start that is to end.
    pub start: Start,
    /// The wish that was granted.
    pub wish: u32,
    /// When it was granted.
    pub granted: ClusterTime,
    /// When the first start after it began.
    pub began: Option<ClusterTime>,
}

/// The time that a replica may take to start: its startup probe's, from the delay of the first try
/// to the last failure; none where no probe says.
pub fn startup_time(template: &Template) -> Option<Millis> {
    let probe = template.probes.startup.as_deref()?;
    let tries = u64::from(probe.failure_threshold.max(1));
    let each = probe.period.0.max(probe.timeout.0);
    Some(Millis(
        tries
            .saturating_mul(each)
            .saturating_add(probe.initial_delay.0),
    ))
}

impl JobRecord {
    /// Whether it has this wish to be restarted.
    pub fn has_wish(&self, number: u32) -> bool {
        let wish = self.restart_wish.as_ref();
        wish.is_some_and(|wish| wish.number == number)
    }

    /// What gives trouble beside its readiness, in a sentence: processes that do not die, or probes
    /// that cannot be run.
    pub fn trouble(&self) -> Option<String> {
        if !self.hanging.is_empty() {
            return Some(format!("was killed and does not die: {}", self.hanging));
        }
        let last = self.unrunnable.iter().find(|one| !one.text.is_empty())?;
        let (role, count) = (last.role.word(), last.count);
        let times = if count == 1 { "time" } else { "times" };
        let text = &last.text;
        Some(format!(
            "{role} probe could not be run, {count} {times} so far: {text}"
        ))
    }

    /// The permission that its worker has not acted upon yet, as far as is known.
    pub fn open_permit(&self) -> Option<RestartPermit> {
        self.restart_permit.filter(|permit| {
            permit.start == self.start && self.has_wish(permit.wish) && self.state == JobState::Run
        })
    }

    pub(super) fn note_unrunnable(&mut self, role: ProbeRole, count: u64, text: &str) {
        self.unrunnable.retain(|known| known.role != role);
        self.unrunnable.push(ProbeTrouble {
            role,
            count,
            text: text.to_owned(),
        });
        self.unrunnable.sort_unstable_by_key(|known| known.role);
    }

    pub(super) fn want_restart(&mut self, wish: u32, text: &str, now: ClusterTime) {
        self.restart_wish = Some(RestartWish {
            number: wish,
            since: now,
            text: text.to_owned(),
        });
    }

    pub(super) fn unwant_restart(&mut self, start: Start) {
        self.restart_wish = None;
        self.restart_permit.take_if(|permit| permit.start == start);
    }

    pub(super) fn grant_restart(&mut self, start: Start, wish: u32, now: ClusterTime) {
        self.restart_permit = Some(RestartPermit {
            start,
            wish,
            granted: now,
            began: None,
        });
    }

    pub(super) fn forget_restart(&mut self) {
        self.restart_wish = None;
        self.restart_permit = None;
    }
}
