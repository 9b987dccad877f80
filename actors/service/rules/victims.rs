//! Which replicas go first.

use std::cmp::Reverse;
use std::collections::HashMap;

use xce_model::{ClusterTime, JobId};

use super::{Replica, Situation, Standing};

/// Key of the order in which replicas go; the smallest goes first.
type Rank = (Standing, Reverse<u32>, bool, Reverse<JobId>);

/// Up to `count` of the given replicas of one group, in the order in which they go: by standing,
/// then from the host that has most, then those that are not yet stable, then the newest.
///
/// Where many are to go from a host, each that goes makes the next count one less.
pub fn choose<'a>(
    replicas: impl Iterator<Item = Replica<'a>>,
    count: usize,
    situation: &Situation<'_>,
) -> Vec<Replica<'a>> {
    let mut ranked: Vec<(Rank, Replica<'a>)> = replicas
        .filter(|replica| replica.standing < Standing::Stopping)
        .map(|replica| (rank(&replica, situation), replica))
        .collect();
    if ranked.len() <= count {
        ranked.sort_by_key(|entry| entry.0);
        return ranked.into_iter().map(|(_, replica)| replica).collect();
    }
    // Kept longest first, so that the place of each on its host is how many would be left with it.
    ranked.sort_by_key(|entry| Reverse(entry.0));
    let mut on_host: HashMap<&str, u32> = HashMap::new();
    for (rank, replica) in &mut ranked {
        if let Some(host) = replica.job.host.as_deref()
            && replica.standing > Standing::Pending
        {
            let place = on_host.entry(host).or_default();
            *place += 1;
            rank.1 = Reverse(*place);
        }
    }
    ranked.sort_by_key(|entry| entry.0);
    ranked.truncate(count);
    ranked.into_iter().map(|(_, replica)| replica).collect()
}

fn rank(replica: &Replica<'_>, situation: &Situation<'_>) -> Rank {
    let stable_after = situation.service.settings.replacement.stable_after;
    let stable = |since: ClusterTime| situation.now.since(since) >= stable_after;
    (
        replica.standing,
        Reverse(0),
        replica.job.ready_since.is_some_and(stable),
        Reverse(replica.job.id),
    )
}
