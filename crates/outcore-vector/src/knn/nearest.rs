//! The nearest rows of each query so far: one heap per query and thread, and the distances that
//! threads share.
//!
//! Contract: a heap keeps the `k` least of (distance, row). [`Worst`] has, for each query, the
//! least `k`th distance of all threads. At least `k` rows are as near, so any farther row is not a
//! neighbour. The order of its updates changes which rows are measured, but never the result.

use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use super::cut::{Cut, Cuts, RowBound, is_kept, next_kept};
use super::queries::Queries;
use super::{NO_ROW, Neighbours};

/// Converts distances to integers in the same order.
fn key(distance: f64) -> u64 {
    let bits = (distance + 0.0).to_bits();
    match bits >> 63 {
        0 => bits | 1 << 63,
        _ => !bits,
    }
}

fn distance_of(key: u64) -> f64 {
    f64::from_bits(match key >> 63 {
        0 => !key,
        _ => key & !(1 << 63),
    })
}

/// The distances that threads share.
pub(super) struct Worst(Vec<AtomicU64>);

impl Worst {
    pub(super) fn new(count: usize) -> Self {
        let nothing = key(f64::INFINITY);
        Worst((0..count).map(|_| AtomicU64::new(nothing)).collect())
    }
}

/// The neighbours that one thread has found.
pub(super) struct Nearest {
    heaps: Vec<BinaryHeap<(u64, u64)>>,
    /// The distance, as a key, from which each cut was made.
    known: Vec<u64>,
    factors: Vec<f32>,
    levels: Vec<f32>,
    k: usize,
}

impl Nearest {
    pub(super) fn memory_bytes(count: usize, k: usize) -> u64 {
        let heap = size_of::<BinaryHeap<(u64, u64)>>() + (k + 1) * size_of::<(u64, u64)>();
        (count * (heap + size_of::<u64>() + 2 * size_of::<f32>())) as u64
    }

    pub(super) fn new(queries: &Queries, k: usize) -> Self {
        let count = queries.count();
        let mut nearest = Nearest {
            heaps: (0..count)
                .map(|_| BinaryHeap::with_capacity(k + 1))
                .collect(),
            known: vec![key(f64::INFINITY); count],
            factors: vec![0.0; count],
            levels: vec![0.0; count],
            k,
        };
        for query in 0..count {
            nearest.cut(queries, query);
        }
        nearest
    }

    fn cut(&mut self, queries: &Queries, query: usize) {
        let distance = distance_of(self.known[query]);
        let cut = Cut::of(
            queries.metric,
            queries.dimension,
            queries.norm(query),
            distance,
        );
        (self.factors[query], self.levels[query]) = (cut.factor, cut.level);
    }

    /// Takes over the distances of other threads.
    pub(super) fn learn(&mut self, queries: &Queries, worst: &Worst) {
        for query in 0..self.known.len() {
            let told = worst.0[query].load(Ordering::Relaxed);
            if told < self.known[query] {
                self.known[query] = told;
                self.cut(queries, query);
            }
        }
    }

    /// The next row that is kept for at least one query; see [`next_kept`].
    pub(super) fn next_hit(
        &self,
        queries: Range<usize>,
        products: &[f32],
        bounds: &[RowBound],
        from: usize,
    ) -> Option<usize> {
        let cuts = Cuts {
            factors: &self.factors[queries.clone()],
            levels: &self.levels[queries],
        };
        next_kept(cuts, products, bounds, from)
    }

    /// Whether a row is not ruled out for a query.
    pub(super) fn may_take(&self, query: usize, product: f32, bound: RowBound) -> bool {
        is_kept(
            Cut {
                factor: self.factors[query],
                level: self.levels[query],
            },
            product,
            bound,
        )
    }

    /// The distance of the `k`th best so far.
    pub(super) fn known(&self, query: usize) -> f64 {
        distance_of(self.known[query])
    }

    /// Keeps a row if it is among the nearest so far.
    pub(super) fn offer(
        &mut self,
        query: usize,
        distance: f64,
        id: u64,
        queries: &Queries,
        worst: &Worst,
    ) {
        let heap = &mut self.heaps[query];
        let offered = (key(distance), id);
        if heap.len() == self.k {
            match heap.peek() {
                Some(last) if *last <= offered => return,
                _ => heap.pop(),
            };
        }
        heap.push(offered);
        let last = heap.peek().filter(|_| heap.len() == self.k);
        if let Some((last, _)) = last.copied()
            && last < self.known[query]
        {
            self.known[query] = last.min(worst.0[query].fetch_min(last, Ordering::Relaxed));
            self.cut(queries, query);
        }
    }
}

/// The `k`th least distance over all threads; infinite if they have fewer.
pub(super) fn kth(each: &[Nearest], query: usize, k: usize) -> f64 {
    let heaps = each.iter().flat_map(|nearest| nearest.heaps[query].iter());
    let mut all: Vec<u64> = heaps.map(|(key, _)| *key).collect();
    match all.len() < k {
        true => f64::INFINITY,
        false => distance_of(*all.select_nth_unstable(k - 1).1),
    }
}

/// The nearest rows to a query over all threads, as keys and rows.
pub(super) fn of_query(each: &[Nearest], query: usize, k: usize) -> Vec<(u64, u64)> {
    let heaps = each.iter().flat_map(|nearest| nearest.heaps[query].iter());
    let mut all: Vec<(u64, u64)> = heaps.copied().collect();
    all.sort_unstable();
    all.truncate(k);
    all
}

/// Appends the results of [`of_query`] for each query to `found`, filled with [`NO_ROW`] up to `k`.
pub(super) fn add(
    each: impl IntoIterator<Item = Vec<(u64, u64)>>,
    queries: &Queries,
    k: usize,
    found: &mut Neighbours,
) {
    for nearest in each {
        let none = std::iter::repeat_n((key(f64::INFINITY), NO_ROW), k - nearest.len().min(k));
        for (key, id) in nearest.into_iter().chain(none) {
            found.ids.push(id);
            found.distances.push(queries.shown(distance_of(key)));
        }
    }
}

/// Appends the nearest rows over all threads to `found`, query by query.
pub(super) fn merge(each: Vec<Nearest>, queries: &Queries, k: usize, found: &mut Neighbours) {
    let all = (0..queries.count()).map(|query| of_query(&each, query, k));
    add(all, queries, k, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_order_of_distances() {
        let mut distances = [3.5, -2.0, 0.0, f64::INFINITY, 1e-300, -1e300, -0.0];
        distances.sort_by(f64::total_cmp);
        let keys = distances.map(key);
        assert!(keys.is_sorted());
        assert_eq!(key(-0.0), key(0.0));
        assert!(
            distances
                .iter()
                .all(|distance| distance_of(key(*distance)) == *distance)
        );
    }
}
