//! Finds the place of a rank or a key in every run.
//!
//! Model: multi-sequence selection (Varman, Scheufler, Iyer, Ricard, "Merging multiple lists on
//! hierarchical-memory multiprocessors", JPDC 1991): the records before rank i are a prefix of each
//! run. The first pivot comes only from the index: the sample whose rank, estimated with half a
//! block for each run, is nearest to i. One block of each run determines its exact rank. It is
//! about sqrt(k / 12) blocks away from i, so further pivots, chosen by interpolation, are mostly in
//! blocks that are already in memory.
//!
//! Ranks count units or records ([`Measure`]): for lines, an offset in the sorted text, or the
//! number of a line. For a unit inside a line, the cut is before that line.
//!
//! Contract: records are ordered by their order strings, equal ones by run and place, so every rank
//! has exactly one cut, even with duplicates. Blocks are checked before they are used. At most two
//! blocks of each run are in memory at once.

use std::cmp::Ordering;
use std::sync::Arc;

use super::fetch::{Fetcher, RunBlocks};
use super::run_set::{RunSet, Stretch};
use super::shape::Shape;
use crate::merge::item_rule::Prefix;
use outcore_io::{Error, Kind, Result};

/// The unit of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measure {
    Units,
    Records,
}

/// The place of a rank in every run, in units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RankSplit {
    /// Before the record that contains the rank.
    pub(super) before: Vec<u64>,
    /// After that record, if it begins before the rank.
    pub(super) through: Vec<u64>,
}

impl RankSplit {
    fn at(place: Vec<u64>) -> Self {
        RankSplit {
            through: place.clone(),
            before: place,
        }
    }
}

/// A predicate that is true for the first records of every run and false for the rest.
trait Pivot {
    /// Whether the record that begins at `unit` of the run is before the cut.
    fn is_before(&self, run: usize, unit: u64, record: &[u8]) -> bool;
    /// Like `is_before`, but from the record's prefix, if that is enough.
    fn is_prefix_before(&self, run: usize, unit: u64, prefix: &Prefix) -> Option<bool>;
    /// The cut in a run, if it is known.
    fn known(&self, _run: usize) -> Option<u64> {
        None
    }
}

/// Records with a smaller prefix.
struct PrefixPivot<'a> {
    shape: &'a Shape,
    prefix: Prefix,
}

impl Pivot for PrefixPivot<'_> {
    fn is_before(&self, _run: usize, _unit: u64, record: &[u8]) -> bool {
        self.shape.prefix(record) < self.prefix
    }

    fn is_prefix_before(&self, _run: usize, _unit: u64, prefix: &Prefix) -> Option<bool> {
        Some(*prefix < self.prefix)
    }
}

/// All records up to a record, which is included.
struct RecordPivot<'a> {
    shape: &'a Shape,
    run: usize,
    found: Found,
    prefix: Prefix,
}

/// A record that was read, with its start and end.
struct Found {
    from: u64,
    to: u64,
    record: Vec<u8>,
}

impl Pivot for RecordPivot<'_> {
    fn is_before(&self, run: usize, unit: u64, record: &[u8]) -> bool {
        if run == self.run {
            return unit < self.found.to;
        }
        let order = self.shape.compare(record, &self.found.record);
        order.then(run.cmp(&self.run)).is_lt()
    }

    fn is_prefix_before(&self, run: usize, unit: u64, prefix: &Prefix) -> Option<bool> {
        if run == self.run {
            return Some(unit < self.found.to);
        }
        let order = prefix.cmp(&self.prefix);
        match (order.is_eq(), self.shape.is_whole_in_prefix()) {
            (true, false) => None,
            _ => Some(order.then(run.cmp(&self.run)).is_lt()),
        }
    }

    fn known(&self, run: usize) -> Option<u64> {
        (run == self.run).then_some(self.found.to)
    }
}

/// Records whose keys come before that of `record`; if equal keys count, also records with this
/// key.
struct KeyPivot<'a> {
    shape: &'a Shape,
    record: &'a [u8],
    counts_equal: bool,
    prefix: Prefix,
    mask: Prefix,
}

impl<'a> KeyPivot<'a> {
    fn new(shape: &'a Shape, record: &'a [u8], counts_equal: bool) -> Self {
        let mask = shape.key_mask();
        KeyPivot {
            shape,
            record,
            counts_equal,
            prefix: masked(&shape.prefix(record), &mask),
            mask,
        }
    }

    fn is_met(&self, order: Ordering) -> bool {
        match self.counts_equal {
            true => order.is_le(),
            false => order.is_lt(),
        }
    }
}

fn masked(prefix: &Prefix, mask: &Prefix) -> Prefix {
    let mut masked = *prefix;
    masked
        .iter_mut()
        .zip(mask)
        .for_each(|(word, mask)| *word &= mask);
    masked
}

impl Pivot for KeyPivot<'_> {
    fn is_before(&self, _run: usize, _unit: u64, record: &[u8]) -> bool {
        self.is_met(self.shape.compare_keys(record, self.record))
    }

    fn is_prefix_before(&self, _run: usize, _unit: u64, prefix: &Prefix) -> Option<bool> {
        let order = masked(prefix, &self.mask).cmp(&self.prefix);
        match order.is_eq() && !self.shape.is_key_in_prefix() {
            true => None,
            false => Some(self.is_met(order)),
        }
    }
}

/// A boundary between two records of a run.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cut {
    /// The unit at which the record after the boundary begins.
    pub(super) unit: u64,
    /// Number of records before the boundary.
    pub(super) rank: u64,
}

/// Bounds of the cut in a run: at `lo` or after it, and not after `hi`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bounds {
    lo: u64,
    hi: u64,
}

/// The search for a key in a run, with the units between which its place is.
struct Search {
    key: u32,
    run: u32,
    bounds: Bounds,
    /// The block to read next.
    block: u64,
}

/// Finds cuts; keeps the blocks that it has read.
pub(super) struct Selector<'a> {
    set: Arc<RunSet>,
    fetcher: &'a mut Fetcher,
    cached: Vec<Vec<RunBlocks>>,
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

    /// The blocks in memory.
    pub(super) fn into_pieces(self) -> Vec<RunBlocks> {
        self.cached.into_iter().flatten().collect()
    }

    /// For each run, the place of the first record whose key is not before that of `record`.
    pub(super) fn cut_at_key(&mut self, record: &[u8]) -> Result<Vec<u64>> {
        let set = Arc::clone(&self.set);
        let (lo, hi) = self.whole();
        self.cuts(&KeyPivot::new(&set.shape, record, false), &lo, &hi)
    }

    /// For each run, the place of the rank `rank`.
    pub(super) fn cut_at(&mut self, measure: Measure, rank: u64) -> Result<RankSplit> {
        let set = Arc::clone(&self.set);
        let (mut lo, mut hi) = self.whole();
        let total = match measure {
            Measure::Units => set.units(),
            Measure::Records => set.records(),
        };
        if rank == 0 || rank >= total {
            return Ok(RankSplit::at(if rank == 0 { lo } else { hi }));
        }
        let (mut below, mut above) = (rank, total - rank);
        let mut known = None;
        if let Some(prefix) = self.estimate(measure, rank) {
            let shape = &set.shape;
            let cuts = self.cuts(&PrefixPivot { shape, prefix }, &lo, &hi)?;
            let counted = self.count(measure, &cuts)?;
            match counted <= rank {
                true => (lo, below) = (cuts, rank - counted),
                false => (hi, above) = (cuts, counted - rank),
            }
        }
        for round in 1u64.. {
            self.fetcher.check_stop()?;
            if below == 0 || above == 0 {
                break;
            }
            // Each round narrows the bounds, unless the index and the runs contradict each other.
            let is_apart = lo.iter().zip(&hi).all(|(lo, hi)| lo <= hi);
            if !is_apart || known.as_ref() == Some(&(lo.clone(), hi.clone())) {
                return Err(self.contradiction(0, 0));
            }
            known = Some((lo.clone(), hi.clone()));
            if measure == Measure::Units && set.shape.items().is_none() {
                // If every unit is a record, the distance to a cut is at most the distance in rank.
                match tighten(&mut lo, &mut hi, rank) {
                    Some(closer) => (below, above) = closer,
                    None => below = rank - lo.iter().sum::<u64>(),
                }
                if below == 0 || hi.iter().sum::<u64>() == rank {
                    break;
                }
            }
            let widths = lo.iter().zip(&hi).map(|(lo, hi)| hi - lo);
            let Some((run, width)) = widths.enumerate().max_by_key(|&(_, width)| width) else {
                break;
            };
            let share = u128::from(width) * u128::from(below) / u128::from(below + above);
            // Uses the middle now and then, so that no data make the search slow.
            let step = if round % 4 == 0 {
                width / 2
            } else {
                share as u64
            };
            let found = self.record(run, lo[run] + step.min(width - 1))?;
            let pivot = RecordPivot {
                shape: &set.shape,
                run,
                prefix: set.shape.prefix(&found.record),
                found,
            };
            let through = self.cuts(&pivot, &lo, &hi)?;
            let counted = self.count(measure, &through)?;
            if counted <= rank {
                (lo, below) = (through, rank - counted);
                continue;
            }
            let mut before = through.clone();
            before[run] = pivot.found.from;
            let size = match measure {
                Measure::Units => pivot.found.to - pivot.found.from,
                Measure::Records => 1,
            };
            if counted - size < rank {
                return Ok(RankSplit { before, through });
            }
            (hi, above) = (before, counted - size - rank);
        }
        Ok(RankSplit::at(if below == 0 { lo } else { hi }))
    }

    /// For each of `keys` and each run, the place of the first record that is not before the key
    /// or, if equal keys count, that comes after it. The places of one key, run by run, precede
    /// those of the next key. Each round reads the blocks that keys wait for, with as many reads in
    /// flight as there are slots, and advances the keys of a block while it is in memory.
    pub(super) fn cuts_at_keys(&mut self, keys: &[&[u8]], counts_equal: bool) -> Result<Vec<Cut>> {
        let set = Arc::clone(&self.set);
        let pivots = keys
            .iter()
            .map(|key| KeyPivot::new(&set.shape, key, counts_equal));
        let pivots: Vec<KeyPivot<'_>> = pivots.collect();
        let mut cuts = vec![Cut::default(); keys.len() * set.runs.len()];
        let mut open = Vec::new();
        for (key, pivot) in (0..).zip(&pivots) {
            for (run, facts) in (0..).zip(&set.runs) {
                let mut search = Search {
                    key,
                    run,
                    bounds: Bounds {
                        lo: 0,
                        hi: facts.units,
                    },
                    block: 0,
                };
                if !self.advance(pivot, &mut search, &mut cuts)? {
                    open.push(search);
                }
            }
        }
        while !open.is_empty() {
            open.sort_unstable_by_key(|search| (search.run, search.block));
            let same = |a: &Search, b: &Search| (a.run, a.block) == (b.run, b.block);
            let mut wanted = open
                .chunk_by(same)
                .map(|searches| set.stretch(searches[0].run as usize, searches[0].block, 1));
            let wanted: Vec<Stretch> = wanted.by_ref().collect();
            let mut next = wanted.iter().peekable();
            let mut left = wanted.len();
            let mut still_open = Vec::new();
            while left > 0 {
                while let Some(stretch) = next.peek() {
                    if !self.fetcher.fetch(**stretch) {
                        break;
                    }
                    next.next();
                }
                if self.fetcher.is_idle() {
                    let stretch = next.peek().ok_or_else(no_block)?;
                    return Err(self.fetcher.no_room(stretch));
                }
                self.fetcher.wait()?;
                let arrived: Vec<RunBlocks> = self.fetcher.take_arrived().collect();
                for mut piece in arrived {
                    self.fetcher.check(&mut piece)?;
                    let (run, block) = (piece.stretch.run, piece.stretch.first_block);
                    self.cached[run].push(piece);
                    let place = |search: &Search| (search.run as usize, search.block);
                    let from = open.partition_point(|search| place(search) < (run, block));
                    let here = open[from..].iter_mut();
                    for search in here.take_while(|search| place(search) == (run, block)) {
                        let mut search = Search { ..*search };
                        let pivot = &pivots[search.key as usize];
                        if !self.advance(pivot, &mut search, &mut cuts)? {
                            still_open.push(search);
                        }
                    }
                    self.cached[run].clear();
                    left -= 1;
                }
            }
            open = still_open;
        }
        Ok(cuts)
    }

    /// Searches a key in a run as far as the loaded blocks allow; true, with the cut stored, if it
    /// is found.
    fn advance(&self, pivot: &dyn Pivot, search: &mut Search, cuts: &mut [Cut]) -> Result<bool> {
        let run = search.run as usize;
        let missing = match self.narrow(pivot, run, &mut search.bounds)? {
            Some(block) => Err(block),
            None => self.count_in(Measure::Records, run, search.bounds.lo),
        };
        match missing {
            Ok(rank) => {
                let place = search.key as usize * self.set.runs.len() + run;
                let unit = search.bounds.lo;
                cuts[place] = Cut { unit, rank };
            }
            Err(block) => search.block = block,
        }
        Ok(missing.is_ok())
    }

    /// Number of records of all runs before the cuts, which are results of [`Selector::cuts`].
    pub(super) fn records_before(&mut self, cuts: &[u64]) -> Result<u64> {
        self.count(Measure::Records, cuts)
    }

    fn count(&mut self, measure: Measure, cuts: &[u64]) -> Result<u64> {
        let mut counted = 0;
        for (run, &cut) in cuts.iter().enumerate() {
            counted += match self.count_in(measure, run, cut) {
                Ok(count) => count,
                Err(block) => {
                    self.block(run, block)?;
                    self.count_in(measure, run, cut).map_err(|_| no_block())?
                }
            };
        }
        Ok(counted)
    }

    /// The number of units or records before a cut in one run; the missing block if one is needed.
    fn count_in(&self, measure: Measure, run: usize, cut: u64) -> std::result::Result<u64, u64> {
        let set = &self.set;
        let Some(rule) = set.shape.items().filter(|_| measure == Measure::Records) else {
            return Ok(cut);
        };
        if cut == set.runs[run].units {
            return Ok(set.runs[run].records);
        }
        let block = set.block_of(cut);
        let from = set.start(run, block);
        let before = set.rank_of_block(run, block);
        if from == cut {
            return Ok(before);
        }
        let here = self.cached(run, block).ok_or(block)?;
        let here = &here[..(cut - from) as usize];
        Ok(before + rule.framing.count(here))
    }

    fn whole(&self) -> (Vec<u64>, Vec<u64>) {
        let runs = &self.set.runs;
        let hi: Vec<u64> = runs.iter().map(|run| run.units).collect();
        (vec![0; runs.len()], hi)
    }

    /// The prefix of the first record of a block whose rank is about `rank`.
    fn estimate(&self, measure: Measure, rank: u64) -> Option<Prefix> {
        let set = &self.set;
        let runs = &set.runs;
        let mut lo = vec![0; runs.len()];
        let mut hi: Vec<usize> = runs.iter().map(|run| run.index.blocks()).collect();
        let mut best: Option<(f64, Prefix)> = None;
        loop {
            let widths = lo.iter().zip(&hi).map(|(lo, hi)| hi - lo);
            let (widest, width) = widths.enumerate().max_by_key(|&(_, width)| width)?;
            if width == 0 {
                return best.map(|(_, prefix)| prefix);
            }
            let middle = lo[widest] + width / 2;
            let prefix = runs[widest].index.prefix(middle);
            let mut cuts = Vec::with_capacity(runs.len());
            let mut estimated = 0.0;
            for (run, facts) in runs.iter().enumerate() {
                let cut = lo[run] + facts.index.count_less(lo[run], hi[run], &prefix);
                // The cut is somewhere in the block before `cut`.
                estimated += match cut {
                    0 => 0.0,
                    cut => {
                        let (last, cut) = (cut as u64 - 1, cut as u64);
                        let ends = match measure {
                            Measure::Units => (set.start(run, last), set.start(run, cut)),
                            Measure::Records => {
                                (set.rank_of_block(run, last), set.rank_of_block(run, cut))
                            }
                        };
                        (ends.0 + ends.1) as f64 / 2.0
                    }
                };
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
        let each = lo.iter().zip(hi.iter());
        let mut bounds: Vec<Bounds> = each.map(|(&lo, &hi)| Bounds { lo, hi }).collect();
        let mut open: Vec<usize> = (0..bounds.len()).collect();
        loop {
            self.fetcher.check_stop()?;
            let mut wanted = Vec::new();
            for &run in &open {
                let missing = self.narrow(pivot, run, &mut bounds[run])?;
                wanted.extend(missing.map(|block| (run, block)));
            }
            open = wanted.iter().map(|&(run, _)| run).collect();
            if open.is_empty() {
                return Ok(bounds.into_iter().map(|bounds| bounds.lo).collect());
            }
            self.load(&wanted)?;
        }
    }

    /// Narrows the bounds of the cut in one run; returns the missing block, if one is needed.
    fn narrow(&self, pivot: &dyn Pivot, run: usize, bounds: &mut Bounds) -> Result<Option<u64>> {
        if let Some(known) = pivot.known(run) {
            let known = known.clamp(bounds.lo, bounds.hi);
            *bounds = Bounds {
                lo: known,
                hi: known,
            };
        }
        let set = &self.set;
        while bounds.lo < bounds.hi {
            let (first, last) = (
                set.block_of(bounds.lo),
                set.block_behind(run, bounds.hi) - 1,
            );
            if first == last {
                return self.narrow_in_block(pivot, run, first, bounds);
            }
            let before = *bounds;
            let middle = first + (last - first).div_ceil(2);
            let unit = set.start(run, middle);
            let prefix = set.runs[run].index.prefix(middle as usize);
            let is_before = match pivot.is_prefix_before(run, unit, &prefix) {
                Some(is_before) => is_before,
                None => match self.found(run, unit) {
                    Some((_, record)) => pivot.is_before(run, unit, record),
                    None => return Ok(Some(set.block_of(unit))),
                },
            };
            match is_before {
                // Only the line's block shows how long the line is.
                true if set.shape.items().is_some() => bounds.lo = unit,
                true => bounds.lo = unit + 1,
                false => bounds.hi = unit,
            }
            self.check_closer(run, before, *bounds)?;
        }
        Ok(None)
    }

    /// Fails for bounds that have not been narrowed: such a search would never end.
    fn check_closer(&self, run: usize, before: Bounds, now: Bounds) -> Result<()> {
        let is_closer = now != before && now.lo >= before.lo && now.hi <= before.hi;
        match is_closer {
            true => Ok(()),
            false => Err(self.contradiction(run, now.lo)),
        }
    }

    fn contradiction(&self, run: usize, unit: u64) -> Error {
        let at_bytes = unit * self.set.shape.unit_bytes as u64;
        let cause = "the order in its index differs from that of the records";
        self.set
            .fault(run, at_bytes, cause)
            .hint("restore the run, or build the view again")
    }

    /// Like `narrow`, inside one block.
    fn narrow_in_block(
        &self,
        pivot: &dyn Pivot,
        run: usize,
        block: u64,
        bounds: &mut Bounds,
    ) -> Result<Option<u64>> {
        while bounds.lo < bounds.hi {
            let before = *bounds;
            let middle = bounds.lo + (bounds.hi - bounds.lo) / 2;
            let Some(((from, to), record)) = self.found_in(run, block, middle) else {
                return Ok(Some(block));
            };
            match pivot.is_before(run, from, record) {
                true => bounds.lo = to,
                false => bounds.hi = from,
            }
            self.check_closer(run, before, *bounds)?;
        }
        Ok(None)
    }

    /// The record that contains a unit, if its block is in memory, with its start and end.
    fn found(&self, run: usize, unit: u64) -> Option<((u64, u64), &[u8])> {
        self.found_in(run, self.set.block_with(run, unit), unit)
    }

    fn found_in(&self, run: usize, block: u64, unit: u64) -> Option<((u64, u64), &[u8])> {
        let payload = self.cached(run, block)?;
        let shape = &self.set.shape;
        let first = self.set.start(run, block);
        let at = (unit - first) as usize * shape.unit_bytes;
        let Some(rule) = shape.items() else {
            let record = &payload[at..at + shape.unit_bytes];
            return Some(((unit, unit + 1), record));
        };
        let from = rule.framing.begin_of(payload, at);
        let (content, behind) = rule.framing.first(&payload[from..]);
        let to = payload.len() - behind.len();
        Some(((first + from as u64, first + to as u64), content))
    }

    /// The contents of a block, if it is in memory.
    fn cached(&self, run: usize, block: u64) -> Option<&[u8]> {
        let mut pieces = self.cached[run].iter();
        pieces
            .find(|piece| piece.stretch.first_block == block)
            .map(RunBlocks::payload)
    }

    /// The contents of a block.
    fn block(&mut self, run: usize, block: u64) -> Result<&[u8]> {
        if self.cached(run, block).is_none() {
            self.load(&[(run, block)])?;
        }
        self.cached(run, block).ok_or_else(no_block)
    }

    /// The record of a run that contains a unit.
    fn record(&mut self, run: usize, unit: u64) -> Result<Found> {
        let block = self.set.block_with(run, unit);
        self.block(run, block)?;
        let found = self.found_in(run, block, unit);
        let ((from, to), record) = found.ok_or_else(no_block)?;
        let record = record.to_vec();
        Ok(Found { from, to, record })
    }

    /// Reads blocks; each run keeps the last two.
    fn load(&mut self, wanted: &[(usize, u64)]) -> Result<()> {
        for &(run, block) in wanted {
            let cached = &mut self.cached[run];
            if cached.len() > 1 {
                cached.remove(0);
            }
            let stretch = self.set.stretch(run, block, 1);
            if !self.fetcher.fetch(stretch) {
                return Err(self.fetcher.no_room(&stretch));
            }
        }
        let mut missing = wanted.len();
        while missing > 0 {
            self.fetcher.wait()?;
            let arrived: Vec<RunBlocks> = self.fetcher.take_arrived().collect();
            for mut piece in arrived {
                self.fetcher.check(&mut piece)?;
                self.cached[piece.stretch.run].push(piece);
                missing -= 1;
            }
        }
        Ok(())
    }
}

/// Narrows bounds as far as the rank alone allows. Returns the distances of the sums of the bounds
/// from the rank, or `None` if one distance is zero.
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

fn no_block() -> Error {
    Error::new(
        Kind::Memory,
        "look for a place in the runs",
        "a block is not here",
    )
    .hint("a bug: please report it")
}
