//! The same items in another arrangement: `reverse`, `windows`, `merge` of sorted files.
//!
//! Contract: [`reverse`] writes the last item first. [`windows`] is a lazy sequence of the item at
//! each position with its successors. [`merge`] writes the records of sorted files in one order;
//! among equal records those of the earlier file come first. A file that is not sorted is an error.
//!
//! Bounds: `reverse` and `merge` are one read and one write; `windows` is one read. The read of a
//! window's first item also contains its other items, unless records are so long that these begin
//! in other blocks. Those blocks are read in parallel. A merge runs on one thread; each file has
//! its own reads in flight, with an equal share of the memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytemuck::Pod;

use super::append::Appender;
use super::batch::{Batch, SOURCES_MAX, Sequence, Source, Yield};
use super::gather::FileItems;
use super::group::again;
use super::pass::{Demand, Loaded, Pass, Reader};
use super::pieces::Lanes;
use super::producer::{Producer, Typed};
use super::sources::lengths_of;
use super::summary::{PassPlan, Summary};
use super::write::{Direction, Fate, chunk_bytes, header_of, plan_of, produce, write_placed};
use crate::ends::{Input, Output};
use crate::ends::{make_dir, merge_to_few, merge_width, refuse_existing, stage_output};
use crate::job::Job;
use crate::key::check::{CheckOptions, Checker};
use crate::key::order::{Order, OrderOptions};
use crate::key::record::RecordFormat;
use crate::key::scalar::{ScalarClass, ScalarOrder};
use crate::key::sort_key::Tie;
use crate::merge::{LoadedRuns, Merge, merge_of};
use crate::partition::classify::Key;
use crate::sort::SortOptions;
use crate::sort::elements::as_keys;
use outcore_io::memory::Budget;
use outcore_io::output::Room;
use outcore_io::port::Volume;
use outcore_io::{Error, Kind, Result, units};

/// Bytes of results that are merged at once.
const MERGED_BYTES: usize = 256 << 10;
/// Smallest memory for the reads of one of many files.
const SHARE_BYTES_LEAST: u64 = 128 << 10;
/// Largest number of files that are merged at once.
const MERGED_MAX: usize = 1024;
/// The name of the phase.
const MERGE: &str = "merge";

/// Writes `sequence` to `output`, the last item first.
///
/// # Errors
/// The errors of [`write`](super::write()).
pub fn reverse<S>(job: &Job, sequence: &S, output: &Output, replace: bool) -> Result<Summary>
where
    S: Sequence,
    S::Item: Pod,
{
    reverse_items(job, &Typed(sequence), output, replace)
}

/// [`reverse`] of the items of `producer`. If their number is unknown in advance, this takes one
/// more write.
///
/// # Errors
/// The errors of [`reverse`].
pub(crate) fn reverse_items(
    job: &Job,
    producer: &dyn Producer,
    output: &Output,
    replace: bool,
) -> Result<Summary> {
    let is_pipe = matches!(output, Output::Pipe(_));
    if producer.yields() == Yield::One && !is_pipe {
        return write_placed(job, producer, output, replace, Direction::Backward);
    }
    let item_bytes = producer.item_bytes();
    let dir = make_dir(job, output)?;
    let file = |name: &str| Output::File {
        path: dir.path().join(name),
        header: None,
    };
    let items = |name: &str| FileItems {
        input: Input::raw(dir.path().join(name)),
        item_bytes,
    };
    let written = produce(&again(job), producer, &file("items"), true)?;
    let job = &again(job);
    if !is_pipe {
        return Ok(written.and(write_placed(
            job,
            &items("items"),
            output,
            replace,
            Direction::Backward,
        )?));
    }
    let reversed = write_placed(
        job,
        &items("items"),
        &file("items-1"),
        true,
        Direction::Backward,
    )?;
    let piped = produce(&again(job), &items("items-1"), output, replace)?;
    Ok(written.and(reversed).and(piped))
}

/// Each position of files with its `K - 1` successors; see [`windows`].
#[derive(Debug, Clone)]
pub struct Windows<T, const K: usize> {
    shifted: Vec<Vec<Input>>,
    item: std::marker::PhantomData<fn() -> T>,
}

/// The windows of `K` consecutive values in `inputs`; none if there are fewer values.
///
/// # Errors
/// Files that are missing, or end within a value.
pub fn windows<T: Pod + Send, const K: usize>(
    job: &Job,
    inputs: &[Input],
) -> Result<Windows<T, K>> {
    const {
        assert!(K > 0 && K <= SOURCES_MAX, "windows of 1 to 8 items");
    }
    Ok(Windows {
        shifted: shifted(job, inputs, size_of::<T>(), K)?,
        item: std::marker::PhantomData,
    })
}

/// `inputs` of items of `item_bytes`, repeated `count` times, each shifted by one more item.
pub(crate) fn shifted(
    job: &Job,
    inputs: &[Input],
    item_bytes: usize,
    count: usize,
) -> Result<Vec<Vec<Input>>> {
    let lens_bytes = lengths_of(job, inputs, item_bytes)?;
    let item_bytes = item_bytes as u64;
    let items = lens_bytes.iter().sum::<u64>() / item_bytes;
    let windows = (items + 1).saturating_sub(count as u64);
    let part = |shift| {
        part_of(
            inputs,
            &lens_bytes,
            shift * item_bytes,
            windows * item_bytes,
        )
    };
    Ok((0..count as u64).map(part).collect())
}

/// The part of `inputs` of `len_bytes` that begins at `from_bytes`.
fn part_of(
    inputs: &[Input],
    lens_bytes: &[u64],
    mut from_bytes: u64,
    mut left_bytes: u64,
) -> Vec<Input> {
    let mut parts = Vec::new();
    for (input, len_bytes) in inputs.iter().zip(lens_bytes) {
        let skip_bytes = from_bytes.min(*len_bytes);
        let taken_bytes = (len_bytes - skip_bytes).min(left_bytes);
        from_bytes -= skip_bytes;
        left_bytes -= taken_bytes;
        if taken_bytes > 0 {
            parts.push(Input {
                path: input.path.clone(),
                header_bytes: input.header_bytes + skip_bytes,
                data_bytes: Some(taken_bytes),
            });
        }
    }
    parts
}

impl<T: Pod + Send, const K: usize> Sequence for Windows<T, K> {
    type Item = [T; K];
    const YIELD: Yield = Yield::One;

    fn sources(&self, into: &mut Vec<Source>) {
        into.extend(self.shifted.iter().map(|inputs| Source {
            inputs: inputs.clone(),
            element_bytes: size_of::<T>(),
            align_bytes: align_of::<T>(),
            count: 0,
        }));
    }

    fn source_count(&self) -> usize {
        K
    }

    fn iter<'b>(&'b self, batch: Batch<'b>) -> impl Iterator<Item = [T; K]> {
        let columns: [&[T]; K] =
            std::array::from_fn(|source| bytemuck::cast_slice::<u8, T>(batch.bytes(source)));
        (0..batch.count).map(move |at| std::array::from_fn(|source| columns[source][at]))
    }
}

/// Merges the records of `inputs` into `output`. Each input must be in the order that
/// [`sort`](crate::sort::sort) gives with `format` and `options`. With `options.stable` equal keys
/// keep the order of the files.
///
/// # Errors
/// [`Kind::Usage`] for shards, and for `unique`; [`Kind::Memory`] if there is too little for two
/// files; [`Kind::Corrupt`] for a file that is not sorted; the errors of reading and writing.
pub fn merge(
    job: &Job,
    inputs: &[Input],
    format: &RecordFormat,
    options: SortOptions,
    output: &Output,
) -> Result<Summary> {
    if options.unique || matches!(output, Output::Shards { .. }) {
        let cause = "a merge writes all records to one file";
        return Err(Error::usage("merge", cause).hint("sort with --unique, or name one file"));
    }
    format.check_order()?;
    let most = (job.budget.free_bytes() / SHARE_BYTES_LEAST) as usize;
    let (width, passes) = merge_width(inputs.len(), most.min(MERGED_MAX));
    if passes <= 1 {
        return merge_at_once(job, inputs, format, options, output);
    }
    if let Output::File { path, .. } = output {
        refuse_existing([path.as_path()].into_iter(), options.replace)?;
    }
    let passing = SortOptions {
        replace: true,
        ..options
    };
    let few = merge_to_few(job, output, inputs, width, |files, output| {
        merge_at_once(&again(job), files, format, passing, &output)
    })?;
    let last = merge_at_once(&again(job), &few.files, format, options, output)?;
    let records_in = last.records_in;
    let mut done = few.done.into_iter();
    let first = done.next().unwrap_or_default();
    let before = done.fold(first, |all, next| all.and(Summary { passes: 0, ..next }));
    let before = Summary {
        passes: passes - 1,
        ..before
    };
    Ok(Summary {
        records_in,
        ..before.and(last)
    })
}

/// Like [`merge`], for at most as many files as are merged at once.
fn merge_at_once(
    job: &Job,
    inputs: &[Input],
    format: &RecordFormat,
    options: SortOptions,
    output: &Output,
) -> Result<Summary> {
    let tie = match options.stable {
        true => Tie::Position,
        false => Tie::Bytes,
    };
    let descending = options.descending;
    let order = Order::new(format, OrderOptions { descending, tie });
    let scalar = ScalarOrder::of(format, descending).filter(ScalarOrder::is_identity);
    let mut merger = merge_of(&order, scalar);
    // The memory for the result; each file gets a share of the rest.
    let result_bytes = (result_demand(&one_thread(job)).fixed_bytes + (64 << 10)).div_ceil(7) * 8;
    // The check of each file keeps its first and its last record.
    let checked_bytes = 2 * (inputs.len() * format.record_bytes()) as u64;
    let result_bytes = result_bytes + checked_bytes;
    let left_bytes = job.budget.free_bytes().saturating_sub(result_bytes);
    let share_bytes = left_bytes / inputs.len().max(1) as u64;
    let inputs_bytes = share_bytes * inputs.len() as u64;
    let _inputs = job.budget.reserve("files to merge", inputs_bytes)?;
    let own = Job {
        budget: Budget::new(share_bytes),
        ..one_thread(job)
    };
    let owns: Vec<Job> = inputs.iter().map(|_| again(&own)).collect();
    let mut runs = Vec::with_capacity(inputs.len());
    let volume = Arc::new(Volume::new(Arc::clone(&job.device), &[])?);
    for (own, input) in owns.iter().zip(inputs) {
        runs.push(open_run(&volume, own, input, format)?);
    }
    let check = CheckOptions {
        descending,
        // If a merge is not stable, the bytes break ties, also in its inputs.
        ties: !options.stable,
        order_only: true,
        ..CheckOptions::default()
    };
    let checker = Checker::new(format, check);
    let checked = inputs.iter().map(|input| Checked {
        input,
        format,
        scalar: scalar.map(|scalar| scalar.class()),
        checker: checker.clone(),
    });
    merge_runs(
        &one_thread(job),
        volume,
        Opened {
            passes: &runs,
            checked: checked.collect(),
        },
        merger.as_mut(),
        format,
        options.replace,
        output,
    )
}

/// The plan of [`merge`] for the files of `producer`. Opens them and reads nothing.
///
/// # Errors
/// The errors of [`merge`].
pub(crate) fn plan_merge(job: &Job, producer: &dyn Producer) -> Result<PassPlan> {
    plan_of(
        &one_thread(job),
        producer,
        MERGE,
        &[Fate::Distributed(MERGE)],
    )
}

fn one_thread(job: &Job) -> Job {
    let mut job = job.clone();
    job.options.threads = 1;
    job
}

/// The memory for the result of a merge.
fn result_demand(job: &Job) -> Demand {
    Demand {
        fixed_bytes: Appender::memory_bytes(1, 1, chunk_bytes(job, 1)) + MERGED_BYTES as u64,
        ..Demand::default()
    }
}

/// A pass over one file.
fn open_run<'a>(
    volume: &Arc<Volume>,
    job: &'a Job,
    input: &Input,
    format: &RecordFormat,
) -> Result<Pass<'a>> {
    let source = Source {
        inputs: vec![input.clone()],
        element_bytes: format.record_bytes(),
        align_bytes: format.scalar().map_or(1, |number| number.bytes()),
        count: 0,
    };
    let (volume, lanes) = (Arc::clone(volume), Lanes::Stretches(1));
    let pass = Pass::open_on(volume, job, &[source], lanes, Demand::default());
    pass.map_err(|error| match error.kind() {
        Kind::Memory => error.hint("allow more with --memory, or merge fewer files at once"),
        _ => error,
    })
}

/// The check that a file is sorted by its keys.
struct Checked<'a> {
    input: &'a Input,
    format: &'a RecordFormat,
    /// The kind of records that are native integers in ascending order.
    scalar: Option<ScalarClass>,
    checker: Checker,
}

impl Checked<'_> {
    /// Checks the next records.
    fn push(&mut self, records: &[u8]) -> Result<()> {
        let is_ascending = match self.scalar {
            Some(ScalarClass::U32) => ascends::<u32>(records),
            Some(ScalarClass::U64) => ascends::<u64>(records),
            Some(ScalarClass::U128) => ascends::<u128>(records),
            None => false,
        };
        match is_ascending {
            true => self.checker.push_ordered(records),
            false => self.checker.push(records),
        }
        let Some(number) = self.checker.report().first_unordered else {
            return Ok(());
        };
        let keys_bytes: usize = self.format.keys().iter().map(|key| key.len_bytes).sum();
        let cause = format!(
            "record {} comes before record {} in the{} order of {}{}",
            units::count(number + 1),
            units::count(number),
            match self.checker.options().descending {
                true => " descending",
                false => "",
            },
            self.format,
            match self.checker.options().ties && keys_bytes < self.format.record_bytes() {
                true => ", in which all bytes decide between equal keys",
                false => "",
            }
        );
        Err(Error::corrupt(MERGE, cause)
            .path(&self.input.path)
            .hint("sort this file first with `outcore sort`, by the same key"))
    }
}

/// Whether native integers are in ascending order. Compares without branches.
fn ascends<K: Key>(records: &[u8]) -> bool {
    const BATCH: usize = 512;
    let Ok(keys) = as_keys::<K>(records) else {
        return false;
    };
    let mut batches = (0..keys.len()).step_by(BATCH);
    batches.all(|first| {
        // Neighbouring batches share a key.
        let batch = &keys[first..keys.len().min(first + BATCH + 1)];
        let pairs = batch.iter().zip(&batch[1..]);
        !pairs.fold(false, |is_wrong, (key, next)| is_wrong | (key > next))
    })
}

/// One file that is merged.
struct Run<'a> {
    reader: Reader<'a>,
    checked: Checked<'a>,
    /// Pieces that arrived early.
    waiting: BTreeMap<u64, Loaded>,
    next: u64,
    /// The piece that is being merged; `None` at the end.
    loaded: Option<Loaded>,
}

impl<'a> Run<'a> {
    fn begin(pass: &'a Pass<'a>, checked: Checked<'a>) -> Result<Self> {
        let mut run = Run {
            reader: pass.reader()?,
            checked,
            waiting: BTreeMap::new(),
            next: 0,
            loaded: None,
        };
        run.reader.fill()?;
        Ok(run)
    }

    fn advance(&mut self) -> Result<()> {
        if let Some(loaded) = self.loaded.take() {
            self.reader.done(&loaded);
        }
        loop {
            self.loaded = self.waiting.remove(&self.next);
            if let Some(loaded) = &self.loaded {
                self.checked.push(loaded.batch().bytes(0))?;
                self.next += 1;
                // The next read into the freed buffer starts at once.
                return self.reader.fill();
            }
            match self.reader.next()? {
                Some(loaded) => drop(self.waiting.insert(loaded.piece.order, loaded)),
                None => return Ok(()),
            }
        }
    }
}

/// The loaded part of each run.
fn slices<'r>(runs: &'r [Run<'_>]) -> Vec<&'r [u8]> {
    let loaded = runs.iter().map(|run| run.loaded.as_ref());
    let bytes = loaded.map(|loaded| loaded.map_or(&[][..], |loaded| loaded.batch().bytes(0)));
    bytes.collect()
}

/// The inputs of a merge, each with the check of its order.
struct Opened<'p, 'r> {
    passes: &'p [Pass<'r>],
    checked: Vec<Checked<'r>>,
}

fn merge_runs(
    job: &Job,
    volume: Arc<Volume>,
    opened: Opened<'_, '_>,
    merger: &mut dyn Merge,
    format: &RecordFormat,
    replace: bool,
    output: &Output,
) -> Result<Summary> {
    let record_bytes = format.record_bytes();
    let nothing = Source::generated(0);
    let demand = result_demand(job);
    let result = Pass::open_on(volume, job, &[nothing], Lanes::Stretches(1), demand)?;
    let count: u64 = opened.passes.iter().map(Pass::count).sum();
    let mut left_bytes = count * record_bytes as u64;
    let room = Room::AtMost;
    let staged = stage_output(
        &result.volume,
        output,
        replace,
        room,
        left_bytes,
        record_bytes,
    )?;
    let appender = match (&staged, output) {
        (Some(staged), _) => Appender::to_files(&result, staged, chunk_bytes(job, 1))?,
        (None, Output::Pipe(pipe)) => Appender::to_pipe(&result, pipe),
        (None, _) => return Ok(result.summary(0, 0)),
    };
    result.begin_reading(MERGE, left_bytes.into(), left_bytes.into());
    let begun = opened.passes.iter().zip(opened.checked);
    let begun = begun.map(|(pass, checked)| Run::begin(pass, checked));
    let mut runs: Vec<Run<'_>> = begun.collect::<Result<_>>()?;
    runs.iter_mut().try_for_each(Run::advance)?;
    let mut heads = vec![0; runs.len()];
    let mut merged_bytes = vec![0; (MERGED_BYTES / record_bytes).max(1) * record_bytes];
    let mut writer = result.reader()?;
    merger.start(&LoadedRuns {
        loaded: &slices(&runs),
        heads: &mut heads,
    })?;
    while left_bytes > 0 {
        let room_bytes = (merged_bytes.len() as u64).min(left_bytes) as usize;
        let merged = merger.merge(
            &mut LoadedRuns {
                loaded: &slices(&runs),
                heads: &mut heads,
            },
            &mut merged_bytes[..room_bytes],
        )?;
        appender.append(&mut writer, 0, &merged_bytes[..merged.bytes])?;
        left_bytes -= merged.bytes as u64;
        if let Some(run) = merged.used_up {
            result.thread_group.check()?;
            runs[run].advance()?;
            heads[run] = 0;
            let runs_loaded = LoadedRuns {
                loaded: &slices(&runs),
                heads: &mut heads,
            };
            merger.advance(&runs_loaded, run)?;
        }
    }
    runs.iter_mut().try_for_each(|run| run.reader.drain())?;
    drop(runs);
    writer.drain()?;
    drop(writer);
    let lens = appender.finish(&result.volume, header_of(output), record_bytes)?;
    opened.passes.iter().try_for_each(Pass::check_sources)?;
    let piped_bytes = match staged {
        Some(staged) => {
            result.publish(|volume| staged.publish_each(volume, &lens))?;
            0
        }
        None => lens.iter().sum(),
    };
    Ok(Summary {
        records_in: count,
        ..result.summary(count, piped_bytes)
    })
}
