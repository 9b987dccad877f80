//! What a service may be asked to be.

use xce_model::limits::{NAME_BYTES_MAX, REPLICAS_MAX, check_name};
use xce_model::spec::{Amount, ServiceSettings, ServiceSpec};
use xce_model::{Millis, Refusal, RefusalKind};
use xce_replica::state::proof_time;

/// Most hundredths of a share. Source: derived, all of desired once more.
const PERCENT_MAX: u32 = 100;

/// Checks a specification, for a creation and for an update.
///
/// # Errors
/// A refusal that names the setting, what it is and what is allowed.
pub fn check_spec(spec: &ServiceSpec) -> Result<(), Refusal> {
    check_name("service name", &spec.name)?;
    check_name("project", &spec.project)?;
    check_name("queue", &spec.queue)?;
    if spec.profile.len() > NAME_BYTES_MAX {
        return wrong("bad_name", "the profile's name is too long".to_owned());
    }
    if let Some(count) = spec.replicas {
        check_count(count)?;
    }
    if spec.template.command.is_empty() {
        return wrong(
            "no_command",
            "`command` is empty: a program is needed".to_owned(),
        );
    }
    check_settings(&spec.settings, proof_time(&spec.template))
}

/// Checks a desired count.
///
/// # Errors
/// `too_many_replicas` above the limit.
pub fn check_count(count: u32) -> Result<(), Refusal> {
    if count > REPLICAS_MAX {
        let text = format!("{count} replicas are too many: at most {REPLICAS_MAX} are allowed");
        return wrong("too_many_replicas", text);
    }
    Ok(())
}

fn check_settings(settings: &ServiceSettings, proof: Millis) -> Result<(), Refusal> {
    let rollout = &settings.rollout;
    let zero = |amount: Amount| matches!(amount, Amount::Count(0) | Amount::Percent(0));
    if zero(rollout.max_surge) && zero(rollout.max_unavailable) {
        let text = "`max_surge` and `max_unavailable` are both 0: no rollout could move; \
                    set one of them to at least 1";
        return wrong("cannot_roll", text.to_owned());
    }
    for (name, amount) in [
        ("max_surge", rollout.max_surge),
        ("max_unavailable", rollout.max_unavailable),
    ] {
        if let Amount::Percent(percent) = amount
            && percent > PERCENT_MAX
        {
            let text = format!("`{name}` is {percent}%: 0% to {PERCENT_MAX}% are allowed");
            return wrong("bad_amount", text);
        }
    }
    if rollout.progress_deadline <= rollout.min_ready {
        let text = format!(
            "`progress_deadline` ({}) must be longer than `min_ready` ({})",
            rollout.progress_deadline, rollout.min_ready
        );
        return wrong("bad_deadline", text);
    }
    if rollout.progress_deadline <= proof {
        let text = format!(
            "`progress_deadline` ({}) must be longer than {proof}, in which a replica without a \
             readiness probe shows that it works",
            rollout.progress_deadline
        );
        return wrong("bad_deadline", text);
    }
    if rollout.history_limit == 0 {
        return wrong(
            "bad_history_limit",
            "`history_limit` must be at least 1".to_owned(),
        );
    }
    let replacement = &settings.replacement;
    if replacement.crash_limit == 0 {
        return wrong(
            "bad_crash_limit",
            "`crash_limit` must be at least 1".to_owned(),
        );
    }
    if replacement.delay == Millis(0) || replacement.delay_max < replacement.delay {
        let text = "`delay` must be above 0 and at most `delay_max`";
        return wrong("bad_delay", text.to_owned());
    }
    if settings.spread.max_per_host == Some(0) {
        return wrong("bad_spread", "`max_per_host` must be at least 1".to_owned());
    }
    Ok(())
}

fn wrong(code: &str, text: String) -> Result<(), Refusal> {
    Err(Refusal::new(RefusalKind::Usage, code, text))
}
