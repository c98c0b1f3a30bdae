//! The common part of verbs on sequences that write files.
//!
//! Contract: each is one pass. The output appears whole or not at all. If possible, an invalid
//! output is rejected before anything is read.

use std::marker::PhantomData;
#[cfg(feature = "tables")]
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use outcore::dataset::{ItemType, Step, Summary as Done};
use outcore::key::expr::power_note;
use outcore::primitives::write::Fate;
use outcore::primitives::{PassPlan, plan_files};
use outcore::{Error, Forecast, Input, Output, Result};
use outcore_front::inputs::{self, ResolvedInput, Source};
use outcore_front::output::{self, Holds, Target};
use outcore_front::records;
use outcore_io::units;

use super::args::{InputArgs, PassArgs, RowsArgs};
use super::input::{self, Prepared, is_table, resources_of};
use super::run::is_only_planned;
#[cfg(feature = "tables")]
use super::table::Ends;
use crate::host::{Host, Weight, check_output_named, watch};
use crate::report::WriteSummary;
use crate::verb::{Inputs, Verb, Words};
use crate::wording::{self, Said};

/// The phase of a verb that writes.
pub(super) const WRITE: &[Weight] = &[("write", 1.0)];

/// The request of a verb that writes.
pub(crate) struct WriteRequest<'a> {
    /// The verb, in plans.
    pub(super) what: &'static str,
    /// The input and the destination of the result.
    pub(super) files: &'a PassArgs,
    /// The steps before the result is written.
    pub(super) steps: Steps<'a>,
    /// The type of the result's items, if the verb makes items of another type.
    pub(super) made: Option<ItemType>,
}

/// Makes the step for items of a type.
type StepOf = dyn Fn(&ItemType) -> Result<Step>;

/// The steps before a result is written.
pub(crate) enum Steps<'a> {
    /// The given steps, the last of which may need all items.
    Known(Vec<Step>),
    /// One step that depends on the type of the items.
    Of(Box<StepOf>),
    /// No steps: some items are read at their positions, according to this plan.
    Picked(&'a dyn Fn(&Prepared) -> Result<PassPlan>),
}

/// The plan of a verb, called `what`, that reads some items at their positions; `moved` gives its
/// reads and writes for this many bytes of data.
pub(super) fn plan_picked(
    prepared: &Prepared,
    what: &'static str,
    moved: impl Fn(u64) -> (Forecast, Forecast),
) -> Result<PassPlan> {
    let element_bytes = prepared.table()?.format().record_bytes();
    let files: Vec<Input> = prepared.inputs.iter().map(ResolvedInput::to_sort).collect();
    let steps = prepared.execution.plan(what, &[Fate::Written], 1)?.steps;
    plan_files(&prepared.job, &files, element_bytes, &steps, what, moved)
}

/// The number of records in the input of `windows`, if it is known from the files: the pass itself
/// counts windows.
fn records_read(request: &WriteRequest<'_>, prepared: &Prepared) -> Result<Option<u64>> {
    let input = &request.files.input;
    match &request.steps {
        Steps::Known(steps) if matches!(steps[..], [Step::Windows(_)]) => {}
        _ => return Ok(None),
    }
    if !input.conditions.is_empty() || prepared.inputs.is_empty() || !input.zip.is_empty() {
        return Ok(None);
    }
    let record_bytes = prepared.table()?.format().record_bytes() as u64;
    let data_bytes: u64 = prepared.inputs.iter().map(|input| input.data_bytes).sum();
    Ok(Some(data_bytes / record_bytes))
}

/// Fails for tables, before the name of the output is examined.
pub(super) fn refuse_tables(verb: &str, input: &InputArgs, sources: &[Source]) -> Result<()> {
    for source in sources.iter().filter(|source| !source.is_stream()) {
        let looked = inputs::look(source.clone())?;
        let checked = looked
            .content
            .check_records(&source.name, input.record.is_typed());
        checked.map_err(|error| for_tables(verb, error))?;
    }
    Ok(())
}

/// The error about an input that is not records, with the verb that does the same to tables.
pub(super) fn for_tables(verb: &str, error: Error) -> Error {
    if !error.cause().ends_with("not records") {
        return error;
    }
    let hint = match verb {
        "find" => "`outcore filter CONDITION FILE` keeps the rows of a table",
        "histogram" => "`outcore count-by COLUMN FILE` counts the values of a column",
        "partition" => "`outcore split --by COLUMN` writes the rows of each value to a folder",
        "reduce" => "`outcore group-by FILE --agg 'sum(COLUMN)'` reduces columns of tables",
        "reverse" => "`outcore sort --by COLUMN:desc` sorts the rows of a table downwards",
        "scan" => {
            "`outcore window --add 'sum(COLUMN)' --order COLUMN` adds running sums to a table"
        }
        _ => return error,
    };
    error.hint(hint)
}

/// Fails for files of text whose records have no type.
fn refuse_text(verb: &str, input: &InputArgs, sources: &[Source]) -> Result<()> {
    let first = sources.first().filter(|source| !source.is_stream());
    let Some(first) = first.filter(|_| !input.record.is_typed()) else {
        return Ok(());
    };
    if !records::is_text(first) {
        return Ok(());
    }
    let (taken, hint) = match verb {
        "map" | "filter" => (
            "records and tables",
            "--csv or --jsonl reads the lines as a table, and --csv -t ' ' --no-header fields between blanks as the columns 1, 2, ...; grep and sed work on lines",
        ),
        "merge" => ("records", "`outcore sort -m` merges sorted lines"),
        "reverse" => ("records", "tac reverses lines"),
        "enumerate" => ("records", "`cat -n` numbers lines"),
        "zip" => (
            "records",
            "`outcore join` joins tables by a column, paste lines by position",
        ),
        "gather" => (
            "records",
            "`outcore join` finds rows by a column, sed -n 5p a line by position",
        ),
        "scan" => (
            "records",
            "`outcore window --csv --order COLUMN --add 'cum_sum(COLUMN)'` adds running sums",
        ),
        "windows" => (
            "records",
            "`outcore window --csv --order COLUMN --add 'lag(COLUMN)'` adds values of rows nearby",
        ),
        "flat-map" => ("records", "awk prints several lines for one"),
        "partition" => (
            "records",
            "`outcore split --csv --by COLUMN` writes the rows of each value to a folder",
        ),
        _ => (
            "records",
            "numpy.save writes the numbers of numpy.loadtxt as .npy",
        ),
    };
    let cause = format!("{verb} takes {taken}, but the file has lines of text");
    Err(Error::usage("read arguments", cause)
        .path(&first.name)
        .hint(hint))
}

/// Writes the items of files after some steps, with a consumer that may make items of another type.
///
/// # Errors
/// The errors of the steps and of the consumer; a result without a name, if the host keeps no
/// result.
pub(super) fn write_with(
    host: &dyn Host,
    request: &WriteRequest<'_>,
    consume: impl FnOnce(&mut Prepared, Output) -> Result<Done>,
) -> Result<WriteSummary> {
    let PassArgs { input, output } = request.files;
    if host.kept_table() == Some(&*output.output) {
        check_output_named(host)?;
    }
    if let Steps::Known(steps) = &request.steps {
        let texts = steps.iter().filter_map(|step| match step {
            Step::Map(text) | Step::Filter(text) => Some(text),
            _ => None,
        });
        texts
            .filter_map(|text| power_note(text))
            .for_each(|note| host.note(note));
    }
    let resources = resources_of(host, input)?;
    let sources = input::sources(host, input)?;
    refuse_text(request.what, input, &sources)?;
    refuse_tables(request.what, input, &sources)?;
    let name = host.names().output(&output.output, input.force)?;
    let (specs, streams) = (resources.specs(), host.streams());
    let (name, force) = (Some(&*name), input.force);
    let target = output::choose_new(name, &sources, specs, force, streams, Holds::Records)?;
    let mut prepared = input::prepare(host, input, resources, Some(&target))?;
    prepared.execution.set_beside(target.dir());
    let records_read = records_read(request, &prepared)?;
    take_steps(host, &request.steps, &mut prepared)?;
    let is_all = is_only_planned(host, input, || match request.steps {
        Steps::Picked(plan) => plan(&prepared),
        Steps::Known(_) | Steps::Of(_) => {
            let outs = match &target {
                Target::Shards { paths, .. } => paths.len(),
                _ => 1,
            };
            prepared
                .execution
                .plan(request.what, &[Fate::Written], outs)
        }
    })?;
    if is_all {
        return prepared.wrote(host, Some(&target), &Done::default());
    }
    // A header of the input names fields that a mapped output no longer has.
    let decided = match (&request.made, prepared.execution.written()?) {
        (Some(item), _) => item.clone(),
        (None, Some(item)) => item,
        (None, None) => prepared.execution.item()?,
    };
    let header = output::header_for(&target, &prepared.inputs, &decided)?;
    let lost = output::loses_header(&target, &prepared.inputs, header.as_ref());
    // After `map`, the header of the input would not describe the items.
    let headers = prepared
        .inputs
        .iter()
        .filter_map(|input| input.npy.as_ref());
    let is_said = headers
        .into_iter()
        .any(|header| header.format == decided.format);
    if let (Some(lost), true) = (lost, is_said) {
        host.note(&lost);
    }
    prepared.begin(host, Some(&target))?;
    let control = Arc::clone(&prepared.job.control);
    let to = target.to_sort(header, |path| host.open_pipe(path, &control))?;
    let done = watch(host, &control, WRITE, || consume(&mut prepared, to))?;
    let done = Done {
        records_in: records_read.unwrap_or(done.records_in),
        ..done
    };
    let records_bytes = done.records * decided.format.record_bytes() as u64;
    let files = target.files().iter();
    let files: Option<Vec<u64>> = files
        .map(|file| Some(file.metadata().ok()?.len()))
        .collect();
    let output_bytes = match files.as_deref() {
        None | Some([]) => records_bytes,
        Some(lens) => lens.iter().sum(),
    };
    Ok(WriteSummary {
        output_bytes: Some(output_bytes),
        ..prepared.wrote(host, Some(&target), &done)?
    })
}

/// Takes the steps that come before the result.
fn take_steps(host: &dyn Host, steps: &Steps<'_>, prepared: &mut Prepared) -> Result<()> {
    let (job, execution) = (&prepared.job, &mut prepared.execution);
    watch(host, &job.control, &[], || match steps {
        Steps::Picked(_) => Ok(()),
        Steps::Known(steps) => steps
            .iter()
            .try_for_each(|step| execution.then(step.clone())),
        Steps::Of(make) => execution.then(make(&execution.item()?)?),
    })
}

/// The part of a verb that turns records into an output in one pass: [`Written`] is the verb.
pub(crate) trait Pass: 'static {
    /// Its name in every face.
    const NAME: &'static str;
    /// Further names, which help does not show.
    const ALIASES: &'static [&'static str] = &[];
    /// The files that it reads.
    const INPUTS: Inputs = Inputs::Files;
    /// The participle for the rows in the report, such as `kept` or `zipped`.
    const DONE: &'static str;
    /// Its options, among them those of [`PassArgs`].
    type Args: Args + AsRef<PassArgs> + Send + 'static;

    /// The steps before the result is written.
    fn steps(_args: &Self::Args) -> Result<Steps<'_>> {
        Ok(Steps::Known(Vec::new()))
    }

    /// Writes the result for records.
    fn of_records(host: &dyn Host, args: &Self::Args) -> Result<WriteSummary> {
        write(host, Self::NAME, args.as_ref(), Self::steps(args)?)
    }

    /// How it reads and writes tables, if it takes them.
    fn rows(_args: &Self::Args) -> Option<&RowsArgs> {
        None
    }

    /// Writes the result for the rows of a table.
    #[cfg(feature = "tables")]
    fn of_rows(_host: &dyn Host, ends: &Ends<'_>, _args: &Self::Args) -> Result<WriteSummary> {
        let cause = format!("{} takes no tables", Self::NAME);
        Err(Error::usage("read table", cause).path(ends.output.unwrap_or(Path::new(""))))
    }
}

/// Writes the records of `files` after `steps`, for the verb `what`.
pub(super) fn write(
    host: &dyn Host,
    what: &'static str,
    files: &PassArgs,
    steps: Steps<'_>,
) -> Result<WriteSummary> {
    let request = WriteRequest {
        what,
        files,
        steps,
        made: None,
    };
    write_with(host, &request, |prepared, output| {
        prepared.execution.write(output, files.input.force)
    })
}

/// The verb that does `V`.
pub(crate) struct Written<V>(PhantomData<V>);

impl<V: Pass> Verb for Written<V> {
    const NAME: &'static str = V::NAME;
    const ALIASES: &'static [&'static str] = V::ALIASES;
    const INPUTS: Inputs = V::INPUTS;
    type Args = V::Args;
    type Report = WriteSummary;
    const PHASES: &'static [Weight] = WRITE;

    fn run(host: &dyn Host, args: &Self::Args) -> Result<WriteSummary> {
        let files = args.as_ref();
        match V::rows(args) {
            Some(rows) if is_table(host, &files.input, rows)? => {
                #[cfg(feature = "tables")]
                return V::of_rows(host, &Ends::of(files, rows), args);
                #[cfg(not(feature = "tables"))]
                return Err(crate::verb::without_tables());
            }
            _ => V::of_records(host, args),
        }
    }

    fn say(args: &Self::Args, report: &WriteSummary, words: &mut Words) {
        let input = &args.as_ref().input;
        match report.unit == "row" {
            true => wording::say(report, &Said::of(V::DONE), input.explain, words),
            false => say(&Self::headline(report), report, input, words),
        }
    }

    fn headline(report: &WriteSummary) -> String {
        if report.unit == "row" {
            return wording::headline(report, &Said::of(V::DONE));
        }
        let used = &report.used;
        let moved_bytes = used.read_bytes.max(used.written_bytes);
        let records_in = report.records_in.unwrap_or(used.records);
        let records = units::counted(records_in, &report.unit);
        format!(
            "{}: {}, {} out, in {}: {}",
            V::NAME,
            match records_in == used.records {
                true => records,
                false if used.records > records_in => {
                    format!("{} from {records}", units::count(used.records))
                }
                false => format!("{} of {records}", units::count(used.records)),
            },
            units::bytes(report.output_bytes.unwrap_or(used.written_bytes)),
            units::seconds(used.seconds),
            units::rate_decimal(moved_bytes as f64 / used.seconds.max(1e-9)),
        )
    }

    fn takes_stdout(args: &Self::Args) -> bool {
        let files = args.as_ref();
        files.input.is_written_to_stdout(&files.output.output)
    }
}

/// Prints the line; nothing if the user asked only for the plan.
pub(super) fn say(line: &str, report: &WriteSummary, input: &InputArgs, words: &mut Words) {
    if input.dry_run {
        return;
    }
    words.lines(line);
    words.lines(&report.used.bandwidth_text().unwrap_or_default());
    words.phases(&report.phases, input.explain);
}
