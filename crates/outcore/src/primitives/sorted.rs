//! Sorts the results of a pass, without a file in between.
//!
//! Contract: [`sort_items`] is [`crate::sort::sort`] for the items of a sequence: they go from
//! their pass directly to the buckets of the sort. The splitters come from a sample that is made
//! first, so functions are called twice for some items. After filters, the plan estimates the
//! number of items from that sample; the output has room for all. If a position may yield any
//! number of items, the number of items has no limit. The output must then be a pipe, or the items
//! are written to a file first.
//!
//! Bounds: the memory of a sort, which reads nothing itself and leaves its read memory to the pass.
//! I/O is one read of the sources, the sample, and the scratch I/O and output of a sort.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytemuck::Pod;

use super::batch::{Sequence, Yield};
use super::pass::{Demand, Geometry, Pass, RESULTS, Sample, shield};
use super::pieces::{Lanes, OpenSources};
use super::producer::{Emit, Producer, Typed};
use crate::ends::Output;
use crate::forecast::Forecast;
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

/// Number of sampled places, and about how many bytes of items at each.
const SAMPLE_PIECES: u64 = 256;
const SAMPLE_BYTES: u64 = 4 << 10;
/// The plan adds one part in this many to the number of items that a sample predicts.
const SPARE_SHARE: u64 = 32;

/// Writes the items of `sequence` to `output` in the order of `format`, whose record length must
/// equal the item length.
///
/// # Errors
/// The errors of [`crate::sort::sort`] and of the sequence's functions.
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

/// Whether [`sort_made`] can sort the items of `producer` into a file. Otherwise they must be
/// written to a file first: if the order of equal items depends on their position, or a position
/// may yield any number of items.
pub(crate) fn can_sort_made(producer: &dyn Producer, options: SortOptions) -> bool {
    can_sort(producer.yields(), options, false)
}

/// Like `can_sort_made`, for a producer that `yields` this number of items per position. A pipe
/// needs no room for all items in advance.
pub(crate) fn can_sort(yields: Yield, options: SortOptions, is_piped: bool) -> bool {
    !options.stable && !options.delete_input && (is_piped || yields != Yield::Any)
}

/// As [`sort_items`], for the items of a producer, which must be as long as the records.
///
/// # Errors
/// The errors of [`crate::sort::sort`] and of the producer.
///
/// # Panics
/// For options that need a file first ([`SortOptions::stable`], [`SortOptions::delete_input`]), and
/// for a producer that yields any number of items per position, unless the output is a pipe.
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

/// Upper bound on the bytes of all items of `producer`. Opens its sources and reads nothing.
pub(crate) fn most_bytes_of(job: &Job, producer: &dyn Producer) -> Result<u64> {
    let volume = Volume::new(Arc::clone(&job.device), &[])?;
    let sources = OpenSources::open(&volume, &producer.sources(), Lanes::Drives)?;
    Ok(sources.count * producer.item_bytes() as u64)
}

/// The items of a producer.
struct Made<'p> {
    producer: &'p dyn Producer,
    /// A sample of the items, and the smallest memory with which one thread can make all.
    sample: OnceLock<(Vec<u8>, u64)>,
}

impl Made<'_> {
    /// The memory that a pass over them needs.
    fn demand(&self) -> Demand {
        Demand {
            out_bytes: self.producer.item_bytes(),
            areas: 1,
            fixed_bytes: 0,
            thread_bytes: self.producer.space_bytes() as u64,
        }
    }

    /// Calls `take` with all items of a pass, some at a time, with the position of the first of
    /// them. Each thread has its own state, which it passes to `end`. Returns the number of
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
        // A position of text is one byte, from which only a part of an item is made.
        let sampled_bytes = match self.producer.yields() {
            Yield::Any if position_bytes > 0 => position_bytes,
            _ => position_bytes.max(item_bytes),
        };
        let positions = (SAMPLE_BYTES / sampled_bytes).max(1);
        let volume = Arc::clone(&ends.volume);
        let sample = Sample {
            pieces: SAMPLE_PIECES,
            positions,
        };
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
        // Reserved for the splitters.
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
            // If memory is small, fewer threads run. There are never more threads than the sort's
            // plan has buffers for.
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
