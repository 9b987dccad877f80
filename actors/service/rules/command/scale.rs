//! Another desired count.

use xce_model::{Cause, JobId, Refusal};

use super::super::draft::Draft;
use super::super::fence::Fence;
use super::super::share::{Size, shares};
use super::super::{Answer, Census, Standing, validate};
use super::{Author, accepted, no_change};
use crate::facts::{ServiceFact, TargetReason};
use crate::state::ServiceRecord;

/// Scales; `remove` names replicas that go first.
pub fn scale(
    draft: &mut Draft<'_>,
    desired: u32,
    remove: &[JobId],
    author: &Author,
) -> Result<Answer, Refusal> {
    validate::check_count(desired)?;
    let before = draft.record().desired;
    check_named(draft, before.saturating_sub(desired), remove)?;
    if desired == before {
        return Ok(no_change(format!("{desired} replicas are desired already")));
    }
    set_count(draft, desired, true, author);
    let census = draft.census();
    share_out(draft, &census, remove);
    for replica in &census.replicas {
        if remove.contains(&replica.job.id) {
            draft.stop(replica.job, Cause::TermScaleDown);
        }
    }
    Ok(accepted(format!("scaled from {before} to {desired}")))
}

fn check_named(draft: &Draft<'_>, fewer: u32, remove: &[JobId]) -> Result<(), Refusal> {
    if remove.is_empty() {
        return Ok(());
    }
    if remove.len() > usize::try_from(fewer).unwrap_or(usize::MAX) {
        let text = format!(
            "{} replicas are named but the count shrinks by {fewer}",
            remove.len()
        );
        return Err(Refusal::refused("too_many_named", text));
    }
    let census = draft.census();
    for job in remove {
        let known = census
            .replicas
            .iter()
            .any(|replica| replica.job.id == *job && replica.standing < Standing::Stopping);
        if !known {
            return Err(Refusal::not_found(
                "live replica of the service with job",
                job,
            ));
        }
    }
    Ok(())
}

/// Records another desired count, without sharing it out.
pub fn set_count(draft: &mut Draft<'_>, desired: u32, by_operator: bool, author: &Author) {
    let service = draft.record().id;
    draft.service(ServiceFact::Scaled {
        service,
        desired,
        by_operator,
        author: author.user.clone(),
        operation: author.operation,
    });
}

/// Shares the desired count out among the versions that have replicas.
///
/// One version gets all of it; several get their shares of desired and surge, from the sizes
/// without the named replicas.
pub fn share_out(draft: &mut Draft<'_>, census: &Census<'_>, remove: &[JobId]) {
    let record = draft.record();
    let fence = Fence::of(&record.settings.rollout, record.desired);
    let mut places = census.old_places();
    places.push(census.current);
    places.reverse();
    let sizes: Vec<Size> = places
        .iter()
        .map(|&place| size(record, census, place, remove))
        .collect();
    let sized = sizes.iter().filter(|size| size.live > 0).count();
    let total = match (sized, fence.desired) {
        (_, 0) => 0,
        (0 | 1, desired) => desired,
        (_, _) => fence.live_max(),
    };
    let counts = shares(&sizes, total, fence.available_min());
    for (index, (&place, mut want)) in places.iter().zip(counts).enumerate() {
        let group = &census.groups[place];
        if index == 0 {
            want = want.min(fence.desired);
        }
        if draft.record().want(group.root) == want
            || draft.record().version(group.version).is_none()
        {
            continue;
        }
        let service = draft.record().id;
        draft.service(ServiceFact::Targeted {
            service,
            version: group.version,
            want,
            why: TargetReason::Scale,
        });
    }
}

fn size(record: &ServiceRecord, census: &Census<'_>, place: usize, remove: &[JobId]) -> Size {
    let group = &census.groups[place];
    let counts = &group.counts;
    let live = counts.held_of(record.want(group.root));
    let mut size = Size {
        live,
        available: counts.available().min(live),
    };
    if remove.is_empty() {
        return size;
    }
    for replica in census.of_group(place) {
        if remove.contains(&replica.job.id) {
            let available = u32::from(replica.standing == Standing::Available);
            size.live = size.live.saturating_sub(1);
            size.available = size.available.saturating_sub(available);
        }
    }
    size
}
