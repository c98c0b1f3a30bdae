//! Distinct items and their counts: `count_by`, `unique`.
//!
//! Contract: the result has each distinct item once, in the order of `sort` for such records; with
//! `count_by`, its count follows (8 bytes, little-endian). The bytes depend only on the items.
//! Whole items are compared, so first map each item to the value to count. All NaNs in a float key
//! are equal; the result has the first of them.
//!
//! Two methods give the same result.
//! - *By hash*: each thread counts in its own table. Full tables are added to a shared one, which
//!   is sorted at the end. This takes one read of the input and no scratch.
//! - *By sort*: the items go directly from their pass into a sort, which keeps one of each for
//!   `unique`. For `count_by`, one pass over the sorted items then counts the runs of equal ones.
//!
//! [`plan_group`] estimates the number of distinct items from a sample and chooses the method. If
//! there are more distinct items than the tables hold, the sort takes over.
//!
//! Bounds: the sample is [`SAMPLE_PIECES`] reads; by hash, half of the memory; by sort, the bounds
//! of [`sort`](mod@crate::sort).

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytemuck::Pod;

use super::batch::{Sequence, Yield};
use super::count_table::{COUNT_BYTES, CountTable, PLACES_MIN, hash};
use super::gather::{FileItems, InMemory};
use super::ordered::{InOrder, append_in_order};
use super::pass::{BESIDE, Demand, Pass, RESULTS, Sample, shield};
use super::pieces::Lanes;
use super::producer::{Emit, Producer, Typed};
use super::sorted::{can_sort_made, sort_made};
use super::summary::{PassPlan, Summary};
use super::write::{Fate, plan_of, produce};
use crate::ends::{Input, Output, make_dir};
use crate::forecast::{Amounts, Forecast, PhasePlan};
use crate::job::Job;
use crate::key::order::{Order, OrderOptions};
use crate::key::record::RecordFormat;
use crate::key::sort_key::Tie;
use crate::read::sample::distinct;
use crate::sort::lines::Occurrences;
use crate::sort::{self, SortOptions, sort};
use outcore_io::drive::PrivateDir;
use outcore_io::memory::{Budget, Pool};
use outcore_io::port::Volume;
use outcore_io::units;
use outcore_io::{Error, Result};

/// Phase names: of the method by hash, and of the method by sort.
const COUNT: &str = "count";
const COUNT_RUNS: &str = "count runs";
/// Number of sampled places of the input, and the bytes and positions at each.
const SAMPLE_PIECES: u64 = 256;
const SAMPLE_BYTES: u64 = 16 << 10;
const SAMPLE_POSITIONS: u64 = 512;

/// Method of finding distinct items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupedBy {
    /// Hash tables in memory.
    Hash,
    /// A sort.
    Sort,
}

/// Contents of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grouping {
    /// Only items.
    Unique,
    /// Items and counts.
    Counted,
    /// Only items with the wanted number of occurrences.
    Only(Occurrences),
    /// Only items with the wanted number of occurrences, with their counts.
    OnlyCounted(Occurrences),
}

impl Grouping {
    /// The grouping for items with the wanted number of occurrences, with counts if `is_counted`.
    pub fn of(is_counted: bool, occurrences: Occurrences) -> Self {
        match (is_counted, occurrences) {
            (false, Occurrences::Any) => Grouping::Unique,
            (true, Occurrences::Any) => Grouping::Counted,
            (false, wanted) => Grouping::Only(wanted),
            (true, wanted) => Grouping::OnlyCounted(wanted),
        }
    }

    /// Whether a count follows each item.
    pub fn is_counted(self) -> bool {
        matches!(self, Grouping::Counted | Grouping::OnlyCounted(_))
    }

    fn wants(self, count: u64) -> bool {
        match self {
            Grouping::Unique | Grouping::Counted => true,
            Grouping::Only(wanted) | Grouping::OnlyCounted(wanted) => wanted.has(count),
        }
    }
}

/// The plan for finding distinct items.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupPlan {
    /// The pass over the input.
    pub pass: PassPlan,
    /// The method.
    pub by: GroupedBy,
    /// Estimated number of items of the input.
    pub items: u64,
    /// Estimated number of distinct items, if all are about equally frequent; an upper bound for
    /// few items.
    pub distinct: u64,
    /// Number of distinct items that the tables hold.
    pub held: u64,
    /// Bytes that were read for the estimates.
    pub sampled_bytes: u64,
}

impl fmt::Display for GroupPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.pass)?;
        let (distinct, items) = (units::count(self.distinct), units::count(self.items));
        match self.sampled_bytes {
            0 => write!(f, "  at most {distinct} distinct items, ")?,
            _ => write!(f, "  about {distinct} distinct of {items} items, ")?,
        }
        write!(f, "tables hold {}: ", units::count(self.held))?;
        match self.by {
            GroupedBy::Hash => write!(f, "counted by hash, nothing goes to scratch"),
            GroupedBy::Sort => write!(f, "sorted, equal ones side by side"),
        }
    }
}

/// The result of grouping.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupSummary {
    /// The pass; `records` are distinct items.
    pub pass: Summary,
    /// The method that was used.
    pub by: GroupedBy,
}

/// Writes each distinct item of `sequence` and its count, in the order of `format`, to `output`.
///
/// # Errors
/// [`crate::Kind::Usage`] for a format of another size; the errors of [`write`](super::write()).
pub fn count_by<S>(
    job: &Job,
    sequence: &S,
    format: &RecordFormat,
    output: &Output,
    replace: bool,
) -> Result<GroupSummary>
where
    S: Sequence,
    S::Item: Pod,
{
    let typed = Typed(sequence);
    group(job, &typed, format, Grouping::Counted, output, replace)
}

/// Writes each distinct item of `sequence`, in the order of `format`, to `output`.
///
/// # Errors
/// The errors of [`count_by`].
pub fn unique<S>(
    job: &Job,
    sequence: &S,
    format: &RecordFormat,
    output: &Output,
    replace: bool,
) -> Result<GroupSummary>
where
    S: Sequence,
    S::Item: Pod,
{
    let typed = Typed(sequence);
    group(job, &typed, format, Grouping::Unique, output, replace)
}

/// [`count_by`] or [`unique`] of the items of `producer`.
///
/// # Errors
/// The errors of [`count_by`].
pub fn group(
    job: &Job,
    producer: &dyn Producer,
    format: &RecordFormat,
    grouping: Grouping,
    output: &Output,
    replace: bool,
) -> Result<GroupSummary> {
    if format.record_bytes() != producer.item_bytes() {
        let cause = format!("items of {} bytes are not {format}", producer.item_bytes());
        return Err(Error::usage("group", cause).hint("give the format of the items"));
    }
    format.check_order()?;
    let whole = WholeItems::of(format);
    let format = &whole.format;
    let (plan, mut before) = sample_and_plan(job, producer, format, grouping, "group")?;
    let mut counted = None;
    if plan.by == GroupedBy::Hash {
        let (table, pass) = by_hash(job, producer, &plan)?;
        before = before.and(pass);
        counted = table;
    }
    let planned = &plan.pass.phases;
    if let Some(table) = counted {
        let mut groups: Vec<(&[u8], u64)> = table.iter().collect();
        groups.sort_unstable_by(|a, b| whole.order.compare(a.0, b.0));
        let item_bytes = written_bytes(producer, grouping);
        let mut bytes = Vec::with_capacity(groups.len() * item_bytes);
        for same in groups.chunk_by(|a, b| whole.is_same(a.0, b.0)) {
            let count = same.iter().map(|(_, count)| count).sum();
            put(&mut bytes, same[0].0, count, grouping);
        }
        drop(groups);
        drop(table);
        let result = InMemory {
            bytes: &bytes,
            item_bytes,
        };
        let written = produce(job, &result, output, replace)?;
        return Ok(GroupSummary {
            pass: before.and_unread(written).beside(planned),
            by: GroupedBy::Hash,
        });
    }
    let sorted = by_sort(job, producer, &whole, grouping, output, replace)?;
    Ok(GroupSummary {
        pass: before.and(sorted),
        by: GroupedBy::Sort,
    })
}

/// The order of whole items, and their equality.
struct WholeItems {
    /// All bytes of an item as keys, if a key may be that long.
    format: RecordFormat,
    order: Order,
    is_all_key: bool,
}

impl WholeItems {
    fn of(format: &RecordFormat) -> Self {
        let whole = format.with_rest_as_keys();
        let format = whole.unwrap_or_else(|_| format.clone());
        let options = OrderOptions {
            descending: false,
            tie: Tie::Bytes,
        };
        WholeItems {
            order: Order::new(&format, options),
            is_all_key: format.is_all_key(),
            format,
        }
    }

    fn is_same(&self, a: &[u8], b: &[u8]) -> bool {
        match self.is_all_key {
            true => self.order.compare_keys(a, b).is_eq(),
            false => a == b,
        }
    }
}

fn written_bytes(producer: &dyn Producer, grouping: Grouping) -> usize {
    result_bytes_of(producer.item_bytes(), grouping)
}

/// Length of an item of the result.
fn result_bytes_of(item_bytes: usize, grouping: Grouping) -> usize {
    match grouping.is_counted() {
        false => item_bytes,
        true => item_bytes + COUNT_BYTES,
    }
}

fn put(into: &mut Vec<u8>, item: &[u8], count: u64, grouping: Grouping) {
    if !grouping.wants(count) {
        return;
    }
    into.extend_from_slice(item);
    if grouping.is_counted() {
        into.extend_from_slice(&count.to_le_bytes());
    }
}

/// Memory of each table; building the result takes another amount as large as the shared table.
fn share_bytes(job: &Job) -> u64 {
    let threads = job.options.threads.max(1) as u64;
    job.budget.free_bytes() / 2 / (threads + 3)
}

/// The plan of [`group`]. Reads a sample, or nothing if the input fits in any case.
///
/// # Errors
/// The errors of [`count_by`].
pub fn plan_group(
    job: &Job,
    producer: &dyn Producer,
    format: &RecordFormat,
    grouping: Grouping,
    consumer: &str,
) -> Result<GroupPlan> {
    format.check_order()?;
    let whole = WholeItems::of(format);
    Ok(sample_and_plan(job, producer, &whole.format, grouping, consumer)?.0)
}

/// Like [`plan_group`], but with the cost of the sample.
fn sample_and_plan(
    job: &Job,
    producer: &dyn Producer,
    format: &RecordFormat,
    grouping: Grouping,
    consumer: &str,
) -> Result<(GroupPlan, Summary)> {
    let mut pass = plan_of(job, producer, consumer, &[Fate::Folded(COUNT)])?;
    let item_bytes = producer.item_bytes();
    let held = CountTable::items_max(CountTable::places(item_bytes, share_bytes(job))) as u64;
    let (sample, done) = sample_items(job, producer, held)?;
    let by = match sample.distinct <= held {
        true => GroupedBy::Hash,
        false => GroupedBy::Sort,
    };
    let result_bytes = sample.distinct * written_bytes(producer, grouping) as u64;
    let written = match sample.is_bound {
        true => Forecast::AtMost(result_bytes),
        false => Forecast::About(result_bytes),
    };
    let layout = pass.layout.clone();
    let phase = |name, read_bytes, written_bytes| {
        PhasePlan::new(
            name,
            Amounts::of_files(read_bytes, written_bytes, 0.0),
            &layout,
        )
    };
    match by {
        GroupedBy::Hash => {
            pass.phases.push(phase("write", Forecast::NOTHING, written));
        }
        GroupedBy::Sort => {
            let items_bytes = sample.items * item_bytes as u64;
            let read = pass
                .phases
                .first()
                .map_or(Forecast::NOTHING, |read| read.read_bytes);
            let is_whole = is_distinct_sort(producer, format, grouping);
            let options = SortOptions {
                unique: is_whole,
                ..SortOptions::default()
            };
            let mut sort = sort::plan(job, items_bytes, format, options, layout.clone())?;
            pass.phases.clear();
            match can_sort_made(producer, options) {
                true => {
                    sort.reads_no_sample();
                    sort.reads_instead(read.bytes().unwrap_or(items_bytes).into());
                }
                false => pass.phases.push(phase("write", read, items_bytes.into())),
            }
            pass.phases.extend(sort.phases.iter().cloned());
            match pass.phases.last_mut() {
                Some(sort) if is_whole => {
                    let amounts = Amounts {
                        output: written,
                        ..*sort.amounts()
                    };
                    *sort = sort.redone(amounts, &layout);
                }
                _ => {
                    let count = phase(COUNT_RUNS, items_bytes.into(), written);
                    pass.phases.push(count);
                }
            }
        }
    }
    let plan = GroupPlan {
        pass,
        by,
        items: sample.items,
        distinct: sample.distinct,
        held,
        sampled_bytes: done.read_bytes,
    };
    Ok((plan, done))
}

/// The estimates from a sample.
struct Sampled {
    items: u64,
    distinct: u64,
    /// Whether the actual number may be lower.
    is_bound: bool,
}

/// The sampled items.
#[derive(Default)]
struct Seen {
    positions: u64,
    made: u64,
    hashes: Vec<u64>,
}

/// Estimates the number of items, and of distinct items, that the sources yield; without a sample
/// if they are `few`.
fn sample_items(job: &Job, producer: &dyn Producer, few: u64) -> Result<(Sampled, Summary)> {
    let item_bytes = producer.item_bytes();
    let demand = Demand {
        out_bytes: item_bytes,
        areas: 1,
        thread_bytes: producer.space_bytes() as u64,
        fixed_bytes: job.budget.free_bytes() / 8,
    };
    let sources = producer.sources();
    let position_bytes: u64 = sources
        .iter()
        .map(|source| source.element_bytes as u64)
        .sum();
    let positions = (SAMPLE_BYTES / position_bytes.max(1)).clamp(1, SAMPLE_POSITIONS);
    let room = demand.fixed_bytes / (SAMPLE_POSITIONS * size_of::<u64>() as u64);
    let pieces = room.clamp(1, SAMPLE_PIECES);
    let volume = Arc::new(Volume::new(Arc::clone(&job.device), &[])?);
    let sample = Sample { pieces, positions };
    let pass = Pass::open_sample(volume, job, &sources, demand, sample)?;
    let count = pass.count();
    if producer.yields() != Yield::Any && count <= few {
        let all = Sampled {
            items: count,
            distinct: count,
            is_bound: true,
        };
        return Ok((all, Summary::default()));
    }
    pass.begin_reading("sample", Forecast::Unknown, Forecast::NOTHING);
    let all = Mutex::new(Seen::default());
    pass.each_piece(
        || {
            let bytes = pass.sizes.area_bytes;
            let area = Pool::new(&pass.budget, RESULTS, bytes, 1)?;
            Ok((producer.maker(), area, Vec::new()))
        },
        |(make, pool, hashes), reader, loaded| {
            let mut area = reader.area(pool)?;
            let mut made = 0;
            let mut add = |items: &mut [u8]| {
                // If a position yields many items, some of them are enough.
                let room = (SAMPLE_POSITIONS as usize).saturating_sub(hashes.len());
                hashes.extend(items.chunks_exact(item_bytes).take(room).map(hash));
                made += items.len() / item_bytes;
                Ok(())
            };
            let mut emit = Emit::streaming(&mut area, &mut add);
            shield(|| make(loaded.batch(), &mut emit))?;
            emit.finish()?;
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            all.positions += loaded.piece.count as u64;
            all.made += made as u64;
            all.hashes.append(hashes);
            Ok(())
        },
        |_, _| Ok(()),
    )?;
    let all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut hashes = all.hashes;
    let taken = hashes.len() as f64;
    hashes.sort_unstable();
    hashes.dedup();
    let items = count as f64 * all.made as f64 / all.positions.max(1) as f64;
    let found = Sampled {
        items: items as u64,
        distinct: distinct(hashes.len() as f64, taken, items) as u64,
        is_bound: false,
    };
    // A sample does not count as a pass.
    let done = Summary {
        passes: 0,
        ..pass.summary(0, 0)
    };
    Ok((found, done))
}

/// All counts, or `None` if there are more distinct items than slots; and the cost.
fn by_hash(
    job: &Job,
    producer: &dyn Producer,
    plan: &GroupPlan,
) -> Result<(Option<CountTable>, Summary)> {
    let item_bytes = producer.item_bytes();
    let threads = job.options.threads.max(1) as u64;
    let most = CountTable::places(item_bytes, share_bytes(job));
    let places = match plan.sampled_bytes {
        // There are at most this many items, so few items need no large tables.
        0 => most.min(
            (plan.items as usize * 2)
                .max(PLACES_MIN)
                .next_power_of_two(),
        ),
        _ => most,
    };
    let share_bytes = CountTable::table_bytes(item_bytes, places) as u64;
    let demand = Demand {
        out_bytes: item_bytes,
        areas: 1,
        thread_bytes: share_bytes + producer.space_bytes() as u64,
        fixed_bytes: 3 * share_bytes,
    };
    let pass = Pass::open(job, &producer.sources(), Lanes::Drives, demand)?;
    let tables_bytes = share_bytes * (threads + 3);
    let _tables = pass.budget.reserve(BESIDE, tables_bytes)?;
    pass.begin_phase(COUNT, Forecast::NOTHING);
    let all = Mutex::new(CountTable::new(item_bytes, places));
    let is_full = AtomicBool::new(false);
    let merge = |table: &mut CountTable| {
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        if !table.iter().all(|(item, count)| all.add(item, count)) {
            is_full.store(true, Ordering::Relaxed);
        }
        table.clear();
    };
    let fill_bytes = pass.sizes.area_bytes;
    pass.each_piece(
        || {
            let table = CountTable::new(item_bytes, places);
            let area = Pool::new(&pass.budget, RESULTS, fill_bytes, 1)?;
            Ok((table, producer.maker(), area))
        },
        |(table, make, pool), reader, loaded| {
            if is_full.load(Ordering::Relaxed) {
                reader.stop();
                return Ok(());
            }
            let mut add = |items: &mut [u8]| {
                let mut rest = &items[..];
                loop {
                    rest = &rest[table.count_each(rest) * item_bytes..];
                    if rest.is_empty() {
                        return Ok(());
                    }
                    merge(table);
                }
            };
            let mut area = reader.area(pool)?;
            let mut emit = Emit::streaming(&mut area, &mut add);
            shield(|| make(loaded.batch(), &mut emit))?;
            emit.finish()
        },
        |(mut table, ..), _| {
            merge(&mut table);
            Ok(())
        },
    )?;
    pass.check_sources()?;
    let done = pass.summary(0, 0);
    if is_full.into_inner() {
        return Ok((None, Summary { passes: 0, ..done }));
    }
    let table = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok((Some(table), done))
}

/// The same job for a next step, with unused memory.
pub(super) fn again(job: &Job) -> Job {
    Job {
        budget: Budget::new(job.budget.free_bytes()),
        ..job.clone()
    }
}

/// Sorts the items of `producer` into a file in `dir`; returns the file and the cost.
pub(super) fn sort_items(
    job: &Job,
    producer: &dyn Producer,
    format: &RecordFormat,
    descending: bool,
    dir: &PrivateDir,
) -> Result<(Input, Summary)> {
    let path = |name: &str| dir.path().join(name);
    let file = |name: &str| Output::File {
        path: path(name),
        header: None,
    };
    let options = SortOptions {
        descending,
        replace: true,
        ..SortOptions::default()
    };
    let sorted = Input::raw(path("sorted"));
    if can_sort_made(producer, options) {
        let done = sort_made(&again(job), producer, &file("sorted"), format, options)?;
        return Ok((sorted, done.into()));
    }
    // The number of items is known only after they are written.
    let written = produce(&again(job), producer, &file("items"), true)?;
    let items = [Input::raw(path("items"))];
    let options = SortOptions {
        delete_input: true,
        ..options
    };
    let done = sort(&again(job), &items, file("sorted"), format, options)?;
    job.device.remove(&path("items"))?;
    Ok((sorted, written.and(done.into())))
}

/// Whether a sort that keeps one record per key of `format` yields the distinct items.
fn is_distinct_sort(producer: &dyn Producer, format: &RecordFormat, grouping: Grouping) -> bool {
    let can = can_sort_made(producer, SortOptions::default());
    can && grouping == Grouping::Unique && format.is_all_key()
}

fn by_sort(
    job: &Job,
    producer: &dyn Producer,
    whole: &WholeItems,
    grouping: Grouping,
    output: &Output,
    replace: bool,
) -> Result<Summary> {
    let format = &whole.format;
    if is_distinct_sort(producer, format, grouping) {
        let options = SortOptions {
            unique: true,
            replace,
            ..SortOptions::default()
        };
        return sort_made(&again(job), producer, output, format, options).map(Summary::from);
    }
    let dir = make_dir(job, output)?;
    let (sorted, before) = sort_items(job, producer, format, false, &dir)?;
    let counted = count_runs(&again(job), &sorted, whole, grouping, output, replace)?;
    Ok(before.and(counted))
}

/// Writes each run of equal items of a file once, with its length.
fn count_runs(
    job: &Job,
    sorted: &Input,
    whole: &WholeItems,
    grouping: Grouping,
    output: &Output,
    replace: bool,
) -> Result<Summary> {
    let item_bytes = whole.order.record_bytes();
    let result_bytes = result_bytes_of(item_bytes, grouping);
    let mut runs = Runs {
        whole,
        grouping,
        current: None,
    };
    let items = FileItems {
        input: sorted.clone(),
        item_bytes,
    };
    append_in_order(
        job,
        &items,
        output,
        replace,
        COUNT_RUNS,
        result_bytes,
        &mut runs,
    )
}

/// Counts runs of equal items.
struct Runs<'a> {
    whole: &'a WholeItems,
    grouping: Grouping,
    current: Option<(Vec<u8>, u64)>,
}

impl InOrder for Runs<'_> {
    fn visit(&mut self, items: &[u8], results: &mut Vec<u8>) -> Result<()> {
        for item in items.chunks_exact(self.whole.order.record_bytes()) {
            match &mut self.current {
                Some((last, count)) if self.whole.is_same(last, item) => *count += 1,
                Some((last, count)) => {
                    put(results, last, *count, self.grouping);
                    last.copy_from_slice(item);
                    *count = 1;
                }
                None => self.current = Some((item.to_vec(), 1)),
            }
        }
        Ok(())
    }

    fn end(&mut self, results: &mut Vec<u8>) -> Result<()> {
        if let Some((last, count)) = self.current.take() {
            put(results, &last, count, self.grouping);
        }
        Ok(())
    }
}
