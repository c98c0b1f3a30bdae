//! `comm` of tables.
//!
//! Contract: as [`super`]: one column of the three is kept, the rows in the order of their key.

use std::path::PathBuf;

use outcore::key::column::column_names;
use outcore::{Error, Result};
use outcore_front::resources::Resources;
use outcore_table::jobs::{self, CommColumn, RightTable, TableEnds};

use super::page::{CommArgs, CommSummary};
use crate::host::Host;
use crate::tables::{READ, Request, run, text};

/// The rows of one column.
pub(super) fn comm(
    host: &dyn Host,
    args: &CommArgs,
    inputs: &[PathBuf; 2],
    resources: Resources,
) -> Result<CommSummary> {
    let column = match args.is_shown() {
        [true, false, false] => CommColumn::Left,
        [false, true, false] => CommColumn::Right,
        [false, false, true] => CommColumn::Both,
        _ => {
            let cause = "rows of tables are written for one column of the three: two of --not-left, \
                         --not-right and --not-both are needed";
            return Err(Error::usage(READ, cause)
                .hint("keep one: -23 for LEFT alone, -13 for RIGHT alone, -12 for both"));
        }
    };
    text::check_from(&args.tables, inputs)?;
    let by = column_names(&args.by);
    let text = text::options(&args.tables, &args.text.flags()?, &[])?.needing(by.clone());
    let request = Request {
        inputs,
        output: args.output.as_deref(),
        tables: &args.tables,
        force: args.force,
        replace: false,
        record_io: &args.job.record_io,
        is_explained: args.explain,
        text: &text,
    };
    let ran = run(host, &request, resources, |job, ends| {
        let (left, right) = ends.inputs.split_at(1);
        let ends = TableEnds {
            inputs: left,
            ..*ends
        };
        let right = RightTable {
            inputs: right,
            reads: ends.reads,
        };
        jobs::comm(job, &ends, right, &by, column)
    })?;
    Ok(CommSummary::of(ran.report))
}
