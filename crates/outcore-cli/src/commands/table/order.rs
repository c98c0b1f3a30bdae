//! Tables in another order, `sort` and `unique`.
//!
//! Contract: as the folder's.

use outcore::Result;
use outcore_front::resources::Resources;
use outcore_table::jobs::{self, TableOrder};

use super::{Done, Request, keys_of, names_of, run, text};
use crate::cli::SortArgs;
use crate::cli::commands::UniqueArgs;
use crate::context::Context;
use crate::resources;

/// `outcore sort` of tables.
pub(crate) fn sort(context: &Context, args: &SortArgs, resources: Resources) -> Result<u8> {
    let flags = args.text.text_flags(args.order.separator()?);
    let text = text::options(&args.tables, &flags, &args.inputs)?;
    let keys = keys_of(&args.text.by, args.descending)?;
    let text = text.needing(names_of(&keys));
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
        record_io: &args.record_io,
        is_explained: args.explain,
    };
    let order = TableOrder {
        keys,
        is_stable: args.stable,
        is_descending: args.descending,
    };
    run(context, &request, resources, |job, ends| {
        Ok(match args.unique {
            true => Done::new("kept", jobs::unique(job, ends, &order)?),
            false => Done::new("sorted", jobs::sort(job, ends, &order)?),
        })
    })
}

/// `outcore unique` of tables.
pub(crate) fn unique(context: &Context, args: &UniqueArgs) -> Result<u8> {
    let resources = resources::load(
        &args.resources,
        &args.drives,
        args.scratch.limit_bytes,
        resources::SEED,
    )?;
    let flags = args.text.text_flags(args.order.separator()?);
    let text = text::options(&args.tables, &flags, &args.files.inputs)?;
    let keys = keys_of(&args.text.by, args.descending)?;
    let text = text.needing(names_of(&keys));
    let recording = (&args.record_io, args.explain);
    let request = Request::of_any(&args.files, &args.tables, recording, &text);
    let order = TableOrder {
        keys,
        is_stable: true,
        is_descending: args.descending,
    };
    run(context, &request, resources, |job, ends| {
        Ok(Done::new("kept", jobs::unique(job, ends, &order)?))
    })
}
