//! Building a view: sorted runs, each written once.
//!
//! Contract: the input is cut into runs of consecutive records that fill an area of memory each. A
//! thread reads a run, sorts it where it lies, adds its index and writes it from there, while other
//! areas are being filled from each drive and written to each (lines, which cannot change places,
//! are put in order in small buffers as they are written); the runs are spread over the drives by
//! weight. Where a reader could not merge so many, they are merged in groups first
//! ([`super::plan`]). All is staged in private directories; the view appears with its manifest,
//! after everything is durable, and a job that is killed leaves the view as it was, or whole, or to
//! be finished by who comes next. What is in memory at the end can stay there for a first read
//! ([`BuildOptions::keeps_runs`]).
//!
//! Bounds: memory as planned; one read and one write of the data, plus 24 bytes a block, and one
//! more of each for a merge beforehand.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::SortedView;
use super::level::{Generation, GrowingLevel, Level, Places, now_seed};
use super::manifest::{self, Manifest, NAME};
use super::output::merge_groups;
use super::plan::{ViewPlan, plan_in_blocks, plan_rows, plan_view};
use super::planned::{PlannedRun, by_turns, cut_runs};
use super::rows::{form_runs, size_of_rows};
use super::shape::Shape;
use super::size::{LineLengths, ViewSize};
use super::sort_lines::{RunSizes, cut_lines};
use super::sorting::sort_runs;
use super::types::{BuildOptions, FRONT_BYTES_MAX, LineOrders, RowType, ViewType, own_orders};
use crate::ends::{Input, Phase, Phases};
use crate::ends::{check_unchanged, open_inputs, traffic_by_drive};
use crate::job::{Job, JobSize, ScratchDrive};
use crate::key::sort_key::SharedKey;
use crate::read::longest::{located, measure};
use crate::read::sample::random;
use crate::read::source::InputPart;
use crate::sort::lines::rows::RowSource;
use crate::sort::lines::sample_lengths;
use outcore_io::drive::Access;
use outcore_io::memory::Buf;
use outcore_io::port::Volume;
use outcore_io::{Error, Kind, Result};

/// What building a view did.
#[derive(Debug, Clone)]
pub struct BuildSummary {
    /// Records sorted.
    pub records: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Wall time.
    pub seconds: f64,
    /// Bytes read from all drives.
    pub read_bytes: u64,
    /// Bytes written to all drives.
    pub written_bytes: u64,
    /// Runs that readers merge.
    pub runs: u64,
    /// Bytes of runs that are still in memory.
    pub resident_bytes: u64,
    /// The phases in order.
    pub phases: Vec<Phase>,
    /// (name, bytes read, bytes written) of each drive.
    pub drives: Vec<(String, u64, u64)>,
    /// The plan it followed.
    pub plan: ViewPlan,
}

/// Builds a view of `inputs`, in the given order, in `dir`, which must be there, and opens it. What
/// the inputs hold is a [`ViewType`], or a reference to the format of records. Runs are spread over
/// the drives of the job, or lie in `dir` if there are none.
///
/// # Errors
/// [`Kind::Usage`] for requests that make no sense, [`Kind::Memory`] if the plan does not fit,
/// [`Kind::NoSpace`], [`Kind::Io`], [`Kind::Corrupt`], [`Kind::Interrupted`]; nothing is left then.
pub fn build(
    job: &Job,
    inputs: &[Input],
    dir: &Path,
    what: impl Into<ViewType>,
    options: BuildOptions,
) -> Result<(SortedView, BuildSummary)> {
    let what = what.into();
    if let ViewType::Records(format) = &what {
        format.check_order()?;
    }
    build_from(job, From::Files(inputs), dir, &what, options)
}

/// The same of rows that `source` makes. Which of equal rows comes first is not known, so `rows`
/// must have an order whose tie is that of bytes.
///
/// # Errors
/// As [`build`], and what `source` fails with.
pub fn build_rows(
    job: &Job,
    source: &dyn RowSource,
    dir: &Path,
    rows: RowType,
    options: BuildOptions,
) -> Result<(SortedView, BuildSummary)> {
    build_from(job, From::Rows(source), dir, &ViewType::Rows(rows), options)
}

fn build_from(
    job: &Job,
    from: From<'_>,
    dir: &Path,
    what: &ViewType,
    options: BuildOptions,
) -> Result<(SortedView, BuildSummary)> {
    let old = manifest::tidy(job, dir)?;
    if old.is_some() && !options.replace {
        return Err(Error::usage("build view", "a view is there already")
            .path(dir.join(NAME))
            .hint("allow replacing it with --force, or add to it with `outcore view append`"));
    }
    if let Some(old) = &old {
        old.refuse_to_forget_runs(job, dir)?;
    }
    let request = Request {
        from,
        dir,
        options,
        old: old.as_ref(),
        appends: false,
    };
    let built = request.run(job, what, None)?;
    if let Some(old) = &old {
        manifest::remove_runs(job, dir, &old.to_replaced(), old.owns_runs(dir));
    }
    finish(job, dir, built, &orders_of(what))
}

/// The orders to open what was just built: its own.
fn orders_of(what: &ViewType) -> impl Fn(&str) -> Result<SharedKey> {
    let what = what.clone();
    move |name: &str| match what.item_order() {
        Some((its, order)) if its == name => Ok(Arc::clone(order)),
        _ => own_orders(name),
    }
}

/// Sorts `inputs` into further runs of the view in `dir`; its format and order stay. Equal records
/// of a stable view come after those that were there. Open views keep showing what they showed.
///
/// # Errors
/// As [`build`]; the view is as it was then.
pub fn append(
    job: &Job,
    inputs: &[Input],
    dir: &Path,
    options: BuildOptions,
) -> Result<(SortedView, BuildSummary)> {
    append_with(job, inputs, dir, options, &own_orders)
}

/// The same for views whose lines may have any of `orders`.
///
/// # Errors
/// As [`append`], and what `orders` fails with.
pub fn append_with(
    job: &Job,
    inputs: &[Input],
    dir: &Path,
    options: BuildOptions,
    orders: LineOrders<'_>,
) -> Result<(SortedView, BuildSummary)> {
    append_from(job, From::Files(inputs), None, dir, options, orders)
}

/// Sorts the rows that `source` makes into further runs of the view of such `rows` in `dir`.
///
/// # Errors
/// As [`append`], and what `source` fails with; [`Kind::Usage`] for a view of other rows, as one
/// that was built anew since somebody looked.
pub fn append_rows(
    job: &Job,
    source: &dyn RowSource,
    dir: &Path,
    rows: &RowType,
    options: BuildOptions,
) -> Result<(SortedView, BuildSummary)> {
    let orders = |name: &str| match name == rows.order_name {
        true => Ok(Arc::clone(&rows.order)),
        false => Err(other_rows(dir)),
    };
    append_from(job, From::Rows(source), Some(rows), dir, options, &orders)
}

fn other_rows(dir: &Path) -> Error {
    Error::usage(
        "add to view",
        "it holds other rows than when it was looked at",
    )
    .path(dir)
    .hint("somebody added to it or built it anew meanwhile: run the command again")
}

fn append_from(
    job: &Job,
    from: From<'_>,
    rows: Option<&RowType>,
    dir: &Path,
    options: BuildOptions,
    orders: LineOrders<'_>,
) -> Result<(SortedView, BuildSummary)> {
    let old = match manifest::tidy(job, dir)? {
        Some(old) => old,
        // Says what is missing.
        None => {
            let volume = Volume::new(Arc::clone(&job.device), &job.options.drives)?;
            Manifest::read(job, &volume, dir)?
        }
    };
    old.refuse_to_add_to_a_copy(dir)?;
    let shape = old.shape(&dir.join(NAME), orders)?;
    if let Some(rows) = rows {
        let found = shape.what.rows().map(|found| &found.description);
        if found != Some(&rows.description) {
            return Err(other_rows(dir));
        }
    }
    let request = Request {
        from,
        dir,
        options: BuildOptions {
            order: shape.view_order,
            replace: true,
            ..options
        },
        old: Some(&old),
        appends: true,
    };
    let what = shape.what.clone();
    let built = request.run(job, &what, Some(shape))?;
    finish(job, dir, built, orders)
}

/// Opens what was built; what is still in memory goes with it.
fn finish(
    job: &Job,
    dir: &Path,
    built: Built,
    orders: LineOrders<'_>,
) -> Result<(SortedView, BuildSummary)> {
    // The view is published: whoever interrupts the job now must not be told that nothing was done.
    let finishing = Job {
        control: Arc::default(),
        ..job.clone()
    };
    let view = SortedView::open_with(&finishing, dir, orders)?;
    let mut view = view.watched(Arc::clone(&job.control));
    // Runs stay in memory as long as a reader has room beside them; the oldest go first.
    let (mut kept, mut summary) = (VecDeque::from(built.kept), built.summary);
    while !kept.is_empty() && view.reader_bytes(1) < view.needed_bytes() {
        kept.pop_front();
    }
    if let Some(set) = Arc::get_mut(&mut view.set) {
        let unit_bytes = set.shape.unit_bytes as u64;
        for (number, buf) in kept {
            if let Some(run) = set.runs.iter_mut().find(|run| run.number == number) {
                summary.resident_bytes += run.units * unit_bytes;
                run.resident = Some(Arc::new(buf));
            }
        }
    }
    summary.runs = view.set.runs.len() as u64;
    summary.seconds = built.started.elapsed().as_secs_f64();
    Ok((view, summary))
}

/// What is sorted into runs.
#[derive(Clone, Copy)]
enum From<'a> {
    Files(&'a [Input]),
    Rows(&'a dyn RowSource),
}

/// The files of an input, open.
#[derive(Clone, Copy)]
struct OpenFiles<'a> {
    volume: &'a Volume,
    parts: &'a [InputPart],
}

/// What is to be built.
struct Request<'a> {
    from: From<'a>,
    dir: &'a Path,
    options: BuildOptions,
    /// The view that is there.
    old: Option<&'a Manifest>,
    /// Whether its runs stay.
    appends: bool,
}

/// Runs as they were first sorted.
struct FirstRuns {
    level: Level,
    /// Those that are still in memory.
    kept: Vec<(u32, Buf)>,
    plan: ViewPlan,
}

/// A view that is in place.
struct Built {
    kept: Vec<(u32, Buf)>,
    started: Instant,
    summary: BuildSummary,
}

impl Request<'_> {
    fn run(&self, job: &Job, what: &ViewType, shape: Option<Shape>) -> Result<Built> {
        let mut phases = Phases::start();
        check_front(what)?;
        let drives = match job.options.drives.is_empty() {
            true => vec![ScratchDrive::new(self.dir)],
            false => job.options.drives.clone(),
        };
        let volume = Arc::new(Volume::new(Arc::clone(&job.device), &drives)?);
        let places = Places {
            volume: &volume,
            drives: &drives,
            dir: self.dir,
        };
        let first = match self.from {
            From::Files(inputs) => self.runs_of_files(job, inputs, &places, what, shape)?,
            From::Rows(source) => self.runs_of_rows(job, source, &places, what, shape)?,
        };
        let FirstRuns {
            mut level,
            kept,
            plan,
        } = first;
        let data_bytes = plan.size.data_bytes;
        phases.end("sort runs", &volume);
        for (pass, &group) in plan.merges.iter().enumerate() {
            let is_last = pass + 1 == plan.merges.len();
            let counts: Vec<u64> = level
                .runs
                .chunks(group as usize)
                .map(|runs| runs.iter().map(|run| run.units).sum())
                .collect();
            let shape = level.shape.clone();
            let next = Level::stage(
                &places,
                &shape,
                &counts,
                0..counts.len(),
                self.first_number(),
                self.generation(is_last),
            )?;
            job.control.begin_phase("merge runs", data_bytes);
            level = merge_level(job, level, next, group as usize)?;
            phases.end("merge runs", &volume);
        }
        job.control.begin_phase("publish", 0);
        let runs = level.runs.len() as u64;
        let (records, bytes) = level.totals();
        self.publish(job, level)?;
        phases.end("publish", &volume);
        let (read_bytes, written_bytes) = volume.traffic_bytes();
        let started = phases.started;
        let summary = BuildSummary {
            records,
            bytes,
            seconds: 0.0,
            read_bytes,
            written_bytes,
            runs,
            resident_bytes: 0,
            phases: phases.beside(&plan.phases),
            drives: traffic_by_drive(&volume),
            plan,
        };
        Ok(Built {
            kept,
            started,
            summary,
        })
    }

    /// The runs of files, as first sorted, with those that are still in memory.
    fn runs_of_files(
        &self,
        job: &Job,
        inputs: &[Input],
        places: &Places<'_>,
        what: &ViewType,
        shape: Option<Shape>,
    ) -> Result<FirstRuns> {
        let volume = places.volume;
        if let ViewType::Rows(_) = what {
            return Err(
                Error::usage("build view", "files are given for a view of rows")
                    .hint("a bug: please report it"),
            );
        }
        let parts = open_inputs(volume, inputs, what.unit_bytes(), Access::Read)?;
        let size = self.size(job, volume, &parts, what)?;
        let files = OpenFiles {
            volume,
            parts: &parts,
        };
        let cut = self.cut(job, files, what, size, shape.as_ref());
        let (mut plan, shape, cuts) = match (cut, size.lines) {
            // Once more, with room for the longest line.
            (Err(error), Some(lines)) if error.kind() == Kind::Memory => {
                let longest_bytes = longest_line(job, files, what)?;
                let lines = LineLengths {
                    longest_bytes,
                    ..lines
                };
                let size = ViewSize {
                    lines: Some(lines),
                    ..size
                };
                let cut = self.cut(job, files, what, size, shape.as_ref());
                cut.map_err(|again| located(again, &error))?
            }
            (cut, _) => cut?,
        };
        plan.set_runs(cuts.len() as u64)?;
        job.control.show_plan(&plan);
        let is_last = plan.merges.is_empty();
        let counts: Vec<u64> = cuts.iter().map(|cut| cut.units).collect();
        let mut level = Level::stage(
            places,
            &shape,
            &counts,
            by_turns(&cuts, &parts),
            self.first_number(),
            self.generation(is_last),
        )?;
        job.control.begin_phase("sort runs", size.data_bytes);
        let keeps = size.keeps_runs && is_last;
        let kept = sort_runs(job, volume, &parts, &cuts, &plan, &mut level, keeps)?;
        check_unchanged(volume, &parts, false)?;
        Ok(FirstRuns { level, kept, plan })
    }

    /// The plan for files of a size, and the runs that they are cut into.
    fn cut(
        &self,
        job: &Job,
        files: OpenFiles<'_>,
        what: &ViewType,
        size: ViewSize,
        shape: Option<&Shape>,
    ) -> Result<(ViewPlan, Shape, Vec<PlannedRun>)> {
        let plan = match shape {
            Some(shape) => plan_in_blocks(size, shape.block_units)?,
            None => plan_view(size)?,
        };
        let shape = shape.cloned();
        let shape = shape.unwrap_or_else(|| self.new_shape(job, what, &plan));
        let cuts = match what.lines() {
            None => cut_runs(files.parts, plan.run_records, shape.unit_bytes as u64),
            Some(lines) => {
                let sizes = RunSizes {
                    run_bytes: plan.run_records,
                    line_bytes_max: plan.line_bytes_max(),
                };
                cut_lines(job, files.volume, files.parts, sizes, lines.terminator)?
            }
        };
        Ok((plan, shape, cuts))
    }

    /// The same of rows; none stay in memory.
    fn runs_of_rows(
        &self,
        job: &Job,
        source: &dyn RowSource,
        places: &Places<'_>,
        what: &ViewType,
        shape: Option<Shape>,
    ) -> Result<FirstRuns> {
        let beside = job.budget.reserve("making rows", source.memory_bytes())?;
        let size = ViewSize {
            run_bytes: self.options.run_bytes,
            ..size_of_rows(job, source, what, places.drives.len())?
        };
        let mut plan = plan_rows(size, shape.as_ref().map(|shape| shape.block_units))?;
        let shape = shape.unwrap_or_else(|| self.new_shape(job, what, &plan));
        job.control.show_plan(&plan);
        // A sample says how long rows are: there may be more runs than planned.
        let is_last = plan.may_be_last();
        let level = GrowingLevel::begin(
            *places,
            &shape,
            self.first_number(),
            self.generation(is_last),
        )?;
        job.control.begin_phase("sort runs", size.data_bytes);
        let level = form_runs(job, source, &plan, level)?;
        source.check()?;
        drop(beside);
        plan.set_runs(level.runs.len() as u64)?;
        match (is_last, plan.merges.is_empty()) {
            (true, false) => return Err(plan.too_many_runs()),
            // They share files: one more pass gives them their own.
            (false, true) => plan.merges = vec![1],
            _ => {}
        }
        let kept = Vec::new();
        Ok(FirstRuns { level, kept, plan })
    }

    /// The shape of a new view.
    fn new_shape(&self, job: &Job, what: &ViewType, plan: &ViewPlan) -> Shape {
        let id = random(now_seed() ^ job.options.seed, plan.size.data_bytes);
        Shape::new(what, self.options.order, plan.block_records, id)
    }

    /// Of runs that are, or are not, those of the view.
    fn generation(&self, is_last: bool) -> Generation {
        match is_last {
            true => Generation::Last {
                replace: self.options.replace,
            },
            false => Generation::Passing,
        }
    }

    /// What the plan has to know.
    fn size(
        &self,
        job: &Job,
        volume: &Volume,
        parts: &[InputPart],
        what: &ViewType,
    ) -> Result<ViewSize> {
        let lines = match what {
            ViewType::Records(_) | ViewType::Rows(_) => None,
            ViewType::Lines(lines) => Some(LineLengths::of(&sample_lengths(
                job,
                volume,
                parts,
                &*lines.order,
                lines.terminator,
            )?)),
        };
        let data_bytes = parts.iter().map(|part| part.data_len_bytes).sum();
        let appended = self.old.filter(|_| self.appends);
        let order = appended.map_or(self.options.order, Manifest::order);
        Ok(ViewSize {
            job: JobSize::of(job, data_bytes, volume.drives().len()),
            record_bytes: what.unit_bytes(),
            is_scalar: what
                .records()
                .is_some_and(|format| order.sorts_scalars(format)),
            lines,
            keeps_runs: self.options.keeps_runs && lines.is_none(),
            run_bytes: self.options.run_bytes,
        })
    }

    /// Number of the first run.
    fn first_number(&self) -> u32 {
        let known = self.old.filter(|_| self.appends);
        let numbers = known.map(|old| old.runs.iter().map(|run| run.number + 1));
        numbers.and_then(Iterator::max).unwrap_or(0)
    }

    /// Gives runs and manifest their names, if the view is still what it was.
    fn publish(&self, job: &Job, level: Level) -> Result<()> {
        let now = Manifest::look(job, self.dir)?;
        let is_same = match (&now, self.old) {
            (Some(now), Some(old)) => now.names_runs_of(old),
            (None, None) => true,
            _ => false,
        };
        if !is_same {
            return Err(
                Error::usage("build view", "somebody else changed the view meanwhile")
                    .path(self.dir.join(NAME))
                    .hint("run the command again"),
            );
        }
        match (self.appends, self.old) {
            (true, Some(old)) => level.publish(self.dir, &old.runs, None),
            (_, old) => {
                // A copy's manifest names no runs of the original's.
                let old = old.filter(|old| old.owns_runs(self.dir));
                level.publish(self.dir, &[], old.map(Manifest::to_replaced))
            }
        }
    }
}

/// Reads lines for the longest of them; nothing where records are none.
fn longest_line(job: &Job, files: OpenFiles<'_>, what: &ViewType) -> Result<Option<u64>> {
    let Some(lines) = what.lines() else {
        return Ok(None);
    };
    let data_bytes = files.parts.iter().map(|part| part.data_len_bytes).sum();
    job.control.begin_phase("measure lines", data_bytes);
    let check = || job.control.check();
    let longest = measure(files.volume, files.parts, lines.terminator, check)?;
    Ok(Some(longest.bytes))
}

/// Fails for more bytes in front of lines, or in the description of rows, than a manifest takes.
fn check_front(what: &ViewType) -> Result<()> {
    let description_bytes = what.rows().map_or(0, |rows| rows.description.len());
    if description_bytes > FRONT_BYTES_MAX {
        let cause = format!("the description of rows has {description_bytes} bytes");
        return Err(Error::usage("build view", cause)
            .hint("a view holds 1 MiB of it: leave columns out, or metadata of the schema"));
    }
    let front_bytes = what.lines().map_or(0, |lines| lines.front.len());
    if front_bytes <= FRONT_BYTES_MAX {
        return Ok(());
    }
    let cause = format!("{front_bytes} bytes stand before the lines");
    Err(Error::usage("build view", cause).hint("a view holds 1 MiB of them: shorten the header"))
}

/// Merges groups of runs of a level into those of the next.
fn merge_level(job: &Job, level: Level, next: Level, group: usize) -> Result<Level> {
    merge_groups(job, &level, &next, group)?;
    level.close();
    Ok(next)
}
