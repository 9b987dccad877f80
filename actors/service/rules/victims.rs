//! Which replicas go first.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use xce_model::{ClusterTime, JobId};

use super::{Replica, Situation, Standing};

/// Standings in the order in which replicas go.
const ORDER: [Standing; 7] = [
    Standing::Pending,
    Standing::Starting,
    Standing::Unreachable,
    Standing::Running,
    Standing::Unready,
    Standing::Ready,
    Standing::Available,
];

/// Which of two on one host goes first: the greater one. Those that are not yet stable go before
/// others, then the newest.
type Age = (bool, JobId);

/// A replica of one class: its age and its place in the class.
type Candidate = (Age, usize);

/// Up to `count` of the given replicas of one group, in the order in which they go: by standing,
/// then those on drained hosts, then from the host that has most, then those that are not yet stable, then the newest.
///
/// Each that goes from a host makes the count there one less. The work is linear in the replicas,
/// not in their order.
pub fn choose<'a>(
    replicas: impl Iterator<Item = Replica<'a>>,
    count: usize,
    situation: &Situation<'_>,
) -> Vec<Replica<'a>> {
    let mut classes: [Vec<Replica<'a>>; ORDER.len()] = Default::default();
    for replica in replicas {
        if let Some(class) = classes.get_mut(replica.standing as usize) {
            class.push(replica);
        }
    }
    let mut victims = Vec::with_capacity(count.min(64));
    for place in 0..ORDER.len() {
        let wanted = count - victims.len();
        if wanted == 0 {
            break;
        }
        let (class, better) = match classes[place..].split_first_mut() {
            Some((class, better)) => (std::mem::take(class), better),
            None => break,
        };
        if class.len() <= wanted {
            let mut all = class;
            all.sort_by_key(|replica| Reverse(age(replica, situation)));
            victims.extend(all);
        } else {
            // What has to leave its host anyway goes first.
            let (drained, others): (Vec<_>, Vec<_>) = class
                .into_iter()
                .partition(|replica| replica.draining.is_some());
            let first = spread(drained, better, wanted, situation);
            let rest = wanted - first.len();
            victims.extend(first);
            victims.extend(spread(others, better, rest, situation));
        }
    }
    victims
}

/// Of one class, those that go: always one from the host that has most, counting `better` ones.
fn spread<'a>(
    class: Vec<Replica<'a>>,
    better: &[Vec<Replica<'a>>],
    wanted: usize,
    situation: &Situation<'_>,
) -> Vec<Replica<'a>> {
    let host = |replica: &Replica<'a>| -> &'a str {
        match replica.standing {
            Standing::Pending => "",
            Standing::Starting
            | Standing::Unreachable
            | Standing::Running
            | Standing::Unready
            | Standing::Ready
            | Standing::Available
            | Standing::Stopping
            | Standing::Lost => replica.job.host.as_deref().unwrap_or_default(),
        }
    };
    // Looked up by name, walked in the order of first sight.
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut hosts: Vec<(usize, Vec<Candidate>)> = Vec::new();
    for (place, replica) in class.iter().enumerate() {
        let known = *places.entry(host(replica)).or_insert(hosts.len());
        if known == hosts.len() {
            hosts.push((0, Vec::new()));
        }
        let entry = &mut hosts[known];
        entry.0 += 1;
        entry.1.push((age(replica, situation), place));
    }
    for replica in better.iter().flatten() {
        if let Some(&known) = places.get(host(replica)) {
            hosts[known].0 += 1;
        }
    }
    let mut heap: BinaryHeap<(usize, Candidate, usize)> = BinaryHeap::new();
    let mut queues: Vec<BinaryHeap<Candidate>> = Vec::with_capacity(hosts.len());
    for (count, ages) in hosts {
        let mut ages = BinaryHeap::from(ages);
        if let Some(first) = ages.pop() {
            heap.push((count, first, queues.len()));
            queues.push(ages);
        }
    }
    let mut victims = Vec::with_capacity(wanted.min(class.len()));
    while victims.len() < wanted {
        let Some((count, first, queue)) = heap.pop() else {
            break;
        };
        victims.push(class[first.1]);
        if let Some(next) = queues[queue].pop() {
            heap.push((count.saturating_sub(1), next, queue));
        }
    }
    victims
}

fn age(replica: &Replica<'_>, situation: &Situation<'_>) -> Age {
    let stable_after = situation.service.settings.replacement.stable_after;
    let stable = |since: ClusterTime| situation.now.since(since) >= stable_after;
    let unstable = !replica.job.ready_since.is_some_and(stable);
    (unstable, replica.job.id)
}
