//! `unique` of tables.
//!
//! Contract: as [`super`]: one row is kept for each key, the first in the input.

use outcore::Result;
use outcore_front::resources::Resources;
use outcore_table::jobs::{self, Keep, TableOrder};

use super::page::UniqueArgs;
use crate::host::Host;
use crate::sequence::group::UniqueSummary;
use crate::tables::{Request, keys_of, run, text};

/// One row of each key.
pub(super) fn unique(
    host: &dyn Host,
    args: &UniqueArgs,
    resources: Resources,
) -> Result<UniqueSummary> {
    let flags = args.text.text_flags(args.order.separator()?);
    let text = text::options(&args.tables, &flags, &args.files.inputs)?;
    let keys = keys_of(&args.text.by, args.descending)?;
    let text = text.needing_keys(&keys)?;
    let (tables, record_io) = (&args.tables, &args.job.record_io);
    let request = Request {
        keeps_journal: args.journal.resume,
        verifies_output: args.check_output.verify_output,
        ..Request::of_any(&args.files, tables, record_io, args.explain, &text)
    };
    let order = TableOrder {
        keys,
        is_stable: true,
        is_descending: args.descending,
    };
    let ran = run(host, &request, resources, |job, ends| {
        if args.keep_order {
            let done = jobs::dedup(job, ends, (&order.keys, &Keep::First), None)?;
            return Ok(done.table);
        }
        jobs::unique(job, ends, &order)
    })?;
    Ok(UniqueSummary::of(ran.report))
}
