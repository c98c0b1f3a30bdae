//! Groups rows, and computes one row of aggregates per group, in the order of the key.
//!
//! Contract: rows with equal keys form a group. Nulls are equal to each other, all NaNs are equal,
//! and 0.0 equals -0.0 (inside nested columns, floats are compared by their bits). The output has
//! the key columns and one column per aggregate, sorted by the key. Dictionary columns are compared
//! and written by their values. The output depends only on the input, including its row groups, and
//! not on memory or threads.
//!
//! First, each thread aggregates rows in a small hash table ([`source`]). Then the engine sorts the
//! partial states, and these are merged group by group ([`sink`]). So with few groups hardly
//! anything is sorted. With many groups, the table is dropped after a few thousand rows of a piece.
//!
//! Source: Larson, "Data reduction by partial preaggregation" (ICDE 2002), for the table before the
//! sort.
//!
//! Bounds: one read of the columns, and one of the key columns for the sample; partial states go to
//! scratch and back if they do not fit.

mod aggregate;
mod between;
mod numbers;
mod operand;
mod plan;
mod sink;
mod source;
mod states;
mod table;
mod to;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use outcore::Job;
use outcore::key::sort_key::Tie;
use outcore::sort::lines::RowJournal;
use outcore_io::Result;

use super::journal::{self, scratch_dir};
use super::room::{Room, RowCosts, Sorts};
use super::rows_out::part_bytes;
use super::sort::{KeyInFront, create, open, sort_all};
use super::{TableEnds, TableSummary};
use crate::input::TableInput;
use crate::output::OutputOptions;
use crate::rows::KeyColumn;
use plan::Plan;
use sink::GroupSink;
use source::{GroupSource, HELD_BYTES};
use to::Few;

const GROUP: &str = "group rows";

pub(super) use aggregate::sum_type;
pub use aggregate::{Aggregate, AggregateKind};
pub use operand::Operand;

/// Groups the rows of a table by `keys`, computes `aggregates` for each group, and writes the
/// groups in the order of the keys. Without keys, all rows form one group, which exists even for a
/// table without rows.
///
/// # Errors
/// As [`sort`](super::sort()). Usage: an aggregate that does not exist for a column's type; a sum
/// that overflows its type; several outputs, because the number of rows is not known in advance.
pub fn group_by(
    job: &Job,
    ends: &TableEnds<'_>,
    keys: &[KeyColumn],
    aggregates: &[Aggregate],
) -> Result<TableSummary> {
    let by = keys.iter().map(KeyColumn::to_string);
    let options = vec![
        journal::option("groups", by.collect::<Vec<_>>().join(",")),
        journal::option("aggregates", said_of(aggregates)),
    ];
    let journal = journal::begin(job, ends, "groups of a table", options)?;
    let job = &journal::job(job, journal.as_ref());
    let whole = open(job, ends)?;
    let plan = Plan::of(whole.schema(), keys, aggregates)?;
    let input = whole.narrowed(&plan.reads, whole.job())?;
    let mut writes = OutputOptions {
        sorted_by: keys.to_vec(),
        ..ends.writes.clone()
    };
    if let [key] = keys {
        // No value of this column repeats.
        writes.without_dictionary.push(key.name.clone());
    }
    let writes = writes.with_long(plan.long_names(&input));
    let room = |input: &TableInput| Room {
        job,
        need: input.need(),
        written: Some((&plan.schema, &writes)),
        costs: costs_of(&plan, input),
        data_bytes: input.stored_bytes(),
        sorts: Sorts::Whole,
    };
    let done = grouped(job, ends.outputs, &input, &plan, &room(&input), journal);
    done.map_err(|error| Room::named(error, || Ok(room(&input.looked_through()?))))
}

fn costs_of(plan: &Plan, input: &TableInput) -> RowCosts {
    RowCosts {
        held_bytes: HELD_BYTES,
        ..plan.costs(input)
    }
}

/// Aggregates in words.
fn said_of(aggregates: &[Aggregate]) -> String {
    let said = aggregates.iter().map(|aggregate| {
        let operands = aggregate.of.iter().chain(&aggregate.by);
        let operands = operands.map(Operand::to_string).collect::<Vec<_>>();
        let (name, kind) = (&aggregate.name, aggregate.kind);
        format!("{name} = {kind:?}({})", operands.join(", "))
    });
    said.collect::<Vec<_>>().join(", ")
}

/// Writes the groups of `input`.
fn grouped(
    job: &Job,
    outputs: &[PathBuf],
    input: &TableInput,
    plan: &Plan,
    room: &Room<'_>,
    mut journal: Option<RowJournal>,
) -> Result<TableSummary> {
    let (reads_shape, writes_shape) = room.shapes();
    let what = room.written()?;
    let file = match journal::claim(job, [input], outputs, what.1, journal.as_mut())? {
        ControlFlow::Break(done) => return Ok(done),
        ControlFlow::Continue(file) => file,
    };
    let output = create(job, outputs, file, what, (writes_shape, None))?;
    job.control.begin_phase("sample", 0);
    let source = GroupSource::open(input, plan, reads_shape)?;
    let sample_bytes = input.read_bytes();
    let sink = GroupSink {
        part_bytes: part_bytes(&output, writes_shape, source.amount()),
        to: &output,
        plan,
        shape: writes_shape,
    };
    let order = KeyInFront { tie: Tie::Bytes };
    let threads_count = writes_shape.writers_count;
    let dir = scratch_dir(outputs);
    let kept = journal.as_mut();
    let done = sort_all(job, threads_count, (&source, &sink), &order, dir, kept)?;
    if plan.keys.is_empty() && output.rows_written() == 0 {
        sink.write_empty(output.section_behind())?;
    }
    let (rows_in, rows_out) = (input.rows_count(), output.rows_written());
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

/// Returns the distinct values of `keys` in order, each with its number of rows in a last column;
/// at most `groups_max` of them.
///
/// # Errors
/// As [`group_by`]. Usage: there are more groups.
pub(super) fn few_groups(
    job: &Job,
    whole: &TableInput,
    (keys, groups_max): (&[KeyColumn], usize),
    scratch_dir: &Path,
) -> Result<Vec<RecordBatch>> {
    // The name is longer than the name of any key column, so no column has it.
    let name = keys.iter().map(|key| key.name.as_str()).collect::<String>() + " count";
    let counted = Aggregate {
        name,
        ..Aggregate::count()
    };
    let plan = Plan::of(whole.schema(), keys, &[counted])?;
    let input = whole.narrowed(&plan.reads, whole.job())?;
    let room = |input: &TableInput| Room {
        job,
        need: input.need(),
        written: None,
        costs: costs_of(&plan, input),
        data_bytes: input.stored_bytes(),
        sorts: Sorts::Whole,
    };
    let done = few_of(job, &input, &plan, groups_max, scratch_dir, &room(&input));
    done.map_err(|error| Room::named(error, || Ok(room(&input.looked_through()?))))
}

fn few_of(
    job: &Job,
    input: &TableInput,
    plan: &Plan,
    groups_max: usize,
    scratch_dir: &Path,
    room: &Room<'_>,
) -> Result<Vec<RecordBatch>> {
    let (reads_shape, writes_shape) = room.shapes();
    job.control.begin_phase("sample", 0);
    let source = GroupSource::open(input, plan, reads_shape)?;
    let few = Few::new(groups_max);
    let sink = GroupSink {
        part_bytes: source.amount().0.max(1),
        to: &few,
        plan,
        shape: writes_shape,
    };
    let order = KeyInFront { tie: Tie::Bytes };
    let threads_count = reads_shape.readers_count;
    let dir = scratch_dir.to_path_buf();
    sort_all(job, threads_count, (&source, &sink), &order, dir, None)?;
    Ok(few.into_batches())
}
