//! `sample` of tables.
//!
//! Contract: as [`super`].

use outcore::Result;
use outcore_table::jobs;

use super::page::SampleArgs;
use crate::host::Host;
use crate::option::memory_request;
use crate::report::WriteSummary;
use crate::tables::{Request, run, text};

/// Rows that are drawn.
pub(super) fn sample(host: &dyn Host, args: &SampleArgs) -> Result<WriteSummary> {
    let text = text::options(
        &args.take.tables,
        &args.take.rows.text_flags()?,
        &args.files.inputs,
    )?;
    let resources = host.load(&memory_request(args.take.memory_bytes)?)?;
    let (tables, record_io) = (&args.take.tables, &args.take.record_io);
    let request = Request::of_any(&args.files, tables, record_io, args.take.explain, &text);
    let ran = run(host, &request, resources, |job, ends| {
        let count = args.records.unwrap_or(u64::MAX);
        match args.rate {
            Some(rate) => jobs::sample_rate(job, ends, rate, args.seed),
            None if args.with_replacement => {
                jobs::sample_with_replacement(job, ends, count, args.seed)
            }
            None => jobs::sample(job, ends, count, args.seed),
        }
    })?;
    Ok(ran.report)
}
