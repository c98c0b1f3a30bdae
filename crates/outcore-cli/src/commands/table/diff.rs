//! `outcore diff`: what differs between two tables.
//!
//! Contract: as the folder's. The exit code is 1 if they differ; a table of the differences is
//! written if one is named.

use std::cell::Cell;

use outcore::{Error, Result};
use outcore_io::units;
use outcore_table::jobs::{self, TableEnds};
use outcore_table::output::{OutputOptions, TableFormat};
use serde_json::json;

use super::outputs::outputs_of;
use super::run::run_with;
use super::{Done, READ, Request, check_both_tables, keys_of, text};
use crate::cli::diff::DiffArgs;
use crate::context::Context;
use crate::resources;

pub(crate) fn diff(context: &Context, args: &DiffArgs) -> Result<u8> {
    let inputs = [args.left.clone(), args.right.clone()];
    let no_table = (
        "diff takes only tables (Parquet, Arrow, .csv or .jsonl), and this file is not one",
        "compare lines with diff, after `outcore sort`",
    );
    let flags_of_text = args.text.flags()?;
    check_both_tables(context, &inputs, (&args.tables, &flags_of_text), no_table)?;
    if args.tables.parts.is_some() {
        let cause = "--parts cannot be used with differences, which are one table";
        return Err(Error::usage(READ, cause).hint("leave --parts out"));
    }
    text::check_from(&args.tables, &inputs)?;
    let text = text::options(&args.tables, &flags_of_text, &[])?;
    let limit_bytes = args.scratch.limit_bytes;
    let (flags, drives) = (&args.resources, &args.drives);
    let resources = resources::load(flags, drives, limit_bytes, resources::SEED)?;
    let keys = keys_of(&args.by, false)?;
    let request = Request {
        inputs: &inputs,
        output: args.output.as_deref(),
        tables: &args.tables,
        force: args.force,
        replace: false,
        record_io: &args.record_io,
        is_explained: args.explain,
        text: &text,
    };
    let outputs = match &args.output {
        Some(_) => outputs_of(context, &request)?,
        None => (Vec::new(), OutputOptions::new(TableFormat::ArrowFile)),
    };
    let differences = Cell::new(0);
    run_with(context, &request, resources, outputs, |job, ends| {
        let (left, right) = ends.inputs.split_at(1);
        let ends = TableEnds {
            inputs: left,
            ..*ends
        };
        let found = jobs::diff(job, &ends, (right, ends.reads), &keys)?;
        differences.set(found.differences());
        let amount = format!(
            "{}: {} in the left table alone, {} in the right one alone, {} changed, {} equal",
            units::counted(found.table.rows_in, "row"),
            units::count(found.left_rows),
            units::count(found.right_rows),
            units::count(found.changed_rows),
            units::count(found.equal_rows),
        );
        let done = Done::new("compared", found.table.clone()).of(amount);
        Ok(done
            .with("left_rows", json!(found.left_rows))
            .with("right_rows", json!(found.right_rows))
            .with("changed_rows", json!(found.changed_rows))
            .with("equal_rows", json!(found.equal_rows)))
    })?;
    Ok(u8::from(differences.get() > 0))
}
