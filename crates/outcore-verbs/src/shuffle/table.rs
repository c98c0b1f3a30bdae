//! `shuffle` of tables.
//!
//! Contract: as [`super`].

use outcore::{Error, Result};
use outcore_front::resources::Resources;
use outcore_table::jobs;

use super::page::ShuffleArgs;
use crate::host::Host;
use crate::report::WriteSummary;
use crate::tables::{READ, Request, keys_of, run, text};

/// Shuffles the rows of a table.
pub(super) fn shuffle(
    host: &dyn Host,
    args: &ShuffleArgs,
    resources: Resources,
) -> Result<WriteSummary> {
    let flags = args.rows.text_flags()?;
    let groups = keys_of(&args.by, false)?;
    if args.records.is_some() && !groups.is_empty() {
        let cause = "--count with --by would cut a group";
        return Err(Error::usage(READ, cause).hint("leave one of the two out"));
    }
    let text = text::options(&args.tables, &flags, &args.files.inputs)?;
    let text = text.needing_keys(&groups)?;
    let (tables, record_io) = (&args.tables, &args.job.record_io);
    let request = Request {
        replace: args.replace,
        keeps_journal: args.journal.resume,
        verifies_output: args.check_output.verify_output,
        ..Request::of_any(&args.files, tables, record_io, args.explain, &text)
    };
    let ran = run(host, &request, resources, |job, ends| match args.records {
        Some(count) => jobs::shuffle_some(job, ends, args.seed, args.epoch, count),
        None => jobs::shuffle(job, ends, (args.seed, args.epoch), &groups),
    })?;
    Ok(ran.report)
}
