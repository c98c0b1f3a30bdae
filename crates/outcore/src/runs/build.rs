//! Building a view: sorted runs, each written once.
//!
//! Contract: the input is cut into runs of consecutive records that fill an area of memory each. A
//! thread reads a run, sorts it where it lies, adds its index and writes it from there, while
//! other areas are being filled from each drive and written to each (lines, which cannot change places, are put in
//! order in small buffers as they are written); the runs are spread over the drives by weight. Where a
//! reader could not merge so many, they are merged in groups first ([`super::plan`]). All is staged
//! in private directories; the view appears with its manifest, after everything is durable, and a job that
//! is killed leaves the view as it was, or whole, or to be finished by who comes next. What is
//! in memory at the end can stay there for a first read ([`BuildOptions::keeps_runs`]).
//!
//! Bounds: memory as planned; one read and one write of the data, plus 24 bytes a block, and one more
//! of each for a merge beforehand.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::SortedView;
use super::level::{Generation, Level, Places, now_seed};
use super::manifest::{self, Manifest, NAME};
use super::output::merge_groups;
use super::plan::{LineLengths, ViewPlan, ViewSize, plan_in_blocks, plan_view};
use super::planned::{by_turns, cut_runs};
use super::shape::Shape;
use super::sort_lines::{RunSizes, cut_lines};
use super::sorting::sort_runs;
use super::types::{BuildOptions, FRONT_BYTES_MAX, LineOrders, ViewType, own_orders};
use crate::ends::{Input, Phase, Phases};
use crate::ends::{check_unchanged, open_inputs, traffic_by_drive};
use crate::job::{Job, JobSize, ScratchDrive};
use crate::key::sort_key::SharedKey;
use crate::read::sample::random;
use crate::read::source::InputPart;
use crate::sort::lines::sample_lengths;
use outcore_io::drive::Access;
use outcore_io::memory::Buf;
use outcore_io::port::Volume;
use outcore_io::{Error, Result};

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

/// Builds a view of `inputs`, in the given order, in `dir`, which must be there, and opens it. What the
/// inputs hold is a [`ViewType`], or a reference to the format of records. Runs are spread over the drives of the job, or lie in `dir` if there are none.
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
        inputs,
        dir,
        options,
        old: old.as_ref(),
        appends: false,
    };
    let built = request.run(job, &what, None)?;
    if let Some(old) = &old {
        manifest::remove_runs(job, dir, &old.to_replaced(), old.owns_runs(dir));
    }
    finish(job, dir, built, &orders_of(&what))
}

/// The orders to open what was just built: its own.
fn orders_of(what: &ViewType) -> impl Fn(&str) -> Result<SharedKey> {
    let what = what.clone();
    move |name: &str| match &what {
        ViewType::Lines(lines) if lines.order_name == name => Ok(Arc::clone(&lines.order)),
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
    let request = Request {
        inputs,
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
    let mut view = SortedView::open_with(job, dir, orders)?;
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

/// What is to be built.
struct Request<'a> {
    inputs: &'a [Input],
    dir: &'a Path,
    options: BuildOptions,
    /// The view that is there.
    old: Option<&'a Manifest>,
    /// Whether its runs stay.
    appends: bool,
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
        let parts = open_inputs(&volume, self.inputs, what.unit_bytes(), Access::Read)?;
        let size = self.size(job, &volume, &parts, what)?;
        let data_bytes = size.data_bytes;
        let mut plan = match &shape {
            Some(shape) => plan_in_blocks(size, shape.block_units)?,
            None => plan_view(size)?,
        };
        let shape = match shape {
            Some(shape) => shape,
            None => Shape::new(
                what,
                self.options.order,
                plan.block_records,
                random(now_seed() ^ job.options.seed, data_bytes),
            ),
        };
        let cuts = match shape.lines() {
            None => cut_runs(&parts, plan.run_records, shape.unit_bytes as u64),
            Some(rule) => {
                let sizes = RunSizes {
                    run_bytes: plan.run_records,
                    line_bytes_max: plan.line_bytes_max(),
                };
                cut_lines(job, &volume, &parts, sizes, rule.terminator)?
            }
        };
        plan.set_runs(cuts.len() as u64)?;
        job.control.show_plan(&plan);
        let places = Places {
            volume: &volume,
            drives: &drives,
            dir: self.dir,
        };
        let is_last = plan.merges.is_empty();
        let counts: Vec<u64> = cuts.iter().map(|cut| cut.units).collect();
        let first_number = self.first_number();
        let generation = |is_last: bool| match is_last {
            true => Generation::Last {
                replace: self.options.replace,
            },
            false => Generation::Passing,
        };
        let staged = (first_number, generation(is_last));
        let mut level = Level::stage(&places, &shape, (&counts, by_turns(&cuts, &parts)), staged)?;
        job.control.begin_phase("sort runs", data_bytes);
        let keeps = size.keeps_runs && is_last;
        let kept = sort_runs(job, &volume, &parts, &cuts, &plan, (&mut level, keeps))?;
        check_unchanged(&volume, &parts, false)?;
        phases.end("sort runs", &volume);
        for (pass, &group) in plan.merges.iter().enumerate() {
            let is_last = pass + 1 == plan.merges.len();
            let counts: Vec<u64> = level
                .runs
                .chunks(group as usize)
                .map(|runs| runs.iter().map(|run| run.units).sum())
                .collect();
            let staged = (first_number, generation(is_last));
            let next = Level::stage(&places, &shape, (&counts, 0..counts.len()), staged)?;
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

    /// What the plan has to know.
    fn size(
        &self,
        job: &Job,
        volume: &Volume,
        parts: &[InputPart],
        what: &ViewType,
    ) -> Result<ViewSize> {
        let lines = match what {
            ViewType::Records(_) => None,
            ViewType::Lines(lines) => Some(LineLengths::of(&sample_lengths(
                job,
                volume,
                parts,
                &*lines.order,
                lines.terminator,
            )?)),
        };
        let data_bytes = parts.iter().map(|part| part.data_len_bytes).sum();
        Ok(ViewSize {
            job: JobSize::of(job, data_bytes, volume.drives().len()),
            record_bytes: what.unit_bytes(),
            is_scalar: what
                .records()
                .is_some_and(|format| format.scalar().is_some()),
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

/// Fails for more bytes in front of lines than a manifest takes.
fn check_front(what: &ViewType) -> Result<()> {
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
