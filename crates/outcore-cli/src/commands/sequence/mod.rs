//! The primitives on the command line: `map`, `filter`, `reduce` and their like.
//!
//! Contract: each is one pass of [`outcore::primitives`] over its input, refined by `--where`
//! (and `--map`) on the way. Outputs follow the rules of `sort`. Results that are numbers go to
//! standard output, one a line.

mod lookup;
mod write;

use outcore::dataset::{Step, Summary as Done};
use outcore::primitives::producer::Producer;
use outcore::primitives::tables::{top_by_sort, top_table_for};
use outcore::primitives::write::Fate;
use outcore::primitives::{PassPlan, Reduction, Scalar};
use outcore::sort::SortOptions;
use outcore::{Error, Kind, Result};
use outcore_front::cost::{DriveTraffic, bandwidth_fraction};
use outcore_front::output::Target;
use outcore_io::units;
use outcore_verbs::report::Rates;
use serde_json::{Value, json};

use super::table;
use crate::cli::sequence::{
    FindArgs, HistogramArgs, InputArgs, ReduceArgs, SequenceCommand, TopArgs,
};
use outcore_verbs::sequence::input::{self, Prepared};

use crate::context::Context;
use crate::measure::{Summary, drives_json, phases_json, predicted_json, rate_text};
use crate::progress::watch;
use crate::resources;

/// Bytes that a number in a summary takes at most: as a value, in the event, and as text.
const JSON_BYTES: u64 = 160;

/// Runs the subcommand.
pub(crate) fn run(context: &Context, command: &SequenceCommand) -> Result<u8> {
    match command {
        SequenceCommand::Map(args) if input::is_table(context, &args.input, &args.tables)? => {
            table::map(context, args)
        }
        SequenceCommand::Filter(args) if input::is_table(context, &args.input, &args.tables)? => {
            table::filter(context, args)
        }
        SequenceCommand::Merge(args) if input::is_table(context, &args.input, &args.tables)? => {
            table::merge(context, args)
        }
        SequenceCommand::Map(args) => {
            let steps = vec![Step::Map(args.expression.clone())];
            write::write(context, (&args.input, &args.output), "map", steps)
        }
        SequenceCommand::Filter(args) => {
            let steps = vec![Step::Filter(args.expression.clone())];
            write::write(context, (&args.input, &args.output), "filter", steps)
        }
        SequenceCommand::FlatMap(args) => {
            let steps = vec![Step::FlatMap(expressions_of(&args.expressions))];
            write::write(context, (&args.input, &args.output), "flat-map", steps)
        }
        SequenceCommand::Enumerate(args) => write::enumerate(context, args),
        SequenceCommand::Windows(args) => {
            let steps = vec![Step::Windows(args.window_records)];
            write::write(context, (&args.input, &args.output), "windows", steps)
        }
        SequenceCommand::Reverse(args) => {
            let to = (&args.input, &args.output);
            write::write(context, to, "reverse", vec![Step::Reverse])
        }
        SequenceCommand::Merge(args) => {
            if !args.input.conditions.is_empty()
                || !args.input.zip.is_empty()
                || args.input.count.is_some()
            {
                let cause = "merge takes files as they are: no --where, --zip or --count";
                let error = Error::usage("read arguments", cause);
                return Err(error.hint("merge first, then filter or zip"));
            }
            let options = SortOptions {
                descending: args.descending,
                stable: args.stable,
                ..SortOptions::default()
            };
            let steps = vec![Step::Merge { by: None, options }];
            write::write(context, (&args.input, &args.output), "merge", steps)
        }
        SequenceCommand::Zip(args) if args.input.zip.is_empty() => {
            Err(Error::usage("read arguments", "zip needs a second file")
                .hint("name it with --zip; several inputs in a row are read as one"))
        }
        SequenceCommand::Zip(args) => {
            write::write(context, (&args.input, &args.output), "zip", Vec::new())
        }
        SequenceCommand::Reduce(args) => reduce(context, args),
        SequenceCommand::Scan(args) => write::scan(context, args),
        SequenceCommand::Histogram(args) => histogram(context, args),
        SequenceCommand::Top(args) => top(context, args),
        SequenceCommand::Find(args) => find(context, args),
        SequenceCommand::Partition(args) => write::partition(context, args),
        SequenceCommand::Gather(args) => write::gather_at(context, args),
        SequenceCommand::Lookup(args) => lookup::lookup(context, args),
    }
}

/// The input of a command that prints, refined by `--map`; nothing if only the plan was wanted.
fn printing(
    context: &Context,
    input: &InputArgs,
    map: Option<&String>,
    consumer: (&str, &[Fate]),
) -> Result<Option<Prepared>> {
    let resources = resources::load(&input.resources, &input.drives, None, resources::SEED)?;
    let mut prepared = input::prepare(context, input, resources, None)?;
    if let Some(map) = map {
        prepared.execution.then(Step::Map(map.clone()))?;
    }
    if explain(context, input, &prepared, consumer, 1)? {
        return Ok(None);
    }
    begin(context, &prepared, None)?;
    Ok(Some(prepared))
}

fn histogram(context: &Context, args: &HistogramArgs) -> Result<u8> {
    let fates = match args.range {
        Some(_) => &[Fate::Folded("histogram")][..],
        // The range is found first.
        None => &[Fate::Folded("reduce"), Fate::Folded("histogram")],
    };
    let (map, consumer) = (args.step.map.as_ref(), ("histogram", fates));
    let Some(mut prepared) = printing(context, &args.input, map, consumer)? else {
        return Ok(0);
    };
    let (job, execution) = (&prepared.job, &mut prepared.execution);
    let (reporter, interrupt) = (&context.reporter, &context.interrupt);
    let weights = [("histogram", 1.0)];
    let bins = args.bins as usize;
    let (found, done) = watch(reporter, interrupt, &job.control, &weights, || {
        execution.histogram(bins, args.range)
    })?;
    let (low, high) = found.range;
    let told = finish(
        context,
        &mut prepared,
        (&done, args.input.explain),
        |summary| {
            summary
                .with("range", json!([low, high]))
                .with("counts", json!(found.counts))
        },
    );
    for (bin, count) in found.counts.iter().enumerate() {
        let (from, to) = (found.border(bin), found.border(bin + 1));
        let line = format!("{from}\t{to}\t{count}\n");
        context.reporter.data(&line);
    }
    told
}

fn top(context: &Context, args: &TopArgs) -> Result<u8> {
    let consumer = ("top", &[Fate::Folded("top")][..]);
    let Some(mut prepared) = printing(context, &args.input, args.step.map.as_ref(), consumer)?
    else {
        return Ok(0);
    };
    let (job, table) = (&prepared.job, prepared.table()?);
    let (reporter, interrupt) = (&context.reporter, &context.interrupt);
    let weights = [("top", 1.0)];
    // Numbers that go to standard output need no memory; in a summary they would.
    let may_sort = |error: &Error| error.kind() == Kind::Memory && !reporter.is_json();
    let more_bytes = if reporter.is_json() { JSON_BYTES } else { 0 };
    let find = || match top_table_for(job, table, (args.k, args.smallest), more_bytes) {
        Err(error) if may_sort(&error) => {
            let print = &mut |value: Scalar| {
                reporter.data(&format!("{value}\n"));
                job.control.check()
            };
            let k = args.k as u64;
            top_by_sort(job, table, k, args.smallest, print).map(|done| (Vec::new(), done))
        }
        found => found,
    };
    let (best, done) = watch(reporter, interrupt, &job.control, &weights, find)?;
    let told = finish(
        context,
        &mut prepared,
        (&done, args.input.explain),
        |summary| {
            match context.reporter.is_json() {
                true => summary.with(
                    "results",
                    best.iter().map(|value| scalar_json(*value)).collect(),
                ),
                // Nobody reads them there, and they may be many.
                false => summary,
            }
        },
    );
    for value in &best {
        context.reporter.data(&format!("{value}\n"));
    }
    told
}

fn find(context: &Context, args: &FindArgs) -> Result<u8> {
    if !args.input.conditions.is_empty() {
        let cause = "find says where a record is in the input, which --where would change";
        let error = Error::usage("read arguments", cause);
        return Err(error.hint("leave --where out, and write both as one: find '(A) && (B)'"));
    }
    let Some(mut prepared) = printing(
        context,
        &args.input,
        None,
        ("find", &[Fate::Sought("find")]),
    )?
    else {
        return Ok(0);
    };
    let (job, execution) = (&prepared.job, &mut prepared.execution);
    let (reporter, interrupt) = (&context.reporter, &context.interrupt);
    let weights = [("find", 1.0)];
    let (found, done) = watch(reporter, interrupt, &job.control, &weights, || {
        execution.find(&args.expression)
    })?;
    let told = finish(
        context,
        &mut prepared,
        (&done, args.input.explain),
        |summary| summary.with("position", json!(found)),
    );
    if let Some(position) = found {
        context.reporter.data(&format!("{position}\n"));
    }
    told.map(|code| match found {
        Some(_) => code,
        None => 1,
    })
}

fn reduce(context: &Context, args: &ReduceArgs) -> Result<u8> {
    let consumer = format!("reduce {}", args.how);
    let consumer = (&*consumer, &[Fate::Folded("reduce")][..]);
    let Some(mut prepared) = printing(context, &args.input, args.step.map.as_ref(), consumer)?
    else {
        return Ok(0);
    };
    let reductions = reductions_of(&args.how);
    let (reporter, interrupt) = (&context.reporter, &context.interrupt);
    let (job, execution) = (&prepared.job, &mut prepared.execution);
    let weights = [("reduce", 1.0)];
    let (scalars, done) = watch(reporter, interrupt, &job.control, &weights, || {
        execution.reduce(&reductions)
    })?;
    let results: Vec<Value> = reductions
        .iter()
        .zip(&scalars)
        .map(|(how, scalar)| json!({"how": how.to_string(), "value": scalar_json(*scalar)}))
        .collect();
    let told = finish(
        context,
        &mut prepared,
        (&done, args.input.explain),
        |summary| summary.with("results", Value::Array(results)),
    );
    for (how, scalar) in reductions.iter().zip(&scalars) {
        match scalars.len() {
            1 => context.reporter.data(&format!("{scalar}\n")),
            _ => context.reporter.data(&format!("{how}\t{scalar}\n")),
        }
    }
    context.reporter.detail(&format!(
        "read {}, {}, in {}: {}",
        units::counted(done.records_in, "record"),
        units::bytes(done.read_bytes),
        units::seconds(done.seconds),
        rate_text(done.read_bytes, done.seconds),
    ));
    told
}

/// Expressions with commas between, but for those within parentheses.
fn expressions_of(text: &str) -> Vec<String> {
    let mut depth = 0_i32;
    let parts = text.split(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    });
    parts.map(|part| part.trim().to_string()).collect()
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

/// Shows the plan of what goes into `outs` files where it is asked for; true if that is all.
fn explain(
    context: &Context,
    input: &InputArgs,
    prepared: &Prepared,
    (consumer, fates): (&str, &[Fate]),
    outs: usize,
) -> Result<bool> {
    show(context, input, || {
        prepared.execution.plan(consumer, fates, outs)
    })
}

/// Shows a plan where it is asked for; true if that is all.
fn show(
    context: &Context,
    input: &InputArgs,
    plan: impl FnOnce() -> Result<PassPlan>,
) -> Result<bool> {
    if !input.explain && !input.dry_run {
        return Ok(false);
    }
    let plan = plan()?;
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
        "phases": predicted_json(&plan.phases),
        "rates": Rates::of(&plan.rates, None),
    })
}

fn begin(context: &Context, prepared: &Prepared, target: Option<&Target>) -> Result<()> {
    let table = prepared.table()?;
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
            "type": table.format().to_string(),
            "record_bytes": table.item_bytes(),
            "memory_bytes": job.options.memory_bytes,
            "threads": job.options.threads,
            "io": prepared.resources.config.io.value.name(),
        }),
    );
    Ok(())
}

/// Says what was done; gives the exit code.
fn finish(
    context: &Context,
    prepared: &mut Prepared,
    (done, is_explained): (&Done, bool),
    more: impl FnOnce(Summary) -> Summary,
) -> Result<u8> {
    let traffic: Vec<DriveTraffic> = done.drives.iter().map(DriveTraffic::of).collect();
    let set = &prepared.resources.config.drives.value;
    let summary = Summary {
        records: done.records,
        seconds: done.seconds,
        read_bytes: done.read_bytes,
        written_bytes: done.written_bytes,
        passes: done.passes,
        bandwidth_fraction: bandwidth_fraction(&traffic, done.seconds, set),
        ..Summary::default()
    };
    let summary = summary
        .with("drives", drives_json(&traffic))
        .with("phases", phases_json(&done.phases));
    let summary = more(summary);
    context.reporter.summary(&summary);
    if let Some(text) = summary.bandwidth_text() {
        context.reporter.human(&format!("  {text}"));
    }
    context.reporter.phases(&done.phases, is_explained);
    Ok(0)
}
