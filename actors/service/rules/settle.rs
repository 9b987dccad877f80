//! Makes the replicas of each version as many as are wanted.

use std::collections::HashSet;

use xce_model::Cause;
use xce_replica::JobFact;

use super::draft::Draft;
use super::fence::Fence;
use super::{Census, Replica, Standing, delete, moving, victims};
use crate::state::VersionRecord;

/// Stops replicas beyond the wanted count, ends lost ones that are replaced, or submits missing
/// ones.
pub fn settle(draft: &mut Draft<'_>, census: &Census<'_>) {
    shrink(draft, census);
    end_lost(draft, census);
    if !draft.has_job_step() {
        submit(draft, census);
    }
}

fn shrink(draft: &mut Draft<'_>, census: &Census<'_>) {
    for (place, group) in census.groups.iter().enumerate() {
        let want = draft.record().want(group.root);
        let excess = group.counts.staying().saturating_sub(want);
        if excess == 0 {
            for replica in doubles(census, place, draft) {
                draft.stop(replica.job, Cause::TermScaleDown);
            }
            continue;
        }
        let count = usize::try_from(excess).unwrap_or(usize::MAX);
        let mut chosen = doubles(census, place, draft);
        chosen.truncate(count);
        let rest = count - chosen.len();
        let is_chosen =
            |replica: &Replica<'_>| chosen.iter().any(|one| one.job.id == replica.job.id);
        let members = census
            .of_group(place)
            .copied()
            .filter(|replica| !replica.leaves() && !is_chosen(replica));
        let others = victims::choose(members, rest, draft.situation());
        for victim in chosen.into_iter().chain(others) {
            draft.stop(victim.job, Cause::TermScaleDown);
        }
    }
}

/// Replicas whose index another one of the group has: a lost replica came back while its replacement
/// waited for a host, or a drain was called off. The replacement goes.
fn doubles<'a>(census: &Census<'a>, place: usize, draft: &Draft<'a>) -> Vec<Replica<'a>> {
    let staying =
        |replica: &&Replica<'a>| replica.standing < Standing::Stopping && !replica.leaves();
    let mut seen: Vec<bool> = Vec::new();
    let mut doubled: Vec<u32> = Vec::new();
    for replica in census.of_group(place).filter(staying) {
        let index = usize::try_from(replica.index).unwrap_or(usize::MAX);
        if index >= seen.len() {
            seen.resize(index.saturating_add(1), false);
        }
        if std::mem::replace(&mut seen[index], true) {
            doubled.push(replica.index);
        }
    }
    let worse = |index: &u32| {
        let same = census
            .of_group(place)
            .copied()
            .filter(|replica| replica.index == *index && !replica.leaves());
        victims::choose(same, 1, draft.situation())
    };
    doubled.iter().flat_map(worse).collect()
}

/// A replica whose host is lost ends when its replacement has a host, or none is wanted.
fn end_lost(draft: &mut Draft<'_>, census: &Census<'_>) {
    for (place, group) in census.groups.iter().enumerate() {
        if group.counts.of(Standing::Lost) == 0 {
            continue;
        }
        let want = draft.record().want(group.root);
        let settled = group.counts.staying() >= want && group.counts.of(Standing::Pending) == 0;
        let placed: HashSet<u32> = census
            .of_group(place)
            .filter(|replica| {
                replica.standing != Standing::Pending && replica.standing != Standing::Lost
            })
            .map(|replica| replica.index)
            .collect();
        for replica in census.of_group(place) {
            if replica.standing == Standing::Lost && (settled || placed.contains(&replica.index)) {
                delete::lose(draft, replica);
            }
        }
    }
}

/// Submits missing replicas, of the newest version first, one record a version.
pub fn submit(draft: &mut Draft<'_>, census: &Census<'_>) {
    let record = draft.record();
    let fence = Fence::of(&record.settings.rollout, record.desired);
    let mut live_max = if record.rollout.is_active() {
        fence.live_max()
    } else {
        fence.desired
    };
    if census.total().leaving() > 0 {
        live_max = live_max.max(moving::live_max(fence));
    }
    let mut room = live_max.saturating_sub(census.total().live());
    let mut places = census.old_places();
    places.push(census.current);
    for place in places.into_iter().rev() {
        let group = &census.groups[place];
        let Some(version) = draft.record().version(group.version) else {
            continue;
        };
        if place != census.current && !replaces_old(draft, version) {
            continue;
        }
        let missing = version.want.saturating_sub(group.counts.staying());
        let count = allowed_now(version, missing).min(room);
        if count == 0 {
            continue;
        }
        let (number, bound) = (version.number, version.want.max(fence.desired));
        let indices = free_indices(census, place, bound, count);
        room -= u32::try_from(indices.len()).unwrap_or(room).min(room);
        if !indices.is_empty() {
            let service = draft.record().id;
            draft.job(JobFact::ReplicasSubmitted {
                service,
                version: number,
                indices,
            });
        }
    }
}

/// Whether a superseded version's missing replicas are replaced by the same version: under a pause,
/// which freezes the mix, and where the version works. Others give way to the new version.
fn replaces_old(draft: &Draft<'_>, version: &VersionRecord) -> bool {
    draft.record().paused.is_some() || version.proved
}

/// How many of the missing may be submitted now: those that a delay is for wait, and all of a
/// version that never worked.
fn allowed_now(version: &VersionRecord, missing: u32) -> u32 {
    match (version.backoff.waiting, version.proved) {
        (false, _) => missing,
        (true, true) => missing.saturating_sub(version.backoff.owed),
        (true, false) => 0,
    }
}

/// The lowest indices below `bound` that no live replica of the group has.
fn free_indices(census: &Census<'_>, place: usize, bound: u32, count: u32) -> Vec<u32> {
    let mut used = vec![false; usize::try_from(bound).unwrap_or(0)];
    for replica in census.of_group(place) {
        if replica.standing != Standing::Lost
            && !replica.leaves()
            && let Ok(index) = usize::try_from(replica.index)
            && let Some(slot) = used.get_mut(index)
        {
            *slot = true;
        }
    }
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    (0..bound)
        .zip(used)
        .filter(|(_, used)| !used)
        .map(|(index, _)| index)
        .take(count)
        .collect()
}
