//! Merges items that are compared by a word of their keys, and by the full rule if the words are
//! equal.
//!
//! Contract: as [`super`]. [`Records`] have one length and an order that is compiled to words.
//! [`Framed`] items, lines and rows, have keys that are made; each run keeps the key of its head.
//! One loop merges both. For items of any length, the output may end inside one, and the next call
//! continues with it. Completely equal items are in the order of their runs.
//!
//! Memory: one node per run; for lines and rows one key per run, two if they are not their own
//! keys.

use std::cmp::Ordering;

use super::item_rule::ItemRule;
use super::{LoadedRuns, Merge, Merged};
use crate::key::order::Order;
use crate::sort::lines::Coding;
use crate::sort::loser_tree::{ENDED, LoserTree, Node};
use outcore_io::Result;

/// The items of a merge: where an item ends, and how two compare.
trait Items: Send {
    /// Prepares for `runs` runs.
    fn begin(&mut self, _runs: usize) {}
    /// Examines the item at `at` in the loaded part of `run`, which is now its head; returns a word
    /// that orders it as far as words differ. The previous head was the last item that was output.
    fn look(&mut self, loaded: &[u8], at: usize, run: usize) -> u64;
    /// Keeps the necessary parts of the head of `run`, whose loaded bytes will be dropped.
    fn leave(&mut self, _loaded: &[u8], _run: usize) {}
    /// The end, including the framing, of the head of `run`, which begins at `at` in the loaded
    /// part.
    fn end(&self, loaded: &[u8], at: usize, run: usize) -> usize;
    /// Whether the head `a` comes before `b`, by their words, then by the rest. May change the word
    /// of the head that comes later.
    fn beats(&self, runs: &LoadedRuns<'_>, a: &mut Node<u64>, b: &mut Node<u64>) -> bool;
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

    #[inline(always)]
    fn beats(&self, runs: &LoadedRuns<'_>, a: &mut Node<u64>, b: &mut Node<u64>) -> bool {
        match a.key != b.key {
            true => a.key < b.key,
            false => self.compare_rest(runs, a.run, b.run).is_lt(),
        }
    }
}

impl Records {
    /// Order of heads with equal first words; ended runs come last.
    #[inline(never)]
    fn compare_rest(&self, runs: &LoadedRuns<'_>, a: u32, b: u32) -> Ordering {
        if (a | b) & ENDED != 0 {
            return (a & ENDED).cmp(&(b & ENDED)).then(a.cmp(&b));
        }
        let record = |run: u32| {
            let head = runs.heads[run as usize];
            &runs.loaded[run as usize][head..head + self.order.record_bytes()]
        };
        let rest = self.order.compare_from_word(record(a), record(b), 1);
        rest.then(a.cmp(&b))
    }
}

/// The item at the head of a run.
#[derive(Debug, Clone, Default)]
struct Head {
    /// Start and end of the item's content in the loaded part.
    at: usize,
    end: usize,
    /// The key of the item, if that is not the content.
    key: Vec<u8>,
    /// The key of the previous head; empty while a head is its own key and loaded.
    base: Vec<u8>,
    before: Before,
}

/// Where the key of the previous head is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Before {
    /// There was no previous head.
    #[default]
    Nowhere,
    /// At the place of the head that is being left.
    Loaded,
    /// Stored with the head.
    Kept,
}

/// Lines or rows in the order of a rule, with offset-value codes.
struct Framed {
    rule: ItemRule,
    coding: Coding,
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
        let last = head.at..head.end;
        let before = std::mem::replace(&mut head.before, Before::Loaded);
        head.at = (at + self.rule.framing.head_bytes()).min(loaded.len());
        head.end = head.at + content.len();
        let code = if self.rule.is_whole {
            let base = match before {
                Before::Nowhere => None,
                Before::Loaded => Some(&loaded[last]),
                Before::Kept => Some(&head.base[..]),
            };
            self.coding.code(content, base)
        } else {
            std::mem::swap(&mut head.key, &mut head.base);
            self.rule.key(content, &mut head.key);
            let base = (before != Before::Nowhere).then_some(&head.base[..]);
            self.coding.code(&head.key, base)
        };
        // A run that is not sorted is damaged: the item counts as equal to the one before it.
        code.unwrap_or_default()
    }

    fn leave(&mut self, loaded: &[u8], run: usize) {
        let head = &mut self.heads[run];
        if self.rule.is_whole {
            head.base.clear();
            head.base.extend_from_slice(&loaded[head.at..head.end]);
        }
        head.before = Before::Kept;
    }

    #[inline(always)]
    fn end(&self, loaded: &[u8], _at: usize, run: usize) -> usize {
        (self.heads[run].end + self.rule.framing.tail_bytes()).min(loaded.len())
    }

    #[inline(always)]
    fn beats(&self, runs: &LoadedRuns<'_>, a: &mut Node<u64>, b: &mut Node<u64>) -> bool {
        let content = |run: usize| {
            let head = &self.heads[run];
            &runs.loaded[run][head.at..head.end]
        };
        let key = |run: usize| match self.rule.is_whole {
            true => content(run),
            false => &self.heads[run].key[..],
        };
        let rank = &self.rule.rank;
        self.coding.beats(
            a,
            b,
            |a, b| (key(a), key(b)),
            |a, b| rank.by_tie(content(a), content(b)),
        )
    }
}

/// The merge of items.
struct ItemMerge<I> {
    items: I,
    tree: LoserTree<u64>,
    /// Bytes of the winner that have been output.
    given_bytes: usize,
}

/// The merge of records in an order.
pub(super) fn merge_of_records(order: &Order) -> Box<dyn Merge> {
    let order = order.clone();
    Box::new(ItemMerge::new(Records { order }))
}

/// The merge of lines or rows.
pub(crate) fn merge_of_items(rule: ItemRule) -> Box<dyn Merge> {
    let coding = Coding {
        is_descending: rule.is_descending(),
        is_kept: true,
    };
    let heads = Vec::new();
    Box::new(ItemMerge::new(Framed {
        rule,
        coding,
        heads,
    }))
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
        self.tree = LoserTree::new(&heads, u64::MAX, |a, b| items.beats(runs, a, b));
        Ok(())
    }

    fn advance(&mut self, runs: &LoadedRuns<'_>, run: usize) -> Result<()> {
        let head = self.head(runs, run);
        let items = &self.items;
        self.tree.replace(head, |a, b| items.beats(runs, a, b));
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
                self.items.leave(loaded, run);
                let used_up = Some(run);
                return Ok(Merged { bytes, used_up });
            }
            let head = Node {
                key: self.items.look(loaded, next, run),
                run: run as u32,
            };
            let (items, runs) = (&self.items, &*runs);
            self.tree.replace(head, |a, b| items.beats(runs, a, b));
        }
        let used_up = None;
        Ok(Merged { bytes, used_up })
    }
}
