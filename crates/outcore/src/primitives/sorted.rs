//! Sorting what a pass makes, without a file between the two.
//!
//! Contract: [`sort_items`] is [`crate::sort::sort`] for the items of a sequence: they go from the
//! pass that makes them straight to the buckets of the sort. A sample is made first, of which the
//! splitters are chosen; so some items are made twice, and functions are called again for them. Of
//! filters the plan takes the number of items from that sample; the output has room for all. A
//! position that becomes any number of items has no such limit, so its items go to a pipe, or to a
//! file first.
//!
//! Bounds: the memory of a sort, which reads nothing itself and leaves what it would read in to the
//! pass; I/O one read of the sources and the sample, and what a sort writes and reads back.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytemuck::Pod;

use super::batch::{Sequence, Yield};
use super::pass::{Demand, Geometry, Pass, RESULTS, shield};
use super::pieces::{Lanes, OpenSources};
use super::producer::{Emit, Producer, Typed};
use crate::ends::{Forecast, Output};
use crate::job::Job;
use crate::key::record::RecordFormat;
use crate::partition::bucket::Bucket;
use crate::partition::driver::Ends;
use crate::sort::elements::Elements;
use crate::sort::shared::Shared;
use crate::sort::source::{Amount, Source, distribute_made};
use crate::sort::splitters::KeySplitters;
use crate::sort::{SortOptions, SortSummary, sort_from};
use outcore_io::Result;
use outcore_io::memory::Pool;
use outcore_io::port::Volume;

/// Places from which items are sampled, and about how many bytes of them at each.
const SAMPLE_PIECES: u64 = 256;
const SAMPLE_BYTES: u64 = 4 << 10;
/// Of the number of items that a sample predicts, the part that the plan adds.
const SPARE_SHARE: u64 = 32;

/// Writes the items of `sequence` to `output` in the order of `format`, whose records are as long
/// as they are.
///
/// # Errors
/// As [`crate::sort::sort`]; what the sequence's functions fail with.
pub(crate) fn sort_items<S>(
    job: &Job,
    sequence: &S,
    output: Output,
    format: &RecordFormat,
    options: SortOptions,
) -> Result<SortSummary>
where
    S: Sequence,
    S::Item: Pod,
{
    sort_made(job, &Typed(sequence), &output, format, options)
}

/// Whether [`sort_made`] sorts what `producer` makes into a file; else it has to be written to one
/// first: where the place of items decides between equal ones, and where a position may become any
/// number of them.
pub(crate) fn can_sort_made(producer: &dyn Producer, options: SortOptions) -> bool {
    can_sort(producer.yields(), options, false)
}

/// The same by what a position yields, and for a pipe, which needs no room for all items
/// beforehand.
pub(crate) fn can_sort(yields: Yield, options: SortOptions, is_piped: bool) -> bool {
    !options.stable && !options.delete_input && (is_piped || yields != Yield::Any)
}

/// The same for what a producer makes, whose records are as long as its items.
///
/// # Errors
/// As [`crate::sort::sort`]; what the producer fails with.
///
/// # Panics
/// For options that need a file first ([`SortOptions::stable`], [`SortOptions::delete_input`]), and
/// for a producer that makes any number of items of a position, unless the output is a pipe.
pub fn sort_made(
    job: &Job,
    producer: &dyn Producer,
    output: &Output,
    format: &RecordFormat,
    options: SortOptions,
) -> Result<SortSummary> {
    let is_piped = matches!(output, Output::Pipe(_));
    assert!(can_sort(producer.yields(), options, is_piped));
    assert_eq!(producer.item_bytes(), format.record_bytes());
    let sample = OnceLock::new();
    sort_from(job, &Made { producer, sample }, output, format, options)
}

/// Bytes of all that `producer` makes, at most. Opens its sources and reads nothing.
pub(crate) fn most_bytes_of(job: &Job, producer: &dyn Producer) -> Result<u64> {
    let volume = Volume::new(Arc::clone(&job.device), &[])?;
    let sources = OpenSources::open(&volume, &producer.sources(), Lanes::Drives)?;
    Ok(sources.count * producer.item_bytes() as u64)
}

/// Items that a producer makes.
struct Made<'p> {
    producer: &'p dyn Producer,
    /// Some of them, and the memory that one thread needs to make all, at least.
    sample: OnceLock<(Vec<u8>, u64)>,
}

impl Made<'_> {
    /// What a pass needs for them.
    fn demand(&self) -> Demand {
        Demand {
            out_bytes: self.producer.item_bytes(),
            areas: 1,
            fixed_bytes: 0,
            thread_bytes: self.producer.space_bytes() as u64,
        }
    }

    /// Calls `take` with all items of a pass, some at a time, with the position of the first of
    /// them; each thread has a state of its own, which it gives to `end`. Gives the number of
    /// positions.
    fn each_run<T>(
        &self,
        pass: &Pass<'_>,
        begin: impl Fn() -> Result<T> + Sync,
        take: impl Fn(&mut T, &mut [u8], u64) -> Result<()> + Sync,
        end: impl Fn(T) -> Result<()> + Sync,
    ) -> Result<u64> {
        let (producer, item_bytes) = (self.producer, self.producer.item_bytes() as u64);
        let positions = AtomicU64::new(0);
        let state = || {
            let area = Pool::new(&pass.budget, RESULTS, pass.sizes.area_bytes, 1)?;
            Ok((begin()?, producer.maker(), area))
        };
        pass.each_piece(
            state,
            |(state, make, pool), reader, loaded| {
                let mut area = reader.area(pool)?;
                let mut position = loaded.piece.first;
                positions.fetch_add(loaded.piece.count as u64, Ordering::Relaxed);
                let mut take = |items: &mut [u8]| {
                    take(state, items, position)?;
                    position += items.len() as u64 / item_bytes;
                    Ok(())
                };
                let mut emit = Emit::streaming(&mut area, &mut take);
                shield(|| make(loaded.batch(), &mut emit))?;
                emit.finish()
            },
            |(state, ..), _| end(state),
        )?;
        Ok(positions.into_inner())
    }
}

impl Source for Made<'_> {
    fn amount(&self, job: &Job, ends: &Ends<'_>) -> Result<Amount> {
        let item_bytes = self.producer.item_bytes() as u64;
        let sources = self.producer.sources();
        let position_bytes: u64 = sources
            .iter()
            .map(|source| source.element_bytes as u64)
            .sum();
        // A byte of text becomes a part of an item, and not one.
        let sampled_bytes = match self.producer.yields() {
            Yield::Any if position_bytes > 0 => position_bytes,
            _ => position_bytes.max(item_bytes),
        };
        let positions = (SAMPLE_BYTES / sampled_bytes).max(1);
        let volume = Arc::clone(&ends.volume);
        let sample = (SAMPLE_PIECES, positions);
        let pass = Pass::open_sample(volume, job, &sources, self.demand(), sample)?;
        job.control.begin_phase("sample", 0);
        let sample = Mutex::new(Vec::new());
        let looked_at = self.each_run(
            &pass,
            || Ok(Vec::new()),
            |made: &mut Vec<u8>, items, _| {
                made.extend_from_slice(items);
                Ok(())
            },
            |made| {
                let mut sample = sample.lock().unwrap_or_else(PoisonError::into_inner);
                sample.extend_from_slice(&made);
                Ok(())
            },
        )?;
        let sample = sample.into_inner().unwrap_or_else(PoisonError::into_inner);
        let most_bytes = match self.producer.yields() {
            Yield::Any => u64::MAX,
            _ => pass.count() * item_bytes,
        };
        let made = sample.len() as u64 / item_bytes;
        // Kept for the splitters.
        let beside_bytes = Geometry::least_bytes(&pass.pieces.sources, self.demand());
        self.sample.get_or_init(|| (sample, beside_bytes));
        let made_of_bytes = Some(pass.pieces.sources.read_bytes());
        if self.producer.yields() == Yield::One {
            return Ok(Amount {
                beside_bytes,
                made_of_bytes,
                ..Amount::exactly(most_bytes)
            });
        }
        let share = u128::from(pass.count()) * u128::from(made) / u128::from(looked_at.max(1));
        let spare = share as u64 / SPARE_SHARE + positions;
        Ok(Amount {
            data_bytes: ((share as u64 + spare) * item_bytes).min(most_bytes),
            most_bytes,
            beside_bytes,
            made_of_bytes,
        })
    }

    fn sample<E: Elements>(&self, _shared: &Shared<'_, E>, _ends: &Ends<'_>) -> Result<Vec<u8>> {
        Ok(self
            .sample
            .get()
            .map(|(sample, _)| sample.clone())
            .unwrap_or_default())
    }

    fn distribute<E: Elements>(
        &self,
        shared: &Shared<'_, E>,
        ends: &Ends<'_>,
        splitters: &KeySplitters<E::Key>,
    ) -> Result<Vec<Bucket>> {
        let sources = self.producer.sources();
        let least_bytes = self.sample.get().map_or(0, |(_, least_bytes)| *least_bytes);
        distribute_made(shared, splitters, least_bytes, |budget, inlet| {
            let mut job = Job {
                budget,
                ..shared.job.clone()
            };
            // Where memory is little, as many threads as it is enough for, and never more than the
            // plan of the sort has buffers for.
            let enough = job.budget.limit_bytes() / least_bytes.max(1);
            let threads = job.options.threads.min(shared.plan.size.threads);
            job.options.threads = threads.clamp(1, enough.max(1) as usize);
            let volume = Arc::clone(&ends.volume);
            let pass = Pass::open_on(volume, &job, &sources, Lanes::Drives, self.demand())?;
            pass.begin_phase("distribute", Forecast::NOTHING);
            let outs = Mutex::new(Vec::new());
            let lock = || outs.lock().unwrap_or_else(PoisonError::into_inner);
            self.each_run(
                &pass,
                inlet,
                |inlet, items, position| inlet.take(items, position),
                |inlet| {
                    let out = inlet.finish()?;
                    lock().push(out);
                    Ok(())
                },
            )?;
            pass.check_sources()?;
            Ok(outs.into_inner().unwrap_or_else(PoisonError::into_inner))
        })
    }
}
