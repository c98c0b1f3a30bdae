//! What asks a dataset: folds, selections, files.
//!
//! Contract: each function is one job. Values come back as Python's numbers or as the bytes of items,
//! which the Python half gives NumPy. A function of Python folds batches on the job's threads, each
//! into a value of Python's; those are folded in the order of the input, so that the function need be
//! associative and no more. The values that wait are at most those of the batches in flight.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outcore::algo::sequence::table::{BatchStep, Numbers, Table};
use outcore::algo::sequence::tables::{
    Histogram, distribute_by, distribute_table, find_table, histogram_table, top_table,
};
use outcore::algo::sequence::{
    BucketFiles, Reduction, Scalar, fold, gather as run_gather, read, reduce_table,
};
use outcore::algo::sort::SortInput;
use outcore::data::RecordFormat;
use outcore::data::expr::Schema;
use outcore::job::Job;
use outcore::volume::dataset::Named;
use outcore::volume::output::parent_of;
use outcore::{Error, Result};
use outcore_formats::blocks::BlockReader;
use outcore_formats::inputs::{Source, Streams};
use outcore_formats::output::{self, Holds, Target};
use outcore_formats::split::{Cut, SplitRequest, split};
use outcore_formats::text::csv_files::separator_of;
use outcore_formats::text::reader::{Frame, RecordReader};
use outcore_formats::text::sample::choose;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyByteArray, PyBytes};

use super::stage::{Items, Mode, Stage};
use super::{Call, CsvRows, Dataset, Raised, watched};
use crate::jobs::{no_pipe, open_lines};
use crate::reply;
use crate::run::Run;

/// Where a result goes.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct To {
    output: PathBuf,
    force: bool,
}

/// Where the parts of a result go.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct ToParts {
    outputs: Vec<PathBuf>,
    manifest: PathBuf,
    force: bool,
}

fn number(py: Python<'_>, scalar: Scalar) -> PyResult<Py<PyAny>> {
    Ok(match scalar {
        Scalar::Int(value) => value.into_pyobject(py)?.into_any().unbind(),
        Scalar::Float(value) => value.into_pyobject(py)?.into_any().unbind(),
        Scalar::Float32(value) => f64::from(value).into_pyobject(py)?.into_any().unbind(),
        Scalar::None => py.None(),
    })
}

fn numbers(py: Python<'_>, scalars: Vec<Scalar>) -> PyResult<Vec<Py<PyAny>>> {
    scalars.into_iter().map(|value| number(py, value)).collect()
}

/// Takes all steps, those that need all items too.
fn settled(stage: &mut Stage, run: &Run) -> Result<()> {
    stage.take_steps(Mode::Run, run)?;
    stage.settle(Mode::Run, run)
}

/// What a question about all items, after all steps, is answered with.
fn asked<T: Send + 'static>(
    py: Python<'_>,
    request: Dataset,
    tell: Option<&Bound<'_, PyAny>>,
    ask: impl FnOnce(&Job, &Table) -> Result<T> + Send + 'static,
) -> PyResult<T> {
    watched(py, (request, Mode::Run), tell, move |mut stage, run| {
        settled(&mut stage, run)?;
        let table = &stage.records()?.table;
        ask(&stage.job(run)?, table)
    })
}

/// Folds all items by name or expression.
pub(crate) fn reduce(
    py: Python<'_>,
    request: Dataset,
    how: Vec<String>,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<Py<PyAny>>> {
    let reductions: Vec<Reduction> = how.iter().map(|how| Reduction::parse(how)).collect();
    let found = asked(py, request, tell, move |job, table| {
        reduce_table(job, table, &reductions).map(|(found, _)| found)
    })?;
    numbers(py, found)
}

/// The largest numbers, or the smallest.
pub(crate) fn top(
    py: Python<'_>,
    request: Dataset,
    count: usize,
    smallest: bool,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<Py<PyAny>>> {
    let found = asked(py, request, tell, move |job, table| {
        top_table(job, table, count, smallest).map(|(found, _)| found)
    })?;
    numbers(py, found)
}

/// The range and the counts of a histogram.
pub(crate) fn histogram(
    py: Python<'_>,
    request: Dataset,
    bins: usize,
    range: Option<(f64, f64)>,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<((f64, f64), Vec<u64>)> {
    asked(py, request, tell, move |job, table| {
        let (found, _) = histogram_table(job, table, bins, range)?;
        let Histogram { range, counts } = found;
        Ok((range, counts))
    })
}

/// The position of the first item for which an expression is true.
pub(crate) fn find(
    py: Python<'_>,
    request: Dataset,
    condition: String,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<u64>> {
    asked(py, request, tell, move |job, table| {
        find_table(job, table, &condition).map(|(found, _)| found)
    })
}

/// The items at `positions` (u64 in the machine's order), as bytes.
pub(crate) fn gather<'py>(
    py: Python<'py>,
    request: Dataset,
    positions: PyBackedBytes,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<Bound<'py, PyByteArray>> {
    let bytes = watched(py, (request, Mode::Run), tell, move |mut stage, run| {
        let (positions, _) = positions.as_chunks::<8>();
        let positions: Vec<u64> = positions.iter().map(|at| u64::from_ne_bytes(*at)).collect();
        settled(&mut stage, run)?;
        stage.refine_files(run)?;
        let item_bytes = stage.records()?.table.format().record_bytes();
        let job = stage.job(run)?;
        run_gather(&job, &stage.files(), item_bytes, &positions).map(|(bytes, _)| bytes)
    })?;
    Ok(PyByteArray::new(py, &bytes))
}

/// Writes each item to the file that an expression numbers; gives the number of items in each.
pub(crate) fn partition(
    py: Python<'_>,
    request: Dataset,
    bucket: Bucket,
    to: ToParts,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<u64>> {
    watched(py, (request, Mode::Run), tell, move |mut stage, run| {
        if let Some(path) = to.outputs.iter().find(|path| Named::is_mark(path)) {
            return Err(
                Error::usage("create output", "parts are files, not datasets")
                    .path(path)
                    .hint("name files, and put them on the volume"),
            );
        }
        for path in &to.outputs {
            output::check_placeholders(path, &["{part}"])?;
        }
        let target = Target::Shards {
            paths: to.outputs.clone(),
            manifest: to.manifest.clone(),
        };
        let sources: Vec<Source> = stage.inputs.iter().map(|i| i.source.clone()).collect();
        output::check_new(&target, &sources, to.force, Holds::Records)?;
        stage.beside = target.dir();
        settled(&mut stage, run)?;
        let header = match to.outputs.first() {
            Some(path) => {
                let decided = stage.records()?.decided();
                output::header_for(&Target::File(path.clone()), &[], &decided)?
            }
            None => None,
        };
        let files = BucketFiles {
            paths: to.outputs,
            manifest: to.manifest,
            replace: to.force,
            header,
        };
        let table = &stage.records()?.table;
        let job = stage.job(run)?;
        let (counts, _) = match bucket {
            Bucket::Expression(text) => distribute_table(&job, table, &text, &files)?,
            Bucket::Function(function) => {
                let raised = stage.raised();
                distribute_by(&job, table, &Call { function, raised }, &files)?
            }
        };
        Ok(counts)
    })
}

/// What says which file an item goes to.
#[derive(Debug, FromPyObject)]
pub(crate) enum Bucket {
    #[pyo3(transparent)]
    Expression(String),
    /// Makes a number (`i64`) for each item of the bytes of a batch.
    #[pyo3(transparent)]
    Function(Py<PyAny>),
}

/// Writes all items.
pub(crate) fn write(
    py: Python<'_>,
    request: Dataset,
    mut to: To,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<reply::Wrote> {
    watched(py, (request, Mode::Run), tell, move |mut stage, run| {
        let cost = reply::Cost::start();
        stage.stage_output(&mut to.output, to.force, run)?;
        let sources: Vec<Source> = stage.inputs.iter().map(|i| i.source.clone()).collect();
        let (name, specs) = (Some(to.output.as_path()), stage.means.specs());
        let holds = match stage.items() {
            Items::Records(_) => Holds::Records,
            Items::Lines => Holds::Lines,
        };
        let how = (Streams::Refused, holds);
        let target = output::choose_new(name, &sources, specs, to.force, how)?;
        stage.beside = target.dir();
        stage.take_steps(Mode::Run, run)?;
        let header = match stage.written()? {
            Some(decided) => output::header_for(&target, &[], &decided)?,
            None => None,
        };
        let done = match stage.items() {
            Items::Records(_) => {
                let output = target.to_sort(header, no_pipe)?;
                stage.write(Some(&target), output, to.force, run)?
            }
            Items::Lines => {
                let dress = stage.dress(run)?;
                let job = run.job(&stage.means, Vec::new());
                let (output, pending) = open_lines(&job, &target, to.force, &dress)?;
                pending.finish(stage.write(Some(&target), output, to.force, run))?
            }
        };
        let set = &stage.means.config.drives.value;
        let wrote = reply::Wrote {
            used: cost.used((done.records, done.passes), &done.drives, set, None),
            output: target.name().as_os_str().to_owned(),
            skipped: done.skipped,
        };
        std::mem::take(&mut stage.datasets).finish(wrote, run)
    })
}

/// Number of lines, and of those that were left out.
pub(crate) fn count_lines(
    py: Python<'_>,
    request: Dataset,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<(u64, u64)> {
    watched(py, (request, Mode::Run), tell, move |mut stage, run| {
        settled(&mut stage, run)?;
        let mut lines = 0;
        let mut plain = Vec::new();
        for (input, file) in stage.inputs.iter().zip(stage.files()) {
            if stage.packed(input).is_some() {
                let sources = vec![input.source.clone()];
                let job = stage.job(run)?;
                let frame = Frame::Terminator(stage.terminator);
                let mut reader = RecordReader::new(&job, sources, frame, stage.recognition);
                while let Some(piece) = reader.next_piece()? {
                    lines += u64::from(piece.is_last);
                }
                continue;
            }
            lines += u64::from(!ends_its_last_line(
                &stage.job(run)?,
                &input.source.path,
                stage.terminator,
            )?);
            plain.push(file);
        }
        let lines = lines + count_ends(&stage.job(run)?, &plain, stage.terminator)?;
        Ok((lines, stage.skipped()))
    })
}

/// The first lines or records of CSV, behind their header.
pub(crate) fn head_lines<'py>(
    py: Python<'py>,
    request: Dataset,
    count: u64,
    csv: Option<CsvRows>,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<Bound<'py, PyBytes>>> {
    let lines = watched(py, (request, Mode::Run), tell, move |mut stage, run| {
        settled(&mut stage, run)?;
        let job = stage.job(run)?;
        let mut reader = line_reader(&stage, &job, csv)?;
        let mut lines = header_line(&mut reader)?;
        let mut left = count;
        while left > 0
            && let Some(line) = reader.next_record()?
        {
            lines.push(line);
            left -= 1;
        }
        Ok(lines)
    })?;
    Ok(lines.iter().map(|line| PyBytes::new(py, line)).collect())
}

/// The header of CSV without its end, if there is one.
fn header_line(reader: &mut RecordReader<'_>) -> Result<Vec<Vec<u8>>> {
    let header = reader.header()?;
    let line = header.strip_suffix(b"\n").unwrap_or(header);
    Ok(match line.is_empty() {
        true => Vec::new(),
        false => vec![line.to_vec()],
    })
}

/// Lines at random, in the order of the input, and the number of those that were left out before; records of
/// CSV behind their header.
pub(crate) fn sample_lines<'py>(
    py: Python<'py>,
    request: Dataset,
    (count, seed): (u64, u64),
    csv: Option<CsvRows>,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<(Vec<Bound<'py, PyBytes>>, u64)> {
    let (kept, skipped) = watched(py, (request, Mode::Run), tell, move |mut stage, run| {
        settled(&mut stage, run)?;
        let limit_bytes = stage.means.config.memory_bytes.value;
        let job = stage.job(run)?;
        let mut reader = line_reader(&stage, &job, csv)?;
        let mut lines = header_line(&mut reader)?;
        let kept = choose(&mut reader, count, seed, limit_bytes)?;
        lines.extend(kept.into_iter().map(|(_, line)| line));
        drop(reader);
        Ok((lines, stage.skipped()))
    })?;
    let lines = kept.iter().map(|line| PyBytes::new(py, line));
    Ok((lines.collect(), skipped))
}

/// The first line that is not in the order of the last step: file, number from 1, line.
pub(crate) fn check_lines<'py>(
    py: Python<'py>,
    request: Dataset,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<(PathBuf, u64, Bound<'py, PyBytes>)>> {
    let found = watched(py, (request, Mode::Run), tell, move |mut stage, run| {
        stage.take_steps(Mode::Run, run)?;
        stage.disorder(run)
    })?;
    Ok(found.map(|found| {
        let line = PyBytes::new(py, &found.line);
        (found.path, found.line_number, line)
    }))
}

/// Writes lines to several files, as many or so many lines each; gives their names, and the number of
/// lines that were left out before.
pub(crate) fn split_lines(
    py: Python<'_>,
    request: Dataset,
    (pattern, cut, force): (String, Cut, bool),
    csv: Option<CsvRows>,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<(Vec<PathBuf>, u64)> {
    watched(py, (request, Mode::Run), tell, move |mut stage, run| {
        let what = SplitRequest {
            pattern: &pattern,
            cut,
            replace: force,
            inputs: stage.inputs.iter().filter_map(|i| i.source.key).collect(),
            header: None,
        };
        what.check(Holds::Lines)?;
        stage.beside = parent_of(Path::new(&pattern)).to_path_buf();
        settled(&mut stage, run)?;
        if matches!(cut, Cut::Parts(_)) {
            // Where parts end is told by the length of all.
            stage.unpack_files(run)?;
        }
        let job = stage.job(run)?;
        let mut reader = line_reader(&stage, &job, csv)?;
        let data_bytes = stage.inputs.iter().map(|input| input.data_bytes).sum();
        let of = (stage.inputs.len(), data_bytes);
        let (_, names) = split(&job, &mut reader, of, what)?;
        drop(reader);
        Ok((names, stage.skipped()))
    })
}

/// The lines of a stage as they come, or the records of CSV.
pub(super) fn line_reader<'a>(
    stage: &Stage,
    job: &'a Job,
    csv: Option<CsvRows>,
) -> Result<RecordReader<'a>> {
    match stage.items() {
        Items::Lines => {
            let sources = stage.inputs.iter().map(|input| input.source.clone());
            let sources: Vec<Source> = sources.collect();
            let frame = match csv {
                None => Frame::Terminator(stage.terminator),
                Some((separator, has_header)) => Frame::Csv {
                    separator: separator_of(separator, &sources),
                    has_header,
                },
            };
            Ok(RecordReader::new(job, sources, frame, stage.recognition))
        }
        Items::Records(_) => Err(Error::usage("read dataset", "it has records, not lines")
            .hint("open it with lines=True")),
    }
}

/// Ends of lines in files.
pub(super) fn count_ends(job: &Job, files: &[SortInput], terminator: u8) -> Result<u64> {
    let step = |count, byte| count + u64::from(byte == terminator);
    fold(job, &read::<u8>(files), 0, step, |a, b| a + b)
}

/// Whether a file is empty or its last byte ends a line.
pub(super) fn ends_its_last_line(job: &Job, path: &Path, terminator: u8) -> Result<bool> {
    let facts =
        std::fs::metadata(path).map_err(|error| Error::io("read input", &error).path(path))?;
    let Some(last_bytes) = facts.len().checked_sub(1) else {
        return Ok(true);
    };
    let mut byte = [0];
    let got = BlockReader::open(job, path, last_bytes)?.take(&mut byte)?;
    Ok(got == 0 || byte == [terminator])
}

/// Values of Python that wait to be folded, by number.
#[derive(Default)]
struct Values {
    next: AtomicU64,
    held: Mutex<HashMap<u64, Py<PyAny>>>,
}

impl Values {
    fn held(&self) -> MutexGuard<'_, HashMap<u64, Py<PyAny>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, value: Py<PyAny>) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.held().insert(number, value);
        number
    }

    fn take(&self, number: u64) -> Option<Py<PyAny>> {
        self.held().remove(&number)
    }
}

/// Makes of each batch the number of the value that a function folds it into.
struct FoldBatch {
    function: Py<PyAny>,
    values: Arc<Values>,
    raised: Raised,
}

impl BatchStep for FoldBatch {
    fn run(&self, _first: u64, items: &[u8]) -> Result<Vec<u8>> {
        if items.is_empty() {
            return Ok(Vec::new());
        }
        Python::attach(|py| {
            let value = self.function.call1(py, (PyBytes::new(py, items),));
            let value = value.map_err(|exception| self.raised.keep(exception))?;
            Ok(self.values.put(value).to_ne_bytes().to_vec())
        })
    }
}

/// Folds all items with functions of Python: `of_batch` makes a value of the bytes of a batch, `both`
/// one of two. `None` of no items.
pub(crate) fn fold_batches(
    py: Python<'_>,
    request: Dataset,
    of_batch: Py<PyAny>,
    both: Py<PyAny>,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<Py<PyAny>> {
    let values = Arc::new(Values::default());
    let kept = Arc::clone(&values);
    let found = watched(py, (request, Mode::Run), tell, move |mut stage, run| {
        settled(&mut stage, run)?;
        let raised = stage.raised();
        let step = FoldBatch {
            function: of_batch,
            values: Arc::clone(&kept),
            raised: raised.clone(),
        };
        let u64s = RecordFormat::parse_type("u64")?;
        let table = &stage.records()?.table;
        let table = table.own(Arc::new(step), &u64s, Schema::of_format(&u64s), true)?;
        // What is raised stops the job at its next look, and is raised instead of its result.
        let combine = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Python::attach(|py| {
                let (a, b) = (kept.take(a)?, kept.take(b)?);
                let value = both.call1(py, (a, b));
                match value {
                    Ok(value) => Some(kept.put(value)),
                    Err(exception) => {
                        drop(raised.keep(exception));
                        run.control.cancel();
                        None
                    }
                }
            }),
            (one, None) | (None, one) => one,
        };
        let step = |so_far, number| combine(so_far, Some(number));
        let found = fold(
            &stage.job(run)?,
            &Numbers::<u64>::of(&table),
            None,
            step,
            combine,
        )?;
        match raised.has_some() {
            true => Err(Error::interrupted()),
            false => Ok(found),
        }
    })?;
    Ok(found
        .and_then(|number| values.take(number))
        .unwrap_or_else(|| py.None()))
}
