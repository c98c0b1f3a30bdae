//! `head` of tables.
//!
//! Contract: as [`super`].

use outcore::{Error, Result};
use outcore_table::input::RowSpan;
use outcore_table::jobs;

use super::page::HeadArgs;
use crate::host::Host;
use crate::option::{RecordCount, memory_request};
use crate::report::WriteSummary;
use crate::tables::{READ, Request, keys_of, run, text};

/// The first rows, or the first in an order.
pub(super) fn head(host: &dyn Host, args: &HeadArgs) -> Result<WriteSummary> {
    let files = &args.files;
    let keys = keys_of(&args.by, false)?;
    let text = text::options(
        &args.take.tables,
        &args.take.rows.text_flags()?,
        &files.inputs,
    )?;
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
        let cause = "--by cannot take all rows except for the last ones";
        return Err(Error::usage(READ, cause).hint("sort the table first with `outcore sort --by`"));
    }
    let resources = host.load(&memory_request(args.take.memory_bytes)?)?;
    let (tables, record_io) = (&args.take.tables, &args.take.record_io);
    let request = Request::of_any(files, tables, record_io, args.take.explain, &text);
    let ran = run(host, &request, resources, |job, ends| {
        match keys.is_empty() {
            true => jobs::span(job, ends, span),
            false => jobs::top(job, ends, &keys, count),
        }
    })?;
    Ok(ran.report)
}
