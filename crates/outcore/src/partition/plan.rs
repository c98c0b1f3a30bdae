//! The plan of a distribution: pure arithmetic from sizes to buckets, buffers, traffic and time.
//!
//! | PALID | meaning | here |
//! |---|---|---|
//! | N | bytes of data | `data_bytes` |
//! | M | bytes of memory | `memory_bytes` |
//! | D | drives | `drive_count` |
//! | B | bytes of a transfer | `segment_bytes`, `read_block_bytes` |
//! | P | threads | `threads` |
//!
//! Contract: no I/O, and the same plan for the same numbers. This file defines a plan: its sizes,
//! the ledger lines for them, its predictions, and its text for people. [`search`] finds the best
//! one. Data that fit are distributed in memory and written once. Larger data go through scratch
//! once, or more often if one distribution has too few buckets for the memory (PALID, SPAA 2025,
//! section 4).
//!
//! In the first phase memory holds input blocks in flight, one segment buffer per thread and
//! bucket, and segments that are being written. In the second phase it holds areas in which buckets
//! are loaded, and the working memory for them. The memory that remains holds some buckets whole.
//! These *resident* buckets never go to scratch.

mod search;

use std::fmt;

use super::{BUCKETS, SPLIT_READS_MIN, SegmentSizes};
use crate::forecast::{Amounts, Forecast, PhasePlan, predicted_text};
use crate::job::{JobSize, KindCosts};
use crate::layout::Moves;
use crate::read::regions::RegionSizes;
use outcore_io::memory::{BLOCK_BYTES, Ledger, Pool};
use outcore_io::units;

pub(crate) use search::{Planned, best_of, on_fewer_threads, plan_within};

/// Largest number of buckets of one distribution: with more, every store misses the caches.
pub(crate) const BUCKETS_MAX: usize = 2048;
/// Largest segment: drives gain less from larger ones than the memory for buffers costs
/// (docs/decisions/0016).
pub(crate) const SEGMENT_BYTES_MAX: usize = 512 << 10;
/// How often the search halves that length.
const SEGMENT_HALVINGS: u32 = 7;
/// Largest bucket in memory: offsets in it have 32 bits.
pub(crate) const AREA_BYTES_MAX: usize = (u32::MAX / 2) as usize;
/// Longest read of the input, and how short reads become before their number is reduced.
const READ_BYTES_MAX: usize = 4 << 20;
const READ_BYTES_WANTED: usize = 64 << 10;
/// Smallest number of input reads per drive, over all threads: four in flight while one is
/// processed.
const READS_MIN: usize = 5;
/// Smallest number of input reads per thread: two in flight while one is processed.
const THREAD_READS_MIN: usize = 3;
/// Smaller data are moved in small pages.
const HUGE_PAGES_FROM_BYTES: u64 = 1 << 20;
/// Memory reserved for remains of samples and small tables.
pub(crate) const FIXED_BYTES: u64 = 5 << 19;
/// Memory per segment description, including the growth of its list.
pub(crate) const SEGMENT_META_BYTES: u64 = 80;
/// Memory per run of the input.
pub(crate) const INPUT_RUN_BYTES: u64 = size_of::<super::bucket::InputRun>() as u64;
const _: () = assert!(size_of::<super::bucket::Segment>() as u64 <= SEGMENT_META_BYTES);
/// Phase names.
const SAMPLE: &str = "sample";
const DISTRIBUTE: &str = "distribute";
/// Names of reservations.
pub(crate) const INPUT: &str = "input blocks";
pub(crate) const ACROSS: &str = "lines across blocks";
pub(crate) const DESCRIPTIONS: &str = "descriptions and small tables";

/// The common part of the plans of all distributions.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionPlan {
    /// The size of the job.
    pub job: JobSize,
    /// Length of an item; `None` if it varies.
    pub element_bytes: Option<usize>,
    /// How often data go to scratch: 0, 1, 2, ...
    pub distributions: u32,
    /// Buckets of one distribution.
    pub bucket_count: usize,
    /// Approximate number of buckets of all distributions together.
    pub bucket_count_last: f64,
    /// Size of a segment buffer, and of a write to scratch.
    pub segment_bytes: usize,
    /// Bytes of whole items in a segment.
    pub segment_payload_bytes: usize,
    /// Adjacent segments of one bucket on scratch.
    pub extent_segments: usize,
    /// Size of an input read.
    pub read_block_bytes: usize,
    /// Input reads in flight per thread, including the one that is being processed.
    pub reads_in_flight: usize,
    /// Stretches of the input that a thread reads in parallel, if it reads in order.
    pub open_chunks: usize,
    /// The longest line; the item length if all have the same.
    pub line_bytes_max: usize,
    /// Segment writes in flight per thread.
    pub writes_in_flight: usize,
    /// Segments that may stay in memory.
    pub resident_segments: usize,
    /// Largest bucket that is processed at once.
    pub bucket_bytes_max: usize,
    /// Areas for buckets per thread.
    pub areas: usize,
    /// Size of a buffer in which items are ordered for writing.
    pub chunk_bytes: usize,
    /// Number of such buffers per thread; 0 if buckets are sorted in place.
    pub chunks: usize,
    /// Approximate bytes of scratch in use at once.
    pub scratch_bytes: u64,
    /// Predicted bytes read.
    pub predicted_read_bytes: u64,
    /// Predicted bytes written.
    pub predicted_written_bytes: u64,
    /// Predicted time at the rates of the drives.
    pub predicted_seconds: f64,
    /// The predictions of each phase.
    pub phases: Vec<PhasePlan>,
    /// The work of each phase.
    amounts: [(&'static str, Amounts); 3],
    /// Time of the drives and time of the processors, separately.
    moving_seconds: f64,
    computing_seconds: f64,
    /// The search criterion: both times, increased for windows and buckets that are not optimal.
    cost: f64,
}

/// Numbers and sizes of buckets for the search to try.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Buckets {
    /// How often data go through scratch, if they do not fit in memory.
    pub(crate) distributions: u32,
    /// Number of buckets of one distribution.
    pub(crate) count: usize,
    /// Approximate number over all distributions.
    pub(crate) count_last: f64,
    /// Largest bucket that is processed at once.
    pub(crate) bytes_max: usize,
    pub(crate) segment_bytes: usize,
    /// Whether adjacent segments stay adjacent on scratch.
    pub(crate) has_extents: bool,
}

/// The resources that a kind of job uses if memory is plentiful.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wishes {
    pub(crate) element_bytes: Option<usize>,
    /// Areas per thread, for one drive.
    pub(crate) areas: usize,
    /// Whether items are ordered in buffers separate from their bucket.
    pub(crate) has_chunks: bool,
    /// Stretches of the input that a thread may read in parallel, and the reads of all stretches.
    pub(crate) open_chunks_max: usize,
    pub(crate) reads_max: usize,
}

/// Segment lengths to try for items of `item_bytes`. These are halvings of the longest length that
/// hold an item, and the length of one item if items would leave much of the longest segment empty.
pub(crate) fn segments_tried(item_bytes: usize) -> impl Iterator<Item = usize> {
    let own_bytes = item_bytes.next_multiple_of(BLOCK_BYTES);
    let longest_bytes = SEGMENT_BYTES_MAX.max(own_bytes);
    let halvings = (0..=SEGMENT_HALVINGS)
        .map(move |shift| (longest_bytes >> shift).next_multiple_of(BLOCK_BYTES));
    let is_between = own_bytes > longest_bytes / 2 && own_bytes < longest_bytes;
    halvings
        .chain(is_between.then_some(own_bytes))
        .filter(move |&segment_bytes| segment_bytes >= item_bytes)
}

impl PartitionPlan {
    /// A plan for `job` with these buckets and all wishes.
    pub(crate) fn new(job: JobSize, buckets: Buckets, wishes: Wishes) -> Self {
        let Buckets { segment_bytes, .. } = buckets;
        let element_bytes = wishes.element_bytes.unwrap_or(1);
        let (threads, drive_count) = (job.threads, job.drive_count);
        let (read_block_bytes, reads_in_flight) =
            read_window(&job, element_bytes, wishes.reads_max);
        let share_bytes = (job.memory_bytes / (32 * threads.max(2) as u64)) as usize;
        let chunk_bytes = share_bytes.clamp(64 << 10, 1 << 20).max(2 * element_bytes);
        PartitionPlan {
            job,
            element_bytes: wishes.element_bytes,
            distributions: buckets.distributions,
            bucket_count: buckets.count,
            bucket_count_last: buckets.count_last,
            segment_bytes,
            segment_payload_bytes: segment_bytes / element_bytes * element_bytes,
            extent_segments: match buckets.has_extents {
                true => ((1 << 20) / segment_bytes).max(1),
                false => 1,
            },
            read_block_bytes,
            reads_in_flight,
            open_chunks: drive_count
                .div_ceil(threads)
                .clamp(1, wishes.open_chunks_max),
            line_bytes_max: element_bytes,
            writes_in_flight: ((4 << 20) / segment_bytes).clamp(4, 64),
            resident_segments: 0,
            bucket_bytes_max: buckets.bytes_max,
            areas: wishes.areas + (2 * drive_count).div_ceil(threads).min(6) - 1,
            chunk_bytes: match wishes.has_chunks {
                true => chunk_bytes.next_multiple_of(BLOCK_BYTES) + BLOCK_BYTES,
                false => 0,
            },
            chunks: match wishes.has_chunks {
                true => 4 + 2 * drive_count.min(8) / threads,
                false => 0,
            },
            scratch_bytes: 0,
            predicted_read_bytes: 0,
            predicted_written_bytes: 0,
            predicted_seconds: 0.0,
            phases: Vec::new(),
            amounts: [("", Amounts::NOTHING); 3],
            moving_seconds: 0.0,
            computing_seconds: 0.0,
            cost: 0.0,
        }
    }

    /// Total slots for segment buffers, with `split_slots` per thread for buckets that turn out too
    /// large.
    pub(crate) fn slots(&self, split_slots: usize) -> usize {
        self.slots_in_use(split_slots) + self.resident_segments
    }

    /// One buffer per bucket, those being written, and those for splitting an oversized bucket
    /// while the partly filled ones stay.
    pub(crate) fn slots_in_use(&self, split_slots: usize) -> usize {
        self.job.threads * (self.bucket_count + self.writes_in_flight + split_slots)
    }

    /// Number of segments of the data, if all of them are full.
    pub(crate) fn data_segments(&self) -> u64 {
        let payload_bytes = self.segment_payload_bytes.max(1) as u64;
        self.job.data_bytes.div_ceil(payload_bytes)
    }

    /// Approximate number of whole segments that a bucket gets from one thread.
    pub(crate) fn expected_segments(&self) -> usize {
        let streams = (self.bucket_count * self.job.threads) as u64;
        let each_bytes = self.job.data_bytes / streams.max(1);
        (each_bytes / self.segment_payload_bytes.max(1) as u64) as usize
    }

    /// Number of whole segments that a bucket almost certainly gets from one thread.
    fn sure_segments(&self) -> usize {
        let expected = self.expected_segments();
        expected - expected.div_ceil(8)
    }

    /// Size of an area: the bucket in whole segments, room to align it like the file, and a border
    /// block for each short segment.
    pub fn area_bytes(&self) -> usize {
        let segments = self
            .bucket_bytes_max
            .div_ceil(self.segment_payload_bytes.max(1));
        let spare_bytes = (2 + 4 * self.job.threads) * BLOCK_BYTES;
        (segments * self.segment_bytes + spare_bytes).next_multiple_of(BLOCK_BYTES)
    }

    /// Segments that a thread reads at once when a bucket is distributed again, in the memory of
    /// the input's reads.
    pub(crate) fn split_reads(&self) -> usize {
        ((self.read_block_bytes * self.reads_in_flight) / self.segment_bytes).max(SPLIT_READS_MIN)
    }

    /// Bytes of the segments that are read at once, and of their buffers, over all threads.
    pub(crate) fn split_bytes(&self) -> u64 {
        Pool::total_bytes(self.segment_bytes, self.job.threads * self.split_reads())
    }

    /// How the input is read in order.
    pub(crate) fn region_sizes(&self) -> RegionSizes {
        RegionSizes {
            block_bytes: self.read_block_bytes,
            open_chunks: self.open_chunks,
            reads_a_chunk: self.reads_in_flight.div_ceil(self.open_chunks).max(2),
            record_bytes_max: self.line_bytes_max,
        }
    }

    /// How segments are written and read back.
    pub(crate) fn segment_sizes(&self, split_slots: usize) -> SegmentSizes {
        SegmentSizes {
            segment_bytes: self.segment_bytes,
            full_bytes: self.element_bytes.map_or(0, |_| self.segment_payload_bytes),
            extent_segments: self.extent_segments,
            sure_segments: self.sure_segments(),
            writes_in_flight: self.writes_in_flight,
            resident_segments: self.resident_segments,
            split_reads: self.split_reads(),
            slots: self.slots(split_slots),
        }
    }

    /// The first part of a ledger: descriptions of segments and of `input_runs` runs of the input,
    /// `tables_bytes` of small tables, and buffers of buckets.
    pub(crate) fn ledger(
        &self,
        job: &'static str,
        input_runs: u64,
        tables_bytes: u64,
        split_slots: usize,
    ) -> Ledger {
        let segments = self.data_segments() + 1;
        let descriptions_bytes = SEGMENT_META_BYTES * segments + INPUT_RUN_BYTES * input_runs;
        let slots = self.slots(split_slots);
        let ledger = match self.job.data_bytes < HUGE_PAGES_FROM_BYTES {
            true => Ledger::new(job).in_small_pages(),
            false => Ledger::new(job),
        };
        ledger
            .always(
                DESCRIPTIONS,
                FIXED_BYTES + descriptions_bytes + tables_bytes,
            )
            .always(BUCKETS, Pool::total_bytes(self.segment_bytes, slots))
    }

    /// This ledger with the memory for reading in order: blocks, and lines that span blocks.
    pub(crate) fn with_regions(&self, ledger: Ledger, across_bytes: u64) -> Ledger {
        let (threads, sizes) = (self.job.threads, self.region_sizes());
        let reads_bytes = Pool::total_bytes(sizes.slot_bytes(), sizes.slots() * threads);
        ledger
            .during("distribute", INPUT, reads_bytes)
            .during("distribute", ACROSS, across_bytes)
    }

    /// Memory for lines that span blocks; a thread may have `long_lines` long ones at once.
    /// Assembled lines grow by doubling.
    pub(crate) fn across_bytes(&self, long_lines: usize) -> u64 {
        match self.element_bytes {
            Some(_) => 0,
            None => (2 * long_lines * self.job.threads * self.line_bytes_max) as u64,
        }
    }

    /// Areas and output buffers of a thread.
    pub(crate) fn areas_bytes(&self, area_bytes: usize) -> u64 {
        (self.areas * area_bytes + self.chunks * self.chunk_bytes) as u64
    }

    /// Bytes that go to scratch in the first distribution.
    fn away_bytes(&self) -> f64 {
        let buffered_bytes = self.job.threads * self.bucket_count * self.segment_bytes / 2;
        let resident_bytes = (self.resident_segments * self.segment_payload_bytes) as f64 * 0.95;
        match self.distributions {
            0 => 0.0,
            _ => (self.job.data_bytes as f64 - resident_bytes - buffered_bytes as f64).max(0.0),
        }
    }

    /// Predicts traffic and time: of a `sample` (reads, bytes), of the distributions, and of the
    /// work on one bucket after another, which writes the rest of the data.
    fn predict(
        &mut self,
        sample_reads: f64,
        sample_bytes: f64,
        counted_bytes: Option<f64>,
        last_phase: &'static str,
        items: f64,
        costs: KindCosts,
    ) {
        let data_bytes = self.job.data_bytes as f64;
        let away_bytes = match counted_bytes {
            Some(_) => 0.0,
            None => self.away_bytes(),
        };
        let again_bytes = match counted_bytes {
            Some(_) => 0.0,
            None => data_bytes * f64::from(self.distributions.saturating_sub(1)),
        };
        let segments = |bytes: f64| bytes / self.segment_payload_bytes.max(1) as f64;
        let sure = self.sure_segments();
        let extent_segments = self.extent_segments.min(sure).max(1);
        // Segments beyond these are not adjacent to others.
        let joined = sure as f64 / self.expected_segments().max(1) as f64;
        let loads = segments(away_bytes) * (joined / extent_segments as f64 + 1.0 - joined)
            + data_bytes / self.bucket_bytes_max.max(1) as f64;
        let times = f64::from(self.distributions.max(1));
        let computing = |core_seconds: f64| core_seconds / self.job.threads as f64;
        let bytes = |bytes: f64| Forecast::About(bytes as u64);
        let sample = Amounts {
            input: bytes(sample_bytes),
            requests: sample_reads,
            ..Amounts::NOTHING
        };
        let distribute = Amounts {
            input: bytes(data_bytes),
            scratch_read: bytes(again_bytes),
            scratch_written: bytes(away_bytes + again_bytes),
            requests: data_bytes / self.read_block_bytes as f64
                + segments(away_bytes)
                + 2.0 * segments(again_bytes),
            computing_seconds: computing(times * costs.distribute.seconds(items, data_bytes)),
            ..Amounts::NOTHING
        };
        let last = Amounts {
            scratch_read: bytes(away_bytes),
            output: bytes(counted_bytes.unwrap_or(data_bytes)),
            requests: loads,
            computing_seconds: computing(costs.finish.seconds(items, data_bytes)),
            ..Amounts::NOTHING
        };
        let layout = &self.job.layout;
        let parts = [sample, distribute, last];
        let moving = |amounts: &Amounts| {
            let moves = amounts.moves().unwrap_or_default();
            layout.moving_seconds(&Moves {
                requests: 0.0,
                ..moves
            })
        };
        // Fewer requests are worth something even if the drives can serve more.
        let requests: f64 = parts.iter().map(|amounts| amounts.requests).sum();
        let each = layout.requests_per_s() * self.job.drive_count as f64;
        self.moving_seconds = parts.iter().map(moving).sum::<f64>() + requests / each;
        self.computing_seconds = parts.iter().map(|amounts| amounts.computing_seconds).sum();
        self.amounts = [
            (SAMPLE, sample),
            (DISTRIBUTE, distribute),
            (last_phase, last),
        ];
        // Segments that are read to be distributed again free their space. Per bucket and thread,
        // the last block is half empty; the last extent may also be, if the bucket gets less than
        // expected.
        let live_bytes = match again_bytes {
            0.0 => away_bytes,
            // All data, and one bucket twice while it is read and written.
            _ => data_bytes * (1.0 + 1.0 / self.bucket_count as f64),
        };
        let streams = |buckets: f64| buckets * self.job.threads as f64;
        let open_bytes =
            streams(self.bucket_count as f64) * (extent_segments * self.segment_bytes) as f64 / 2.0;
        let last_bytes = streams(self.bucket_count_last) * BLOCK_BYTES as f64 / 2.0;
        self.scratch_bytes = match live_bytes {
            0.0 => 0,
            bytes => (bytes + open_bytes + last_bytes) as u64,
        };
    }

    /// Turns the amounts of the chosen plan into the predictions of its phases.
    fn predict_phases(&mut self) {
        let layout = &self.job.layout;
        let phases = self.amounts.iter();
        let phases = phases.map(|(name, amounts)| PhasePlan::new(name, *amounts, layout));
        let moves = |plan: &PhasePlan| {
            plan.read_bytes != Forecast::NOTHING || plan.written_bytes != Forecast::NOTHING
        };
        self.phases = phases.filter(moves).collect();
        self.add_up();
    }

    /// A sample already exists.
    pub(crate) fn reads_no_sample(&mut self) {
        self.phases.retain(|phase| phase.name != SAMPLE);
        self.add_up();
    }

    /// Items are made from `read` bytes.
    pub(crate) fn reads_instead(&mut self, read: Forecast) {
        for phase in &mut self.phases {
            if phase.name == DISTRIBUTE {
                let amounts = Amounts {
                    input: read,
                    ..*phase.amounts()
                };
                *phase = phase.redone(amounts, &self.job.layout);
            }
        }
        self.add_up();
    }

    /// Sorted items go to a consumer that writes this many bytes.
    pub(crate) fn writes_instead(&mut self, written: Forecast) {
        if let Some(last) = self.phases.last_mut() {
            let amounts = Amounts {
                output: written,
                ..*last.amounts()
            };
            *last = last.redone(amounts, &self.job.layout);
        }
        self.add_up();
    }

    /// Adds up the traffic and the time of all phases, as far as they are known.
    fn add_up(&mut self) {
        let phases = &self.phases;
        let read = phases.iter().filter_map(|phase| phase.read_bytes.bytes());
        self.predicted_read_bytes = read.sum();
        let written = phases
            .iter()
            .filter_map(|phase| phase.written_bytes.bytes());
        self.predicted_written_bytes = written.sum();
        self.predicted_seconds = phases.iter().filter_map(|phase| phase.seconds).sum();
    }

    /// The plan for people: `what` is done, `notes` on the distribution and the steps after it, the
    /// ledger.
    pub(crate) fn describe(
        &self,
        f: &mut fmt::Formatter<'_>,
        what: &str,
        notes: &[String],
        last_phase: &str,
        ledger: &Ledger,
    ) -> fmt::Result {
        let job = &self.job;
        let bytes = |value: usize| units::bytes(value as u64);
        writeln!(
            f,
            "{what} in {} of memory on {}, {}",
            units::bytes(job.memory_bytes),
            units::counted(job.threads as u64, "thread"),
            units::counted(job.drive_count as u64, "drive")
        )?;
        match (self.distributions, self.scratch_bytes) {
            (0, _) => writeln!(f, "  fits in memory: one pass, nothing goes to scratch")?,
            (_, 0) => writeln!(f, "  items that a table has no room for go to scratch")?,
            (n, _) => writeln!(
                f,
                "  {} through scratch, then bucket by bucket",
                units::counted(u64::from(n), "distribution")
            )?,
        }
        writeln!(
            f,
            "  distribute: {}, segments of {}, reads of {} ({} in flight per thread)",
            units::counted(self.bucket_count as u64, "bucket"),
            bytes(self.segment_bytes),
            bytes(self.read_block_bytes),
            self.reads_in_flight
        )?;
        for note in notes {
            writeln!(f, "  {note}")?;
        }
        writeln!(
            f,
            "  {last_phase}: buckets up to {}, {} per thread; {} may stay in memory",
            bytes(self.bucket_bytes_max),
            units::counted(self.areas as u64, "area"),
            bytes(self.resident_segments * self.segment_bytes)
        )?;
        let scratch_bytes = Some(self.scratch_bytes);
        let costs = Some(job.costs.origin);
        let predicted = predicted_text(&self.phases, scratch_bytes, &job.layout, costs);
        writeln!(f, "  {predicted}")?;
        write!(f, "{ledger}")
    }
}

/// Lets a kind of plan be read like its common parts: `job` and `common`.
macro_rules! stands_on_common {
    ($size:ty, $plan:ty) => {
        impl std::ops::Deref for $size {
            type Target = $crate::job::JobSize;

            fn deref(&self) -> &Self::Target {
                &self.job
            }
        }

        impl std::ops::Deref for $plan {
            type Target = $crate::partition::plan::PartitionPlan;

            fn deref(&self) -> &Self::Target {
                &self.common
            }
        }

        impl std::ops::DerefMut for $plan {
            fn deref_mut(&mut self) -> &mut Self::Target {
                &mut self.common
            }
        }
    };
}
pub(crate) use stands_on_common;

/// Length and number of input reads: enough to keep all drives busy, 4 MiB each, in an eighth of
/// the memory. If memory is short, reads first become shorter, then fewer.
fn read_window(job: &JobSize, element_bytes: usize, reads_max: usize) -> (usize, usize) {
    let allowed_bytes = (job.memory_bytes / 8) as usize / job.threads;
    let wanted = (3 * job.drive_count).div_ceil(job.threads);
    let wanted = wanted.min(reads_max).max(reads_min(job));
    let mut block_bytes = READ_BYTES_MAX;
    while block_bytes > READ_BYTES_WANTED && block_bytes * wanted > allowed_bytes {
        block_bytes /= 2;
    }
    // Small data are divided among all threads.
    let share_bytes = (job.data_bytes / (4 * job.threads as u64)).next_multiple_of(64 << 10);
    let block_bytes = block_bytes
        .min((share_bytes as usize).max(64 << 10))
        .max(4 * element_bytes);
    let reads = wanted.min((allowed_bytes / block_bytes).max(reads_min(job)));
    (block_bytes, reads)
}

/// Smallest number of input reads of a thread, for any memory.
fn reads_min(job: &JobSize) -> usize {
    (READS_MIN * job.drive_count)
        .div_ceil(job.threads)
        .clamp(THREAD_READS_MIN, READS_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_hold_an_item_and_leave_little_of_themselves_empty() {
        let tried = |item_bytes| segments_tried(item_bytes).collect::<Vec<_>>();
        let halvings: Vec<_> = (0..=7).map(|shift| (512 << 10) >> shift).collect();
        assert_eq!(tried(8), halvings);
        assert_eq!(tried(5000), halvings[..7]);
        assert_eq!(tried(320 << 10), [512 << 10, 320 << 10]);
        assert_eq!(tried(512 << 10), [512 << 10]);
        assert_eq!(tried(1_000_000), [1_003_520]);
    }
}
