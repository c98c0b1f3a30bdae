//! Removes passages of texts that already occurred.
//!
//! Contract: a passage is removed if it already occurred in the same column, in an earlier row or
//! earlier in its own text. It must have at least the given number of bytes or tokens
//! ([`PassageUnit`]). With tokens, the white space after the passage is removed as well. The rest
//! of the text is joined. So each removed byte is part of a passage of that length that occurs
//! before, and the first occurrence of every passage stays. If a passage overlaps its first
//! occurrence, only the part after it is removed. Characters stay whole. All rows are kept, also
//! those whose text becomes empty; nulls stay null. The result depends only on the rows and the
//! length.
//!
//! The passage at every character is hashed ([`passages`](super::passages)), and the passages that
//! may repeat are sorted with their places. The first place of each passage stays. The other places
//! are sorted again while the first sort returns them, and overlapping ones are merged. The result
//! equals that of a suffix array, but only repeated passages are sorted, not all suffixes. Source:
//! Lee, Ippolito, Nystrom, Zhang, Eck, Callison-Burch, Carlini, "Deduplicating Training Data Makes
//! Language Models Better", ACL 2022, section 4.1.
//!
//! Bounds: a sixteenth of the memory for the cuts, at most 64 bytes each, and an eighth for the
//! filter. I/O is two reads of the texts, the sorts of the repeated passages, 28 and 20 bytes each,
//! and a copy. A job that keeps its state keeps the filter after the first read, and the cuts after
//! the sorts.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use arrow_array::cast::AsArray;
use arrow_cast::cast;
use arrow_schema::DataType;
use outcore::Job;
use outcore::key::sort_key::{NoKey, SortKey, Tie};
use outcore::sort::lines::rows::{RowBatch, RowPart, RowSink, RowSource, TakeRows};
use outcore_io::memory::Budget;
use outcore_io::{Error, Kind, Result, threads, units};

use super::cut_sink::{CutSink, KeptCuts, check_count, cut_short};
use super::cuts::{CUT_BYTES, Cut, Cutting, Mark, Removed, removed_schema};
use super::near::check_text;
use super::passages::{Hash, Looked, PassageUnit, Passages, Repeats};
use super::{Chosen, DEDUP, DedupSummary, refuse_removed, write};
use crate::fault;
use crate::input::{PieceQueue, TableInput};
use crate::jobs::copy::starts_of;
use crate::jobs::journal::{self, scratch_dir};
use crate::jobs::rows_in::ReadShape;
use crate::jobs::sort::{open, read_shape, sort_all};
use crate::jobs::{TableEnds, TableSummary};
use crate::output::OutputOptions;

/// Names of reservations in the ledger.
const FILTER: &str = "passages that may repeat";
const CUTS: &str = "stretches that are cut";
/// The longest passages, in bytes or tokens.
const UNITS_COUNT_MAX: usize = 1 << 20;
/// The longest text whose places can be stored.
const TEXT_BYTES_MAX: usize = 1 << 30;
/// Cuts may take 1/`CUTS_SHARE` of the memory, and the filter 1/`FILTER_SHARE`.
const CUTS_SHARE: u64 = 16;
const FILTER_SHARE: u64 = 8;
const FILTER_BYTES_MIN: u64 = 1 << 16;
/// Items of the first sort: a passage and its place. Items of the second: a place and the place of
/// the first occurrence.
const ITEM_BYTES: usize = 24;
const MARK_BYTES: usize = 16;
/// Batches of marks in flight between the two sorts.
const BATCHES: usize = 4;
const BATCH_BYTES: usize = 64 << 10;
const PART_BYTES: u64 = 32 << 20;
/// The number of items in the engine's sample.
const SAMPLE_ITEMS: u64 = 1 << 16;
const SHOWN_ITEMS: u64 = 1 << 10;

/// Which passages of which texts are removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Substring {
    /// The text column.
    pub column: String,
    /// The least length of passages, in bytes or tokens.
    pub units_count: usize,
    /// The unit of that length.
    pub unit: PassageUnit,
}

/// The removed passages.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SubstringSummary {
    /// The whole job.
    pub table: TableSummary,
    /// The number of stretches that were cut.
    pub cuts: u64,
    /// Their length in bytes or tokens.
    pub cut_units: u64,
    /// Length of the file that lists the cuts, if there is one.
    pub removed_bytes: u64,
}

/// Copies a table without repeated passages of a text. The file `removed`, if given, lists the
/// cuts.
///
/// # Errors
/// As [`dedup`](super::dedup()). Usage: a column that is not text; a length below 8 bytes or 2
/// tokens, or above 2^20; more than 2^32 rows. Memory: the cuts need more than a sixteenth of it.
pub fn dedup_substring(
    job: &Job,
    ends: &TableEnds<'_>,
    wanted: &Substring,
    removed: Option<(&PathBuf, &OutputOptions)>,
) -> Result<SubstringSummary> {
    let started = Instant::now();
    refuse_removed(job, removed.is_some())?;
    let input = open(job, ends)?;
    check_text(input.schema(), &wanted.column)?;
    if !(Passages::len_min(wanted.unit)..=UNITS_COUNT_MAX).contains(&wanted.units_count) {
        let (noun, hint) = match wanted.unit {
            PassageUnit::Bytes => ("byte", "give a length from 8 bytes to 1 MiB; 50 is usual"),
            PassageUnit::Tokens => ("token", "give from 2 to 1,048,576 tokens; 50 is usual"),
        };
        let len = units::counted(wanted.units_count as u64, noun);
        let cause = format!("{len} is not a valid length of passages");
        return Err(Error::usage(DEDUP, cause).hint(hint));
    }
    u32::try_from(input.rows_count()).map_err(|_| {
        Error::usage(DEDUP, "the table has more than 2^32 rows")
            .hint("remove repeated passages from parts of the table first")
    })?;
    let options = vec![
        journal::option("column", &wanted.column),
        journal::option("least length of passages", wanted.units_count),
        journal::option("unit of that length", format!("{:?}", wanted.unit)),
    ];
    let kind = "removal of passages of a table";
    let passes = journal::begin_passes(job, ends, &input, kind, options)?;
    let Some(passes) = passes else {
        return Removal {
            job,
            ends,
            input: &input,
            wanted,
            removed,
        }
        .run(started);
    };
    let ends = TableEnds {
        outputs: &passes.outputs,
        writes: &passes.writes,
        ..*ends
    };
    let removal = Removal {
        job: &passes.job,
        ends: &ends,
        input: &input,
        wanted,
        removed,
    };
    let done = removal.run(started)?;
    passes.kept.publish(&passes.job)?;
    Ok(done)
}

/// A removal of passages.
struct Removal<'a> {
    job: &'a Job,
    ends: &'a TableEnds<'a>,
    input: &'a TableInput,
    wanted: &'a Substring,
    removed: Option<(&'a PathBuf, &'a OutputOptions)>,
}

impl Removal<'_> {
    fn run(&self, started: Instant) -> Result<SubstringSummary> {
        let Removal {
            job,
            ends,
            input,
            wanted,
            removed,
        } = *self;
        let free_bytes = job.budget.free_bytes();
        let _cuts = job.budget.reserve(CUTS, free_bytes / CUTS_SHARE)?;
        let texts = input.narrowed(std::slice::from_ref(&wanted.column), input.job())?;
        let search = Search {
            texts: &texts,
            starts: starts_of(texts.pieces()),
            passages: Passages::new(wanted.unit, wanted.units_count),
            units_count: wanted.units_count,
            dir: scratch_dir(ends.outputs),
        };
        let (cuts, sorted) = search.run(job, free_bytes)?;
        let cutting = Cutting {
            cuts: &cuts,
            starts: starts_of(input.pieces()),
            pieces: input.pieces(),
            unit: wanted.unit,
            column: crate::schema::column_index(input.schema(), &wanted.column, DEDUP)?,
        };
        let schema = removed_schema();
        let chosen = Chosen {
            kept: &cutting,
            others: &Removed(&cutting),
            others_schema: &schema,
        };
        let sorted = super::Sorted { input, sorted };
        let DedupSummary {
            table,
            removed_bytes,
            ..
        } = write(job, ends, sorted, &chosen, removed)?.since(started);
        Ok(SubstringSummary {
            table,
            cuts: cuts.len() as u64,
            cut_units: cuts.iter().map(|cut| u64::from(cut.end - cut.start)).sum(),
            removed_bytes,
        })
    }
}

/// The search for repeated passages.
struct Search<'a> {
    texts: &'a TableInput,
    /// The first row of each piece.
    starts: Vec<u64>,
    passages: Passages,
    units_count: usize,
    dir: PathBuf,
}

/// The counts of the first read.
#[derive(Default)]
struct Seen {
    /// Bytes or tokens of all texts.
    text_units: AtomicU64,
    /// Passages whose slot was already hit.
    again: AtomicU64,
}

impl Search<'_> {
    /// Returns the cuts, in order.
    fn run(&self, job: &Job, free_bytes: u64) -> Result<(Vec<Cut>, TableSummary)> {
        // Lists grow by doubling, and are joined at the end.
        let cuts_max = free_bytes / CUTS_SHARE / (4 * CUT_BYTES);
        if let Some(cuts) = kept_cuts(job, cuts_max)? {
            return Ok((cuts, TableSummary::default()));
        }
        let mut looked = Looked {
            repeats: Repeats::new(0),
            text_units: 0,
            again: 0,
        };
        let is_looked = job.restore_state(&mut looked)?;
        if !is_looked {
            looked.repeats = Repeats::new(self.filter_bytes(free_bytes));
        }
        let _filter = job.budget.reserve(FILTER, looked.repeats.memory_bytes())?;
        // Both sorts run at the same time, and the first one also reads.
        let third_bytes = job.budget.free_bytes() / 3;
        let with = |bytes: u64| Job {
            budget: Budget::new(bytes),
            ..job.clone()
        };
        let (first, second) = (with(2 * third_bytes), with(third_bytes));
        let shape = read_shape(&first, self.texts.need(), usize::MAX);
        if !is_looked {
            self.look(job, shape, &mut looked)?;
            job.keep_state(&mut looked)?;
        }
        let Looked {
            repeats,
            text_units,
            again,
        } = looked;
        let (sender, receiver) = sync_channel(BATCHES);
        let marks = Marks {
            receiver: Mutex::new(receiver),
            rows_count: self.texts.rows_count(),
            text_units,
            data_bytes: again * (MARK_BYTES + size_of::<u32>()) as u64,
            threads_count: shape.readers_count,
        };
        let part_bytes = (marks.data_bytes / shape.readers_count as u64).clamp(1, PART_BYTES);
        let cuts = CutSink::new(self.units_count, part_bytes, cuts_max);
        let source = PassagesIn {
            search: self,
            repeats: &repeats,
            shape,
            data_bytes: 2 * again * (ITEM_BYTES + size_of::<u32>()) as u64,
            queue: PieceQueue::new(shape.readers_count),
            begun: AtomicUsize::new(0),
        };
        let firsts = FirstSink {
            sender,
            threads_count: shape.readers_count,
            part_bytes: (source.data_bytes / shape.readers_count as u64).clamp(1, PART_BYTES),
        };
        let threads_count = shape.readers_count;
        let (found, sorted) = std::thread::scope(|scope| {
            let cuts = &cuts;
            // The marks are dropped when this thread ends, so the sender learns that nothing
            // receives any more.
            let behind = move || {
                let ends: (&dyn RowSource, &dyn RowSink) = (&marks, cuts);
                sort_all(
                    &second,
                    threads_count,
                    ends,
                    &Front(8),
                    self.dir.clone(),
                    None,
                )
            };
            let place = std::thread::Builder::new().name("outcore-table-cuts".to_owned());
            let running = place.spawn_scoped(scope, behind);
            let running = running.map_err(|error| Error::io("start a thread", &error))?;
            let found = sort_all(
                &first,
                threads_count,
                (&source, &firsts),
                &Front(16),
                self.dir.clone(),
                None,
            );
            // The other sort ends when no more marks can come.
            drop(firsts);
            let sorted = running.join();
            let gone =
                || Error::corrupt(DEDUP, "a thread ended early").hint("a bug: please report it");
            let sorted = sorted.map_err(|_| gone())?;
            Ok::<_, Error>((found, sorted))
        })?;
        let (found, sorted) = both(found, sorted)?;
        self.texts.check_unchanged()?;
        let summary = TableSummary::of_sort(found, (0, self.texts.read_bytes()), Vec::new());
        let summary = TableSummary {
            read_bytes: summary.read_bytes + sorted.read_bytes,
            written_bytes: summary.written_bytes + sorted.written_bytes,
            scratch_bytes: summary.scratch_bytes + sorted.scratch_bytes,
            ..summary
        };
        let cuts = cuts.all();
        let mut kept = KeptCuts::of(job, &cuts);
        job.keep_state(&mut kept)?;
        Ok((cuts, summary))
    }

    /// The memory of the filter: if possible, about eight 2-bit slots per stored byte.
    fn filter_bytes(&self, free_bytes: u64) -> u64 {
        self.stored_bytes()
            .saturating_mul(16)
            .max(FILTER_BYTES_MIN)
            .min(free_bytes / FILTER_SHARE)
    }

    /// The stored bytes of all texts.
    fn stored_bytes(&self) -> u64 {
        let pieces = self.texts.pieces().iter();
        pieces.map(|piece| piece.stored_bytes).sum()
    }

    /// Passes each text, with its row, to `take`, for pieces that no thread has taken yet.
    fn each_text(
        &self,
        reader_bytes: u64,
        queue: &PieceQueue,
        mut take: impl FnMut(u32, &str) -> Result<()>,
    ) -> Result<()> {
        let mut reader = self.texts.reader(reader_bytes)?;
        while let Some((number, piece)) = reader.take(queue) {
            let mut row = self.starts.get(number).copied().unwrap_or(0) as u32;
            for batch in reader.open(piece)? {
                self.texts.job().control.check()?;
                let texts = cast(batch?.column(0), &DataType::LargeUtf8);
                let texts = texts.map_err(|error| fault::arrow(DEDUP, &error))?;
                for text in texts.as_string::<i64>() {
                    if let Some(text) = text {
                        if text.len() >= TEXT_BYTES_MAX {
                            return Err(Error::usage(DEDUP, "a text has 1 GiB or more")
                                .hint("cut it into several rows first"));
                        }
                        take(row, text)?;
                    }
                    row += 1;
                }
            }
        }
        Ok(())
    }

    /// Reads all texts, and adds their passages to the filter.
    fn look(&self, job: &Job, shape: ReadShape, looked: &mut Looked) -> Result<()> {
        let repeats = &looked.repeats;
        job.control
            .begin_phase("look for passages", self.stored_bytes());
        let (seen, queue) = (Seen::default(), PieceQueue::new(shape.readers_count));
        let work = |_thread: usize| {
            let (mut again, mut units) = (0, 0);
            self.each_text(shape.reader_bytes, &queue, |_, text| {
                let count = |_, _, hash| again += u64::from(repeats.add(hash));
                units += self.passages.each(text, count) as u64;
                Ok(())
            })?;
            seen.again.fetch_add(again, Ordering::Relaxed);
            seen.text_units.fetch_add(units, Ordering::Relaxed);
            Ok(())
        };
        let done = threads::together("outcore-table-passages", shape.readers_count, work)?;
        done.into_iter().collect::<Result<Vec<()>>>()?;
        looked.again = seen.again.into_inner();
        looked.text_units = seen.text_units.into_inner();
        Ok(())
    }
}

/// The results of the two sorts, or the error that is the cause.
fn both<T>(found: Result<T>, sorted: Result<T>) -> Result<(T, T)> {
    match (found, sorted) {
        // The first sort failed because the second one stopped; the second one's error is the
        // cause.
        (Err(error), Err(reason)) if error.kind() == Kind::Interrupted => Err(with_hint(reason)),
        (Err(error), _) | (_, Err(error)) => Err(with_hint(error)),
        (Ok(found), Ok(sorted)) => Ok((found, sorted)),
    }
}

/// The cuts that a killed run has kept, at most `cuts_max`.
fn kept_cuts(job: &Job, cuts_max: u64) -> Result<Option<Vec<Cut>>> {
    let mut kept = KeptCuts::default();
    if !job.restore_state(&mut kept)? {
        return Ok(None);
    }
    let cuts = kept.cuts()?;
    check_count(cuts.len() as u64, cuts_max).map_err(with_hint)?;
    Ok(Some(cuts))
}

/// Adds a hint to an error of one of the sorts, which only knows its share of the memory.
fn with_hint(error: Error) -> Error {
    match error.kind() {
        Kind::Memory => error.hint("allow more with --memory; two sorts share it"),
        _ => error,
    }
}

/// Passages that may repeat, with their places, as input of the engine.
struct PassagesIn<'a> {
    search: &'a Search<'a>,
    repeats: &'a Repeats,
    shape: ReadShape,
    data_bytes: u64,
    queue: PieceQueue,
    begun: AtomicUsize,
}

fn push_item(items: &mut RowBatch, hash: Hash, place: u64) -> Result<()> {
    let mut bytes = [0; ITEM_BYTES];
    bytes[..8].copy_from_slice(&hash[0].to_be_bytes());
    bytes[8..16].copy_from_slice(&hash[1].to_be_bytes());
    bytes[16..].copy_from_slice(&place.to_be_bytes());
    items.push(&bytes)
}

/// Gives the engine sample items made of evenly spread numbers.
fn show(take: &mut TakeRows<'_>, make: impl Fn(u64, &mut RowBatch) -> Result<()>) -> Result<()> {
    let mut items = RowBatch::default();
    for from in (0..SAMPLE_ITEMS).step_by(SHOWN_ITEMS as usize) {
        items.clear();
        for number in from..from + SHOWN_ITEMS {
            make(number, &mut items)?;
        }
        take(&items, 0)?;
    }
    Ok(())
}

impl RowSource for PassagesIn<'_> {
    fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    fn memory_bytes(&self) -> u64 {
        // Arrays as read, texts converted to one type, and a batch of items.
        let batches_bytes = 3 * self.shape.batch_bytes;
        (self.shape.reader_bytes + batches_bytes) * self.shape.readers_count as u64
    }

    /// Hashes are uniformly distributed below 2^61.
    fn sample(&self, take: &mut TakeRows<'_>) -> Result<()> {
        let step = (1 << 61) / SAMPLE_ITEMS;
        show(take, |number, items| {
            push_item(items, [number * step, 0], 0)
        })
    }

    fn make(&self, take: &mut TakeRows<'_>) -> Result<()> {
        if self.begun.fetch_add(1, Ordering::Relaxed) >= self.shape.readers_count {
            return Ok(());
        }
        let (search, mut items) = (self.search, RowBatch::default());
        search.each_text(self.shape.reader_bytes, &self.queue, |row, text| {
            let mut done = Ok(());
            search.passages.each(text, |start, len, hash| {
                if done.is_ok() && self.repeats.may_repeat(hash) {
                    let place = Mark::place(row, start, len - search.units_count);
                    done = push_item(&mut items, hash, place);
                    if items.bytes() as u64 >= self.shape.batch_bytes && done.is_ok() {
                        done = take(&items, 0);
                        items.clear();
                    }
                }
            });
            done
        })?;
        match items.is_empty() {
            true => Ok(()),
            false => take(&items, 0),
        }
    }
}

/// Orders items by this many of their first bytes.
struct Front(usize);

impl SortKey for Front {
    fn append_key(&self, item: &[u8], key: &mut Vec<u8>) -> std::result::Result<(), NoKey> {
        let front = item.get(..self.0);
        key.extend_from_slice(front.ok_or_else(|| NoKey("it is cut short".to_owned()))?);
        Ok(())
    }

    fn tie(&self) -> Tie {
        Tie::Bytes
    }
}

/// Takes passages in order, and sends on all places of each passage except for the first.
struct FirstSink {
    sender: SyncSender<RowBatch>,
    threads_count: usize,
    part_bytes: u64,
}

struct FirstPart<'s> {
    sender: &'s SyncSender<RowBatch>,
    marks: RowBatch,
    /// The last hash, and its first place.
    last: Option<([u8; 16], [u8; 8])>,
}

impl RowSink for FirstSink {
    fn memory_bytes(&self) -> u64 {
        ((BATCHES + self.threads_count) * BATCH_BYTES) as u64
    }

    fn part_bytes(&self) -> u64 {
        self.part_bytes
    }

    fn keeps_keys_together(&self) -> bool {
        true
    }

    fn begin(&self, _: usize, _: Option<u64>) -> Result<Box<dyn RowPart + '_>> {
        Ok(Box::new(FirstPart {
            sender: &self.sender,
            marks: RowBatch::default(),
            last: None,
        }))
    }
}

impl FirstPart<'_> {
    fn send(&mut self) -> Result<()> {
        let marks = std::mem::take(&mut self.marks);
        self.sender.send(marks).map_err(|_| {
            Error::new(
                Kind::Interrupted,
                DEDUP,
                "the thread that collects positions has stopped",
            )
            .hint("a bug: please report it")
        })
    }
}

impl RowPart for FirstPart<'_> {
    fn take(&mut self, items: &mut dyn Iterator<Item = &[u8]>) -> Result<()> {
        for item in items {
            let (hash, place) = item.split_first_chunk::<16>().ok_or_else(cut_short)?;
            let place: [u8; 8] = place.try_into().map_err(|_| cut_short())?;
            match &self.last {
                Some((last, first)) if last == hash => {
                    let mut mark = [0; MARK_BYTES];
                    mark[..8].copy_from_slice(&place);
                    mark[8..].copy_from_slice(first);
                    self.marks.push(&mark)?;
                    if self.marks.bytes() >= BATCH_BYTES {
                        self.send()?;
                    }
                }
                _ => self.last = Some((*hash, place)),
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        match self.marks.is_empty() {
            true => Ok(()),
            false => self.send(),
        }
    }
}

/// Places of repeated passages, in the order in which they are found.
struct Marks {
    receiver: Mutex<Receiver<RowBatch>>,
    rows_count: u64,
    text_units: u64,
    data_bytes: u64,
    threads_count: usize,
}

impl RowSource for Marks {
    fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    fn memory_bytes(&self) -> u64 {
        (self.threads_count * BATCH_BYTES) as u64
    }

    /// Samples places as if they were evenly spread over the texts.
    fn sample(&self, take: &mut TakeRows<'_>) -> Result<()> {
        let row_units = self.text_units / self.rows_count.max(1);
        show(take, |number, marks| {
            let place =
                u128::from(number) * u128::from(self.rows_count << 32) / u128::from(SAMPLE_ITEMS);
            let (row, part) = ((place >> 32) as u32, place as u32);
            let start = (u64::from(part) * row_units) >> 32;
            let mut mark = [0; MARK_BYTES];
            mark[..8].copy_from_slice(&Mark::place(row, start as usize, 0).to_be_bytes());
            marks.push(&mark)
        })
    }

    fn make(&self, take: &mut TakeRows<'_>) -> Result<()> {
        loop {
            let receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner);
            let Ok(marks) = receiver.recv() else {
                return Ok(());
            };
            drop(receiver);
            take(&marks, 0)?;
        }
    }
}
