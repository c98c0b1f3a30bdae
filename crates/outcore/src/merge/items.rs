//! Merging items that are compared by the first word of their keys, and by all there is where that is equal.
//!
//! Contract: as [`super`]. [`Records`] have one length and an order that is compiled to words; [`Framed`] items, lines and
//! rows, have keys that are made, of which each run keeps that of its head. One loop merges both:
//! where items may be of any length, the output may end inside one, and the next call goes on with it. Items
//! that are equal in all come in the order of their runs.
//!
//! Memory: a node a run; of lines and rows that are not their own keys, a key a run.

use std::cmp::Ordering;

use super::{LoadedRuns, Merge, Merged};
use crate::key::order::Order;
use crate::runs::ItemRule;
use crate::sort::lines::word_of;
use crate::sort::loser_tree::{ENDED, LoserTree, Node};
use outcore_io::Result;

/// What is merged: where an item ends, and how two compare.
trait Items: Send {
    /// Prepares for `runs` runs.
    fn begin(&mut self, _runs: usize) {}
    /// Looks at the item at `at` of what is loaded of `run`, which is now its head; gives the first word of its key.
    fn look(&mut self, loaded: &[u8], at: usize, run: usize) -> u64;
    /// Where the head of `run`, which begins at `at` of what is loaded, ends with all that belongs to it.
    fn end(&self, loaded: &[u8], at: usize, run: usize) -> usize;
    /// Order of the heads of two runs whose first words are equal, but for their runs.
    fn compare_rest(&self, runs: &LoadedRuns<'_>, a: usize, b: usize) -> Ordering;
}

/// Records of one length.
struct Records {
    order: Order,
}

impl Items for Records {
    #[inline(always)]
    fn look(&mut self, loaded: &[u8], at: usize, _run: usize) -> u64 {
        self.order.word(&loaded[at..], 0)
    }

    #[inline(always)]
    fn end(&self, _piece: &[u8], at: usize, _run: usize) -> usize {
        at + self.order.record_bytes()
    }

    fn compare_rest(&self, runs: &LoadedRuns<'_>, a: usize, b: usize) -> Ordering {
        let record = |run: usize| {
            let head = runs.heads[run];
            &runs.loaded[run][head..head + self.order.record_bytes()]
        };
        self.order.compare_from_word(record(a), record(b), 1)
    }
}

/// The item at the head of a run.
#[derive(Debug, Clone, Default)]
struct Head {
    /// Where its content begins in what is loaded, and where that ends.
    at: usize,
    end: usize,
    /// Its key, if that is not the content.
    key: Vec<u8>,
}

/// Lines or rows in the order of a rule.
struct Framed {
    rule: ItemRule,
    heads: Vec<Head>,
}

impl Items for Framed {
    fn begin(&mut self, runs: usize) {
        self.heads = vec![Head::default(); runs];
    }

    #[inline(always)]
    fn look(&mut self, loaded: &[u8], at: usize, run: usize) -> u64 {
        let (content, _) = self.rule.framing.first(&loaded[at..]);
        let head = &mut self.heads[run];
        head.at = (at + self.rule.framing.head_bytes()).min(loaded.len());
        head.end = head.at + content.len();
        self.rule.key(content, &mut head.key);
        let key = if self.rule.is_whole {
            content
        } else {
            &head.key
        };
        match self.rule.is_descending() {
            true => !word_of(key, 0),
            false => word_of(key, 0),
        }
    }

    #[inline(always)]
    fn end(&self, loaded: &[u8], _at: usize, run: usize) -> usize {
        (self.heads[run].end + self.rule.framing.tail_bytes()).min(loaded.len())
    }

    fn compare_rest(&self, runs: &LoadedRuns<'_>, a: usize, b: usize) -> Ordering {
        let both = |run: usize| {
            let head = &self.heads[run];
            (&runs.loaded[run][head.at..head.end], &head.key[..])
        };
        let (a, b) = (both(a), both(b));
        let rank = &self.rule.rank;
        rank.by_key(a, b).then_with(|| rank.by_tie(a.0, b.0))
    }
}

/// The merge of items.
struct ItemMerge<I> {
    items: I,
    tree: LoserTree<u64>,
    /// Bytes of the winner that have been put out.
    given_bytes: usize,
}

/// The merge of records in an order.
pub(super) fn merge_of_records(order: &Order) -> Box<dyn Merge> {
    let order = order.clone();
    Box::new(ItemMerge::new(Records { order }))
}

/// The merge of lines or rows.
pub(crate) fn merge_of_items(rule: ItemRule) -> Box<dyn Merge> {
    let heads = Vec::new();
    Box::new(ItemMerge::new(Framed { rule, heads }))
}

impl<I: Items> ItemMerge<I> {
    fn new(items: I) -> Self {
        ItemMerge {
            items,
            tree: LoserTree::default(),
            given_bytes: 0,
        }
    }

    /// The node of the head of a run.
    fn head(&mut self, runs: &LoadedRuns<'_>, run: usize) -> Node<u64> {
        match runs.has_head(run) {
            true => Node {
                key: self.items.look(runs.loaded[run], runs.heads[run], run),
                run: run as u32,
            },
            false => Node {
                key: u64::MAX,
                run: run as u32 | ENDED,
            },
        }
    }
}

/// Whether the head of `a` comes before that of `b`.
#[inline(always)]
fn is_before<I: Items>(items: &I, runs: &LoadedRuns<'_>, a: &Node<u64>, b: &Node<u64>) -> bool {
    match a.key != b.key {
        true => a.key < b.key,
        false => compare_ties(items, runs, a.run, b.run).is_lt(),
    }
}

/// Order of heads whose first words are equal; runs that have ended come last.
#[inline(never)]
fn compare_ties<I: Items>(items: &I, runs: &LoadedRuns<'_>, a: u32, b: u32) -> Ordering {
    if (a | b) & ENDED != 0 {
        return (a & ENDED).cmp(&(b & ENDED)).then(a.cmp(&b));
    }
    let rest = items.compare_rest(runs, a as usize, b as usize);
    rest.then(a.cmp(&b))
}

impl<I: Items> Merge for ItemMerge<I> {
    fn encode(&self, _payload: &mut [u8]) -> Result<()> {
        Ok(())
    }

    fn start(&mut self, runs: &LoadedRuns<'_>) -> Result<()> {
        let run_count = runs.heads.len();
        self.given_bytes = 0;
        self.items.begin(run_count);
        let heads: Vec<Node<u64>> = (0..run_count).map(|run| self.head(runs, run)).collect();
        let items = &self.items;
        self.tree = LoserTree::new(&heads, u64::MAX, |a, b| is_before(items, runs, a, b));
        Ok(())
    }

    fn advance(&mut self, runs: &LoadedRuns<'_>, run: usize) -> Result<()> {
        let head = self.head(runs, run);
        let items = &self.items;
        self.tree.replace(head, |a, b| is_before(items, runs, a, b));
        Ok(())
    }

    fn merge(&mut self, runs: &mut LoadedRuns<'_>, out: &mut [u8]) -> Result<Merged> {
        let mut bytes = 0;
        while bytes < out.len() {
            let run = self.tree.winner().run_index();
            let (loaded, head) = (runs.loaded[run], runs.heads[run]);
            let next = self.items.end(loaded, head, run);
            let rest = &loaded[head + self.given_bytes..next];
            let len = rest.len().min(out.len() - bytes);
            out[bytes..bytes + len].copy_from_slice(&rest[..len]);
            bytes += len;
            if len < rest.len() {
                self.given_bytes += len;
                break;
            }
            self.given_bytes = 0;
            runs.heads[run] = next;
            if next >= loaded.len() {
                let used_up = Some(run);
                return Ok(Merged { bytes, used_up });
            }
            let head = Node {
                key: self.items.look(loaded, next, run),
                run: run as u32,
            };
            let (items, runs) = (&self.items, &*runs);
            self.tree.replace(head, |a, b| is_before(items, runs, a, b));
        }
        let used_up = None;
        Ok(Merged { bytes, used_up })
    }
}
