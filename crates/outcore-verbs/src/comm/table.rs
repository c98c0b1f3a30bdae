//! `comm` of tables.
//!
//! Contract: as [`super`]: one column of the three is kept, the rows in the order of their key.

use std::path::PathBuf;

use outcore::Result;
use outcore::key::column::column_names;
use outcore_front::resources::Resources;
use outcore_table::jobs::{self, CommColumn, RightTable, TableEnds};

use super::page::{CommArgs, CommSummary};
use crate::host::Host;
use crate::tables::{Request, run, text};

/// The rows of one column.
pub(super) fn comm(
    host: &dyn Host,
    args: &CommArgs,
    inputs: &[PathBuf; 2],
    resources: Resources,
) -> Result<CommSummary> {
    let column = match args.only_shown("rows of tables")? {
        0 => CommColumn::Left,
        1 => CommColumn::Right,
        _ => CommColumn::Both,
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
        keeps_journal: false,
        verifies_output: false,
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
