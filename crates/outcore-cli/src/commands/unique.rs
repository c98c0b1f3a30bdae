//! `outcore unique`: one of each line or record, in order, or how many there are.
//!
//! Contract: a sort that keeps one of each; for lines by bytes, in one pass over the input where the
//! different ones fit into memory. Records are sorted by `outcore sort --unique`.

use outcore::algo::lines::{LineSortOptions, sort_lines};
use outcore::{Error, Result};
use outcore_formats::text::gnu::GnuOrder;
use serde_json::json;

use super::{Context, sort};
use crate::cli::SortArgs;
use crate::cli::commands::UniqueArgs;
use crate::lines::output::{self, Dress};
use crate::lines::{Done, LineJob, LineRequest, Overwrite, find, format_of};
use crate::{CLOSED_PIPE, means, pipe};

/// Runs the subcommand.
pub(crate) fn run(context: &Context, args: &UniqueArgs) -> Result<u8> {
    let is_ordered = args.order.is_given() || args.lines.zero_terminated;
    let format = format_of(&args.record.to_request(), &find(&args.files.inputs)?)?;
    if format.is_some() {
        if is_ordered || args.count {
            let cause = "a type of records beside options for lines";
            return Err(Error::usage("read arguments", cause)
                .hint("leave out --type and --record, or --count and the options of lines"));
        }
        return sort::run(context, &to_sort(args));
    }
    let means = means::load(
        &args.means,
        &args.drives,
        args.scratch_limit_bytes,
        means::SEED,
    )?;
    let mut sort = args.order.to_sort(args.descending)?;
    sort.unique = true;
    let order = GnuOrder::new(&sort)?;
    let request = LineRequest {
        inputs: &args.files.inputs,
        output: args.files.output.as_deref(),
        overwrite: Overwrite::of(args.files.force),
        record_io: &args.record_io,
        force: args.files.force,
        takes_records: false,
    };
    let lines = LineJob::prepare(context, means, &request)?;
    let options = LineSortOptions {
        terminator: args.lines.terminator(),
        unique: !args.count,
        count: args.count,
        replace: lines.replace,
        ..LineSortOptions::default()
    };
    lines.begin(context, json!({}));
    let (output, pending) =
        output::open(&lines.job, &lines.target, lines.replace, &Dress::default())?;
    let done = lines.watch(context, || {
        pending.finish(sort_lines(
            &lines.job,
            &lines.inputs(),
            output,
            &order,
            options,
        ))
    });
    let summary = match done {
        Err(error) if pipe::is_closed(&lines.target, &error) => return Ok(CLOSED_PIPE),
        done => done?,
    };
    lines.finish(context, Done::of_sort("found", summary))?;
    Ok(0)
}

/// The same as a sort of records.
fn to_sort(args: &UniqueArgs) -> SortArgs {
    SortArgs {
        inputs: args.files.inputs.clone(),
        output: args.files.output.clone(),
        record: args.record.clone(),
        descending: args.descending,
        unique: true,
        means: args.means.clone(),
        drives: args.drives.clone(),
        scratch_limit_bytes: args.scratch_limit_bytes,
        force: args.files.force,
        seed: means::SEED,
        record_io: args.record_io.clone(),
        ..SortArgs::default()
    }
}
