//! Commands that make a version.

use xce_model::origins::stamped;
use xce_model::spec::ServiceSpec;
use xce_model::{Refusal, RefusalKind, Version};

use super::super::draft::Draft;
use super::super::rollout::{Making, making_of};
use super::super::{Answer, validate};
use super::{Author, Base, accepted, no_change, scale};
use crate::facts::{ServiceFact, VersionReason};
use crate::state::{ServiceRecord, VersionRecord};

/// Takes over a specification that was made of the current one by changing single values.
///
/// # Errors
/// `changed` when the service is no longer what the specification was made of; make it again.
pub fn amend(
    draft: &mut Draft<'_>,
    amendment: (&ServiceSpec, Base),
    take_count: bool,
    author: &Author,
) -> Result<Answer, Refusal> {
    let (spec, base) = amendment;
    if Base::of(draft.record()) != base {
        let text = format!("service `{}` was changed meanwhile", draft.record().name);
        return Err(Refusal::refused("changed", text));
    }
    update(draft, spec, take_count, author)
}

/// Takes another specification over: what is equal to the current one changes nothing.
pub fn update(
    draft: &mut Draft<'_>,
    spec: &ServiceSpec,
    take_count: bool,
    author: &Author,
) -> Result<Answer, Refusal> {
    validate::check_spec(spec)?;
    check_identity(draft.record(), spec)?;
    let count = count(draft.record(), spec, take_count)?;
    let record = draft.record();
    let current = &record.current().spec;
    let versioned = current.template != spec.template || current.queue != spec.queue;
    let resettled = record.settings != spec.settings || record.profile != spec.profile;
    let (service, before) = (record.id, record.desired);
    // A request that makes no version is named by the one that is current.
    let number = record.current().number + u32::from(versioned);
    let origins = stamped(&spec.origins, number);
    if resettled {
        draft.service(ServiceFact::SettingsChanged {
            service,
            settings: Box::new(spec.settings.clone()),
            origins: origins.clone(),
            profile: spec.profile.clone(),
            author: author.user.clone(),
            operation: author.operation,
        });
    }
    if versioned {
        let making = Making {
            queue: spec.queue.clone(),
            template: spec.template.clone(),
            origins,
        };
        add_version(draft, making, VersionReason::Update, author);
    }
    if let Some(desired) = count {
        scale::set_count(draft, desired, false, author);
        // More of them are all of the new version; fewer are shared out.
        if desired < before || (desired > before && !versioned) {
            let census = draft.census();
            scale::share_out(draft, &census, &[]);
        }
    }
    Ok(match (versioned, resettled, count) {
        (true, _, _) => begun(draft.record()),
        (false, false, None) => no_change("no change: it is already so"),
        (false, true, None) => accepted("settings changed; nothing is restarted"),
        (false, _, Some(desired)) => accepted(format!("{desired} replicas are desired")),
    })
}

fn check_identity(record: &ServiceRecord, spec: &ServiceSpec) -> Result<(), Refusal> {
    if record.name == spec.name && record.project == spec.project {
        return Ok(());
    }
    let text = format!(
        "the specification is of `{}` in project `{}`, the service is `{}` in `{}`: names stay",
        spec.name, spec.project, record.name, record.project
    );
    Err(Refusal::new(RefusalKind::Usage, "other_service", text))
}

/// The count to be set; none where it stays as it is.
fn count(
    record: &ServiceRecord,
    spec: &ServiceSpec,
    take_count: bool,
) -> Result<Option<u32>, Refusal> {
    let Some(count) = spec.replicas else {
        return Ok(None);
    };
    if count != record.desired && record.scaled_by_operator && !take_count {
        let text = format!(
            "`replicas` is {count} but an operator scaled the service to {}: leave `replicas` out \
             to keep that, or add --take-count",
            record.desired
        );
        return Err(Refusal::refused("count_differs", text));
    }
    let takes_over = take_count && record.scaled_by_operator;
    Ok((count != record.desired || takes_over).then_some(count))
}

fn add_version(draft: &mut Draft<'_>, making: Making, reason: VersionReason, author: &Author) {
    let fact = ServiceFact::Versioned {
        service: draft.record().id,
        number: draft.record().current().number + 1,
        queue: making.queue,
        template: Box::new(making.template),
        origins: making.origins,
        reason,
        author: author.user.clone(),
        operation: author.operation,
    };
    draft.service(fact);
}

fn begun(record: &ServiceRecord) -> Answer {
    let number = record.current().number;
    accepted(match record.paused {
        Some(_) => format!("version {number}: paused, will start on resume"),
        None => format!("version {number} is rolling out"),
    })
}

/// A new version that copies an earlier one.
pub fn rollback(
    draft: &mut Draft<'_>,
    to: Option<Version>,
    author: &Author,
) -> Result<Answer, Refusal> {
    let record = draft.record();
    let target = match to {
        Some(number) => record.version(number).ok_or_else(|| {
            let kept: Vec<String> = record
                .versions
                .iter()
                .map(|version| version.number.to_string())
                .collect();
            let text = format!("there is no version {number}; kept are {}", kept.join(", "));
            Refusal::new(RefusalKind::NotFound, "not_found", text)
        })?,
        None => default_target(record)?,
    };
    let number = target.number;
    if is_same(record.current(), target) {
        let text = format!("no change: version {number} has the current template");
        return Ok(no_change(text));
    }
    let making = making_of(record, number);
    if let Some(making) = making {
        add_version(draft, making, VersionReason::RollbackOf(number), author);
    }
    Ok(begun(draft.record()))
}

fn is_same(current: &VersionRecord, other: &VersionRecord) -> bool {
    current.root == other.root
        || (current.spec.template == other.spec.template && current.spec.queue == other.spec.queue)
}

/// The last completed version that differs from the current one.
fn default_target(record: &ServiceRecord) -> Result<&VersionRecord, Refusal> {
    let current = record.current();
    let mut completed = record
        .versions
        .iter()
        .rev()
        .filter(|version| version.outcome == crate::state::Outcome::Completed);
    completed
        .find(|version| !is_same(current, version))
        .ok_or_else(|| {
            let text = "no other version was ever completed: name one with --to";
            Refusal::refused("nothing_to_roll_back_to", text)
        })
}

/// A new version of the same template.
pub fn restart(draft: &mut Draft<'_>, author: &Author) -> Answer {
    let making = Making::of(draft.record().current());
    add_version(draft, making, VersionReason::Restart, author);
    begun(draft.record())
}
