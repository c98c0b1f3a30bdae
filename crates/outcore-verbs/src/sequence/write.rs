//! What verbs on sequences that write files share.
//!
//! Contract: each is one pass. The output appears whole or not at all, and what it would be is
//! rejected before anything is read where that can be.

use std::sync::Arc;

use outcore::dataset::{ItemType, Step, Summary as Done};
use outcore::primitives::write::Fate;
use outcore::primitives::{PassPlan, plan_files};
use outcore::{Forecast, Input, Output, Result};
use outcore_front::inputs::ResolvedInput;
use outcore_front::output::{self, Holds, Target};
use outcore_io::units;

use super::args::{InputArgs, OutputArgs};
use super::input::{self, Prepared, resources_of};
use super::run::is_only_planned;
use crate::host::{Host, Weight, watch};
use crate::report::WriteSummary;
use crate::verb::Words;
use crate::wording::{self, Said};

/// The phase of a verb that writes.
pub(super) const WRITE: &[Weight] = &[("write", 1.0)];

/// The request of a verb that writes.
pub(super) struct WriteRequest<'a> {
    /// The verb, in plans.
    pub(super) what: &'static str,
    /// The input.
    pub(super) input: &'a InputArgs,
    /// The output.
    pub(super) output: &'a OutputArgs,
    /// The steps before the result is written.
    pub(super) steps: Steps<'a>,
    /// The type of the result's items, where the verb makes items of another type.
    pub(super) made: Option<ItemType>,
}

/// The steps before a result is written.
pub(super) enum Steps<'a> {
    /// These, the last of which may need all items.
    Known(Vec<Step>),
    /// One that depends on what the items are.
    Of(&'a dyn Fn(&ItemType) -> Result<Step>),
    /// None: some items are read where they are, as this plan says.
    Picked(&'a dyn Fn(&Prepared) -> Result<PassPlan>),
}

/// The plan of a verb that reads some items where they are, for `what` it is called, of which
/// `moved` gives the reads and writes for this many bytes of data.
pub(super) fn plan_picked(
    prepared: &Prepared,
    what: &'static str,
    moved: impl Fn(u64) -> (Forecast, Forecast),
) -> Result<PassPlan> {
    let element_bytes = prepared.table()?.format().record_bytes();
    let files: Vec<Input> = prepared.inputs.iter().map(ResolvedInput::to_sort).collect();
    let steps = prepared.execution.plan(what, &[Fate::Written], 1)?.steps;
    let files = (&files[..], element_bytes);
    plan_files(&prepared.job, files, (&steps, what), moved)
}

/// Writes the items of files after some steps.
///
/// # Errors
/// Those of the steps, and of writing.
pub(super) fn write(host: &dyn Host, request: &WriteRequest<'_>) -> Result<WriteSummary> {
    let force = request.input.force;
    write_with(host, request, |prepared, output| {
        prepared.execution.write(output, force)
    })
}

/// The same with a consumer of its own, which may make items of another type.
///
/// # Errors
/// Those of the steps, and of the consumer.
pub(super) fn write_with(
    host: &dyn Host,
    request: &WriteRequest<'_>,
    consume: impl FnOnce(&mut Prepared, Output) -> Result<Done>,
) -> Result<WriteSummary> {
    let input = request.input;
    let resources = resources_of(host, input, None)?;
    let sources = input::sources(host, input)?;
    let name = host.output(&request.output.output, input.force)?;
    let how = (host.streams(), Holds::Records);
    let target = output::choose_new(Some(&name), &sources, resources.specs(), input.force, how)?;
    let mut prepared = input::prepare(host, input, resources, Some(&target))?;
    prepared.execution.set_beside(target.dir());
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
    // Of what was mapped, the header would not have said what it is.
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
    prepared.wrote(host, Some(&target), &done)
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

/// What the verb `what` wrote, in a line; of tables, that rows were `of_rows`.
pub(super) fn headline(what: &str, of_rows: &str, report: &WriteSummary) -> String {
    if report.unit == "row" {
        return wording::headline(report, &Said::of(of_rows));
    }
    let used = &report.used;
    let moved_bytes = used.read_bytes.max(used.written_bytes);
    format!(
        "{what}: {} in, {} out, {} in {}: {}",
        units::counted(report.records_in.unwrap_or(0), &report.unit),
        units::count(used.records),
        units::bytes(used.read_bytes),
        units::seconds(used.seconds),
        units::rate_decimal(moved_bytes as f64 / used.seconds.max(1e-9)),
    )
}

/// Says it; nothing where only the plan was asked for.
pub(super) fn say(line: &str, report: &WriteSummary, input: &InputArgs, words: &mut Words) {
    if input.dry_run {
        return;
    }
    words.lines(line);
    words.lines(&report.used.bandwidth_text().unwrap_or_default());
    words.phases(&report.phases, input.explain);
}

/// The words of a verb that writes records, and the word for rows where it takes tables too.
macro_rules! say_written {
    ($of_rows:literal) => {
        fn say(
            args: &Self::Args,
            report: &crate::report::WriteSummary,
            words: &mut crate::verb::Words,
        ) {
            if report.unit == "row" {
                let said = crate::wording::Said::of($of_rows);
                crate::wording::say(report, &said, args.input.explain, words);
            } else {
                let line = Self::headline(report);
                crate::sequence::write::say(&line, report, &args.input, words);
            }
        }

        fn headline(report: &crate::report::WriteSummary) -> String {
            crate::sequence::write::headline(Self::NAME, $of_rows, report)
        }

        fn takes_stdout(args: &Self::Args) -> bool {
            args.input.is_written_to_stdout(&args.output.output)
        }
    };
}

pub(super) use say_written;
