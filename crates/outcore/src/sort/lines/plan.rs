//! The plan of a sort of lines: pure arithmetic from sizes to buckets, buffers and traffic.
//!
//! Contract: [`plan_lines`] does no I/O and gives the same plan for the same numbers, which a sample
//! of the input tells (how long lines and keys are, how many differ). As for records
//! ([`crate::sort::plan`]): data that fit are distributed in memory and written once, larger data go
//! through scratch once, or, where that would take more buckets than memory has buffers for, as often
//! as its buckets have to be distributed again; so does a bucket that turns out too large. Few distinct
//! lines are counted in tables instead, and only what finds no place in them goes on.
//!
//! Memory is what [`LinePlan::ledger`] names. In the first phase: input blocks in flight, the longest
//! line that is being put together, one segment buffer a thread and bucket, segments being written,
//! tables. In the second: areas in which buckets are loaded, 32 bytes a line of references and their
//! copy, keys, output chunks.

use std::fmt;
use std::ops::RangeInclusive;

use super::bucket::Space;
use crate::ends::{EDGES, EDGES_BYTES};
use crate::partition::plan::{FIXED_BYTES, PIECE_BYTES, SEGMENT_META_BYTES, least_memory_bytes};
use crate::partition::{BUCKETS, SPLIT_READS_MIN, SPLIT_SEGMENTS, SegmentSizes};
use crate::read::regions::{LINE_BYTES_LIMIT, RegionSizes};
use outcore_io::drive::rates::DriveRates;
use outcore_io::memory::{BLOCK_BYTES, Ledger, Pool};
use outcore_io::units;
use outcore_io::{Error, Kind, Result};

/// Most buckets of one distribution: beyond them every store misses the caches.
const BUCKETS_MAX: usize = 2048;
/// Buffers a thread for splitting a bucket that turned out too large.
pub(super) const SPLIT_BUCKETS: usize = 16;
/// Parts that a split makes of a bucket, at least.
const SPLIT_FACTOR: f64 = (SPLIT_BUCKETS / 2) as f64;
/// Halvings of the number of buckets that are tried where memory is short.
const BUCKET_SHIFTS: u32 = 10;
/// Bytes that a bucket's description takes in memory.
const BUCKET_META_BYTES: u64 = 256;
const SEGMENT_BYTES_MAX: usize = 256 << 10;
const SEGMENT_BYTES_MIN: usize = 4 << 10;
/// Where a bucket's sort is fastest, keys and references included.
const LEAF_BYTES_BEST: u64 = 8 << 20;
/// Bytes of references a line: one, and its copy in the radix sort.
pub(crate) const REF_BYTES: u64 = 32;
/// Bytes in front of each key: where its line is.
pub(crate) const KEY_HEAD_BYTES: u64 = 8;
/// A sample of keys that nothing shorter tells apart, at least.
pub(super) const LONG_KEYS_BYTES_MIN: u64 = 256 << 10;
/// Reservations by name: buffers of the distribution, what it reads, what a bucket is split with, and
/// what buckets are loaded, sorted and written in.
pub(super) const TABLES: &str = "tables of lines";
pub(super) const INPUT: &str = "input blocks";
pub(super) const ACROSS: &str = "lines across blocks";
pub(super) const LONG_KEYS: &str = "a sample of long keys";
pub(super) const SORTING: &str = "buckets that are sorted, and their output";
/// Bytes of a table a distinct line, besides the line itself.
pub(super) const TABLE_ENTRY_BYTES: f64 = 40.0;

/// What a sort of lines is about, in numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LineSize {
    /// Bytes of all input data.
    pub data_bytes: u64,
    /// Mean length of a line, with its terminator.
    pub line_bytes: f64,
    /// Mean length of a key; 0 where lines are their own keys.
    pub key_bytes: f64,
    /// Different lines, about, where that was looked for.
    pub distinct: Option<u64>,
    /// Whether lines of equal keys keep their order.
    pub is_ordered: bool,
    /// Whether one line a key is written.
    pub is_unique: bool,
    /// The memory for it.
    pub memory_bytes: u64,
    /// What the job holds beside it, out of the same cap.
    pub held_bytes: u64,
    /// Threads.
    pub threads: usize,
    /// Drives that data go to.
    pub drive_count: usize,
    /// How fast one of them is.
    pub rates: DriveRates,
}

/// How lines will be sorted.
#[derive(Debug, Clone, PartialEq)]
pub struct LinePlan {
    /// What it is for.
    pub size: LineSize,
    /// Times that data go to scratch: 0 or 1, more where one distribution has too few buckets.
    pub levels: u32,
    /// Bytes a thread for a table of distinct lines; 0 for none.
    pub table_bytes: u64,
    /// Buckets of the distribution.
    pub bucket_count: usize,
    /// Size of a segment buffer, and of a write to scratch.
    pub segment_bytes: usize,
    /// Neighbouring segments of one bucket on scratch.
    pub extent_segments: usize,
    /// Size of an input read.
    pub read_block_bytes: usize,
    /// Input reads in flight a thread.
    pub reads_in_flight: usize,
    /// Segment writes in flight a thread.
    pub writes_in_flight: usize,
    /// Segments that may stay in memory.
    pub resident_segments: usize,
    /// The longest line.
    pub line_bytes_max: usize,
    /// Largest bucket that is loaded beside others.
    pub leaf_bytes_max: usize,
    /// Most lines of such a bucket.
    pub leaf_lines_max: u64,
    /// Most bytes of keys of such a bucket, their heads included.
    pub leaf_key_bytes_max: u64,
    /// Areas for buckets a thread.
    pub areas: usize,
    /// Size of a buffer in which lines are put in order for writing.
    pub chunk_bytes: usize,
    /// Such buffers a thread.
    pub chunks: usize,
    /// Bytes of scratch that will be in use at once, about.
    pub scratch_bytes: u64,
    /// Predicted bytes read.
    pub predicted_read_bytes: u64,
    /// Predicted bytes written, at most.
    pub predicted_written_bytes: u64,
    /// Predicted time at the assumed rates of the drives.
    pub predicted_seconds: f64,
}

impl LineSize {
    /// Bytes of references and keys a byte of lines.
    fn overhead(&self) -> f64 {
        (REF_BYTES as f64 + self.key_space_bytes()) / self.line_bytes.max(1.0)
    }

    /// Bytes a line in the space for keys.
    fn key_space_bytes(&self) -> f64 {
        match self.key_bytes {
            0.0 => 0.0,
            bytes => bytes + KEY_HEAD_BYTES as f64,
        }
    }
}

impl LinePlan {
    /// Slots for segment buffers in all.
    pub(super) fn segment_slots(&self) -> usize {
        self.slots_in_use() + self.resident_segments
    }

    /// Size of an area for a bucket that is loaded beside others.
    pub(super) fn area_bytes(&self) -> usize {
        let segments = self.leaf_bytes_max.div_ceil(self.segment_bytes);
        let blocks = self.leaf_bytes_max.div_ceil(BLOCK_BYTES);
        (blocks + segments + 3 * self.size.threads + 2) * BLOCK_BYTES
    }

    /// Memory for a bucket that is loaded beside others.
    pub(super) fn leaf_space(&self) -> Space {
        Space {
            area_bytes: self.area_bytes() as u64,
            lines: self.leaf_lines_max,
            key_bytes: self.leaf_key_bytes_max,
        }
    }

    /// How the input is read.
    pub(super) fn region_sizes(&self) -> RegionSizes {
        let lanes = match self.size.is_ordered {
            true => 1,
            false => self.reads_in_flight.div_ceil(3).max(1),
        };
        RegionSizes {
            block_bytes: self.read_block_bytes,
            lanes,
            reads_a_lane: (self.reads_in_flight / lanes).max(2),
            record_bytes_max: self.line_bytes_max,
        }
    }

    /// Length of the stretches of input that threads take: where order counts long ones, for each
    /// leaves a run in every bucket to remember.
    pub(super) fn chunk_of_input_bytes(&self) -> u64 {
        let threads = self.size.threads as u64;
        let share = match self.size.is_ordered {
            true => self.size.data_bytes / (16 * threads),
            false => (self.size.data_bytes / (16 * threads)).min(64 << 20),
        };
        share.max(self.read_block_bytes as u64).max(64 << 10)
    }

    /// Segments that a bucket gets from one thread, about.
    pub(super) fn expected_segments(&self) -> usize {
        let streams = (self.bucket_count * self.size.threads) as u64;
        (self.size.data_bytes / streams.max(1) / self.segment_bytes as u64) as usize
    }

    /// Segments that a thread reads at once where a bucket is split: in the memory of the input's reads.
    fn split_reads(&self) -> usize {
        ((self.read_block_bytes * self.reads_in_flight) / self.segment_bytes).max(SPLIT_READS_MIN)
    }

    /// How segments are written and read back.
    pub(super) fn segment_sizes(&self) -> SegmentSizes {
        SegmentSizes {
            segment_bytes: self.segment_bytes,
            full_bytes: 0,
            extent_segments: self.extent_segments,
            expected_segments: self.expected_segments(),
            writes_in_flight: self.writes_in_flight,
            resident_segments: self.resident_segments,
            split_reads: self.split_reads(),
            slots: self.segment_slots(),
        }
    }

    /// Memory in which buckets are sorted, all of which one large bucket may have for itself.
    fn sorting_bytes(&self) -> u64 {
        let areas = self.areas * self.area_bytes() + self.chunks * self.chunk_bytes;
        let space = REF_BYTES * self.leaf_lines_max + self.leaf_key_bytes_max;
        self.size.threads as u64 * (areas as u64 + space)
    }

    fn slots_in_use(&self) -> usize {
        self.size.threads * (self.bucket_count + self.writes_in_flight + SPLIT_BUCKETS)
    }

    /// Buckets in the end, at most, where all are split as planned.
    fn leaves_count(&self) -> u64 {
        match self.levels {
            0 | 1 => self.bucket_count as u64,
            _ => 2 * self.size.data_bytes / self.leaf_bytes_max as u64,
        }
    }

    /// The least of it, before anything is filled up.
    fn ledger_bytes(&self) -> u64 {
        self.reservations().bytes()
    }

    /// What is not in buffers: descriptions of segments and buckets, counts, small tables.
    fn descriptions_bytes(&self) -> u64 {
        let segments = self.size.data_bytes / self.segment_bytes as u64 + 1;
        let pieces = match self.size.is_ordered {
            true => 16 * (16 * self.size.threads * self.bucket_count) as u64,
            false => 0,
        };
        let counts = 64 * (self.size.threads * self.bucket_count) as u64;
        FIXED_BYTES
            + segments * (SEGMENT_META_BYTES + PIECE_BYTES)
            + self.leaves_count() * BUCKET_META_BYTES
            + pieces
            + counts
    }

    /// All that the sort reserves. What is left over when buckets are sorted may take larger ones.
    pub fn ledger(&self) -> Ledger {
        self.reservations()
            .filled("split", LONG_KEYS, self.size.memory_bytes)
            .filled("sort", SORTING, self.size.memory_bytes)
    }

    fn reservations(&self) -> Ledger {
        let threads = self.size.threads as u64;
        let sizes = self.region_sizes();
        let reads = self.size.threads * sizes.slots();
        // What is put together grows by doubling.
        let across_bytes = 2 * threads * self.line_bytes_max as u64;
        let segments_bytes = |count| Pool::total_bytes(self.segment_bytes, count);
        Ledger::new("sort of lines")
            .always("descriptions and small tables", self.descriptions_bytes())
            .always(TABLES, threads * self.table_bytes)
            .always(BUCKETS, segments_bytes(self.segment_slots()))
            .during(
                "distribute",
                INPUT,
                Pool::total_bytes(sizes.slot_bytes(), reads),
            )
            .during("distribute", ACROSS, across_bytes)
            .during(
                "split",
                SPLIT_SEGMENTS,
                segments_bytes(self.size.threads * self.split_reads()),
            )
            .during("split", LONG_KEYS, LONG_KEYS_BYTES_MIN)
            .during("sort", EDGES, EDGES_BYTES)
            .during("sort", SORTING, self.sorting_bytes())
    }
}

/// Plans the sort of `size`, on fewer threads where the memory is too small for all of them.
///
/// # Errors
/// [`Kind::Memory`] with the least memory that would do if it does not fit even one.
pub fn plan_lines(size: LineSize) -> Result<LinePlan> {
    let size = LineSize {
        threads: size.threads.max(1),
        drive_count: size.drive_count.max(1),
        line_bytes: size.line_bytes.max(1.0),
        ..size
    };
    if let Some(plan) = plan_on_fewer(size) {
        return Ok(plan);
    }
    let least = least_memory(size).map(|bytes| (bytes + size.held_bytes).next_multiple_of(1 << 20));
    let least = least.map_or_else(|| "more".to_string(), units::bytes_exact);
    let cause = format!(
        "{} of memory are too little for {} of lines of about {:.0} bytes",
        units::bytes(size.memory_bytes + size.held_bytes),
        units::bytes(size.data_bytes),
        size.line_bytes,
    );
    let hint = format!("allow at least --memory {least}");
    Err(Error::new(Kind::Memory, "plan the sort of lines", cause).hint(hint))
}

/// The least memory, in whole MiB, with which one thread can sort `size`.
fn least_memory(size: LineSize) -> Option<u64> {
    least_memory_bytes(size.memory_bytes, |memory_bytes| {
        let size = LineSize {
            memory_bytes,
            threads: 1,
            ..size
        };
        best_plan(size).is_some()
    })
}

fn plan_on_fewer(size: LineSize) -> Option<LinePlan> {
    let halves = std::iter::successors(Some(size.threads), |&threads| {
        (threads > 1).then_some(threads / 2)
    });
    let mut plans = halves.filter_map(|threads| best_plan(LineSize { threads, ..size }));
    plans.next()
}

/// Bytes a thread for a table, if all distinct lines are likely to find a place in it.
fn table_bytes(size: &LineSize) -> u64 {
    let allowed = size.memory_bytes as f64 * 0.6 / size.threads as f64;
    match size.distinct {
        Some(distinct) if size.is_unique => {
            // Room for a half more: an estimate.
            let wanted = 1.5 * distinct as f64 * (size.line_bytes + TABLE_ENTRY_BYTES);
            match wanted <= allowed {
                true => (wanted as u64).max(256 << 10).min(allowed as u64),
                false => 0,
            }
        }
        _ => 0,
    }
}

fn best_plan(size: LineSize) -> Option<LinePlan> {
    // Longer segments only where there would be too many of them to remember.
    let shifts = [0..=6, -2..=-1];
    let tables = [table_bytes(&size), 0];
    let kinds = tables
        .into_iter()
        .flat_map(|table_bytes| shifts.clone().map(|shifts| (table_bytes, shifts)));
    kinds
        .filter_map(|(table_bytes, shifts)| best_of(size, table_bytes, shifts))
        .next()
}

fn best_of(
    size: LineSize,
    table_bytes: u64,
    segment_shifts: RangeInclusive<i32>,
) -> Option<LinePlan> {
    let mut best: Option<LinePlan> = None;
    for segment_shift in segment_shifts {
        let segment_bytes = (SEGMENT_BYTES_MAX as f64 * f64::from(-segment_shift).exp2()) as usize;
        let segment_bytes = segment_bytes.max(SEGMENT_BYTES_MIN);
        for (leaf_shift, bucket_shift) in
            (-6..=8).flat_map(|leaf| (0..BUCKET_SHIFTS).map(move |bucket| (leaf, bucket)))
        {
            let choice = Choice {
                table_bytes,
                segment_bytes,
                leaf_shift,
                buckets_max: BUCKETS_MAX >> bucket_shift,
            };
            let is_better = |plan: &LinePlan| {
                let seconds = |plan: &LinePlan| plan.predicted_seconds;
                best.as_ref().is_none_or(|b| seconds(plan) < seconds(b))
            };
            if let Some(plan) = candidate(size, choice).filter(is_better) {
                best = Some(plan);
            }
        }
    }
    best
}

/// What is tried.
#[derive(Debug, Clone, Copy)]
struct Choice {
    table_bytes: u64,
    segment_bytes: usize,
    /// Halvings of the best bucket.
    leaf_shift: i32,
    buckets_max: usize,
}

/// A plan with these choices, if it fits the memory.
fn candidate(size: LineSize, choice: Choice) -> Option<LinePlan> {
    let Choice {
        table_bytes,
        segment_bytes,
        leaf_shift,
        buckets_max,
    } = choice;
    let best_bytes = LEAF_BYTES_BEST as f64 / (1.0 + size.overhead());
    let average_bytes = best_bytes * f64::from(-leaf_shift).exp2();
    let average_bytes = average_bytes.max(2.0 * segment_bytes as f64).max(4096.0);
    let leaves = (size.data_bytes as f64 / average_bytes).ceil() as usize;
    if buckets_max < BUCKETS_MAX && leaves <= buckets_max {
        // The same as with more.
        return None;
    }
    let bucket_count = leaves.max(size.threads).clamp(1, buckets_max);
    let reached_bytes = (size.data_bytes as f64 / bucket_count as f64).ceil();
    // Too many for one distribution: each bucket is split until its parts are small enough.
    let splits = match reached_bytes > 1.01 * average_bytes {
        true => (reached_bytes / average_bytes).log(SPLIT_FACTOR).ceil() as u32,
        false => 0,
    };
    let average_bytes = reached_bytes.min(average_bytes);
    let (read_block_bytes, reads_in_flight) = read_window(&size);
    let lines = average_bytes / size.line_bytes;
    let mut plan = LinePlan {
        size,
        levels: 1 + splits,
        table_bytes,
        bucket_count,
        segment_bytes,
        extent_segments: ((1 << 20) / segment_bytes).max(1),
        read_block_bytes,
        reads_in_flight,
        writes_in_flight: ((4 << 20) / segment_bytes).clamp(4, 64),
        resident_segments: 0,
        line_bytes_max: ((size.memory_bytes / 32) as usize).clamp(64 << 10, LINE_BYTES_LIMIT),
        // A sample of hundreds a bucket leaves the largest within a third of the average; lines and
        // keys of a bucket may be shorter or longer than all others'.
        leaf_bytes_max: (average_bytes * 1.5) as usize + 2 * segment_bytes,
        leaf_lines_max: (lines * 2.0) as u64 + 64,
        leaf_key_bytes_max: (lines * 2.0 * size.key_space_bytes()) as u64 + 4096,
        areas: 3 + (2 * size.drive_count).div_ceil(size.threads).min(6) - 1,
        chunk_bytes: chunk_bytes(size.memory_bytes),
        chunks: 4 + 2 * size.drive_count.min(8) / size.threads,
        scratch_bytes: 0,
        predicted_read_bytes: 0,
        predicted_written_bytes: 0,
        predicted_seconds: 0.0,
    };
    if plan.area_bytes() > (u32::MAX / 2) as usize {
        return None;
    }
    // Most of what is tried does not fit, whatever is given up below.
    let least = LinePlan {
        areas: 2,
        chunks: 2,
        writes_in_flight: 4,
        reads_in_flight: 2,
        line_bytes_max: 32 << 10,
        ..plan.clone()
    };
    if least.ledger_bytes() > size.memory_bytes {
        return None;
    }
    let wanted = (plan.areas, plan.reads_in_flight, plan.chunks);
    shrink_to_fit(&mut plan);
    let spare_bytes = size.memory_bytes.checked_sub(plan.ledger_bytes())?;
    let segments = size.data_bytes / segment_bytes as u64 + plan.slots_in_use() as u64;
    let affordable = spare_bytes / segment_bytes as u64;
    if splits == 0 {
        plan.resident_segments = affordable.min(segments) as usize;
        if affordable >= segments || size.data_bytes == 0 {
            plan.levels = 0;
        }
    }
    predict(&mut plan);
    let lack = |wanted: usize, got: usize| 1.0 - got as f64 / wanted.max(1) as f64;
    plan.predicted_seconds *= 1.0
        + 0.2 * lack(wanted.0, plan.areas)
        + 0.1 * lack(wanted.1, plan.reads_in_flight)
        + 0.05 * lack(wanted.2, plan.chunks);
    Some(plan)
}

/// Input reads: 4 MiB each, three a drive in flight, a tenth of the memory at most.
fn read_window(size: &LineSize) -> (usize, usize) {
    let allowed = (size.memory_bytes / 10) as usize / size.threads;
    let wanted_reads = (3 * size.drive_count).div_ceil(size.threads).max(3);
    let mut block_bytes = 4 << 20;
    while block_bytes > 64 << 10 && block_bytes * wanted_reads > allowed {
        block_bytes /= 2;
    }
    let small = (size.data_bytes / (4 * size.threads as u64)).next_multiple_of(64 << 10) as usize;
    let block_bytes = block_bytes.min(small.max(64 << 10));
    let reads = wanted_reads.min((allowed / block_bytes).max(2));
    (block_bytes, reads)
}

fn chunk_bytes(memory_bytes: u64) -> usize {
    let wanted = ((memory_bytes / 64) as usize).clamp(64 << 10, 1 << 20);
    wanted.next_multiple_of(BLOCK_BYTES) + BLOCK_BYTES
}

/// Gives up windows step by step where the memory is too small for comfort.
fn shrink_to_fit(plan: &mut LinePlan) {
    let memory_bytes = plan.size.memory_bytes;
    let is_too_much = |plan: &LinePlan| plan.ledger_bytes() > memory_bytes;
    while is_too_much(plan) && plan.areas > 2 {
        plan.areas -= 1;
    }
    while is_too_much(plan) && plan.chunks > 2 {
        plan.chunks -= 1;
    }
    while is_too_much(plan) && plan.writes_in_flight > 4 {
        plan.writes_in_flight /= 2;
    }
    while is_too_much(plan) && plan.reads_in_flight > 2 {
        plan.reads_in_flight -= 1;
    }
    while is_too_much(plan) && plan.line_bytes_max > 64 << 10 {
        plan.line_bytes_max /= 2;
    }
}

fn predict(plan: &mut LinePlan) {
    let size = &plan.size;
    let data_bytes = size.data_bytes as f64;
    let buffered = (size.threads * plan.bucket_count * plan.segment_bytes / 2) as f64;
    let resident = (plan.resident_segments * plan.segment_bytes) as f64 * 0.95;
    let kept = match (plan.table_bytes, size.distinct) {
        (0, _) | (_, None) => data_bytes,
        (_, Some(distinct)) => distinct as f64 * size.line_bytes,
    };
    let scratch_bytes = match (plan.levels, plan.table_bytes) {
        (0, _) => 0.0,
        (_, 0) => (data_bytes - resident - buffered).max(0.0),
        _ => 0.0,
    };
    let split_bytes = f64::from(plan.levels.saturating_sub(1)) * scratch_bytes;
    let read_bytes = data_bytes + scratch_bytes + split_bytes;
    let written_bytes = kept + scratch_bytes + split_bytes;
    let requests = data_bytes / plan.read_block_bytes as f64
        + (scratch_bytes + split_bytes) / plan.segment_bytes as f64
            * (1.0 + 1.0 / plan.extent_segments as f64)
        + data_bytes / plan.leaf_bytes_max as f64;
    let moved_bytes = (read_bytes, written_bytes);
    let seconds = size.rates.seconds(moved_bytes, requests, size.drive_count);
    // A nudge towards leaves that sort in cache, where the drives do not care.
    let leaf_bytes = plan.leaf_bytes_max as f64 * (1.0 + size.overhead());
    let oversize = leaf_bytes / (1.5 * LEAF_BYTES_BEST as f64);
    let open_segments = plan.extent_segments.min(plan.expected_segments()).max(1) + 1;
    let open_bytes =
        (plan.bucket_count * size.threads * open_segments * plan.segment_bytes) as f64 / 2.0;
    plan.scratch_bytes = match scratch_bytes {
        0.0 => 0,
        bytes => (bytes + open_bytes) as u64,
    };
    plan.predicted_read_bytes = read_bytes as u64;
    plan.predicted_written_bytes = written_bytes as u64;
    plan.predicted_seconds = seconds * (1.0 + 0.02 * oversize.log2().abs());
}

impl fmt::Display for LinePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = &self.size;
        let bytes = |value: usize| units::bytes(value as u64);
        writeln!(
            f,
            "sort {} of lines in {} of memory on {}, {}",
            units::bytes(size.data_bytes),
            units::bytes(size.memory_bytes),
            units::counted(size.threads as u64, "thread"),
            units::counted(size.drive_count as u64, "drive")
        )?;
        let keys = match size.key_bytes {
            0.0 => "which are their own keys".to_string(),
            bytes => format!("with keys of about {bytes:.0} bytes"),
        };
        writeln!(f, "  lines of about {:.0} bytes, {keys}", size.line_bytes)?;
        if self.table_bytes > 0 {
            writeln!(
                f,
                "  about {} different lines: counted in a table of {} a thread",
                size.distinct.unwrap_or(0),
                units::bytes(self.table_bytes)
            )?;
        }
        match (self.levels, self.table_bytes) {
            (0, _) => writeln!(f, "  fits in memory: one pass, nothing goes to scratch")?,
            (n, 0) => writeln!(
                f,
                "  {} through scratch, then bucket by bucket",
                units::counted(u64::from(n), "distribution")
            )?,
            _ => writeln!(f, "  what finds no place in a table goes through scratch")?,
        }
        writeln!(
            f,
            "  distribute: {} buckets, segments of {}, reads of {} ({} in flight a thread), lines up \
             to {}",
            self.bucket_count,
            bytes(self.segment_bytes),
            bytes(self.read_block_bytes),
            self.reads_in_flight,
            bytes(self.line_bytes_max),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn size(data_bytes: u64, memory_bytes: u64) -> LineSize {
        LineSize {
            data_bytes,
            line_bytes: 32.0,
            key_bytes: 0.0,
            distinct: None,
            is_ordered: false,
            is_unique: false,
            memory_bytes,
            held_bytes: 0,
            threads: 2,
            drive_count: 1,
            rates: DriveRates::ASSUMED,
        }
    }

    #[test]
    fn a_plan_fits_the_memory_from_kilobytes_to_terabytes() {
        let most = [
            (64 << 20, 100 << 30),
            (512 << 20, 1 << 40),
            (64 << 30, 8 << 40),
        ];
        for (memory_bytes, most_bytes) in most {
            for data_bytes in [0, 1, 1 << 20, 1 << 31, most_bytes] {
                for key_bytes in [0.0, 20.0] {
                    let size = LineSize {
                        key_bytes,
                        ..size(data_bytes, memory_bytes)
                    };
                    let plan = plan_lines(size).unwrap();
                    assert!(plan.ledger().bytes() <= memory_bytes, "{plan}");
                    let fits = data_bytes <= memory_bytes / 4;
                    assert!(plan.levels == 0 || !fits, "{plan}");
                }
            }
        }
        assert_eq!(plan_lines(size(1 << 31, 512 << 20)).unwrap().levels, 1);
        assert!(plan_lines(size(100 << 30, 64 << 20)).unwrap().levels > 1);
        let large = plan_lines(size(1 << 40, 200 << 30)).unwrap();
        let offsets_max = u32::MAX as usize;
        assert!(large.line_bytes_max <= offsets_max && large.area_bytes() <= offsets_max);
    }

    #[test]
    fn too_little_memory_is_refused_with_what_would_do() {
        let error = plan_lines(size(1 << 31, 2 << 20)).unwrap_err();
        assert_eq!(error.kind(), Kind::Memory);
        assert!(error.next_step().unwrap().contains("--memory"));
    }

    #[test]
    fn few_distinct_lines_are_counted_in_tables() {
        let few = LineSize {
            distinct: Some(1_000_000),
            is_unique: true,
            ..size(1 << 31, 512 << 20)
        };
        let plan = plan_lines(few).unwrap();
        assert!(plan.table_bytes > 70_000_000, "{plan}");
        let many = LineSize {
            distinct: Some(50_000_000),
            ..few
        };
        assert_eq!(plan_lines(many).unwrap().table_bytes, 0);
    }
}
