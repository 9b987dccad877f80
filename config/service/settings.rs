//! The part of a service file that makes no version: spread, rollout, replacement.

use xce_model::limits::REPLICAS_MAX;
use xce_model::spec::{Amount, OnStuck};
use xce_profile::checks::{CRASHES_MAX, HISTORY_MAX, shown};
use xce_profile::defaults;
use xce_profile::document::{ReplacementFile, ReplicaAmount, RolloutFile, SpreadFile, SpreadMode};

use super::template::check_delays;
use super::{Reading, checked_name, count, quantity};
use crate::document::{Field, Section};

pub(super) fn spread(root: &Section<'_>) -> Option<SpreadFile> {
    let section = root.section("spread", &["max_per_host", "mode", "label"])?;
    let modes = [
        ("strict", SpreadMode::Strict),
        ("best_effort", SpreadMode::BestEffort),
    ];
    Some(SpreadFile {
        max_per_host: count(&section, "max_per_host", 1..=REPLICAS_MAX),
        mode: section.field("mode").and_then(|field| field.word(&modes)),
        label: section
            .field("label")
            .and_then(|field| checked_name(&field, "label")),
    })
}

pub(super) fn rollout(root: &Section<'_>, reading: Reading<'_>) -> Option<RolloutFile> {
    let fields = [
        "max_surge",
        "max_unavailable",
        "min_ready",
        "progress_deadline",
        "on_stuck",
        "history_limit",
    ];
    let section = root.section("rollout", &fields)?;
    let reactions = [("stop", OnStuck::Stop), ("rollback", OnStuck::Rollback)];
    let file = RolloutFile {
        max_surge: amount(&section, "max_surge"),
        max_unavailable: amount(&section, "max_unavailable"),
        min_ready: quantity(&section, "min_ready"),
        progress_deadline: quantity(&section, "progress_deadline"),
        on_stuck: section
            .field("on_stuck")
            .and_then(|field| field.word(&reactions)),
        history_limit: count(&section, "history_limit", 1..=HISTORY_MAX),
    };
    if is_zero(file.max_surge) && is_zero(file.max_unavailable) {
        section.fault(
            "max_surge and max_unavailable are both 0, so no rollout could move; raise one of them",
        );
    }
    let default = defaults::ROLLOUT;
    let deadline = reading.known(file.progress_deadline, default.progress_deadline);
    let ready = reading.known(file.min_ready, default.min_ready);
    if let (Some(deadline), Some(ready)) = (deadline, ready)
        && deadline <= ready
    {
        section.fault(format!(
            "progress_deadline {deadline} must be longer than min_ready {ready}"
        ));
    }
    Some(file)
}

const fn is_zero(amount: Option<ReplicaAmount>) -> bool {
    matches!(
        amount,
        Some(ReplicaAmount(Amount::Count(0) | Amount::Percent(0)))
    )
}

fn amount(section: &Section<'_>, name: &str) -> Option<ReplicaAmount> {
    let field = section.field(name)?;
    if field.is_integer() {
        let count = field.small_integer(0..=REPLICAS_MAX)?;
        return Some(ReplicaAmount(Amount::Count(count)));
    }
    share(&field)
}

/// A share; a number of replicas is no text.
fn share(field: &Field<'_>) -> Option<ReplicaAmount> {
    let text = field.text()?;
    let percent = text
        .strip_suffix('%')
        .and_then(|digits| digits.trim().parse::<u32>().ok())
        .filter(|percent| *percent <= 100);
    if percent.is_none() {
        field.fault(format!(
            "`{}` is neither a number of replicas nor a share from \"0%\" to \"100%\"",
            shown(&text)
        ));
    }
    percent.map(|percent| ReplicaAmount(Amount::Percent(percent)))
}

pub(super) fn replacement(root: &Section<'_>, reading: Reading<'_>) -> Option<ReplacementFile> {
    let fields = [
        "stable_after",
        "delay",
        "delay_max",
        "crash_limit",
        "crash_window",
    ];
    let section = root.section("replacement", &fields)?;
    let file = ReplacementFile {
        stable_after: quantity(&section, "stable_after"),
        delay: quantity(&section, "delay"),
        delay_max: quantity(&section, "delay_max"),
        crash_limit: count(&section, "crash_limit", 1..=CRASHES_MAX),
        crash_window: quantity(&section, "crash_window"),
    };
    let default = defaults::REPLACEMENT;
    check_delays(
        &section,
        reading.known(file.delay, default.delay),
        reading.known(file.delay_max, default.delay_max),
    );
    Some(file)
}
