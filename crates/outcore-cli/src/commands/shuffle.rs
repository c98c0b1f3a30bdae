//! `outcore shuffle`: lines or records in a uniformly random order.
//!
//! Contract: what the input is, is decided as for `sort`: a type that is named, or an array of
//! NumPy, means records; all else is lines, or records of CSV after their header. The order comes
//! from [`outcore::shuffle`] and depends on seed, epoch and input alone.

use outcore::Result;
use outcore::job::JobSize;
use outcore::shuffle::{ShuffleOptions, ShuffleSize, ShuffleSummary, Unit, plan_shuffle, shuffle};
use outcore::{Input, Output};
use outcore_front::inputs::{ResolvedInput, look, refuse_streams};
use outcore_front::output::{check_room, header_for, loses_header};
use outcore_front::records;
use outcore_front::text::csv_files::Look;
use outcore_front::text::output::{Dress, Pending};
use outcore_front::what::Asked;
use serde_json::json;

use super::table;
use crate::cli::commands::ShuffleArgs;
use crate::cli::lines::Rows;
use crate::context::Context;
use crate::lines::{Done, LineJob, LineRequest, Overwrite, find, format_beside, what_is_moved};
use crate::measure::plan_json;
use crate::pipe::CLOSED_PIPE;
use crate::{pipe, resources};

/// What is shuffled, from where to where.
struct Prepared {
    unit: Unit,
    inputs: Vec<Input>,
    output: Output,
    pending: Option<Pending>,
    what: String,
}

/// Runs the subcommand.
pub(crate) fn run(context: &Context, args: &mut ShuffleArgs) -> Result<u8> {
    let settings = resources::load(
        &args.resources,
        &args.drives,
        args.scratch.limit_bytes,
        args.seed,
    )?
    .measuring(args.explain || args.dry_run);
    let flags = args.rows.text_flags()?;
    let asked = Asked {
        inputs: &args.files.inputs,
        output: args.files.output.as_deref(),
        is_records: args.record.is_typed(),
        is_lines: args.lines.is_lines,
        text: flags.kind(),
        is_table: args.tables.is_given() || !args.by.is_empty(),
        piped: args.tables.piped(),
        ..Asked::default()
    };
    let what = what_is_moved(context, asked, args.lines)?;
    if what.is_table() {
        return table::shuffle(context, args, settings);
    }
    args.rows.settle(what);
    let (rows, types) = (args.rows.to_rows()?, args.record.to_request());
    let recognition = args.lines.recognition(rows.separator());
    let sources = find(context, &args.files.inputs)?;
    if args.dry_run {
        refuse_streams(&sources, "plan shuffle")?;
    }
    let has_type = format_beside(context, &rows, &types, (&sources, recognition))?.is_some();
    let request = LineRequest {
        inputs: &args.files.inputs,
        output: args.files.output.as_deref(),
        overwrite: Overwrite::of(args.files.force),
        record_io: &args.record_io,
        force: args.files.force,
        takes_records: has_type,
        recognition,
    };
    let mut job = LineJob::prepare(context, settings, &request)?;
    let prepared = match has_type {
        true => prepare_records(context, args, &job)?,
        false => prepare_lines(context, args, &rows, &mut job)?,
    };
    if args.explain || args.dry_run {
        let plan = plan_shuffle(size_of(&job, prepared.unit))?.to_string();
        if args.dry_run {
            job.finish_planned(context, &plan, name_of(prepared.unit));
            return Ok(0);
        }
        context.reporter.human(&plan);
    }
    let options = ShuffleOptions {
        unit: prepared.unit,
        seed: args.seed,
        epoch: args.epoch,
        replace: job.replace,
    };
    job.begin(
        context,
        json!({"type": prepared.what, "seed": args.seed, "epoch": args.epoch}),
    );
    let done = job.watch(context, || {
        let done = shuffle(&job.job, &prepared.inputs, prepared.output, options);
        match prepared.pending {
            Some(pending) => pending.finish(done),
            None => done,
        }
    });
    let summary = match done {
        // A reader that has seen enough is not an error.
        Err(error) if pipe::is_closed(&job.target, &error) => return Ok(CLOSED_PIPE),
        done => done?,
    };
    job.finish(context, told(summary, options.unit));
    Ok(0)
}

fn prepare_lines(
    context: &Context,
    args: &ShuffleArgs,
    rows: &Rows,
    job: &mut LineJob,
) -> Result<Prepared> {
    let (terminator, dress) = match rows {
        Rows::Csv(csv) => {
            let csv = job.settle_csv(context, csv, Look::Whole)?;
            (csv.terminator(), csv.dress)
        }
        Rows::Json => {
            job.settle_json()?;
            (args.lines.terminator(), Dress::default())
        }
        Rows::Lines => (args.lines.terminator(), Dress::default()),
    };
    let (output, pending) = job.open_output(&dress)?;
    Ok(Prepared {
        unit: Unit::Lines {
            terminator,
            drops_blanks: matches!(rows, Rows::Json),
        },
        inputs: job.inputs(),
        output,
        pending: Some(pending),
        what: "lines".to_string(),
    })
}

fn prepare_records(context: &Context, args: &ShuffleArgs, job: &LineJob) -> Result<Prepared> {
    let inputs: Result<Vec<ResolvedInput>> = job.files.iter().cloned().map(look).collect();
    let inputs = inputs?;
    let decided = records::decide(&args.record.to_request(), &inputs)?;
    check_room(
        job.resources.device().as_ref(),
        &job.target,
        inputs.iter().map(|input| input.data_bytes).sum(),
    )?;
    let header = header_for(&job.target, &inputs, &decided)?;
    if let Some(lost) = loses_header(&job.target, &inputs, header.as_ref()) {
        context.reporter.note(&lost);
    }
    let control = &job.job.control;
    Ok(Prepared {
        unit: Unit::Records {
            record_bytes: decided.format.record_bytes(),
        },
        inputs: inputs.iter().map(ResolvedInput::to_sort).collect(),
        output: job
            .target
            .to_sort(header, |path| pipe::open(path, control))?,
        pending: None,
        what: decided.format.to_string(),
    })
}

fn size_of(job: &LineJob, unit: Unit) -> ShuffleSize {
    ShuffleSize {
        job: JobSize::of(&job.job, job.data_bytes, job.job.options.drives.len()),
        record_bytes: match unit {
            Unit::Records { record_bytes } => Some(record_bytes),
            Unit::Lines { .. } => None,
        },
        longest_bytes: None,
    }
}

/// What is shuffled, in a word.
fn name_of(unit: Unit) -> &'static str {
    match unit {
        Unit::Lines { .. } => "line",
        Unit::Records { .. } => "record",
    }
}

fn told(summary: ShuffleSummary, unit: Unit) -> Done {
    Done {
        what: "shuffled",
        lines: summary.records,
        unit: name_of(unit),
        read_bytes: summary.read_bytes,
        written_bytes: summary.written_bytes,
        scratch_bytes: summary.scratch_bytes,
        passes: 1 + summary.plan.distributions,
        drives: summary.drives,
        phases: summary.phases,
        more: vec![("plan", plan_json(&summary.plan))],
    }
}
