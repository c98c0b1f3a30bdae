//! `head` of tables.
//!
//! Contract: as [`super`]. Rows are printed where no output is named.

use std::path::{Path, PathBuf};

use outcore::{Error, Result};
use outcore_front::resources::Resources;
use outcore_table::input::{InputOptions, RowSpan, TextOptions};
use outcore_table::jobs;
use outcore_table::text::print;

use super::page::HeadArgs;
use crate::host::{Host, watch};
use crate::option::tables::TableArgs;
use crate::option::{RecordCount, memory_request};
use crate::report::{Moved, Place, Stopwatch, WriteSummary};
use crate::tables::{READ, Request, keys_of, reading, reads, run, text, unpacked};

/// The first rows, or the first in an order. They are printed where no output is named.
pub(super) fn head(host: &dyn Host, args: &HeadArgs) -> Result<WriteSummary> {
    let files = &args.files;
    let keys = keys_of(&args.by, false)?;
    let text = text::options(&args.tables, &args.rows.text_flags()?, &files.inputs)?;
    let mut text = text.needing_keys(&keys)?;
    let RecordCount { count, is_rest } = args.records;
    if keys.is_empty() && !is_rest {
        text.rows_max = Some(count);
    }
    let span = match is_rest {
        true => RowSpan::AllBut(count),
        false => RowSpan::First(count),
    };
    if is_rest && !keys.is_empty() {
        let cause = "all rows but the last ones are not taken in the order of --by";
        return Err(Error::usage(READ, cause).hint("sort the table first with `outcore sort --by`"));
    }
    let resources = host.load(&memory_request(args.memory_bytes)?)?;
    let is_written = !files.is_to_stdout() || host.kept_table().is_some();
    if is_written || args.tables.to.is_some() || !keys.is_empty() {
        let recording = (&args.record_io, args.explain);
        let request = Request::of_any(files, &args.tables, recording, &text);
        let ran = run(host, &request, resources, |job, ends| {
            match keys.is_empty() {
                true => jobs::span(job, ends, span),
                false => jobs::top(job, ends, &keys, count),
            }
        })?;
        return Ok(ran.report);
    }
    print_rows(
        host,
        Printed {
            inputs: &files.inputs,
            tables: &args.tables,
            text: &text,
            resources: &resources,
            span,
        },
    )
}

/// Rows of a table that are printed.
pub(crate) struct Printed<'a> {
    pub(crate) inputs: &'a [PathBuf],
    pub(crate) tables: &'a TableArgs,
    pub(crate) text: &'a TextOptions,
    pub(crate) resources: &'a Resources,
    pub(crate) span: RowSpan,
}

/// Prints them.
pub(crate) fn print_rows(host: &dyn Host, printed: Printed<'_>) -> Result<WriteSummary> {
    let Printed {
        inputs,
        tables,
        text,
        resources,
        span,
    } = printed;
    let stopwatch = Stopwatch::start();
    let resources = &reading(host, inputs, resources.clone())?;
    let job = host.adopt(resources.job(Vec::new()));
    let (copies, _spool) = unpacked(host, (&job, resources), (inputs, text.kind), Path::new("."))?;
    let reads = InputOptions {
        copies,
        ..reads(tables, text)
    };
    let mut stdout = host.open_pipe(None, &job.control)?;
    let (rows, read_bytes) = watch(host, &job.control, &[], || {
        print(&job, (inputs, &reads), span, &mut |text| {
            let failed = |error| Error::io("write standard output", &error);
            stdout.write_all(text.as_bytes()).map_err(failed)?;
            job.control.check()
        })
    })?;
    let notes = text.bad_rows.take();
    notes.iter().for_each(|note| host.note(note));
    let moved = Moved {
        records: rows,
        read_bytes,
        passes: 1,
        ..Moved::default()
    };
    Ok(WriteSummary {
        used: stopwatch.stop(moved, &[], resources, host.end_trace()?),
        unit: "row".to_owned(),
        output: Some(Place(PathBuf::from("-"))),
        records_in: None,
        data_bytes: read_bytes,
        output_bytes: None,
        files: 0,
        scratch_bytes: Some(0),
        skipped: 0,
        phases: Vec::new(),
        plan: None,
        notes,
    })
}
