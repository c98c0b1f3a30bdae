//! The records of a view that are equal to given keys.
//!
//! Contract: the records are returned key by key, in the order of the given keys, and for one key
//! in the order of the view. A key without records returns nothing.
//!
//! Bounds: the two searches of [`super::lookup`], and one read of each block with wanted records.
//! These reads are in the order of places, with as many in flight as there are slots. Memory: the
//! records found, 40 bytes per block and key, 32 bytes per key and run, and the slots. If several
//! runs have records of one key, also a second copy of that key's records with 16 bytes per record.

use std::sync::Arc;

use super::SortedView;
use super::fetch::{Fetcher, PIECES, slot_bytes};
use super::select::Cut;
use crate::ends::{Phase, Phases};
use crate::forecast::{Amounts, Forecast, PhasePlan};
use outcore_io::memory::Pool;
use outcore_io::{Error, Kind, Result, units};

/// The name of the phase.
const PHASE: &str = "read what was found";
/// Blocks in flight.
const WINDOW_MAX: u64 = 128;

/// The wanted part of a block: a range of units of the run, and its place in the result, in bytes.
struct Wanted {
    run: usize,
    block: u64,
    units: (u64, u64),
    at_bytes: usize,
}

impl SortedView {
    /// The records that are equal to `keys`, all of them for each key; lines with the terminators
    /// of the sorted file. Keys are as in [`SortedView::lookup`].
    ///
    /// # Errors
    /// The errors of [`SortedView::lookup`]; [`Kind::Memory`] if the result does not fit.
    pub fn values(&self, keys: &[&[u8]]) -> Result<(Vec<u8>, Vec<Phase>)> {
        let budget = &self.job.budget;
        let runs = self.set.runs.len();
        if runs == 0 {
            return Ok((Vec::new(), Vec::new()));
        }
        let cut_bytes = 2 * (keys.len() * runs * size_of::<u64>()) as u64;
        let _cuts = budget.reserve("places of keys", cut_bytes)?;
        let unit = |cuts: &[Cut], units: &mut [u64]| {
            for (unit, cut) in units.iter_mut().zip(cuts) {
                *unit = cut.unit;
            }
        };
        let (from, first) = self.search(keys, false, runs, unit)?;
        let (to, second) = self.search(keys, true, runs, unit)?;
        let mut phases = Phases::start_on(&self.set.volume);
        let unit_bytes = self.set.shape.unit_bytes;
        let ranges = || from.iter().copied().zip(to.iter().copied()).enumerate();
        let blocks_of = |(place, (from, to)): (usize, (u64, u64))| {
            let run = place % runs;
            match from < to {
                true => self.set.block_with(run, from)..self.set.block_with(run, to - 1) + 1,
                false => 0..0,
            }
        };
        let units: u64 = ranges().map(|(_, (from, to))| to - from).sum();
        let found_bytes = units * unit_bytes as u64;
        let blocks: u64 = ranges().map(|range| blocks_of(range).count() as u64).sum();
        let _found = budget
            .reserve("what was found", found_bytes)
            .and_then(|found| {
                let list_bytes = blocks * size_of::<Wanted>() as u64;
                Ok((found, budget.reserve("blocks to read", list_bytes)?))
            })
            .map_err(|error| too_many(error, found_bytes))?;
        let mut wanted = Vec::with_capacity(blocks as usize);
        let mut at_bytes = 0;
        for (place, range) in ranges() {
            let run = place % runs;
            for block in blocks_of((place, range)) {
                let of_block = (self.set.start(run, block), self.set.start(run, block + 1));
                let units = (range.0.max(of_block.0), range.1.min(of_block.1));
                wanted.push(Wanted {
                    run,
                    block,
                    units,
                    at_bytes,
                });
                at_bytes += (units.1 - units.0) as usize * unit_bytes;
            }
        }
        wanted.sort_unstable_by_key(|wanted| (wanted.run, wanted.block));
        let mut found = vec![0; at_bytes];
        self.job.control.begin_phase(PHASE, found_bytes);
        self.copy_wanted(&wanted, &mut found)?;
        drop(wanted);
        let mut rest = &mut found[..];
        for (from, to) in from.chunks_exact(runs).zip(to.chunks_exact(runs)) {
            let units = from.iter().zip(to).map(|(from, to)| to - from);
            let len_bytes = units.clone().sum::<u64>() as usize * unit_bytes;
            let (of_key, behind) = rest.split_at_mut(len_bytes);
            if units.filter(|units| *units > 0).count() > 1 {
                self.bring_in_order(of_key)?;
            }
            rest = behind;
        }
        if let Some(lines) = self.what().lines() {
            lines.end_as_in_file(&mut found);
        }
        let phase = phases.end(PHASE, &self.set.volume).clone();
        let read_bytes = Forecast::AtMost(blocks * slot_bytes(&self.set, 1) as u64);
        let amounts = Amounts::of_files(read_bytes, Forecast::NOTHING, blocks as f64);
        let predicted = Some(PhasePlan::new(PHASE, amounts, &self.layout()));
        Ok((found, vec![first, second, Phase { predicted, ..phase }]))
    }

    /// Sorts the records of one key, which are grouped by run, into the order of the view.
    fn bring_in_order(&self, records: &mut [u8]) -> Result<()> {
        let shape = &self.set.shape;
        let reserve = |count: usize| {
            let bytes = records.len() + count * size_of::<&[u8]>();
            let held = self.job.budget.reserve("records of a key", bytes as u64);
            held.map_err(|error| too_many(error, records.len() as u64))
        };
        let (_held, sorted) = match shape.items() {
            None => {
                let held = reserve(records.len() / shape.unit_bytes)?;
                let mut each: Vec<&[u8]> = records.chunks_exact(shape.unit_bytes).collect();
                each.sort_by(|a, b| shape.compare(a, b));
                (held, each.concat())
            }
            Some(rule) => {
                let mut rest = &records[..];
                let items = std::iter::from_fn(|| {
                    let item = rest;
                    (!item.is_empty()).then(|| {
                        let (content, behind) = rule.framing.first(item);
                        rest = behind;
                        (content, &item[..item.len() - behind.len()])
                    })
                });
                let mut each: Vec<(&[u8], &[u8])> = items.collect();
                let held = reserve(2 * each.len())?;
                each.sort_by(|a, b| shape.compare(a.0, b.0));
                let whole: Vec<&[u8]> = each.into_iter().map(|(_, whole)| whole).collect();
                (held, whole.concat())
            }
        };
        records.copy_from_slice(&sorted);
        Ok(())
    }

    /// Copies the wanted records, in the order of blocks, to their places.
    fn copy_wanted(&self, wanted: &[Wanted], found: &mut [u8]) -> Result<()> {
        let slot_bytes = slot_bytes(&self.set, 1);
        let free_bytes = self.reader_bytes(1);
        let slots = (free_bytes / 2 / slot_bytes as u64).clamp(1, WINDOW_MAX) as usize;
        let pool = Pool::new(&self.job.budget, PIECES, slot_bytes, slots)?;
        let mut fetcher = Fetcher::new(&self.job, Arc::clone(&self.set), pool)?;
        let unit_bytes = self.set.shape.unit_bytes;
        let mut next = wanted
            .chunk_by(|a, b| (a.run, a.block) == (b.run, b.block))
            .map(|of_block| self.set.stretch(of_block[0].run, of_block[0].block, 1))
            .peekable();
        loop {
            while let Some(stretch) = next.peek() {
                if !fetcher.fetch(*stretch) {
                    break;
                }
                next.next();
            }
            if fetcher.is_idle() {
                return match next.peek() {
                    None => Ok(()),
                    Some(stretch) => Err(fetcher.no_room(stretch)),
                };
            }
            fetcher.wait()?;
            let arrived: Vec<_> = fetcher.take_arrived().collect();
            for mut piece in arrived {
                fetcher.check(&mut piece)?;
                let place = (piece.stretch.run, piece.stretch.first_block);
                let from = wanted.partition_point(|wanted| (wanted.run, wanted.block) < place);
                let here = wanted[from..].iter();
                let here = here.take_while(|wanted| (wanted.run, wanted.block) == place);
                let first = self.set.start(place.0, place.1);
                for wanted in here {
                    let begin = (wanted.units.0 - first) as usize * unit_bytes;
                    let end = (wanted.units.1 - first) as usize * unit_bytes;
                    let copied = &piece.payload()[begin..end];
                    found[wanted.at_bytes..][..copied.len()].copy_from_slice(copied);
                    self.job.control.advance(copied.len() as u64);
                }
            }
        }
    }
}

/// The error for a result that does not fit.
fn too_many(error: Error, found_bytes: u64) -> Error {
    match error.kind() {
        Kind::Memory => {
            let cause = format!("records of {} are found", units::bytes(found_bytes));
            Error::new(Kind::Memory, "look up keys", cause)
                .hint("allow more with --memory, or look up in several runs")
        }
        _ => error,
    }
}
