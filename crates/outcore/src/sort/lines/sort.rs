//! External samplesort of items of any length: from lines of files to one sorted output, complete
//! or absent; or from rows of a source to a sink.
//!
//! Model: PALID (Li, Khan, Dhulipala, SPAA 2025), section 4, for records of any length.
//!
//! Contract: the output is the input's lines, each terminated, ordered by key and then as the order
//! defines. Its bytes depend only on the input, the order and the options. Inputs are only read. No
//! output remains after a failure.
//!
//! Bounds: memory as planned ([`super::plan`]). I/O is 2 reads and 2 writes of the data, minus the
//! data that stay in memory or are only counted, plus the sample.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::bucket::LineBucket;
use super::context::Context;
use super::distribute::{distribute_input, join_vouched};
use super::plan::{LINE_BYTES_MIN, LinePlan, LineSize, LongLine, plan_lines};
use super::row_journal::{RowJournal, RowsEnd};
use super::rows::{LongRow, RowSink, Sampled};
use super::sample::{LineSample, Lines, Wanted, sample_input};
use super::sides::{MarkedOrder, SideCounts, TOTAL_BYTES_MAX, Unmarked};
use super::sort_task::sort_buckets;
use super::split::split_oversized;
use super::splitters::{LineSplitters, SplitterSize};
use super::table::{Table, Tables};
use super::{LineSortOptions, LineSummary, Places};
use crate::ends::{Input, Output, Phases, check_unchanged, input_places, open_inputs};
use crate::forecast::Forecast;
use crate::job::{Job, JobSize, OutputPlaces};
use crate::key::sort_key::SortKey;
use crate::partition::Partition;
use crate::partition::checkpoint::{Checkpoints, LastRecord};
use crate::partition::driver::{Ends, ReadBack, Served, Unnamed, Written};
use crate::partition::restored::{Division, Finished, IdentityOption};
use crate::partition::resume::forget;
use crate::partition::resumed::{
    Reading, Resumed, StageRequest, Staged, check_memory, refused, sum_of,
};
use crate::read::framing::ItemFraming;
use crate::read::longest::{Longest, located, measure};
use crate::read::regions::LINE_BYTES_LIMIT;
use crate::read::source::InputPart;
use crate::read_back::{self, ExpectedLines, LineOrder, Tally, VERIFY_OUTPUT};
use outcore_io::drive::Access;
use outcore_io::output::StagedOutput;
use outcore_io::port::Volume;
use outcore_io::scratch::Scratch;
use outcore_io::{Error, Kind, Result, units};

/// Sorts the lines of `inputs`, one file after another, into `output`.
///
/// # Errors
/// [`crate::Kind::Usage`] for shards, [`crate::Kind::Memory`] if the plan or the longest line does
/// not fit, [`crate::Kind::Corrupt`] for lines without a key, damaged scratch or changed input,
/// [`crate::Kind::NoSpace`], [`crate::Kind::Io`], [`crate::Kind::Interrupted`].
pub fn sort_lines(
    job: &Job,
    inputs: &[Input],
    output: Output,
    order: &dyn SortKey,
    options: LineSortOptions,
) -> Result<LineSummary> {
    // With a journal, a killed run may have put the output in place: staging decides.
    let checked = LineSortOptions {
        replace: options.replace || job.options.resume.is_some(),
        ..options
    };
    check_output(&output, checked)?;
    if let Some(sides) = options.sides {
        sides.check(order)?;
    }
    if job.options.resume.is_some() && options.adds_bytes() {
        return Err(refused("a sort that adds bytes to lines cannot be resumed"));
    }
    let framing = ItemFraming::Terminated(options.terminator);
    let mut source = Files {
        inputs,
        framing,
        longest: None,
        has_long_line: AtomicBool::new(false),
    };
    let started = Instant::now();
    let sorted = sort_from(job, &source, Ending::Output(&output), order, options);
    let error = match sorted {
        Err(error) if source.is_too_long(&error) => error,
        sorted => return sorted,
    };
    // Sorts again, with room for one long line at a time. Another plan needs another journal.
    forget(job, &output)?;
    let volume = Volume::new(Arc::clone(&job.device), &[])?;
    let parts = open_inputs(&volume, inputs, 1, Access::Read)?;
    let data_bytes = parts.iter().map(|part| part.data_len_bytes).sum();
    job.control.begin_phase("measure lines", data_bytes);
    let longest = measure(&volume, &parts, options.terminator, || job.control.check())?;
    if longest.bytes > LINE_BYTES_LIMIT as u64 {
        return Err(error);
    }
    source.longest = Some(longest);
    let mut alone = job.clone();
    alone.options.threads = 1;
    let begun = Instant::now();
    let sorted = sort_from(&alone, &source, Ending::Output(&output), order, options);
    let mut summary = sorted.map_err(|again| located(again, &error))?;
    summary.seconds += (begun - started).as_secs_f64();
    Ok(summary)
}

/// A source of the items to sort.
pub(super) trait ItemSource: Sync {
    /// Whether items are read from files, for which the plan has memory.
    const IS_READ: bool;

    /// The files to read; empty if items are generated.
    fn files(&self) -> &[Input];
    /// How items are stored one after another.
    fn framing(&self) -> ItemFraming;
    /// Bytes of all items, as far as they are known.
    fn data_bytes(&self, ends: &Ends<'_>) -> u64;
    /// Memory for generating the items.
    fn memory_bytes(&self) -> u64;
    /// Bytes that will be read to generate the items, in place of the files.
    fn read_forecast(&self) -> Option<Forecast> {
        None
    }
    /// The cost of the source's sample, as far as the sample was taken before the sort.
    fn sampled(&self) -> Sampled {
        Sampled::default()
    }
    /// The longest item, if it was measured.
    fn longest(&self) -> Option<Longest> {
        None
    }
    /// Records that the plan for a sample of long lines does not fit in memory; the sufficient size
    /// depends on the longest line.
    fn note_long_line(&self) {}
    /// The longest row, if rows are generated and it is known.
    fn longest_row(&self) -> Option<LongRow> {
        None
    }
    /// Keys of some items from all over the data.
    fn sample(&self, job: &Job, ends: &Ends<'_>, lines: Lines<'_>) -> Result<LineSample>;
    /// Moves each item to a bucket of `splitters`, or to a table.
    fn distribute(
        &self,
        context: &Context<'_>,
        splitters: &LineSplitters,
    ) -> Result<(Vec<LineBucket>, Vec<Table>)>;
}

/// The destination of sorted items.
pub(super) enum Ending<'a> {
    Output(&'a Output),
    Rows {
        sink: &'a dyn RowSink,
        /// The journal of a job that keeps one.
        journal: Option<&'a mut RowJournal>,
    },
}

impl<'a> Ending<'a> {
    /// The output, which is `nowhere` for rows; the sink of rows, and its journal.
    fn into_parts(
        self,
        nowhere: &'a Output,
    ) -> (
        &'a Output,
        Option<&'a dyn RowSink>,
        Option<&'a mut RowJournal>,
    ) {
        match self {
            Ending::Output(output) => (output, None, None),
            Ending::Rows { sink, journal } => (nowhere, Some(sink), journal),
        }
    }
}

/// Lines of files.
struct Files<'a> {
    inputs: &'a [Input],
    framing: ItemFraming,
    /// The longest line, if it was measured.
    longest: Option<Longest>,
    /// Whether a line exceeds the plan's limit.
    has_long_line: AtomicBool,
}

impl Files<'_> {
    /// Whether the sort failed because a line exceeds its plan's limit.
    fn is_too_long(&self, error: &Error) -> bool {
        error.kind() == Kind::Memory && self.has_long_line.load(Ordering::Relaxed)
    }
}

impl ItemSource for Files<'_> {
    const IS_READ: bool = true;

    fn files(&self) -> &[Input] {
        self.inputs
    }

    fn framing(&self) -> ItemFraming {
        self.framing
    }

    fn data_bytes(&self, ends: &Ends<'_>) -> u64 {
        ends.data_bytes
    }

    fn memory_bytes(&self) -> u64 {
        0
    }

    fn longest(&self) -> Option<Longest> {
        self.longest
    }

    fn note_long_line(&self) {
        self.has_long_line.store(true, Ordering::Relaxed);
    }

    fn sample(&self, job: &Job, ends: &Ends<'_>, lines: Lines<'_>) -> Result<LineSample> {
        sample_input(job, &ends.volume, &ends.parts, lines, Wanted::Splitters)
    }

    fn distribute(
        &self,
        context: &Context<'_>,
        splitters: &LineSplitters,
    ) -> Result<(Vec<LineBucket>, Vec<Table>)> {
        distribute_input(context, splitters, &self.has_long_line)
    }
}

/// Sorts the items of a source; see [`sort_lines`].
pub(super) fn sort_from<S: ItemSource>(
    job: &Job,
    source: &S,
    ending: Ending<'_>,
    order: &dyn SortKey,
    options: LineSortOptions,
) -> Result<LineSummary> {
    let sample_cost = source.sampled();
    let mut phases = Phases::start();
    // The sink of rows has its own output.
    let nowhere = Output::Pipe(Mutex::new(Box::new(io::sink())));
    let (output, rows, mut journal) = ending.into_parts(&nowhere);
    let resumed = match journal {
        // The journal has begun already.
        Some(_) => Resumed::none(),
        None => Resumed::begin(job, output, identity_of(job, options))?,
    };
    let tally = tally_of(job, options, rows)?;
    let longest = source.longest().or(resumed.longest());
    let whole_job = &resumed.job(job);
    let job = whole_job;
    let ends = Ends::open(job, source.files(), output, 1, Access::Read)?;
    let data_bytes = source.data_bytes(&ends);
    let rows_bytes = rows.map_or(0, |rows| rows.memory_bytes());
    let beside_bytes = source.memory_bytes().max(rows_bytes);
    let _beside = job.budget.reserve("making and taking rows", beside_bytes)?;
    let is_unique = options.is_unique();
    let (staged, mut resumed) = match &mut journal {
        Some(journal) => (None, journal.take_staged()),
        None => stage(resumed, job, &ends, options, data_bytes)?,
    };
    if let Some(finished) = resumed.finished {
        return Ok(nothing_left(&finished));
    }
    phases.end("prepare", &ends.volume);
    job.control.begin_phase("sample", 0);
    // Marks are put before lines during the distribution.
    let (unmarked, marked) = (Unmarked(order), MarkedOrder::new(order, options));
    let (sampled, order): (&dyn SortKey, &dyn SortKey) = match options.mark_bytes() {
        0 => (order, order),
        _ => (&unmarked, &marked),
    };
    let lines = Lines {
        order: sampled,
        framing: source.framing(),
    };
    let mut sample = source.sample(job, &ends, lines)?;
    sample.sort();
    let layout = ends.layout(job, &places_of(output, rows));
    let mut size = LineSize {
        sampled_bytes: sample_cost.bytes + ends.volume.traffic_bytes().0,
        ..sample.size(job, lines, data_bytes, is_unique, layout)
    };
    size.job = resumed.size(size.job);
    let job_size = size.job.clone();
    let plan = plan_for(source, rows, longest, size.marked(options.mark_bytes()))?;
    job.control.show_plan(&plan);
    check_memory(job, &plan.ledger())?;
    let planned = job.under(&plan.ledger())?;
    let job = &planned;
    let scratch = resumed.scratch(job, &ends, plan.scratch_bytes, plan.scratch_bytes > 0)?;
    let (volume, threads, sizes) = (&ends.volume, plan.size.threads, plan.segment_sizes());
    let mut context = Context {
        partition: Partition::new(job, volume, &scratch, sizes, threads, data_bytes)?,
        order,
        options,
        framing: lines.framing,
        plan: &plan,
        parts: &ends.parts,
        rows,
        skipped: AtomicU64::new(0),
        sides: Default::default(),
        read: read_back::of_read(job, &tally, options.is_thinned()),
        kept: read_back::of_kept(job, &tally, options.is_thinned()),
    };
    let splitters = choose_splitters(&context, &sample);
    let kept = journal.as_ref().and(rows).and_then(RowSink::staged);
    if let (Some(staged), true) = (staged.as_ref().or(kept), plan.distributions > 0) {
        context.partition.checkpoints = checkpoints_of(
            &mut resumed,
            &context,
            staged,
            job_size,
            &sample,
            &splitters,
            longest,
        )?;
    }
    drop(sample);
    phases.end("sample", &ends.volume).seconds += sample_cost.seconds;
    job.control.begin_phase("distribute", data_bytes);
    let mut sorted = sort_items(
        source,
        &context,
        &splitters,
        &ends,
        staged.as_ref(),
        &mut phases,
    )?;
    let record = context.partition.checkpoints.take().map(Checkpoints::end);
    drop(context);
    let end = sorted.rows_end(&ends, record, scratch.into_made());
    let scratch_bytes = end.scratch.as_ref().map_or(0, Scratch::peak_bytes);
    let (record, scratch) = end.kept_by(journal);
    let read_back = read_back_of(whole_job, tally.as_ref(), order, options);
    let unnamed = sorted.unnamed(staged, record, read_back);
    // The memory of the sort is free for the check of the output.
    drop(planned);
    let mut served = ends.close(whole_job, phases, unnamed, scratch, false, &plan.phases)?;
    served.scratch_bytes = scratch_bytes;
    Ok(sorted.summary(served, plan, tally.as_ref()))
}

/// Where parts of rows may end in a job with a journal, in bytes of all rows. A part ends after a
/// bucket that does not depend on what was in memory when it was split.
fn part_bounds(context: &Context<'_>, buckets: &[LineBucket]) -> Option<Vec<u64>> {
    context.rows.filter(|_| context.checkpoints.is_some())?;
    let mut bytes: Vec<u64> = buckets.iter().map(|bucket| bucket.counts.bytes).collect();
    if context.order.is_descending() {
        bytes.reverse();
    }
    let ends = bytes.iter().scan(0, |end, bytes| {
        *end += bytes;
        Some(*end)
    });
    Some(ends.collect())
}

/// The tally of a job that reads its output back, or reports the totals of its lines; rows of a
/// sink are not an output.
///
/// # Errors
/// Usage: the output has other lines than the input, or a killed run has written a part of it.
fn tally_of(
    job: &Job,
    options: LineSortOptions,
    rows: Option<&dyn RowSink>,
) -> Result<Option<Tally>> {
    let is_summed = job.options.verify_output || job.options.sums_items.is_some();
    if !is_summed || rows.is_some() {
        return Ok(None);
    }
    let cause = match options.adds_bytes() || options.places != Places::None {
        true => "a sort that adds bytes to lines cannot be verified",
        false if job.options.resume.is_some() => {
            "an output that a killed run has begun cannot be verified"
        }
        false => {
            let drops_blanks = options.drops_blanks;
            return Ok(Some(Tally::of_lines(options.terminator, drops_blanks)));
        }
    };
    Err(Error::usage(VERIFY_OUTPUT, cause).hint("leave out the check of the output"))
}

/// The check of the sorted output, if the job reads it back.
fn read_back_of<'a>(
    job: &Job,
    tally: Option<&'a Tally>,
    order: &'a dyn SortKey,
    options: LineSortOptions,
) -> Option<ReadBack<'a>> {
    let tally = tally.filter(|_| job.options.verify_output)?;
    let order = LineOrder {
        order,
        unique: options.unique,
    };
    Some(Box::new(move |job, volume, written| {
        let expected = ExpectedLines {
            tally,
            terminator: options.terminator,
            order: Some(order),
        };
        read_back::lines(job, volume, written, &expected)
    }))
}

/// The result of a sort whose output a dead run had put in place.
fn nothing_left(finished: &Finished) -> LineSummary {
    LineSummary {
        lines_in: finished.items_in,
        lines_out: finished.items,
        ..LineSummary::default()
    }
}

/// Sorted items on their way to the output's name.
struct Sorted {
    lines_in: u64,
    skipped: u64,
    sides: SideCounts,
    /// How often items were distributed again.
    splits: u32,
    written: Written,
    /// The output, if it was staged only now.
    counted: Option<StagedOutput>,
}

impl Sorted {
    /// The output, which may have been `staged` before, with its `journal` and its check.
    fn unnamed<'a>(
        &mut self,
        staged: Option<StagedOutput>,
        journal: Option<LastRecord>,
        read_back: Option<ReadBack<'a>>,
    ) -> Unnamed<'a> {
        Unnamed {
            staged: staged.or(self.counted.take()),
            written: self.written,
            journal,
            items_in: self.lines_in,
            read_back,
        }
    }

    /// The parts of a sort of rows that are kept until its output has a name.
    fn rows_end(
        &self,
        ends: &Ends<'_>,
        record: Option<LastRecord>,
        scratch: Option<Scratch>,
    ) -> RowsEnd {
        RowsEnd {
            volume: Arc::clone(&ends.volume),
            record,
            scratch,
            rows_in: self.lines_in,
            rows_out: self.written.items,
        }
    }

    /// The result of a sort that followed `plan`.
    fn summary(self, served: Served, plan: LinePlan, tally: Option<&Tally>) -> LineSummary {
        LineSummary {
            lines_in: self.lines_in,
            lines_out: self.written.items,
            skipped: self.skipped,
            sides: self.sides,
            bytes_out: self.written.bytes,
            seconds: served.seconds,
            read_bytes: served.read_bytes,
            written_bytes: served.written_bytes,
            passes: 1 + self.splits + u32::from(served.scratch_bytes > 0),
            scratch_bytes: served.scratch_bytes,
            drives: served.drives,
            phases: served.phases,
            plan: Some(plan),
            totals: tally.map(Tally::totals),
        }
    }
}

/// Distributes, sorts and writes all items.
fn sort_items<S: ItemSource>(
    source: &S,
    context: &Context<'_>,
    splitters: &LineSplitters,
    ends: &Ends<'_>,
    staged: Option<&StagedOutput>,
    phases: &mut Phases,
) -> Result<Sorted> {
    let (mut buckets, tables) = distribute(source, context, splitters)?;
    check_unchanged(&ends.volume, &ends.parts, false)?;
    let lines_in = buckets.iter().map(|b| b.counts.items).sum::<u64>()
        + tables.iter().map(|table| table.lines).sum::<u64>()
        + context.skipped.load(Ordering::Relaxed);
    let mut tables = Tables::assign(context, tables, splitters, &mut buckets)?;
    let bounds = part_bounds(context, &buckets);
    let (buckets, splits) = split_oversized(context, &mut tables, buckets)?;
    phases.end("distribute", &ends.volume);
    let options = context.options;
    let counted = match options.adds_bytes() {
        true => ends.stage(options.replace, options.room(), counted_bytes_max(&buckets))?,
        false => None,
    };
    let output = staged.or(counted.as_ref());
    let written = sort_buckets(context, &tables, buckets, bounds.as_deref(), ends, output)?;
    phases.end("sort", &ends.volume);
    let skipped = context.skipped.load(Ordering::Relaxed);
    let sides = SideCounts::of(&context.sides);
    if !options.is_thinned() {
        check_written(lines_in - skipped, written.items)?;
    }
    Ok(Sorted {
        lines_in,
        skipped,
        sides,
        splits,
        written,
        counted,
    })
}

/// Stages the output, unless the bytes that are added to lines are known later.
fn stage(
    resumed: Resumed,
    job: &Job,
    ends: &Ends<'_>,
    options: LineSortOptions,
    data_bytes: u64,
) -> Result<(Option<StagedOutput>, Staged)> {
    if options.adds_bytes() {
        return Ok((None, Staged::default()));
    }
    let asked = StageRequest {
        replace: options.replace,
        room: options.room(),
        // A file may lack its last terminator.
        data_bytes: data_bytes + ends.parts.len() as u64,
    };
    resumed.stage(job, ends, asked)
}

/// The checkpoints of a sort that keeps a journal.
fn checkpoints_of<'s>(
    resumed: &mut Staged,
    context: &Context<'s>,
    staged: &'s StagedOutput,
    size: JobSize,
    sample: &LineSample,
    splitters: &LineSplitters,
    longest: Option<Longest>,
) -> Result<Option<Checkpoints<'s>>> {
    let division = Division {
        sample_sum: sum_of(sample.keys.each()),
        bucket_count: splitters.bucket_count(),
        is_reversed: context.order.is_descending(),
        longest,
    };
    let reading = Reading {
        is_counted: |bucket| context.is_whole() && splitters.equal_key(bucket).is_some(),
        // Lines in tables are stored nowhere else.
        is_whole: context.plan.table_bytes > 0,
    };
    resumed.checkpoints(&context.partition, staged, size, division, reading)
}

/// The buckets and tables of the source, or the buckets of an earlier run if it needs no more.
fn distribute<S: ItemSource>(
    source: &S,
    context: &Context<'_>,
    splitters: &LineSplitters,
) -> Result<(Vec<LineBucket>, Vec<Table>)> {
    match context.continued() {
        Some(continued) if !continued.left.needs_input => {
            Ok((join_vouched(context, splitters)?, Vec::new()))
        }
        _ => source.distribute(context, splitters),
    }
}

/// What determines the bytes of the output, if the job keeps a journal.
fn identity_of(job: &Job, options: LineSortOptions) -> Vec<IdentityOption> {
    let Some(resume) = &job.options.resume else {
        return Vec::new();
    };
    vec![
        IdentityOption::kind("sort of lines"),
        IdentityOption::of("order", &resume.order),
        IdentityOption::of("end of lines", options.terminator),
        IdentityOption::of("choice of one line per key", options.unique),
        IdentityOption::of("choice of keys", format!("{:?}", options.occurrences)),
        IdentityOption::of(
            "rule for lines without a key",
            format!("{:?}", options.on_no_key),
        ),
        IdentityOption::of("rule for blank lines", options.drops_blanks),
    ]
}

/// The places of the output; a sink of rows has its own.
fn places_of(output: &Output, rows: Option<&dyn RowSink>) -> OutputPlaces {
    match rows {
        Some(_) => OutputPlaces::Unknown,
        None => output.places(),
    }
}

/// Bytes of the output with all counts, at most.
fn counted_bytes_max(buckets: &[LineBucket]) -> u64 {
    let counted = buckets.iter().map(LineBucket::counted_bytes_max);
    counted.sum::<u64>() + TOTAL_BYTES_MAX
}

/// Fails if not all lines that were read have been written.
fn check_written(read: u64, written: u64) -> Result<()> {
    if read == written {
        return Ok(());
    }
    let cause = format!(
        "{} were read, and {written} were written",
        units::counted(read, "line")
    );
    Err(Error::corrupt("sort", cause).hint("a bug: please report it"))
}

/// The plan for the items of `source`, from the `size` that a sample has shown.
fn plan_for<S: ItemSource>(
    source: &S,
    rows: Option<&dyn RowSink>,
    longest: Option<Longest>,
    size: LineSize,
) -> Result<LinePlan> {
    let mut size = LineSize {
        is_read: S::IS_READ,
        ..size
    };
    if let Some(longest) = longest {
        size.longest = Some(LongLine {
            bytes: longest.bytes + size.mark_bytes as u64,
            key_bytes: longest.bytes,
            is_grouped: false,
        });
        size.line_bytes = longest.mean_of_others_bytes + size.mark_bytes as f64;
    }
    if let Some(longest) = source.longest_row() {
        size.longest = Some(LongLine {
            bytes: longest.row_bytes,
            key_bytes: longest.key_bytes,
            is_grouped: rows.is_some_and(RowSink::keeps_keys_together),
        });
    }
    let is_long = size.longest.is_none() && size.line_bytes > LINE_BYTES_MIN as f64;
    let planned = plan_lines(size);
    if planned.is_err() && is_long {
        source.note_long_line();
    }
    let mut plan = planned?;
    if let Some(read) = source.read_forecast() {
        plan.reads_instead(read);
    }
    if let Some(rows) = rows {
        plan.writes_instead(rows.written_forecast());
    }
    Ok(plan)
}

/// The parameters with which [`sort_lines`] would plan, from a sample of `inputs`.
///
/// # Errors
/// The errors of [`sort_lines`] for the inputs.
pub fn sample_lines(
    job: &Job,
    inputs: &[Input],
    order: &dyn SortKey,
    options: LineSortOptions,
) -> Result<LineSize> {
    let volume = Volume::new(Arc::clone(&job.device), &job.options.drives)?;
    let parts = open_inputs(&volume, inputs, 1, Access::Read)?;
    let data_bytes: u64 = parts.iter().map(|part| part.data_len_bytes).sum();
    let is_unique = options.is_unique();
    let unmarked = Unmarked(order);
    let lines = Lines {
        order: match options.mark_bytes() {
            0 => order,
            _ => &unmarked,
        },
        framing: ItemFraming::Terminated(options.terminator),
    };
    let mut sample = sample_input(job, &volume, &parts, lines, Wanted::Splitters)?;
    sample.sort();
    let layout = job.layout(&input_places(&parts), &OutputPlaces::Unknown);
    let size = LineSize {
        sampled_bytes: volume.traffic_bytes().0,
        ..sample.size(job, lines, data_bytes, is_unique, layout)
    };
    Ok(size.marked(options.mark_bytes()))
}

/// The lengths of the lines and keys of open files; does not estimate the number of distinct ones.
pub(crate) fn sample_lengths(
    job: &Job,
    volume: &Volume,
    parts: &[InputPart],
    order: &dyn SortKey,
    terminator: u8,
) -> Result<LineSize> {
    let data_bytes = parts.iter().map(|part| part.data_len_bytes).sum();
    let lines = Lines {
        order,
        framing: ItemFraming::Terminated(terminator),
    };
    let sample = sample_input(job, volume, parts, lines, Wanted::Lengths)?;
    let layout = job.layout(&input_places(parts), &OutputPlaces::Unknown);
    Ok(sample.size(job, lines, data_bytes, false, layout))
}

/// Rejects outputs to which lines cannot be written, before any work.
pub(super) fn check_output(output: &Output, options: LineSortOptions) -> Result<()> {
    match output {
        Output::Shards { .. } => Err(Error::usage(
            "plan the sort of lines",
            "lines cannot be written as one shard per drive",
        )
        .hint("write one file")),
        Output::File { path, .. } if !options.replace && path.exists() => {
            Err(Error::usage("create output", "it exists already")
                .path(path)
                .hint("allow overwriting with --force"))
        }
        _ => Ok(()),
    }
}

/// Splitters for the plan's buckets; frequent keys get additional buckets, as far as there are
/// buffers.
fn choose_splitters(context: &Context<'_>, sample: &LineSample) -> LineSplitters {
    let plan = context.plan;
    let own = match plan.distributions {
        0 => plan.size.data_bytes / plan.segment_bytes as u64,
        _ => 0,
    };
    let resident = plan.resident_segments.saturating_sub(own as usize);
    let spare = match context.is_whole() {
        // Items that are only counted need no buffers.
        true => plan.bucket_count,
        false => (resident / plan.size.threads).min(plan.bucket_count),
    };
    let size = SplitterSize {
        ranges: plan.bucket_count,
        buckets_max: plan.bucket_count + spare,
        heavy_share: if context.is_whole() { 0.25 } else { 0.75 },
    };
    let splitters = LineSplitters::choose(&sample.keys, size);
    if !context.is_whole() {
        let extra = splitters.bucket_count().saturating_sub(plan.bucket_count);
        context.take_resident(extra * plan.size.threads);
    }
    splitters
}
