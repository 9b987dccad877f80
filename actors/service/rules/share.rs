//! Shares of a new count among the versions that have replicas.

/// Replicas of one version before a change of the desired count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Live replicas that are not stopping.
    pub live: u32,
    /// How many of them are available.
    pub available: u32,
}

/// New counts, for sizes from the newest version to the oldest.
///
/// Each version keeps its share of the total, rounded to the nearest number; what rounding leaves
/// goes to the largest, the newest of equals when growing and the oldest of equals when shrinking.
/// Not fewer than `available_min` available replicas remain by it, if so many are there.
pub fn shares(sizes: &[Size], total: u32, available_min: u32) -> Vec<u32> {
    let mut counts = proportional(sizes, total);
    keep_available(sizes, &mut counts, available_min);
    counts
}

fn proportional(sizes: &[Size], total: u32) -> Vec<u32> {
    let before: i64 = sizes.iter().map(|size| i64::from(size.live)).sum();
    let change = i64::from(total) - before;
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    // Stable, so that equals stay from the newest to the oldest, or the other way round.
    if change < 0 {
        order.reverse();
    }
    order.sort_by_key(|&place| std::cmp::Reverse(sizes[place].live));
    let mut counts: Vec<i64> = sizes.iter().map(|size| i64::from(size.live)).collect();
    let mut left = change;
    for &place in &order {
        let live = counts[place];
        let wanted = match before {
            0 => 0,
            _ => (2 * live * i64::from(total) + before) / (2 * before) - live,
        };
        let step = if change > 0 {
            wanted.clamp(0, left)
        } else {
            wanted.clamp(left, 0)
        };
        counts[place] += step;
        left -= step;
    }
    if let Some(&first) = order.first() {
        counts[first] = (counts[first] + left).max(0);
    }
    counts
        .into_iter()
        .map(|count| u32::try_from(count).unwrap_or(0))
        .collect()
}

/// Gives available replicas back where too few would remain, and takes others instead.
fn keep_available(sizes: &[Size], counts: &mut [u32], available_min: u32) {
    let kept = |size: &Size, count: u32| size.available.min(count);
    let remaining: u32 = sizes
        .iter()
        .zip(counts.iter())
        .map(|(size, &count)| kept(size, count))
        .sum();
    let mut missing = available_min.saturating_sub(remaining);
    let mut given = 0;
    for (size, count) in sizes.iter().zip(counts.iter_mut()) {
        let back = size.available.saturating_sub(*count).min(missing);
        *count += back;
        missing -= back;
        given += back;
    }
    for (size, count) in sizes.iter().zip(counts.iter_mut()) {
        let idle = count.saturating_sub(size.available).min(given);
        *count -= idle;
        given -= idle;
    }
}
