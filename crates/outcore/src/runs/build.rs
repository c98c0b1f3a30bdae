//! Builds a view: sorted runs, each written once.
//!
//! Contract: the input is divided into runs of consecutive records that each fill an area of
//! memory. A thread reads a run, sorts it in place, adds its index and writes it from there, while
//! other areas are read from and written to each drive. (Lines cannot be moved, so they are ordered
//! in small buffers as they are written.) The runs are spread over the drives by weight. If a
//! reader could not merge that many runs, they are merged in groups first ([`super::plan`]).
//!
//! All files are staged in private directories, and the view appears with its manifest after
//! everything is durable. If the job is killed, the view is unchanged, or complete, or the next
//! sweep completes it. Runs in memory at the end can stay there for a first read
//! ([`BuildOptions::keeps_runs`]).
//!
//! Bounds: memory as planned; one read and one write of the data, plus 24 bytes per block, and one
//! more read and write for a preceding merge.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use super::SortedView;
use super::built::{BuildSummary, Built};
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
use super::step::{EndStep, Place, StepEnd, take_step};
use super::types::{BuildOptions, FRONT_BYTES_MAX, LineOrders, RowType, ViewType, own_orders};
use crate::ends::{Input, Phases, input_places};
use crate::ends::{check_unchanged, open_inputs, traffic_by_drive};
use crate::job::{Job, JobSize, OutputPlaces, ScratchDrive};
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

/// Builds a view of `inputs`, in the given order, in the existing directory `dir`, and opens it.
/// The type of the inputs is a [`ViewType`], or a reference to the format of records. Runs are
/// spread over the drives of the job, or stored in `dir` without drives.
///
/// # Errors
/// [`Kind::Usage`] for invalid requests, [`Kind::Memory`] if the plan does not fit,
/// [`Kind::NoSpace`], [`Kind::Io`], [`Kind::Corrupt`], [`Kind::Interrupted`]; nothing remains then.
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

/// Like [`build`], for rows of `source`. The order of equal rows is unknown, so `rows` must have an
/// order with bytes as the tie-break.
///
/// # Errors
/// The errors of [`build`] and of `source`.
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
        return Err(Error::usage("build view", "the view already exists")
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
        end_step: None,
    };
    let built = request.run(job, what, None)?;
    if let Some(old) = &old {
        manifest::remove_runs(job, dir, &old.to_replaced(), old.owns_runs(dir));
    }
    finish(job, dir, built, &orders_of(what))
}

/// The orders for opening a view that was just built: its own.
pub(super) fn orders_of(what: &ViewType) -> impl Fn(&str) -> Result<SharedKey> {
    let what = what.clone();
    move |name: &str| match what.item_order() {
        Some((its, order)) if its == name => Ok(Arc::clone(order)),
        _ => own_orders(name),
    }
}

/// Sorts `inputs` into further runs of the view in `dir`; its format and order stay. Equal records
/// of a stable view come after the earlier ones. Open views do not change.
///
/// # Errors
/// The errors of [`build`]; the view is then unchanged.
pub fn append(
    job: &Job,
    inputs: &[Input],
    dir: &Path,
    options: BuildOptions,
) -> Result<(SortedView, BuildSummary)> {
    append_with(job, inputs, dir, options, &own_orders)
}

/// Like [`append`], for views of lines with any of `orders`.
///
/// # Errors
/// The errors of [`append`] and of `orders`.
pub fn append_with(
    job: &Job,
    inputs: &[Input],
    dir: &Path,
    options: BuildOptions,
    orders: LineOrders<'_>,
) -> Result<(SortedView, BuildSummary)> {
    append_from(job, From::Files(inputs), None, dir, options, orders)
}

/// Sorts the rows of `source` into further runs of the view in `dir`, which must have such `rows`.
///
/// # Errors
/// The errors of [`append`] and of `source`; [`Kind::Usage`] for a view of other rows, for example
/// one that was rebuilt in the meantime.
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
        "its rows have changed since the command examined it",
    )
    .path(dir)
    .hint("another job added to it or rebuilt it: run the command again")
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
        // Reading the manifest reports that there is no view.
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
        end_step: None,
    };
    let what = shape.what.clone();
    let built = request.run(job, &what, Some(shape))?;
    finish(job, dir, built, orders)
}

/// Opens the new view, with the runs that are still in memory.
pub(super) fn finish(
    job: &Job,
    dir: &Path,
    built: Built,
    orders: LineOrders<'_>,
) -> Result<(SortedView, BuildSummary)> {
    // The view is published, so an interruption now must not report that nothing was done.
    let finishing = Job {
        control: Arc::default(),
        ..job.clone()
    };
    let view = SortedView::open_with(&finishing, dir, orders)?;
    let mut view = view.watched(Arc::clone(&job.control));
    // Runs stay in memory as long as a reader has room in addition; the oldest are dropped first.
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

/// The data to sort into runs.
#[derive(Clone, Copy)]
pub(super) enum From<'a> {
    Files(&'a [Input]),
    Rows(&'a dyn RowSource),
}

/// The open files of an input.
#[derive(Clone, Copy)]
struct OpenFiles<'a> {
    volume: &'a Volume,
    parts: &'a [InputPart],
}

/// The view to build.
pub(super) struct Request<'a> {
    pub(super) from: From<'a>,
    pub(super) dir: &'a Path,
    pub(super) options: BuildOptions,
    /// The existing view.
    pub(super) old: Option<&'a Manifest>,
    /// Whether its runs stay.
    pub(super) appends: bool,
    /// Takes one step of the job only, and receives its end.
    pub(super) end_step: Option<EndStep<'a>>,
}

/// Runs after the first sort.
struct FirstRuns {
    level: Level,
    /// Runs that are still in memory.
    kept: Vec<(u32, Buf)>,
    plan: ViewPlan,
    /// The place of the run after these, if this is a step of the job.
    next: Option<Place>,
}

impl Request<'_> {
    pub(super) fn run(&self, job: &Job, what: &ViewType, shape: Option<Shape>) -> Result<Built> {
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
            next,
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
        if let Some(end_step) = self.end_step {
            end_step(StepEnd {
                view: format!("{:016x}", level.shape.id),
                runs_count: u64::from(self.first_number()) + runs,
                records: self.old.map_or(0, |old| old.records) + records,
                next,
            })?;
        }
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

    /// The result of a job that is done already: its plan, and no work.
    pub(super) fn planned(&self, job: &Job, what: &ViewType) -> Result<Built> {
        let From::Files(inputs) = self.from else {
            return Err(
                Error::usage("plan view", "rows are not planned without work")
                    .hint("a bug: please report it"),
            );
        };
        let phases = Phases::start();
        let volume = Arc::new(Volume::new(Arc::clone(&job.device), &[])?);
        let places = Places {
            volume: &volume,
            drives: &[ScratchDrive::new(self.dir)],
            dir: self.dir,
        };
        let parts = open_inputs(&volume, inputs, what.unit_bytes(), Access::Read)?;
        let plan = plan_view(self.size(job, &places, &parts, what)?)?;
        Ok(Built::nothing(phases.started, plan))
    }

    /// The first runs of files, with those that are still in memory.
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
        let size = self.size(job, places, &parts, what)?;
        let files = OpenFiles {
            volume,
            parts: &parts,
        };
        let cut = self.cut(job, files, what, size.clone(), shape.as_ref());
        let (mut plan, shape, mut cuts) = match (cut, size.lines) {
            // Again, with room for the longest line.
            (Err(error), Some(lines)) if error.kind() == Kind::Memory => {
                let longest_bytes = longest_line(job, files, what)?;
                let lines = LineLengths {
                    longest_bytes,
                    ..lines
                };
                let size = ViewSize {
                    lines: Some(lines),
                    ..size.clone()
                };
                let cut = self.cut(job, files, what, size, shape.as_ref());
                cut.map_err(|again| located(again, &error))?
            }
            (cut, _) => cut?,
        };
        plan.set_runs(cuts.len() as u64)?;
        let next = match self.end_step {
            Some(_) => {
                plan.set_runs(u64::from(self.first_number()) + cuts.len() as u64)?;
                let next = take_step(&mut cuts, &plan)?;
                plan.runs = cuts.len() as u64;
                next
            }
            None => None,
        };
        if self.end_step.is_none() || !self.appends {
            job.control.show_plan(&plan);
        }
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
        Ok(FirstRuns {
            level,
            kept,
            plan,
            next,
        })
    }

    /// The plan for files of a size, and the runs that they are divided into.
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

    /// The first runs of rows; none stay in memory.
    fn runs_of_rows(
        &self,
        job: &Job,
        source: &dyn RowSource,
        places: &Places<'_>,
        what: &ViewType,
        shape: Option<Shape>,
    ) -> Result<FirstRuns> {
        let beside = job.budget.reserve("making rows", source.memory_bytes())?;
        let layout = job.layout_on(&[], &OutputPlaces::Scratch, places.drives);
        let size = ViewSize {
            run_bytes: self.options.run_bytes,
            ..size_of_rows(job, source, what, layout)?
        };
        let data_bytes = size.data_bytes;
        let mut plan = plan_rows(size, shape.as_ref().map(|shape| shape.block_units))?;
        let shape = shape.unwrap_or_else(|| self.new_shape(job, what, &plan));
        job.control.show_plan(&plan);
        // The lengths of rows come from a sample, so there may be more runs than planned.
        let is_last = plan.may_be_last();
        let level = GrowingLevel::begin(
            *places,
            &shape,
            self.first_number(),
            self.generation(is_last),
        )?;
        job.control.begin_phase("sort runs", data_bytes);
        let level = form_runs(job, source, &plan, level)?;
        source.check()?;
        drop(beside);
        plan.set_runs(level.runs.len() as u64)?;
        match (is_last, plan.merges.is_empty()) {
            (true, false) => return Err(plan.too_many_runs()),
            // The runs share files; one more pass gives them their own.
            (false, true) => plan.merges = vec![1],
            _ => {}
        }
        Ok(FirstRuns {
            level,
            kept: Vec::new(),
            plan,
            next: None,
        })
    }

    /// The shape of a new view.
    fn new_shape(&self, job: &Job, what: &ViewType, plan: &ViewPlan) -> Shape {
        let id = random(now_seed() ^ job.options.seed, plan.size.data_bytes);
        Shape::new(what, self.options.order, plan.block_records, id)
    }

    /// The generation of runs; `is_last` if they are those of the view.
    fn generation(&self, is_last: bool) -> Generation {
        match is_last {
            true => Generation::Last {
                replace: self.options.replace,
            },
            false => Generation::Passing,
        }
    }

    /// The parameters of the plan.
    fn size(
        &self,
        job: &Job,
        places: &Places<'_>,
        parts: &[InputPart],
        what: &ViewType,
    ) -> Result<ViewSize> {
        let lines = match what {
            ViewType::Records(_) | ViewType::Rows(_) => None,
            ViewType::Lines(lines) => Some(LineLengths::of(&sample_lengths(
                job,
                places.volume,
                parts,
                &*lines.order,
                lines.terminator,
            )?)),
        };
        let data_bytes = parts.iter().map(|part| part.data_len_bytes).sum();
        let appended = self.old.filter(|_| self.appends);
        let order = appended.map_or(self.options.order, Manifest::order);
        let inputs = input_places(parts);
        let layout = job.layout_on(&inputs, &OutputPlaces::Scratch, places.drives);
        Ok(ViewSize {
            job: JobSize::of(job, data_bytes, layout),
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

    /// Publishes runs and manifest, if the view has not changed.
    fn publish(&self, job: &Job, level: Level) -> Result<()> {
        let now = Manifest::look(job, self.dir)?;
        let is_same = match (&now, self.old) {
            (Some(now), Some(old)) => now.names_runs_of(old),
            (None, None) => true,
            _ => false,
        };
        if !is_same {
            return Err(
                Error::usage("build view", "another job changed the view in the meantime")
                    .path(self.dir.join(NAME))
                    .hint("run the command again"),
            );
        }
        match (self.appends, self.old) {
            (true, Some(old)) => level.publish(self.dir, &old.runs, None),
            (_, old) => {
                // A copy's manifest names no runs of the original.
                let old = old.filter(|old| old.owns_runs(self.dir));
                level.publish(self.dir, &[], old.map(Manifest::to_replaced))
            }
        }
    }
}

/// Finds the longest of the lines; `None` for records.
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

/// Fails if the text before lines, or the description of rows, is too long for a manifest.
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

/// Merges groups of runs of one level into the runs of the next.
fn merge_level(job: &Job, level: Level, next: Level, group: usize) -> Result<Level> {
    merge_groups(job, &level, &next, group)?;
    level.close();
    Ok(next)
}
