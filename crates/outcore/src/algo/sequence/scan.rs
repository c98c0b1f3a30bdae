//! Prefix sums over any monoid, inclusive and exclusive.
//!
//! Contract (PALID, SPAA 2025, section 4: scan): item i of the result is the fold of the items up
//! to i (inclusive), or before it (exclusive), from left to right, one by one: for floats the very
//! bits that a loop over the data gives. One pass: pieces are read and mapped side by side, and
//! each is scanned when its turn to be appended has come, from the value that the piece before it
//! left. Where the output is several shards, stretches are folded first, in a pass over all drives
//! at once, and then scanned side by side, each from the fold of those before it.
//!
//! N.B. the other way, block sums first and then a second read of everything, moves 3 times the
//! data instead of 2. It is taken where it lets all drives work, which one stretch in order cannot.
//!
//! Bounds: I/O is one read and one write of the data; for shards two reads and one write.

use std::sync::{Mutex, PoisonError};

use bytemuck::Pod;

use super::batch::{Batch, Sequence};
use super::pass::{PassSummary, shield};
use super::producer::Typed;
use super::reduce::fold_stretches;
use super::write::{append_in_lanes, lanes_of};
use crate::algo::sort::SortOutput;
use crate::error::Result;
use crate::job::Job;

/// Whether an item counts for its own prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inclusion {
    /// It does: the first result is the first item.
    Inclusive,
    /// It does not: the first result is the identity.
    Exclusive,
}

/// Writes the prefixes of `sequence` under `op`, with its identity `identity`, to `output`.
///
/// # Errors
/// As [`write`](super::write()).
pub fn scan<S>(
    job: &Job,
    sequence: &S,
    identity: S::Item,
    op: impl Fn(S::Item, S::Item) -> S::Item + Sync,
    inclusion: Inclusion,
    (output, replace): (&SortOutput, bool),
) -> Result<PassSummary>
where
    S: Sequence,
    S::Item: Pod + Sync,
{
    let lanes = lanes_of(output);
    let mut passes = 1;
    let mut starts = vec![identity];
    if lanes > 1 {
        passes = 2;
        let mut leaves = Vec::new();
        sequence.leaves(&mut leaves);
        let grain = |batch: Batch<'_>| Ok(sequence.iter(batch).fold(identity, &op));
        let folds = fold_stretches(job, &leaves, lanes, grain, &op)?;
        starts = shield(|| {
            let mut before = identity;
            let starts = folds.into_iter().map(|fold| {
                let start = before;
                if let Some(fold) = fold {
                    before = op(before, fold);
                }
                start
            });
            Ok(starts.collect())
        })?;
    }
    let states: Vec<Mutex<S::Item>> = starts.into_iter().map(Mutex::new).collect();
    let at_turn = |results: &mut [u8], lane: usize| {
        let mut state = states[lane].lock().unwrap_or_else(PoisonError::into_inner);
        let items: &mut [S::Item] = bytemuck::cast_slice_mut(results);
        let mut so_far = *state;
        match inclusion {
            Inclusion::Inclusive => {
                for item in items {
                    so_far = op(so_far, *item);
                    *item = so_far;
                }
            }
            Inclusion::Exclusive => {
                for item in items {
                    so_far = op(so_far, std::mem::replace(item, so_far));
                }
            }
        }
        *state = so_far;
        Ok(())
    };
    let done = append_in_lanes(job, &Typed(sequence), output, replace, Some(&at_turn))?;
    Ok(PassSummary { passes, ..done })
}
