//! A loser tree: finds which of several sorted runs has the next element.
//!
//! Source: Knuth, The Art of Computer Programming, volume 3, section 5.4.1. Each inner node keeps
//! the element that lost there, so replacing the winner costs one comparison per level: ceil(log2
//! k) for k runs.
//!
//! Contract: the caller decides which of two heads comes first, and may change the loser's word; a
//! head is a word of a key and the number of a run. An ended run is marked with [`ENDED`] and must
//! lose to all others. Memory: two nodes per run while the tree is being built, then one. No I/O.

use std::hint::select_unpredictable;

/// Marks an ended run: it comes after all others, whatever their keys.
pub(crate) const ENDED: u32 = 1 << 31;

/// The head of a run in the tree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node<K> {
    pub(crate) key: K,
    pub(crate) run: u32,
}

/// The runs' heads: the smallest is known, and the loser of each comparison.
#[derive(Debug)]
pub(crate) struct LoserTree<K> {
    /// The winner, then the losers of inner nodes 1 and up.
    nodes: Vec<Node<K>>,
}

impl<K> Default for LoserTree<K> {
    /// A tree without runs.
    fn default() -> Self {
        LoserTree { nodes: Vec::new() }
    }
}

impl<K> Node<K> {
    /// Number of the run.
    #[inline(always)]
    pub(crate) fn run_index(&self) -> usize {
        (self.run & !ENDED) as usize
    }

    /// Whether the run has ended.
    #[inline(always)]
    pub(crate) fn has_ended(&self) -> bool {
        self.run & ENDED != 0
    }
}

impl<K: Copy> LoserTree<K> {
    /// A tree over the given heads, one per run; `beats` returns whether the first comes before the
    /// second. `none` is the key of leaves without a run.
    pub(crate) fn new(
        heads: &[Node<K>],
        none: K,
        mut beats: impl FnMut(&mut Node<K>, &mut Node<K>) -> bool,
    ) -> Self {
        let leaves = heads.len().next_power_of_two();
        let empty = Node {
            key: none,
            run: u32::MAX,
        };
        let mut nodes = vec![empty; leaves];
        let mut winners = vec![empty; 2 * leaves];
        winners[leaves..leaves + heads.len()].copy_from_slice(heads);
        for inner in (1..leaves).rev() {
            let (mut left, mut right) = (winners[2 * inner], winners[2 * inner + 1]);
            let (winner, loser) = match beats(&mut right, &mut left) {
                true => (right, left),
                false => (left, right),
            };
            winners[inner] = winner;
            nodes[inner] = loser;
        }
        nodes[0] = winners[1];
        LoserTree { nodes }
    }

    /// The head that comes first.
    #[inline(always)]
    pub(crate) fn winner(&self) -> Node<K> {
        self.nodes[0]
    }

    /// Replaces the winner with the next head of its run and finds the new winner.
    #[inline(always)]
    pub(crate) fn replace(
        &mut self,
        head: Node<K>,
        mut beats: impl FnMut(&mut Node<K>, &mut Node<K>) -> bool,
    ) {
        let leaf = head.run_index() + self.nodes.len();
        let mut winner = head;
        let mut inner = leaf / 2;
        while inner > 0 {
            let met = &mut self.nodes[inner];
            let is_beaten = beats(met, &mut winner);
            // The winner is unpredictable, so a branch would be mispredicted every other time.
            let (won, lost) = (
                Node {
                    key: select_unpredictable(is_beaten, met.key, winner.key),
                    run: select_unpredictable(is_beaten, met.run, winner.run),
                },
                Node {
                    key: select_unpredictable(is_beaten, winner.key, met.key),
                    run: select_unpredictable(is_beaten, winner.run, met.run),
                },
            );
            winner = won;
            *met = lost;
            inner /= 2;
        }
        self.nodes[0] = winner;
    }
}
