//! Verbs on sequences where the input is a table.
//!
//! Contract: as [`crate::tables`]. The meaning of `--where` is that of `filter`.

use std::path::Path;

use outcore::Result;
use outcore::key::column::listed;
use outcore_table::input::TextOptions;
use outcore_table::jobs;

use super::args::InputArgs;
use super::group::CountByArgs;
use super::input::resources_of;
use crate::host::Host;
use crate::option::lines::TextFlags;
use crate::option::tables::TableArgs;
use crate::report::WriteSummary;
use crate::tables::{Request, keys_of, names_of, run, text};

/// The request of a verb for sequences of records and tables.
fn request_of<'a>(
    input: &'a InputArgs,
    output: Option<&'a Path>,
    tables: &'a TableArgs,
    text: &'a TextOptions,
) -> Request<'a> {
    Request {
        inputs: &input.inputs,
        output,
        tables,
        force: input.force,
        replace: false,
        record_io: &input.record_io,
        is_explained: input.explain,
        text,
    }
}

/// `count-by` of tables.
pub(super) fn count_by(host: &dyn Host, args: &CountByArgs) -> Result<WriteSummary> {
    let input = &args.input;
    let resources = resources_of(host, input, args.scratch.limit_bytes)?;
    let columns: Vec<String> = listed(&args.expression).map(str::to_owned).collect();
    let keys = keys_of(&columns, false)?;
    let text = text::options(&args.tables, &TextFlags::default(), &input.inputs)?;
    let text = text.needing(names_of(&keys));
    let request = request_of(input, args.output.as_deref(), &args.tables, &text);
    let ran = run(host, &request, resources, |job, ends| {
        jobs::count_by(job, ends, &keys, args.by_count)
    })?;
    Ok(ran.report)
}
