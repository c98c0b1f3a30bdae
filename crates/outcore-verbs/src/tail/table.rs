//! `tail` of tables.
//!
//! Contract: as [`super`].

use outcore::Result;
use outcore_table::input::RowSpan;
use outcore_table::jobs;

use super::page::TailArgs;
use crate::host::Host;
use crate::option::memory_request;
use crate::report::WriteSummary;
use crate::tables::{Request, run, text};

/// The last rows.
pub(super) fn tail(host: &dyn Host, args: &TailArgs) -> Result<WriteSummary> {
    let files = &args.files;
    let text = text::options(
        &args.take.tables,
        &args.take.rows.text_flags()?,
        &files.inputs,
    )?;
    let resources = host.load(&memory_request(args.take.memory_bytes)?)?;
    let span = match args.records.is_rest {
        true => RowSpan::AfterFirst(args.records.count),
        false => RowSpan::Last(args.records.count),
    };
    let (tables, record_io) = (&args.take.tables, &args.take.record_io);
    let request = Request::of_any(files, tables, record_io, args.take.explain, &text);
    let ran = run(host, &request, resources, |job, ends| {
        jobs::span(job, ends, span)
    })?;
    Ok(ran.report)
}
