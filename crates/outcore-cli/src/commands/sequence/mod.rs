//! The primitives on the command line: `map`, `filter`, `zip`, `reduce`.
//!
//! Contract: each is one pass of [`outcore::algo::sequence`] over its input, refined by `--where`
//! (and `--map`) on the way. Outputs follow the rules of `sort`. Results that are numbers go to
//! standard output, one a line.

mod args;
mod input;

use outcore::algo::sequence::producer::Producer;
use outcore::algo::sequence::write::{plan_of, produce};
use outcore::algo::sequence::{PassPlan, PassSummary, Reduction, Scalar, Table, reduce_table};
use outcore::{Result, units};
use outcore_formats::cost::{DriveTraffic, bandwidth_fraction};
use outcore_formats::inputs::Streams;
use outcore_formats::output::{self, Consent, Target};
use outcore_formats::records::Decided;
use serde_json::{Value, json};

pub(crate) use args::SequenceCommand;
use args::{InputArgs, OutputArgs, ReduceArgs};
use input::Prepared;

use super::Context;
use crate::measure::{Summary, drives_json, rate_text};
use crate::progress::watch;
use crate::{CLOSED_PIPE, means, pipe};

/// Runs the subcommand.
pub(crate) fn run(context: &Context, command: &SequenceCommand) -> Result<u8> {
    match command {
        SequenceCommand::Map(args) => {
            let refine = |table: &Table| table.map(&args.expression);
            write(context, &args.input, &args.output, "mapped", refine)
        }
        SequenceCommand::Filter(args) => {
            let refine = |table: &Table| table.filter(&args.expression);
            write(context, &args.input, &args.output, "filtered", refine)
        }
        SequenceCommand::Zip(args) => {
            let refine = |table: &Table| Ok(table.clone());
            write(context, &args.input, &args.output, "zipped", refine)
        }
        SequenceCommand::Reduce(args) => reduce(context, args),
    }
}

/// One pass from files to an output.
fn write(
    context: &Context,
    input: &InputArgs,
    to: &OutputArgs,
    what: &str,
    refine: impl Fn(&Table) -> Result<Table>,
) -> Result<u8> {
    let means = means::load(&input.means, &input.drives, None, means::SEED)?;
    let consent = Consent {
        force: input.force,
        replace: false,
    };
    let sources = input::sources(input)?;
    let name = Some(to.output.as_path());
    let target = output::choose(name, &sources, means.specs(), consent, Streams::Taken)?;
    let mut prepared = input::prepare(context, input, means, Some(&target))?;
    prepared.table = refine(&prepared.table)?;
    if explain(context, input, &prepared, "write")? {
        return Ok(0);
    }
    let table = &prepared.table;
    // A header of the input names fields that a mapped output no longer has.
    let decided = match &prepared.decided {
        Some(decided) if decided.format == *table.format() => decided.clone(),
        _ => Decided::from(table.format().clone()),
    };
    let header = output::header_for(&target, &prepared.inputs, &decided)?;
    begin(context, &prepared, Some(&target));
    let job = &prepared.job;
    let to = target.to_sort(header, |path| pipe::open(path, &job.control))?;
    let (reporter, interrupt) = (&context.reporter, &context.interrupt);
    let weights = [("write", 1.0)];
    let done = watch(reporter, interrupt, &job.control, &weights, || {
        produce(job, table, &to, input.force)
    });
    let done = match done {
        Ok(done) => done,
        Err(error) if pipe::is_closed(&target, &error) => return Ok(CLOSED_PIPE),
        Err(error) => return Err(error),
    };
    let told = finish(context, &mut prepared, &done, |summary| {
        summary.with("output", json!(target.name().display().to_string()))
    });
    context.reporter.human(&format!(
        "{what} {} records to {}, {}, in {}: {}",
        units::count(done.records_in),
        units::count(done.records),
        units::bytes(done.read_bytes),
        units::seconds(done.seconds),
        rate_text(done.read_bytes.max(done.written_bytes), done.seconds),
    ));
    told
}

fn reduce(context: &Context, args: &ReduceArgs) -> Result<u8> {
    let input = &args.input;
    let means = means::load(&input.means, &input.drives, None, means::SEED)?;
    let mut prepared = input::prepare(context, input, means, None)?;
    if let Some(map) = &args.map {
        prepared.table = prepared.table.map(map)?;
    }
    if explain(context, input, &prepared, &format!("reduce {}", args.how))? {
        return Ok(0);
    }
    begin(context, &prepared, None);
    let reductions = reductions_of(&args.how);
    let (reporter, interrupt) = (&context.reporter, &context.interrupt);
    let (job, table) = (&prepared.job, &prepared.table);
    let weights = [("reduce", 1.0)];
    let (scalars, done) = watch(reporter, interrupt, &job.control, &weights, || {
        reduce_table(job, table, &reductions)
    })?;
    let results: Vec<Value> = reductions
        .iter()
        .zip(&scalars)
        .map(|(how, scalar)| json!({"how": how.to_string(), "value": scalar_json(*scalar)}))
        .collect();
    let told = finish(context, &mut prepared, &done, |summary| {
        summary.with("results", Value::Array(results))
    });
    for (how, scalar) in reductions.iter().zip(&scalars) {
        match scalars.len() {
            1 => context.reporter.data(&format!("{scalar}\n")),
            _ => context.reporter.data(&format!("{how}\t{scalar}\n")),
        }
    }
    context.reporter.detail(&format!(
        "read {} records, {}, in {}: {}",
        units::count(done.records_in),
        units::bytes(done.read_bytes),
        units::seconds(done.seconds),
        rate_text(done.read_bytes, done.seconds),
    ));
    told
}

/// One expression, or names with commas between.
fn reductions_of(how: &str) -> Vec<Reduction> {
    let parts: Vec<Reduction> = how.split(',').map(Reduction::parse).collect();
    let is_expression = |part: &Reduction| matches!(part, Reduction::Expression(_));
    match parts.iter().any(is_expression) {
        true => vec![Reduction::parse(how)],
        false => parts,
    }
}

/// A number as JSON has it: text where it has no such number.
fn scalar_json(scalar: Scalar) -> Value {
    match scalar {
        Scalar::Int(value) => match (u64::try_from(value), i64::try_from(value)) {
            (Ok(value), _) => json!(value),
            (_, Ok(value)) => json!(value),
            _ => json!(value.to_string()),
        },
        Scalar::Float(value) if value.is_finite() => json!(value),
        Scalar::Float32(value) if value.is_finite() => json!(value),
        Scalar::None => Value::Null,
        other => json!(other.to_string()),
    }
}

/// Shows the plan where it is asked for; true if that is all.
fn explain(
    context: &Context,
    input: &InputArgs,
    prepared: &Prepared,
    consumer: &str,
) -> Result<bool> {
    if !input.explain && !input.dry_run {
        return Ok(false);
    }
    let plan = plan_of(&prepared.job, &prepared.table, consumer)?;
    let reporter = &context.reporter;
    if input.dry_run {
        reporter.data(&format!("{plan}\n"));
        reporter.event("plan", plan_json(&plan));
        reporter.summary(&Summary::default());
    } else {
        reporter.human(&plan.to_string());
    }
    Ok(input.dry_run)
}

fn plan_json(plan: &PassPlan) -> Value {
    json!({
        "steps": plan.steps,
        "passes": plan.reads,
        "data_bytes": plan.data_bytes,
        "piece_bytes": plan.piece_bytes,
        "window": plan.window,
        "threads": plan.threads,
    })
}

fn begin(context: &Context, prepared: &Prepared, target: Option<&Target>) {
    let names = prepared.inputs.iter();
    let names: Vec<String> = names
        .map(|input| input.source.name.display().to_string())
        .collect();
    let job = &prepared.job;
    context.reporter.event(
        "begin",
        json!({
            "inputs": names,
            "output": target.map(|target| target.name().display().to_string()),
            "type": prepared.table.format().to_string(),
            "record_bytes": prepared.table.item_bytes(),
            "memory_bytes": job.options.memory_bytes,
            "threads": job.options.threads,
            "io": prepared.means.config.io.value.name(),
        }),
    );
}

/// Says what was done; gives the exit code.
fn finish(
    context: &Context,
    prepared: &mut Prepared,
    done: &PassSummary,
    more: impl FnOnce(Summary) -> Summary,
) -> Result<u8> {
    let trace = means::finish(prepared.recording.take());
    let told = trace.as_ref().ok().cloned().flatten();
    let traffic: Vec<DriveTraffic> = done.drives.iter().map(DriveTraffic::of).collect();
    let set = &prepared.means.config.drives.value;
    let summary = Summary {
        records: done.records,
        seconds: done.seconds,
        read_bytes: done.read_bytes,
        written_bytes: done.written_bytes,
        passes: done.passes,
        bandwidth_fraction: bandwidth_fraction(&traffic, done.seconds, set),
        ..Summary::default()
    };
    let summary = summary.with("drives", drives_json(&traffic));
    let summary = more(summary).with_trace(told.as_ref());
    context.reporter.summary(&summary);
    if let Some(text) = summary.bandwidth_text() {
        context.reporter.human(&format!("  {text}"));
    }
    means::tell_trace(&context.reporter, told.as_ref());
    trace.map(|_| 0)
}
