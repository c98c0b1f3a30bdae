//! Joins two tables by columns with equal values.
//!
//! Contract: each left row is paired with each right row that has an equal key. Nulls never match;
//! 0.0 equals -0.0, and all NaNs are equal. [`JoinKind`] defines what happens to rows without a
//! partner. With [`AsOf`], a left row gets at most one partner: the last right row with the same
//! key that is not later.
//!
//! The output has the columns of the left table, followed by those of the right table without its
//! key columns. It is in the order of the key, nulls last. Within a key, rows are in the order of
//! the left input, and the partners of a row in the order of the right input. Right rows without a
//! partner follow. A key that contains a null never matches; for such a key, right rows come before
//! left ones. So the output depends only on the inputs, not on memory or threads.
//!
//! The join is one sort (a sort-merge join: Graefe, "Query Evaluation Techniques for Large
//! Databases", ACM Computing Surveys 1993, section 5.2). The engine sorts the rows of both tables
//! together ([`source`]); within each key, the rows of the right table come first. They are paired
//! as they come out of the sort ([`sink`]). If a key has more right rows than memory holds, they go
//! to scratch once more ([`held`]).
//!
//! With [`Join::is_unordered`], a right table that fits into a part of the memory is loaded, and
//! left rows are looked up as they are read ([`lookup`]). The output is then in the order of the
//! left table. If the right table does not fit, or if right rows without a partner are needed, the
//! join sorts.
//!
//! Bounds: one read of the needed columns, and one of the key columns for the sample. The rows of
//! both tables go to scratch and back if they do not fit. Time grows with the rows of both inputs
//! and of the output.

mod comm;
mod held;
mod lookup;
mod plan;
mod sink;
mod source;
mod types;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;

use outcore::Job;
use outcore::key::column::{column_name, quoted};
use outcore::sort::lines::rows::{RowSink, RowSource};
use outcore::sort::lines::{RowJournal, RowOption};
use outcore_io::memory::Budget;
use outcore_io::{Error, Result};

use super::copy::copy_changed;
use super::journal::{self, scratch_dir};
use super::room::{Room, Sorts};
use super::rows_out::part_bytes;
use super::sort::{create, read_shape, sort_all};
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

/// Which rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JoinKind {
    /// Only rows with a partner.
    #[default]
    Inner,
    /// All left rows; without a partner, the right columns are null.
    Left,
    /// All right rows; without a partner, the left columns are null.
    Right,
    /// All rows of both.
    Full,
    /// Left rows with a partner, once each, without right columns.
    Semi,
    /// Left rows without a partner.
    Anti,
}

impl JoinKind {
    /// All kinds with their names.
    pub const ALL: [(&'static str, JoinKind); 6] = [
        ("inner", JoinKind::Inner),
        ("left", JoinKind::Left),
        ("right", JoinKind::Right),
        ("full", JoinKind::Full),
        ("semi", JoinKind::Semi),
        ("anti", JoinKind::Anti),
    ];

    /// Returns the kind with this name.
    ///
    /// # Errors
    /// Usage: an unknown name.
    pub fn parse(name: &str) -> Result<Self> {
        let known = JoinKind::ALL.iter().find(|(known, _)| *known == name);
        known.map(|(_, kind)| *kind).ok_or_else(|| {
            let hint = match name {
                "asof" => "the option asof joins each row with the nearest earlier one: it takes the column of times",
                "outer" | "full_outer" | "fullouter" => "write full; it keeps the rows of both tables",
                _ => "the kinds are inner, left, right, full, semi and anti",
            };
            Error::usage(JOIN, format!("`{name}` is not a kind of join")).hint(hint)
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

/// A column of the left table, and the column of the right table that it is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnPair {
    /// The left table's column.
    pub left: String,
    /// The right table's column.
    pub right: String,
}

impl ColumnPair {
    /// Reads `NAME` for both columns, or `LEFT=RIGHT`, each as in [`column_name`].
    ///
    /// # Errors
    /// Usage: a missing name.
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
        if left.ends_with(' ') || right.starts_with([' ', '=']) {
            return Err(
                Error::usage(JOIN, format!("`{text}` is an expression, not two columns"))
                    .hint("write NAME, or LEFT=RIGHT without blanks if the names differ"),
            );
        }
        if left.is_empty() || right.is_empty() {
            return Err(Error::usage(
                JOIN,
                format!("`{text}` does not name a column of each table"),
            )
            .hint("write NAME, or LEFT=RIGHT if the names differ"));
        }
        Ok(ColumnPair {
            left: left.to_owned(),
            right: column_name(right),
        })
    }
}

/// Chooses the partner by time, or by any other number: the last row that is not later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AsOf {
    /// The compared columns.
    pub columns: ColumnPair,
    /// The largest distance of a partner: a number, or a duration such as `5min` for columns of
    /// times.
    pub tolerance: Option<String>,
}

/// Which rows are paired, and what is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Join {
    /// The columns that must be equal.
    pub on: Vec<ColumnPair>,
    /// Which rows are written.
    pub kind: JoinKind,
    /// The as-of condition, if any.
    pub asof: Option<AsOf>,
    /// The suffix for a right column whose name the left table also has.
    pub suffix: String,
    /// The columns of the output; all if `None`.
    pub columns: Option<Vec<String>>,
    /// Whether rows may come in any order.
    pub is_unordered: bool,
    /// Whether each right row is the partner of at most one left row, and nulls are equal to each
    /// other. Only for [`JoinKind::Semi`] and [`JoinKind::Anti`].
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

impl Join {
    /// The options in words.
    fn said(&self) -> Vec<RowOption> {
        let pair = |pair: &ColumnPair| format!("{}={}", pair.left, pair.right);
        let on = self.on.iter().map(pair).collect::<Vec<_>>();
        let asof = self.asof.as_ref().map_or(String::new(), |asof| {
            let tolerance = asof.tolerance.as_deref().unwrap_or("any distance");
            format!("{}, {tolerance}", pair(&asof.columns))
        });
        vec![
            journal::option("keys", on.join(",")),
            journal::option("kind of join", format!("{:?}", self.kind).to_lowercase()),
            journal::option("column of time", asof),
            journal::option("suffix", &self.suffix),
            journal::option("columns of the output", format!("{:?}", self.columns)),
        ]
    }
}

/// Joins the left table, which `ends` reads, with the right one.
///
/// # Errors
/// As [`sort`](super::sort()). Usage: a missing column; key types that cannot be compared; a
/// repeated column name; an as-of join of a kind other than inner or left. Also several outputs,
/// because the number of rows is not known in advance.
pub fn join(
    job: &Job,
    ends: &TableEnds<'_>,
    (right, right_reads): (&[PathBuf], &InputOptions),
    wanted: &Join,
) -> Result<TableSummary> {
    if wanted.is_unordered && job.options.resume.is_some() {
        let cause = "a join in any order looks rows up in memory, and keeps no journal";
        return Err(Error::usage("resume", cause)
            .hint("ask for rows in the order of the key, or do not resume"));
    }
    let mut options = wanted.said();
    let columns = &right_reads.columns;
    options.push(journal::option(
        "columns on the right",
        format!("{columns:?}"),
    ));
    let journal = journal::begin(job, ends, "join of tables", options)?;
    let job = &journal::job(job, journal.as_ref());
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
    TableInput::check_metadata(&tables, &reading)?;
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
    let done = by_sort(job, ends.outputs, &inputs, &plan, &room(&inputs), journal);
    done.map_err(|error| {
        let known = || Ok([inputs[0].looked_through()?, inputs[1].looked_through()?]);
        Room::named(error, || Ok(room(&known()?)))
    })
}

/// Sorts the rows of both tables together, and pairs those with equal keys.
fn by_sort(
    job: &Job,
    outputs: &[PathBuf],
    inputs: &[TableInput; 2],
    plan: &Plan,
    room: &Room<'_>,
    mut journal: Option<RowJournal>,
) -> Result<TableSummary> {
    room.need.check(job.budget.free_bytes() / 2)?;
    let (reads_shape, writes_shape) = room.shapes();
    let what = room.written()?;
    let file = match journal::claim(job, inputs, outputs, what.1, journal.as_mut())? {
        ControlFlow::Break(done) => return Ok(done),
        ControlFlow::Continue(file) => file,
    };
    let output = create(job, outputs, file, what, (writes_shape, None))?;
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
    };
    let order = JoinKey {
        tail_bytes: plan.tail_bytes,
    };
    let threads_count = writes_shape.writers_count;
    let ends: (&dyn RowSource, &dyn RowSink) = (&source, &sink);
    let kept = journal.as_mut();
    let done = sort_all(job, threads_count, ends, &order, scratch_dir, kept)?;
    let rows_in = inputs.iter().map(TableInput::rows_count).sum();
    let rows_out = output.rows_written();
    if let Some(journal) = &mut journal {
        journal.count(rows_in, rows_out);
    }
    let spilled_bytes = sink.scratch.peak_bytes();
    inputs.iter().try_for_each(TableInput::check_unchanged)?;
    job.control.begin_phase("publish", 0);
    let lens_bytes = output.publish_kept(journal)?;
    let summary = TableSummary::of_sort(done, (sample_bytes, read_bytes()), lens_bytes);
    Ok(TableSummary {
        rows_in,
        rows_out,
        scratch_bytes: summary.scratch_bytes + spilled_bytes,
        ..summary
    })
}

/// Looks the left rows up in the right table, if the kind of join and the memory allow it.
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
