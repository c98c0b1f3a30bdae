//! `head` of tables.
//!
//! Contract: as [`super`]. Rows are printed where no output is named.

use std::path::{Path, PathBuf};

use outcore::{Error, Result};
use outcore_front::resources::Resources;
use outcore_table::input::{InputOptions, TextOptions};
use outcore_table::jobs;
use outcore_table::text::print;

use super::page::HeadArgs;
use crate::host::{Host, watch};
use crate::option::memory_request;
use crate::report::{Moved, Place, Stopwatch, WriteSummary};
use crate::tables::{Request, keys_of, reads, run, text, unpacked};

/// The first rows, or the first in an order. They are printed where no output is named.
pub(super) fn head(host: &dyn Host, args: &HeadArgs) -> Result<WriteSummary> {
    let files = &args.files;
    let keys = keys_of(&args.by, false)?;
    let text = text::options(&args.tables, &args.rows.text_flags()?, &files.inputs)?;
    let mut text = text.needing_keys(&keys)?;
    if keys.is_empty() {
        text.rows_max = Some(args.records);
    }
    let resources = host.load(&memory_request(args.memory_bytes)?)?;
    let is_written = !files.is_to_stdout() || host.kept_table().is_some();
    if is_written || args.tables.to.is_some() || !keys.is_empty() {
        let recording = (&args.record_io, args.explain);
        let request = Request::of_any(files, &args.tables, recording, &text);
        let ran = run(host, &request, resources, |job, ends| {
            match keys.is_empty() {
                true => jobs::head(job, ends, args.records),
                false => jobs::top(job, ends, &keys, args.records),
            }
        })?;
        return Ok(ran.report);
    }
    print_rows(host, args, &text, &resources)
}

/// Prints the first rows.
fn print_rows(
    host: &dyn Host,
    args: &HeadArgs,
    text: &TextOptions,
    resources: &Resources,
) -> Result<WriteSummary> {
    let stopwatch = Stopwatch::start();
    let job = host.adopt(resources.job(Vec::new()));
    let inputs = &args.files.inputs;
    let (copies, _spool) = unpacked(host, (&job, resources), (inputs, text.kind), Path::new("."))?;
    let reads = InputOptions {
        copies,
        ..reads(&args.tables, text)
    };
    let mut stdout = host.open_pipe(None, &job.control)?;
    let (rows, read_bytes) = watch(host, &job.control, &[], || {
        print(&job, (inputs, &reads), args.records, &mut |text| {
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
