//! The plan of a shuffle.
//!
//! Contract: [`plan_shuffle`] is pure. It is [`crate::partition::plan`] with a tree of random
//! draws: the numbers of buckets are powers of its fan-out, and buckets are nearly equal. The
//! permutation does not depend on the plan (see [`super::tree`]).

use std::fmt;

use super::tree::{FAN_OUT, LEAF_BYTES, Tree, fan_out};
use crate::ends::{EDGES, EDGES_BYTES};
use crate::forecast::{Amounts, Forecast, PhasePlan, predicted_text};
use crate::job::{JobSize, KindCosts};
use crate::partition::large::{LARGE_BYTES, with_copies};
pub(super) use crate::partition::plan::INPUT;
use crate::partition::plan::{
    AREA_BYTES_MAX, Buckets, PartitionPlan, Planned, Wishes, best_of, on_fewer_threads,
    plan_within, segments_tried, stands_on_common,
};
use crate::partition::{SPLIT_SEGMENTS, SegmentSizes};
use outcore_io::Result;
use outcore_io::memory::{BLOCK_BYTES, Ledger, Pool};
use outcore_io::units;

/// Largest number of levels of one distribution: beyond 4096 buckets every store misses the caches.
const LEVELS_MAX: u32 = 3;
/// Largest number of chunks of the input that a thread has open.
const OPEN_CHUNKS_MAX: usize = 8;
/// Names of reservations, in addition to those of all distributions. They are for lines longer than
/// a buffer when a bucket is distributed again, for buckets that are permuted, and for references
/// to records.
pub(super) const LONG_READ: &str = "long lines that are read back";
pub(super) const PERMUTING: &str = "buckets that are permuted, and their output";
pub(super) const REFS: &str = "references to records";
/// The phase in which records are copied.
pub(super) const COPY: &str = "copy";

/// Bytes per record of a bucket while it is permuted. They hold its leaf, and the record itself if
/// it is a small number, otherwise its place (for lines, also the length).
pub(super) fn place_bytes(record_bytes: Option<usize>) -> u64 {
    let place_bytes = match record_bytes {
        Some(8) | None => 8,
        Some(_) => 4,
    };
    place_bytes + 2
}

/// For a record that is copied from its place: its place, and the memory for finding it.
const PLACE_BYTES: u64 = 32;
const PLACES: &str = "places of records";

/// The parameters of a shuffle.
#[derive(Debug, Clone, PartialEq)]
pub struct ShuffleSize {
    /// The size of the job.
    pub job: JobSize,
    /// Length of a record; `None` for lines.
    pub record_bytes: Option<usize>,
    /// Length of the longest line with its terminator, if it was measured.
    pub longest_bytes: Option<u64>,
}

/// The plan of a shuffle.
#[derive(Debug, Clone, PartialEq)]
pub struct ShufflePlan {
    /// The size for which the plan was made.
    pub size: ShuffleSize,
    /// Buckets, buffers and traffic.
    pub common: PartitionPlan,
    /// Total number of levels of draws.
    pub tree_levels: u32,
    /// Levels of one distribution; the remaining draws are made when a bucket is in memory.
    pub levels: u32,
    /// Levels of all distributions together.
    pub drawn_levels: u32,
    /// Memory per thread for the references to a bucket's records.
    pub refs_bytes: u64,
}

stands_on_common!(ShuffleSize, ShufflePlan);

impl ShuffleSize {
    /// Memory for the references to the records of a bucket of `bucket_bytes`.
    fn refs_bytes(&self, bucket_bytes: u64) -> u64 {
        let records = match self.record_bytes {
            Some(record_bytes) => bucket_bytes.div_ceil(record_bytes as u64),
            // Lines of 16 bytes on average; a leaf of empty lines must fit as well.
            None => (bucket_bytes / 16).max(LEAF_BYTES),
        };
        records * place_bytes(self.record_bytes)
    }

    /// Whether records are copied from their places in the input one by one.
    pub(super) fn is_copied(&self) -> bool {
        self.record_bytes.is_some_and(|bytes| bytes > LARGE_BYTES)
    }

    /// The tree of random draws, for any seed.
    fn tree(&self) -> Tree {
        Tree::new(0, 0, self.data_bytes, self.record_bytes.unwrap_or(1) as u64)
    }
}

impl ShufflePlan {
    /// Buffers per thread for buckets that are distributed again although only one distribution is
    /// planned. Lines may be shorter or longer than planned, and the other buffers hold resident
    /// data.
    fn split_slots(&self) -> usize {
        match (self.size.record_bytes, self.distributions) {
            (None, 0 | 1) => FAN_OUT,
            _ => 0,
        }
    }

    /// Memory for lines that span blocks.
    fn across_bytes(&self) -> u64 {
        let longest = self.size.longest_bytes;
        longest.unwrap_or_else(|| self.common.across_bytes(self.open_chunks))
    }

    /// Memory per thread for a long line that is read back. Its buffer grows by doubling; a
    /// measured line uses only its own length.
    pub(super) fn long_read_bytes(&self) -> u64 {
        match (self.size.record_bytes, self.size.longest_bytes) {
            (Some(_), _) => 0,
            (None, Some(longest)) => longest,
            (None, None) => 2 * self.line_bytes_max as u64,
        }
    }

    /// Size of an area for a bucket that is permuted alone, because it contains the longest line.
    pub(super) fn long_area_bytes(&self) -> usize {
        let longest = self.size.longest_bytes.unwrap_or(0) as usize;
        (self.area_bytes() + longest).next_multiple_of(BLOCK_BYTES)
    }

    /// Largest number of levels by which a bucket is distributed further at once.
    pub(super) fn split_levels_max(&self) -> u32 {
        match self.distributions {
            0 | 1 => 1,
            _ => self.levels.max(1),
        }
    }

    /// How segments are written and read back.
    pub(super) fn segment_sizes(&self) -> SegmentSizes {
        self.common.segment_sizes(self.split_slots())
    }

    /// Upper bound on the recorded runs of the input: one in each segment, and one in each bucket
    /// whenever a thread changes to another chunk of the input.
    fn input_runs(&self) -> u64 {
        let data_bytes = self.size.data_bytes;
        let chunks = data_bytes.div_ceil(self.size.tree().chunk_bytes);
        let switches = match self.open_chunks {
            1 => chunks,
            _ => chunks.max(data_bytes / self.read_block_bytes as u64),
        };
        let runs = switches.saturating_mul(self.bucket_count_last as u64);
        self.data_segments() + 1 + runs.min(data_bytes / 8)
    }

    /// All reservations of the shuffle.
    pub fn ledger(&self) -> Ledger {
        let memory_bytes = self.size.memory_bytes;
        self.reservations()
            .filled("split", LONG_READ, memory_bytes)
            .filled("permute", REFS, memory_bytes)
    }

    /// Memory for the references to buckets with more records than planned, for all threads
    /// together.
    pub(super) fn spare_refs_bytes(&self) -> u64 {
        let refs_bytes = |ledger: &Ledger| {
            let lines = ledger.lines().iter();
            let refs = lines.filter(|line| line.name == REFS);
            refs.map(|line| line.bytes).sum::<u64>()
        };
        refs_bytes(&self.ledger()) - refs_bytes(&self.reservations())
    }
}

impl Planned for ShufflePlan {
    const CHUNKS_MIN: usize = 3;
    const LAST_PHASE: &'static str = "permute";

    fn reservations(&self) -> Ledger {
        if self.size.is_copied() {
            return copies_ledger(&self.size);
        }
        let threads = self.size.threads;
        let walks_bytes = 16 * self.open_chunks * self.bucket_count * threads;
        let long_bytes = self.long_read_bytes() * threads as u64;
        let permuting_bytes = |area_bytes, areas, threads| {
            Pool::total_bytes(area_bytes, areas * threads)
                + Pool::total_bytes(self.chunk_bytes, self.chunks * threads)
        };
        let all_bytes = permuting_bytes(self.area_bytes(), self.areas, threads);
        let alone_bytes = permuting_bytes(self.long_area_bytes(), 1, 1);
        let permuting_bytes = all_bytes.max(alone_bytes);
        let refs_bytes = Pool::total_bytes(self.refs_bytes as usize, threads);
        let ledger = self
            .common
            .ledger("shuffle", self.input_runs(), 0, self.split_slots());
        self.with_regions(ledger, self.across_bytes())
            .during("distribute", "progress of chunks", walks_bytes as u64)
            .during("split", SPLIT_SEGMENTS, self.split_bytes())
            .during("split", LONG_READ, long_bytes)
            .during("permute", EDGES, EDGES_BYTES)
            .during("permute", PERMUTING, permuting_bytes)
            .during("permute", REFS, refs_bytes)
    }

    /// For each bucket and thread the last segment is partly full.
    fn segments_wanted(&self) -> (u64, u64) {
        let segments = self.data_segments() + (self.bucket_count * self.size.threads) as u64;
        (segments, segments)
    }

    fn work(&self) -> (f64, KindCosts) {
        // Line lengths are not sampled; the bytes dominate.
        let item_bytes = self.size.record_bytes.unwrap_or(64);
        let items = self.size.data_bytes as f64 / item_bytes as f64;
        (items, self.size.costs.shuffle)
    }

    /// The processor's caches hold a small bucket during its permutation.
    fn detour(&self) -> f64 {
        let misses = (self.bucket_bytes_max as f64 / f64::from(4 << 20)).max(1.0);
        1.0 + 0.05 * misses.log2()
    }
}

/// Plans the shuffle of `size`, on fewer threads if the memory is too small for all of them.
///
/// # Errors
/// [`Kind::Memory`](crate::Kind::Memory) with the least memory that is enough, if there is too
/// little even for one thread.
pub fn plan_shuffle(size: ShuffleSize) -> Result<ShufflePlan> {
    let items = match size.record_bytes {
        Some(record_bytes) => format!(
            "in records of {}",
            units::counted(record_bytes as u64, "byte")
        ),
        None => match size.longest_bytes {
            Some(longest) => format!(
                "of lines, of which the longest has {}",
                units::bytes(longest)
            ),
            None => "of lines".to_string(),
        },
    };
    plan_within(size.job.clone(), "plan shuffle", &items, |job| {
        let size = ShuffleSize {
            job,
            ..size.clone()
        };
        if size.is_copied() {
            let memory_bytes = size.job.memory_bytes;
            let plan = plan_copies(size);
            return (plan.ledger().bytes() <= memory_bytes).then_some(plan);
        }
        on_fewer_threads(size.job.clone(), |job| {
            let size = ShuffleSize {
                job,
                ..size.clone()
            };
            (1..=3).find_map(|distributions| best_of(candidates(size.clone(), distributions)))
        })
    })
}

/// The reservations of a shuffle that copies records from their places.
fn copies_ledger(size: &ShuffleSize) -> Ledger {
    let record_bytes = size.record_bytes.unwrap_or(1) as u64;
    let places_bytes = size.data_bytes / record_bytes * PLACE_BYTES;
    with_copies(Ledger::new("shuffle"))
        .always(EDGES, EDGES_BYTES)
        .always(PLACES, places_bytes)
}

/// A plan in which each record is copied from its place in the input.
fn plan_copies(size: ShuffleSize) -> ShufflePlan {
    let buckets = Buckets {
        distributions: 0,
        count: 1,
        count_last: 1.0,
        bytes_max: 0,
        segment_bytes: BLOCK_BYTES,
        has_extents: false,
    };
    let wishes = Wishes {
        element_bytes: size.record_bytes,
        areas: 1,
        has_chunks: false,
        open_chunks_max: 1,
        reads_max: 1,
    };
    let mut common = PartitionPlan::new(size.job.clone(), buckets, wishes);
    let moved = Forecast::About(size.data_bytes);
    let requests = 2.0 * (size.data_bytes / LARGE_BYTES as u64) as f64;
    let phase = PhasePlan::new(
        COPY,
        Amounts::of_files(moved, moved, requests),
        &size.job.layout,
    );
    common.predicted_read_bytes = size.data_bytes;
    common.predicted_written_bytes = size.data_bytes;
    common.predicted_seconds = phase.seconds.unwrap_or(0.0);
    common.phases = vec![phase];
    ShufflePlan {
        tree_levels: size.tree().levels,
        size,
        common,
        levels: 0,
        drawn_levels: 0,
        refs_bytes: 0,
    }
}

/// Plans with this number of distributions.
fn candidates(size: ShuffleSize, distributions: u32) -> impl Iterator<Item = ShufflePlan> {
    let tree_levels = size.tree().levels;
    let all_levels = (0..=tree_levels.min(LEVELS_MAX)).flat_map(move |levels| {
        // The first distribution covers as many levels as it can. Later distributions cover only
        // the levels that they must.
        let least = levels * (distributions - 1) + u32::from(distributions > 1);
        let drawn = least.max(levels)..=(levels * distributions).min(tree_levels);
        drawn.map(move |drawn_levels| (levels, drawn_levels))
    });
    let further = all_levels.filter(move |(levels, drawn)| distributions == 1 || drawn > levels);
    further.flat_map(move |(levels, drawn_levels)| {
        let size = size.clone();
        segments_tried(size.record_bytes.unwrap_or(1)).filter_map(move |segment_bytes| {
            with_levels(
                size.clone(),
                distributions,
                tree_levels,
                levels,
                drawn_levels,
                segment_bytes,
            )
        })
    })
}

fn with_levels(
    size: ShuffleSize,
    distributions: u32,
    tree_levels: u32,
    levels: u32,
    drawn_levels: u32,
    segment_bytes: usize,
) -> Option<ShufflePlan> {
    let average_bytes = size.data_bytes / fan_out(drawn_levels) as u64;
    let open_chunks_max = match size.longest_bytes {
        Some(_) => 1,
        None => OPEN_CHUNKS_MAX,
    };
    let open_chunks = size
        .drive_count
        .div_ceil(size.threads)
        .clamp(1, open_chunks_max);
    let share_bytes = size.memory_bytes as usize / size.threads;
    // Buckets with longer lines are permuted alone.
    let line_bytes_usual = match size.record_bytes {
        Some(record_bytes) => record_bytes,
        None => (share_bytes / 40 / open_chunks).clamp(64 << 10, 256 << 20),
    };
    // Draws are uniform: a bucket exceeds its share by a few standard deviations of its number of
    // records. Lines also differ in length, and a bucket of short ones may contain one or two long
    // ones.
    let spread_bytes = match size.record_bytes {
        Some(record_bytes) => (6.0 * (average_bytes as f64 * record_bytes as f64).sqrt()) as u64,
        None => average_bytes / 4 + 2 * line_bytes_usual as u64,
    };
    let bytes_max = average_bytes + spread_bytes + 2 * segment_bytes as u64;
    if bytes_max > AREA_BYTES_MAX as u64 {
        return None;
    }
    let buckets = Buckets {
        distributions,
        count: fan_out(levels),
        count_last: fan_out(drawn_levels) as f64,
        bytes_max: bytes_max as usize,
        segment_bytes,
        has_extents: distributions == 1,
    };
    let wishes = Wishes {
        element_bytes: size.record_bytes,
        areas: 3,
        has_chunks: true,
        open_chunks_max,
        reads_max: 2 * OPEN_CHUNKS_MAX,
    };
    let mut plan = ShufflePlan {
        common: PartitionPlan::new(size.job.clone(), buckets, wishes),
        tree_levels,
        levels,
        drawn_levels,
        refs_bytes: size.refs_bytes(bytes_max),
        size,
    };
    let longest = plan.size.longest_bytes.map(|longest| longest as usize);
    plan.line_bytes_max = longest.unwrap_or(line_bytes_usual);
    Some(plan)
}

impl fmt::Display for ShufflePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = format!("shuffle {}", units::bytes(self.size.data_bytes));
        if self.size.is_copied() {
            let predicted = predicted_text(&self.phases, None, &self.size.layout, None);
            writeln!(f, "{what}: each record is copied from its place")?;
            return write!(f, "  {predicted}\n{}", self.ledger());
        }
        let levels = u64::from(self.tree_levels);
        let draws = (levels > 0).then(|| {
            format!(
                "draws: {} of {FAN_OUT}, {} of them in one distribution",
                units::counted(levels, "level"),
                self.levels,
            )
        });
        let ledger = self.ledger();
        self.describe(f, &what, draws.as_slice(), "permute", &ledger)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::job::{ComputeCosts, DriveRates, Layout};

    fn size(data_bytes: u64, record_bytes: Option<usize>) -> ShuffleSize {
        ShuffleSize {
            job: JobSize {
                data_bytes,
                memory_bytes: 512 << 20,
                held_bytes: 0,
                threads: 2,
                drive_count: 1,
                layout: Layout::even(DriveRates::ASSUMED, 1).into(),
                costs: ComputeCosts::ASSUMED,
            },
            record_bytes,
            longest_bytes: None,
        }
    }

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
            let job = JobSize {
                memory_bytes: 1 << memory_shift,
                threads,
                drive_count,
                ..size(1 << data_shift, None).job
            };
            let size = ShuffleSize { job: job.clone(), record_bytes, longest_bytes: None };
            match plan_shuffle(size.clone()) {
                Ok(plan) => {
                    prop_assert!(plan.ledger().bytes() <= size.memory_bytes);
                    prop_assert!(plan.levels <= plan.tree_levels);
                }
                Err(error) => {
                    let text = error.to_string();
                    let named = text.split("--memory ").nth(1).unwrap();
                    let memory_bytes = units::parse_bytes(named).unwrap();
                    let again = plan_shuffle(ShuffleSize { job: JobSize { memory_bytes, ..job.clone() }, ..size.clone() });
                    prop_assert!(again.is_ok());
                }
            }
        }
    }

    #[test]
    fn buckets_of_lines_shorter_than_planned_have_buffers_to_be_distributed_again() {
        for (data_bytes, memory_bytes) in [(1 << 20, 64 << 20), (60 << 20, 64 << 20)] {
            let mut lines = size(data_bytes, None);
            lines.job.memory_bytes = memory_bytes;
            let plan = plan_shuffle(lines).unwrap();
            assert!(plan.distributions <= 1, "{plan}");
            let first = plan.bucket_count + plan.writes_in_flight;
            let slots = plan.segment_sizes().slots;
            let again = fan_out(plan.split_levels_max());
            let wanted = plan.size.threads * (first + again) + plan.resident_segments;
            assert!(slots >= wanted, "{plan}");
        }
    }

    #[test]
    fn two_gibibytes_in_half_a_gibibyte_are_distributed_once() {
        let plan = plan_shuffle(size(2 << 30, Some(8))).unwrap();
        assert_eq!(plan.distributions, 1);
        assert!(plan.segment_bytes >= 64 << 10, "{plan}");
        let lines = plan_shuffle(size(2 << 30, None)).unwrap();
        assert_eq!(lines.distributions, 1);
    }

    #[test]
    fn a_hundred_gibibytes_in_half_a_gibibyte_are_distributed_twice_at_most() {
        for record_bytes in [None, Some(8), Some(100)] {
            let plan = plan_shuffle(size(100 << 30, record_bytes)).unwrap();
            assert!(plan.distributions <= 2, "{plan}");
        }
    }
}
