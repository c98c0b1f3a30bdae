//! Disjoint sets of rows that several threads unite.
//!
//! Contract: [`Components::unite`] merges the sets of two rows. [`Components::representative`] is
//! the least row of a set, or the largest one. It does not depend on the order in which threads
//! united the sets.
//!
//! Links are set by compare-and-swap from a root to a smaller (or larger) one, and paths are halved
//! on the way. Source: Jayanti and Tarjan, "Concurrent disjoint set union", Distributed Computing
//! 2021, linking by index.
//!
//! Bounds: four bytes per row. A union takes logarithmic time except for contrived orders of rows.

use std::sync::atomic::{AtomicU32, Ordering};

/// See the module.
pub(super) struct Components {
    parents: Vec<AtomicU32>,
    is_largest: bool,
}

impl Components {
    /// The memory for `rows_count` rows.
    pub(super) fn memory_bytes(rows_count: u64) -> u64 {
        rows_count * size_of::<AtomicU32>() as u64
    }

    /// Starts with each row in a set of its own.
    pub(super) fn new(rows_count: u32, is_largest: bool) -> Self {
        Components {
            parents: (0..rows_count).map(AtomicU32::new).collect(),
            is_largest,
        }
    }

    fn parent(&self, row: u32) -> u32 {
        self.parents[row as usize].load(Ordering::Relaxed)
    }

    /// Returns the representative of the set of `row`.
    pub(super) fn representative(&self, mut row: u32) -> u32 {
        loop {
            let parent = self.parent(row);
            if parent == row {
                return row;
            }
            let above = self.parent(parent);
            // If another thread changed the link meanwhile, it also shortened the path.
            let _ = self.parents[row as usize].compare_exchange_weak(
                parent,
                above,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            row = above;
        }
    }

    /// Merges the sets of two rows.
    pub(super) fn unite(&self, one: u32, other: u32) {
        let (mut one, mut other) = (one, other);
        loop {
            (one, other) = (self.representative(one), self.representative(other));
            if one == other {
                return;
            }
            let is_below = (one > other) == self.is_largest;
            let (root, below) = if is_below { (one, other) } else { (other, one) };
            let linked = self.parents[below as usize].compare_exchange(
                below,
                root,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            if linked.is_ok() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_or_the_largest_row_stands_for_a_set_on_any_threads() {
        let rows_count = 10_000_u32;
        for is_largest in [false, true] {
            let sets = Components::new(rows_count, is_largest);
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let sets = &sets;
                    scope.spawn(move || {
                        for step in 0..rows_count {
                            let row = step.wrapping_mul(7919 + 2 * thread) % (rows_count - 7);
                            sets.unite(row, row + 7);
                        }
                    });
                }
            });
            for row in 0..rows_count {
                let (least, largest) = (row % 7, rows_count - 1 - (rows_count - 1 - row) % 7);
                let wanted = if is_largest { largest } else { least };
                assert_eq!(sets.representative(row), wanted);
            }
        }
    }
}
