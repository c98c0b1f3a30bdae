//! `outcore window`: columns that depend on a row's place in its group.
//!
//! Contract: as the folder's.

use outcore::Result;
use outcore_io::units;
use outcore_table::jobs::{self, Window, WindowColumn};

use super::{Done, Request, keys_of, run, settled};
use crate::cli::window::WindowArgs;
use crate::context::Context;

pub(crate) fn window(context: &Context, args: &WindowArgs) -> Result<u8> {
    let files = &args.files;
    let no_table = (
        "window takes only tables (Parquet, Arrow, .csv or .jsonl), and this file is not one",
        "`outcore windows` writes each number of a sequence together with the numbers that follow it",
    );
    let (text, resources) = settled(context, files, no_table)?;
    let mut wanted = Window {
        by: keys_of(&args.by, false)?,
        order: keys_of(&args.order, false)?,
        columns: Vec::new(),
        first: args.first,
    };
    for list in &args.added {
        wanted.columns.extend(WindowColumn::parse_list(list)?);
    }
    run(
        context,
        &Request::of(files, &text),
        resources,
        |job, ends| {
            let done = jobs::window(job, ends, &wanted)?;
            let (rows_in, rows_out) = (done.rows_in, done.rows_out);
            let rows = units::counted(rows_in, "row");
            Ok(match rows_in == rows_out {
                true => Done::new("went through", done).of(rows),
                false => Done::new("kept", done).of(format!("{rows_out} of {rows}")),
            })
        },
    )
}
