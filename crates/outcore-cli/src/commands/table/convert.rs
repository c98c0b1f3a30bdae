//! `outcore convert`: tables copied.
//!
//! Contract: as the folder's.

use outcore::Result;
use outcore_front::what::Asked;
use outcore_table::jobs;
use outcore_verbs::host::Host;

use super::{Done, Request, run, text};
use crate::cli::tables::ConvertArgs;
use crate::context::Context;
use crate::resources;

/// `outcore convert`.
pub(crate) fn convert(context: &Context, args: &ConvertArgs) -> Result<u8> {
    let resources = resources::load(&args.resources, &args.drives, None, resources::SEED)?;
    let flags = args.text.flags()?;
    let asked = Asked {
        inputs: &args.inputs,
        text: flags.kind(),
        is_table: true,
        piped: args.tables.piped(),
        ..Asked::default()
    };
    // Other files are reported when they are opened.
    let what = context.what(asked)?;
    if what.is_table() {
        context.check_options(what, asked)?;
    }
    let text = text::options(&args.tables, &flags, &args.inputs)?;
    let request = Request {
        text: &text,
        inputs: &args.inputs,
        output: Some(&args.output),
        tables: &args.tables,
        force: args.force,
        replace: false,
        record_io: &args.record_io,
        is_explained: args.plan.explain,
    };
    run(context, &request, resources, |job, ends| {
        Ok(Done::new("converted", jobs::copy(job, ends)?))
    })
}
