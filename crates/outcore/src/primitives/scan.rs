//! Prefix sums over any monoid, inclusive and exclusive.
//!
//! Contract (PALID, SPAA 2025, section 4: scan): item i of the result is the fold of the items up
//! to i (inclusive), or before i (exclusive). The fold goes from left to right, one item at a time.
//! For floats the result has exactly the bits of a loop over the data, if there is only one pass.
//! Pieces are read and mapped in parallel. A piece is scanned when it is next to be appended, from
//! the value that the previous piece left. This takes one read and one write, into one file or
//! several.
//!
//! If the data are on three or more drives and the result is several shards, all stretches except
//! for the last are read twice. They are first folded, on all drives at once, and then scanned in
//! parallel, each from the fold of those before it. Two reads are the minimum here. A drive has
//! nothing to write before all earlier data have been read, and by then its own data should have
//! been read as well. On D drives this takes 2/D of the time of one read in order, which uses one
//! drive at a time.
//!
//! N.B. block sums followed by a second read of everything move 3 times the data instead of 2,
//! which gains nothing on one or two drives.
//!
//! Bounds: I/O is one read and one write of the data, or two reads and one write.

use std::sync::{Arc, Mutex, PoisonError};

use bytemuck::Pod;

use super::batch::{Batch, Sequence, Source};
use super::pass::shield;
use super::pieces::{Lanes, OpenSources};
use super::producer::{Producer, Typed};
use super::reduce::fold_stretches;
use super::summary::{PassPlan, Summary};
use super::write::{Fate, append_in_lanes, outs_of, plan_of};
use crate::ends::Output;
use crate::job::Job;
use outcore_io::Result;
use outcore_io::port::Volume;

/// Whether an item is part of its own prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inclusion {
    /// An item is part of its own prefix: the first result is the first item.
    Inclusive,
    /// An item is not part of its own prefix: the first result is the identity.
    Exclusive,
}

/// Writes the prefixes of `sequence` under `op`, with its identity `identity`, to `output`.
///
/// # Errors
/// The errors of [`write`](super::write()).
pub fn scan<S>(
    job: &Job,
    sequence: &S,
    identity: S::Item,
    op: impl Fn(S::Item, S::Item) -> S::Item + Sync,
    inclusion: Inclusion,
    output: &Output,
    replace: bool,
) -> Result<Summary>
where
    S: Sequence,
    S::Item: Pod + Sync,
{
    let outs = outs_of(output);
    let mut sources = Vec::new();
    sequence.sources(&mut sources);
    let is_folded = outs > 1 && is_faster_read_twice(job, &sources)?;
    let mut starts = vec![identity];
    let mut before = Summary::default();
    if is_folded {
        let grain = |batch: Batch<'_>| Ok(sequence.iter(batch).fold(identity, &op));
        let (folds, done) = fold_stretches(job, &sources, outs, grain, &op)?;
        before = done;
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
    let lanes = match is_folded {
        true => Lanes::Stretches(outs),
        false => Lanes::InOrder(outs),
    };
    let states: Vec<Mutex<S::Item>> = starts.into_iter().map(Mutex::new).collect();
    let in_sequence = |results: &mut [u8], out: usize| {
        // Outputs that are written one after another share one running value.
        let state = &states[out.min(states.len() - 1)];
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
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
    let typed = Typed(sequence);
    let done = append_in_lanes(job, &typed, output, replace, lanes, Some(&in_sequence))?;
    Ok(before.and(done))
}

/// The plan of [`scan`] into `outs` files. Opens the sources and reads nothing.
///
/// # Errors
/// The errors of [`scan`].
pub(crate) fn plan_scan(job: &Job, producer: &dyn Producer, outs: usize) -> Result<PassPlan> {
    let is_folded = outs > 1 && is_faster_read_twice(job, &producer.sources())?;
    let fates = match is_folded {
        // All stretches except for the last are folded first.
        true => &[Fate::Folded("reduce"), Fate::Written][..],
        false => &[Fate::Written],
    };
    plan_of(job, producer, "scan", fates)
}

/// Whether the data are on enough drives that reading all at once, twice, takes less time than one
/// after another. Results that fit in memory need not wait.
fn is_faster_read_twice(job: &Job, sources: &[Source]) -> Result<bool> {
    let volume = Volume::new(Arc::clone(&job.device), &[])?;
    let sources = OpenSources::open(&volume, sources, Lanes::Drives)?;
    let data_bytes = sources.data_bytes();
    let is_held = data_bytes <= job.budget.free_bytes() / 2;
    Ok(!is_held && 2 * sources.fullest_drive_bytes() < data_bytes)
}
