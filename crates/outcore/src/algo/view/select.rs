//! From a rank or a key to its place in every run.
//!
//! Model: multi-sequence selection (Varman, Scheufler, Iyer, Ricard, "Merging multiple lists on
//! hierarchical-memory multiprocessors", JPDC 1991): the records before rank i are a prefix of each
//! run. A first pivot comes from the index alone: the sample whose rank, estimated with half a block
//! for each run, is next to i. One block of each run tells its rank exactly. It is about
//! sqrt(k / 12) blocks away from i, so that further pivots, chosen by interpolation, mostly lie in
//! the blocks that are here already.
//!
//! Contract: records are ordered by their order strings, equal ones by run and place; so every rank
//! has one cut, whatever is repeated. Blocks are checked before they are looked at. At most two
//! blocks of each run are in memory at once.

use std::sync::Arc;

use super::fetch::{Fetcher, Piece};
use super::runs::{RunSet, Shape};
use crate::error::{Error, Kind, Result};

/// A question that is answered with yes by the first records of every run and with no by the rest.
trait Pivot {
    /// Whether a record is before the cut.
    fn is_before(&self, run: usize, position: u64, record: &[u8]) -> bool;
    /// The same, told from the first 16 bytes of its order string, if they are enough.
    fn is_prefix_before(&self, run: usize, position: u64, prefix: u128) -> Option<bool>;
    /// The cut in a run where it is known.
    fn known(&self, _run: usize) -> Option<u64> {
        None
    }
}

/// Records whose prefix is less.
struct PrefixPivot<'a> {
    shape: &'a Shape,
    prefix: u128,
}

impl Pivot for PrefixPivot<'_> {
    fn is_before(&self, _run: usize, _position: u64, record: &[u8]) -> bool {
        self.shape.prefix(record) < self.prefix
    }

    fn is_prefix_before(&self, _run: usize, _position: u64, prefix: u128) -> Option<bool> {
        Some(prefix < self.prefix)
    }
}

/// A record and those before it.
struct RecordPivot<'a> {
    shape: &'a Shape,
    run: usize,
    position: u64,
    record: Vec<u8>,
    prefix: u128,
}

impl Pivot for RecordPivot<'_> {
    fn is_before(&self, run: usize, position: u64, record: &[u8]) -> bool {
        if run == self.run {
            return position <= self.position;
        }
        let order = self.shape.order.compare(record, &self.record);
        order.then(run.cmp(&self.run)).is_lt()
    }

    fn is_prefix_before(&self, run: usize, position: u64, prefix: u128) -> Option<bool> {
        if run == self.run {
            return Some(position <= self.position);
        }
        let order = prefix.cmp(&self.prefix);
        match (order.is_eq(), self.shape.is_whole_in_prefix()) {
            (true, false) => None,
            _ => Some(order.then(run.cmp(&self.run)).is_lt()),
        }
    }

    fn known(&self, run: usize) -> Option<u64> {
        (run == self.run).then_some(self.position + 1)
    }
}

/// Records whose keys come before that of `record`.
struct KeyPivot<'a> {
    shape: &'a Shape,
    record: &'a [u8],
    prefix: u128,
    mask: u128,
}

impl<'a> KeyPivot<'a> {
    fn new(shape: &'a Shape, record: &'a [u8]) -> Self {
        let order = &shape.order;
        let second = match order.words() {
            0 | 1 => 0,
            _ => order.key_mask(1),
        };
        let mask = u128::from(order.key_mask(0)) << 64 | u128::from(second);
        KeyPivot {
            shape,
            record,
            prefix: shape.prefix(record) & mask,
            mask,
        }
    }
}

impl Pivot for KeyPivot<'_> {
    fn is_before(&self, _run: usize, _position: u64, record: &[u8]) -> bool {
        self.shape.order.compare_keys(record, self.record).is_lt()
    }

    fn is_prefix_before(&self, _run: usize, _position: u64, prefix: u128) -> Option<bool> {
        let order = (prefix & self.mask).cmp(&self.prefix);
        match order.is_eq() && self.shape.order.key_bytes() > 16 {
            true => None,
            false => Some(order.is_lt()),
        }
    }
}

/// Looks for cuts; keeps the blocks that it has read.
pub(super) struct Selector<'a> {
    set: Arc<RunSet>,
    fetcher: &'a mut Fetcher,
    cached: Vec<Vec<Piece>>,
}

impl<'a> Selector<'a> {
    pub(super) fn new(set: &Arc<RunSet>, fetcher: &'a mut Fetcher) -> Result<Self> {
        fetcher.drain()?;
        Ok(Selector {
            set: Arc::clone(set),
            cached: set.runs.iter().map(|_| Vec::new()).collect(),
            fetcher,
        })
    }

    /// The blocks that are here.
    pub(super) fn into_pieces(self) -> Vec<Piece> {
        self.cached.into_iter().flatten().collect()
    }

    /// How many records of each run come before the first whose key is not before that of `record`.
    pub(super) fn cut_at_key(&mut self, record: &[u8]) -> Result<Vec<u64>> {
        let set = Arc::clone(&self.set);
        let (lo, hi) = self.whole();
        self.cuts(&KeyPivot::new(&set.shape, record), &lo, &hi)
    }

    /// How many records of each run come before the record of rank `rank`.
    pub(super) fn cut_at_rank(&mut self, rank: u64) -> Result<Vec<u64>> {
        let set = Arc::clone(&self.set);
        let (mut lo, mut hi) = self.whole();
        if rank == 0 || rank >= hi.iter().sum() {
            return Ok(if rank == 0 { lo } else { hi });
        }
        if let Some(prefix) = self.estimate(rank) {
            let shape = &set.shape;
            let cuts = self.cuts(&PrefixPivot { shape, prefix }, &lo, &hi)?;
            match cuts.iter().sum::<u64>() <= rank {
                true => lo = cuts,
                false => hi = cuts,
            }
        }
        for round in 1u64.. {
            let Some((below, above)) = tighten(&mut lo, &mut hi, rank) else {
                break;
            };
            let widths = lo.iter().zip(&hi).map(|(lo, hi)| hi - lo);
            let Some((run, width)) = widths.enumerate().max_by_key(|&(_, width)| width) else {
                break;
            };
            let share = u128::from(width) * u128::from(below) / u128::from(below + above);
            // Now and then the middle, so that no data make the search slow.
            let step = if round % 4 == 0 {
                width / 2
            } else {
                share as u64
            };
            let position = lo[run] + step.min(width - 1);
            let record = self.record(run, position)?;
            let pivot = RecordPivot {
                shape: &set.shape,
                run,
                position,
                prefix: set.shape.prefix(&record),
                record,
            };
            let mut cuts = self.cuts(&pivot, &lo, &hi)?;
            if cuts.iter().sum::<u64>() <= rank {
                lo = cuts;
            } else {
                cuts[run] = position;
                hi = cuts;
            }
        }
        match lo.iter().sum::<u64>() == rank {
            true => Ok(lo),
            false => Ok(hi),
        }
    }

    fn whole(&self) -> (Vec<u64>, Vec<u64>) {
        let runs = &self.set.runs;
        let hi: Vec<u64> = runs.iter().map(|run| run.records).collect();
        (vec![0; runs.len()], hi)
    }

    /// The prefix of a block's first record whose rank is about `rank`.
    fn estimate(&self, rank: u64) -> Option<u128> {
        let runs = &self.set.runs;
        let block_records = self.set.shape.block_records as f64;
        let mut lo = vec![0; runs.len()];
        let mut hi: Vec<usize> = runs.iter().map(|run| run.index.prefixes.len()).collect();
        let mut best: Option<(f64, u128)> = None;
        loop {
            let widths = lo.iter().zip(&hi).map(|(lo, hi)| hi - lo);
            let (widest, width) = widths.enumerate().max_by_key(|&(_, width)| width)?;
            if width == 0 {
                return best.map(|(_, prefix)| prefix);
            }
            let middle = lo[widest] + width / 2;
            let prefix = runs[widest].index.prefixes[middle];
            let mut cuts = Vec::with_capacity(runs.len());
            let mut estimated = 0.0;
            for (run, facts) in runs.iter().enumerate() {
                let samples = &facts.index.prefixes[lo[run]..hi[run]];
                let cut = lo[run] + samples.partition_point(|sample| *sample < prefix);
                let records = (cut as f64 - 0.5).max(0.0) * block_records;
                estimated += records.min(facts.records as f64);
                cuts.push(cut);
            }
            let distance = (estimated - rank as f64).abs();
            if best.is_none_or(|(least, _)| distance < least) {
                best = Some((distance, prefix));
            }
            if estimated <= rank as f64 {
                lo = cuts;
                lo[widest] = middle + 1;
            } else {
                hi = cuts;
            }
        }
    }

    /// The cut of a pivot in every run, between `lo` and `hi`.
    fn cuts(&mut self, pivot: &dyn Pivot, lo: &[u64], hi: &[u64]) -> Result<Vec<u64>> {
        let mut bounds: Vec<(u64, u64)> = lo.iter().copied().zip(hi.iter().copied()).collect();
        let mut open: Vec<usize> = (0..bounds.len()).collect();
        loop {
            let mut wanted = Vec::new();
            open.retain(|&run| {
                let missing = self.narrow(pivot, run, &mut bounds[run]);
                wanted.extend(missing.map(|block| (run, block)));
                missing.is_some()
            });
            if open.is_empty() {
                return Ok(bounds.into_iter().map(|(lo, _)| lo).collect());
            }
            self.load(&wanted)?;
        }
    }

    /// Closes the bounds of the cut in one run; gives the block that is missing for that, if one is.
    fn narrow(&self, pivot: &dyn Pivot, run: usize, bounds: &mut (u64, u64)) -> Option<u64> {
        if let Some(known) = pivot.known(run) {
            let known = known.clamp(bounds.0, bounds.1);
            *bounds = (known, known);
        }
        let block_records = self.set.shape.block_records;
        let prefixes = &self.set.runs[run].index.prefixes;
        while bounds.0 < bounds.1 {
            let (first, last) = (bounds.0 / block_records, (bounds.1 - 1) / block_records);
            if first == last {
                return self.narrow_in_block(pivot, run, first, bounds);
            }
            let middle = first + (last - first).div_ceil(2);
            let position = middle * block_records;
            let told = pivot.is_prefix_before(run, position, prefixes[middle as usize]);
            let is_before = match told {
                Some(is_before) => is_before,
                None => {
                    let Some(record) = self.cached_record(run, position) else {
                        return Some(middle);
                    };
                    pivot.is_before(run, position, record)
                }
            };
            match is_before {
                true => bounds.0 = position + 1,
                false => bounds.1 = position,
            }
        }
        None
    }

    /// The same inside one block.
    fn narrow_in_block(
        &self,
        pivot: &dyn Pivot,
        run: usize,
        block: u64,
        bounds: &mut (u64, u64),
    ) -> Option<u64> {
        while bounds.0 < bounds.1 {
            let position = bounds.0 + (bounds.1 - bounds.0) / 2;
            let Some(record) = self.cached_record(run, position) else {
                return Some(block);
            };
            match pivot.is_before(run, position, record) {
                true => bounds.0 = position + 1,
                false => bounds.1 = position,
            }
        }
        None
    }

    fn cached_record(&self, run: usize, position: u64) -> Option<&[u8]> {
        let shape = &self.set.shape;
        let block = position / shape.block_records;
        let mut pieces = self.cached[run].iter();
        let piece = pieces.find(|piece| piece.has_block(block))?;
        let within = position - piece.stretch.first_block * shape.block_records;
        let at = within as usize * shape.record_bytes;
        Some(&piece.payload()[at..at + shape.record_bytes])
    }

    /// A record of a run.
    fn record(&mut self, run: usize, position: u64) -> Result<Vec<u8>> {
        if self.cached_record(run, position).is_none() {
            self.load(&[(run, position / self.set.shape.block_records)])?;
        }
        let record = self.cached_record(run, position).map(<[u8]>::to_vec);
        record.ok_or_else(no_slot)
    }

    /// Reads blocks; each run keeps the last two.
    fn load(&mut self, wanted: &[(usize, u64)]) -> Result<()> {
        for &(run, block) in wanted {
            let cached = &mut self.cached[run];
            if cached.len() > 1 {
                cached.remove(0);
            }
            if !self.fetcher.fetch(self.set.stretch(run, block, 1)) {
                return Err(no_slot());
            }
        }
        let mut missing = wanted.len();
        while missing > 0 {
            self.fetcher.poll(true)?;
            let arrived: Vec<Piece> = self.fetcher.take_arrived().collect();
            for mut piece in arrived {
                self.fetcher.check(&mut piece)?;
                self.cached[piece.stretch.run].push(piece);
                missing -= 1;
            }
        }
        Ok(())
    }
}

/// Brings bounds as close as the rank alone allows; gives the distances from their sums to it, or
/// nothing if one of them is zero.
fn tighten(lo: &mut [u64], hi: &mut [u64], rank: u64) -> Option<(u64, u64)> {
    let below = rank - lo.iter().sum::<u64>();
    for (lo, hi) in lo.iter().zip(hi.iter_mut()) {
        *hi = (*hi).min(lo.saturating_add(below));
    }
    let above = hi.iter().sum::<u64>() - rank;
    for (lo, hi) in lo.iter_mut().zip(hi.iter()) {
        *lo = (*lo).max(hi.saturating_sub(above));
    }
    let below = rank - lo.iter().sum::<u64>();
    (below > 0 && above > 0).then_some((below, above))
}

fn no_slot() -> Error {
    Error::new(
        Kind::Memory,
        "look for a place in the runs",
        "no buffer is free",
    )
    .hint("a bug: please report it")
}
