//! Adds columns that depend on a row's place in its group: its number, its rank, the values of rows
//! before and after it.
//!
//! Contract: rows with equal group columns form a group, as in [`group_by`](super::group_by): nulls
//! are equal to each other, all NaNs are equal, and 0.0 equals -0.0. The rows of a group are in the
//! order of further columns; ties keep the order of the input. The output has all columns, followed
//! by one for each [`WindowFunction`], in the order of the groups and then of their rows. It
//! depends only on the input, not on memory or threads.
//!
//! The engine sorts the rows ([`plan`] defines their form), with each group in one part. Each part
//! is processed in one pass over its rows ([`sink`], [`columns`]).
//!
//! Source: Leis, Kundhikanjana, Kemper, Neumann, "Efficient Processing of Window Functions in
//! Analytical SQL Queries" (VLDB 2015), section 3: the functions whose frame needs no tree.
//!
//! Bounds: one read of the table, and one of the group columns for the sample; all rows go to
//! scratch and back if they do not fit. One thread processes a group. Each thread holds the rows
//! that `lag` and `lead` refer to.

mod columns;
mod extreme;
mod function;
mod plan;
mod rank;
mod sink;

use std::ops::ControlFlow;
use std::path::PathBuf;

use outcore::Job;
use outcore::key::sort_key::Tie;
use outcore::sort::lines::rows::RowSource;
use outcore::sort::lines::{RowJournal, RowOption};
use outcore_io::Result;

use super::journal::{self, scratch_dir};
use super::room::{Room, Sorts};
use super::rows_in::{RowKeys, RowsIn};
use super::rows_out::part_bytes;
use super::sort::{KeyInFront, create, open, sort_all};
use super::{TableEnds, TableSummary, check_rows};
use crate::input::TableInput;
use crate::output::OutputOptions;
use crate::rows::KeyColumn;
use plan::Plan;
use sink::WindowSink;

pub use function::{WindowColumn, WindowFunction};

const WINDOW: &str = "compute window columns";
/// Rows that `lag` and `lead` refer to may take 1/`REACH_SHARE` of the memory, if none of them is
/// long.
const REACH_SHARE: u64 = 64;

/// The groups, the order within them, and the columns to compute.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Window {
    /// The group columns; if empty, all rows are one group.
    pub by: Vec<KeyColumn>,
    /// The order of the rows of a group, the most significant column first; if empty, the order of
    /// the input.
    pub order: Vec<KeyColumn>,
    /// The computed columns, in the order of the output.
    pub columns: Vec<WindowColumn>,
    /// The number of first rows to write per group; all if `None`. Columns are computed from all
    /// rows.
    pub first: Option<u64>,
}

/// Adds columns to a table that are computed from each row's group.
///
/// # Errors
/// As [`sort`](super::sort()). Usage: a function that a type lacks, a cumulative sum that overflows
/// its type, a repeated column name, several outputs with [`Window::first`]. Memory: the rows
/// between a row and those that it refers to do not fit.
pub fn window(job: &Job, ends: &TableEnds<'_>, wanted: &Window) -> Result<TableSummary> {
    let journal = journal::begin(job, ends, "window columns of a table", wanted.said())?;
    let job = &journal::job(job, journal.as_ref());
    let input = open(job, ends)?;
    let plan = Plan::of(input.schema(), wanted)?;
    let writes = OutputOptions {
        sorted_by: plan.sorted_by(),
        ..ends.writes.clone()
    };
    let writes = writes.with_long(plan.long_names(&input));
    let room = |input: &TableInput, reach: u64| Room {
        job,
        need: input.need(),
        written: Some((&plan.schema, &writes)),
        costs: plan.costs(input, reach),
        data_bytes: input.stored_bytes(),
        sorts: Sorts::Whole,
    };
    // The rows that are referred to may not fit into the memory at their longest. The job then
    // assumes fewer such rows. The actual rows may be shorter.
    let mut reach = plan.reach_of(&input);
    while reach > 1 && !room(&input, reach).is_enough() {
        reach /= 2;
    }
    let wanted_rows = wanted.first.is_none().then(|| input.rows_count());
    let done = windowed(
        job,
        ends.outputs,
        &input,
        &plan,
        wanted_rows,
        &room(&input, reach),
        journal,
    );
    done.map_err(|error| {
        let known = || {
            let known = input.looked_through()?;
            Ok(room(&known, plan.reach_of(&known)))
        };
        Room::named(error, known)
    })
}

impl Window {
    /// The options that determine the output, for the comparison with a killed run.
    fn said(&self) -> Vec<RowOption> {
        let names = |columns: &[KeyColumn]| {
            let names = columns.iter().map(KeyColumn::to_string);
            names.collect::<Vec<_>>().join(",")
        };
        let added = self.columns.iter().map(|column| format!("{column:?}"));
        let first = self
            .first
            .map_or("all".to_owned(), |first| first.to_string());
        vec![
            journal::option("groups", names(&self.by)),
            journal::option("order in a group", names(&self.order)),
            journal::option("added columns", added.collect::<Vec<_>>().join(", ")),
            journal::option("number of first rows", first),
        ]
    }
}

/// Writes the columns of `input` and the computed ones, for this many rows, if known.
fn windowed(
    job: &Job,
    outputs: &[PathBuf],
    input: &TableInput,
    plan: &Plan,
    wanted_rows: Option<u64>,
    room: &Room<'_>,
    mut journal: Option<RowJournal>,
) -> Result<TableSummary> {
    let (reads_shape, writes_shape) = room.shapes();
    let what = room.written()?;
    let file = match journal::claim(job, [input], outputs, what.1, journal.as_mut())? {
        ControlFlow::Break(done) => return Ok(done),
        ControlFlow::Continue(file) => file,
    };
    let output = create(job, outputs, file, what, (writes_shape, wanted_rows))?;
    job.control.begin_phase("sample", 0);
    let keys = RowKeys::Made { by: plan };
    let source = RowsIn::open(input, &plan.codec, keys, reads_shape)?;
    let sample_bytes = input.read_bytes();
    let amount = (source.data_bytes(), source.row_bytes());
    let sink = WindowSink {
        part_bytes: part_bytes(&output, writes_shape, amount),
        output: &output,
        plan,
        shape: writes_shape,
        reach_share_bytes: job.budget.free_bytes()
            / REACH_SHARE
            / writes_shape.writers_count as u64,
    };
    let order = KeyInFront { tie: Tie::Bytes };
    let threads_count = writes_shape.writers_count;
    let dir = scratch_dir(outputs);
    let kept = journal.as_mut();
    let done = sort_all(job, threads_count, (&source, &sink), &order, dir, kept)?;
    let (rows_in, rows_out) = (input.rows_count(), output.rows_written());
    if wanted_rows.is_some() {
        check_rows(rows_in, rows_out)?;
    }
    if let Some(journal) = &mut journal {
        journal.count(rows_in, rows_out);
    }
    let summary = TableSummary::published(job, (input, sample_bytes), output, done, journal)?;
    Ok(TableSummary {
        rows_in,
        rows_out,
        ..summary
    })
}
