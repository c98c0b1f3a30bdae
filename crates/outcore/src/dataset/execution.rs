//! A dataset on its way through its steps.
//!
//! Contract: an [`Execution`] is what the next pass reads: files and, of records, a table with the
//! steps that fuse into it. A step that needs all items becomes its *ending*: it is run when it is
//! known where its result goes, to the output of the consumer where it is the last step, else to a
//! file in a private directory that the next pass reads. Scratch is gone when the execution is
//! dropped, or the process killed and the directory swept. With [`Mode::Types`] nothing is run:
//! types and names alone go through the steps; with [`Mode::Plans`] the first step that needs all
//! items is planned.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::resources::ResourceProvider;
use super::scratch::{PassOutput, Scratch};
use super::step::{ItemType, Step, late_is_last};
use super::{Dataset, Items, Records};
use crate::ends::{Input, Output};
use crate::job::{Job, JobSize, held_by_inputs};
use crate::key::RecordFormat;
use crate::key::expr::Schema;
use crate::primitives::Summary;
use crate::primitives::batch::{SOURCES_MAX, Yield};
use crate::primitives::group::group;
use crate::primitives::producer::Producer;
use crate::primitives::sorted::{can_sort_made, most_bytes_of, sort_made};
use crate::primitives::sources::data_bytes_of;
use crate::primitives::tables::scan_table;
use crate::primitives::turned::{merge, reverse_items, shifted};
use crate::primitives::write::produce;
use crate::primitives::{Grouping, Table, plan_merge_of_lines};
use crate::shuffle::{ShuffleOptions, ShufflePlan, ShuffleSize, Unit, plan_shuffle, shuffle};
use crate::sort::lines::{LineSortOptions, merge_lines, sort_lines};
use crate::sort::plan::SortPlan;
use crate::sort::{self, SortOptions, sort};
use outcore_io::memory::Budget;
use outcore_io::output::parent_of;
use outcore_io::{Error, Result, units};

/// Whether steps that need all items are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Only their types are wanted.
    Types,
    /// Their types, and how the first of them would be done.
    Plans,
    /// They are run.
    Run,
}

/// See the module.
pub struct Execution {
    pub(super) resources: Arc<dyn ResourceProvider>,
    pub(super) mode: Mode,
    pub(super) items: Items,
    pub(super) ending: Option<Step>,
    steps: VecDeque<Step>,
    /// Where the result goes, if it is written.
    beside: PathBuf,
    scratch: Scratch,
    /// The passes of earlier endings, for people.
    pub(super) passes: Vec<String>,
    /// What earlier passes did.
    done_before: Summary,
}

impl Dataset {
    /// Begins to run; no step is taken yet.
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
    /// Other resources, before anything is written.
    pub fn set_resources(&mut self, resources: Arc<dyn ResourceProvider>) {
        self.resources = resources;
    }

    /// Scratch goes beside what is written to `dir` where no drives are named; the current
    /// directory otherwise.
    pub fn set_beside(&mut self, dir: PathBuf) {
        self.beside = dir;
    }

    /// Whether the items are lines.
    pub fn is_of_lines(&self) -> bool {
        matches!(self.items, Items::Lines { .. })
    }

    /// Takes all steps; a last one that needs all items is left to do.
    ///
    /// # Errors
    /// Steps that cannot follow one another; what those before the last fail with.
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

    /// Takes all steps, those that need all items too.
    ///
    /// # Errors
    /// As [`Execution::take_steps`].
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
                let cause = "files are merged as they are, before any other step";
                return Err(Error::usage("merge", cause).hint("merge first, then filter or map"));
            }
            step => self.ending = Some(step.of_records(&records.item())?),
        }
        Ok(())
    }

    /// Windows are the same files side by side, each shifted by a record; what they share is read
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
            // What earlier passes make is not there.
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
                "this step is for records, and the dataset has lines",
            )),
        }
    }

    /// Makes the files hold what the table holds, or, where nothing is run, says that they would.
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
    /// As [`Execution::take_steps`].
    pub fn then(&mut self, step: Step) -> Result<()> {
        self.steps.push_back(step);
        self.take_steps()
    }

    /// Does what is left to do, into scratch.
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

    /// Records as they are now, or an error that says that they are lines.
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

    /// What records are now; an error for lines.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`] for lines.
    pub fn item(&self) -> Result<ItemType> {
        Ok(self.records()?.item())
    }

    /// What [`Execution::write`] writes; nothing of lines.
    ///
    /// # Errors
    /// Prefix sums of what are not numbers.
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

    /// The files as they are now: what gathers and readers of lines read.
    pub fn files(&self) -> Vec<Input> {
        match &self.items {
            Items::Records(records) => records.files.clone(),
            Items::Lines { source, .. } => source.files(),
        }
    }

    /// What earlier passes and `last` did together.
    pub(super) fn done(&mut self, last: Summary) -> Summary {
        std::mem::take(&mut self.done_before).and(last)
    }

    /// What the passes so far did.
    pub fn so_far(&self) -> &Summary {
        &self.done_before
    }

    /// Whether a step is left to do that needs all items.
    pub fn has_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// Writes all items to `output`.
    ///
    /// # Errors
    /// What reading, the last step and writing fail with; nothing is left behind.
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

    /// Runs what needs all items.
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

    /// Whether a step is a sort of what the pass before it makes, with no file between the two.
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
            // How much is left of others is not known in advance.
            self.resources.check_room(files_of(output), data_bytes)?;
        }
        let beside = dir_of(output);
        let drive_count = self.count_drives(&job, output);
        let plan = sort::plan(&job, data_bytes, format, options, drive_count)?;
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
        let plan = plan_shuffle(ShuffleSize {
            job: JobSize::of(&job, data_bytes, self.count_drives(&job, output)),
            record_bytes,
            longest_bytes: None,
        })?;
        job.options.drives = self
            .resources
            .scratch_drives(plan.scratch_bytes, &dir_of(output))?;
        Ok((job, plan))
    }

    /// As the engine counts them: each named drive, then each further file system.
    fn count_drives(&self, job: &Job, output: Option<&Output>) -> usize {
        let file_system = |path: &Path| job.device.file_system(path).ok();
        let drives = &job.options.drives;
        let scratch: Vec<PathBuf> = match drives.is_empty() {
            true => vec![dir_of(output)],
            false => drives.iter().map(|drive| drive.dir.clone()).collect(),
        };
        let mut seen: Vec<u64> = scratch.iter().filter_map(|dir| file_system(dir)).collect();
        let mut count = scratch.len();
        let inputs = self.files().into_iter().map(|file| file.path);
        let outputs = files_of(output)
            .iter()
            .map(|path| parent_of(path).to_path_buf());
        for found in inputs.chain(outputs).filter_map(|path| file_system(&path)) {
            if !seen.contains(&found) {
                seen.push(found);
                count += 1;
            }
        }
        count
    }

    /// Makes the files hold what the table holds, for what reads files alone.
    ///
    /// # Errors
    /// What the pass fails with.
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

    /// The same where a position may have become many items, for what needs to know how many there
    /// are.
    pub(super) fn refine_many(&mut self) -> Result<()> {
        match &self.items {
            Items::Records(records) if records.table.yields() == Yield::Any => self.refine_files(),
            _ => Ok(()),
        }
    }

    /// The next passes read what was written to `place`.
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

    /// A new place on scratch: a file, or a shard on each drive.
    fn scratch_place(&mut self, is_sharded: bool) -> Result<PassOutput> {
        let resources = Arc::clone(&self.resources);
        self.scratch
            .place(resources.as_ref(), &self.beside, is_sharded)
    }

    /// What was unpacked counts as scratch.
    fn scratch_left(&self, mut job: Job) -> Job {
        if let Items::Lines { source, .. } = &self.items {
            let limit_bytes = &mut job.options.scratch_limit_bytes;
            *limit_bytes = limit_bytes.saturating_sub(source.scratch_bytes());
        }
        job
    }

    /// What is shuffled.
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

/// What comes out of a step that groups.
pub(super) fn grouping(ending: &Step) -> Grouping {
    match ending {
        Step::Unique => Grouping::Unique,
        _ => Grouping::Counted,
    }
}

impl Records {
    /// What is read now: files of `format`, with the names of `header`.
    fn read(&mut self, format: &RecordFormat, header: Option<crate::key::NpyHeader>) {
        let schema = self.table.schema();
        let schema = match (&header, schema.record_bytes.len()) {
            (Some(header), _) => Schema::of_npy(header, format),
            // The same names, unless they were those of several files.
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

    /// What is read after `ending`.
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

    /// What they are, with the header that their files would have.
    pub(super) fn item(&self) -> ItemType {
        ItemType {
            format: self.table.format().clone(),
            header: self.header.clone(),
        }
    }
}
