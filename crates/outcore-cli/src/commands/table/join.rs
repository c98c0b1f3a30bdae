//! `outcore join`: two tables put together by columns that they have in common.
//!
//! Contract: as the folder's; the two inputs are tables of their own.

use outcore::Result;
use outcore_io::units;
use outcore_table::input::InputOptions;
use outcore_table::jobs::{self, AsOf, ColumnPair, Join, JoinKind, TableEnds};

use super::{Done, Request, check_both_tables, run, text};
use crate::cli::join::JoinArgs;
use crate::context::Context;
use crate::resources;
use outcore::key::column::column_names;

pub(crate) fn join(context: &Context, args: &JoinArgs) -> Result<u8> {
    let inputs = [args.left.clone(), args.right.clone()];
    let no_table = (
        "join takes only tables (Parquet, Arrow, .csv or .jsonl), and this file is not one",
        "convert it to a table first, or use `outcore zip` for sequences of equal length",
    );
    let flags_of_text = args.text.flags()?;
    check_both_tables(context, &inputs, (&args.tables, &flags_of_text), no_table)?;
    text::check_from(&args.tables, &inputs)?;
    let text = text::options(&args.tables, &flags_of_text, &[])?;
    let limit_bytes = args.scratch.limit_bytes;
    let (flags, drives) = (&args.resources, &args.drives);
    let resources = resources::load(flags, drives, limit_bytes, resources::SEED)?;
    let pairs = |texts: &[String]| -> Result<Vec<ColumnPair>> {
        texts.iter().map(|text| ColumnPair::parse(text)).collect()
    };
    let asof = match &args.asof {
        None => None,
        Some(text) => Some(AsOf {
            columns: ColumnPair::parse(text)?,
            tolerance: args.tolerance.clone(),
        }),
    };
    let kind = match (&args.how, &asof) {
        (Some(name), _) => JoinKind::parse(name)?,
        (None, Some(_)) => JoinKind::Left,
        (None, None) => JoinKind::Inner,
    };
    let columns = column_names(&args.tables.columns);
    let wanted = Join {
        on: pairs(&args.on)?,
        kind,
        asof,
        suffix: args.suffix.clone(),
        columns: (!columns.is_empty()).then_some(columns),
        is_unordered: args.unordered,
    };
    let request = Request {
        text: &text,
        inputs: &inputs,
        output: Some(&args.output),
        tables: &args.tables,
        force: args.force,
        replace: false,
        record_io: &args.record_io,
        is_explained: args.plan.explain,
    };
    run(context, &request, resources, |job, ends| {
        let (left, right) = ends.inputs.split_at(1);
        // Columns are chosen of the output.
        let reads = InputOptions {
            columns: None,
            ..ends.reads.clone()
        };
        let ends = TableEnds {
            inputs: left,
            reads: &reads,
            ..*ends
        };
        let done = jobs::join(job, &ends, (right, &reads), &wanted)?;
        let joined = units::counted(done.rows_out, "row");
        let rows = units::counted(done.rows_in, "row");
        Ok(Done::new("made", done).of(format!("{joined} of {rows}")))
    })
}
