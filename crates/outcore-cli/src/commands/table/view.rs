//! `outcore view` of tables: built, added to, read by row number and by key, written as a table.
//!
//! Contract: as the folder's, and that of `commands/view.rs`, which comes here where the input, or
//! the view, is a table.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use outcore::runs::{BuildOptions, SortedView};
use outcore::{Error, Job, Result};
use outcore_front::output::Target;
use outcore_front::resources::Resources;
use outcore_front::what::{Asked, What};
use outcore_io::output::NewDir;
use outcore_table::input::{InputOptions, TextOptions};
use outcore_table::jobs::TableOrder;
use outcore_table::jobs::view::{TableView, append, build};
use outcore_table::output::TableFormat;
use serde_json::json;

use super::report::{Done, say_done};
use super::{READ, Request, keys_of, reads, text};
use crate::cli::view::{ViewAppendArgs, ViewBuildArgs, ViewCatArgs, ViewMaterializeArgs};
use crate::commands::view_report::{
    BUILD, MERGE, begin, holds_all, recorded, show_plan, summarise_built, tell_built, wanted_by,
};
use crate::context::Context;
use crate::measure::Summary;
use crate::pipe::{self, CLOSED_PIPE};
use crate::progress::watch;
use outcore_verbs::host::{Host, Kept};
use outcore_verbs::option::tables::TableArgs;
use outcore_verbs::report::Stopwatch;
use outcore_verbs::tables::outputs::{check_inputs_kept, outputs_of, sources_of};
use outcore_verbs::tables::report::Done as _;
use outcore_verbs::tables::unpacked;
use outcore_verbs::tables::{Outputs, Ran};

/// `outcore view build` of a table.
pub(crate) fn view_build(
    context: &Context,
    args: &ViewBuildArgs,
    (resources, tables): (Resources, &TableArgs),
) -> Result<u8> {
    let started = Instant::now();
    let flags = args.text.text_flags(args.order.separator()?);
    if args.unique {
        return Err(holds_all());
    }
    let keys = keys_of(&args.text.by, args.descending)?;
    let text = text::options(tables, &flags, &args.inputs)?.needing_keys(&keys)?;
    let place = context.files.output(&args.output, args.force)?;
    let sources = sources_of(context, &args.inputs)?;
    check_inputs_kept(&sources, (&args.inputs, &[place.to_path_buf()]), false)?;
    let output = Target::File(place.to_path_buf());
    let kept = Kept {
        sources: &sources,
        target: Some(&output),
        force: args.force,
        ..Kept::default()
    };
    let resources = context
        .start(resources, &args.record_io, kept)?
        .measuring(args.explain);
    let job = resources.planned_job(resources.named_drives(0)?, &output.dir());
    begin(context, &job, &args.inputs, &args.output);
    if args.explain {
        context.reporter.show_plans(&job.control);
    }
    let order = TableOrder {
        keys,
        is_stable: args.stable,
        is_descending: args.descending,
    };
    let options = BuildOptions {
        replace: args.force,
        run_bytes: args.run_bytes,
        ..BuildOptions::default()
    };
    let reads = reads(tables, &text);
    let new_dir = NewDir::make(job.device.as_ref(), "make view", &place)?;
    let dir = std::path::absolute(&place).unwrap_or_else(|_| place.to_path_buf());
    let (reporter, interrupt) = (&context.reporter, &context.interrupt);
    let (view, built) = watch(reporter, interrupt, &job.control, &BUILD, || {
        let from = (&args.inputs[..], reads);
        of_inputs(context, (&job, &resources), from, &output.dir(), |from| {
            build(&job, from, &order, &dir, options)
        })
    })?;
    new_dir.keep();
    tell_built(context, (started, args.explain), view.sorted(), &built);
    note(context, &text);
    summarise_built(context, &resources, started, view.sorted(), &built);
    Ok(0)
}

/// `outcore view append` to a view of a table.
pub(crate) fn view_append(
    context: &Context,
    args: &ViewAppendArgs,
    (resources, known): (Resources, SortedView),
) -> Result<u8> {
    let started = Instant::now();
    let flags = args.text.flags()?;
    let asked = Asked {
        inputs: &args.inputs,
        text: flags.kind(),
        is_table: true,
        ..Asked::default()
    };
    let what = context.what(asked)?;
    context.check_options(if what.is_table() { what } else { What::Table }, asked)?;
    let sources = sources_of(context, &args.inputs)?;
    let kept = Kept {
        sources: &sources,
        force: args.trace.force,
        ..Kept::default()
    };
    let resources = recorded(context, resources, (&args.trace.record_io, &args.dir), kept)?
        .measuring(args.explain);
    let known = TableView::of(known)?;
    let job = resources.planned_job(resources.named_drives(0)?, &args.dir);
    let dir = std::path::absolute(&args.dir).unwrap_or_else(|_| args.dir.clone());
    begin(context, &job, &args.inputs, &args.dir);
    if args.explain {
        context.reporter.show_plans(&job.control);
    }
    let tables = TableArgs::from(&args.bad_rows);
    let text = text::options(&tables, &flags, &args.inputs)?;
    let reads = reads(&tables, &text);
    let (reporter, interrupt) = (&context.reporter, &context.interrupt);
    let (view, built) = watch(reporter, interrupt, &job.control, &BUILD, || {
        let from = (&args.inputs[..], reads);
        of_inputs(context, (&job, &resources), from, &args.dir, |from| {
            append(&job, from, &known, &dir, BuildOptions::default())
        })
    })?;
    tell_built(context, (started, args.explain), view.sorted(), &built);
    note(context, &text);
    summarise_built(context, &resources, started, view.sorted(), &built);
    Ok(0)
}

/// Says what was told of text.
fn note(context: &Context, text: &TextOptions) {
    for line in text.take_notes() {
        context.reporter.human(&format!("  {line}"));
    }
}

/// What `work` makes of the inputs; compressed text is unpacked first.
fn of_inputs<T>(
    context: &Context,
    with: (&Job, &Resources),
    (inputs, mut reads): (&[PathBuf], InputOptions),
    beside: &Path,
    work: impl FnOnce((&[PathBuf], &InputOptions)) -> Result<T>,
) -> Result<T> {
    let kind = reads.text.as_ref().and_then(|text| text.kind);
    let (copies, _spool) = unpacked(context, with, (inputs, kind), beside)?;
    reads.copies = copies;
    work((inputs, &reads))
}

/// `outcore view cat` of a table: rows as `outcore head` prints them.
pub(crate) fn view_cat(context: &Context, args: &ViewCatArgs, view: SortedView) -> Result<u8> {
    let started = Instant::now();
    let view = TableView::of(view)?;
    let (reporter, interrupt) = (&context.reporter, &context.interrupt);
    let sorted = view.sorted();
    let job = sorted.job();
    let (before_bytes, _) = sorted.traffic_bytes();
    let printed = watch(reporter, interrupt, &job.control, &MERGE, || {
        let wanted = wanted_by(&args.range, sorted.len(), |text| {
            view.find(&view.key_of(text)?)
        })?;
        let wanted = wanted.unwrap_or(0..sorted.len());
        if args.explain {
            let phase = view.plan_write(wanted.end - wanted.start);
            show_plan(context, sorted, "read view -> cat", phase);
        }
        let mut sink = pipe::open(None, &job.control)?;
        let mut write = |text: &[u8]| {
            let written = sink.write_all(text);
            written.map_err(|error| Error::io("write output", &error))
        };
        let format = TableFormat::printed(view.schema());
        let mut text = format.front(view.schema());
        write(&text)?;
        let rows = wanted.end - wanted.start;
        let mut batches = view.batches(wanted, sorted.reader_bytes(1))?;
        while let Some(batch) = batches.next_batch()? {
            text.clear();
            format.print(&batch, &mut text)?;
            write(&text)?;
            job.control.check()?;
        }
        sink.flush()
            .map_err(|error| Error::io("write output", &error))?;
        Ok(rows)
    });
    let printed = match printed {
        Err(error) if pipe::is_closed(&Target::Pipe(None), &error) => return Ok(CLOSED_PIPE),
        printed => printed?,
    };
    let (read_bytes, _) = sorted.traffic_bytes();
    let summary = Summary {
        records: printed,
        read_bytes: read_bytes - before_bytes,
        passes: 1,
        ..Summary::since(started)
    };
    reporter.summary(&summary.with("output", json!("-")));
    Ok(0)
}

/// The order of the rows of a view of a table, in words.
pub(crate) fn view_order(view: &SortedView) -> Result<String> {
    let view = TableView::of(view.clone())?;
    let keys = view.keys().iter().map(|key| {
        let descending = if key.is_descending { ":desc" } else { "" };
        let nulls = if key.is_nulls_first {
            ":nulls-first"
        } else {
            ""
        };
        format!("{}{descending}{nulls}", key.name)
    });
    Ok(keys.collect::<Vec<_>>().join(", "))
}

/// `outcore view materialize` of a table.
pub(crate) fn view_materialize(
    context: &Context,
    args: &ViewMaterializeArgs,
    (resources, dir): (Resources, &Path),
) -> Result<u8> {
    let stopwatch = Stopwatch::start();
    let (tables, text) = (TableArgs::default(), TextOptions::default());
    context.given.applies_to(What::Table)?;
    if args.output.to_string_lossy().contains("{drive}") {
        let cause = "{drive} in the name of an output cannot be used with tables";
        return Err(Error::usage(READ, cause).hint("name one file"));
    }
    let request = Request {
        inputs: &[],
        output: Some(&args.output),
        tables: &tables,
        force: args.force,
        replace: false,
        record_io: &args.record_io,
        is_explained: args.explain,
        text: &text,
    };
    let Outputs {
        files: outputs,
        mut writes,
    } = outputs_of(context, &request)?;
    writes.is_replacing = args.force;
    let target = Target::File(outputs[0].clone());
    let kept = Kept {
        target: Some(&target),
        force: args.force,
        ..Kept::default()
    };
    let resources = recorded(context, resources, (&args.record_io, dir), kept)?;
    let resources = resources.measuring(args.explain);
    let job = resources.job_at(Vec::new(), dir);
    let view = TableView::of(outcore_front::view::open(&job, dir)?)?;
    let (reporter, interrupt) = (&context.reporter, &context.interrupt);
    let done = watch(reporter, interrupt, &job.control, &MERGE, || {
        let rows = view.sorted().len();
        let wanted = wanted_by(&args.range, rows, |text| view.find(&view.key_of(text)?))?;
        let wanted = wanted.unwrap_or(0..rows);
        if args.explain {
            let phase = view.plan_write(wanted.end - wanted.start);
            show_plan(context, view.sorted(), "read view -> materialize", phase);
        }
        view.write(wanted, &outputs, &writes)
    })?;
    let done = Done::new("merged", done);
    let used = stopwatch.stop(done.moved(), &[], &resources, context.end_trace()?);
    let ran = Ran::new(done, request.output, 0, used, Vec::new());
    Ok(say_done(context, &request, ran))
}
