//! A dataset on its way through its steps.
//!
//! Contract: a [`Stage`] is what the next pass reads: files and, of records, a table with the steps
//! that fuse into it. A step that needs all items becomes its *ending*: it is run when it is known
//! where its result goes, to the output of the consumer where it is the last step, else to a file in
//! a private directory that the next stage reads. Scratch is gone when the stage is dropped, or the
//! process killed and the directory swept. Without drives it lies beside the output, or in the current
//! directory where nothing is written. With [`Mode::Types`] nothing is run: types and names alone
//! go through the steps; with [`Mode::Plans`] the first step that needs all items is planned.

mod lines;

use std::path::PathBuf;
use std::sync::Arc;

use outcore::algo::lines::{LineSortOptions, merge_lines, plan_lines, sample_lines, sort_lines};
use outcore::algo::sequence::group::{group, plan_group};
use outcore::algo::sequence::producer::Producer;
use outcore::algo::sequence::tables::scan_table;
use outcore::algo::sequence::write::produce;
use outcore::algo::sequence::{Grouping, PassSummary, Table, plan_scan};
use outcore::algo::shuffle::{ShuffleOptions, Unit, shuffle};
use outcore::algo::sort::{SortInput, SortOptions, SortOutput, sort};
use outcore::data::expr::Schema;
use outcore::data::{NpyHeader, RecordFormat};
use outcore::drive::PrivateDir;
use outcore::job::Job;
use outcore::{Error, Result};
use outcore_formats::content::Recognition;
use outcore_formats::inputs::{self, Input, Streams};
use outcore_formats::job::{settle_shuffle, settle_sort};
use outcore_formats::means::{Means, default_scratch_dir};
use outcore_formats::output::Target;
use outcore_formats::records::{self, Decided};
use outcore_formats::spool::Spool;
use outcore_formats::staging::Reads;

use super::ending::{self, Ending, LinesHow};
use super::{Call, CallStep, Dataset, Raised, Step};
use crate::datasets::{Datasets, Use};
use crate::jobs::no_pipe;
use crate::request::{self, recognition};
use crate::run::Run;

/// Whether steps that need all items are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Only their types are wanted.
    Types,
    /// Their types, and how the first of them would be done.
    Plans,
    /// They are run.
    Run,
}

/// Records and the steps of the next pass over them.
pub(super) struct Records {
    pub(super) table: Table,
    /// Of a `.npy` file of them, where it would say more than the format.
    header: Option<NpyHeader>,
    /// Whether the table is more than the files.
    is_refined: bool,
}

/// What the files hold.
pub(super) enum Items {
    Records(Box<Records>),
    Lines,
}

/// What a pass that writes did.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// Items written.
    pub(super) records: u64,
    /// Passes over the data.
    pub(super) passes: u32,
    /// (name, bytes read, bytes written) of each drive.
    pub(super) drives: Vec<(String, u64, u64)>,
    /// Lines without a key that were left out.
    pub(super) skipped: u64,
}

impl From<PassSummary> for Done {
    fn from(done: PassSummary) -> Self {
        Done {
            records: done.records,
            passes: done.passes,
            drives: done.drives,
            skipped: 0,
        }
    }
}

/// See the module.
pub(super) struct Stage {
    pub(super) means: Means,
    /// The settings that were given.
    asked: request::Means,
    /// The datasets among its files.
    pub(super) datasets: Datasets,
    pub(super) inputs: Vec<Input>,
    /// What ends a line.
    pub(super) terminator: u8,
    /// What of the files may be taken for lines; anything of what was made here.
    pub(super) recognition: Recognition,
    items: Items,
    ending: Option<Ending>,
    steps: std::vec::IntoIter<Step>,
    raised: Raised,
    /// Where the result goes, if it is written.
    pub(super) beside: PathBuf,
    /// One on each drive that was named, or one.
    scratch: Vec<PrivateDir>,
    scratch_files: u32,
    /// What compressed files hold.
    spool: Option<Spool>,
    /// The passes of earlier stages, for people.
    passes: Vec<String>,
    /// What earlier passes did to the drives.
    done_before: Done,
}

impl Stage {
    /// Opens the files, for what `mode` says; no step is taken yet.
    pub(super) fn begin(
        mut request: Dataset,
        raised: Raised,
        mode: Mode,
        run: &Run,
    ) -> Result<Self> {
        let zipped = request.zipped.iter_mut().flat_map(|one| &mut one.inputs);
        let read = request.inputs.iter_mut().chain(zipped);
        let how = Use {
            reads: match mode {
                Mode::Types => Reads::Head,
                Mode::Plans | Mode::Run => Reads::ByEngine,
            },
            ..Use::of_engine(false)
        };
        let datasets = Datasets::stage(&request.means, how, read, [], run)?;
        let means = datasets.means(&request.means, true, run)?;
        let sources = match request.count {
            Some(_) => Vec::new(),
            None => inputs::find(&request.inputs, Streams::Refused)?,
        };
        let separator = request.steps.iter().find_map(Step::separator);
        let recognition = recognition(request.insists, request.terminator, separator);
        let look = |source| match request.lines {
            true => inputs::look_at_lines(source, recognition),
            false => inputs::look(source),
        };
        let looked: Result<Vec<Input>> = sources.into_iter().map(look).collect();
        let inputs = looked?;
        let items = match (request.lines, request.count) {
            (true, _) => Items::Lines,
            (false, Some(count)) => Items::Records(Box::new(Records {
                table: Table::count_up(count)?,
                header: None,
                is_refined: true,
            })),
            (false, None) => {
                let decided = records::decide(&request.records.to_request()?, &inputs)?;
                let mut tables = vec![table_of(&inputs, &decided)];
                for zipped in &request.zipped {
                    let further = inputs::open_files(&zipped.inputs)?;
                    let decided = records::decide(&zipped.records.to_request()?, &further)?;
                    tables.push(table_of(&further, &decided));
                }
                let is_zipped = tables.len() > 1;
                Items::Records(Box::new(Records {
                    table: Table::zip(&tables)?,
                    header: decided.header.filter(|_| !is_zipped),
                    is_refined: is_zipped,
                }))
            }
        };
        Ok(Stage {
            means,
            asked: request.means,
            datasets,
            inputs,
            terminator: request.terminator,
            recognition,
            items,
            ending: None,
            steps: request.steps.into_iter(),
            raised,
            beside: PathBuf::from("."),
            scratch: Vec::new(),
            scratch_files: 0,
            spool: None,
            passes: Vec::new(),
            done_before: Done::default(),
        })
    }

    /// Names the output, which may be a dataset: to be called before anything is written.
    pub(super) fn stage_output(
        &mut self,
        path: &mut PathBuf,
        force: bool,
        run: &Run,
    ) -> Result<()> {
        self.datasets.output(&self.asked, path, force, run)?;
        self.means = self.datasets.means(&self.asked, true, run)?;
        Ok(())
    }

    /// Takes all steps; a last one that needs all items is left to do.
    pub(super) fn take_steps(&mut self, mode: Mode, run: &Run) -> Result<()> {
        while let Some(step) = self.steps.next() {
            if self.ending.as_ref().is_some_and(Ending::is_of_csv) {
                return Err(ending::csv_is_last());
            }
            self.settle(mode, run)?;
            self.take(step)?;
        }
        Ok(())
    }

    /// Does what is left to do, into scratch.
    pub(super) fn settle(&mut self, mode: Mode, run: &Run) -> Result<()> {
        let Some(ending) = self.ending.take() else {
            return Ok(());
        };
        let text = match mode {
            Mode::Plans => self.plan_of(&ending, run)?,
            Mode::Types | Mode::Run => self.text_of(&ending),
        };
        self.passes.push(text);
        if mode == Mode::Run {
            let is_sharded = ending.can_be_sharded() && matches!(self.items, Items::Records(_));
            let target = self.scratch_target(is_sharded, run)?;
            let output = target.to_sort(None, no_pipe)?;
            let done = self.end(&ending, Some(&target), output, false, run)?;
            self.turn_to(target, done)?;
        }
        if let Items::Records(records) = &mut self.items {
            records.become_made(&ending, &self.inputs)?;
        }
        Ok(())
    }

    /// Records as they are now, or an error that says that they are lines.
    pub(super) fn records(&self) -> Result<&Records> {
        match &self.items {
            Items::Records(records) => Ok(records),
            Items::Lines => Err(Error::usage("read dataset", "it has lines, not records")
                .hint("open it with a dtype")),
        }
    }

    /// Where what the caller's own code raises is kept.
    pub(super) fn raised(&self) -> Raised {
        self.raised.clone()
    }

    pub(super) fn items(&self) -> &Items {
        &self.items
    }

    /// The files as the engine wants them.
    pub(super) fn files(&self) -> Vec<SortInput> {
        self.inputs.iter().map(Input::to_sort).collect()
    }

    /// A job for a pass.
    pub(super) fn job(&self, run: &Run) -> Result<Job> {
        Ok(run.job(&self.means, self.means.named_drives(0)?))
    }

    /// What earlier passes and `last` did together.
    pub(super) fn done(&mut self, last: Done) -> Done {
        let before = std::mem::take(&mut self.done_before);
        let mut drives = before.drives;
        for (name, read_bytes, written_bytes) in last.drives {
            match drives.iter_mut().find(|drive| drive.0 == name) {
                Some((_, read, written)) => {
                    *read += read_bytes;
                    *written += written_bytes;
                }
                None => drives.push((name, read_bytes, written_bytes)),
            }
        }
        Done {
            records: last.records,
            passes: before.passes + last.passes,
            drives,
            skipped: before.skipped + last.skipped,
        }
    }

    /// Steps as text.
    pub(super) fn steps(&self) -> String {
        let mut texts = self.passes.clone();
        texts.push(match &self.items {
            Items::Records(records) => Producer::steps(&records.table),
            Items::Lines => "read lines".to_string(),
        });
        texts.join(", then ")
    }

    /// The passes of earlier stages.
    pub(super) fn passes(&self) -> &[String] {
        &self.passes
    }

    /// Whether a step is left to do that needs all items.
    pub(super) fn has_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// How what is left to do would be done, as text.
    pub(super) fn ending_plan(&self, run: &Run) -> Result<Option<String>> {
        let ending = self.ending.as_ref();
        ending.map(|ending| self.plan_of(ending, run)).transpose()
    }

    /// How a step would be done; of one that reads what others make, what it does.
    fn plan_of(&self, ending: &Ending, run: &Run) -> Result<String> {
        let text = self.text_of(ending);
        let is_packed = |input: &Input| self.packed(input).is_some();
        let is_refined = match &self.items {
            Items::Records(records) => records.is_refined,
            Items::Lines => self.inputs.iter().any(is_packed),
        };
        if !self.passes.is_empty() || is_refined && ending.reads_files() {
            return Ok(text);
        }
        let (means, inputs) = (&self.means, &self.inputs);
        let plan = match ending {
            Ending::Sort(options, decided) => {
                let (_, plan) = settle_sort(means, inputs, None, &decided.format, *options)?;
                plan.to_string()
            }
            // It is read as it comes.
            Ending::SortLines(_, LinesHow { merges: true, .. }) => return Ok(text),
            Ending::SortLines(order, how) => {
                let job = self.job(run)?;
                let size = sample_lines(&job, &self.files(), order.as_ref(), how.options)?;
                plan_lines(size)?.to_string()
            }
            // Its columns are known when all files have been looked at.
            Ending::SortCsv(..) | Ending::ShuffleCsv(..) => return Ok(text),
            Ending::Shuffle(_) => settle_shuffle(means, inputs, None, self.unit())?
                .1
                .to_string(),
            Ending::Group(grouping, _) => {
                let consumer = match grouping {
                    Grouping::Unique => "unique",
                    Grouping::Counted => "count each",
                };
                let table = &self.records()?.table;
                return Ok(plan_group(&self.job(run)?, table, consumer)?.to_string());
            }
            Ending::Scan(..) => {
                return Ok(plan_scan(&self.job(run)?, &self.records()?.table, 1)?.to_string());
            }
        };
        Ok(format!("{text}\n{plan}"))
    }

    /// Writes all items to `output`; `target` is that, where it is a file.
    pub(super) fn write(
        &mut self,
        target: Option<&Target>,
        output: SortOutput,
        replace: bool,
        run: &Run,
    ) -> Result<Done> {
        let last = match self.ending.take() {
            Some(ending) => self.end(&ending, target, output, replace, run)?,
            None => match &self.items {
                Items::Records(records) => {
                    produce(&self.job(run)?, &records.table, &output, replace)?.into()
                }
                Items::Lines => self.copy_lines(&output, replace, run)?,
            },
        };
        Ok(self.done(last))
    }

    /// Lines that earlier passes left out.
    pub(super) fn skipped(&self) -> u64 {
        self.done_before.skipped
    }

    /// Runs what needs all items.
    fn end(
        &mut self,
        ending: &Ending,
        target: Option<&Target>,
        output: SortOutput,
        replace: bool,
        run: &Run,
    ) -> Result<Done> {
        if ending.reads_files() {
            self.refine_files(run)?;
        }
        let (means, inputs) = (&self.means, &self.inputs);
        Ok(match ending {
            Ending::Sort(options, decided) => {
                let options = SortOptions {
                    replace,
                    ..*options
                };
                let (job, plan) = settle_sort(means, inputs, target, &decided.format, options)?;
                let job = run.watched(job);
                let done = sort(&job, &self.files(), output, &decided.format, options)?;
                Done {
                    records: done.records,
                    passes: plan.levels + 1,
                    drives: done.drives,
                    skipped: 0,
                }
            }
            Ending::Shuffle(step) => {
                let unit = self.unit();
                let (job, plan) = settle_shuffle(means, inputs, target, unit)?;
                let options = ShuffleOptions {
                    unit,
                    seed: step.shuffle_seed,
                    epoch: step.epoch,
                    replace,
                };
                let job = self.scratch_left(run.watched(job));
                let done = shuffle(&job, &self.files(), output, options);
                let done = done.map_err(|error| self.explain(error))?;
                Done {
                    records: done.records,
                    passes: plan.distributions + 1,
                    drives: done.drives,
                    skipped: 0,
                }
            }
            Ending::SortLines(order, how) => {
                let data_bytes: u64 = inputs.iter().map(|input| input.data_bytes).sum();
                let drives = means.scratch_drives(data_bytes, &self.beside)?;
                let job = self.scratch_left(run.job(means, drives));
                let options = LineSortOptions {
                    replace,
                    ..how.options
                };
                let put_in_order = match how.merges {
                    true => merge_lines,
                    false => sort_lines,
                };
                let done = put_in_order(&job, &self.files(), output, order.as_ref(), options);
                let done = done.map_err(|error| self.explain(error))?;
                Done {
                    records: done.lines_out,
                    passes: done.passes,
                    drives: done.drives,
                    skipped: done.skipped,
                }
            }
            Ending::SortCsv(..) | Ending::ShuffleCsv(..) => return Err(ending::csv_is_last()),
            Ending::Group(grouping, _) => {
                let table = &self.records()?.table;
                let to = (&output, replace);
                group(&self.job(run)?, table, table.format(), *grouping, to)?
                    .pass
                    .into()
            }
            Ending::Scan(op, inclusion) => {
                let table = &self.records()?.table;
                scan_table(&self.job(run)?, table, *op, *inclusion, (&output, replace))?.into()
            }
        })
    }

    /// Makes the files hold what the table holds, for what reads files alone.
    pub(super) fn refine_files(&mut self, run: &Run) -> Result<()> {
        let Items::Records(records) = &self.items else {
            return self.unpack_files(run);
        };
        if !records.is_refined {
            return Ok(());
        }
        let target = self.scratch_target(true, run)?;
        let output = target.to_sort(None, no_pipe)?;
        let table = &self.records()?.table;
        let done = produce(&self.job(run)?, table, &output, false)?;
        self.turn_to(target, done.into())?;
        if let Items::Records(records) = &mut self.items {
            let format = records.table.format().clone();
            records.read(&self.inputs, &format, None);
        }
        Ok(())
    }

    /// The next passes read what was written to `target`.
    fn turn_to(&mut self, target: Target, done: Done) -> Result<()> {
        self.recognition = Recognition::ANYTHING;
        let sources = inputs::find(target.files(), Streams::Refused)?;
        let look = |source| match self.items {
            Items::Lines => inputs::look_at_lines(source, Recognition::ANYTHING),
            Items::Records(_) => inputs::look(source),
        };
        self.inputs = sources
            .into_iter()
            .map(look)
            .collect::<Result<Vec<Input>>>()?;
        let done = self.done(done);
        self.done_before = done;
        Ok(())
    }

    /// A new place on scratch: a file, or a shard on each drive.
    fn scratch_target(&mut self, is_sharded: bool, run: &Run) -> Result<Target> {
        run.control.check()?;
        if self.scratch.is_empty() {
            let named = self.means.specs().iter().map(|drive| drive.dir.clone());
            let mut parents: Vec<PathBuf> = named.collect();
            if parents.is_empty() {
                parents.push(default_scratch_dir(&self.beside)?);
            }
            let device = self.means.device();
            for parent in parents {
                device.sweep_private_dirs(&parent)?;
                self.scratch.push(device.make_private_dir(&parent)?);
            }
        }
        let name = format!("items-{}", self.scratch_files);
        self.scratch_files += 1;
        let paths = self.scratch.iter().map(|dir| dir.path().join(&name));
        let mut paths: Vec<PathBuf> = paths.collect();
        Ok(match is_sharded && paths.len() > 1 {
            true => Target::Shards {
                manifest: paths[0].with_extension("outcore.json"),
                paths,
            },
            false => Target::File(paths.swap_remove(0)),
        })
    }

    /// What is unpacked counts as scratch.
    fn scratch_left(&self, mut job: Job) -> Job {
        let unpacked_bytes = self.spool.as_ref().map_or(0, |spool| spool.bytes);
        let limit_bytes = &mut job.options.scratch_limit_bytes;
        *limit_bytes = limit_bytes.saturating_sub(unpacked_bytes);
        job
    }

    /// What is shuffled.
    fn unit(&self) -> Unit {
        match &self.items {
            Items::Records(records) => Unit::Records {
                record_bytes: records.table.format().record_bytes(),
            },
            Items::Lines => Unit::Lines {
                terminator: self.terminator,
            },
        }
    }

    fn text_of(&self, ending: &Ending) -> String {
        let what = match &self.items {
            Items::Records(records) => Producer::steps(&records.table),
            Items::Lines => "read lines".to_string(),
        };
        let how = match ending {
            Ending::Sort(options, _) if options.unique => "sort, one a key",
            Ending::SortLines(_, how) if how.options.count => "count each",
            Ending::SortLines(_, how) | Ending::SortCsv(_, how) => {
                match (how.merges, how.options.unique) {
                    (false, false) => "sort",
                    (false, true) => "sort, one a key",
                    (true, false) => "merge",
                    (true, true) => "merge, one a key",
                }
            }
            Ending::Sort(..) => "sort",
            Ending::Shuffle(_) | Ending::ShuffleCsv(..) => "shuffle",
            Ending::Group(Grouping::Unique, _) => "unique",
            Ending::Group(Grouping::Counted, _) => "count each",
            Ending::Scan(..) => "scan",
        };
        format!("{what} -> {how}")
    }

    /// Takes one step.
    fn take(&mut self, step: Step) -> Result<()> {
        let records = match (&mut self.items, step) {
            (Items::Lines, step) => {
                self.ending = Some(ending::of_lines(step, self.terminator)?);
                return Ok(());
            }
            (Items::Records(records), step) => (records, step),
        };
        self.ending = match records {
            (records, Step::Where(step)) => {
                records.table = records.table.filter(&step.condition)?;
                records.is_refined = true;
                None
            }
            (records, Step::Map(step)) => {
                records.table = records.table.map(&step.expression)?;
                (records.header, records.is_refined) = (None, true);
                None
            }
            (records, Step::Call(step)) => {
                records.call(step, &self.raised)?;
                None
            }
            (records, step) => Some(ending::of_records(records.decided(), step)?),
        };
        Ok(())
    }
}

impl Records {
    /// What is read now: files of `format`, with the names of `header`.
    fn read(&mut self, inputs: &[Input], format: &RecordFormat, header: Option<NpyHeader>) {
        let files: Vec<SortInput> = inputs.iter().map(Input::to_sort).collect();
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
        self.table = Table::read(&files, format, schema);
        self.header = header.or(self.header.take());
        self.is_refined = false;
    }

    /// What is read after `ending`.
    fn become_made(&mut self, ending: &Ending, inputs: &[Input]) -> Result<()> {
        let (format, header) = match ending {
            Ending::Group(Grouping::Counted, made) => {
                self.header = None;
                (made.format.clone(), made.header.clone())
            }
            Ending::Scan(..) => {
                self.header = None;
                (self.table.numbers()?.0.format().clone(), None)
            }
            _ => (self.table.format().clone(), None),
        };
        self.read(inputs, &format, header);
        Ok(())
    }

    fn call(&mut self, step: CallStep, raised: &Raised) -> Result<()> {
        let decided = records::named(&step.records.to_request()?)?
            .ok_or_else(|| Error::usage("map", "no type is named").hint("give a dtype"))?;
        let schema = match &decided.header {
            Some(header) => Schema::of_npy(header, &decided.format),
            None => Schema::of_format(&decided.format),
        };
        let call = Call {
            function: step.function,
            raised: raised.clone(),
        };
        let table = &self.table;
        self.table = table.own(Arc::new(call), &decided.format, schema, step.filters)?;
        self.header = decided.header;
        self.is_refined = true;
        Ok(())
    }

    /// What they are, with the header that their files would have.
    pub(super) fn decided(&self) -> Decided {
        Decided {
            format: self.table.format().clone(),
            header: self.header.clone(),
        }
    }
}

impl Stage {
    /// Format and header of what [`Stage::write`] writes; nothing of lines.
    pub(super) fn written(&self) -> Result<Option<Decided>> {
        let Items::Records(records) = &self.items else {
            return Ok(None);
        };
        Ok(Some(match &self.ending {
            Some(Ending::Group(Grouping::Counted, made)) => made.clone(),
            Some(Ending::Scan(..)) => Decided::from(records.table.numbers()?.0.format().clone()),
            _ => records.decided(),
        }))
    }
}

fn table_of(inputs: &[Input], decided: &Decided) -> Table {
    let files: Vec<SortInput> = inputs.iter().map(Input::to_sort).collect();
    let schema = match &decided.header {
        Some(header) if header.format.record_bytes() == decided.format.record_bytes() => {
            Schema::of_npy(header, &decided.format)
        }
        _ => Schema::of_format(&decided.format),
    };
    Table::read(&files, &decided.format, schema)
}
