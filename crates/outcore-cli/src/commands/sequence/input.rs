//! The input of a primitive, from flags to a dataset.
//!
//! Contract: files are found and looked at, streams are copied to scratch (they have no second
//! look and no length), the type is decided as for `sort`. Nothing else is read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use outcore::Result;
use outcore::dataset::{Dataset, Execution, Mode, Step};
use outcore::job::Job;
use outcore::primitives::Table;
use outcore_front::dataset::Allowed;
use outcore_front::inputs::{self, ResolvedInput, Source, Streams};
use outcore_front::output::Target;
use outcore_front::records;
use outcore_front::resources::Resources;
use outcore_front::spool::Spool;
use outcore_io::output::parent_of;

use crate::cli::sequence::InputArgs;
use crate::context::Context;
use crate::progress::watch;
use outcore_verbs::host::Kept;

/// Everything that is settled before a pass starts.
pub(super) struct Prepared {
    pub(super) resources: Resources,
    pub(super) inputs: Vec<ResolvedInput>,
    /// What is read, with the steps that have been taken.
    pub(super) execution: Execution,
    pub(super) job: Job,
    /// Whether the plan was shown, so that what became of it is shown, too.
    pub(super) is_explained: bool,
    /// Copies of streams; gone when dropped.
    _spool: Option<Spool>,
}

impl Prepared {
    /// What the next pass reads.
    pub(super) fn table(&self) -> Result<&Table> {
        self.execution.table()
    }
}

/// Where the input comes from, by name.
pub(super) fn sources(context: &Context, args: &InputArgs) -> Result<Vec<Source>> {
    if args.count.is_some() {
        return Ok(Vec::new());
    }
    let mut sources = inputs::find(&args.inputs, Streams::Taken, &context.files)?;
    if !args.zip.is_empty() {
        sources.extend(inputs::find(&args.zip, Streams::Taken, &context.files)?);
    }
    Ok(sources)
}

/// Opens the input; `target` is where the result goes, if that is a file.
pub(super) fn prepare(
    context: &Context,
    args: &InputArgs,
    resources: Resources,
    target: Option<&Target>,
) -> Result<Prepared> {
    let all = sources(context, args)?;
    let kept = Kept {
        sources: &all,
        target,
        force: args.force,
        ..Kept::default()
    };
    let resources = context.start(resources, &args.record_io, kept)?;
    let file = all.iter().find(|source| !source.is_stream());
    let beside = match (target, file) {
        (Some(target @ (Target::File(_) | Target::Shards { .. })), _) => target.dir(),
        (_, Some(file)) => parent_of(&file.path).to_path_buf(),
        (_, None) => PathBuf::from("."),
    };
    let resources = resources.measuring(args.explain || args.dry_run);
    let job = resources.job_at(resources.named_drives(0)?, &beside);
    if let Some(count) = args.count {
        return Ok(Prepared {
            execution: execute(Dataset::count_up(count)?, args, &resources, &job)?,
            inputs: Vec::new(),
            resources,
            job,
            is_explained: args.explain,
            _spool: None,
        });
    }
    let mut spool = None;
    let mut look = |names: &[PathBuf]| -> Result<Vec<ResolvedInput>> {
        let sources = inputs::find(names, Streams::Taken, &context.files)?;
        let looked = sources.into_iter().map(|source| {
            let source = match source.is_stream() {
                false => source,
                true => copy(context, &resources, &job, args, &source, &mut spool)?,
            };
            inputs::look(source)
        });
        looked.collect()
    };
    let first = look(&args.inputs)?;
    let decided = records::decide(&args.record.to_request(), &first)?;
    let files = |inputs: &[ResolvedInput]| inputs.iter().map(ResolvedInput::to_sort).collect();
    let mut groups = vec![(files(&first), decided)];
    let mut inputs = first;
    for name in &args.zip {
        let further = look(std::slice::from_ref(name))?;
        let decided = records::decide(&args.record.to_request(), &further)?;
        groups.push((files(&further), decided));
        inputs.extend(further);
    }
    Ok(Prepared {
        execution: execute(Dataset::zip(&groups)?, args, &resources, &job)?,
        inputs,
        resources,
        job,
        is_explained: args.explain,
        _spool: spool,
    })
}

/// The dataset with the conditions of `--where`, taken.
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
    context: &Context,
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
    watch(
        &context.reporter,
        &context.interrupt,
        &job.control,
        &[],
        || spool.copy_records(job, source, is_known),
    )
}
