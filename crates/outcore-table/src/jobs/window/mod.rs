//! Columns that depend on a row's place in its group: its number, its rank, the values of rows
//! before and after it.
//!
//! Contract: rows whose columns of the groups are equal are a group, as in
//! [`group_by`](super::group_by): nulls are equal to each other, so are all NaNs, and 0.0 and -0.0.
//! The rows of a group are in the order of further columns, and rows that are equal in these, too,
//! in the order of the input. The output has all columns, and after them one for each
//! [`WindowFunction`]; it is in the order of the groups, then of their rows. It depends on the
//! input and on nothing else: not on memory, not on threads.
//!
//! Rows are sorted through the engine ([`plan`] says how a row is laid out) with each group in one
//! part, and a part goes through its rows once ([`sink`], [`columns`]).
//!
//! Source: Leis, Kundhikanjana, Kemper, Neumann, "Efficient Processing of Window Functions in
//! Analytical SQL Queries" (VLDB 2015), section 3, of which these are the functions whose frame
//! needs no tree.
//!
//! Bounds: one read of the table, one more of the columns of the groups for the sample; all rows to
//! scratch and back as far as they do not fit. A group is worked on by one thread. Rows that `lag`
//! and `lead` look at are held, by each thread.

mod columns;
mod extreme;
mod function;
mod plan;
mod rank;
mod sink;

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;

use outcore::Job;
use outcore::key::sort_key::Tie;
use outcore::sort::lines::rows::RowSource;
use outcore_io::Result;

use super::room::{Room, Sorts};
use super::rows_in::{RowKeys, RowsIn};
use super::rows_out::part_bytes;
use super::sort::{KeyInFront, create, open, scratch_dir, sort_all};
use super::{TableEnds, TableSummary, check_rows};
use crate::input::TableInput;
use crate::output::OutputOptions;
use crate::rows::KeyColumn;
use plan::Plan;
use sink::WindowSink;

pub use function::{WindowColumn, WindowFunction};

const WINDOW: &str = "compute window columns";
/// Rows that are looked at may take this part of the memory, where none of them is long.
const REACH_SHARE: u64 = 64;

/// What is wanted of the rows of groups.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Window {
    /// The columns of the groups; without any, all rows are one group.
    pub by: Vec<KeyColumn>,
    /// The order of the rows of a group, the most significant column first; without any, that of
    /// the input.
    pub order: Vec<KeyColumn>,
    /// The columns that are computed, in the order in which they stand in the output.
    pub columns: Vec<WindowColumn>,
    /// How many of the first rows of each group are written; all if not given. What is computed is
    /// computed of all rows.
    pub first: Option<u64>,
}

/// Adds columns to a table, which are computed of each row's group.
///
/// # Errors
/// As [`sort`](super::sort()); usage: a function of a type that has none, a cumulative sum that its
/// type does not hold, two columns of one name, with [`Window::first`] several outputs. Memory:
/// rows that are looked at lie so far away that those between do not fit.
pub fn window(job: &Job, ends: &TableEnds<'_>, wanted: &Window) -> Result<TableSummary> {
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
    // Where there is no room for as many rows as are looked at, they may be shorter than the
    // longest.
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
    );
    done.map_err(|error| {
        let known = || {
            let known = input.looked_through()?;
            Ok(room(&known, plan.reach_of(&known)))
        };
        Room::named(error, known)
    })
}

/// The columns of `input` and those that are computed, written: so many rows, if that is known.
fn windowed(
    job: &Job,
    outputs: &[PathBuf],
    input: &TableInput,
    plan: &Plan,
    wanted_rows: Option<u64>,
    room: &Room<'_>,
) -> Result<TableSummary> {
    let (reads_shape, writes_shape) = room.shapes();
    let what = room.written()?;
    let output = create(job, outputs, what, (writes_shape, wanted_rows))?;
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
        written: AtomicU64::new(0),
    };
    let order = KeyInFront { tie: Tie::Bytes };
    let threads_count = writes_shape.writers_count;
    let dir = scratch_dir(outputs);
    let done = sort_all(job, threads_count, (&source, &sink), &order, dir)?;
    let rows_out = sink.written.into_inner();
    if wanted_rows.is_some() {
        check_rows(done.lines_in, rows_out)?;
    }
    let summary = TableSummary::published(job, (input, sample_bytes), output, done)?;
    Ok(TableSummary {
        rows_out,
        ..summary
    })
}
