//! Two tables joined by the columns that their rows have in common.
//!
//! Contract: a row of the left table goes together with each row of the right table that has an
//! equal key. Nulls are equal to nothing; 0.0 and -0.0 are equal, and so are all NaNs. [`JoinKind`]
//! says what becomes of rows that have no partner. With [`AsOf`] a left row gets one partner
//! instead: of the right rows with its key, the last that is not later than itself.
//!
//! The output has the columns of the left table, then those of the right table without its key
//! columns. It is in the order of the key, nulls last; rows of a key are in the order of the left
//! input, the partners of a row in the order of the right input, and right rows without a partner
//! after them. A null is equal to nothing: of rows with one in the key, those of the right table
//! come before those of the left one. So it depends on the inputs alone, not on memory or threads.
//!
//! One sort through the engine does it all (a sort-merge join: Graefe, "Query Evaluation Techniques
//! for Large Databases", ACM Computing Surveys 1993, section 5.2): the rows of both tables are
//! sorted together ([`source`]), those of the right table first within each key, and are paired as
//! they come out ([`sink`]). A key with more rows on the right than the memory holds goes to
//! scratch once more ([`held`]).
//!
//! With [`Join::is_unordered`] a right table that fits into a part of the memory is kept there
//! instead, and the left rows are looked up in it as they are read ([`lookup`]): then the output is
//! in the order of the left table. Where it does not fit, or right rows without a partner are
//! wanted, all is sorted.
//!
//! Bounds: one read of the columns that are needed, one more of those of the key for the sample;
//! both tables' rows to scratch and back as far as they do not fit. Time grows with the rows of
//! both inputs and of the output.

mod comm;
mod held;
mod lookup;
mod plan;
mod sink;
mod source;
mod types;

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use outcore::Job;
use outcore::key::column::{column_name, quoted};
use outcore_io::memory::Budget;
use outcore_io::{Error, Result};

use super::copy::copy_changed;
use super::room::{Room, Sorts};
use super::rows_out::part_bytes;
use super::sort::{create, read_shape, scratch_dir, sort_all};
use super::{RightTable, TableEnds, TableSummary, open_both};
use crate::input::{InputOptions, TableInput};
use crate::output::OutputOptions;
use held::Scratch;
use lookup::Right;
use plan::{JoinKey, Plan};
use sink::JoinSink;
use source::JoinSource;

const JOIN: &str = "join tables";

pub use comm::{CommColumn, comm};

/// What becomes of rows without a partner, and of those with one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JoinKind {
    /// Only rows that have a partner are written.
    #[default]
    Inner,
    /// All left rows; where there is no partner, its columns are null.
    Left,
    /// All right rows.
    Right,
    /// All rows of both.
    Full,
    /// Left rows that have a partner, once each, without its columns.
    Semi,
    /// Left rows that have none.
    Anti,
}

impl JoinKind {
    /// All of them with their names.
    pub const ALL: [(&'static str, JoinKind); 6] = [
        ("inner", JoinKind::Inner),
        ("left", JoinKind::Left),
        ("right", JoinKind::Right),
        ("full", JoinKind::Full),
        ("semi", JoinKind::Semi),
        ("anti", JoinKind::Anti),
    ];

    /// The kind of a name.
    ///
    /// # Errors
    /// Usage: there is none of that name.
    pub fn parse(name: &str) -> Result<Self> {
        let known = JoinKind::ALL.iter().find(|(known, _)| *known == name);
        known.map(|(_, kind)| *kind).ok_or_else(|| {
            Error::usage(JOIN, format!("`{name}` is not a kind of join"))
                .hint("the kinds are inner, left, right, full, semi and anti")
        })
    }

    fn keeps_left(self) -> bool {
        matches!(self, JoinKind::Left | JoinKind::Full | JoinKind::Anti)
    }

    fn keeps_right(self) -> bool {
        matches!(self, JoinKind::Right | JoinKind::Full)
    }

    /// Whether columns of the right table are written.
    fn writes_right(self) -> bool {
        !matches!(self, JoinKind::Semi | JoinKind::Anti)
    }
}

/// A column of the left table and the column of the right table that it is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnPair {
    /// Of the left table.
    pub left: String,
    /// Of the right table.
    pub right: String,
}

impl ColumnPair {
    /// Columns as people write them: `NAME` for both, or `LEFT=RIGHT`, each as in [`column_name`].
    ///
    /// # Errors
    /// Usage: a name is missing.
    pub fn parse(text: &str) -> Result<Self> {
        if let Some((left, rest)) = quoted(text) {
            let right = match rest.strip_prefix('=') {
                Some(right) if !right.is_empty() => Some(column_name(right)),
                _ => rest.is_empty().then(|| left.clone()),
            };
            if let Some(right) = right {
                return Ok(ColumnPair { left, right });
            }
        }
        let (left, right) = text.split_once('=').unwrap_or((text, text));
        if left.is_empty() || right.is_empty() {
            return Err(Error::usage(
                JOIN,
                format!("`{text}` does not name a column of each table"),
            )
            .hint("write NAME, or LEFT=RIGHT where the tables have different names"));
        }
        Ok(ColumnPair {
            left: left.to_owned(),
            right: column_name(right),
        })
    }
}

/// Partners by time, or by any other number: the last row that is not later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AsOf {
    /// The columns that are compared.
    pub columns: ColumnPair,
    /// How far back a partner may lie: a number, or a duration as in `5min` for columns of times.
    pub tolerance: Option<String>,
}

/// Which rows go together, and what is written of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Join {
    /// The columns that are equal in rows that go together.
    pub on: Vec<ColumnPair>,
    /// What becomes of the others.
    pub kind: JoinKind,
    /// Partners by time.
    pub asof: Option<AsOf>,
    /// What is appended to the name of a right column where the left table has a column of that
    /// name.
    pub suffix: String,
    /// The columns of the output, of all that there would be.
    pub columns: Option<Vec<String>>,
    /// Rows may come in any order.
    pub is_unordered: bool,
    /// Each right row is the partner of one left row at most, and nulls are equal to each other.
    /// Only of [`JoinKind::Semi`] and [`JoinKind::Anti`].
    pub is_of_multisets: bool,
}

impl Default for Join {
    fn default() -> Self {
        Join {
            on: Vec::new(),
            kind: JoinKind::Inner,
            asof: None,
            suffix: "_right".to_owned(),
            columns: None,
            is_unordered: false,
            is_of_multisets: false,
        }
    }
}

/// Joins the table that `ends` reads, the left one, with the right one: its files, and what is read
/// of them.
///
/// # Errors
/// As [`sort`](super::sort()); usage: no such column, keys of types that cannot be compared, two
/// columns of one name, an as-of join of a kind other than inner or left, several outputs, since
/// the number of rows is not known in advance.
pub fn join(
    job: &Job,
    ends: &TableEnds<'_>,
    (right, right_reads): (&[PathBuf], &InputOptions),
    wanted: &Join,
) -> Result<TableSummary> {
    let reading = Job {
        budget: Budget::new(job.budget.free_bytes() / 2),
        ..job.clone()
    };
    let right = RightTable {
        inputs: right,
        reads: right_reads,
    };
    let tables = open_both(ends, right, |paths, reads| {
        TableInput::open(&reading, paths, reads)
    })?
    .inputs;
    let plan = Plan::of([tables[0].schema(), tables[1].schema()], wanted)?;
    let narrowed = |side: usize| tables[side].narrowed(&plan.sides[side].reads, &reading);
    let inputs = [narrowed(0)?, narrowed(1)?];
    if wanted.is_unordered
        && let Some(done) = by_lookup(job, ends, &inputs, &plan)?
    {
        return Ok(done);
    }
    let writes = OutputOptions {
        sorted_by: plan.sorted_by.clone(),
        ..ends.writes.clone()
    };
    let writes = writes.with_long(plan.long_names(&inputs));
    let room = |inputs: &[TableInput; 2]| {
        let [left, right] = [inputs[0].need(), inputs[1].need()];
        Room {
            job,
            need: left.and(right),
            written: Some((&plan.schema, &writes)),
            costs: plan.costs(inputs),
            data_bytes: inputs[0].stored_bytes() + inputs[1].stored_bytes(),
            sorts: Sorts::Whole,
        }
    };
    let done = by_sort(job, ends.outputs, &inputs, &plan, &room(&inputs));
    done.map_err(|error| {
        let known = || Ok([inputs[0].looked_through()?, inputs[1].looked_through()?]);
        Room::named(error, || Ok(room(&known()?)))
    })
}

/// Sorts the rows of both tables, and pairs those of a key.
fn by_sort(
    job: &Job,
    outputs: &[PathBuf],
    inputs: &[TableInput; 2],
    plan: &Plan,
    room: &Room<'_>,
) -> Result<TableSummary> {
    room.need.check(job.budget.free_bytes() / 2)?;
    let (reads_shape, writes_shape) = room.shapes();
    let what = room.written()?;
    let output = create(job, outputs, what, (writes_shape, None))?;
    job.control.begin_phase("sample", 0);
    let source = JoinSource::open(inputs, plan, reads_shape)?;
    let read_bytes = || inputs.iter().map(TableInput::read_bytes).sum::<u64>();
    let sample_bytes = read_bytes();
    let scratch_dir = scratch_dir(outputs);
    let sink = JoinSink {
        part_bytes: part_bytes(&output, writes_shape, source.amount()),
        output: &output,
        plan,
        shape: writes_shape,
        scratch: Scratch::new(job, &scratch_dir),
        written: AtomicU64::new(0),
    };
    let order = JoinKey {
        tail_bytes: plan.tail_bytes,
    };
    let threads_count = writes_shape.writers_count;
    let done = sort_all(job, threads_count, (&source, &sink), &order, scratch_dir)?;
    let rows_out = sink.written.into_inner();
    let spilled_bytes = sink.scratch.peak_bytes();
    inputs.iter().try_for_each(TableInput::check_unchanged)?;
    job.control.begin_phase("publish", 0);
    let lens_bytes = output.publish()?;
    let summary = TableSummary::of_sort(done, (sample_bytes, read_bytes()), lens_bytes);
    Ok(TableSummary {
        rows_in: inputs.iter().map(TableInput::rows_count).sum(),
        rows_out,
        scratch_bytes: summary.scratch_bytes + spilled_bytes,
        ..summary
    })
}

/// Looks the left rows up in the right table, if that can be done with this kind of join and in
/// this memory.
fn by_lookup(
    job: &Job,
    ends: &TableEnds<'_>,
    inputs: &[TableInput; 2],
    plan: &Plan,
) -> Result<Option<TableSummary>> {
    if plan.kind.keeps_right() || plan.asof.is_some() {
        return Ok(None);
    }
    let started = Instant::now();
    let [left, right] = inputs;
    let shape = read_shape(job, right.need(), usize::MAX);
    let Some(table) = Right::load(job, right, plan, shape)? else {
        return Ok(None);
    };
    let to = (ends.outputs, &plan.schema, ends.writes);
    let copied = copy_changed(job, left, to, &table)?;
    right.check_unchanged()?;
    let done = copied.publish()?;
    Ok(Some(TableSummary {
        rows_in: left.rows_count() + right.rows_count(),
        read_bytes: done.read_bytes + right.read_bytes(),
        seconds: started.elapsed().as_secs_f64(),
        ..done
    }))
}
