//! Views of tables: builds them, adds to them, reads them by row number and by key, and writes them
//! as a table.
//!
//! Contract: as in [`super`], which calls these functions if the input, or the view, is a table.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use outcore::runs::{BuildOptions, SortedView};
use outcore::{Error, Result};
use outcore_front::output::Target;
use outcore_front::resources::Resources;
use outcore_front::what::{Asked, What};
use outcore_io::output::NewDir;
use outcore_table::input::TextOptions;
use outcore_table::jobs::TableOrder;
use outcore_table::jobs::view::{TableView, append, build};
use outcore_table::output::TableFormat;

use super::built::Built;
use super::page::{ViewAppendArgs, ViewBuildArgs, ViewCatArgs, ViewMaterializeArgs, ViewSummary};
use super::{BUILD, MERGE, begin, holds_all, recorded, refuse_other_files, show_plan, wanted_by};
use crate::host::{Host, Kept, watch};
use crate::option::tables::TableArgs;
use crate::report::{Moved, Place, Stopwatch, WriteSummary};
use crate::tables::outputs::{check_inputs_kept, outputs_of, sources_of};
use crate::tables::report::Done as _;
use crate::tables::{Outputs, READ, Ran, Request, keys_of, reads, text, unpacked};

/// A view of a table.
pub(super) fn build_view(
    host: &dyn Host,
    args: &ViewBuildArgs,
    resources: Resources,
    tables: &TableArgs,
) -> Result<ViewSummary> {
    let stopwatch = Stopwatch::start();
    let flags = args.text.text_flags(args.order.separator()?);
    if args.unique {
        return Err(holds_all());
    }
    let keys = keys_of(&args.text.by, args.descending)?;
    let text = text::options(tables, &flags, &args.inputs)?.needing_keys(&keys)?;
    let place = host.names().output(&args.output, args.force)?;
    refuse_other_files(&place)?;
    let sources = sources_of(host, &args.inputs)?;
    check_inputs_kept(&sources, &args.inputs, &[place.to_path_buf()], false)?;
    let output = Target::File(place.to_path_buf());
    let kept = Kept {
        sources: &sources,
        target: Some(&output),
        force: args.force,
        ..Kept::default()
    };
    let resources = host.start(resources, args.record_io.path(), kept)?;
    let resources = resources.measuring(args.explain);
    let job = host.adopt(resources.planned_job(resources.named_drives(0)?));
    begin(host, &job, &args.inputs, &args.output);
    if args.explain {
        host.show_plans(&job.control);
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
    let mut reads = reads(tables, &text);
    let (inputs, beside) = (&args.inputs, output.dir());
    let (copies, _spool) = unpacked(host, &job, &resources, inputs, text.kind, &beside)?;
    reads.copies = copies;
    let new_dir = NewDir::make(job.device.as_ref(), "make view", &place)?;
    let dir = std::path::absolute(&place).unwrap_or_else(|_| place.to_path_buf());
    let (view, built) = watch(host, &job.control, &BUILD, || {
        build(&job, (&args.inputs, &reads), &order, &dir, options)
    })?;
    new_dir.keep();
    let done = Built {
        view: view.sorted(),
        built: &built,
        notes: notes_of(host, &text),
    };
    done.report(host, stopwatch, &resources)
}

/// Adds to a view of a table.
pub(super) fn append_to_view(
    host: &dyn Host,
    args: &ViewAppendArgs,
    resources: Resources,
    known: SortedView,
) -> Result<ViewSummary> {
    let stopwatch = Stopwatch::start();
    let flags = args.text.flags()?;
    let asked = Asked {
        inputs: &args.inputs,
        text: flags.kind(),
        is_table: true,
        ..Asked::default()
    };
    let what = host.what(asked)?;
    host.check_options(if what.is_table() { what } else { What::Table }, asked)?;
    let sources = sources_of(host, &args.inputs)?;
    let kept = Kept {
        sources: &sources,
        force: args.trace.force,
        ..Kept::default()
    };
    let resources =
        recorded(host, resources, &args.trace.record_io, &args.dir, kept)?.measuring(args.explain);
    let known = TableView::of(known)?;
    let job = host.adopt(resources.planned_job(resources.named_drives(0)?));
    let dir = std::path::absolute(&args.dir).unwrap_or_else(|_| args.dir.clone());
    begin(host, &job, &args.inputs, &args.dir);
    if args.explain {
        host.show_plans(&job.control);
    }
    let tables = TableArgs::from(&args.bad_rows);
    let text = text::options(&tables, &flags, &args.inputs)?;
    let mut reads = reads(&tables, &text);
    let (inputs, beside) = (&args.inputs, &args.dir);
    let (copies, _spool) = unpacked(host, &job, &resources, inputs, text.kind, beside)?;
    reads.copies = copies;
    let (view, built) = watch(host, &job.control, &BUILD, || {
        let options = BuildOptions::default();
        append(&job, (&args.inputs, &reads), &known, &dir, options)
    })?;
    let done = Built {
        view: view.sorted(),
        built: &built,
        notes: notes_of(host, &text),
    };
    done.report(host, stopwatch, &resources)
}

/// The notes about text: how it was read, and which rows and values were left out.
fn notes_of(host: &dyn Host, text: &TextOptions) -> Vec<String> {
    let mut notes = text.take_remarks();
    notes.iter().for_each(|remark| host.remark(remark));
    let lost = text.take_notes();
    lost.iter().for_each(|note| host.note(note));
    notes.extend(lost);
    notes
}

/// Rows of a view of a table, as `outcore head` prints them.
pub(super) fn cat(
    host: &dyn Host,
    args: &ViewCatArgs,
    resources: &Resources,
    view: SortedView,
) -> Result<WriteSummary> {
    let stopwatch = Stopwatch::start();
    let view = TableView::of(view)?;
    let sorted = view.sorted();
    let job = sorted.job();
    let (before_bytes, _) = sorted.traffic_bytes();
    let mut written_bytes = 0;
    let printed = watch(host, &job.control, &MERGE, || {
        let wanted = wanted_by(&args.range, sorted.len(), |text| {
            view.find(&view.key_of(text)?)
        })?;
        let wanted = wanted.unwrap_or(0..sorted.len());
        if args.explain {
            let phase = view.plan_write(wanted.end - wanted.start);
            show_plan(host, sorted, "read view -> cat", phase);
        }
        let mut sink = host.open_pipe(None, &job.control)?;
        let mut write = |text: &[u8]| {
            written_bytes += text.len() as u64;
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
        let flushed = sink.flush();
        flushed.map_err(|error| Error::io("write output", &error))?;
        Ok(rows)
    })?;
    let (read_bytes, _) = sorted.traffic_bytes();
    let moved = Moved {
        records: printed,
        read_bytes: read_bytes - before_bytes,
        written_bytes: 0,
        passes: 1,
    };
    let used = stopwatch.stop(moved, &[], resources, host.end_trace()?);
    Ok(WriteSummary {
        output: Some(Place(PathBuf::from("-"))),
        records_in: Some(sorted.len()),
        data_bytes: written_bytes,
        output_bytes: Some(written_bytes),
        files: 1,
        ..WriteSummary::of_nothing(used, "row")
    })
}

/// The order of the rows of a view of a table, in words.
pub(super) fn order_of(view: &SortedView) -> Result<String> {
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

/// Writes a view of a table as a table.
pub(super) fn materialize(
    host: &dyn Host,
    args: &ViewMaterializeArgs,
    resources: Resources,
    dir: &Path,
) -> Result<WriteSummary> {
    let stopwatch = Stopwatch::start();
    let (tables, text) = (TableArgs::default(), TextOptions::default());
    host.given().applies_to(What::Table)?;
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
        keeps_journal: false,
        record_io: &args.record_io,
        is_explained: args.explain,
        text: &text,
    };
    let Outputs {
        files: outputs,
        mut writes,
    } = outputs_of(host, &request)?;
    writes.is_replacing = args.force;
    let target = Target::File(outputs[0].clone());
    let kept = Kept {
        target: Some(&target),
        force: args.force,
        ..Kept::default()
    };
    let resources = recorded(host, resources, &args.record_io, dir, kept)?;
    let resources = resources.measuring(args.explain);
    let job = host.adopt(resources.pass_job(Vec::new()));
    let view = TableView::of(outcore_front::view::open(&job, dir)?)?;
    let done = watch(host, &job.control, &MERGE, || {
        let rows = view.sorted().len();
        let wanted = wanted_by(&args.range, rows, |text| view.find(&view.key_of(text)?))?;
        let wanted = wanted.unwrap_or(0..rows);
        if args.explain {
            let phase = view.plan_write(wanted.end - wanted.start);
            show_plan(host, view.sorted(), "read view -> materialize", phase);
        }
        view.write(wanted, &outputs, &writes)
    })?;
    let used = stopwatch.stop(done.moved(), &[], &resources, host.end_trace()?);
    Ok(Ran::new(done, request.output, 0, used, Vec::new()).report)
}
