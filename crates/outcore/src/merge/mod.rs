//! Merges the loaded parts of sorted runs: a loser tree over numbers, or over words of keys.
//!
//! Equal elements are in the order of their runs, so a merge of stable runs is stable.
//!
//! Contract: [`Merge`] moves elements from the loaded parts of the runs to an output until that is
//! full or the loaded part of a run is used up. The caller then supplies the next part of that run,
//! or reports its end. Numbers are merged as native integers (encoded by the caller through
//! [`Merge::encode`]) and decoded on output. Other items are merged by a word of their keys, with
//! ties broken by the rest ([`items`]). No I/O; memory: two words per run and a small batch.

pub(crate) mod item_rule;
mod items;

pub(crate) use items::merge_of_items;
use items::merge_of_records;

use crate::key::order::Order;
use crate::key::scalar::{ScalarClass, ScalarOrder};
use crate::partition::classify::Key;
use crate::sort::elements::{as_keys, as_keys_mut};
use crate::sort::loser_tree::{ENDED, LoserTree, Node};
use outcore_io::Result;

/// Numbers that are decoded at once.
const BATCH: usize = 512;

/// The progress of a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Merged {
    /// Bytes that were output.
    pub(crate) bytes: usize,
    /// The run whose loaded part is used up, if that is why the merge stopped.
    pub(crate) used_up: Option<usize>,
}

/// The loaded part of each run, and the offset of its head there.
#[derive(Debug)]
pub(crate) struct LoadedRuns<'a> {
    /// Encoded elements of each run; empty for ended runs.
    pub(crate) loaded: &'a [&'a [u8]],
    /// Offset of each run's head.
    pub(crate) heads: &'a mut [usize],
}

impl LoadedRuns<'_> {
    fn has_head(&self, run: usize) -> bool {
        self.heads[run] < self.loaded[run].len()
    }
}

/// Merges one kind of elements.
pub(crate) trait Merge: Send {
    /// Converts bytes of a run to the form that is merged.
    fn encode(&self, payload: &mut [u8]) -> Result<()>;
    /// Starts with the loaded parts; a run without any has ended.
    fn start(&mut self, runs: &LoadedRuns<'_>) -> Result<()>;
    /// Takes the next loaded part of a run that was used up; an empty part ends it.
    fn advance(&mut self, runs: &LoadedRuns<'_>, run: usize) -> Result<()>;
    /// Moves elements to `out`. `out` has room for a whole number of elements (any size for lines),
    /// and no more than the runs have left.
    fn merge(&mut self, runs: &mut LoadedRuns<'_>, out: &mut [u8]) -> Result<Merged>;
}

/// The merge for elements of an order; `scalar` if they are scalars.
pub(crate) fn merge_of(order: &Order, scalar: Option<ScalarOrder>) -> Box<dyn Merge> {
    match scalar.map(|scalar| (scalar, scalar.class())) {
        Some((scalar, ScalarClass::U32)) => Box::new(Numbers::<u32>::new(scalar)),
        Some((scalar, ScalarClass::U64)) => Box::new(Numbers::<u64>::new(scalar)),
        Some((scalar, ScalarClass::U128)) => Box::new(Numbers::<u128>::new(scalar)),
        None => merge_of_records(order),
    }
}

/// Scalars as native integers.
struct Numbers<K> {
    scalar: ScalarOrder,
    tree: LoserTree<K>,
}

impl<K> Numbers<K> {
    fn new(scalar: ScalarOrder) -> Self {
        let tree = LoserTree::default();
        Numbers { scalar, tree }
    }
}

/// Among equal numbers, a number of a run that has not ended comes first.
#[inline(always)]
fn is_before<K: Ord>(a: &Node<K>, b: &Node<K>) -> bool {
    (a.key < b.key) | ((a.key == b.key) & (a.run < b.run))
}

macro_rules! merge_numbers {
    ($unsigned:ty, $encode:ident, $decode:ident) => {
        impl Merge for Numbers<$unsigned> {
            fn encode(&self, payload: &mut [u8]) -> Result<()> {
                if !self.scalar.is_identity() {
                    self.scalar.$encode(as_keys_mut(payload)?);
                }
                Ok(())
            }

            fn start(&mut self, runs: &LoadedRuns<'_>) -> Result<()> {
                let mut heads = Vec::with_capacity(runs.heads.len());
                for run in 0..runs.heads.len() {
                    heads.push(number_head::<$unsigned>(runs, run)?);
                }
                self.tree = LoserTree::new(&heads, <$unsigned>::MAX, |a, b| is_before(a, b));
                Ok(())
            }

            fn advance(&mut self, runs: &LoadedRuns<'_>, run: usize) -> Result<()> {
                let head = number_head::<$unsigned>(runs, run)?;
                self.tree.replace(head, |a, b| is_before(a, b));
                Ok(())
            }

            fn merge(&mut self, runs: &mut LoadedRuns<'_>, out: &mut [u8]) -> Result<Merged> {
                const BYTES: usize = size_of::<$unsigned>();
                let mut rest = Vec::with_capacity(runs.loaded.len());
                for (loaded, &head) in runs.loaded.iter().zip(runs.heads.iter()) {
                    let keys = numbers_of::<$unsigned>(loaded)?;
                    rest.push(keys[(head / BYTES + 1).min(keys.len())..].iter());
                }
                let mut batch = [0; BATCH];
                let (mut bytes, mut used_up) = (0, None);
                for out in out.chunks_mut(BATCH * BYTES) {
                    let wanted = &mut batch[..out.len() / BYTES];
                    let (count, ended) = merge_batch(&mut self.tree, &mut rest, wanted);
                    let batch = &mut batch[..count];
                    if !self.scalar.is_identity() {
                        self.scalar.$decode(batch);
                    }
                    out[..count * BYTES].copy_from_slice(bytemuck::cast_slice(batch));
                    bytes += count * BYTES;
                    used_up = ended;
                    if used_up.is_some() {
                        break;
                    }
                }
                for (run, rest) in rest.iter().enumerate() {
                    let after = runs.loaded[run].len() - rest.len() * BYTES;
                    // The head is the last element before those that have not been examined.
                    runs.heads[run] = match used_up == Some(run) {
                        true => after,
                        false => after.saturating_sub(BYTES),
                    };
                }
                Ok(Merged { bytes, used_up })
            }
        }
    };
}
merge_numbers!(u32, encode_u32, decode_u32);
merge_numbers!(u64, encode_u64, decode_u64);
merge_numbers!(u128, encode_u128, decode_u128);

/// Loaded bytes as numbers; an empty slice need not be aligned.
fn numbers_of<K: Key>(loaded: &[u8]) -> Result<&[K]> {
    match loaded {
        [] => Ok(&[]),
        loaded => as_keys(loaded),
    }
}

fn number_head<K: Key>(runs: &LoadedRuns<'_>, run: usize) -> Result<Node<K>> {
    let at = runs.heads[run] / size_of::<K>();
    let ended = Node {
        key: K::MAX,
        run: run as u32 | ENDED,
    };
    let head = numbers_of::<K>(runs.loaded[run])?.get(at);
    Ok(head.map_or(ended, |&key| Node {
        key,
        run: run as u32,
    }))
}

/// The hot loop: fills `out`, or stops after the last loaded key of a run. Equal numbers are
/// identical, so only the key is compared; an ended run never beats a key.
#[inline(always)]
fn merge_batch<K: Key>(
    tree: &mut LoserTree<K>,
    rest: &mut [std::slice::Iter<'_, K>],
    out: &mut [K],
) -> (usize, Option<usize>) {
    for (count, slot) in out.iter_mut().enumerate() {
        let winner = tree.winner();
        *slot = winner.key;
        // An ended run wins only if all have ended; the caller requests no more elements than there
        // are.
        let run = winner.run_index();
        match rest.get_mut(run).and_then(Iterator::next) {
            Some(&key) => {
                let run = winner.run;
                tree.replace(Node { key, run }, |met, moving| met.key < moving.key);
            }
            None => return (count + 1, Some(run)),
        }
    }
    (out.len(), None)
}
