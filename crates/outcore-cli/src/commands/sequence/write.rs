//! The primitives that write files: `map`, `filter`, `zip`, `reverse`, `scan`, `gather`,
//! `partition` and their like.
//!
//! Contract: each is one pass; the output appears whole or not at all, and what it would be is
//! refused before anything is read where that can be.

use std::path::PathBuf;
use std::sync::Arc;

use outcore::dataset::{ItemType, Step, Summary as Done};
use outcore::key::RecordFormat;
use outcore::primitives::gather_to;
use outcore::primitives::tables::ScanOp;
use outcore::primitives::write::Fate;
use outcore::primitives::{BucketFiles, Inclusion, PassPlan, plan_files};
use outcore::{Error, Result};
use outcore::{Forecast, Input, Output};
use outcore_front::inputs::{self, ResolvedInput, Streams};
use outcore_front::output::{self, Holds, Target};
use outcore_front::records::{self, TypeRequest};
use outcore_front::split::{PLACEHOLDER as PART, check_parts_name};
use outcore_io::memory::block_ceil;
use outcore_io::output::MANIFEST_SUFFIX;
use outcore_io::units;
use serde_json::json;

use super::{begin, explain, finish, show};
use crate::cli::sequence::{
    EnumerateArgs, GatherArgs, InputArgs, OutputArgs, PartitionArgs, ScanArgs, ScanOpArg,
};
use crate::context::Context;
use crate::measure::rate_text;
use crate::pipe::CLOSED_PIPE;
use crate::progress::watch;
use crate::{pipe, resources};
use outcore_verbs::sequence::input::{self, Prepared};

/// Bytes of a place among positions.
const PLACE_BYTES: u64 = size_of::<u64>() as u64;

/// From files to an output by `steps`, the last of which may need all items.
pub(super) fn write(
    context: &Context,
    to: (&InputArgs, &OutputArgs),
    what: &str,
    steps: Vec<Step>,
) -> Result<u8> {
    let force = to.0.force;
    let consume = |prepared: &mut Prepared, output| prepared.execution.write(output, force);
    write_with(context, to, (what, Steps::Known(steps), None), consume)
}

/// What is done before a result is written.
pub(super) enum Steps<'a> {
    Known(Vec<Step>),
    /// One that depends on what the items are.
    Of(&'a dyn Fn(&ItemType) -> Result<Step>),
    /// None: some items are read where they are, as this plan says.
    Picked(&'a dyn Fn(&Prepared) -> Result<PassPlan>),
}

/// The plan of a command that reads some items where they are, for `what` it is called, of which
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

/// The same with a consumer of its own, which may make items of another type.
pub(super) fn write_with(
    context: &Context,
    (input, to): (&InputArgs, &OutputArgs),
    (what, steps, made): (&str, Steps<'_>, Option<ItemType>),
    consume: impl FnOnce(&mut Prepared, Output) -> Result<Done>,
) -> Result<u8> {
    let resources = resources::load(&input.resources, &input.drives, None, resources::SEED)?;
    let sources = input::sources(context, input)?;
    let name = context.files.output(&to.output, input.force)?;
    let how = (Streams::Taken, Holds::Records);
    let target = output::choose_new(Some(&name), &sources, resources.specs(), input.force, how)?;
    let mut prepared = input::prepare(context, input, resources, Some(&target))?;
    let (reporter, interrupt) = (&context.reporter, &context.interrupt);
    let (job, execution) = (&prepared.job, &mut prepared.execution);
    execution.set_beside(target.dir());
    let plan = match &steps {
        Steps::Picked(plan) => Some(*plan),
        Steps::Known(_) | Steps::Of(_) => None,
    };
    watch(reporter, interrupt, &job.control, &[], || match steps {
        Steps::Picked(_) => Ok(()),
        Steps::Known(steps) => steps.into_iter().try_for_each(|step| execution.then(step)),
        Steps::Of(make) => execution.then(make(&execution.item()?)?),
    })?;
    let outs = match &target {
        Target::Shards { paths, .. } => paths.len(),
        _ => 1,
    };
    let is_all = match plan {
        Some(plan) => show(context, input, || plan(&prepared))?,
        None => explain(context, input, &prepared, (what, &[Fate::Written]), outs)?,
    };
    if is_all {
        return Ok(0);
    }
    // A header of the input names fields that a mapped output no longer has.
    let decided = match (made, prepared.execution.written()?) {
        (Some(item), _) | (None, Some(item)) => item,
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
        context.reporter.note(&lost);
    }
    begin(context, &prepared, Some(&target))?;
    let control = Arc::clone(&prepared.job.control);
    let to = target.to_sort(header, |path| pipe::open(path, &control))?;
    let weights = [("write", 1.0)];
    let done = watch(reporter, interrupt, &control, &weights, || {
        consume(&mut prepared, to)
    });
    let done = match done {
        Ok(done) => done,
        Err(error) if pipe::is_closed(&target, &error) => return Ok(CLOSED_PIPE),
        Err(error) => return Err(error),
    };
    tell(
        context,
        &mut prepared,
        &target,
        what,
        (&done, input.explain),
    )
}

fn tell(
    context: &Context,
    prepared: &mut Prepared,
    target: &Target,
    what: &str,
    (done, is_explained): (&Done, bool),
) -> Result<u8> {
    let told = finish(context, prepared, (done, is_explained), |summary| {
        summary.with("output", json!(target.name().display().to_string()))
    });
    context.reporter.human(&format!(
        "{what}: {} in, {} out, {} in {}: {}",
        units::counted(done.records_in, "record"),
        units::count(done.records),
        units::bytes(done.read_bytes),
        units::seconds(done.seconds),
        rate_text(done.read_bytes.max(done.written_bytes), done.seconds),
    ));
    told
}

/// Runs `outcore enumerate`.
pub(super) fn enumerate(context: &Context, args: &EnumerateArgs) -> Result<u8> {
    let to = (&args.input, &args.output);
    let is_array = args
        .output
        .output
        .extension()
        .is_some_and(|end| end == "npy");
    let step = move |item: &ItemType| -> Result<Step> {
        let made = match is_array {
            true => records::numbered(item)?,
            false => item.numbered()?,
        };
        Ok(Step::Enumerate { made })
    };
    write_with(
        context,
        to,
        ("enumerate", Steps::Of(&step), None),
        |prepared, output| prepared.execution.write(output, args.input.force),
    )
}

/// Runs `outcore scan`.
pub(super) fn scan(context: &Context, args: &ScanArgs) -> Result<u8> {
    let op = match args.op {
        ScanOpArg::Sum => ScanOp::Sum,
        ScanOpArg::Product => ScanOp::Product,
        ScanOpArg::Min => ScanOp::Min,
        ScanOpArg::Max => ScanOp::Max,
    };
    let inclusion = match args.exclusive {
        true => Inclusion::Exclusive,
        false => Inclusion::Inclusive,
    };
    let map = args.step.map.iter().cloned().map(Step::Map);
    let steps = map.chain([Step::Scan(op, inclusion)]).collect();
    write(context, (&args.input, &args.output), "scan", steps)
}

/// Runs `outcore gather`.
pub(super) fn gather_at(context: &Context, args: &GatherArgs) -> Result<u8> {
    if !args.input.conditions.is_empty() || !args.input.zip.is_empty() || args.input.count.is_some()
    {
        let cause = "gather takes records where they are: no --where, --zip or --count";
        return Err(Error::usage("gather", cause).hint("gather first, then filter"));
    }
    // The positions are among the files of the device, too.
    let positions = std::slice::from_ref(&args.positions);
    let positions = inputs::open_files(positions, &context.files)?;
    let force = args.input.force;
    let at = positions_of(args.positions_type.as_ref(), &positions)?;
    let consume = |prepared: &mut Prepared, output: Output| {
        let files: Vec<Input> = positions.iter().map(ResolvedInput::to_sort).collect();
        let positions = at.table(&files);
        prepared.execution.gather_to(&positions, (&output, force))
    };
    let at_bytes: u64 = positions.iter().map(|input| input.data_bytes).sum();
    let count = at_bytes / at.format.record_bytes() as u64;
    let planned = |prepared: &Prepared| {
        let item_bytes = prepared.table()?.format().record_bytes();
        let is_at_once = gather_to::fits(&prepared.job, count, item_bytes);
        plan_picked(prepared, "gather", |data_bytes| {
            // A block for each, or each block once.
            let each_bytes = block_ceil(item_bytes as u64);
            let read_bytes = count.saturating_mul(each_bytes).min(data_bytes);
            let written_bytes = count.saturating_mul(item_bytes as u64);
            // Two sorts, each through scratch and to a file: of places and positions, and of places
            // and elements.
            let sorted_bytes =
                count.saturating_mul(2 * (2 * PLACE_BYTES + PLACE_BYTES + item_bytes as u64));
            let more_bytes = if is_at_once { 0 } else { sorted_bytes };
            let moved = |bytes: u64| bytes.saturating_add(more_bytes);
            (moved(read_bytes).into(), moved(written_bytes).into())
        })
    };
    write_with(
        context,
        (&args.input, &args.output),
        ("gather", Steps::Picked(&planned), None),
        consume,
    )
}

/// The type of the positions in files: from their headers, from the caller, or `u64`.
fn positions_of(named: Option<&RecordFormat>, inputs: &[ResolvedInput]) -> Result<ItemType> {
    let is_array = inputs.iter().any(|input| input.npy.is_some());
    let format = match (named, is_array) {
        (Some(format), _) => Some(format.clone()),
        (None, true) => None,
        (None, false) => Some(RecordFormat::parse_type("u64")?),
    };
    let request = TypeRequest {
        format,
        ..TypeRequest::default()
    };
    records::decide(&request, inputs)
}

/// Runs `outcore partition`.
pub(super) fn partition(context: &Context, args: &PartitionArgs) -> Result<u8> {
    let input = &args.input;
    let resources = resources::load(&input.resources, &input.drives, None, resources::SEED)?;
    if !input.zip.is_empty() {
        let cause = "partition takes records as they are: no --zip";
        return Err(Error::usage("read arguments", cause).hint("write them with zip first"));
    }
    let refuse = |cause: &str, hint: &str| {
        let error = Error::usage("create output", cause).path(&args.output);
        Err(error.hint(hint))
    };
    let Some(pattern) = args.output.to_str() else {
        let cause = "its name is not UTF-8, and the manifest of the parts is";
        return refuse(cause, "give another name");
    };
    if !pattern.contains(PART) {
        return refuse(
            "its name has no {part} in it",
            "write for example 'part-{part}.bin'",
        );
    }
    check_parts_name(&args.output)?;
    // As many digits as the last has, so that names sort as the parts do.
    let digits = (args.parts - 1).to_string().len();
    let path = |part: u32| PathBuf::from(pattern.replace(PART, &format!("{part:0digits$}")));
    let mut files = BucketFiles {
        paths: (0..args.parts).map(path).collect(),
        manifest: PathBuf::from(manifest_name(pattern)),
        replace: input.force,
        header: None,
    };
    let target = Target::Shards {
        paths: files.paths.clone(),
        manifest: files.manifest.clone(),
    };
    output::check_new(
        &target,
        &input::sources(context, input)?,
        input.force,
        Holds::Records,
    )?;
    let mut prepared = input::prepare(context, input, resources, Some(&target))?;
    let decided = prepared.execution.item()?;
    files.header = output::header_for(&Target::File(pattern.into()), &[], &decided)?;
    let fates = &[Fate::Distributed("distribute")];
    if explain(context, input, &prepared, ("partition", fates), 1)? {
        return Ok(0);
    }
    begin(context, &prepared, Some(&target))?;
    let (job, execution) = (&prepared.job, &mut prepared.execution);
    let (reporter, interrupt) = (&context.reporter, &context.interrupt);
    let weights = [("distribute", 1.0)];
    let (counts, done) = watch(reporter, interrupt, &job.control, &weights, || {
        execution.distribute(&args.expression, &files)
    })?;
    let told = finish(context, &mut prepared, (&done, input.explain), |summary| {
        let output = json!(target.name().display().to_string());
        summary.with("output", output).with("counts", json!(counts))
    });
    for (path, count) in files.paths.iter().zip(&counts) {
        context
            .reporter
            .data(&format!("{count}\t{}\n", path.display()));
    }
    told
}

/// The pattern's name without the placeholder and what ties it to the rest.
fn manifest_name(pattern: &str) -> String {
    let mut name = pattern.to_string();
    for tie in ["-", "_", ".", ""] {
        name = name.replace(&format!("{tie}{PART}"), "");
    }
    format!("{name}{MANIFEST_SUFFIX}")
}
