//! Groups of rows, and a row of aggregates for each, in the order of the key.
//!
//! Contract: rows of equal keys are a group. Nulls are equal to each other, so are all NaNs, and
//! 0.0 and -0.0 (within nested columns floats go by their bits). The output has the columns of the
//! key and one a result, sorted by the key; dictionary columns come out as what they stand for. It
//! depends on the input, its row groups included, and on nothing else: not on memory, not on
//! threads.
//!
//! First each thread puts rows together in a small table ([`source`]); then partial states go
//! through the engine's sort of rows, and are put together group by group ([`sink`]). So where
//! groups are few, hardly anything is sorted, and where they are many, the table is given up after
//! some thousand rows of a piece.
//!
//! Source: Larson, "Data reduction by partial preaggregation" (ICDE 2002), for the table in front
//! of the sort.
//!
//! Bounds: one read of the columns, one more of those of the key for the sample; partial states to
//! scratch and back as far as they do not fit.

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

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::RecordBatch;
use outcore::Job;
use outcore::key::sort_key::Tie;
use outcore_io::Result;

use super::room::{Room, Sorts};
use super::rows_out::part_bytes;
use super::sort::{KeyInFront, create, open, scratch_dir, sort_all};
use super::{TableEnds, TableSummary};
use crate::input::TableInput;
use crate::output::OutputOptions;
use crate::rows::KeyColumn;
use plan::Plan;
use sink::GroupSink;
use source::GroupSource;
use to::Few;

const GROUP: &str = "group rows";

pub(super) use aggregate::sum_type;
pub use aggregate::{Aggregate, AggregateKind};
pub use operand::Operand;

/// Groups the rows of a table by `keys`, in whose order groups come, and makes `aggregates` of
/// each. Without keys all rows are one group, which is there for a table without rows too.
///
/// # Errors
/// As [`sort`](super::sort()); usage: an aggregate that a column's type does not have, a
/// sum that its type does not hold, several outputs, since the number of rows is not known in
/// advance.
pub fn group_by(
    job: &Job,
    ends: &TableEnds<'_>,
    keys: &[KeyColumn],
    aggregates: &[Aggregate],
) -> Result<TableSummary> {
    let whole = open(job, ends)?;
    let plan = Plan::of(whole.schema(), keys, aggregates)?;
    let input = whole.narrowed(&plan.reads, whole.job())?;
    let mut writes = OutputOptions {
        sorted_by: keys.to_vec(),
        ..ends.writes.clone()
    };
    if let [key] = keys {
        // No value of it comes twice.
        writes.without_dictionary.push(key.name.clone());
    }
    let writes = writes.with_long(plan.long_names(&input));
    let room = |input: &TableInput| Room {
        job,
        need: input.need(),
        written: Some((&plan.schema, &writes)),
        costs: plan.costs(input),
        data_bytes: input.stored_bytes(),
        sorts: Sorts::Whole,
    };
    let done = grouped(job, ends.outputs, &input, &plan, &room(&input));
    done.map_err(|error| Room::named(error, || Ok(room(&input.looked_through()?))))
}

/// The groups of `input`, written.
fn grouped(
    job: &Job,
    outputs: &[PathBuf],
    input: &TableInput,
    plan: &Plan,
    room: &Room<'_>,
) -> Result<TableSummary> {
    let (reads_shape, writes_shape) = room.shapes();
    let what = room.written()?;
    let output = create(job, outputs, what, (writes_shape, None))?;
    job.control.begin_phase("sample", 0);
    let source = GroupSource::open(input, plan, reads_shape)?;
    let sample_bytes = input.read_bytes();
    let sink = GroupSink {
        part_bytes: part_bytes(&output, writes_shape, source.amount()),
        to: &output,
        plan,
        shape: writes_shape,
        written: AtomicU64::new(0),
    };
    let order = KeyInFront { tie: Tie::Bytes };
    let threads_count = writes_shape.writers_count;
    let dir = scratch_dir(outputs);
    let done = sort_all(job, threads_count, (&source, &sink), &order, dir)?;
    if plan.keys.is_empty() && sink.written.load(Ordering::Relaxed) == 0 {
        sink.write_empty(output.section_behind())?;
    }
    let rows_out = sink.written.into_inner();
    let summary = TableSummary::published(job, (input, sample_bytes), output, done)?;
    Ok(TableSummary {
        rows_in: input.rows_count(),
        rows_out,
        ..summary
    })
}

/// The values of `keys` in order, each with the number of its rows in a last column; at most
/// `groups_max` of them.
///
/// # Errors
/// As [`group_by`]; usage: there are more.
pub(super) fn few_groups(
    job: &Job,
    whole: &TableInput,
    (keys, groups_max): (&[KeyColumn], usize),
    scratch_dir: &Path,
) -> Result<Vec<RecordBatch>> {
    // A name that no column of the key has, since it is longer.
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
        costs: plan.costs(input),
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
        written: AtomicU64::new(0),
    };
    let order = KeyInFront { tie: Tie::Bytes };
    let threads_count = reads_shape.readers_count;
    let dir = scratch_dir.to_path_buf();
    sort_all(job, threads_count, (&source, &sink), &order, dir)?;
    Ok(few.into_batches())
}
