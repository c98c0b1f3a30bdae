//! `sort` of tables.
//!
//! Contract: as [`super`]. With `--unique` one row is kept for each key.

use outcore::Result;
use outcore_front::resources::Resources;
use outcore_table::jobs::{self, TableOrder};

use super::page::{SortArgs, SortSummary};
use crate::host::Host;
use crate::tables::{Request, keys_of, run, text};

/// The rows in order.
pub(super) fn sort(host: &dyn Host, args: &SortArgs, resources: Resources) -> Result<SortSummary> {
    let flags = args.text.text_flags(args.order.separator()?);
    let text = text::options(&args.tables, &flags, &args.inputs)?;
    let keys = keys_of(&args.text.by, args.descending)?;
    let text = text.needing_keys(&keys)?;
    let in_place = match args.inputs.as_slice() {
        [one] if args.replace && one.is_file() => Some(one.as_path()),
        _ => None,
    };
    let request = Request {
        text: &text,
        inputs: &args.inputs,
        output: args.output.as_deref().or(in_place),
        tables: &args.tables,
        force: args.force,
        replace: args.replace,
        keeps_journal: args.journal.resume,
        verifies_output: args.check_output.verify_output,
        record_io: &args.job.record_io,
        is_explained: args.explain,
    };
    let order = TableOrder {
        keys,
        is_stable: args.stable,
        is_descending: args.descending,
    };
    let ran = run(host, &request, resources, |job, ends| match args.unique {
        true => jobs::unique(job, ends, &order),
        false => jobs::sort(job, ends, &order),
    })?;
    Ok(SortSummary::of(ran.report))
}
