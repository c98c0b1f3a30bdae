//! How a shuffle is done: levels of throws a pass, buffers, what stays in memory.
//!
//! Contract: pure; sizes in, a [`ShufflePlan`] out, or [`Kind::Memory`] with what would do. The
//! permutation does not depend on it (see [`super::tree`]).
//!
//! | PALID | here |
//! |---|---|
//! | N | `data_bytes` |
//! | M | `memory_bytes` |
//! | B | `segment_bytes`, `block_bytes` |
//! | D | `drive_count` |

use std::fmt;

use super::tree::{Tree, fan_out};
use crate::ends::{EDGES, EDGES_BYTES};
use crate::partition::plan::{FIXED_BYTES, PIECE_BYTES, SEGMENT_META_BYTES};
use crate::partition::{BUCKETS, SPLIT_SEGMENTS, SegmentSizes};
use crate::read::regions::RegionSizes;
use outcore_io::drive::rates::DriveRates;
use outcore_io::memory::{BLOCK_BYTES, Ledger, Pool};
use outcore_io::units;
use outcore_io::{Error, Kind, Result};

/// Most levels of one distribution: beyond 4096 buckets every store misses the caches.
const LEVELS_MAX: u32 = 3;
/// Reads in flight when a bucket is thrown again, a thread; the least of them.
const SPLIT_READS: usize = 8;
const SPLIT_READS_MIN: usize = 2;
/// Reservations by name: what the distribution reads and puts together, lines longer than a buffer where
/// a bucket is distributed again, and what buckets are loaded, permuted and written in.
pub(super) const INPUT: &str = "input blocks";
pub(super) const LONG_READ: &str = "long lines that are read back";
pub(super) const PERMUTING: &str = "buckets that are permuted, and their output";
pub(super) const PLACES: &str = "places of records";
/// Largest bucket: offsets in it have 32 bits.
const BUCKET_BYTES_MAX: u64 = (u32::MAX / 2) as u64;

/// What is kept of a record of a bucket while it is permuted: itself if it is a small number, else
/// where it is, of lines with the length; and which leaf it goes to.
pub(super) fn place_bytes(record_bytes: Option<usize>) -> u64 {
    let place_bytes = match record_bytes {
        Some(8) | None => 8,
        Some(_) => 4,
    };
    place_bytes + 2
}

/// What a shuffle is about, in numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShuffleSize {
    /// Bytes of all input data.
    pub data_bytes: u64,
    /// Length of a record; none for lines.
    pub record_bytes: Option<usize>,
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

impl ShuffleSize {
    /// Memory for the places of the records of a bucket of `bucket_bytes`.
    fn places_bytes(&self, bucket_bytes: u64) -> u64 {
        let records = match self.record_bytes {
            Some(record_bytes) => bucket_bytes.div_ceil(record_bytes as u64),
            // Lines of 16 bytes on average; a leaf of empty lines must fit as well.
            None => (bucket_bytes / 16).max(super::tree::LEAF_BYTES),
        };
        records * place_bytes(self.record_bytes)
    }
}

/// How a shuffle will be done.
#[derive(Debug, Clone, PartialEq)]
pub struct ShufflePlan {
    /// What it is for.
    pub size: ShuffleSize,
    /// Levels of throws in all.
    pub tree_levels: u32,
    /// Levels of one distribution; the rest is thrown when a bucket is in memory.
    pub levels: u32,
    /// Levels of all distributions together.
    pub thrown_levels: u32,
    /// Times that data go to scratch: 0, 1, 2, ...
    pub distributions: u32,
    /// Length of a segment buffer, and of a write to scratch.
    pub segment_bytes: usize,
    /// Bytes of records in a full one.
    pub segment_payload_bytes: usize,
    /// Neighbouring segments of one bucket on scratch.
    pub extent_segments: usize,
    /// Length of an input read.
    pub block_bytes: usize,
    /// Chunks of the input that a thread has open.
    pub lanes: usize,
    /// Reads in flight for each.
    pub reads_a_lane: usize,
    /// Writes in flight a thread.
    pub writes_in_flight: usize,
    /// Segments that may stay in memory.
    pub resident_segments: usize,
    /// Largest bucket that is permuted in memory.
    pub bucket_bytes_max: usize,
    /// Areas for buckets a thread.
    pub areas: usize,
    /// Memory for the places of a bucket's records, a thread.
    pub places_bytes: u64,
    /// Length of an output buffer.
    pub chunk_bytes: usize,
    /// Such buffers a thread.
    pub chunks: usize,
    /// The longest line.
    pub line_bytes_max: usize,
    /// Bytes of scratch that will be in use at once, about.
    pub scratch_bytes: u64,
    /// Predicted bytes read.
    pub predicted_read_bytes: u64,
    /// Predicted bytes written.
    pub predicted_written_bytes: u64,
    /// Predicted time at the assumed rates of the drives.
    pub predicted_seconds: f64,
}

impl ShufflePlan {
    /// Buckets of one distribution.
    pub fn bucket_count(&self) -> usize {
        fan_out(self.levels)
    }

    /// Slots for segment buffers in all.
    pub(crate) fn segment_slots(&self) -> usize {
        self.size.threads * (self.bucket_count() + self.writes_in_flight) + self.resident_segments
    }

    /// Whole segments that a bucket gets from one thread, about.
    pub(crate) fn expected_segments(&self) -> usize {
        let streams = (self.bucket_count() * self.size.threads) as u64;
        (self.size.data_bytes / streams / self.segment_payload_bytes as u64) as usize
    }

    /// Length of an area: a bucket, and a block for each segment that is not full.
    pub(crate) fn area_bytes(&self) -> usize {
        let segments = self.bucket_bytes_max.div_ceil(self.segment_payload_bytes);
        let bytes = segments * self.segment_bytes + (2 + 3 * self.size.threads) * BLOCK_BYTES;
        bytes.next_multiple_of(BLOCK_BYTES)
    }

    /// How the input is read.
    pub(super) fn region_sizes(&self) -> RegionSizes {
        RegionSizes {
            block_bytes: self.block_bytes,
            lanes: self.lanes,
            reads_a_lane: self.reads_a_lane,
            record_bytes_max: self.size.record_bytes.unwrap_or(self.line_bytes_max),
        }
    }

    /// How segments are written and read back.
    pub(super) fn segment_sizes(&self) -> SegmentSizes {
        SegmentSizes {
            segment_bytes: self.segment_bytes,
            full_bytes: match self.size.record_bytes {
                Some(_) => self.segment_payload_bytes,
                None => 0,
            },
            extent_segments: self.extent_segments,
            expected_segments: self.expected_segments(),
            writes_in_flight: self.writes_in_flight,
            resident_segments: self.resident_segments,
            split_reads: self.split_reads(),
            slots: self.segment_slots(),
        }
    }

    /// Segments that a thread reads at once where a bucket is thrown again.
    pub(super) fn split_reads(&self) -> usize {
        match self.areas {
            0..=2 => SPLIT_READS_MIN,
            _ => SPLIT_READS,
        }
    }

    /// What is not in buffers: descriptions of segments and of pieces of chunks in them, small tables.
    fn descriptions_bytes(&self) -> u64 {
        let segments = self.size.data_bytes / self.segment_payload_bytes as u64 + 1;
        let record_bytes = self.size.record_bytes.unwrap_or(1) as u64;
        let tree = Tree::new(0, 0, self.size.data_bytes, record_bytes);
        let chunks = self.size.data_bytes.div_ceil(tree.chunk_bytes);
        let switches = match self.lanes {
            1 => chunks,
            _ => chunks.max(self.size.data_bytes / self.block_bytes as u64),
        };
        let buckets = fan_out(self.thrown_levels) as u64;
        let pieces = segments
            + switches
                .saturating_mul(buckets)
                .min(self.size.data_bytes / 8);
        FIXED_BYTES + SEGMENT_META_BYTES * segments + PIECE_BYTES * pieces
    }

    /// All that the shuffle reserves.
    pub fn ledger(&self) -> Ledger {
        let memory_bytes = self.size.memory_bytes;
        self.reservations()
            .filled("split", LONG_READ, memory_bytes)
            .filled("permute", PLACES, memory_bytes)
    }

    fn reservations(&self) -> Ledger {
        let threads = self.size.threads;
        let sizes = self.region_sizes();
        let walks = 16 * self.lanes * self.bucket_count() * threads;
        // What is put together grows by doubling.
        let (across, long) = match self.size.record_bytes {
            Some(_) => (0, 0),
            None => (
                2 * self.lanes * self.line_bytes_max * threads,
                (2 * self.line_bytes_max * threads) as u64,
            ),
        };
        let reads = Pool::total_bytes(sizes.slot_bytes(), sizes.slots() * threads);
        let permuting = Pool::total_bytes(self.area_bytes(), self.areas * threads)
            + Pool::total_bytes(self.chunk_bytes, self.chunks * threads);
        Ledger::new("shuffle")
            .always("descriptions and small tables", self.descriptions_bytes())
            .always(
                BUCKETS,
                Pool::total_bytes(self.segment_bytes, self.segment_slots()),
            )
            .during("distribute", INPUT, reads)
            .during("distribute", "lines across blocks", across as u64)
            .during("distribute", "where chunks have got to", walks as u64)
            .during(
                "split",
                SPLIT_SEGMENTS,
                Pool::total_bytes(self.segment_bytes, self.split_reads() * threads),
            )
            .during("split", LONG_READ, long)
            .during("permute", EDGES, EDGES_BYTES)
            .during("permute", PERMUTING, permuting)
            .during(
                "permute",
                PLACES,
                Pool::total_bytes(self.places_bytes as usize, threads),
            )
    }

    /// Memory for the places of buckets that have more records than planned, all threads together.
    pub(super) fn spare_places_bytes(&self) -> u64 {
        let planned = self.reservations();
        let name_bytes = |ledger: &Ledger| {
            let lines = ledger.lines().iter();
            let places = lines.filter(|line| line.name == PLACES);
            places.map(|line| line.bytes).sum::<u64>()
        };
        name_bytes(&self.ledger()) - name_bytes(&planned)
    }

    /// The least of it, before anything is filled up.
    fn needed_bytes(&self) -> u64 {
        self.reservations().bytes()
    }
}

/// Plans the shuffle of `size`, on fewer threads where the memory is too small for all of them;
/// [`Kind::Memory`] if it does not fit even one.
pub fn plan_shuffle(size: ShuffleSize) -> Result<ShufflePlan> {
    let size = ShuffleSize {
        threads: size.threads.max(1),
        drive_count: size.drive_count.max(1),
        ..size
    };
    let halves = std::iter::successors(Some(size.threads), |&threads| {
        (threads > 1).then_some(threads / 2)
    });
    let mut plans = halves.filter_map(|threads| best_plan(ShuffleSize { threads, ..size }));
    plans.next().ok_or_else(|| {
        let enough =
            std::iter::successors(Some(size.memory_bytes.max(1 << 20)), |m| m.checked_mul(2)).find(
                |&memory_bytes| {
                    let size = ShuffleSize {
                        memory_bytes,
                        threads: 1,
                        ..size
                    };
                    best_plan(size).is_some()
                },
            );
        let cause = format!(
            "{} of memory are too little for {}",
            units::bytes(size.memory_bytes + size.held_bytes),
            units::bytes(size.data_bytes),
        );
        let enough = enough.map(|bytes| (bytes + size.held_bytes).next_multiple_of(1 << 20));
        let enough = enough.map_or_else(|| "more".to_string(), units::bytes_exact);
        Error::new(Kind::Memory, "plan shuffle", cause)
            .hint(format!("--memory {enough} are enough"))
    })
}

fn best_plan(size: ShuffleSize) -> Option<ShufflePlan> {
    let record_bytes = size.record_bytes.unwrap_or(1) as u64;
    let tree_levels = Tree::new(0, 0, size.data_bytes, record_bytes).levels;
    let mut best: Option<ShufflePlan> = None;
    for distributions in 1..=3 {
        for levels in 0..=tree_levels.min(LEVELS_MAX) {
            // The first goes down as far as it can; those after it no further than they must.
            let least = levels * (distributions - 1) + u32::from(distributions > 1);
            for thrown_levels in least.max(levels)..=(levels * distributions).min(tree_levels) {
                for shift in 0..=6 {
                    let plan = candidate(
                        size,
                        tree_levels,
                        (distributions, levels, thrown_levels),
                        shift,
                    );
                    let is_better = |plan: &ShufflePlan| {
                        let least = best.as_ref().map(|best| best.predicted_seconds);
                        least.is_none_or(|least| plan.predicted_seconds < least)
                    };
                    best = plan.filter(is_better).or(best);
                }
            }
        }
        if best.is_some() {
            break;
        }
    }
    best
}

/// A plan with these choices, if it fits the memory.
fn candidate(
    size: ShuffleSize,
    tree_levels: u32,
    (distributions, levels, thrown_levels): (u32, u32, u32),
    shift: u32,
) -> Option<ShufflePlan> {
    let record_bytes = size.record_bytes.unwrap_or(1);
    let segment_bytes = (256usize << 10).max(record_bytes.next_multiple_of(BLOCK_BYTES)) >> shift;
    let segment_bytes = segment_bytes.next_multiple_of(BLOCK_BYTES);
    let segment_payload_bytes = segment_bytes / record_bytes * record_bytes;
    if segment_payload_bytes == 0 || (distributions > 1 && thrown_levels <= levels) {
        return None;
    }
    let average_bytes = size.data_bytes / fan_out(thrown_levels) as u64;
    // Throws are fair: what a bucket gets beyond its share is a few standard deviations of its
    // number of records; lines differ in length besides.
    let spread = match size.record_bytes {
        Some(_) => 6.0 * (average_bytes as f64 * record_bytes as f64).sqrt(),
        None => average_bytes as f64 / 4.0,
    };
    let share_bytes = size.memory_bytes / size.threads as u64;
    let lanes = size.drive_count.div_ceil(size.threads).clamp(1, 8);
    let line_bytes_max = (share_bytes as usize / 48 / lanes).clamp(64 << 10, 256 << 20);
    // Room for a long line or two in a bucket of short ones.
    let long_bytes = match size.record_bytes {
        Some(_) => 0,
        None => 2 * line_bytes_max as u64,
    };
    let bucket_bytes_max = average_bytes + spread as u64 + long_bytes + 2 * segment_bytes as u64;
    if bucket_bytes_max > BUCKET_BYTES_MAX {
        return None;
    }
    let mut block_bytes = 4usize << 20;
    while block_bytes > 128 << 10 && (block_bytes * 3 * lanes) as u64 > share_bytes / 8 {
        block_bytes /= 2;
    }
    let mut plan = ShufflePlan {
        size,
        tree_levels,
        levels,
        thrown_levels,
        distributions,
        segment_bytes,
        segment_payload_bytes,
        extent_segments: match distributions {
            1 => ((1 << 20) / segment_bytes).max(1),
            _ => 1,
        },
        block_bytes: block_bytes.max(record_bytes),
        lanes,
        reads_a_lane: if lanes == 1 { 3 } else { 2 },
        writes_in_flight: ((4 << 20) / segment_bytes).clamp(4, 64),
        resident_segments: 0,
        bucket_bytes_max: bucket_bytes_max as usize,
        areas: 3,
        places_bytes: size.places_bytes(bucket_bytes_max),
        chunk_bytes: (share_bytes as usize / 32).clamp(64 << 10, 1 << 20) / BLOCK_BYTES
            * BLOCK_BYTES
            + BLOCK_BYTES,
        chunks: 4 + 2 * size.drive_count.min(8) / size.threads,
        line_bytes_max,
        scratch_bytes: 0,
        predicted_read_bytes: 0,
        predicted_written_bytes: 0,
        predicted_seconds: 0.0,
    };
    if plan.needed_bytes() > size.memory_bytes {
        // One bucket loads while one is permuted; reads do not overlap, but it can be done.
        (plan.areas, plan.writes_in_flight, plan.chunks) = (2, 4, 3);
    }
    let spare_bytes = size.memory_bytes.checked_sub(plan.needed_bytes())?;
    let spare_segments = spare_bytes / plan.segment_bytes as u64;
    let segments = size.data_bytes.div_ceil(segment_payload_bytes as u64);
    let parts = (plan.bucket_count() * size.threads) as u64;
    plan.resident_segments = spare_segments.min(segments + parts) as usize;
    if spare_segments >= segments + parts && distributions == 1 {
        plan.distributions = 0;
    } else if distributions > 1 {
        plan.resident_segments = 0;
    }
    predict(&mut plan);
    Some(plan)
}

fn predict(plan: &mut ShufflePlan) {
    let data_bytes = plan.size.data_bytes as f64;
    let resident_bytes = (plan.resident_segments * plan.segment_payload_bytes) as f64;
    let away_bytes = match plan.distributions {
        0 => 0.0,
        times => (data_bytes - resident_bytes).max(0.0) + data_bytes * f64::from(times - 1),
    };
    let moved_bytes = 2.0 * (data_bytes + away_bytes);
    let requests = 2.0 * away_bytes / plan.segment_bytes as f64;
    plan.scratch_bytes = match plan.distributions {
        0 => 0,
        _ => {
            let open = plan.size.threads * plan.bucket_count() * plan.segment_bytes;
            (away_bytes.min(data_bytes) * 1.02) as u64 + open as u64
        }
    };
    plan.predicted_read_bytes = (data_bytes + away_bytes) as u64;
    plan.predicted_written_bytes = plan.predicted_read_bytes;
    // In a small bucket the processor's caches hold what is permuted.
    let misses = (plan.bucket_bytes_max as f64 / (4 << 20) as f64).max(1.0);
    let size = &plan.size;
    let seconds = size
        .rates
        .seconds((moved_bytes, moved_bytes), requests, size.drive_count);
    plan.predicted_seconds = seconds * (1.0 + 0.05 * misses.log2());
}

impl fmt::Display for ShufflePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = &self.size;
        let bytes = |value: usize| units::bytes(value as u64);
        writeln!(
            f,
            "shuffle {} in {} of memory on {}, {}",
            units::bytes(size.data_bytes),
            units::bytes(size.memory_bytes),
            units::counted(size.threads as u64, "thread"),
            units::counted(size.drive_count as u64, "drive")
        )?;
        match self.distributions {
            0 => writeln!(f, "  fits in memory: one pass, nothing goes to scratch")?,
            times => writeln!(
                f,
                "  {} through scratch, then bucket by bucket",
                units::counted(u64::from(times), "distribution")
            )?,
        }
        writeln!(
            f,
            "  throws: {} of {}, {} of them in one distribution: {} buckets",
            units::counted(u64::from(self.tree_levels), "level"),
            super::tree::FAN_OUT,
            self.levels,
            self.bucket_count()
        )?;
        writeln!(
            f,
            "  distribute: segments of {}, reads of {} ({} in flight a thread)",
            bytes(self.segment_bytes),
            bytes(self.block_bytes),
            self.lanes * self.reads_a_lane
        )?;
        writeln!(
            f,
            "  permute: buckets up to {}, {} areas a thread; {} may stay in memory",
            bytes(self.bucket_bytes_max),
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
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn a_plan_fits_its_memory_or_names_one_that_does(
            data_shift in 0u32..42,
            record_bytes in prop_oneof![Just(None), (1usize..5000).prop_map(Some), Just(Some(1 << 20))],
            memory_shift in 24u32..38,
            threads in 1usize..65,
            drive_count in 1usize..40,
        ) {
            let size = ShuffleSize {
                data_bytes: 1 << data_shift,
                record_bytes,
                memory_bytes: 1 << memory_shift,
                held_bytes: 0,
                threads,
                drive_count,
                rates: DriveRates::ASSUMED,
            };
            match plan_shuffle(size) {
                Ok(plan) => {
                    prop_assert!(plan.ledger().bytes() <= size.memory_bytes);
                    prop_assert!(plan.levels <= plan.tree_levels);
                }
                Err(error) => {
                    let text = error.to_string();
                    let named = text.split("--memory ").nth(1).unwrap().split(' ').next().unwrap();
                    let memory_bytes = units::parse_bytes(named).unwrap();
                    let again = plan_shuffle(ShuffleSize { memory_bytes, ..size });
                    prop_assert!(again.is_ok());
                }
            }
        }
    }

    #[test]
    fn two_gibibytes_in_half_a_gibibyte_are_distributed_once() {
        let size = ShuffleSize {
            data_bytes: 2 << 30,
            record_bytes: Some(8),
            memory_bytes: 512 << 20,
            held_bytes: 0,
            threads: 2,
            drive_count: 1,
            rates: DriveRates::ASSUMED,
        };
        let plan = plan_shuffle(size).unwrap();
        assert_eq!(plan.distributions, 1);
        assert!(plan.segment_bytes >= 64 << 10, "{plan}");
        let lines = plan_shuffle(ShuffleSize {
            record_bytes: None,
            ..size
        })
        .unwrap();
        assert_eq!(lines.distributions, 1);
    }

    #[test]
    fn a_hundred_gibibytes_in_half_a_gibibyte_are_distributed_twice_at_most() {
        for record_bytes in [None, Some(8), Some(100)] {
            let size = ShuffleSize {
                data_bytes: 100 << 30,
                record_bytes,
                memory_bytes: 512 << 20,
                held_bytes: 0,
                threads: 2,
                drive_count: 1,
                rates: DriveRates::ASSUMED,
            };
            let plan = plan_shuffle(size).unwrap();
            assert!(plan.distributions <= 2, "{plan}");
        }
    }
}
