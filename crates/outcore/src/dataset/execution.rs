//! A dataset on its way through its steps.
//!
//! Contract: an [`Execution`] is the input of the next pass: files and, for records, a table with
//! the steps that fuse into it. A step that needs all items becomes its *ending*, which runs when
//! the destination of its result is known. If it is the last step, it writes to the output of the
//! consumer; otherwise to a file in a private directory that the next pass reads. Scratch is
//! removed when the execution is dropped, or, after a kill, when the directory is swept. With
//! [`Mode::Types`] nothing runs: only types and names go through the steps. With [`Mode::Plans`]
//! the first step that needs all items is also planned.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::resources::ResourceProvider;
use super::scratch::{PassOutput, Scratch};
use super::step::{ItemType, Step, late_is_last};
use super::{Dataset, Items, Records};
use crate::ends::{Input, Output, input_places, open_inputs};
use crate::job::{Job, JobSize, Layout, OutputPlaces, held_by_inputs};
use crate::key::RecordFormat;
use crate::key::expr::Schema;
use crate::primitives::Summary;
use crate::primitives::batch::{SOURCES_MAX, Yield};
use crate::primitives::group::group;
use crate::primitives::producer::Producer;
use crate::primitives::rearrange::{merge, reverse_items, shifted};
use crate::primitives::sorted::{can_sort_made, most_bytes_of, sort_made};
use crate::primitives::sources::data_bytes_of;
use crate::primitives::tables::scan_table;
use crate::primitives::write::produce;
use crate::primitives::{Grouping, Table, plan_merge_of_lines};
use crate::shuffle::{ShuffleOptions, ShufflePlan, ShuffleSize, Unit, plan_shuffle, shuffle};
use crate::sort::lines::{LineSortOptions, merge_lines, sort_lines};
use crate::sort::plan::SortPlan;
use crate::sort::{self, SortOptions, sort};
use outcore_io::drive::Access;
use outcore_io::memory::Budget;
use outcore_io::output::parent_of;
use outcore_io::port::Volume;
use outcore_io::{Error, Result, units};

/// Whether steps that need all items run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Only computes types.
    Types,
    /// Computes types, and the plan of the first step that needs all items.
    Plans,
    /// Runs the steps.
    Run,
}

/// See the module.
pub struct Execution {
    pub(super) resources: Arc<dyn ResourceProvider>,
    pub(super) mode: Mode,
    pub(super) items: Items,
    pub(super) ending: Option<Step>,
    steps: VecDeque<Step>,
    /// The directory of the result, if it is written.
    beside: PathBuf,
    scratch: Scratch,
    /// Descriptions of the passes of earlier endings.
    pub(super) passes: Vec<String>,
    /// Summary of the earlier passes.
    done_before: Summary,
}

impl Dataset {
    /// Starts the execution; takes no step yet.
    pub fn execute(self, resources: Arc<dyn ResourceProvider>, mode: Mode) -> Execution {
        Execution {
            resources,
            mode,
            items: self.items,
            ending: None,
            steps: self.steps.into(),
            beside: PathBuf::from("."),
            scratch: Scratch::default(),
            passes: Vec::new(),
            done_before: Summary::default(),
        }
    }
}

impl Execution {
    /// Replaces the resources; call it before anything is written.
    pub fn set_resources(&mut self, resources: Arc<dyn ResourceProvider>) {
        self.resources = resources;
    }

    /// Puts scratch in `dir`, the directory of the output, if the user names no drives; default:
    /// the current directory.
    pub fn set_beside(&mut self, dir: PathBuf) {
        self.beside = dir;
    }

    /// Whether the items are lines.
    pub fn is_of_lines(&self) -> bool {
        matches!(self.items, Items::Lines { .. })
    }

    /// Takes all steps. If the last one needs all items, it does not run yet.
    ///
    /// # Errors
    /// Steps that cannot follow one another; the errors of all steps before the last.
    pub fn take_steps(&mut self) -> Result<()> {
        while let Some(step) = self.steps.pop_front() {
            if matches!(self.ending, Some(Step::Late(_))) {
                return Err(late_is_last());
            }
            self.settle()?;
            self.take(step)?;
        }
        Ok(())
    }

    /// Takes all steps, including the last one that needs all items.
    ///
    /// # Errors
    /// The errors of [`Execution::take_steps`].
    pub fn take_all_steps(&mut self) -> Result<()> {
        self.take_steps()?;
        self.settle()
    }

    /// Takes one step.
    fn take(&mut self, step: Step) -> Result<()> {
        let records = match &mut self.items {
            Items::Lines { terminator, .. } => {
                self.ending = Some(step.of_lines(*terminator)?);
                return Ok(());
            }
            Items::Records(records) => records,
        };
        match step {
            Step::Filter(condition) => {
                records.table = records.table.filter(&condition)?;
                records.is_refined = true;
            }
            Step::Map(expression) => {
                records.table = records.table.map(&expression)?;
                (records.header, records.is_refined) = (None, true);
            }
            Step::Call { step, made, yields } => {
                let schema = made.schema();
                records.table = records.table.own(step, &made.format, schema, yields)?;
                (records.header, records.is_refined) = (made.header, true);
            }
            Step::FlatMap(expressions) => {
                records.table = records.table.flat_map(&expressions)?;
                (records.header, records.is_refined) = (None, true);
            }
            Step::Enumerate { made } => {
                if !records.table.schema().has_index {
                    self.refine_now()?;
                }
                let records = self.records_mut()?;
                records.table = records.table.enumerate(&made.format, made.schema())?;
                (records.header, records.is_refined) = (made.header, true);
            }
            Step::Windows(count) => self.take_windows(count)?,
            Step::Merge { .. } if records.is_refined => {
                let cause = "files must be merged before any other step";
                return Err(Error::usage("merge", cause).hint("merge first, then filter or map"));
            }
            step => self.ending = Some(step.of_records(&records.item())?),
        }
        Ok(())
    }

    /// Windows are the same files in parallel, each shifted by one record; shared blocks are read
    /// once.
    fn take_windows(&mut self, count: usize) -> Result<()> {
        if !(2..=SOURCES_MAX).contains(&count) {
            let cause = format!("windows of {}", units::counted(count as u64, "record"));
            return Err(Error::usage("windows", cause).hint("give a length from 2 to 8"));
        }
        self.refine_now()?;
        let (job, mode) = (self.job()?, self.mode);
        let records = self.records_mut()?;
        let item = records.item();
        let record_bytes = item.format.record_bytes();
        let shifted = match mode {
            // The results of earlier passes do not exist in this mode.
            Mode::Types | Mode::Plans if records.files.is_empty() => vec![Vec::new(); count],
            Mode::Types => vec![records.files.clone(); count],
            Mode::Plans | Mode::Run => shifted(&job, &records.files, record_bytes, count)?,
        };
        let tables = shifted.iter().map(|files| item.table(files));
        let tables: Vec<Table> = tables.collect();
        records.table = Table::zip(&tables)?;
        (records.header, records.is_refined) = (None, true);
        Ok(())
    }

    fn records_mut(&mut self) -> Result<&mut Records> {
        match &mut self.items {
            Items::Records(records) => Ok(records),
            Items::Lines { .. } => Err(Error::usage(
                "take step",
                "this step is for records, but the dataset has lines",
            )),
        }
    }

    /// Writes the table's items to files, which become the input; if nothing runs, only changes the
    /// input's type.
    fn refine_now(&mut self) -> Result<()> {
        if self.mode == Mode::Run {
            return self.refine_files();
        }
        let text = Producer::steps(self.table()?);
        let records = self.records_mut()?;
        if !records.is_refined {
            return Ok(());
        }
        let format = records.table.format().clone();
        records.files.clear();
        records.read(&format, None);
        self.passes.push(text);
        Ok(())
    }

    /// Adds a step and takes it.
    ///
    /// # Errors
    /// The errors of [`Execution::take_steps`].
    pub fn then(&mut self, step: Step) -> Result<()> {
        self.steps.push_back(step);
        self.take_steps()
    }

    /// Runs the ending, with its result on scratch.
    pub(super) fn settle(&mut self) -> Result<()> {
        let Some(ending) = self.ending.take() else {
            return Ok(());
        };
        let text = match self.mode {
            Mode::Plans => self.plan_of(&ending)?,
            Mode::Types | Mode::Run => self.text_of(&ending),
        };
        self.passes.push(text);
        if self.mode == Mode::Run {
            let is_sharded = ending.can_be_sharded() && !self.is_of_lines();
            let place = self.scratch_place(is_sharded)?;
            let done = self.end(&ending, place.output(), false)?;
            self.turn_to(&place, done)?;
        }
        if let Items::Records(records) = &mut self.items {
            records.become_made(&ending)?;
        }
        Ok(())
    }

    /// The current records, or an error if the items are lines.
    pub(super) fn records(&self) -> Result<&Records> {
        match &self.items {
            Items::Records(records) => Ok(records),
            Items::Lines { .. } => Err(Error::usage(
                "read dataset",
                "the dataset has lines, not records",
            )
            .hint("open it with a dtype")),
        }
    }

    /// The table of the next pass, with all steps before it taken.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`] for lines.
    pub fn table(&self) -> Result<&Table> {
        Ok(&self.records()?.table)
    }

    /// The current type of the records; an error for lines.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`] for lines.
    pub fn item(&self) -> Result<ItemType> {
        Ok(self.records()?.item())
    }

    /// The type of the items that [`Execution::write`] writes; `None` for lines.
    ///
    /// # Errors
    /// Prefix sums of items that are not numbers.
    pub fn written(&self) -> Result<Option<ItemType>> {
        let Items::Records(records) = &self.items else {
            return Ok(None);
        };
        Ok(Some(match &self.ending {
            Some(Step::Count { counted: Some(it) }) => it.clone(),
            Some(Step::Scan(..)) => {
                ItemType::from(records.table.plain_numbers()?.0.format().clone())
            }
            _ => records.item(),
        }))
    }

    /// A job for a pass.
    ///
    /// # Errors
    /// Drives that cannot be used.
    pub fn job(&self) -> Result<Job> {
        let here = Path::new(".");
        let files = self.files();
        let first = files.first().map(|file| parent_of(&file.path));
        let mut job = match (self.beside == here, first) {
            (true, Some(dir)) => self.resources.job(dir),
            _ => self.resources.job(&self.beside),
        }?;
        let memory_bytes = job.options.memory_bytes;
        let held_bytes = held_by_inputs(memory_bytes, files.len())?;
        if held_bytes > job.budget.used_bytes() {
            job.budget = Budget::holding(memory_bytes, held_bytes);
        }
        Ok(job)
    }

    /// The current files: the input of gathers and of readers of lines.
    pub fn files(&self) -> Vec<Input> {
        match &self.items {
            Items::Records(records) => records.files.clone(),
            Items::Lines { source, .. } => source.files(),
        }
    }

    /// The sum of the earlier passes and `last`.
    pub(super) fn done(&mut self, last: Summary) -> Summary {
        std::mem::take(&mut self.done_before).and(last)
    }

    /// Summary of the passes so far.
    pub fn so_far(&self) -> &Summary {
        &self.done_before
    }

    /// Whether a step that needs all items is left to run.
    pub fn has_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// Writes all items to `output`.
    ///
    /// # Errors
    /// The errors of reading, of the last step and of writing; no output remains then.
    pub fn write(&mut self, output: Output, replace: bool) -> Result<Summary> {
        let last = match (self.ending.take(), &self.items) {
            (Some(ending), _) => self.end(&ending, output, replace)?,
            (None, Items::Records(records)) => {
                produce(&self.job()?, &records.table, &output, replace)?
            }
            (None, Items::Lines { .. }) => self.copy_lines(&output, replace)?,
        };
        Ok(self.done(last))
    }

    /// Runs a step that needs all items.
    fn end(&mut self, ending: &Step, output: Output, replace: bool) -> Result<Summary> {
        if ending.reads_files() && !self.sorts_made(ending) {
            self.refine_files()?;
        }
        if matches!(ending, Step::Scan(..)) {
            self.refine_many()?;
        }
        match ending {
            Step::Sort { by, options } => {
                let format = match by {
                    Some(by) => by.format.clone(),
                    None => self.records()?.table.format().clone(),
                };
                let options = SortOptions {
                    replace,
                    ..*options
                };
                let (job, _) = self.settle_sort(Some(&output), &format, options)?;
                match self.sorts_made(ending) {
                    true => sort_made(&job, &self.records()?.table, &output, &format, options),
                    false => sort(&job, &self.files(), output, &format, options),
                }
                .map(Summary::from)
            }
            Step::Merge { by, options } => {
                let format = match by {
                    Some(by) => by.format.clone(),
                    None => self.records()?.table.format().clone(),
                };
                let options = SortOptions {
                    replace,
                    ..*options
                };
                merge(&self.job()?, &self.files(), &format, options, &output)
            }
            Step::Reverse => {
                let table = &self.records()?.table;
                reverse_items(&self.job()?, table, &output, replace)
            }
            Step::Shuffle { seed, epoch } => {
                let unit = self.unit();
                let (job, _) = self.settle_shuffle(Some(&output), unit)?;
                let options = ShuffleOptions {
                    unit,
                    seed: *seed,
                    epoch: *epoch,
                    replace,
                };
                let done = shuffle(&self.scratch_left(job), &self.files(), output, options);
                done.map(Summary::from)
                    .map_err(|error| self.explain_error(error))
            }
            Step::SortLines {
                order,
                options,
                merges,
            } => {
                let mut job = self.job()?;
                let data_bytes = data_bytes_of(&job, &self.files(), 1)?;
                job.options.drives = self.resources.scratch_drives(data_bytes, &self.beside)?;
                let options = LineSortOptions {
                    replace,
                    ..*options
                };
                let put_in_order = match merges {
                    true => merge_lines,
                    false => sort_lines,
                };
                let job = self.scratch_left(job);
                let plan = || plan_merge_of_lines(&job, &self.files(), options.unique);
                let plan = merges.then(plan).transpose()?;
                let done = put_in_order(&job, &self.files(), output, order.as_ref(), options);
                done.map(Summary::from)
                    .map(|done| match &plan {
                        Some(plan) => done.beside(&plan.phases),
                        None => done,
                    })
                    .map_err(|error| self.explain_error(error))
            }
            Step::Unique | Step::Count { .. } => {
                let table = &self.records()?.table;
                let (job, how) = (self.job()?, grouping(ending));
                let done = group(&job, table, table.format(), how, &output, replace)?;
                Ok(done.pass)
            }
            Step::Scan(op, inclusion) => {
                let table = &self.records()?.table;
                scan_table(&self.job()?, table, *op, *inclusion, &output, replace)
            }
            Step::Late(_) => Err(late_is_last()),
            Step::Filter(_)
            | Step::Map(_)
            | Step::FlatMap(_)
            | Step::Enumerate { .. }
            | Step::Windows(_)
            | Step::Call { .. } => Err(Error::usage(
                "take step",
                "this step takes one item at a time",
            )),
        }
    }

    /// Whether a step can sort the items of the previous pass directly, without a file in between.
    fn sorts_made(&self, ending: &Step) -> bool {
        match (ending, &self.items) {
            (Step::Sort { options, .. }, Items::Records(records)) => {
                records.is_refined && can_sort_made(&records.table, *options)
            }
            _ => false,
        }
    }

    /// Job and plan of a sort to `output`.
    pub(super) fn settle_sort(
        &self,
        output: Option<&Output>,
        format: &RecordFormat,
        options: SortOptions,
    ) -> Result<(Job, SortPlan)> {
        let mut job = self.job()?;
        let is_made = matches!(&self.items, Items::Records(records) if records.is_refined);
        let data_bytes = match is_made {
            true => most_bytes_of(&job, &self.records()?.table)?,
            false => data_bytes_of(&job, &self.files(), format.record_bytes())?,
        };
        if !options.unique && !is_made {
            // For other outputs the length is unknown in advance.
            self.resources.check_room(files_of(output), data_bytes)?;
        }
        let beside = dir_of(output);
        let layout = self.layout(&job, output)?;
        let plan = sort::plan(&job, data_bytes, format, options, layout)?;
        job.options.drives = self.resources.scratch_drives(plan.scratch_bytes, &beside)?;
        Ok((job, plan))
    }

    /// Job and plan of a shuffle to `output`.
    pub(super) fn settle_shuffle(
        &self,
        output: Option<&Output>,
        unit: Unit,
    ) -> Result<(Job, ShufflePlan)> {
        let mut job = self.job()?;
        let record_bytes = match unit {
            Unit::Records { record_bytes } => Some(record_bytes),
            Unit::Lines { .. } => None,
        };
        let data_bytes = data_bytes_of(&job, &self.files(), record_bytes.unwrap_or(1))?;
        self.resources.check_room(files_of(output), data_bytes)?;
        let layout = self.layout(&job, output)?;
        let plan = plan_shuffle(ShuffleSize {
            job: JobSize::of(&job, data_bytes, layout.of_spreadable_output(true)),
            record_bytes,
            longest_bytes: None,
        })?;
        job.options.drives = self
            .resources
            .scratch_drives(plan.scratch_bytes, &dir_of(output))?;
        Ok((job, plan))
    }

    /// The layout of a job that reads the files.
    fn layout(&self, job: &Job, output: Option<&Output>) -> Result<Layout> {
        let volume = Volume::new(Arc::clone(&job.device), &[])?;
        let parts = open_inputs(&volume, &self.files(), 1, Access::Read)?;
        let outputs = output.map_or(OutputPlaces::Unknown, Output::places);
        Ok(job.layout(&input_places(&parts), &outputs))
    }

    /// Writes the table's items to files, for consumers that read only files.
    ///
    /// # Errors
    /// The errors of the pass.
    pub fn refine_files(&mut self) -> Result<()> {
        let Items::Records(records) = &self.items else {
            return self.unpack_files();
        };
        if !records.is_refined {
            return Ok(());
        }
        let place = self.scratch_place(true)?;
        let table = &self.records()?.table;
        let done = produce(&self.job()?, table, &place.output(), false)?;
        self.turn_to(&place, done)?;
        if let Items::Records(records) = &mut self.items {
            let format = records.table.format().clone();
            records.read(&format, None);
        }
        Ok(())
    }

    /// Like `refine_files`, but only if a step may make several items per position. Used by
    /// consumers that need the number of items.
    pub(super) fn refine_many(&mut self) -> Result<()> {
        match &self.items {
            Items::Records(records) if records.table.yields() == Yield::Any => self.refine_files(),
            _ => Ok(()),
        }
    }

    /// Makes `place` the input of the next passes.
    fn turn_to(&mut self, place: &PassOutput, done: Summary) -> Result<()> {
        match &mut self.items {
            Items::Lines { source, .. } => source.replace(&place.paths)?,
            Items::Records(records) => {
                records.files = place.files();
            }
        }
        self.done_before = self.done(done);
        Ok(())
    }

    /// A new place on scratch: one file, or one shard per drive.
    fn scratch_place(&mut self, is_sharded: bool) -> Result<PassOutput> {
        let resources = Arc::clone(&self.resources);
        self.scratch
            .place(resources.as_ref(), &self.beside, is_sharded)
    }

    /// Unpacked files count as scratch.
    fn scratch_left(&self, mut job: Job) -> Job {
        if let Items::Lines { source, .. } = &self.items {
            let limit_bytes = &mut job.options.scratch_limit_bytes;
            *limit_bytes = limit_bytes.saturating_sub(source.scratch_bytes());
        }
        job
    }

    /// The unit of the shuffle.
    pub(super) fn unit(&self) -> Unit {
        match &self.items {
            Items::Records(records) => Unit::Records {
                record_bytes: records.table.format().record_bytes(),
            },
            Items::Lines { terminator, .. } => Unit::Lines {
                terminator: *terminator,
                drops_blanks: false,
            },
        }
    }

    pub(super) fn beside(&self) -> &Path {
        &self.beside
    }
}

/// The files that are written.
fn files_of(output: Option<&Output>) -> &[PathBuf] {
    match output {
        Some(Output::File { path, .. }) => std::slice::from_ref(path),
        Some(Output::Shards { paths, .. }) => paths,
        Some(Output::Pipe(_)) | None => &[],
    }
}

/// The directory of the first file; the current one for a pipe.
fn dir_of(output: Option<&Output>) -> PathBuf {
    match files_of(output).first() {
        Some(path) => parent_of(path).to_path_buf(),
        None => PathBuf::from("."),
    }
}

/// The result type of a step that groups.
pub(super) fn grouping(ending: &Step) -> Grouping {
    match ending {
        Step::Unique => Grouping::Unique,
        _ => Grouping::Counted,
    }
}

impl Records {
    /// Sets the current input: files of `format`, with the names of `header`.
    fn read(&mut self, format: &RecordFormat, header: Option<crate::key::NpyHeader>) {
        let schema = self.table.schema();
        let schema = match (&header, schema.record_bytes.len()) {
            (Some(header), _) => Schema::of_npy(header, format),
            // The names stay unless several files contributed them.
            (None, 1) if self.table.format() == format => Schema {
                has_index: true,
                ..schema.clone()
            },
            (None, _) => Schema::of_format(format),
        };
        self.table = Table::read(&self.files, format, schema);
        self.header = header.or(self.header.take());
        self.is_refined = false;
    }

    /// Sets the item type after `ending`.
    fn become_made(&mut self, ending: &Step) -> Result<()> {
        let (format, header) = match ending {
            Step::Count { counted: Some(it) } => {
                self.header = None;
                (it.format.clone(), it.header.clone())
            }
            Step::Scan(..) => {
                self.header = None;
                (self.table.plain_numbers()?.0.format().clone(), None)
            }
            _ => (self.table.format().clone(), None),
        };
        self.read(&format, header);
        Ok(())
    }

    /// The type of the records, with the header that their files would have.
    pub(super) fn item(&self) -> ItemType {
        ItemType {
            format: self.table.format().clone(),
            header: self.header.clone(),
        }
    }
}
