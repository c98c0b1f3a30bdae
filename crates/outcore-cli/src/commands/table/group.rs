//! `outcore group-by` and `count-by`: a row of aggregates for each group of a table.
//!
//! Contract: as the folder's.

use outcore::Result;
use outcore::key::column::listed;
use outcore_io::units;
use outcore_table::jobs::{self, Aggregate};

use super::{Done, Request, keys_of, names_of, run, settled, text};
use crate::cli::group::GroupByArgs;
use crate::cli::lines::TextFlags;
use crate::cli::sequence::CountByArgs;
use crate::context::Context;
use crate::resources;

pub(crate) fn group_by(context: &Context, args: &GroupByArgs) -> Result<u8> {
    let files = &args.files;
    let no_table = (
        "group-by takes only tables (Parquet, Arrow, .csv or .jsonl), and this file is not one",
        "`outcore count-by` counts values of records, and `outcore unique --count` lines",
    );
    let (text, resources) = settled(context, files, no_table)?;
    let keys = keys_of(&args.by, false)?;
    let mut aggregates = Vec::new();
    for list in &args.aggregates {
        aggregates.extend(Aggregate::parse_list(list)?);
    }
    if aggregates.is_empty() {
        aggregates.push(Aggregate::count());
    }
    let of_aggregates = aggregates.iter().filter_map(|one| one.column.clone());
    let text = text.needing(names_of(&keys).chain(of_aggregates));
    run(
        context,
        &Request::of(files, &text),
        resources,
        |job, ends| {
            let done = jobs::group_by(job, ends, &keys, &aggregates)?;
            let groups = units::counted(done.rows_out, "group");
            let rows = units::counted(done.rows_in, "row");
            Ok(Done::new("made", done).of(format!("{groups} of {rows}")))
        },
    )
}

/// `outcore count-by` of tables.
pub(crate) fn count_by(context: &Context, args: &CountByArgs) -> Result<u8> {
    let input = &args.input;
    let limit_bytes = args.scratch.limit_bytes;
    let (flags, drives) = (&input.resources, &input.drives);
    let resources = resources::load(flags, drives, limit_bytes, resources::SEED)?;
    let columns: Vec<String> = listed(&args.expression).map(str::to_owned).collect();
    let keys = keys_of(&columns, false)?;
    let text = text::options(&args.tables, &TextFlags::default(), &input.inputs)?;
    let text = text.needing(names_of(&keys));
    let request = Request::of_sequence(input, args.output.as_deref(), &args.tables, &text);
    run(context, &request, resources, |job, ends| {
        let done = jobs::count_by(job, ends, &keys, args.by_count)?;
        let values = units::counted(done.rows_out, "value");
        let rows = units::counted(done.rows_in, "row");
        Ok(Done::new("counted", done).of(format!("{values} in {rows}")))
    })
}
