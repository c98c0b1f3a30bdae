//! Checks a written output before the output gets its name: reads it back, and compares it with the
//! items that the job has read.
//!
//! Contract: a [`Tally`] sums the items of the input as they are read from it. A job that leaves
//! items out sums the items that it keeps, in memory, before it writes them. [`records`] and
//! [`lines`] read the staged output from its drives, and compare number, checksum and order. A
//! difference is an error of kind [`Kind::Corrupt`] that names the output, and the offset of the
//! first item that is out of order. The output then never appears.
//!
//! Bounds: one read of the output. The memory is that of a check ([`crate::verify`]), or a window
//! of reads and three lines with their keys per thread, and two lines per chunk.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering as Atomic};
use std::sync::{Mutex, PoisonError};

use crate::job::Job;
use crate::job::thread_group::ThreadGroup;
use crate::key::check::{CheckOptions, Checker, PartTotals};
use crate::key::record::RecordFormat;
use crate::key::sort_key::{KeyedItem, Rank, SortKey};
use crate::read::json::is_blank;
use crate::read::regions::{Chunks, Region, RegionReader, RegionSizes, Terminated};
use crate::read::source::InputPart;
use crate::read::terminators::Terminators;
use crate::verify::check_parts;
use outcore_io::memory::{Ledger, Pool, block_ceil};
use outcore_io::output::StagedOutput;
use outcore_io::port::{Port, Volume};
use outcore_io::transfers::{Arrival, ReadRange, Transfers};
use outcore_io::units;
use outcore_io::{Error, Kind, Result};

/// The name of the phase.
pub(crate) const VERIFY_OUTPUT: &str = "verify output";
/// The name under which buffers of lines are reserved.
const BLOCKS: &str = "blocks to check";
/// The name under which lines and their keys are reserved.
const LINES: &str = "lines and keys";
/// Reads in flight per thread.
const WINDOW: usize = 6;
/// Length of a read, at most and at least.
const READ_BYTES: [u64; 2] = [1 << 20, 16 << 10];
/// Chunks of lines, at most.
const CHUNKS_MAX: u64 = 1024;
/// The shortest chunk of lines.
const CHUNK_BYTES_MIN: u64 = 1 << 20;

/// Number and checksum of the items of a job.
#[derive(Debug)]
pub(crate) struct Tally {
    form: Form,
    totals: Mutex<PartTotals>,
    /// The longest line.
    longest_bytes: AtomicUsize,
}

/// How items are found and hashed.
#[derive(Debug)]
enum Form {
    /// Records, by a checker that has seen nothing.
    Records(Box<Checker>),
    /// Lines. Blank lines may be left out.
    Lines { terminator: u8, drops_blanks: bool },
}

impl Tally {
    /// A tally of records.
    pub(crate) fn of_records(format: &RecordFormat) -> Self {
        let options = CheckOptions {
            unordered: true,
            ..CheckOptions::default()
        };
        Self::of(Form::Records(Box::new(Checker::new(format, options))))
    }

    /// A tally of lines.
    pub(crate) fn of_lines(terminator: u8, drops_blanks: bool) -> Self {
        Self::of(Form::Lines {
            terminator,
            drops_blanks,
        })
    }

    fn of(form: Form) -> Self {
        Tally {
            form,
            totals: Mutex::default(),
            longest_bytes: AtomicUsize::new(0),
        }
    }

    /// Adds whole items.
    pub(crate) fn take(&self, bytes: &[u8]) {
        let mut totals = PartTotals::default();
        match &self.form {
            Form::Records(template) => {
                let mut checker = template.clone();
                checker.push(bytes);
                totals = checker.report().totals();
            }
            Form::Lines {
                terminator,
                drops_blanks,
            } => {
                let (mut from, mut longest_bytes) = (0, 0);
                for end in Terminators::of(*terminator, bytes) {
                    let line = &bytes[from..end];
                    from = end + 1;
                    if !(*drops_blanks && is_blank(line)) {
                        totals.add(PartTotals::of_line(line));
                        longest_bytes = longest_bytes.max(line.len());
                    }
                }
                self.longest_bytes.fetch_max(longest_bytes, Atomic::Relaxed);
            }
        }
        self.add(totals);
    }

    /// Adds lines, which are given without their terminators.
    pub(crate) fn take_lines<'l>(&self, lines: impl Iterator<Item = &'l [u8]>) {
        let (mut totals, mut longest_bytes) = (PartTotals::default(), 0);
        for line in lines {
            totals.add(PartTotals::of_line(line));
            longest_bytes = longest_bytes.max(line.len());
        }
        self.longest_bytes.fetch_max(longest_bytes, Atomic::Relaxed);
        self.add(totals);
    }

    /// A checker that has seen nothing, of records that arrive in pieces; [`Tally::take_checked`]
    /// adds them. `None` for lines.
    pub(crate) fn checker(&self) -> Option<Checker> {
        match &self.form {
            Form::Records(template) => Some(template.as_ref().clone()),
            Form::Lines { .. } => None,
        }
    }

    /// Adds the records that a checker has seen.
    pub(crate) fn take_checked(&self, checker: &Checker) {
        self.add(checker.report().totals());
    }

    /// Adds `copies` of a line, which is given without its terminator.
    pub(crate) fn take_line(&self, line: &[u8], copies: u64) {
        let PartTotals { items, checksum } = PartTotals::of_line(line);
        self.longest_bytes.fetch_max(line.len(), Atomic::Relaxed);
        self.add(PartTotals {
            items: items * copies,
            checksum: checksum.wrapping_mul(copies.into()),
        });
    }

    /// Subtracts a line that was added but is left out of the output. It is given without its
    /// terminator.
    pub(crate) fn leave_out(&self, line: &[u8]) {
        let PartTotals { items, checksum } = PartTotals::of_line(line);
        let mut totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        totals.items -= items;
        totals.checksum = totals.checksum.wrapping_sub(checksum);
    }

    fn add(&self, more: PartTotals) {
        let mut totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        totals.add(more);
    }

    /// Number and checksum of all items so far.
    pub(crate) fn totals(&self) -> PartTotals {
        *self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails if other items than these were `found` in the output at `path`.
    fn check(&self, path: &Path, found: PartTotals) -> Result<()> {
        let known = self.totals();
        if found == known {
            return Ok(());
        }
        let cause = match found.items == known.items {
            true => format!(
                "what is on the drive differs from what was written: its {} have the checksum \
                 {:x} instead of {:x}",
                units::counted(known.items, "item"),
                found.checksum,
                known.checksum
            ),
            false => format!(
                "what is on the drive differs from what was written: {} instead of {}",
                units::counted(found.items, "item"),
                units::count(known.items)
            ),
        };
        Err(differs(path, cause))
    }
}

/// The tally, if it sums the items that the job reads. It does so if the output is read back and
/// contains all of them.
pub(crate) fn of_read<'t>(
    job: &Job,
    tally: &'t Option<Tally>,
    leaves_out: bool,
) -> Option<&'t Tally> {
    let is_of_read = job.options.verify_output && !leaves_out;
    tally.as_ref().filter(|_| is_of_read)
}

/// The tally, if it sums the items that the job writes.
pub(crate) fn of_kept<'t>(
    job: &Job,
    tally: &'t Option<Tally>,
    leaves_out: bool,
) -> Option<&'t Tally> {
    let is_of_read = job.options.verify_output && !leaves_out;
    tally.as_ref().filter(|_| !is_of_read)
}

/// The error for an output that differs from the items that were written.
fn differs(path: &Path, cause: impl Into<String>) -> Error {
    Error::new(Kind::Corrupt, VERIFY_OUTPUT, cause.into())
        .path(path)
        .hint("nothing was published; check the drive and the memory, then run it again")
}

/// A staged output, of which `data_bytes` have been written.
#[derive(Clone, Copy)]
pub(crate) struct Written<'a> {
    pub(crate) staged: &'a StagedOutput,
    pub(crate) data_bytes: u64,
}

impl<'a> Written<'a> {
    /// The output's files as inputs.
    fn parts(self, element_bytes: u64) -> Vec<InputPart> {
        let shards = self.staged.shards().iter();
        let parts = shards.map(|shard| {
            let start_bytes = shard.plan.start_bytes.min(self.data_bytes);
            let end_bytes = shard.plan.start_bytes + shard.plan.len_bytes;
            InputPart {
                file: shard.file.clone(),
                data_at_bytes: shard.plan.header.len() as u64,
                data_len_bytes: end_bytes.min(self.data_bytes) - start_bytes,
                first_position: start_bytes / element_bytes,
            }
        });
        parts.collect()
    }

    /// The name that a file will have.
    fn path(self, part: usize) -> &'a Path {
        &self.staged.shards()[part].plan.path
    }

    /// The error for an item that is out of order, and begins at this byte of the data of a file.
    fn out_of_order(self, part: usize, at_bytes: u64) -> Error {
        let header_bytes = self.staged.shards()[part].plan.header.len() as u64;
        differs(
            self.path(part),
            "what is on the drive differs from what was written: it is out of order",
        )
        .offset(header_bytes + at_bytes)
    }
}

/// Reads the header of the first file back.
///
/// # Errors
/// [`Kind::Corrupt`] if it is not `expected`; the errors of the device; [`Kind::Memory`].
pub(crate) fn header(
    job: &Job,
    volume: &Volume,
    written: Written<'_>,
    expected: &[u8],
) -> Result<()> {
    if expected.is_empty() {
        return Ok(());
    }
    let len_bytes = block_ceil(expected.len() as u64) as usize;
    let pool = Pool::new(&job.budget, BLOCKS, len_bytes, 1)?;
    let mut is_asked = false;
    let next = |_: &Port| {
        let is_first = !std::mem::replace(&mut is_asked, true);
        is_first.then(|| ReadRange {
            file: &written.staged.shards()[0].file,
            at_bytes: 0,
            len_bytes,
            what: (),
        })
    };
    let take = |read: Arrival<()>| {
        let found = &read.buf[..read.len_bytes.min(expected.len())];
        let same = found.iter().zip(expected).take_while(|(a, b)| a == b);
        match same.count() {
            same if same == expected.len() => Ok(()),
            same => {
                let cause = "what is on the drive differs from what was written, in the header";
                Err(differs(written.path(0), cause).offset(same as u64))
            }
        }
    };
    Transfers::new(volume)?.read_each(&pool, || job.control.check(), next, take)
}

/// The records that an output must hold.
pub(crate) struct ExpectedRecords<'a> {
    pub(crate) tally: &'a Tally,
    pub(crate) format: &'a RecordFormat,
    /// The order of the records.
    pub(crate) options: CheckOptions,
}

/// Reads records back.
///
/// # Errors
/// [`Kind::Corrupt`] for a difference; the errors of the device and of [`check_parts`].
pub(crate) fn records(
    job: &Job,
    volume: &Volume,
    written: Written<'_>,
    expected: &ExpectedRecords<'_>,
) -> Result<()> {
    let ExpectedRecords {
        tally,
        format,
        options,
    } = *expected;
    let record_bytes = format.record_bytes() as u64;
    let parts = written.parts(record_bytes);
    let found = check_parts(job, volume, parts.clone(), format, options)?;
    if let Some(first) = found.first_unordered {
        let after = parts.partition_point(|part| part.first_position <= first);
        let part = after.saturating_sub(1);
        let at_bytes = (first - parts[part].first_position) * record_bytes;
        return Err(written.out_of_order(part, at_bytes));
    }
    tally.check(written.path(0), found.totals())
}

/// The order that lines must have.
#[derive(Clone, Copy)]
pub(crate) struct LineOrder<'a> {
    pub(crate) order: &'a dyn SortKey,
    /// Whether no two lines may have equal keys.
    pub(crate) unique: bool,
}

impl LineOrder<'_> {
    /// Whether a line may follow another; both are given with their keys, if keys are made.
    pub(crate) fn follows(self, rank: &Rank, before: Keyed<'_>, line: Keyed<'_>) -> bool {
        let by_key = rank.by_key(
            KeyedItem {
                item: before.line,
                key: before.key,
            },
            KeyedItem {
                item: line.line,
                key: line.key,
            },
        );
        match (by_key, self.unique) {
            (Ordering::Equal, true) => false,
            (Ordering::Equal, false) => rank.by_tie(before.line, line.line) != Ordering::Greater,
            (by_key, _) => by_key == Ordering::Less,
        }
    }
}

/// A line without its terminator, and its key.
#[derive(Clone, Copy)]
pub(crate) struct Keyed<'a> {
    pub(crate) line: &'a [u8],
    pub(crate) key: &'a [u8],
}

/// A line that outlives its block.
#[derive(Debug, Default)]
struct Kept {
    line: Vec<u8>,
    key: Vec<u8>,
    part: usize,
    /// Where the line begins in the data of its file.
    at_bytes: u64,
}

impl Kept {
    fn keyed(&self) -> Keyed<'_> {
        Keyed {
            line: &self.line,
            key: &self.key,
        }
    }

    fn set(&mut self, part: usize, at_bytes: u64, keyed: Keyed<'_>) {
        self.line.clear();
        self.line.extend_from_slice(keyed.line);
        self.key.clear();
        self.key.extend_from_slice(keyed.key);
        (self.part, self.at_bytes) = (part, at_bytes);
    }
}

/// The first and the last line of a chunk.
#[derive(Debug, Default)]
struct Edges {
    first: Kept,
    last: Kept,
    is_begun: bool,
}

/// The sizes of a check of lines.
struct LineSizes {
    threads: usize,
    regions: RegionSizes,
    chunk_bytes: u64,
    kept_bytes: u64,
}

impl LineSizes {
    /// For `data_bytes` whose longest line has `longest_bytes`, in the job's memory.
    fn of(job: &Job, data_bytes: u64, longest_bytes: u64, order: Option<LineOrder<'_>>) -> Self {
        let memory_bytes = job.budget.free_bytes();
        let line_bytes = longest_bytes + 64;
        // Keys may be longer than their lines.
        let keyed_bytes = match order {
            None => 0,
            Some(order) if order.order.is_item() => line_bytes,
            Some(_) => 3 * line_bytes,
        };
        // A line that is assembled, and the lines before and after a border with their keys.
        let thread_bytes = line_bytes + 2 * keyed_bytes;
        let chunk_bytes = 2 * keyed_bytes;
        let useful = data_bytes.div_ceil(CHUNK_BYTES_MIN).clamp(1, CHUNKS_MAX);
        let chunks = (memory_bytes / 8 / chunk_bytes.max(1)).clamp(1, useful);
        let threads = (job.options.threads as u64).min(chunks);
        let threads = threads.min(memory_bytes / 4 / thread_bytes).max(1);
        // The first line of the only chunk follows no other line.
        let edges_bytes = if chunks > 1 { chunks * chunk_bytes } else { 0 };
        let kept_bytes = threads * thread_bytes + edges_bytes;
        let left_bytes = memory_bytes.saturating_sub(kept_bytes);
        let slot_bytes = left_bytes / 2 / threads / (WINDOW as u64 + 1);
        let block_bytes = slot_bytes.saturating_sub(16 << 10) & !4095;
        let [most_bytes, least_bytes] = READ_BYTES;
        LineSizes {
            threads: threads as usize,
            regions: RegionSizes {
                block_bytes: block_bytes.clamp(least_bytes, most_bytes) as usize,
                open_chunks: 1,
                reads_a_chunk: WINDOW,
                record_bytes_max: longest_bytes as usize + 1,
            },
            chunk_bytes: data_bytes.div_ceil(chunks).max(1),
            kept_bytes,
        }
    }
}

/// The lines that an output must hold.
pub(crate) struct ExpectedLines<'a> {
    pub(crate) tally: &'a Tally,
    pub(crate) terminator: u8,
    /// The order of the lines, if they have one.
    pub(crate) order: Option<LineOrder<'a>>,
}

/// Reads lines back. Without an order, only their number and checksum are compared.
///
/// # Errors
/// [`Kind::Corrupt`] for a difference; the errors of the device; [`Kind::Memory`].
pub(crate) fn lines(
    job: &Job,
    volume: &Volume,
    written: Written<'_>,
    expected: &ExpectedLines<'_>,
) -> Result<()> {
    let ExpectedLines {
        tally,
        terminator,
        order,
    } = *expected;
    job.control.begin_phase(VERIFY_OUTPUT, written.data_bytes);
    let longest_bytes = tally.longest_bytes.load(Atomic::Relaxed) as u64;
    let sizes = LineSizes::of(job, written.data_bytes, longest_bytes, order);
    let slots = sizes.regions.slots() * sizes.threads;
    let pool_bytes = Pool::total_bytes(sizes.regions.slot_bytes(), slots);
    let ledger = Ledger::new("check of lines")
        .always(BLOCKS, pool_bytes)
        .always(LINES, sizes.kept_bytes);
    let job = &job.under(&ledger)?;
    let _lines = job.budget.reserve(LINES, sizes.kept_bytes)?;
    let pool = Pool::new(&job.budget, BLOCKS, sizes.regions.slot_bytes(), slots)?;
    let chunks = Chunks::new(written.parts(1), sizes.chunk_bytes);
    let thread_group = ThreadGroup::new(job, sizes.threads as u64);
    let found = Tally::of_lines(terminator, false);
    let edges: Mutex<BTreeMap<u64, Edges>> = Mutex::default();
    let outcome = thread_group.run(|_| {
        let framing = Terminated { terminator };
        let mut reader = RegionReader::new(&chunks, framing, sizes.regions, pool.clone());
        let mut open: HashMap<u64, Edges> = HashMap::new();
        let mut pass = LinePass {
            written,
            terminator,
            order,
            has_borders: sizes.chunk_bytes < written.data_bytes,
            key: Vec::new(),
        };
        read_regions(volume, &mut reader, &thread_group, |region| {
            region.slices().iter().for_each(|bytes| found.take(bytes));
            pass.take(region, open.entry(region.chunk).or_default())?;
            if region.ends_chunk
                && let Some(done) = open.remove(&region.chunk)
            {
                let mut edges = edges.lock().unwrap_or_else(PoisonError::into_inner);
                edges.insert(region.chunk, done);
            }
            job.control.advance(region.advance_bytes);
            job.control.watch(volume);
            Ok(())
        })
    });
    // A line that is longer than any that was written.
    match outcome {
        Err(error) if chunks.has_long_record() => {
            return Err(differs(written.path(0), error.to_string()));
        }
        outcome => outcome?,
    }
    if let Some(order) = order {
        let edges = edges.into_inner().unwrap_or_else(PoisonError::into_inner);
        check_borders(written, order, edges.into_values())?;
    }
    tally.check(written.path(0), found.totals())
}

/// Passes each region of one thread to `take`.
fn read_regions(
    volume: &Volume,
    reader: &mut RegionReader<'_, Terminated>,
    thread_group: &ThreadGroup<'_>,
    mut take: impl FnMut(&Region) -> Result<()>,
) -> Result<()> {
    let mut port = volume.port()?;
    let mut finished = Vec::new();
    loop {
        thread_group.check()?;
        reader.start(&mut port)?;
        let region = reader.take(&mut port)?;
        let waits = region.is_none();
        match &region {
            Some(region) => take(region)?,
            None if reader.is_done() => return Ok(()),
            None => {}
        }
        drop(region);
        port.poll(waits, &mut finished)?;
        for transfer in finished.drain(..) {
            if let Some(fault) = transfer.fault {
                return Err(volume.explain(&fault));
            }
            reader.settle(transfer)?;
        }
    }
}

/// One thread's check of the order of lines.
struct LinePass<'a> {
    written: Written<'a>,
    terminator: u8,
    order: Option<LineOrder<'a>>,
    /// Whether there are several chunks.
    has_borders: bool,
    key: Vec<u8>,
}

impl LinePass<'_> {
    /// Checks the lines of a region, which follow those of `edges`.
    fn take(&mut self, region: &Region, edges: &mut Edges) -> Result<()> {
        let Some(order) = self.order else {
            return Ok(());
        };
        let rank = Rank::new(order.order);
        let mut slice_at = region.at_bytes;
        for bytes in region.slices() {
            let mut from = 0;
            // The previous line, if it is in this slice; its key is in `edges`.
            let mut before: Option<&[u8]> = None;
            for end in Terminators::of(self.terminator, bytes) {
                let (line, at_bytes) = (&bytes[from..end], slice_at + from as u64);
                from = end + 1;
                self.key.clear();
                if !order.order.is_item() && order.order.append_key(line, &mut self.key).is_err() {
                    return Err(self.written.out_of_order(region.part, at_bytes));
                }
                let keyed = Keyed {
                    line,
                    key: &self.key,
                };
                let last = Keyed {
                    line: before.unwrap_or(&edges.last.line),
                    key: &edges.last.key,
                };
                if !std::mem::replace(&mut edges.is_begun, true) {
                    if self.has_borders {
                        edges.first.set(region.part, at_bytes, keyed);
                    }
                } else if !order.follows(&rank, last, keyed) {
                    return Err(self.written.out_of_order(region.part, at_bytes));
                }
                std::mem::swap(&mut edges.last.key, &mut self.key);
                before = Some(line);
            }
            if let Some(line) = before {
                edges.last.line.clear();
                edges.last.line.extend_from_slice(line);
            }
            slice_at += bytes.len() as u64;
        }
        Ok(())
    }
}

/// Fails if the first line of a chunk may not follow the last one before it.
fn check_borders(
    written: Written<'_>,
    order: LineOrder<'_>,
    chunks: impl Iterator<Item = Edges>,
) -> Result<()> {
    let rank = Rank::new(order.order);
    let mut last: Option<Kept> = None;
    for edges in chunks.filter(|edges| edges.is_begun) {
        if let Some(last) = &last
            && !order.follows(&rank, last.keyed(), edges.first.keyed())
        {
            return Err(written.out_of_order(edges.first.part, edges.first.at_bytes));
        }
        last = Some(edges.last);
    }
    Ok(())
}
