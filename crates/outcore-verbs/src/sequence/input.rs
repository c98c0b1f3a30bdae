//! The input of a verb on sequences, from options to a dataset.
//!
//! Contract: files are found and examined. Streams are copied to scratch, because they cannot be
//! read twice and their length is unknown. The type is decided as for `sort`. Nothing else is read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use outcore::Result;
use outcore::dataset::{Dataset, Execution, Mode, Step, TypedFiles};
use outcore::job::Job;
use outcore::primitives::Table;
use outcore_front::dataset::Allowed;
use outcore_front::inputs::{self, ResolvedInput, Source};
use outcore_front::output::Target;
use outcore_front::records;
use outcore_front::resources::Resources;
use outcore_front::spool::Spool;
use outcore_front::what::Asked;

use super::args::{InputArgs, RowsArgs};
use crate::host::{Host, Kept, watch};
use crate::option::SEED;
use crate::report::Stopwatch;

/// Everything that is decided before a pass starts.
pub(crate) struct Prepared {
    /// The resources of the job.
    pub(super) resources: Resources,
    /// The input files.
    pub(super) inputs: Vec<ResolvedInput>,
    /// The input, with the steps that have been taken.
    pub(super) execution: Execution,
    /// The engine's job.
    pub(super) job: Job,
    /// Copies of streams, which are removed on drop.
    pub(super) spool: Option<Spool>,
    /// Runs since the user asked for the job.
    pub(super) stopwatch: Stopwatch,
}

impl Prepared {
    /// The items that the next pass reads.
    ///
    /// # Errors
    /// The steps so far cannot be taken.
    pub(super) fn table(&self) -> Result<&Table> {
        self.execution.table()
    }
}

/// The resources of a job on this input.
///
/// # Errors
/// Invalid settings.
pub(super) fn resources_of(host: &dyn Host, args: &InputArgs) -> Result<Resources> {
    host.load(&args.job.request(SEED)?)
}

/// Whether the input is a table, and no option makes it records; rejects options that do not apply
/// to it.
///
/// # Errors
/// Usage: an option that does not apply to the input.
pub(super) fn is_table(host: &dyn Host, input: &InputArgs, rows: &RowsArgs) -> Result<bool> {
    let asked = Asked {
        inputs: &input.inputs,
        is_records: input.record.is_typed() || input.integers.is_some(),
        // Verbs on sequences do not take lines, so text is a table.
        is_table: true,
        text: rows.text.flags()?.kind(),
        piped: rows.tables.piped(),
        ..Asked::default()
    };
    let what = host.what(asked)?;
    match what.is_table() {
        true => host.check_options(what, asked)?,
        false => host.given().applies_to(input.record.kind_of(what))?,
    }
    Ok(what.is_table())
}

/// The sources of the input, by name.
///
/// # Errors
/// There is no such input.
pub(super) fn sources(host: &dyn Host, args: &InputArgs) -> Result<Vec<Source>> {
    if args.integers.is_some() {
        return Ok(Vec::new());
    }
    let mut sources = inputs::find(&args.inputs, host.streams(), host.names())?;
    if !args.zip.is_empty() {
        sources.extend(inputs::find(&args.zip, host.streams(), host.names())?);
    }
    Ok(sources)
}

/// Opens the input; `target` is the destination of the result, if that is a file.
///
/// # Errors
/// Inputs that are not records of one type; invalid settings.
pub(super) fn prepare(
    host: &dyn Host,
    args: &InputArgs,
    resources: Resources,
    target: Option<&Target>,
) -> Result<Prepared> {
    let stopwatch = Stopwatch::start();
    let all = sources(host, args)?;
    let kept = Kept {
        sources: &all,
        target,
        force: args.force,
        ..Kept::default()
    };
    let resources = host.start(resources, args.job.record_io.path(), kept)?;
    let resources = resources.measuring(args.is_planned());
    let job = host.adopt(resources.pass_job(resources.named_drives(0)?));
    if let Some(count) = args.integers {
        return Ok(Prepared {
            execution: execute(Dataset::count_up(count)?, args, &resources, &job)?,
            inputs: Vec::new(),
            resources,
            job,
            spool: None,
            stopwatch,
        });
    }
    let mut spool = None;
    let mut look = |names: &[PathBuf]| -> Result<Vec<ResolvedInput>> {
        let sources = inputs::find(names, host.streams(), host.names())?;
        let looked = sources.into_iter().map(|source| {
            let source = match source.is_stream() {
                false => source,
                true => copy(host, &resources, &job, args, &source, &mut spool)?,
            };
            inputs::look(source)
        });
        looked.collect()
    };
    let first = look(&args.inputs)?;
    let decided = records::decide(&args.record.to_request(), &first)?;
    let typed = |inputs: &[ResolvedInput], item| TypedFiles {
        files: inputs.iter().map(ResolvedInput::to_sort).collect(),
        item,
    };
    let mut groups = vec![typed(&first, decided)];
    let mut inputs = first;
    for name in &args.zip {
        let further = look(std::slice::from_ref(name))?;
        let decided = records::decide(&args.record.to_request(), &further)?;
        groups.push(typed(&further, decided));
        inputs.extend(further);
    }
    Ok(Prepared {
        execution: execute(Dataset::zip(&groups)?, args, &resources, &job)?,
        inputs,
        resources,
        job,
        spool,
        stopwatch,
    })
}

/// Opens the input of a verb that prints, refined by `map`.
///
/// # Errors
/// As [`prepare`].
pub(super) fn open(host: &dyn Host, args: &InputArgs, map: Option<&String>) -> Result<Prepared> {
    let resources = resources_of(host, args)?;
    let mut prepared = prepare(host, args, resources, None)?;
    if let Some(map) = map {
        prepared.execution.then(Step::Map(map.clone()))?;
    }
    Ok(prepared)
}

/// The dataset, after the step of the conditions of `--where`.
fn execute(
    dataset: Dataset,
    args: &InputArgs,
    resources: &Resources,
    job: &Job,
) -> Result<Execution> {
    let conditions = args.conditions.iter().cloned().map(Step::Filter);
    let mode = match args.dry_run {
        true => Mode::Plans,
        false => Mode::Run,
    };
    let allowed = Allowed {
        resources: resources.clone(),
        control: Arc::clone(&job.control),
    };
    let mut execution = dataset.and(conditions).execute(Arc::new(allowed), mode);
    execution.take_steps()?;
    Ok(execution)
}

/// Copies a stream to scratch.
fn copy(
    host: &dyn Host,
    resources: &Resources,
    job: &Job,
    args: &InputArgs,
    source: &Source,
    spool: &mut Option<Spool>,
) -> Result<Source> {
    if args.dry_run {
        inputs::refuse_streams([source], "plan")?;
    }
    let is_known = records::named(&args.record.to_request())?.is_some();
    let spool = match spool {
        Some(spool) => spool,
        None => spool.insert(Spool::beside(job, resources, Path::new("."))?),
    };
    watch(host, &job.control, &[], || {
        spool.copy_records(job, source, is_known)
    })
}
