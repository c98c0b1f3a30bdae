//! Exact one-dimensional 2-means, applied until every part is homogeneous.
//!
//! Model: MQMS' Allegro halves a group by k-means with k = 2 until its parts are homogeneous. In
//! one dimension the best two clusters are intervals, so trying every cut of the sorted durations
//! finds the optimum. The cut that maximises `n1 n2 / n (mu1 - mu2)^2` minimises the sum of squares
//! within the parts.
//!
//! Invariants: cuts are between different durations; parts cover the input in order. After
//! [`DEPTH_MAX`] levels a part is kept as it is, which only costs samples. Bounds: `O(n)` per level
//! on sorted input, no memory except for the clusters.

use super::{AllegroOptions, Cluster, Launch};

/// Levels of halving. 2-means splits off one launch per level only if durations grow geometrically.
/// 64 bits hold no more than this many such durations.
const DEPTH_MAX: u32 = 64;

/// The cut of sorted `durations_ns` into two clusters with the least squares. Returns the length of
/// the first cluster; `None` when all values are equal. Of several equally good cuts, the first one
/// wins.
pub(crate) fn best_cut(durations_ns: impl ExactSizeIterator<Item = u64> + Clone) -> Option<usize> {
    let count = durations_ns.len();
    let total: u128 = durations_ns.clone().map(u128::from).sum();
    let mut best: Option<(f64, usize)> = None;
    let (mut left, mut last) = (0u128, None);
    for (at, duration_ns) in durations_ns.enumerate() {
        if last.is_some_and(|last| last != duration_ns) {
            let (n1, n2) = (at as f64, (count - at) as f64);
            // Difference of the means over a common denominator, so that there is only one
            // rounding.
            let cross = (total - left) as f64 * n1 - left as f64 * n2;
            let gain = cross / n1 * (cross / n2);
            if best.is_none_or(|(found, _)| gain > found) {
                best = Some((gain, at));
            }
        }
        left += u128::from(duration_ns);
        last = Some(duration_ns);
    }
    best.map(|(_, at)| at)
}

/// The homogeneous parts of launches that are sorted by duration; their `group` remains 0.
pub(super) fn clusters(launches: &[Launch], options: &AllegroOptions) -> Vec<Cluster> {
    let mut found = Vec::new();
    if !launches.is_empty() {
        divide(launches, 0, DEPTH_MAX, options, &mut found);
    }
    found
}

fn cluster(launches: &[Launch], first: usize, options: &AllegroOptions) -> Cluster {
    let count = launches.len();
    let sum: u128 = launches
        .iter()
        .map(|launch| u128::from(launch.duration_ns))
        .sum();
    let mean_ns = sum as f64 / count as f64;
    let squares: f64 = launches
        .iter()
        .map(|launch| (launch.duration_ns as f64 - mean_ns).powi(2))
        .sum();
    let deviation = (squares / (count.max(2) - 1) as f64).sqrt();
    let cv = if mean_ns > 0.0 {
        deviation / mean_ns
    } else {
        0.0
    };
    Cluster {
        group: 0,
        first,
        count: count as u64,
        mean_ns,
        cv,
        samples: options.samples(count as u64, cv),
    }
}

/// Appends the clusters of `launches`, the first of which is number `first` of its group.
fn divide(
    launches: &[Launch],
    first: usize,
    levels: u32,
    options: &AllegroOptions,
    found: &mut Vec<Cluster>,
) {
    let whole = cluster(launches, first, options);
    if whole.cv <= options.homogeneous_cv || levels == 0 {
        found.push(whole);
        return;
    }
    let Some(cut) = best_cut(launches.iter().map(|launch| launch.duration_ns)) else {
        found.push(whole);
        return;
    };
    let before = found.len();
    divide(&launches[..cut], first, levels - 1, options, found);
    divide(&launches[cut..], first + cut, levels - 1, options, found);
    let parts: u64 = found[before..].iter().map(|part| part.samples).sum();
    if options.prune && parts >= whole.samples {
        found.truncate(before);
        found.push(whole);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn launch((duration_ns, number): (u64, u32)) -> Launch {
        Launch {
            duration_ns,
            number,
        }
    }

    fn squares(values: &[u64]) -> f64 {
        let mean = values.iter().sum::<u64>() as f64 / values.len().max(1) as f64;
        values.iter().map(|v| (*v as f64 - mean).powi(2)).sum()
    }

    /// The least squares over all assignments of values to two non-empty clusters.
    fn by_trying_everything(values: &[u64]) -> f64 {
        let mut least = f64::INFINITY;
        for mask in 1..(1u32 << values.len()) - 1 {
            let pick = |side: bool| -> Vec<u64> {
                let chosen = values.iter().enumerate();
                chosen
                    .filter(|(at, _)| (mask >> at & 1 == 1) == side)
                    .map(|(_, v)| *v)
                    .collect()
            };
            least = least.min(squares(&pick(true)) + squares(&pick(false)));
        }
        least
    }

    proptest! {
        #[test]
        fn no_assignment_to_two_clusters_is_better(
            mut values in prop::collection::vec(0u64..1000, 2..10)
        ) {
            values.sort_unstable();
            let least = by_trying_everything(&values);
            match best_cut(values.iter().copied()) {
                None => prop_assert!(values.iter().all(|v| *v == values[0])),
                Some(cut) => {
                    prop_assert!(values[cut - 1] < values[cut]);
                    let here = squares(&values[..cut]) + squares(&values[cut..]);
                    prop_assert!(here <= least + 1e-6 * least.max(1.0), "{here} {least}");
                }
            }
        }

        #[test]
        fn clusters_cover_the_group_in_order(
            mut values in prop::collection::vec(0u64..1_000_000_000_000, 1..300),
            cv in 0.0f64..0.3,
            prune: bool,
        ) {
            values.sort_unstable();
            let launches: Vec<_> = values.iter().copied().zip(0..).map(launch).collect();
            let options = AllegroOptions { homogeneous_cv: cv, prune, ..AllegroOptions::default() };
            let parts = clusters(&launches, &options);
            let mut next = 0;
            for part in &parts {
                prop_assert_eq!(part.first, next);
                prop_assert!(part.samples >= 1 && part.samples <= part.count);
                prop_assert!(prune || part.cv <= cv || part.count == 1);
                next += part.count as usize;
            }
            prop_assert_eq!(next, values.len());
        }
    }

    #[test]
    fn durations_that_grow_geometrically_end_within_the_levels() {
        let launches: Vec<_> = (0..64).map(|at| launch((1u64 << at, at))).collect();
        let options = AllegroOptions {
            prune: false,
            ..AllegroOptions::default()
        };
        assert_eq!(clusters(&launches, &options).len(), 64);
    }

    #[test]
    fn pruning_never_needs_more_samples() {
        let launches: Vec<_> = (0..5000u32)
            .map(|at| launch((1000 + u64::from(at), at)))
            .collect();
        let with = AllegroOptions::default();
        let without = AllegroOptions {
            prune: false,
            ..with
        };
        let samples = |options| -> u64 {
            let parts = clusters(&launches, &options);
            parts.iter().map(|part| part.samples).sum()
        };
        assert!(samples(with) <= samples(without));
    }
}
