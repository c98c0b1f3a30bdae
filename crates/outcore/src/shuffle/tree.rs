//! The permutation of a shuffle, as a definition: a tree of fair draws, then a shuffle of each
//! leaf.
//!
//! Model: P. Sanders, "Random permutations on distributed, external and hierarchical memory",
//! Information Processing Letters 67 (1998): draw one of a few buckets for every element, keep the
//! order inside them, continue in each, and permute small ones by Fisher and Yates. Draws are
//! independent and fair, and leaves are permuted uniformly, so all permutations are equally likely.
//!
//! Contract: the permutation depends only on the seed, the epoch, the bytes of the data and the
//! length of a record. The tree has [`FAN_OUT`] children per node and enough levels that a leaf
//! holds at most about [`LEAF_BYTES`]. An element is identified by its chunk of the input (see
//! [`crate::read::regions`]) and by the number of that chunk's elements before it *in the node*.
//! Its child is a hash of seed, node, chunk and that number. A reader of a chunk can therefore draw
//! for its elements through several levels at once, independently of others. A reader of a bucket
//! only needs to know where chunks begin in it. No key is ever stored.
//!
//! Complexity: one hash per element and level. Memory: one word per node above the buckets.

use crate::partition::kernel::mixing::{choose_below, mix, mix_all, mix_onto, mix_row};

/// Children of a node.
pub(crate) const FAN_OUT: usize = 16;
const FAN_OUT_BITS: u32 = FAN_OUT.trailing_zeros();
/// Approximate maximum size of a leaf.
pub(crate) const LEAF_BYTES: u64 = 1 << 20;
/// Approximate minimum number of records of a leaf, once there are more than a few.
const LEAF_RECORDS: u64 = 16;
/// Elements for which draws are made at once.
const BATCH: usize = 1024;
/// Largest number of chunks: memory holds the start of each chunk in each bucket.
const CHUNKS_MAX: u64 = 1024;

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The child that a hash selects.
#[inline]
fn child(hash: u64) -> u16 {
    (hash >> (u64::BITS - FAN_OUT_BITS)) as u16
}

/// A hash of two words; the second one is usually a small number.
fn mix2(key: u64, value: u64) -> u64 {
    mix(mix(key ^ GOLDEN).wrapping_add(value.wrapping_add(1).wrapping_mul(GOLDEN)))
}

/// A node: its level, and its number in the level.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) level: u32,
    pub(crate) index: u64,
}

impl Node {
    pub(crate) const ROOT: Node = Node { level: 0, index: 0 };

    /// A node below, `levels` further down.
    pub(crate) fn below(self, levels: u32, index: usize) -> Node {
        Node {
            level: self.level + levels,
            index: (self.index << (FAN_OUT_BITS * levels)) + index as u64,
        }
    }
}

/// The definition of one permutation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tree {
    key: u64,
    /// Levels of draws.
    pub(crate) levels: u32,
    /// Length of a chunk of the input.
    pub(crate) chunk_bytes: u64,
}

/// Nodes of a level.
pub(crate) fn fan_out(levels: u32) -> usize {
    1 << (FAN_OUT_BITS * levels)
}

impl Tree {
    /// The tree for `data_bytes` in records of `record_bytes` (1 for lines).
    pub(crate) fn new(seed: u64, epoch: u64, data_bytes: u64, record_bytes: u64) -> Self {
        let leaf_bytes = LEAF_BYTES.max(LEAF_RECORDS * record_bytes);
        let mut levels = 0;
        while (data_bytes >> (FAN_OUT_BITS * levels)) > leaf_bytes {
            levels += 1;
        }
        let chunk_bytes = LEAF_BYTES
            .max(LEAF_RECORDS * record_bytes)
            .max(data_bytes.div_ceil(CHUNKS_MAX))
            .next_multiple_of(record_bytes);
        Tree {
            key: mix2(mix2(0, seed), epoch),
            levels,
            chunk_bytes,
        }
    }

    fn node_key(&self, node: Node) -> u64 {
        mix2(mix2(self.key, u64::from(node.level)), node.index)
    }

    /// The random numbers that permute a leaf.
    pub(crate) fn rng(&self, leaf: Node) -> DrawRng {
        DrawRng::new(mix2(self.node_key(leaf), u64::MAX))
    }
}

/// The paths of one chunk's elements from a node through several levels.
#[derive(Debug)]
pub(crate) struct Walk {
    tree: Tree,
    root: Node,
    levels: u32,
    chunk: u64,
    /// Elements that have passed the root.
    number: u64,
    /// For each node above the last level, the input of the next element's hash: the node's key
    /// plus [`GOLDEN`] for each element that has passed it.
    states: Vec<u64>,
}

impl Walk {
    /// A walk from `root` down `levels` levels, at the first element of `chunk`.
    pub(crate) fn new(tree: Tree, root: Node, levels: u32, chunk: u64) -> Self {
        let nodes = (0..levels).map(fan_out).sum();
        let mut walk = Walk {
            tree,
            root,
            levels,
            chunk,
            number: 0,
            states: vec![0; nodes],
        };
        walk.begin(chunk);
        walk
    }

    /// Moves to the first element of a chunk.
    pub(crate) fn begin(&mut self, chunk: u64) {
        self.chunk = chunk;
        self.number = 0;
        let nodes =
            (0..self.levels).flat_map(|level| (0..fan_out(level)).map(move |index| (level, index)));
        for (state, (level, index)) in self.states.iter_mut().zip(nodes) {
            let node = self.root.below(level, index);
            *state = mix2(self.tree.node_key(node), chunk);
        }
    }

    /// Number of elements of the chunk that have passed the root.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Moves to element `number` of `chunk` in the root; at no cost if it is the next one.
    pub(crate) fn seek(&mut self, chunk: u64, number: u64) {
        if self.levels == 0 {
            return;
        }
        if self.chunk != chunk || self.number > number {
            self.begin(chunk);
        }
        while self.number < number {
            self.next();
        }
    }

    /// The destinations of the next elements, as in [`Walk::next`], but level by level. Each level
    /// first computes the inputs of the hashes, which depend on the previous elements, then all
    /// hashes at once.
    pub(crate) fn fill(&mut self, nodes: &mut [u16]) {
        self.number += nodes.len() as u64;
        if self.levels == 0 {
            nodes.fill(0);
        }
        for nodes in nodes.chunks_mut(BATCH) {
            let mut words = [0; BATCH];
            let mut above = 0;
            for level in 0..self.levels {
                let states = &mut self.states[above..above + fan_out(level)];
                above += states.len();
                match states {
                    [root] => {
                        mix_row(nodes, *root, GOLDEN, FAN_OUT_BITS);
                        *root = root.wrapping_add((nodes.len() as u64).wrapping_mul(GOLDEN));
                    }
                    _ => {
                        for (word, node) in words.iter_mut().zip(&*nodes) {
                            let state = &mut states[usize::from(*node)];
                            *word = *state;
                            *state = state.wrapping_add(GOLDEN);
                        }
                        mix_onto(nodes, &words, FAN_OUT_BITS);
                    }
                }
            }
        }
    }

    /// The destination of the next element: a node of the last level, counted from 0.
    #[inline]
    pub(crate) fn next(&mut self) -> usize {
        self.number += 1;
        let (mut node, mut above, mut width) = (0, 0, 1);
        for _ in 0..self.levels {
            let state = &mut self.states[above + node];
            let hash = mix(*state);
            *state = state.wrapping_add(GOLDEN);
            above += width;
            width *= FAN_OUT;
            node = node * FAN_OUT + usize::from(child(hash));
        }
        node
    }
}

/// Numbers that are made at once, two from each word.
const BATCH_DRAWS: usize = 128;

/// Uniform random numbers: splitmix64, in halves, the upper one first.
#[derive(Debug)]
pub(crate) struct DrawRng {
    state: u64,
    /// Words of which the halves from `next` on are unused.
    ready: [u64; BATCH_DRAWS / 2],
    next: usize,
}

impl DrawRng {
    fn new(state: u64) -> Self {
        DrawRng {
            state,
            ready: [0; BATCH_DRAWS / 2],
            next: BATCH_DRAWS,
        }
    }

    #[inline]
    fn next_u32(&mut self) -> u32 {
        if self.next == BATCH_DRAWS {
            self.make();
        }
        let both = self.ready[self.next / 2];
        let is_upper = self.next.is_multiple_of(2);
        self.next += 1;
        if is_upper {
            (both >> 32) as u32
        } else {
            both as u32
        }
    }

    fn make(&mut self) {
        for word in &mut self.ready {
            self.state = self.state.wrapping_add(GOLDEN);
            *word = self.state;
        }
        mix_all(&mut self.ready);
        self.next = 0;
    }

    /// A number below `bound`, each equally likely (D. Lemire, "Fast random integer generation in
    /// an interval", ACM TOMACS 29, 2019).
    #[inline]
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        let mut product = u64::from(self.next_u32()) * u64::from(bound);
        if (product as u32) < bound {
            let reject_below = bound.wrapping_neg() % bound;
            while (product as u32) < reject_below {
                product = u64::from(self.next_u32()) * u64::from(bound);
            }
        }
        (product >> 32) as u32
    }

    /// Permutes `items` uniformly (Fisher and Yates; Durstenfeld).
    pub(crate) fn shuffle<T: Copy>(&mut self, items: &mut [T]) {
        self.deal(items, &mut []);
    }

    /// Like `shuffle`, but the first items in the new order go to `out`, as many as it holds, and
    /// the others to their places in `items`.
    ///
    /// # Panics
    /// If `out` is longer than `items`.
    pub(crate) fn deal<T: Copy>(&mut self, items: &mut [T], out: &mut [T]) {
        assert!(out.len() <= items.len());
        let mut left = items.len();
        while left > 1 {
            if self.next == BATCH_DRAWS && left > BATCH_DRAWS {
                self.make();
                let mut chosen = [0; BATCH_DRAWS / 2];
                if choose_below(&self.ready, left as u32, &mut chosen) {
                    for both in chosen {
                        swap_out(items, out, left - 1, both as u32);
                        swap_out(items, out, left - 2, (both >> 32) as u32);
                        left -= 2;
                    }
                    self.next = BATCH_DRAWS;
                    continue;
                }
            }
            let other = self.below(left as u32);
            left -= 1;
            swap_out(items, out, left, other);
        }
        if let (Some(slot), Some(item)) = (out.first_mut(), items.first()) {
            *slot = *item;
        }
    }
}

/// Swaps `items[last]` with another item, after which its place is final. If `out` extends that
/// far, the final item goes to `out` instead.
#[inline(always)]
fn swap_out<T: Copy>(items: &mut [T], out: &mut [T], last: usize, other: u32) {
    let item = items[other as usize];
    items[other as usize] = items[last];
    match out.get_mut(last) {
        Some(slot) => *slot = item,
        None => items[last] = item,
    }
}

/// The permutation by its definition: for chunks of this many elements, the places of all elements
/// in the order of the output. The oracle of every faster implementation.
#[cfg(test)]
pub(crate) fn permutation(tree: Tree, chunk_counts: &[usize]) -> Vec<usize> {
    let mut starts = vec![0];
    for count in chunk_counts {
        starts.push(starts.last().unwrap() + count);
    }
    let chunk_of = |element: usize| starts.partition_point(|&start| start <= element) - 1;
    let mut nodes = vec![(Node::ROOT, (0..*starts.last().unwrap()).collect::<Vec<_>>())];
    for _ in 0..tree.levels {
        let mut below = Vec::new();
        for (node, elements) in nodes {
            let mut children = vec![Vec::new(); FAN_OUT];
            let mut seen = vec![0u64; chunk_counts.len()];
            for element in elements {
                let chunk = chunk_of(element);
                let key = mix2(tree.node_key(node), chunk as u64);
                let hash = mix(key.wrapping_add(seen[chunk].wrapping_mul(GOLDEN)));
                seen[chunk] += 1;
                children[(hash >> (64 - FAN_OUT_BITS)) as usize].push(element);
            }
            for (index, child) in children.into_iter().enumerate() {
                below.push((node.below(1, index), child));
            }
        }
        nodes = below;
    }
    for (leaf, elements) in &mut nodes {
        tree.rng(*leaf).shuffle(elements);
    }
    nodes
        .into_iter()
        .flat_map(|(_, elements)| elements)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(seed: u64, epoch: u64, levels: u32) -> Tree {
        Tree {
            levels,
            ..Tree::new(seed, epoch, 0, 1)
        }
    }

    /// The chi-square of counts that should be equal, in standard deviations from its mean.
    fn deviation(counts: &[u64]) -> f64 {
        let total: u64 = counts.iter().sum();
        let expected = total as f64 / counts.len() as f64;
        let square: f64 = counts
            .iter()
            .map(|&count| (count as f64 - expected).powi(2) / expected)
            .sum();
        let freedom = counts.len() as f64 - 1.0;
        (square - freedom) / (2.0 * freedom).sqrt()
    }

    #[test]
    fn all_orders_of_five_elements_are_equally_likely_at_every_depth() {
        for (levels, chunks) in [(0, vec![5]), (1, vec![5]), (2, vec![2, 3]), (3, vec![1, 4])] {
            let mut seen = std::collections::HashMap::new();
            for seed in 0..15_000 {
                let order = permutation(tree(seed, 0, levels), &chunks);
                *seen.entry(order).or_insert(0u64) += 1;
            }
            let counts: Vec<u64> = seen.into_values().collect();
            assert_eq!(counts.len(), 120);
            let deviation = deviation(&counts);
            assert!(deviation.abs() < 5.0, "levels {levels}: {deviation}");
        }
    }

    #[test]
    fn every_element_is_as_likely_at_every_place() {
        let count = 64;
        let mut at = vec![0u64; count * count];
        for epoch in 0..20_000 {
            let order = permutation(tree(9, epoch, 2), &[30, 34]);
            for (place, element) in order.into_iter().enumerate() {
                at[element * count + place] += 1;
            }
        }
        let deviation = deviation(&at);
        assert!(deviation.abs() < 5.0, "{deviation}");
    }

    #[test]
    fn neighbours_and_fixed_points_are_as_rare_as_chance_has_it() {
        let (count, rounds) = (1000usize, 2000u64);
        let (mut fixed, mut followers) = (0u64, 0u64);
        for epoch in 0..rounds {
            let order = permutation(tree(5, epoch, 2), &[400, 600]);
            fixed += order.iter().enumerate().filter(|(i, e)| i == *e).count() as u64;
            followers += order.windows(2).filter(|w| w[1] == w[0] + 1).count() as u64;
        }
        // Both numbers are nearly Poisson with mean 1 per permutation.
        for (name, seen) in [("fixed points", fixed), ("followers", followers)] {
            let deviation = (seen as f64 - rounds as f64) / (rounds as f64).sqrt();
            assert!(
                deviation.abs() < 5.0,
                "{name}: {seen} of {count} in {rounds}"
            );
        }
    }

    #[test]
    fn epochs_and_seeds_are_independent_of_each_other() {
        let first = permutation(tree(1, 0, 2), &[500]);
        for other in [tree(1, 1, 2), tree(2, 0, 2), tree(2, 1, 2), tree(0, 1, 2)] {
            let other = permutation(other, &[500]);
            let same = first.iter().zip(&other).filter(|(a, b)| a == b).count();
            assert!(same < 10, "{same} of 500 at the same place");
        }
    }

    #[test]
    fn a_walk_through_levels_at_once_is_the_walk_level_by_level() {
        let tree = tree(3, 0, 3);
        let mut whole = Walk::new(tree, Node::ROOT, 3, 7);
        let mut first = Walk::new(tree, Node::ROOT, 1, 7);
        let mut seen = [0u64; FAN_OUT];
        for _ in 0..5000 {
            let child = first.next();
            let mut second = Walk::new(tree, Node::ROOT.below(1, child), 2, 7);
            second.seek(7, seen[child]);
            seen[child] += 1;
            assert_eq!(whole.next(), child * fan_out(2) + second.next());
        }
    }

    #[test]
    fn many_at_once_go_where_they_go_one_by_one() {
        for levels in 0..4 {
            let tree = tree(8, 0, levels);
            let mut one_by_one = Walk::new(tree, Node::ROOT, levels, 3);
            let mut at_once = Walk::new(tree, Node::ROOT, levels, 3);
            for count in [0, 1, 1000, 77] {
                let mut nodes = vec![9; count];
                at_once.fill(&mut nodes);
                assert!(
                    nodes
                        .iter()
                        .all(|&node| usize::from(node) == one_by_one.next())
                );
            }
            assert_eq!(at_once.number(), one_by_one.number());
        }
    }

    #[test]
    fn what_is_dealt_at_once_is_what_is_swapped_one_by_one() {
        // Long enough that some numbers are drawn again.
        for (count, dealt) in [(0, 0), (1, 1), (129, 77), (300, 300), (1 << 19, 400_000)] {
            let items: Vec<u32> = (0..count).collect();
            let mut one_by_one = items.clone();
            let mut rng = tree(4, 2, 0).rng(Node::ROOT);
            for last in (1..one_by_one.len()).rev() {
                let other = rng.below(last as u32 + 1) as usize;
                one_by_one.swap(last, other);
            }
            let after = rng.below(1 << 30);
            for dealt in [0, dealt] {
                let mut left = items.clone();
                let mut out = vec![0; dealt];
                let mut rng = tree(4, 2, 0).rng(Node::ROOT);
                rng.deal(&mut left, &mut out);
                assert_eq!(out[..], one_by_one[..dealt], "{count}");
                assert_eq!(left[dealt..], one_by_one[dealt..], "{count}");
                assert_eq!(rng.below(1 << 30), after, "{count}");
            }
        }
    }

    #[test]
    fn bounded_numbers_are_uniform() {
        let mut rng = tree(1, 1, 0).rng(Node::ROOT);
        let mut counts = vec![0u64; 77];
        for _ in 0..200_000 {
            counts[rng.below(77) as usize] += 1;
        }
        assert!(deviation(&counts).abs() < 5.0);
    }
}
