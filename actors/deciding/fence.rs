//! Strict single copies: what must be over before another copy starts.

use xce_host::HostRecord;
use xce_host::facts::Inventory;
use xce_host::rules::{Patience, lease};
use xce_ledger::View;
use xce_model::spec::SingleCopy;
use xce_model::{ClusterTime, Millis, Refusal, RefusalKind};
use xce_replica::{JobFact, JobRecord};

use crate::reading::jobs_on;

/// Whether two copies of a job may never run at once.
pub fn is_strict(job: &JobRecord) -> bool {
    job.spec.template.single_copy == SingleCopy::Strict
}

/// Lets a job that runs again wait until this time, where it has to.
pub(crate) fn hold_back(job: &JobRecord, fact: &mut JobFact, until: ClusterTime) {
    if let JobFact::Requeued { not_before, .. } = fact
        && is_strict(job)
    {
        *not_before = until.max(*not_before);
    }
}

/// Whether the strict copies on a host that is away are over: nobody renews their lease, though the
/// host itself may be away for longer.
pub(crate) fn is_over_while_away(
    view: &View,
    host: &HostRecord,
    silent: Millis,
    patience: Patience,
) -> bool {
    time_left_while_away(view, host, silent, patience) == Some(Millis(0))
}

/// How long until the strict copies on a host that is away are over; none where it has none.
pub fn time_left_while_away(
    view: &View,
    host: &HostRecord,
    silent: Millis,
    patience: Patience,
) -> Option<Millis> {
    let until = Millis(patience.grace.0.saturating_add(lease::MARGIN.0));
    let is_away = host.life == xce_host::HostLife::Away;
    let any = is_away && jobs_on(view, &host.inventory.name).any(|job| is_strict(job));
    any.then(|| Millis(until.0.saturating_sub(silent.0)))
}

/// Checks that a worker that takes the name of another one over leaves no strict copy behind.
///
/// # Errors
/// `single_copy_runs` while one of the other worker may be alive.
pub(crate) fn takeover(
    view: &View,
    known: Option<&HostRecord>,
    inventory: &Inventory,
    now: ClusterTime,
) -> Result<(), Refusal> {
    let Some(known) = known.filter(|known| known.inventory.incarnation != inventory.incarnation)
    else {
        return Ok(());
    };
    let name = &known.inventory.name;
    let is_over = lease::fenced_at(known).is_some_and(|at| at <= now);
    let strict = jobs_on(view, name).filter(|job| is_strict(job)).count();
    if is_over || strict == 0 {
        return Ok(());
    }
    let text = format!(
        "host name `{name}` still stands for an earlier worker, where {strict} jobs with `single_copy = \
         strict` may be alive; it is free when that host is lost, or with `hosts confirm-dead {name}` \
         where the machine is off"
    );
    Err(Refusal::new(
        RefusalKind::Unavailable,
        "single_copy_runs",
        text,
    ))
}
