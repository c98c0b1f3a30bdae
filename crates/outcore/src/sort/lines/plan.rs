//! The plan of a sort of lines.
//!
//! Contract: [`plan_lines`] is pure. It is [`crate::partition::plan`] for lines; a sample of the
//! input shows the lengths of lines and keys, and the number of distinct ones. If the data need
//! more buckets than memory has buffers for, all buckets are distributed again as often as
//! necessary; so is a single bucket that turns out too large. If there are few distinct lines, they
//! are counted in tables instead, and only lines without room in the tables go on.
//!
//! Memory holds what all distributions need, plus the longest line that is being assembled and the
//! tables. While buckets are sorted, it holds keys, and 32 bytes per line for a reference and its
//! copy. The memory limits the length of the longest line, unless that length was measured or is
//! known for rows ([`LineSize::longest`]). Then each phase has room for one line of that length at
//! a time, and the distributions for one per thread.

use std::fmt;
use std::ops::RangeInclusive;

use super::bucket::Space;
use crate::ends::{EDGES, EDGES_BYTES};
use crate::job::{JobSize, KindCosts};
pub(super) use crate::partition::plan::{ACROSS, INPUT};
use crate::partition::plan::{
    AREA_BYTES_MAX, BUCKETS_MAX, Buckets, PartitionPlan, Planned, SEGMENT_BYTES_MAX, Wishes,
    best_of, on_fewer_threads, plan_within, stands_on_common,
};
use crate::partition::{SPLIT_SEGMENTS, SegmentSizes};
use crate::read::regions::LINE_BYTES_LIMIT;
use outcore_io::Result;
use outcore_io::memory::{BLOCK_BYTES, Ledger};
use outcore_io::units;

/// Buffers per thread for splitting a bucket that turned out too large.
pub(super) const SPLIT_BUCKETS: usize = 16;
/// Smallest number of parts of a split bucket.
const SPLIT_FACTOR: f64 = (SPLIT_BUCKETS / 2) as f64;
/// How often the search halves the number of buckets if memory is short.
const BUCKET_SHIFTS: u32 = 10;
/// Memory of a bucket's description.
const BUCKET_META_BYTES: u64 = 256;
/// Largest number of stretches of the input that a thread reads in parallel.
const OPEN_CHUNKS_MAX: usize = 16;
const SEGMENT_BYTES_MIN: usize = 4 << 10;
pub(super) const LINE_BYTES_MIN: usize = 64 << 10;
/// Approximate number of stretches of the input per thread.
const STRETCHES: usize = 16;
/// Bucket size with the fastest sort, including keys and references.
const BUCKET_BYTES_BEST: u64 = 8 << 20;
/// Numbers of halvings of that size to try.
const BUCKET_SHIFTS_TRIED: RangeInclusive<i32> = -6..=8;
/// For so little data, which stay in memory, the search for the best plan takes longer than the
/// sort.
const LITTLE_BYTES: u64 = 256 << 10;
/// Bytes of references per line: one, and its copy in the radix sort or the slots of the
/// deduplication.
pub(crate) const REF_BYTES: u64 = 32;
/// Bytes before each key: the place of its line.
pub(crate) const KEY_HEAD_BYTES: u64 = 8;
/// Smallest sample of keys that differ only in later bytes.
pub(super) const LONG_KEYS_BYTES_MIN: u64 = 256 << 10;
/// Names of reservations, in addition to those of all distributions.
pub(super) const TABLES: &str = "tables of lines";
pub(super) const LONG_KEYS: &str = "a sample of long keys";
pub(super) const SORTING: &str = "buckets that are sorted, and their output";
pub(super) const LONG_READ: &str = "long lines that are read back";
pub(super) const LONG_MADE: &str = "keys of long rows";
pub(super) const MARKED: &str = "lines that are marked";
/// Bytes of lines that are marked together, unless one line is longer.
pub(super) const MARKED_BATCH_BYTES: usize = 64 << 10;
/// Table bytes per distinct line, in addition to the line itself.
pub(super) const TABLE_ENTRY_BYTES: f64 = 40.0;

/// The parameters of a sort of lines.
#[derive(Debug, Clone, PartialEq)]
pub struct LineSize {
    /// The size of the job.
    pub job: JobSize,
    /// Mean length of a line, with its terminator.
    pub line_bytes: f64,
    /// Mean length of a key; 0 if lines are their own keys.
    pub key_bytes: f64,
    /// Estimated number of distinct lines, if it was estimated.
    pub distinct: Option<u64>,
    /// Whether lines of equal keys keep their order.
    pub is_ordered: bool,
    /// Whether one line per key is written.
    pub is_unique: bool,
    /// Whether lines are read from files; generated lines have memory of their own.
    pub is_read: bool,
    /// The longest line, if it was measured; the longest row, if it is known.
    pub longest: Option<LongLine>,
    /// Bytes that are put before each line when it is read; included in all lengths here.
    pub mark_bytes: usize,
    /// Bytes that were read for the sample.
    pub sampled_bytes: u64,
}

/// The longest line of a sort.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongLine {
    /// The length of the line, with its framing.
    pub bytes: u64,
    /// The length of the line's key; ignored if lines are their own keys.
    pub key_bytes: u64,
    /// Whether buckets of one key are sorted one after another in the same memory.
    pub is_grouped: bool,
}

/// The plan for a sort of lines.
#[derive(Debug, Clone, PartialEq)]
pub struct LinePlan {
    /// The size for which the plan was made.
    pub size: LineSize,
    /// Buckets, buffers and traffic.
    pub common: PartitionPlan,
    /// Bytes per thread for a table of distinct lines; 0 for none.
    pub table_bytes: u64,
    /// Largest number of lines of a bucket that is loaded while others are sorted.
    pub bucket_lines_max: u64,
    /// Largest number of key bytes of such a bucket, including their heads.
    pub bucket_key_bytes_max: u64,
}

stands_on_common!(LineSize, LinePlan);

impl LineSize {
    /// The name of a sorted item.
    pub(super) fn item(&self) -> &'static str {
        if self.is_read { "line" } else { "row" }
    }

    /// Bytes of references and keys per byte of lines.
    fn overhead(&self) -> f64 {
        (REF_BYTES as f64 + self.key_space_bytes()) / self.line_bytes.max(1.0)
    }

    /// Bytes per line in the space for keys.
    fn key_space_bytes(&self) -> f64 {
        match self.key_bytes {
            0.0 => 0.0,
            bytes => bytes + KEY_HEAD_BYTES as f64,
        }
    }

    /// Memory for the longest line, if it was measured, with its key, and the copy of the first
    /// line of a key.
    fn long_line_bytes(&self) -> Option<u64> {
        let longest = self.longest?;
        Some(match (self.key_bytes > 0.0, self.is_unique) {
            (false, _) => longest.bytes,
            (true, false) => longest.bytes + longest.key_bytes,
            (true, true) => 2 * longest.bytes + longest.key_bytes,
        })
    }

    /// Whether a plan for lines of this size exists.
    pub fn has_plan(self) -> bool {
        let size = LineSize {
            line_bytes: self.line_bytes.max(1.0),
            ..self
        };
        let best = |job| {
            best_plan(LineSize {
                job,
                ..size.clone()
            })
        };
        on_fewer_threads(size.job.clone(), best).is_some()
    }
}

impl LinePlan {
    /// Memory for a bucket that is loaded while others are sorted. It counts whole blocks, because
    /// each segment may begin a new one.
    pub(super) fn bucket_space(&self) -> Space {
        let segments = self.bucket_bytes_max.div_ceil(self.segment_bytes);
        let blocks = self.bucket_bytes_max.div_ceil(BLOCK_BYTES);
        let area_bytes = (blocks + segments + 3 * self.size.threads + 2) * BLOCK_BYTES;
        Space {
            area_bytes: area_bytes as u64,
            lines: self.bucket_lines_max,
            key_bytes: self.bucket_key_bytes_max,
        }
    }

    /// Length of the stretches of input that threads take. They are long if order matters, because
    /// each leaves a run to remember in every bucket.
    pub(super) fn chunk_of_input_bytes(&self) -> u64 {
        let share = self.size.data_bytes / (STRETCHES * self.size.threads) as u64;
        let share = match self.size.is_ordered {
            true => share,
            false => share.min(64 << 20),
        };
        share.max(self.read_block_bytes as u64).max(64 << 10)
    }

    /// Memory for lines that are being assembled, and for the key and copy of a long one.
    pub(super) fn across_bytes(&self) -> u64 {
        let one = self.size.long_line_bytes();
        one.unwrap_or_else(|| self.common.across_bytes(1))
    }

    /// Memory for long lines that are read back, one per thread, with their keys and copies.
    pub(super) fn long_read_bytes(&self) -> u64 {
        self.size.threads as u64 * self.size.long_line_bytes().unwrap_or(0)
    }

    /// Memory for a sample of long keys: two whole rows, which may differ only at their ends.
    fn long_keys_bytes(&self) -> u64 {
        let longest = self.size.longest.filter(|_| !self.size.is_read);
        LONG_KEYS_BYTES_MIN + longest.map_or(0, |longest| 2 * longest.bytes)
    }

    /// Memory for long rows during distribution, one row per thread: its key, and the copy of the
    /// first row of a key.
    pub(super) fn long_made_bytes(&self) -> u64 {
        let (longest, made) = (self.size.longest, self.size.long_line_bytes());
        let each = longest.zip(made).filter(|_| !self.size.is_read);
        let each_bytes = each.map_or(0, |(longest, made_bytes)| made_bytes - longest.bytes);
        self.size.threads as u64 * each_bytes
    }

    /// Memory for lines that are being marked: one batch or long line per thread.
    pub(super) fn marked_bytes(&self) -> u64 {
        match self.size.mark_bytes {
            0 => 0,
            _ => (self.size.threads * (2 * MARKED_BATCH_BYTES + self.line_bytes_max)) as u64,
        }
    }

    /// Memory for the bucket that contains the longest line, if that was measured: it is sorted
    /// alone.
    pub(super) fn long_bucket_space(&self) -> Space {
        let (space, longest) = (self.bucket_space(), self.size.longest);
        let has_keys = self.size.key_bytes > 0.0;
        let key_bytes = longest
            .filter(|_| has_keys)
            .map_or(0, |long| long.key_bytes);
        // A marked line is sorted together with an equal one.
        let copies = if self.size.mark_bytes > 0 { 2 } else { 1 };
        Space {
            area_bytes: space.area_bytes + copies * longest.map_or(0, |long| long.bytes),
            key_bytes: space.key_bytes + copies * key_bytes,
            ..space
        }
    }

    /// Bytes of memory for that bucket alone, including buffers for the output.
    fn long_bucket_bytes(&self) -> u64 {
        let space = self.long_bucket_space();
        let bytes = match self.size.longest {
            // One bucket may have more lines, and another may have more bytes.
            Some(longest) if longest.is_grouped => 2 * space.area_bytes.max(space.beside_bytes()),
            _ => space.area_bytes + space.beside_bytes(),
        };
        bytes + 2 * self.chunk_bytes as u64
    }

    /// How segments are written and read back.
    pub(super) fn segment_sizes(&self) -> SegmentSizes {
        self.common.segment_sizes(SPLIT_BUCKETS)
    }

    /// All reservations of the sort. The rest may be used for larger buckets when buckets are
    /// sorted.
    pub fn ledger(&self) -> Ledger {
        self.reservations()
            .filled("split", LONG_KEYS, self.size.memory_bytes)
            .filled("sort", SORTING, self.size.memory_bytes)
    }
}

impl Planned for LinePlan {
    const CHUNKS_MIN: usize = 2;
    const LAST_PHASE: &'static str = "sort";

    fn reservations(&self) -> Ledger {
        let threads = self.size.threads;
        let streams = threads * self.bucket_count;
        let runs = match self.size.is_ordered {
            true => STRETCHES * streams,
            false => 0,
        };
        let input_runs = self.data_segments() + 1 + runs as u64;
        let tables_bytes = self.bucket_count_last as u64 * BUCKET_META_BYTES + 64 * streams as u64;
        let space = self.bucket_space();
        let ledger = self
            .common
            .ledger("sort of lines", input_runs, tables_bytes, SPLIT_BUCKETS)
            .always(TABLES, threads as u64 * self.table_bytes);
        let each_bytes = self.areas_bytes(space.area_bytes as usize) + space.beside_bytes();
        let sorting_bytes = threads as u64 * each_bytes;
        let ledger = match self.size.is_read {
            true => self.with_regions(ledger, self.across_bytes()),
            false => ledger.during("distribute", LONG_MADE, self.long_made_bytes()),
        };
        ledger
            .during("distribute", MARKED, self.marked_bytes())
            .during("split", SPLIT_SEGMENTS, self.split_bytes())
            .during("split", LONG_KEYS, self.long_keys_bytes())
            .during("split", LONG_READ, self.long_read_bytes())
            .during("sort", EDGES, EDGES_BYTES)
            .during("sort", SORTING, sorting_bytes.max(self.long_bucket_bytes()))
    }

    /// Counts more segments than the data fill, because lines leave a part of most segments empty.
    fn segments_wanted(&self) -> (u64, u64) {
        let segments = self.data_segments() + self.slots_in_use(SPLIT_BUCKETS) as u64;
        (segments, segments)
    }

    /// A small preference for buckets that are sorted in cache, if the drives do not decide.
    fn detour(&self) -> f64 {
        let bucket_bytes = self.bucket_bytes_max as f64 * (1.0 + self.size.overhead());
        let oversize = bucket_bytes / (1.5 * BUCKET_BYTES_BEST as f64);
        1.0 + 0.02 * oversize.log2().abs()
    }

    fn work(&self) -> (f64, KindCosts) {
        let lines = self.size.data_bytes as f64 / self.size.line_bytes;
        (lines, self.size.costs.lines)
    }

    /// The sample exists already.
    fn choose_sample(&mut self) -> (f64, f64) {
        let bytes = self.size.sampled_bytes as f64;
        (bytes / BLOCK_BYTES as f64, bytes)
    }

    fn shorten_lines(&mut self) -> bool {
        let is_measured = self.size.longest.is_some();
        let can = self.line_bytes_max > LINE_BYTES_MIN && !is_measured;
        if can {
            self.line_bytes_max = (self.line_bytes_max / 2).max(LINE_BYTES_MIN);
        }
        can
    }

    fn counted_bytes(&self) -> Option<f64> {
        let distinct = self.size.distinct.filter(|_| self.table_bytes > 0)?;
        Some(distinct as f64 * self.size.line_bytes)
    }
}

/// Plans the sort of `size`, on fewer threads if the memory is too small for all of them.
///
/// # Errors
/// [`Kind::Memory`](crate::Kind::Memory) with the least memory that is enough, if there is too
/// little even for one thread.
pub fn plan_lines(size: LineSize) -> Result<LinePlan> {
    let size = LineSize {
        line_bytes: size.line_bytes.max(1.0),
        ..size
    };
    let mut items = lines_text(size.job.data_bytes, size.line_bytes.round() as u64);
    if let Some(longest) = size.longest {
        let longest = units::bytes(longest.bytes);
        items = format!("{items}, of which the longest has {longest}");
    }
    plan_within(size.job.clone(), "plan the sort of lines", &items, |job| {
        on_fewer_threads(job, |job| {
            best_plan(LineSize {
                job,
                ..size.clone()
            })
        })
    })
}

/// The subject of the plan in errors: "of lines of about 40 bytes".
pub(crate) fn lines_text(data_bytes: u64, line_bytes: u64) -> String {
    match (data_bytes, line_bytes) {
        (0, _) => "of lines".to_owned(),
        (_, 1) => "of lines of about 1 byte".to_owned(),
        (_, bytes) => format!("of lines of about {bytes} bytes"),
    }
}

/// Table bytes per thread, if all distinct lines are likely to fit.
fn table_bytes(size: &LineSize) -> u64 {
    let allowed = size.memory_bytes as f64 * 0.6 / size.threads as f64;
    match size.distinct {
        // A table copies the lines that do not fit, so it is not used for long lines.
        Some(distinct) if size.is_unique && size.longest.is_none() => {
            // 1.5 times the bytes, because the number is an estimate.
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
    if size.data_bytes <= LITTLE_BYTES {
        let plan = best_of(candidates(size.clone(), table_bytes(&size), 7..=7, 0..=0));
        if plan.as_ref().is_some_and(|plan| plan.distributions == 0) {
            return plan;
        }
    }
    // Longer segments only if there would otherwise be too many segments to remember.
    let shifts = [1..=7, -1..=0];
    let tables = [table_bytes(&size), 0];
    let mut kinds = tables
        .into_iter()
        .flat_map(|table_bytes| shifts.clone().map(|shifts| (table_bytes, shifts)));
    kinds.find_map(|(table_bytes, shifts)| {
        best_of(candidates(
            size.clone(),
            table_bytes,
            shifts,
            BUCKET_SHIFTS_TRIED,
        ))
    })
}

/// Plans with these halvings of the longest segment and of the best bucket.
fn candidates(
    size: LineSize,
    table_bytes: u64,
    segment_shifts: RangeInclusive<i32>,
    bucket_shifts: RangeInclusive<i32>,
) -> impl Iterator<Item = LinePlan> {
    let segments = segment_shifts.map(|shift| {
        let segment_bytes = SEGMENT_BYTES_MAX as f64 * f64::from(-shift).exp2();
        (segment_bytes as usize).max(SEGMENT_BYTES_MIN)
    });
    let averages = segments.flat_map(move |segment_bytes| {
        let shares = bucket_shifts.clone();
        shares.map(move |shift| (segment_bytes, f64::from(-shift).exp2()))
    });
    averages.flat_map(move |(segment_bytes, share)| {
        let size = size.clone();
        let best_bytes = BUCKET_BYTES_BEST as f64 / (1.0 + size.overhead());
        let average_bytes = (best_bytes * share)
            .max(2.0 * segment_bytes as f64)
            .max(4096.0);
        let wanted = (size.data_bytes as f64 / average_bytes).ceil() as usize;
        let most = (0..BUCKET_SHIFTS).map(|shift| BUCKETS_MAX >> shift);
        // If the wanted number of buckets is allowed, it is tried once.
        let most = most.filter(move |&most| most == BUCKETS_MAX || wanted > most);
        most.filter_map(move |most| {
            let count = wanted.max(size.threads).clamp(1, most);
            with_buckets(
                size.clone(),
                table_bytes,
                segment_bytes,
                count,
                average_bytes,
            )
        })
    })
}

/// A plan of `count` buckets, each of which is split until its parts have `average_bytes`.
fn with_buckets(
    size: LineSize,
    table_bytes: u64,
    segment_bytes: usize,
    count: usize,
    average_bytes: f64,
) -> Option<LinePlan> {
    let reached_bytes = (size.data_bytes as f64 / count as f64).ceil();
    let splits = match reached_bytes > 1.01 * average_bytes {
        true => (reached_bytes / average_bytes).log(SPLIT_FACTOR).ceil() as u32,
        false => 0,
    };
    let average_bytes = reached_bytes.min(average_bytes);
    // With a sample of hundreds per bucket, the largest bucket exceeds the average by at most a
    // third; lines and keys of one bucket may be shorter or longer than all others.
    let bytes_max = (average_bytes * 1.5) as usize + 2 * segment_bytes;
    let buckets = Buckets {
        distributions: 1 + splits,
        count,
        count_last: match splits {
            0 => count as f64,
            _ => 2.0 * size.data_bytes as f64 / bytes_max as f64,
        },
        bytes_max,
        segment_bytes,
        has_extents: true,
    };
    let wishes = Wishes {
        element_bytes: None,
        areas: 3,
        has_chunks: true,
        open_chunks_max: match size.is_ordered || size.longest.is_some() {
            true => 1,
            false => OPEN_CHUNKS_MAX,
        },
        reads_max: usize::MAX,
    };
    let lines = average_bytes / size.line_bytes;
    let mut plan = LinePlan {
        common: PartitionPlan::new(size.job.clone(), buckets, wishes),
        table_bytes,
        bucket_lines_max: (lines * 2.0) as u64 + 64,
        bucket_key_bytes_max: (lines * 2.0 * size.key_space_bytes()) as u64 + 4096,
        size,
    };
    plan.line_bytes_max = match plan.size.longest {
        Some(longest) => longest.bytes as usize,
        None => ((plan.size.memory_bytes / 32) as usize).clamp(LINE_BYTES_MIN, LINE_BYTES_LIMIT),
    };
    (plan.bucket_space().area_bytes <= AREA_BYTES_MAX as u64).then_some(plan)
}

impl fmt::Display for LinePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = &self.size;
        let keys = match size.key_bytes {
            0.0 => "which are their own keys".to_string(),
            bytes => format!("with keys of about {bytes:.0} bytes"),
        };
        let items = format!("{}s", size.item());
        let mut notes = vec![format!(
            "{items} of about {:.0} bytes and at most {}, {keys}",
            size.line_bytes,
            units::bytes(self.line_bytes_max as u64)
        )];
        if self.table_bytes > 0 {
            notes.push(format!(
                "about {} different {items}: counted in a table of {} per thread",
                size.distinct.unwrap_or(0),
                units::bytes(self.table_bytes)
            ));
        }
        let what = format!("sort {} of {items}", units::bytes(size.data_bytes));
        self.describe(f, &what, &notes, "sort", &self.ledger())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{ComputeCosts, DriveRates, Layout};
    use outcore_io::Kind;

    fn size(data_bytes: u64, memory_bytes: u64) -> LineSize {
        LineSize {
            job: JobSize {
                data_bytes,
                memory_bytes,
                held_bytes: 0,
                threads: 2,
                drive_count: 1,
                layout: Layout::even(DriveRates::ASSUMED, 1).into(),
                costs: ComputeCosts::ASSUMED,
            },
            line_bytes: 32.0,
            key_bytes: 0.0,
            distinct: None,
            is_ordered: false,
            is_unique: false,
            is_read: true,
            longest: None,
            mark_bytes: 0,
            sampled_bytes: 0,
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
                    assert!(plan.distributions == 0 || !fits, "{plan}");
                }
            }
        }
        assert_eq!(
            plan_lines(size(1 << 31, 512 << 20)).unwrap().distributions,
            1
        );
        assert!(plan_lines(size(100 << 30, 64 << 20)).unwrap().distributions > 1);
        let large = plan_lines(size(1 << 40, 200 << 30)).unwrap();
        let offsets_max = u32::MAX as u64;
        assert!(large.line_bytes_max as u64 <= offsets_max);
        assert!(large.bucket_space().area_bytes <= offsets_max);
    }

    #[test]
    fn too_little_memory_is_refused_with_what_would_do() {
        let error = plan_lines(size(1 << 31, 2 << 20)).unwrap_err();
        assert_eq!(error.kind(), Kind::Memory);
        assert!(error.next_step().unwrap().contains("--memory"));
    }

    #[test]
    fn a_measured_line_takes_about_its_length_and_the_memory_that_is_named_is_enough() {
        let with = |memory_bytes| {
            let mut size = size(400 << 20, memory_bytes);
            size.job.threads = 1;
            size.longest = Some(LongLine {
                bytes: 300 << 20,
                key_bytes: 0,
                is_grouped: false,
            });
            size
        };
        let plan = plan_lines(with(364 << 20)).unwrap();
        assert!(plan.ledger().bytes() <= 364 << 20, "{plan}");
        assert_eq!(plan.line_bytes_max, 300 << 20);
        let error = plan_lines(with(200 << 20)).unwrap_err();
        let hint = error.next_step().unwrap();
        let named = hint.split("--memory ").nth(1).unwrap();
        plan_lines(with(units::parse_bytes(named).unwrap())).unwrap();
    }

    #[test]
    fn few_distinct_lines_are_counted_in_tables() {
        let few = LineSize {
            distinct: Some(1_000_000),
            is_unique: true,
            ..size(1 << 31, 512 << 20)
        };
        let plan = plan_lines(few.clone()).unwrap();
        assert!(plan.table_bytes > 70_000_000, "{plan}");
        let many = LineSize {
            distinct: Some(50_000_000),
            ..few
        };
        assert_eq!(plan_lines(many).unwrap().table_bytes, 0);
    }
}
