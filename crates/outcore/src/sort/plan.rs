//! The plan of a sort: pure arithmetic from sizes to passes, buffers and predicted traffic.
//!
//! | letter | meaning | here |
//! |---|---|---|
//! | N | bytes of data | `data_bytes` |
//! | M | bytes of memory | `memory_bytes` |
//! | D | drives | `drive_count` |
//! | B | bytes of a transfer | `segment_bytes`, `read_block_bytes` |
//! | P | threads | `threads` |
//!
//! Contract: [`plan_sort`] does no I/O and gives the same plan for the same numbers. It finds the
//! cheapest way (bytes over bandwidth plus requests over request rate) that fits the memory, on as
//! many of the threads as have room in it: data that fits is distributed in memory and written once;
//! larger data goes through scratch once, or twice where one distribution has too few buckets for
//! the memory (PALID, SPAA 2025, section 4: samplesort). Where nothing fits, the error names the
//! least memory that would do.
//!
//! Memory is what [`SortPlan::ledger`] names. In the first phase: input blocks in flight, one segment buffer a thread and bucket,
//! segments being written. In the second: areas in which buckets are loaded, sorted and written,
//! the sort's own space. What both leave over keeps whole buckets in memory (*resident*), which
//! never go to scratch. Segment buffers that are part full at the end of a phase stay in memory.

use std::fmt;

use crate::ends::{EDGES, EDGES_BYTES};
use crate::partition::plan::{FIXED_BYTES, PIECE_BYTES, SEGMENT_META_BYTES, least_memory_bytes};
use crate::partition::{BUCKETS, SPLIT_READS_MIN, SPLIT_SEGMENTS};
use crate::read::sample::SAMPLE;
use outcore_io::drive::rates::DriveRates;
use outcore_io::memory::{BLOCK_BYTES, Ledger, Pool, block_ceil};
use outcore_io::units;
use outcore_io::{Error, Kind, Result};

/// Most buckets of one distribution: beyond them every store misses the caches.
pub const BUCKETS_MAX: usize = 2048;
/// Most where that saves a whole pass over data of many terabytes; numbers have 16 bits.
const WIDE_BUCKETS_MAX: usize = 16384;
/// Buffers a thread for splitting a bucket that turned out too large.
pub const SPLIT_SLOTS: usize = 18;
/// Largest segment: beyond it the drives gain nothing.
const SEGMENT_BYTES_MAX: usize = 256 << 10;
/// Largest bucket that is sorted at once: offsets in it have 32 bits.
const LEAF_BYTES_MAX: usize = (u32::MAX / 2) as usize;
/// Places a bucket at which the input is sampled.
const SAMPLE_PLACES: u64 = 4;
/// Reservations by name: buffers of the distribution, what it reads, what a bucket is split with, and
/// what buckets are loaded, sorted and written in.
pub(crate) const INPUT: &str = "input blocks";
pub(crate) const SORTING: &str = "buckets that are sorted, and their output";

/// What a sort is about, in numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SortSize {
    /// Bytes of all input data.
    pub data_bytes: u64,
    /// Bytes of an element.
    pub element_bytes: usize,
    /// Whether an element is a bare number (sorted in place) or a record (sorted by reference).
    pub is_bare: bool,
    /// Whether the place in the input is kept (`--stable`).
    pub is_ordered: bool,
    /// The memory cap.
    pub memory_bytes: u64,
    /// Threads.
    pub threads: usize,
    /// Drives that data go to.
    pub drive_count: usize,
    /// How fast one of them is.
    pub rates: DriveRates,
}

/// How a sort will be done.
#[derive(Debug, Clone, PartialEq)]
pub struct SortPlan {
    /// What it is for.
    pub size: SortSize,
    /// Times that data go to scratch: 0, 1, 2, ...
    pub levels: u32,
    /// Buckets of one distribution.
    pub bucket_count: usize,
    /// Size of a segment buffer, and of a write to scratch.
    pub segment_bytes: usize,
    /// Bytes of whole elements in a segment.
    pub segment_payload_bytes: usize,
    /// Neighbouring segments of one bucket on scratch.
    pub extent_segments: usize,
    /// Size of an input read.
    pub read_block_bytes: usize,
    /// Whether threads take long stretches of the input instead of turns: where order counts, this
    /// leaves fewer runs to remember.
    pub is_sequential: bool,
    /// Input reads in flight a thread.
    pub reads_in_flight: usize,
    /// Segment writes in flight a thread.
    pub writes_in_flight: usize,
    /// Segments that may stay in memory.
    pub resident_segments: usize,
    /// Largest bucket that is sorted at once.
    pub leaf_bytes_max: usize,
    /// Areas for buckets a thread.
    pub areas: usize,
    /// Size of a buffer in which records are put in order for writing.
    pub chunk_bytes: usize,
    /// Such buffers a thread; 0 for bare numbers, which are sorted in place.
    pub chunks: usize,
    /// Random places at which the input is sampled.
    pub sample_reads: usize,
    /// Bytes of elements taken at each.
    pub sample_read_bytes: usize,
    /// Bytes of scratch that will be in use at once, about.
    pub scratch_bytes: u64,
    /// Predicted bytes read.
    pub predicted_read_bytes: u64,
    /// Predicted bytes written.
    pub predicted_written_bytes: u64,
    /// Predicted time at the assumed rates of the drives.
    pub predicted_seconds: f64,
}

impl SortSize {
    /// Memory for a bucket while it is sorted, besides the bucket itself: the radix sort's copy
    /// for bare numbers, references and their copy for records.
    pub fn sort_space_bytes(&self, leaf_bytes: usize) -> u64 {
        if self.is_bare {
            leaf_bytes as u64
        } else {
            32 * (leaf_bytes / self.element_bytes) as u64
        }
    }

    fn payload_of(&self, segment_bytes: usize) -> usize {
        segment_bytes / self.element_bytes * self.element_bytes
    }
}

impl SortPlan {
    /// Slots for segment buffers in all.
    pub fn segment_slots(&self) -> usize {
        self.slots_in_use() + self.resident_segments
    }

    /// Buckets, beyond those planned, that the first distribution may have where values are
    /// frequent: each takes a buffer a thread from the segments that may stay in memory.
    pub fn spare_buckets(&self) -> usize {
        let own = match self.levels {
            0 => self
                .size
                .data_bytes
                .div_ceil(self.segment_payload_bytes as u64) as usize,
            _ => 0,
        };
        let spare = self.resident_segments.saturating_sub(own) / self.size.threads;
        spare.min(self.bucket_count)
    }

    /// Whole segments that a bucket gets from one thread, about.
    pub fn expected_segments(&self) -> usize {
        let streams = (self.bucket_count * self.size.threads) as u64;
        let each_bytes = self.size.data_bytes / streams.max(1);
        (each_bytes / self.segment_payload_bytes.max(1) as u64) as usize
    }

    /// Size of an area: the bucket, room to lay it out like the file, and a border block for
    /// each short segment.
    pub fn area_bytes(&self) -> usize {
        let spare = (2 + 3 * self.size.threads) * BLOCK_BYTES;
        (self.segment_stride(self.leaf_bytes_max) + spare).next_multiple_of(BLOCK_BYTES)
    }

    /// Bytes that `payload_bytes` of elements take in whole segments.
    fn segment_stride(&self, payload_bytes: usize) -> usize {
        payload_bytes.div_ceil(self.segment_payload_bytes.max(1)) * self.segment_bytes
    }

    /// Memory in which buckets are sorted.
    fn sorting_bytes(&self) -> u64 {
        let areas = self.areas * self.area_bytes() + self.chunks * self.chunk_bytes;
        let space = self.size.sort_space_bytes(self.leaf_bytes_max);
        self.size.threads as u64 * (areas as u64 + space)
    }

    /// One buffer a bucket, those being written, and those with which a bucket that turned out
    /// too large is split while the part-filled ones stay.
    fn slots_in_use(&self) -> usize {
        self.size.threads * (self.bucket_count + self.writes_in_flight + SPLIT_SLOTS)
    }

    fn meta_bytes(&self) -> u64 {
        let segments = self.size.data_bytes / self.segment_payload_bytes.max(1) as u64 + 1;
        segments * SEGMENT_META_BYTES + PIECE_BYTES * self.pieces(segments)
    }

    /// Runs of the input that an ordered job notes, at most: in each of the last buckets as many as
    /// there are stretches of input that one thread took, and one in each segment.
    fn pieces(&self, segments: u64) -> u64 {
        if !self.size.is_ordered {
            return 0;
        }
        let records = self.size.data_bytes / self.size.element_bytes as u64;
        let blocks = self.size.data_bytes / self.read_block_bytes as u64 + 1;
        let leaves = (self.bucket_count as f64).powf(f64::from(self.levels.max(1)));
        let stretches = match (self.is_sequential, self.size.threads) {
            (false, _) => blocks as f64,
            (true, 1) => 1.0,
            // Each takes one in 2 P of what is left.
            (true, threads) => 2.0 * threads as f64 * ((blocks as f64).ln() + 1.0),
        };
        segments + ((leaves * stretches.min(blocks as f64)) as u64).min(records)
    }

    /// Segments that a thread reads at once where a bucket is split.
    pub(crate) fn split_reads(&self) -> usize {
        ((self.read_block_bytes * self.reads_in_flight) / self.segment_bytes).max(SPLIT_READS_MIN)
    }

    /// All that the sort reserves.
    pub fn ledger(&self) -> Ledger {
        let memory_bytes = self.size.memory_bytes;
        self.reservations().filled("sample", SAMPLE, memory_bytes)
    }

    fn reservations(&self) -> Ledger {
        let threads = self.size.threads;
        let segments_bytes = |count| Pool::total_bytes(self.segment_bytes, count);
        let sample_bytes = self.sample_read_bytes.max(self.size.element_bytes);
        let read_bytes = self.read_block_bytes + 2 * BLOCK_BYTES;
        let reads_bytes = Pool::total_bytes(read_bytes, threads * self.reads_in_flight);
        Ledger::new("sort")
            .always(
                "descriptions and small tables",
                FIXED_BYTES + self.meta_bytes(),
            )
            .always(BUCKETS, segments_bytes(self.segment_slots()))
            .during(
                "sample",
                SAMPLE,
                block_ceil(sample_bytes as u64) + 2 * BLOCK_BYTES as u64,
            )
            .during("distribute", INPUT, reads_bytes)
            .during(
                "split",
                SPLIT_SEGMENTS,
                segments_bytes(threads * self.split_reads()),
            )
            .during("sort", EDGES, EDGES_BYTES)
            .during("sort", SORTING, self.sorting_bytes())
    }

    /// The least of it: without what may stay in memory, before anything is filled up.
    fn needed_bytes(&self) -> u64 {
        self.reservations().bytes()
    }
}

/// The least memory, in whole MiB, with which `size` can be sorted on one thread.
fn least_memory(size: SortSize) -> Option<u64> {
    least_memory_bytes(size.memory_bytes, |memory_bytes| {
        let size = SortSize {
            memory_bytes,
            threads: 1,
            ..size
        };
        best_plan(size).is_some()
    })
}

/// Plans the sort of `size`, on fewer threads where the memory is too small for all of them;
/// [`Kind::Memory`] with the least memory that would do if it does not fit even one.
pub fn plan_sort(size: SortSize) -> Result<SortPlan> {
    let size = SortSize {
        threads: size.threads.max(1),
        drive_count: size.drive_count.max(1),
        ..size
    };
    let halves = std::iter::successors(Some(size.threads), |&threads| {
        (threads > 1).then_some(threads / 2)
    });
    let mut plans = halves.filter_map(|threads| best_plan(SortSize { threads, ..size }));
    plans.next().ok_or_else(|| {
        let least = least_memory(size).map_or_else(|| "more".to_string(), units::bytes_exact);
        Error::new(
            Kind::Memory,
            "plan sort",
            format!(
                "{} of memory are too little for {} in records of {} bytes",
                units::bytes(size.memory_bytes),
                units::bytes(size.data_bytes),
                size.element_bytes,
            ),
        )
        .hint(format!("allow at least --memory {least}"))
    })
}

fn best_plan(size: SortSize) -> Option<SortPlan> {
    let mut best: Option<SortPlan> = None;
    let widths = [1, 2, 3, 4].map(|levels| (levels, BUCKETS_MAX));
    for (levels, buckets_max) in widths.into_iter().chain([(1, WIDE_BUCKETS_MAX)]) {
        if buckets_max > BUCKETS_MAX && best.as_ref().is_some_and(|plan| plan.levels < 2) {
            continue;
        }
        for shift in 0..=6 {
            let largest = SEGMENT_BYTES_MAX.max(size.element_bytes.next_multiple_of(BLOCK_BYTES));
            let segment_bytes = (largest >> shift).next_multiple_of(BLOCK_BYTES);
            if size.payload_of(segment_bytes) == 0 {
                continue;
            }
            for leaf_shift in 0..=8 {
                let plan = candidate(size, levels, buckets_max, segment_bytes, leaf_shift);
                let is_better = |plan: &SortPlan| {
                    best.as_ref()
                        .is_none_or(|b| plan.predicted_seconds < b.predicted_seconds)
                };
                if let Some(plan) = plan.filter(is_better) {
                    best = Some(plan);
                }
            }
        }
    }
    best
}

/// Where a leaf's sort is fastest: it stays in the second-level cache or nearly so.
const fn leaf_bytes_best(is_bare: bool) -> usize {
    if is_bare { 4 << 20 } else { 8 << 20 }
}

/// A plan with these choices, if it fits the memory.
fn candidate(
    size: SortSize,
    levels: u32,
    buckets_max: usize,
    segment_bytes: usize,
    leaf_shift: u32,
) -> Option<SortPlan> {
    let average_bytes = leaf_bytes_best(size.is_bare) >> leaf_shift;
    let average_bytes = average_bytes
        .max(4 * size.element_bytes)
        .max(2 * segment_bytes);
    let leaves = size.data_bytes.div_ceil(average_bytes as u64).max(1);
    let bucket_count = if levels == 1 {
        leaves.max(size.threads as u64)
    } else {
        (leaves as f64).powf(1.0 / f64::from(levels)).ceil() as u64
    };
    // Too many for one level: make the buckets larger, as far as memory goes.
    let bucket_count = bucket_count.clamp(1, buckets_max as u64) as usize;
    let leaves_reached = (bucket_count as f64).powf(f64::from(levels));
    let average_bytes = (size.data_bytes as f64 / leaves_reached).ceil() as usize;
    // A sample of hundreds a bucket leaves the largest within a third of the average; small
    // buckets vary more.
    let leaf_bytes_max =
        (average_bytes * 3 / 2 + 2 * segment_bytes).next_multiple_of(size.element_bytes);
    if leaf_bytes_max > LEAF_BYTES_MAX {
        return None;
    }
    let per_thread_areas = 4 + (2 * size.drive_count).div_ceil(size.threads).min(6) - 1;
    let (read_block_bytes, reads_in_flight) = read_window(size);
    let mut plan = SortPlan {
        size,
        levels,
        bucket_count,
        segment_bytes,
        segment_payload_bytes: size.payload_of(segment_bytes),
        extent_segments: if levels == 1 {
            ((1 << 20) / segment_bytes).max(1)
        } else {
            1
        },
        read_block_bytes,
        is_sequential: false,
        reads_in_flight,
        writes_in_flight: ((4 << 20) / segment_bytes).clamp(4, 64),
        resident_segments: 0,
        leaf_bytes_max,
        areas: per_thread_areas,
        chunk_bytes: if size.is_bare { 0 } else { chunk_bytes(size) },
        chunks: if size.is_bare {
            0
        } else {
            4 + 2 * size.drive_count.min(8) / size.threads.max(1)
        },
        sample_reads: 0,
        sample_read_bytes: 0,
        scratch_bytes: 0,
        predicted_read_bytes: 0,
        predicted_written_bytes: 0,
        predicted_seconds: 0.0,
    };
    plan.is_sequential = PIECE_BYTES * plan.pieces(0) > size.memory_bytes / 64;
    // Most of what is tried does not fit, whatever is given up below.
    let least = SortPlan {
        areas: 2,
        chunks: plan.chunks.min(3),
        writes_in_flight: 2,
        reads_in_flight: 2,
        ..plan.clone()
    };
    if least.needed_bytes() > size.memory_bytes {
        return None;
    }
    let wanted = plan.clone();
    shrink_to_fit(&mut plan);
    let spare_bytes = size.memory_bytes.checked_sub(plan.needed_bytes())?;
    keep_resident(&mut plan, spare_bytes);
    choose_sample(&mut plan);
    predict(&mut plan);
    plan.predicted_seconds *= 1.0 + shortfall(&wanted, &plan);
    Some(plan)
}

/// Input reads: 4 MiB each, two or more a drive in flight, a tenth of the memory at most.
fn read_window(size: SortSize) -> (usize, usize) {
    let allowed = (size.memory_bytes / 10) as usize / size.threads;
    let wanted_reads = (3 * size.drive_count).div_ceil(size.threads).max(3);
    let mut block_bytes = 4 << 20;
    while block_bytes > 256 << 10 && block_bytes * wanted_reads > allowed {
        block_bytes /= 2;
    }
    let small = (size.data_bytes / (4 * size.threads as u64)).next_multiple_of(64 << 10) as usize;
    let block_bytes = block_bytes
        .min(small.max(64 << 10))
        .max(4 * size.element_bytes);
    (
        block_bytes,
        wanted_reads.min((allowed / block_bytes).max(2)),
    )
}

fn chunk_bytes(size: SortSize) -> usize {
    let wanted = ((size.memory_bytes / 64) as usize).clamp(128 << 10, 1 << 20);
    wanted
        .max(2 * size.element_bytes)
        .next_multiple_of(BLOCK_BYTES)
        + BLOCK_BYTES
}

/// Gives up windows step by step where the memory is too small for comfort.
fn shrink_to_fit(plan: &mut SortPlan) {
    let memory_bytes = plan.size.memory_bytes;
    while plan.needed_bytes() > memory_bytes && plan.areas > 2 {
        plan.areas -= 1;
    }
    while plan.needed_bytes() > memory_bytes && plan.chunks > 3 {
        plan.chunks -= 1;
    }
    while plan.needed_bytes() > memory_bytes && plan.writes_in_flight > 4 {
        plan.writes_in_flight /= 2;
    }
    while plan.needed_bytes() > memory_bytes && plan.reads_in_flight > 2 {
        plan.reads_in_flight -= 1;
    }
}

/// How much slower a plan is for its windows having been shrunk, about: drives idle when too few
/// buckets are being loaded and written.
fn shortfall(wanted: &SortPlan, got: &SortPlan) -> f64 {
    let lack = |wanted: usize, got: usize| 1.0 - got as f64 / wanted.max(1) as f64;
    0.2 * lack(wanted.areas, got.areas)
        + 0.1 * lack(wanted.reads_in_flight, got.reads_in_flight)
        + 0.05 * lack(wanted.chunks, got.chunks)
        + 0.05 * lack(wanted.writes_in_flight, got.writes_in_flight)
}

/// Spends what is left on buckets that never go to scratch.
fn keep_resident(plan: &mut SortPlan, spare_bytes: u64) {
    let segments = plan
        .size
        .data_bytes
        .div_ceil(plan.segment_payload_bytes as u64);
    let affordable = spare_bytes / plan.segment_bytes as u64;
    if plan.levels > 1 {
        return;
    }
    // Those beyond the data's own are for equality buckets.
    let equality_buckets = (plan.bucket_count * plan.size.threads) as u64;
    plan.resident_segments = affordable.min(segments + equality_buckets) as usize;
    if affordable >= segments {
        plan.levels = 0;
    }
}

/// Hundreds of sampled elements a bucket, from a few places a bucket: in sorted input the elements
/// of one place are neighbours and tell no more than one. At most 1/16 of the data is read.
fn choose_sample(plan: &mut SortPlan) {
    let size = &plan.size;
    let element_bytes = size.element_bytes as u64;
    let buckets = plan.bucket_count as u64;
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
    plan.sample_read_bytes = each as usize;
    plan.sample_reads = places.min(total / each).max(1) as usize;
}

fn predict(plan: &mut SortPlan) {
    let size = &plan.size;
    let data_bytes = size.data_bytes as f64;
    let buffered = (size.threads * plan.bucket_count * plan.segment_bytes / 2) as f64;
    let resident = (plan.resident_segments * plan.segment_payload_bytes) as f64 * 0.95;
    let first = if plan.levels == 0 {
        0.0
    } else {
        (data_bytes - resident - buffered).max(0.0)
    };
    let scratch_bytes = first + data_bytes * f64::from(plan.levels.saturating_sub(1));
    let sample_bytes =
        (plan.sample_reads * plan.sample_read_bytes.next_multiple_of(BLOCK_BYTES)) as f64;
    let read_bytes = data_bytes + scratch_bytes + sample_bytes;
    let written_bytes = data_bytes + scratch_bytes;
    let run = if plan.levels == 1 {
        plan.extent_segments
    } else {
        1
    };
    let requests = data_bytes / plan.read_block_bytes as f64
        + scratch_bytes / plan.segment_payload_bytes as f64 * (1.0 + 1.0 / run as f64)
        + data_bytes / plan.leaf_bytes_max as f64
        + plan.sample_reads as f64;
    // Reads and writes of a phase overlap, so the larger of the two counts.
    let moved_bytes = (read_bytes, written_bytes);
    let seconds = size.rates.seconds(moved_bytes, requests, size.drive_count);
    // A nudge towards leaves that sort in cache, where the drives do not care.
    let oversize = plan.leaf_bytes_max as f64 / (2 * leaf_bytes_best(size.is_bare)) as f64;
    let sort_penalty = 1.0 + 0.02 * oversize.log2().abs();
    // What is read to be distributed again makes room. Of a bucket and thread the first segment and
    // the last extent are half empty.
    let live_bytes = match plan.levels {
        0 | 1 => first,
        // All data, and one bucket twice while it is read and written.
        _ => data_bytes * (1.0 + 1.0 / plan.bucket_count as f64),
    };
    let leaves = (plan.bucket_count as f64).powf(f64::from(plan.levels));
    let streams = leaves * size.threads as f64;
    let extent_segments = plan.extent_segments.min(plan.expected_segments()).max(1);
    let open_bytes = streams * ((extent_segments + 1) * plan.segment_bytes) as f64 / 2.0;
    plan.scratch_bytes = match live_bytes {
        0.0 => 0,
        bytes => (bytes + open_bytes) as u64,
    };
    plan.predicted_read_bytes = read_bytes as u64;
    plan.predicted_written_bytes = written_bytes as u64;
    plan.predicted_seconds = seconds * sort_penalty;
}

impl fmt::Display for SortPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = &self.size;
        let bytes = |value: usize| units::bytes(value as u64);
        writeln!(
            f,
            "sort {} in {} of memory on {}, {}",
            units::bytes(size.data_bytes),
            units::bytes(size.memory_bytes),
            units::counted(size.threads as u64, "thread"),
            units::counted(size.drive_count as u64, "drive")
        )?;
        match self.levels {
            0 => writeln!(f, "  fits in memory: one pass, nothing goes to scratch")?,
            n => writeln!(
                f,
                "  {} through scratch, then bucket by bucket",
                units::counted(u64::from(n), "distribution")
            )?,
        }
        writeln!(
            f,
            "  distribute: {} buckets, segments of {}, reads of {} ({} in flight a thread)",
            self.bucket_count,
            bytes(self.segment_bytes),
            bytes(self.read_block_bytes),
            self.reads_in_flight
        )?;
        writeln!(
            f,
            "  sample: {} reads of {}",
            self.sample_reads,
            bytes(self.sample_read_bytes)
        )?;
        writeln!(
            f,
            "  sort: buckets up to {}, {} areas a thread; {} may stay in memory",
            bytes(self.leaf_bytes_max),
            self.areas,
            bytes(self.resident_segments * self.segment_bytes)
        )?;
        writeln!(
            f,
            "  predicted: reads {}, writes {}, scratch {}, {:.1} s at {}",
            units::bytes(self.predicted_read_bytes),
            units::bytes(self.predicted_written_bytes),
            units::bytes(self.scratch_bytes),
            self.predicted_seconds,
            self.size.rates,
        )?;
        write!(f, "{}", self.ledger())
    }
}
