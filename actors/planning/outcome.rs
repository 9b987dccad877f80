//! How an imagined run ends, and what is shown of it.

use std::collections::BTreeSet;

use xce_model::Version;
use xce_service::rules::{Change, Command, Fence, Standing};
use xce_service::{ServiceFact, ServiceRecord};
use xce_session::plan::{PlanOutcome, PlanTimes, PlanView};

use crate::question::{Before, Run, Wanted};
use crate::tally::Tally;

/// How a run ends.
pub(crate) enum End {
    /// The service is as wanted.
    Steady,
    /// It is gone, as wanted.
    Gone,
    /// Nothing more would happen by itself, or the rollout would be stuck.
    Blocked { reason: String, then: String },
    /// The run was not imagined any further; names the bound.
    Bound(String),
}

/// The word of a change.
pub(crate) fn word(wanted: &Wanted) -> &'static str {
    match wanted {
        Wanted::Create(_) => "create",
        Wanted::Change(_, command) => match **command {
            Command::Scale { .. } => "scale",
            Command::Kill { .. } => "kill",
            Command::Delete => "delete",
            Command::Update { .. } | Command::Amend { .. } => "update",
            Command::Pause => "pause",
            Command::Resume => "resume",
            Command::Rollback { .. } => "rollback",
            Command::Restart => "restart",
        },
    }
}

impl Run<'_> {
    /// The end, if the service is as wanted.
    pub fn arrived(&mut self) -> Option<End> {
        let Some(record) = self.world.record().cloned() else {
            return Some(End::Gone);
        };
        let counts = self.world.counts()?;
        let all = counts.available() == record.desired
            && counts.live() == record.desired
            && counts.of(Standing::Stopping) == 0;
        (all && !record.rollout.is_active() && !record.is_deleting()).then_some(End::Steady)
    }

    /// How far the service is from what is wanted, in replicas to be made available or to go.
    pub fn distance(&mut self) -> u64 {
        let Some(record) = self.world.record().cloned() else {
            return 0;
        };
        let root = record.current_root();
        let is_new = |of: Version| !record.rollout.is_active() || record.root_of(of) == root;
        let (mut ready, mut rest) = (0_u64, 0_u64);
        for job in self.world.live() {
            let new = job.service.is_some_and(|of| is_new(of.version));
            if new && job.is_ready() {
                ready += 1;
            } else if job.state.holds_host() {
                rest += 1;
            }
        }
        ready.abs_diff(u64::from(record.desired)) + rest
    }

    /// The end where the run comes to a halt; `stuck` are the changes that say so.
    pub fn halt(&mut self, stuck: Option<&[Change]>) -> End {
        let explanation = self.world.explain();
        let line = explanation
            .as_ref()
            .map_or_else(String::new, |one| one.line());
        let reason = match (&explanation, line.as_str()) {
            (Some(explanation), "") => explanation.reason().to_owned(),
            (Some(_) | None, _) => line,
        };
        let then = stuck.map_or_else(String::new, |changes| self.then(changes));
        End::Blocked { reason, then }
    }

    fn then(&self, changes: &[Change]) -> String {
        let after = self.world.now.since(self.since);
        let back = changes.iter().find_map(|change| match change {
            Change::Service(ServiceFact::Versioned { reason, .. }) => reason.copy_of(),
            Change::Service(_) | Change::Job(_) => None,
        });
        match back {
            Some(number) => {
                format!("stuck after {after}, and rolled back to a copy of version {number}")
            }
            None => format!("stuck after {after}"),
        }
    }

    fn estimated(&mut self, before: &Before) -> Option<u64> {
        let taken = self.world.now.since(self.since).0;
        let left = self.distance();
        let gone = before.distance.checked_sub(left).filter(|gone| *gone > 0)?;
        let whole = u128::from(taken) * u128::from(before.distance) / u128::from(gone);
        u64::try_from(whole).ok()
    }

    fn times(&self, record: Option<&ServiceRecord>) -> Vec<PlanTimes> {
        let steps = self.tally.steps.iter();
        let mut versions: BTreeSet<Version> = steps
            .flat_map(|step| step.changes.iter().map(|change| change.version))
            .collect();
        versions.extend(record.map(|record| record.current().number));
        let newest_first = versions.into_iter().rev();
        newest_first
            .map(|version| self.workers.times(version))
            .collect()
    }

    fn notes(&self, record: Option<&ServiceRecord>) -> Vec<String> {
        let mut notes = Vec::new();
        let mut note = |count: u32, text: &str| {
            if count > 0 {
                notes.push(format!("{count} {text}"));
            }
        };
        note(
            self.workers.dull,
            "replicas that are not ready, or not any more, are taken to stay so",
        );
        note(
            self.workers.silent,
            "replicas on hosts that do not answer are taken to stay so",
        );
        let failing = record.into_iter().flat_map(|record| &record.versions);
        for version in failing.filter(|version| version.want > 0 && version.backoff.failures > 0) {
            notes.push(format!(
                "version {} has failed {} times and is taken to work from now on",
                version.number, version.backoff.failures
            ));
        }
        notes
    }
}

/// What is shown of a run.
pub(crate) fn view(change: &str, mut run: Run<'_>, end: End, before: Before) -> PlanView {
    let bounded = matches!(end, End::Bound(_));
    let extrapolated_ms = if bounded {
        run.estimated(&before)
    } else {
        None
    };
    let record = run.world.record().cloned();
    let record = record.as_deref();
    let (desired, version) = record.map_or((0, before.version), |record| {
        (record.desired, record.current().number)
    });
    let fence = record.map(|record| Fence::of(&record.settings.rollout, record.desired));
    let most = desired.max(before.desired);
    let (outcome, blocker, then, bound) = match end {
        End::Steady if before.no_change.is_some() => (PlanOutcome::NoChange, None, None, None),
        End::Steady | End::Gone => (PlanOutcome::Completes, None, None, None),
        End::Blocked { reason, then } => (PlanOutcome::Blocked, Some(reason), Some(then), None),
        End::Bound(bound) => (PlanOutcome::Bounded, None, None, Some(bound)),
    };
    let times = run.times(record);
    let notes = run.notes(record);
    let text = text(change, &before, desired, version);
    let steps_total = u32::try_from(run.tally.steps.len()).unwrap_or(u32::MAX);
    PlanView {
        service: before.name,
        change: change.to_owned(),
        outcome,
        text: before.no_change.unwrap_or(text),
        version,
        desired,
        steps_total,
        takes_ms: run.moved_at.since(run.since).0,
        extrapolated_ms,
        ready_min: run.tally.ready_min.unwrap_or(0),
        available_min: run.tally.available_min.unwrap_or(0),
        // Nothing holds a scale-down or a creation to more than there is.
        available_bound: match fence.map_or(0, Fence::available_min) {
            bound if before.rolls && before.version > 0 => bound,
            bound => bound.min(before.available),
        },
        live_max: run.tally.live_max,
        live_bound: match fence {
            Some(fence) if before.rolls => fence.live_max(),
            Some(_) | None => most,
        },
        steps: Tally::rows(run.tally.steps, run.bounds.rows),
        blocker: blocker.unwrap_or_default(),
        then: then.unwrap_or_default(),
        bound: bound.unwrap_or_default(),
        times,
        notes,
        as_of: run.as_of,
    }
}

fn text(change: &str, before: &Before, desired: u32, version: Version) -> String {
    if before.version == 0 {
        return format!("created with {desired} replicas");
    }
    if change == "delete" {
        return "all replicas would end".to_owned();
    }
    if version != before.version {
        return format!("version {version} would roll out");
    }
    if desired != before.desired {
        return format!("scaled from {} to {desired}", before.desired);
    }
    "no version would be made".to_owned()
}
