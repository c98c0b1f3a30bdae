//! `outcore convert`: tables copied.
//!
//! Contract: as the folder's.

use outcore::Result;
use outcore_table::jobs;

use super::{Done, Request, run, text};
use crate::cli::tables::ConvertArgs;
use crate::context::Context;
use crate::resources;

/// `outcore convert`.
pub(crate) fn convert(context: &Context, args: &ConvertArgs) -> Result<u8> {
    let resources = resources::load(&args.resources, &args.drives, None, resources::SEED)?;
    let text = text::options(context, &args.tables, &args.text.flags()?, &args.inputs)?;
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
