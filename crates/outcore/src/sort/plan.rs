//! The plan of a sort of numbers or records.
//!
//! Contract: [`plan_sort`] is pure. It is [`crate::partition::plan`] with splitters from a sample,
//! any number of buckets up to the limit of one distribution, and space in which a bucket is
//! sorted.

use std::fmt;

use super::in_memory::entries_bytes;
use super::radix::numbers_space_bytes;
use crate::ends::{EDGES, EDGES_BYTES};
use crate::job::{JobSize, KindCosts};
pub use crate::partition::plan::PartitionPlan;
use crate::partition::plan::{
    AREA_BYTES_MAX, Buckets, INPUT_RUN_BYTES, Planned, Wishes, best_of, on_fewer_threads,
    plan_within, segments_tried, stands_on_common,
};
pub(crate) use crate::partition::plan::{BUCKETS_MAX, INPUT};
use crate::partition::{SPLIT_SEGMENTS, SegmentSizes};
use crate::read::sample::SAMPLE;
use outcore_io::memory::{BLOCK_BYTES, Ledger, Pool, block_ceil};
use outcore_io::{Result, units};

/// Largest number of buckets if that saves a whole pass over many terabytes; bucket numbers have 16
/// bits.
const WIDE_BUCKETS_MAX: usize = 16384;
/// Buffers per thread for splitting a bucket that turned out too large.
const SPLIT_SLOTS: usize = 18;
/// Places per bucket at which the input is sampled.
const SAMPLE_PLACES: u64 = 4;
/// The reservation for loading, sorting and writing buckets.
pub(crate) const SORTING: &str = "buckets that are sorted, and their output";

/// The parameters of a sort.
#[derive(Debug, Clone, PartialEq)]
pub struct SortSize {
    /// The size of the job.
    pub job: JobSize,
    /// Bytes of an element.
    pub element_bytes: usize,
    /// Whether an element is a scalar (sorted in place) or a record (sorted by reference).
    pub is_scalar: bool,
    /// Whether positions in the input are kept (`--stable`).
    pub is_ordered: bool,
}

/// The plan of a sort.
#[derive(Debug, Clone, PartialEq)]
pub struct SortPlan {
    /// The size for which the plan was made.
    pub size: SortSize,
    /// Buckets, buffers and traffic.
    pub common: PartitionPlan,
    /// Whether threads take long stretches of the input instead of alternating: if order matters,
    /// this leaves fewer runs to remember.
    pub is_sequential: bool,
    /// Random places at which the input is sampled.
    pub sample_reads: usize,
    /// Bytes of elements taken at each.
    pub sample_read_bytes: usize,
}

stands_on_common!(SortSize, SortPlan);

impl SortSize {
    /// Memory for sorting a bucket, in addition to the bucket itself: the radix sort's copy for
    /// scalars, references and their copy for records.
    pub fn sort_space_bytes(&self, bucket_bytes: usize) -> u64 {
        if self.is_scalar {
            block_ceil(numbers_space_bytes(bucket_bytes as u64, self.element_bytes))
        } else {
            entries_bytes((bucket_bytes / self.element_bytes) as u64)
        }
    }

    /// The largest mean size of buckets that sort quickly. Larger buckets mean fewer and longer
    /// writes during the distribution.
    const BUCKET_BYTES_GOOD: usize = 16 << 20;
}

impl SortPlan {
    /// Additional buckets that the first distribution may have for frequent values: each takes one
    /// buffer per thread from the segments that may stay in memory.
    pub fn spare_buckets(&self) -> usize {
        let own = match self.distributions {
            0 => self.data_segments() as usize,
            _ => 0,
        };
        let spare = self.resident_segments.saturating_sub(own) / self.size.threads;
        spare.min(self.bucket_count)
    }

    /// Total slots for segment buffers.
    pub fn segment_slots(&self) -> usize {
        self.slots(SPLIT_SLOTS)
    }

    /// How segments are written and read back.
    pub(crate) fn segment_sizes(&self) -> SegmentSizes {
        self.common.segment_sizes(SPLIT_SLOTS)
    }

    /// Upper bound on the input runs that an ordered job records. Each of the last buckets has one
    /// per stretch of input that a thread took, and each of `segments` has one more.
    fn input_runs(&self, segments: u64) -> u64 {
        if !self.size.is_ordered {
            return 0;
        }
        let records = self.size.data_bytes / self.size.element_bytes as u64;
        let blocks = self.size.data_bytes / self.read_block_bytes as u64 + 1;
        let stretches = match (self.is_sequential, self.size.threads) {
            (false, _) => blocks as f64,
            (true, 1) => 1.0,
            // Each stretch is the rest of the blocks divided by 2 P.
            (true, threads) => 2.0 * threads as f64 * ((blocks as f64).ln() + 1.0),
        };
        let stretches = stretches.min(blocks as f64);
        segments + ((self.bucket_count_last * stretches) as u64).min(records)
    }

    /// All reservations of the sort.
    pub fn ledger(&self) -> Ledger {
        self.reservations()
            .filled("sample", SAMPLE, self.size.memory_bytes)
    }
}

impl Planned for SortPlan {
    const CHUNKS_MIN: usize = 3;
    const LAST_PHASE: &'static str = "sort";

    fn reservations(&self) -> Ledger {
        let threads = self.size.threads;
        let sample_bytes = self.sample_read_bytes.max(self.size.element_bytes);
        let read_bytes = self.read_block_bytes + 2 * BLOCK_BYTES;
        let space_bytes = self.size.sort_space_bytes(self.bucket_bytes_max);
        let input_runs = self.input_runs(self.data_segments() + 1);
        self.common
            .ledger("sort", input_runs, 0, SPLIT_SLOTS)
            .during(
                "sample",
                SAMPLE,
                block_ceil(sample_bytes as u64) + 2 * BLOCK_BYTES as u64,
            )
            .during(
                "distribute",
                INPUT,
                Pool::total_bytes(read_bytes, threads * self.reads_in_flight),
            )
            .during("split", SPLIT_SEGMENTS, self.split_bytes())
            .during("sort", EDGES, EDGES_BYTES)
            .during(
                "sort",
                SORTING,
                threads as u64 * (self.areas_bytes(self.area_bytes()) + space_bytes),
            )
    }

    /// Segments beyond those of the data are for equality buckets.
    fn segments_wanted(&self) -> (u64, u64) {
        let segments = self.data_segments();
        let equality_buckets = self.bucket_count * self.size.threads;
        (segments, segments + equality_buckets as u64)
    }

    /// A small preference for buckets that sort quickly, if the drives do not decide.
    fn detour(&self) -> f64 {
        let oversize = self.bucket_bytes_max as f64 / SortSize::BUCKET_BYTES_GOOD as f64;
        1.0 + 0.02 * oversize.log2().abs()
    }

    fn work(&self) -> (f64, KindCosts) {
        let items = self.size.data_bytes as f64 / self.size.element_bytes as f64;
        let costs = match self.size.is_scalar {
            true => self.size.costs.numbers,
            false => self.size.costs.records,
        };
        (items, costs)
    }

    /// Hundreds of sampled elements per bucket, from a few places per bucket. In sorted input, the
    /// elements of one place are adjacent and give no more information than a single element. Reads
    /// at most 1/16 of the data.
    fn choose_sample(&mut self) -> (f64, f64) {
        let size = &self.size;
        let element_bytes = size.element_bytes as u64;
        let buckets = self.bucket_count as u64;
        let allowed = (size.data_bytes / 16).max(64 << 10);
        let places = (SAMPLE_PLACES * buckets)
            .clamp(256, 4096)
            .min(allowed / BLOCK_BYTES as u64);
        let total = (256 * buckets * element_bytes)
            .clamp(256 << 10, 8 << 20)
            .max(SAMPLE_PLACES * buckets * element_bytes)
            .min(size.memory_bytes / 16)
            .min(allowed);
        let each = (total / places).min(64 << 10).max(element_bytes);
        self.sample_read_bytes = each as usize;
        self.sample_reads = places.min(total / each).max(1) as usize;
        let read_bytes = self.sample_read_bytes.next_multiple_of(BLOCK_BYTES);
        let reads = self.sample_reads as f64;
        (reads, reads * read_bytes as f64)
    }
}

/// Plans the sort of `size`, on fewer threads if the memory is too small for all of them.
///
/// # Errors
/// [`Kind::Memory`](crate::Kind::Memory) with the least memory that is enough, if there is too
/// little even for one thread.
pub fn plan_sort(size: SortSize) -> Result<SortPlan> {
    let items = format!(
        "in records of {}",
        units::counted(size.element_bytes as u64, "byte")
    );
    plan_within(size.job.clone(), "plan sort", &items, |job| {
        on_fewer_threads(job, |job| best_plan(&SortSize { job, ..size }))
    })
}

fn best_plan(size: &SortSize) -> Option<SortPlan> {
    let few = best_of((1..=4).flat_map(|levels| candidates(size, levels, BUCKETS_MAX)));
    match few {
        Some(plan) if plan.distributions < 2 => Some(plan),
        _ => best_of(few.into_iter().chain(candidates(size, 1, WIDE_BUCKETS_MAX))),
    }
}

/// Plans with this number of distributions, each of at most `buckets_max` buckets.
fn candidates(
    size: &SortSize,
    distributions: u32,
    buckets_max: usize,
) -> impl Iterator<Item = SortPlan> + use<'_> {
    let segments = segments_tried(size.element_bytes);
    let choices =
        segments.flat_map(|segment_bytes| (0..=9).map(move |shift| (segment_bytes, shift)));
    choices.filter_map(move |(segment_bytes, bucket_shift)| {
        let average_bytes = (SortSize::BUCKET_BYTES_GOOD >> bucket_shift)
            .max(4 * size.element_bytes)
            .max(2 * segment_bytes);
        let wanted = size.data_bytes.div_ceil(average_bytes as u64).max(1);
        let each = match distributions {
            1 => wanted.max(size.threads as u64),
            _ => (wanted as f64).powf(1.0 / f64::from(distributions)).ceil() as u64,
        };
        // If these are too many buckets for one distribution, the buckets become larger, as far as
        // memory allows.
        let count = each.clamp(1, buckets_max as u64) as usize;
        let count_last = (count as f64).powf(f64::from(distributions));
        let average_bytes = (size.data_bytes as f64 / count_last).ceil() as usize;
        // With a sample of hundreds per bucket, the largest bucket exceeds the average by at most a
        // third; small buckets vary more.
        let bytes_max = average_bytes.saturating_mul(3) / 2 + 2 * segment_bytes;
        let buckets = Buckets {
            distributions,
            count,
            count_last,
            bytes_max: bytes_max.next_multiple_of(size.element_bytes),
            segment_bytes,
            has_extents: distributions == 1,
        };
        (buckets.bytes_max <= AREA_BYTES_MAX).then(|| with_buckets(size.clone(), buckets))
    })
}

fn with_buckets(size: SortSize, buckets: Buckets) -> SortPlan {
    let wishes = Wishes {
        element_bytes: Some(size.element_bytes),
        // N.B. more areas take more from resident segments than they gain.
        areas: 4,
        has_chunks: !size.is_scalar,
        open_chunks_max: 1,
        reads_max: usize::MAX,
    };
    let mut plan = SortPlan {
        common: PartitionPlan::new(size.job.clone(), buckets, wishes),
        size,
        is_sequential: false,
        sample_reads: 0,
        sample_read_bytes: 0,
    };
    plan.is_sequential = INPUT_RUN_BYTES * plan.input_runs(0) > plan.size.memory_bytes / 64;
    plan
}

impl fmt::Display for SortPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = format!("sort {}", units::bytes(self.size.data_bytes));
        let sample = format!(
            "sample: {} reads of {}",
            self.sample_reads,
            units::bytes(self.sample_read_bytes as u64)
        );
        self.describe(f, &what, &[sample], "sort", &self.ledger())
    }
}
